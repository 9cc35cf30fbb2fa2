"""The whole engine under simulated faults: nothing promised is ever broken, and a seed tells it all again."""

from __future__ import annotations

import json
import os
from collections import Counter

import pytest

from simulator.minds import mind
from simulator.run import JOB, Simulation, simulate

SEEDS = 2_000
CHUNK = 50
SOAK_SEEDS = 200_000
SOAK_CHUNK = 2_000


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_seed_breaks_a_promise(first: int) -> None:
    """Crashes, lost agents, lost locks, meddling: invariants, deliveries, ends and the audit hold."""
    ends = Counter(simulate(seed).state for seed in range(first, first + CHUNK))
    assert sum(ends.values()) == CHUNK


@pytest.mark.soak
@pytest.mark.parametrize("first", range(SEEDS, SEEDS + SOAK_SEEDS, SOAK_CHUNK))
def test_no_seed_of_a_long_run_breaks_a_promise(first: int) -> None:
    """The same for a hundred times as many seeds; PARLEY_SOAK_FROM moves on to others."""
    offset = int(os.environ.get("PARLEY_SOAK_FROM", "0"))
    ends = Counter(simulate(seed + offset).state for seed in range(first, first + SOAK_CHUNK))
    assert sum(ends.values()) == SOAK_CHUNK


@pytest.mark.parametrize("seed", range(7, 400, 20))
def test_one_seed_is_one_run(seed: int) -> None:
    """The same seed gives the same steps, messages and times, to the last bit, as the head says."""
    assert simulate(seed) == simulate(seed)


def test_seeds_reach_every_end_and_nearly_every_rule() -> None:
    """Its runs end in all ways and fire what an engine can fire by itself."""
    results = [simulate(seed) for seed in range(150)]
    ends = {result.state for result in results}
    fired = {rule for result in results for rule in result.fired}
    assert {"DONE", "WITHDRAWN", "FAILURE"} <= ends
    assert {
        "recover",
        "give-up",
        "dialog",
        "interrupt",
        "wake-int",
        "term-run",
        "cascade",
        "hold",
        "send-ask",
    } <= fired
    assert sum(result.crashes for result in results) > 100


def test_seeds_let_answers_stand_and_be_questions_and_lose_the_memory() -> None:
    """Its minds are of all kinds: the record supports an answer, or does not, and some memories fail."""
    told: Counter[str] = Counter()
    for seed in range(300):
        made = mind(seed)
        if made.settings is not None and made.steady and made.policies:
            run = Simulation(seed)
            run.run()
            abouts = (json.loads(row.meta) for row in run.outside.messages(JOB) if '"weighed"' in row.meta)
            told.update("stood" if about["weighed"]["answer"] else about["how"] for about in abouts)
    assert {"stood", "unsure", "checked"} <= set(told), told
