"""What goes wrong in Parley itself while it deals with one job is that job's: the run and the other job go on."""

from __future__ import annotations

from typing import Any

import pytest

from parley.engine import inputs, loop
from parley.engine.owned_job import OwnedJob
from parley.engine.turn import finish
from parley.engine.world import World
from parley.ports.turns import Ended
from tests.fuzz.hostile_harness import HOSTILE, INNOCENT, hostile_harness

BUG = "a bug that was planted"
KEY = "sk-ant-abcdefgh12345678"  # as an agent may have written it


def test_a_fault_at_the_end_of_a_turn_costs_that_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    real, times = finish.finish, list[str]()

    def faulty(job: OwnedJob, world: World, event: Ended) -> Any:
        turn = real(job, world, event)  # all of it is applied, and nothing of it is committed
        if job.id == HOSTILE and not times:
            times.append(event.turn)
            raise RecursionError(f"{BUG}\x1b[2J\u202e {KEY}")
        return turn

    monkeypatch.setattr(loop, "finish", faulty)
    with hostile_harness([]) as made:
        made.play()

        assert made.state(INNOCENT) == "DONE"
        assert made.state(HOSTILE) == "DONE"
        assert BUG in made.faults
        assert "Traceback" in made.faults
        assert r"\x1b[2J\u202e [redacted anthropic-key]" in made.faults
        assert not {"\x1b", "\u202e", KEY} & {*made.faults, *made.faults.split()}
        made.close()
        code, said = made.run("log", HOSTILE)
        assert (code, "Traceback" in said) == (0, False)
        assert "Parley itself failed here" in said
        assert made.run("audit", HOSTILE)[0] == 0


def test_a_fault_that_comes_again_and_again_ends_in_the_failure_dialog(monkeypatch: pytest.MonkeyPatch) -> None:
    real = finish.finish

    def faulty(job: OwnedJob, world: World, event: Ended) -> Any:
        if job.id == HOSTILE:
            raise KeyError(BUG)
        return real(job, world, event)

    monkeypatch.setattr(loop, "finish", faulty)
    with hostile_harness([]) as made:
        made.play()

        assert made.state(INNOCENT) == "DONE"
        made.close()
        assert "give-up" in {step.rule for step in made.later(lambda store: list(store.steps(HOSTILE)))}
        assert made.run("audit", HOSTILE)[0] == 0


def test_a_fault_that_no_turn_is_to_blame_for_puts_the_job_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    real = inputs.take

    def faulty(job: OwnedJob, world: World, row: Any) -> None:
        if job.id == HOSTILE:
            raise ValueError(BUG)
        real(job, world, row)

    monkeypatch.setattr(inputs, "take", faulty)
    with hostile_harness([]) as made:
        made.play()

        assert made.state(INNOCENT) == "DONE"
        assert list(made.engine.put_aside()) == [HOSTILE]
        assert not made.store.owner_lives(HOSTILE)
        made.close()
        assert made.run("audit", HOSTILE)[0] == 0


def test_without_a_log_of_faults_they_are_loud(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the simulator: a bug of Parley's own must not be hidden from its tests."""

    def faulty(job: OwnedJob, world: World, event: Ended) -> Any:
        raise ValueError(BUG)

    monkeypatch.setattr(loop, "finish", faulty)
    with hostile_harness([], contained=False) as made, pytest.raises(ValueError, match=BUG):
        made.play()
