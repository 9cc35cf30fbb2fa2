"""`make bench`: everything that is claimed of speed and memory, measured side by side in one run."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import (
    calibration,
    dispatches,
    first_request,
    machine,
    memory,
    page,
    postgres_trips,
    report,
    requests,
    round_trips,
    scale,
    spawn,
    startup,
    versions,
)
from bench.report import Section
from bench.round_trips import FLOORS, FORMS, OURS, PEERS, PEERS_PYTHON, ROOT, ROUNDS, SECONDS, TARGETS, Ratios

PAGE, PLOTS = ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "benchmarks"

ABOUT_FLOORS = """
Raw SQLite is the floor, in three forms; all are durable and none reads, checks, serialises or runs anything. With
*two rules of four statements a turn*, each of a round trip's four rules deletes the molecule that it consumes,
inserts the one that it produces, inserts a step, and inserts the message or marks it as taken: the soup and the log
of rules that Parley keeps too. With *one writer thread* conversations that are tasks of their own fire the same rules:
each hands a rule to the thread, which commits all that wait, and goes on when it is on the disk. With *four statements
a turn* there are no rules: a message, a line in a log of turns, and who waits for what. `bench/peers/raw_sqlite.py` has
all three; the plot calls them *rules*, *rules, one writer* and *lean*.

Parley by itself is one process, and one core. The rows of two processes are Parley too: two owners share the bus and
the conversations, each with a job of its own, as two sessions of `parley run` do.

A peer that can't run on the machine is left out: DBOS 3.3 needs SQLite 3.42 or newer.
"""
AIMED = ["", "parley", "two processes", "at least", "reached"]
AIMS = """
The aims are stated for one process; two are shown beside it. A share of what raw SQLite makes is stated against each
floor. Those with rules are what the aims were set with: a transaction a turn for one conversation, one writer thread
for a thousand. The lean one is the least that any durable round trip can do.
"""


AGAINST = "compare with another version of Parley in the same run, print that, and measure nothing else"
CAGE = """
What a verified cage adds to a plain start of the same command: at most 100 ms are aimed at. The launcher, which is gone
when the agent runs, may take 10 MB.
"""


MEMORY = f"""
A recall in a memory of a hundred thousand decisions may take {memory.MOST_MS:g} ms.
"""


@dataclass(frozen=True)
class Results:
    """All that was measured."""

    rates: list[dict[str, Any]]
    ratios: Ratios
    growth: list[dict[str, Any]]
    others: list[dict[str, Any]]
    job: dict[str, Any]
    starts: list[dict[str, Any]]
    spawn: dict[str, Any]
    request: dict[str, Any]
    requests: list[dict[str, Any]]
    memory: dict[str, Any]
    page: dict[str, Any]
    postgres: list[dict[str, Any]]


def sections(found: Results) -> list[Section]:
    """The page's tables."""
    ratios, forms = found.ratios, [form.name for form in FORMS]
    claims = [
        [
            f"{n} conversations, against {name}",
            *(_share(ratios, form, n, name) for form in forms),
            f"{least:g}",
            _reached(ratios.get((OURS.name, n, name)), least),
        ]
        for n, name, least in TARGETS
    ]
    compared = [
        [name, *(_share(ratios, OURS.name, n, name) for n in ROUNDS)]
        for name in dict.fromkeys(name for _, _, name in ratios)
    ]
    costs = [[g["what"], *map(str, g["at"]), *g["ms"], _two(g["ratio"])] for g in found.growth]
    heads = ["", "early", "late", "ms early", "ms late", "ratio"]
    told = "A sends 1 KiB to B, B wakes, runs a no-op, replies 1 KiB. Medians of the rounds."
    side = "Parley's rate over each peer's, the two measured next to each other"
    return [
        report.pivot(
            "Round trips a second",
            found.rates,
            row="peer",
            column="conversations",
            value="per_second",
            text=told,
        ),
        Section(side, ["peer", *map(str, ROUNDS)], compared, ABOUT_FLOORS),
        Section("What is aimed at", AIMED, claims, AIMS),
        *postgres_trips.sections(found.postgres),
        Section("What must not grow (CPU time for Parley, wall time for the others)", heads, costs),
        Section("Memory and recovery", ["", "measured"], _facts(*found.others)),
        Section("A job of three levels", ["", "measured"], _facts(found.job)),
        Section("An agent behind the boundary", ["", "measured"], _facts(found.spawn), CAGE),
        Section(
            "The first request of a doer and of a lead, in bytes",
            ["", "all", "beyond the user's content", "tools"],
            _asked(found),
        ),
        requests.section(found.requests),
        Section("What the proxy remembers", ["", "measured"], _facts(found.memory), MEMORY),
        *page.sections(found.page),
        Section("Start-up", ["", "ms", "ratio"], [[s["what"], s["ms"], _two(s["ratio"])] for s in found.starts]),
    ]


def _asked(found: Results) -> list[list[Any]]:
    names = {"doer": "a coder of Parley's", "lead": "its lead in EXECUTE", "plain": "Claude Code by itself"}
    return [
        [text, found.request[name]["bytes"], found.request[name]["beyond"], found.request[name]["tools"]]
        for name, text in names.items()
    ]


def _share(ratios: Ratios, form: str, conversations: int, name: str) -> str | None:
    found = ratios.get((form, conversations, name))
    return None if found is None else _two(found)


def _two(number: float) -> str:
    return f"{number:.2f}"


def _reached(ratio: float | None, least: float) -> str | None:
    if ratio is None:
        return None
    return "yes" if ratio >= least else "no"


def _facts(*documents: dict[str, Any]) -> list[list[Any]]:
    return [[key.replace("_", " "), value] for each in documents for key, value in each.items() if key != "what"]


def curves(found: Results) -> dict[str, Any]:
    """What is drawn: ours in colour, the floors dashed."""
    rates = []
    for peer in PEERS:
        rows = [row for row in found.rates if row["peer"] == peer.name]
        x, y = [row["conversations"] for row in rows], [row["per_second"] for row in rows]
        if rows:
            rates.append({"label": peer.drawn, "x": x, "y": y, "ours": peer in FORMS, "floor": peer in FLOORS})
    costs = [
        {
            "label": cost.get("drawn", f"Parley, {cost['what']}"),
            "x": cost["at"],
            "y": cost["ms"],
            "ours": "drawn" not in cost,
        }
        for cost in found.growth
    ]
    return {
        "curves": [
            _curve("round-trips", "Round trips a second", "conversations", rates),
            _curve("growth", "What must not grow, in ms", "turns, or open instances", costs),
        ]
    }


def _curve(name: str, title: str, across: str, series: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "title": title, "xlabel": across, "logx": True, "logy": True, "series": series}


def write(found: Results, facts: dict[str, str | int | float]) -> None:
    """The page, and its plots beside it."""
    intro = (
        "Written by `make bench`. Every figure comes from one run on one machine; compare the ratios.\n\n"
        "How often the human is asked, and what slips through, is on [another page](calibration.md#the-study).\n\n"
        "![Round trips a second](benchmarks/round-trips.svg)\n\n![What must not grow](benchmarks/growth.svg)"
    )
    PAGE.write_text(report.render_markdown("Benchmarks", intro, facts, sections(found)), encoding="utf-8")
    PLOTS.mkdir(parents=True, exist_ok=True)
    data = PLOTS / "results.json"
    data.write_text(json.dumps(curves(found), indent=1) + "\n", encoding="utf-8")
    subprocess.run([str(PEERS_PYTHON), "-m", "bench.plots", str(data), str(PLOTS)], cwd=ROOT, check=True)


def say(text: str) -> None:
    """What has been done, at once."""
    print(text, flush=True)


def main() -> int:
    """Measure, print, and write the page and its plots."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--dir", type=Path, default=ROOT / ".bench", help="where the databases lie")
    parser.add_argument("--no-write", action="store_true", help="print only, leave the docs alone")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", action="append", help=AGAINST)
    parser.add_argument("--conversations", type=int, nargs="+", default=[1, 1000], help="of --against; 1 1000")
    parser.add_argument("--rounds", type=int, default=3, help="of --against; 3")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"of --against, a measurement; {SECONDS:g}")
    options = parser.parse_args()
    where: Path = options.dir
    where.mkdir(parents=True, exist_ok=True)
    if options.against:
        told = (options.against, options.conversations, options.rounds, options.seconds)
        print(report.render_text([versions.compare(*told, where, say)]))
        shutil.rmtree(where, ignore_errors=True)
        return 0
    print("round trips…", flush=True)
    rates, ratios = round_trips.measure(PEERS, where, say)
    print("growth, recovery, memory…", flush=True)
    spark, *others = scale.sparks(where)
    growth = [scale.late_turns(where), spark, *round_trips.late(where)]
    found = Results(
        rates=rates,
        ratios=ratios,
        growth=growth,
        others=others,
        job=dispatches.measure(where),
        starts=startup.measure(),
        spawn=spawn.measure(),
        request=first_request.measure(),
        requests=requests.measure(),
        memory=memory.measure(where),
        page=page.measure(where),
        postgres=postgres_trips.measure(where, say),
    )
    print("simulated humans…", flush=True)
    study = calibration.run()
    facts = machine.facts(where)
    shutil.rmtree(where, ignore_errors=True)
    print(report.render_text([*sections(found), *calibration.sections(study)]))
    if not options.no_write:
        write(found, facts)
        calibration.write(study, PEERS_PYTHON)
    return 0


if __name__ == "__main__":
    sys.exit(main())
