"""The page about clusters of any size: what was measured, and what many hosts need, reckoned from that."""

from __future__ import annotations

import itertools
import math
from typing import Any

from bench import report
from bench.one_machine import LOST_SECONDS, ROOT
from bench.report import Cell, Section

PAGE, RESULTS = ROOT / "docs" / "cluster-sizes.md", ROOT / "docs" / "benchmarks" / "cluster.json"
PARTS = {"coordinator": "coordinator", "worker": "workers", "postgresql": "PostgreSQL", "temporal": "Temporal"}
MOST_DISPATCH_MS, LEAST_GROWTH = 200.0, 1.8
# What is reckoned with: agents that wait for a model most of the time, and no part busier than this.
AGENTS, HOSTS, TURN_SECONDS, BUSY = 10_000, 100, (60.0, 300.0), 0.6

INTRO = """
Written by `make bench`, or by `python -m bench.cluster` alone. All parts run on one machine: PostgreSQL, which
waits for its disk; Temporal, as its development server on SQLite; a git remote, as a path; one coordinator; and
workers with homes of their own. So the figures are costs, and not what several machines reach: compare the ratios.

A job has three gates that are approved at once and a coder that is given tasks. Its agents are scripted, one
process behind the [boundary](boundary.md) for each turn, and write small files.
"""
ABOUT_IDLE = """
One job by itself on two hosts. Dispatch is counted from the commit of the turn's row on the bus to the commit by
which its host starts the agent, both by PostgreSQL's clock. *Bare* is what the parts take by themselves, in the
same run: a turn needs two of the second, both ways, and about a dozen of the third.
"""
ABOUT_TAKEOVER = """
From SIGKILL in the middle of a turn until the job's next turn begins. A host counts as lost after {lost:g} s
without a sign of life (`[hosts] lost_seconds`) here, and a coordinator when its lease ends; another waits to go on.
"""
ABOUT_RATES = """
Rates and costs are those between the first tenth of the turns that were seen to end and the last. A size is watched
for a limited time, so not all jobs come to their end in it. Where turns sleep, each worker has {slots} slots and a
turn takes {sleep:g} s: slots are the limit, not this machine's processors, as long as *cores busy* stays well below
its {cores}. Where turns take no time, its processors are.
"""
ABOUT_COSTS = """
Milliseconds of a processor for a turn. A part's processes count with all that they start: git, and for workers the
agents' own. *All* is what the whole machine was busy, with what no part accounts for.
"""
ABOUT_MEMORY = (
    "The most that was seen, each process's share of what it has in common with others counted in part (PSS)."
)
ABOUT_PAPER = """
{agents:,} agents at work on {hosts} hosts, reckoned from the largest size above at which turns take no time. A turn
of a model takes a minute or more; the shorter it is, the more turns there are. No part is to be busy for more than
{busy:.0%}. A processor is one of the machine above.
"""
AFTER = """
## What follows from that

- **Hosts.** An agent that waits for its model needs memory, and next to no processor. What it runs, such as builds
  and tests, comes on top, and is nearly all that a host is bought for.
- **Coordinators.** A coordinator commits for its jobs in one thread, so it has a highest rate however many
  processors it has. Jobs are divided among several on one bus; each job has one owner at a time, and another takes
  over the jobs of one that dies.
- **Connections.** Each worker holds three connections to PostgreSQL and each coordinator about six: set
  `max_connections` above the sum, and put no pooler in between that gives a session to another client, since LISTEN
  needs its own.
- **Temporal.** Its development server is for one machine. For many, run Temporal's own server on a database of its
  own; it may lose all it knows, so one without replicas does.
- **The git remote.** It has to take and serve as many pushes and fetches a second as there are turns, twice over,
  on a disk with room for the jobs under way. A repository for each team divides that.
"""


def sections(found: dict[str, Any]) -> list[Section]:
    """The tables."""
    idle, sizes = found["idle"], found["sizes"]
    asleep = [size for size in sizes if size["sleep"]]
    told = asleep[0] if asleep else {"slots": 0, "sleep": 0.0}
    cores = found["machine"]["cores"]
    return [
        Section("An idle cluster", ["", "ms"], _idle(idle), ABOUT_IDLE),
        Section("Aims", ["", "measured", "aim", "reached"], _aims(idle, asleep)),
        Section("Take-over", ["what is killed", "seconds"], [list(row) for row in idle["takeover_seconds"].items()],
                ABOUT_TAKEOVER.format(lost=LOST_SECONDS)),
        Section("Rates", ["", "turns seen", "a second", "cores busy", "dispatch, median ms"],
                [[size["name"], size["ended"], size["per_second"], size["busy_cores"], size["waited_ms"]["dispatch"]]
                 for size in sizes], ABOUT_RATES.format(slots=told["slots"], sleep=told["sleep"], cores=cores)),
        Section("What a turn costs", ["", *PARTS.values(), "all", "KiB pushed", "rows on the bus"],
                [[size["name"], *(size["cpu_ms"].get(part, 0.0) for part in PARTS), size["machine_ms"],
                  size["pushed_kb"], sum(size["rows"].values())] for size in sizes], ABOUT_COSTS),
        Section("Memory in MB, threads, and git processes at once",
                ["", "coordinator", "a worker", "PostgreSQL", "Temporal", "coordinator's threads", "its gits"],
                [[size["name"], *(size["memory_mb"].get(part, 0.0) for part in PARTS),
                  size["threads"].get("coordinator", 0), size["gits"].get("coordinator", 0)] for size in sizes],
                ABOUT_MEMORY),
        _paper(sizes),
    ]  # fmt: skip


def _idle(idle: dict[str, Any]) -> list[list[Cell]]:
    names = {
        "row to board": "the row's commit to the order on the board: files packed and pushed",
        "board to host": "to a host's claim: Temporal",
        "host to agent": "to the agent's start: files fetched and laid out",
        "dispatch": "dispatch, all three",
        "agent to end": "the agent's start to its end: its process behind the boundary, files pushed",
    }
    return [
        *([text, idle["waited_ms"][name]] for name, text in names.items()),
        *([f"bare: {name}", value] for name, value in idle["floors_ms"].items()),
    ]


def _aims(idle: dict[str, Any], asleep: list[dict[str, Any]]) -> list[list[Cell]]:
    dispatch = idle["waited_ms"]["dispatch"]
    rows: list[list[Cell]] = [
        ["dispatch on an idle cluster, median ms", f"{dispatch:.0f}", f"at most {MOST_DISPATCH_MS:.0f}",
         "yes" if dispatch <= MOST_DISPATCH_MS else "no"]
    ]  # fmt: skip
    for fewer, more in itertools.pairwise(asleep):
        times, doubled = more["per_second"] / (fewer["per_second"] or 1.0), more["workers"] / fewer["workers"]
        growth = times ** (1 / math.log2(doubled)) if doubled > 1 else times
        rows.append([
            f"turns that sleep, from {fewer['workers']} to {more['workers']} workers: times the rate, for a doubling",
            f"{growth:.2f}", f"at least {LEAST_GROWTH:g}", "yes" if growth >= LEAST_GROWTH else "no",
        ])  # fmt: skip
    return rows


def _paper(sizes: list[dict[str, Any]]) -> Section:
    """What many agents need."""
    base = max((size for size in sizes if not size["sleep"]), key=lambda size: (size["jobs"], size["workers"]))
    cost, memory = base["cpu_ms"], base["memory_mb"]
    slots = AGENTS // HOSTS
    at_work = max(1, min(base["slots"], base["jobs"]))
    heads = [f"turns of {seconds / 60:g} min" for seconds in TURN_SECONDS]
    rates = [AGENTS / seconds for seconds in TURN_SECONDS]

    def cores(part: str) -> list[Cell]:
        return [f"{rate * cost.get(part, 0.0) / 1e3 / BUSY:.1f}" for rate in rates]

    coordinators = [math.ceil(rate * cost.get("coordinator", 0.0) / 1e3 / BUSY) for rate in rates]
    rows: list[list[Cell]] = [
        ["turns a second", *(f"{rate:.0f}" for rate in rates)],
        ["slots of each host", *(str(slots) for _ in rates)],
        ["each host: processors for Parley, git and the agents' own start",
         *(f"{rate / HOSTS * cost.get('worker', 0.0) / 1e3 / BUSY:.2f}" for rate in rates)],
        ["each host: GB for the worker and as many scripted agents; a real agent's comes on top",
         *(f"{memory.get('worker', 0.0) / at_work * slots / 1024:.1f}" for _ in rates)],
        ["coordinators, of one processor each, with the git that they start", *(str(count) for count in coordinators)],
        ["PostgreSQL: processors", *cores("postgresql")],
        ["PostgreSQL: connections", *(str(3 * HOSTS + 6 * count) for count in coordinators)],
        ["PostgreSQL: rows a second", *(f"{rate * sum(base['rows'].values()):.0f}" for rate in rates)],
        ["Temporal: processors", *cores("temporal")],
        ["the git remote: MB a second pushed, with files as small as these",
         *(f"{rate * base['pushed_kb'] / 1024:.1f}" for rate in rates)],
    ]  # fmt: skip
    about = ABOUT_PAPER.format(agents=AGENTS, hosts=HOSTS, busy=BUSY)
    return Section(f"On paper: {HOSTS} hosts and {AGENTS:,} agents", ["", *heads], rows, about)


def text(found: dict[str, Any]) -> str:
    """The tables for a terminal."""
    return report.render_text(sections(found))


def write(found: dict[str, Any]) -> None:
    """The page."""
    page = report.render_markdown("Sizes of a cluster", INTRO, found["machine"], sections(found))
    PAGE.write_text(f"{page.rstrip()}\n{AFTER}", encoding="utf-8")
