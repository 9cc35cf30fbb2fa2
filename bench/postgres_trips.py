"""Round trips a second on PostgreSQL: Parley beside raw tables, on a server of its own that waits for its disk."""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

from bench.report import Section, put_sections, render_text
from bench.round_trips import ROOT, Peer, Say, run_peer
from tools.postgres_server import Server, programs

PAGE = ROOT / "docs" / "benchmarks.md"
OURS = Peer("parley", "Parley", "bench.conversations", "postgres")
RULE = Peer("raw PostgreSQL, one call a rule", "one call a rule", "bench.peers.raw_postgres", "pg_rule")
TURN = Peer("raw PostgreSQL, one call a turn", "one call a turn", "bench.peers.raw_postgres", "pg_turn")
WRITER = Peer("raw PostgreSQL, one call a rule, one writer, grouped", "writer", "bench.peers.raw_postgres", "pg_writer")
GROUPED = Peer("raw PostgreSQL, one call a rule, grouped", "grouped", "bench.peers.raw_postgres", "pg_grouped")
ARRAYS = Peer("raw PostgreSQL, one call for all", "one call for all", "bench.peers.raw_postgres", "pg_arrays")
# By how many conversations: what share of a floor is aimed at, and beside which floors.
BESIDE = {1: (0.5, (RULE, TURN)), 1000: (0.3, (WRITER, GROUPED, ARRAYS))}
ROUNDS = 3
SECONDS = 2.0
TITLE = "Round trips a second on PostgreSQL"
ABOUT = """
The bus on PostgreSQL, beside raw tables on the same server, which waits for its disk. The floors do the work of raw
SQLite's *two rules of four statements a turn*: a rule is one call of a function on the server, with its four statements
inside, and nothing is read. The aims were set with *one call a rule* for one conversation. For a thousand they were set
with *one writer*: each conversation is a task, and hands one rule after the other to one connection, which commits all
that wait. *Grouped* takes a whole turn of every conversation at once, and *one call for all* is the least that any
durable round trip can do there. `bench/peers/raw_postgres.py` has all five. `python -m bench.postgres_trips` measures
this table alone.
"""


def measure(where: Path, say: Say, seconds: float = SECONDS) -> list[dict[str, Any]]:
    """Every pair, next to each other, in rounds; nothing where PostgreSQL is missing."""
    found = programs()
    if found is None:
        say("  PostgreSQL is missing: left out")
        return []
    with tempfile.TemporaryDirectory(prefix="parley-bench-", dir=where, ignore_cleanup_errors=True) as folder:
        server = Server(Path(folder), found, settings=("autovacuum=on", "shared_buffers=128MB"))
        server.start()
        before = os.environ.get("PARLEY_BUS_URL")
        os.environ["PARLEY_BUS_URL"] = server.url
        try:
            return [
                _pair(conversations, peer, aim, where, say, seconds)
                for conversations, (aim, peers) in BESIDE.items()
                for peer in peers
            ]
        finally:
            os.environ.pop("PARLEY_BUS_URL")
            if before is not None:
                os.environ["PARLEY_BUS_URL"] = before
            server.kill()


def _pair(conversations: int, peer: Peer, aim: float, where: Path, say: Say, seconds: float) -> dict[str, Any]:
    options = ("--conversations", str(conversations), "--seconds", str(seconds))
    rates: list[tuple[float, float]] = []
    for number in range(ROUNDS):
        ours, raw = run_peer(OURS, where, *options), run_peer(peer, where, *options)
        if ours is not None and raw is not None:
            rates.append((ours["per_second"], raw["per_second"]))
            say(f"  {conversations:5} conversations, round {number + 1}: {peer.name}: {rates[-1][1]:.0f}/s, "
                f"parley: {rates[-1][0]:.0f}/s")  # fmt: skip
    return {
        "conversations": conversations,
        "peer": peer.name,
        "parley": statistics.median([ours for ours, _ in rates]) if rates else None,
        "raw": statistics.median([raw for _, raw in rates]) if rates else None,
        "ratio": statistics.median([ours / raw for ours, raw in rates]) if rates else None,
        "aim": aim,
    }


def sections(found: list[dict[str, Any]]) -> list[Section]:
    """The table; none where nothing was measured."""
    rows = [
        [
            f"{row['conversations']} conversations, against {row['peer']}",
            row["parley"],
            row["raw"],
            None if row["ratio"] is None else f"{row['ratio']:.2f}",
            f"{row['aim']:g}",
            None if row["ratio"] is None else row["ratio"] >= row["aim"],
        ]
        for row in found
    ]
    heads = ["", "parley", "raw", "ratio", "at least", "reached"]
    return [Section(TITLE, heads, rows, ABOUT)] if rows else []


def main() -> None:
    """Measure this table alone, print it, and put it into the page of benchmarks."""
    parser = argparse.ArgumentParser(prog="bench.postgres_trips", description=__doc__)
    parser.add_argument("--dir", type=Path, default=ROOT / ".bench", help="where the databases lie")
    parser.add_argument("--no-write", action="store_true", help="print only, leave the docs alone")
    options = parser.parse_args()
    options.dir.mkdir(parents=True, exist_ok=True)
    found = sections(measure(options.dir, lambda text: print(text, flush=True)))
    print(render_text(found))
    if found and not options.no_write:
        PAGE.write_text(put_sections(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()
