"""Whole jobs: whatever the agents of one make, call and say, the job beside it is done, and every command works."""

from __future__ import annotations

import os
import time

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz import hostile_strategies
from tests.fuzz.hostile_harness import CODES, HOSTILE, INNOCENT, SURPRISES, hostile_harness
from tests.fuzz.hostile_strategies import Made, Turn

EXAMPLES = 2
FLOWS = 1
LEAST = 4  # turns of a script that make something: the first script that is drawn would do nothing else
HOURS = float(os.environ.get("PARLEY_SOAK_HOURS", "1"))


def scripts(turns: st.SearchStrategy[Turn], made: st.SearchStrategy[Made]) -> st.SearchStrategy[list[Turn]]:
    """Turns of which some make something in any case."""
    makers = st.lists(made.map(lambda one: Turn(made=[one])), min_size=LEAST, max_size=LEAST)
    return st.builds(lambda first, more: [*first, *more], makers, st.lists(turns, min_size=1, max_size=6))


def play(script: list[Turn], *, flow: bool = False) -> None:
    """Play a script, and look at all that must be so whatever it was. `flow`: while a workflow is executed."""
    with hostile_harness(script, flow=flow) as made:
        made.play()
        assert made.state(INNOCENT) == "DONE"
        assert made.faults == ""
        made.close()
        for command, code, said in made.reading():
            assert code in CODES, (command, code)
            assert not [word for word in SURPRISES if word in said], (command, said[-2000:])
            if command.startswith("audit"):
                assert code == 0, (command, said[-2000:])
            assert command != f"merge {INNOCENT}" or code == 0, said[-2000:]
        assert made.ended(HOSTILE)


# Not shrunk: an example takes a second and more, and its script says enough as it is.
@settings(max_examples=EXAMPLES, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(scripts(hostile_strategies.turns, hostile_strategies.made))
def test_no_turn_stops_the_run_another_job_or_a_command(script: list[Turn]) -> None:
    play(script)


@settings(max_examples=FLOWS, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(scripts(hostile_strategies.flow_turns, hostile_strategies.flow_files()))
def test_no_turn_of_a_workflow_stops_the_run_another_job_or_a_command(script: list[Turn]) -> None:
    play(script, flow=True)


@pytest.mark.soak
def test_no_turn_stops_anything_for_hours() -> None:
    """The same for PARLEY_SOAK_HOURS, each round with scripts that no earlier one had."""
    until = time.monotonic() + HOURS * 3600

    @settings(max_examples=20, phases=(Phase.generate,), derandomize=False, database=None)
    @given(st.lists(hostile_strategies.turns | hostile_strategies.flow_turns, min_size=1, max_size=12), st.booleans())
    def one_round(script: list[Turn], flow: bool) -> None:
        play(script, flow=flow)

    while time.monotonic() < until:
        one_round()
