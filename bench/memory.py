"""How long the proxy takes to recall what is like a question, in a memory of a hundred thousand decisions."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from random import Random
from typing import Any

from parley.features.proxy.decision_store import SqliteDecisions
from parley.ports.decisions import Decided, Guess

DECISIONS = 100_000
RECALLS = 200
BATCH = 2_000
MOST_MS = 20.0
STATES = ("INTENT", "PLAN", "EXECUTE")
_VOCABULARY = 20_000
_LONG = 60  # words of an artifact's beginning


def words(rng: Random, count: int) -> str:
    """A text in which few words are common and most are rare, as in texts of people."""
    return " ".join(f"w{min(_VOCABULARY, int(rng.paretovariate(0.6)))}" for _ in range(count))


def decision(rng: Random, number: int) -> Decided:
    """One decision by chance."""
    artifact, approved = rng.choices((True, False), (7, 3))[0], rng.choices((True, False), (9, 1))[0]
    return Decided(
        time=1.8e9 + number * 600.0,
        human="me",
        repository=f"repository {rng.randrange(40)}",
        job=f"job{number // 8}",
        question=f"q{number}",
        framing="m1",
        state=rng.choice(STATES),
        kind="assert" if artifact else "question",
        asked=words(rng, 15),
        artifact="PLAN.md" if artifact else "",
        digest="0" * 64,
        excerpt=words(rng, _LONG) if artifact else "",
        before=Guess("approve", 0.7),
        after=Guess("approve", 0.9, words(rng, 8)),
        verdict="approve" if approved else "revise",
        said=words(rng, 5),
        how="policy",
        agreed=approved,
    )


def filled(path: Path, count: int = DECISIONS, seed: int = 4) -> SqliteDecisions:
    """A memory of so many decisions."""
    rng, memory = Random(seed), SqliteDecisions(path)
    for start in range(0, count, BATCH):
        memory.remember([decision(rng, number) for number in range(start, min(count, start + BATCH))])
    return memory


def measure(where: Path) -> dict[str, Any]:
    """Recalls of questions by chance, each of a file that was opened before."""
    memory, rng = filled(where / "memory.db"), Random(5)
    recalls, pasts = [], []
    for _ in range(RECALLS):
        state, text = rng.choice(STATES), words(rng, 15 + _LONG)
        begun = time.perf_counter()
        memory.recall("me", state, "assert", text, 8)
        between = time.perf_counter()
        memory.past("me", state, "assert", text)
        recalls.append((between - begun) * 1e3)
        pasts.append((time.perf_counter() - between) * 1e3)
    begun = time.perf_counter()
    memory.remember([decision(rng, DECISIONS + 1)])
    kept = (time.perf_counter() - begun) * 1e3
    megabytes = sum(path.stat().st_size for path in where.glob("memory.db*")) / 1e6
    memory.close()
    return {
        "decisions": DECISIONS,
        "recall, median ms": statistics.median(recalls),
        "recall, slowest ms": max(recalls),
        "the record for calibration, median ms": statistics.median(pasts),
        "the record for calibration, slowest ms": max(pasts),
        "one more decision, ms": kept,
        "the file, MB": megabytes,
    }
