"""Round trips a second: Parley, the systems it is compared with, and the floors, each in a process of its own.

Wall-clock figures of a durable system hang on the disk's mood of the second, so each peer is measured several
times in turns with the others (those that no aim is about, once), and what counts is the ratio of neighbours: the
median over the rounds.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
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
    """One row: a form of a module, the checkout that it lies in, where it finds its packages, and its Python."""

    name: str
    drawn: str  # its name in the plots, where there is less room
    module: str
    form: str = ""
    root: Path = ROOT
    paths: tuple[Path, ...] = (ROOT,)
    python: Path = Path(sys.executable)


def floor(name: str, drawn: str, form: str) -> Peer:
    """The row of a floor."""
    return Peer(name, f"raw SQLite, {drawn}", "bench.peers.raw_sqlite", form)


def other(name: str, drawn: str, module: str, form: str = "") -> Peer:
    """The row of a system that has the peers' environment."""
    return Peer(name, drawn, module, form, python=PEERS_PYTHON)


OURS = Peer("parley", "Parley", "bench.conversations", "alone")
SHARED = Peer("parley, two processes on one bus", "Parley, two processes", "bench.conversations", "shared")
FORMS = (OURS, SHARED)  # each is measured beside every peer that an aim is about
FLOORS = (
    floor(RULES_TURN, "rules", "raw_rules_turn"),
    floor(RULES_GROUPED, "rules, grouped", "raw_rules_grouped"),
    floor(WRITER_GROUPED, "rules, one writer", "raw_writer_grouped"),
    floor(LEAN_TURN, "lean", "raw_turn"),
    floor(LEAN_GROUPED, "lean, grouped", "raw_grouped"),
)
PEERS = (
    *FORMS,
    *FLOORS,
    other("LangGraph, SqliteSaver", "LangGraph", "bench.peers.langgraph_peer", "langgraph"),
    other("DBOS, send and recv", "DBOS, send and recv", "bench.peers.dbos_peer", "dbos"),
    other("DBOS, a step a turn", "DBOS, a step a turn", "bench.peers.dbos_peer", "dbos_steps"),
    other("openai-agents, SQLiteSession", "openai-agents", "bench.peers.openai_agents_peer"),
    other("autogen-core, in memory, NOT durable", "autogen-core, not durable", "bench.peers.autogen_peer"),
)
TARGETS = (
    (1, RULES_TURN, 0.6),
    (1, LEAN_TURN, 0.6),
    (100, "LangGraph, SqliteSaver", 10.0),
    (1000, "autogen-core, in memory, NOT durable", 1.0),
    (1000, WRITER_GROUPED, 0.35),
    (1000, RULES_GROUPED, 0.35),
    (1000, LEAN_GROUPED, 0.35),
)
AIMED_AT = {(conversations, name) for conversations, name, _ in TARGETS}  # what no aim is about is measured once

Ratios = dict[tuple[str, int, str], float]  # of a form of Parley, by how many conversations, to a peer
Say = Callable[[str], None]


def run_peer(peer: Peer, where: Path, *options: str) -> dict[str, Any] | None:
    """One measurement in a process of its own."""
    words = [str(peer.python), "-m", peer.module, "--dir", str(where.resolve()), *options]
    if peer.form:
        words += ["--form", peer.form]
    done = subprocess.run(
        words, cwd=peer.root, capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, peer.paths))},
    )  # fmt: skip
    if done.returncode:
        print(f"  {peer.name} failed: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def measure(
    peers: Sequence[Peer],
    where: Path,
    say: Say,
    rounds: Mapping[int, int] = ROUNDS,
    aimed_at: Collection[tuple[int, str]] = AIMED_AT,
    seconds: float = SECONDS,
) -> tuple[list[dict[str, Any]], Ratios]:
    """Every peer at every number of conversations, in rounds; medians, and medians of Parley's ratios."""
    rates: dict[tuple[int, str], list[float]] = {}
    ratios: dict[tuple[str, int, str], list[float]] = {}
    forms = [form for form in FORMS if form in peers]

    def measured(peer: Peer, conversations: int) -> float | None:
        found = run_peer(peer, where, "--conversations", str(conversations), "--seconds", str(seconds))
        if found is None:
            return None
        rates.setdefault((conversations, peer.name), []).append(found["per_second"])
        return float(found["per_second"])

    for conversations, times in rounds.items():
        for number in range(times):
            for peer in peers:
                aimed = (conversations, peer.name) in aimed_at
                if peer in FORMS or (number and not aimed):
                    continue
                beside = [(form, measured(form, conversations)) for form in (forms if aimed else forms[:1])]
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
        for conversations in rounds
        if (found := rates.get((conversations, peer.name)))
    ]
    return rows, {key: statistics.median(found) for key, found in ratios.items()}


def late(where: Path) -> list[dict[str, Any]]:
    """The cost of a turn late in a conversation, for those peers that keep one."""
    found = []
    for peer in PEERS:
        if peer.module not in ("bench.peers.langgraph_peer", "bench.peers.openai_agents_peer"):
            continue
        if (said := run_peer(peer, where, "--late")) is not None:
            told = {"what": f"{peer.name}: a turn", "drawn": f"{peer.drawn}, a turn"}
            ms = [said["early_ms"], said["late_ms"]]
            found.append({**told, "at": said["at"], "ms": ms, "ratio": ms[1] / ms[0]})
    return found
