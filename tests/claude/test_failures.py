"""What can't be waited out gives one clear end of the turn, and the next turn works."""

import pytest

from parley.ports.turns import Ended
from tests.apis.messages import Block, Fail, Turn, too_long
from tests.apis.script import Drop, Malformed, Say, Slow, Use
from tests.claude.conftest import Perform


@pytest.mark.parametrize(
    "trouble, fault, hard",
    [
        (Fail(401), "the API refused the login (401)", True),
        (Fail(400), "Claude Code could not go on: API Error", False),
        (too_long(), "its context is longer than the model takes", False),
    ],
    ids=["login", "request", "long"],
)
def test_an_api_that_refuses_ends_the_turn_in_one_clear_line(
    perform: Perform, trouble: Block, fault: str, hard: bool
) -> None:
    stage = perform(Turn("go", [trouble, Say("never")]))

    ended = stage.play("go")

    assert ended.fault.startswith(fault)
    assert "\n" not in ended.fault
    assert ended.hard == hard
    assert ended.handle == ""
    assert stage.processes() == []


def test_what_fails_once_is_tried_again_within_the_turn(perform: Perform) -> None:
    work = Use("Bash", {"command": "echo hi"})
    troubles = (Fail(529, times=1), Fail(429, retry_after=0.1, times=1), Drop(times=1), Malformed(times=1), Slow(0.6))
    stage = perform(Turn("go", [*(block for trouble in troubles for block in (trouble, work)), Say("end")]))

    ended = stage.play("go")

    assert (ended.fault, ended.text) == ("", "end")
    assert stage.results() == ["hi"] * len(troubles)
    assert len(stage.api.requests) == 2 * len(troubles)


def test_a_context_that_is_too_long_is_summed_up_once_and_tried_again(perform: Perform) -> None:
    stage = perform(
        Turn("first", [Use("Bash", {"command": "echo hi"}), Say("one")]),
        Turn("second", [too_long(times=1), Say("two")], repeat=True),
    )
    stage.play("first")

    ended = stage.play("second")

    assert (ended.fault, ended.text) == ("", "two")
    assert [aside.compacts for aside in stage.api.asides] == [True]


def test_an_agent_that_dies_is_a_fault(perform: Perform) -> None:
    stage = perform(Turn("die", [Use("Bash", {"command": "kill -9 $PPID"}), Say("never")]))

    died = stage.play("die")

    assert died.fault.startswith("Claude Code ended before its turn did")
    assert stage.processes() == []


def test_a_boundary_that_does_not_hold_is_a_hard_fault(perform: Perform) -> None:
    stage = perform(Turn("go", [Say("never")]))

    ended = stage.play("go", home=str(stage.workspace / "no/such/\0home"))

    assert isinstance(ended, Ended)
    assert ended.fault
    assert stage.api.requests == []
