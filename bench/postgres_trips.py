"""Round trips a second on PostgreSQL: Parley beside raw tables, on a server of its own that waits for its disk."""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

from bench.report import Section
from bench.round_trips import Peer, Say, run_peer
from tools.postgres_server import Server, programs

OURS = Peer("parley", "Parley", "bench.conversations", "postgres")
RULE = Peer("raw PostgreSQL, one call a rule", "one call a rule", "bench.peers.raw_postgres", "pg_rule")
TURN = Peer("raw PostgreSQL, one call a turn", "one call a turn", "bench.peers.raw_postgres", "pg_turn")
GROUPED = Peer("raw PostgreSQL, one call a rule, grouped", "grouped", "bench.peers.raw_postgres", "pg_grouped")
ARRAYS = Peer("raw PostgreSQL, one call for all", "one call for all", "bench.peers.raw_postgres", "pg_arrays")
# By how many conversations: beside which floor, and what share of it is aimed at.
BESIDE = {1: ((RULE, 0.5), (TURN, None)), 1000: ((GROUPED, 0.3), (ARRAYS, None))}
ROUNDS = 3
SECONDS = 2.0
ABOUT = """
The bus on PostgreSQL, beside raw tables on the same server, which waits for its disk: rules of four statements inside a
function of the server. `bench/peers/raw_postgres.py` has them.
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
                for conversations, peers in BESIDE.items()
                for peer, aim in peers
            ]
        finally:
            os.environ.pop("PARLEY_BUS_URL")
            if before is not None:
                os.environ["PARLEY_BUS_URL"] = before
            server.kill()


def _pair(conversations: int, peer: Peer, aim: float | None, where: Path, say: Say, seconds: float) -> dict[str, Any]:
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
            "" if row["aim"] is None else f"{row['aim']:g}",
        ]
        for row in found
    ]
    heads = ["", "parley", "raw", "ratio", "at least"]
    return [Section("Round trips a second on PostgreSQL", heads, rows, ABOUT)] if rows else []
