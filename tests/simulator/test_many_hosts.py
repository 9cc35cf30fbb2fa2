"""Turns on many hosts under simulated faults: nothing promised is ever broken, and a seed tells it all again."""

import os
from collections import Counter

import pytest

from simulator.host_faults import KINDS
from simulator.host_run import simulate_hosts

SEEDS = 30
CHUNK = 10
SOAK_FAULTS = 5_000
SOAK_FROM = 1_000


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_seed_on_many_hosts_breaks_a_promise(first: int) -> None:
    """Hosts and coordinators die, freeze, are cut off; services go away and forget: each effect comes exactly once."""
    played = sum((Counter(simulate_hosts(seed).faults) for seed in range(first, first + CHUNK)), Counter[str]())
    assert played.total() > 4 * CHUNK


@pytest.mark.parametrize("seed", [31, 37])
def test_one_seed_on_many_hosts_is_one_run(seed: int) -> None:
    assert simulate_hosts(seed) == simulate_hosts(seed)


@pytest.mark.soak
def test_thousands_of_faults_on_many_hosts_break_no_promise() -> None:
    """PARLEY_SOAK_FROM moves on to other seeds."""
    played: Counter[str] = Counter()
    seed = SOAK_FROM + int(os.environ.get("PARLEY_SOAK_FROM", "0"))
    while played.total() < SOAK_FAULTS:
        played.update(simulate_hosts(seed).faults)
        seed += 1
    assert set(played) == set(KINDS)
