"""`make bench`: everything that is claimed of speed and memory, measured side by side in one run.

Wall-clock figures of a durable system hang on the disk's mood of the second, so each peer is measured several
times in turns with the others (those that no aim is about, once), and what counts is the ratio of neighbours: the
median over the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bench import calibration, dispatches, first_request, machine, memory, report, requests, scale, spawn, startup
from bench.report import Section

ROOT = Path(__file__).parent.parent
PAGE, PLOTS = ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "benchmarks"
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
COMPILED_FORM = ROOT / ".compiled"
ROUNDS = {1: 5, 100: 2, 1000: 2}  # by how many conversations: one hangs most on the disk's mood
SECONDS = 2.0
TIME_LIMIT_SECONDS = 300.0

# The floors, as bench.peers.raw_sqlite tells: every rule logged, the same by one writer, and only what is needed next.
RULES_TURN = "raw SQLite, two rules of four statements a turn, a transaction a turn"
RULES_GROUPED = "raw SQLite, two rules of four statements a turn, grouped"
WRITER_GROUPED = "raw SQLite, two rules of four statements a turn, one writer thread, grouped"
LEAN_TURN = "raw SQLite, four statements a turn, a transaction a turn"
LEAN_GROUPED = "raw SQLite, four statements a turn, grouped"


class Peer(NamedTuple):
    """One row: a form of a module, where it finds its packages, and which Python runs it."""

    name: str
    module: str
    form: str = ""
    paths: tuple[Path, ...] = (ROOT,)
    python: Path = Path(sys.executable)


def ours(form: str, *paths: Path) -> tuple[Peer, Peer]:
    """The rows of Parley in one form: alone, and in two processes."""
    return (
        Peer(f"parley, {form}", "bench.conversations", "alone", (*paths, ROOT)),
        Peer(f"parley, {form}, two processes on one bus", "bench.conversations", "shared", (*paths, ROOT)),
    )


def other(name: str, module: str, form: str = "") -> Peer:
    """The row of a system that has the peers' environment."""
    return Peer(name, module, form, python=PEERS_PYTHON)


COMPILED, COMPILED_SHARED = ours("compiled", COMPILED_FORM)
INTERPRETED, INTERPRETED_SHARED = ours("interpreted")
FORMS = (COMPILED, COMPILED_SHARED, INTERPRETED)  # each is measured beside every peer that an aim is about
PEERS = (
    *FORMS,
    INTERPRETED_SHARED,
    Peer(RULES_TURN, "bench.peers.raw_sqlite", "raw_rules_turn"),
    Peer(RULES_GROUPED, "bench.peers.raw_sqlite", "raw_rules_grouped"),
    Peer(WRITER_GROUPED, "bench.peers.raw_sqlite", "raw_writer_grouped"),
    Peer(LEAN_TURN, "bench.peers.raw_sqlite", "raw_turn"),
    Peer(LEAN_GROUPED, "bench.peers.raw_sqlite", "raw_grouped"),
    other("LangGraph, SqliteSaver", "bench.peers.langgraph_peer", "langgraph"),
    other("DBOS, send and recv", "bench.peers.dbos_peer", "dbos"),
    other("DBOS, a step a turn", "bench.peers.dbos_peer", "dbos_steps"),
    other("openai-agents, SQLiteSession", "bench.peers.openai_agents_peer"),
    other("autogen-core, in memory, NOT durable", "bench.peers.autogen_peer"),
)
TARGETS = (
    (1, RULES_TURN, 0.5),
    (1, LEAN_TURN, 0.5),
    (100, "LangGraph, SqliteSaver", 10.0),
    (1000, "autogen-core, in memory, NOT durable", 1.0),
    (1000, WRITER_GROUPED, 0.3),
    (1000, RULES_GROUPED, 0.3),
    (1000, LEAN_GROUPED, 0.3),
)
AIMED_AT = {(conversations, name) for conversations, name, _ in TARGETS}  # what no aim is about is measured once

Ratios = dict[tuple[str, int, str], float]  # of a form of Parley, by how many conversations, to a peer


FLOORS = """
Raw SQLite is the floor, in three forms; all are durable and none reads, checks, serialises or runs anything. With
*two rules of four statements a turn*, each of a round trip's four rules deletes the molecule that it consumes,
inserts the one that it produces, inserts a step, and inserts the message or marks it as taken: the soup and the log
of rules that Parley keeps too. With *one writer thread* conversations that are tasks of their own fire the same rules:
each hands a rule to the thread, which commits all that wait, and goes on when it is on the disk. With *four statements
a turn* there are no rules: a message, a line in a log of turns, and who waits for what. `bench/peers/raw_sqlite.py` has
all three.

Parley is measured in both its forms, [compiled](cli.md#the-compiled-form) and interpreted; where no C compiler is,
the rows of the compiled form are left out. By itself it is one process, and one core. The rows of two processes are
Parley too: two owners share the bus and the conversations, each with a job of its own, as two sessions of `parley run`
do. All tables below the aims are of the interpreted form.
"""
AIMED = ["", "compiled", "compiled, two processes", "interpreted", "at least", "reached"]
AIMS = """
The aims are stated for the compiled form, in one process or two, with the interpreted one beside it. A share of what
raw SQLite makes is stated against each floor. Those with rules are what the aims were set with: a transaction a turn
for one conversation, one writer thread for a thousand. The lean one is the least that any durable round trip can do.
"""


CAGE = """
What a verified cage adds to a plain start of the same command: at most 100 ms are aimed at. The launcher, which is gone
when the agent runs, may take 10 MB.
"""


MEMORY = f"""
A recall in a memory of a hundred thousand decisions may take {memory.MOST_MS:g} ms.
"""


def run_peer(peer: Peer, where: Path, *options: str) -> dict[str, Any] | None:
    """One measurement in a process of its own."""
    words = [str(peer.python), "-m", peer.module, "--dir", str(where), *options]
    if peer.form:
        words += ["--form", peer.form]
    done = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, peer.paths))},
    )  # fmt: skip
    if done.returncode:
        print(f"  {peer.module} failed: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def round_trips(peers: Sequence[Peer], where: Path, say: Callable[[str], None]) -> tuple[list[dict[str, Any]], Ratios]:
    """Every peer at every number of conversations, in rounds; medians, and medians of Parley's ratios."""
    rates: dict[tuple[int, str], list[float]] = {}
    ratios: dict[tuple[str, int, str], list[float]] = {}
    forms = [form for form in FORMS if form in peers]

    def measured(peer: Peer, conversations: int) -> float | None:
        found = run_peer(peer, where, "--conversations", str(conversations), "--seconds", str(SECONDS))
        if found is None:
            return None
        rates.setdefault((conversations, peer.name), []).append(found["per_second"])
        return float(found["per_second"])

    for conversations, rounds in ROUNDS.items():
        for number in range(rounds):
            for peer in peers:
                aimed_at = (conversations, peer.name) in AIMED_AT
                if peer in FORMS or (number and not aimed_at):
                    continue
                beside = [(form, measured(form, conversations)) for form in (forms if aimed_at else forms[:1])]
                rate = measured(peer, conversations)
                if rate is None:
                    continue
                for form, own in beside:
                    if own is not None:
                        ratios.setdefault((form.name, conversations, peer.name), []).append(own / rate)
                say(f"  {conversations:5} conversations, round {number + 1}: {peer.name}: {rate:.0f}/s")
    rows = [
        {"peer": peer.name, "conversations": conversations, "per_second": statistics.median(found)}
        for peer in peers
        for conversations in ROUNDS
        if (found := rates.get((conversations, peer.name)))
    ]
    return rows, {key: statistics.median(found) for key, found in ratios.items()}


def late_peers(where: Path) -> list[dict[str, Any]]:
    """The cost of a turn late in a conversation, for those peers that keep one."""
    found = []
    for peer in PEERS:
        if peer.module not in ("bench.peers.langgraph_peer", "bench.peers.openai_agents_peer"):
            continue
        if (said := run_peer(peer, where, "--late")) is not None:
            at, ms = said["at"], [said["early_ms"], said["late_ms"]]
            found.append({"what": f"{peer.name}: a turn", "at": at, "ms": ms, "ratio": ms[1] / ms[0]})
    return found


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


def sections(found: Results) -> list[Section]:
    """The page's tables."""
    ratios, forms = found.ratios, [form.name for form in FORMS]
    claims = [
        [
            f"{n} conversations, against {name}",
            *(_share(ratios, form, n, name) for form in forms),
            f"{least:g}",
            _reached([ratios.get((form.name, n, name)) for form in (COMPILED, COMPILED_SHARED)], least),
        ]
        for n, name, least in TARGETS
    ]
    first = next(form for form in forms if any(form == own for own, _, _ in ratios))
    compared = [
        [name, *(_share(ratios, first, n, name) for n in ROUNDS)]
        for name in dict.fromkeys(name for _, _, name in ratios)
    ]
    costs = [[g["what"], *map(str, g["at"]), *g["ms"], _two(g["ratio"])] for g in found.growth]
    heads = ["", "early", "late", "ms early", "ms late", "ratio"]
    told = "A sends 1 KiB to B, B wakes, runs a no-op, replies 1 KiB. Medians of the rounds."
    side = f"The rate of {first} over each peer's, the two measured next to each other"
    return [
        report.pivot(
            "Round trips a second",
            found.rates,
            row="peer",
            column="conversations",
            value="per_second",
            text=told,
        ),
        Section(side, ["peer", *map(str, ROUNDS)], compared, FLOORS),
        Section("What is aimed at", AIMED, claims, AIMS),
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


def _reached(found: Sequence[float | None], least: float) -> str | None:
    best = max((ratio for ratio in found if ratio is not None), default=None)
    if best is None:
        return None
    return "yes" if best >= least else "no"


def _facts(*documents: dict[str, Any]) -> list[list[Any]]:
    return [[key.replace("_", " "), value] for each in documents for key, value in each.items() if key != "what"]


def curves(found: Results) -> dict[str, Any]:
    """What is drawn."""
    names = list(dict.fromkeys(row["peer"] for row in found.rates))
    series = [
        {
            "label": name,
            "x": [row["conversations"] for row in found.rates if row["peer"] == name],
            "y": [row["per_second"] for row in found.rates if row["peer"] == name],
        }
        for name in names
    ]
    costs = [{"label": g["what"], "x": g["at"], "y": g["ms"]} for g in found.growth]
    return {
        "curves": [
            _curve("round-trips", "Round trips a second", "conversations", "round trips a second", series),
            _curve("growth", "What must not grow", "turns, or open instances", "ms", costs),
        ]
    }


def _curve(name: str, title: str, across: str, up: str, series: list[dict[str, Any]]) -> dict[str, Any]:
    labels = {"title": title, "xlabel": across, "ylabel": up}
    return {"name": name, **labels, "logx": True, "logy": True, "series": series}


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


def main() -> int:
    """Measure, print, and write the page and its plots."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--dir", type=Path, default=ROOT / ".bench", help="where the databases lie")
    parser.add_argument("--no-write", action="store_true", help="print only, leave the docs alone")
    options = parser.parse_args()
    where: Path = options.dir
    compiled = (COMPILED_FORM / "installed").is_file()
    peers = [peer for peer in PEERS if compiled or peer not in (COMPILED, COMPILED_SHARED)]
    print("round trips…" if compiled else "round trips, without the compiled form, which is not built…", flush=True)
    where.mkdir(parents=True, exist_ok=True)
    rates, ratios = round_trips(peers, where, lambda text: print(text, flush=True))
    print("growth, recovery, memory…", flush=True)
    spark, *others = scale.sparks(where)
    growth = [scale.late_turns(where), spark, *late_peers(where)]
    found = Results(
        rates,
        ratios,
        growth,
        others,
        dispatches.measure(where),
        startup.measure(),
        spawn.measure(),
        first_request.measure(),
        requests.measure(),
        memory.measure(where),
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
