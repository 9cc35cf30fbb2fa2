"""State records as files: saved and loaded they are the same, and nothing else is taken for one."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.engine.files.job_records import render, state_document
from parley.engine.files.state_files import StateFileError, load_state, save_state
from parley.protocol.molecules import Record
from parley.protocol.states import TRANSITIONS, Action
from parley.protocol.transitions import make_child_state, make_initial_state, transition
from tests.engine.job_harness import YES, JobHarness, book

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
MOMENTS = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def records(draw: st.DrawFn) -> Record:
    """A record of a job or of a subteam, after any walk through the table."""
    record = make_initial_state(draw(WORDS), task_id=draw(WORDS), team_id=draw(WORDS))
    if draw(st.booleans()):
        record = make_child_state(record, draw(WORDS), draw(WORDS), draw(WORDS))
    for _ in range(draw(st.integers(0, 8))):
        if not record.live:
            break
        action = draw(st.sampled_from(sorted(TRANSITIONS[record.state])))
        record = transition(record, action, actor=draw(WORDS), at=draw(MOMENTS), reason=draw(WORDS))
    return record


@given(record=records())
def test_what_was_saved_is_what_is_loaded(tmp_path_factory: pytest.TempPathFactory, record: Record) -> None:
    path = tmp_path_factory.mktemp("state") / "state.json"
    path.write_text("something older")

    save_state(record, path)

    assert load_state(path) == record
    assert [each.name for each in path.parent.iterdir()] == ["state.json"]


def test_a_jobs_own_records_can_be_loaded(tmp_path: Path) -> None:
    stage = JobHarness(book(human=YES)).run()
    path = tmp_path / "state.json"
    path.write_text(render(stage.document()))

    assert load_state(path) == stage.record
    assert stage.record.state == "DONE"


GOOD = state_document(transition(make_initial_state("j"), Action.APPROVED_INTENT))


@pytest.mark.parametrize(
    "change, why",
    [
        ({"format": 2}, "its format is 2, and this Parley reads 1"),
        ({"format": None}, "its format is None"),
        ({"visit": None}, "its visit: Expected `int`, got `null`"),
        ({"depth": True}, "its depth: Expected `int`, got `bool`"),
        ({"state": "LIMBO"}, "its state: Invalid enum value 'LIMBO'"),
        ({"state": "EXECUTE"}, "it says EXECUTE, and its history leads to PLAN"),
        ({"phase": "execution"}, "its phase is 'execution', and its state belongs to planning"),
        ({"history": [{}]}, "it has no 'state'"),
        ({"history": [7]}, "entry 1 of its history is no JSON object"),
        ({"history": {}}, "its history must be a list"),
        ({"mood": "good"}, "it has 'mood', which no state record has"),
        ({"history": [{**GOOD["history"][0], "state": "DONE"}]}, "does not leave DONE"),
    ],
)
def test_what_is_no_state_record_is_told_in_one_line(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(json.dumps({**GOOD, **change}))

    with pytest.raises(StateFileError) as refused:
        load_state(path)

    assert f"{path} holds no state record: " in str(refused.value)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_field_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(json.dumps({key: value for key, value in GOOD.items() if key != name}))

    with pytest.raises(StateFileError, match=name):
        load_state(path)


@pytest.mark.parametrize("text, why", [("", "is not JSON"), ("[]", "it is no JSON object"), ("{", "is not JSON")])
def test_garbage_is_told_in_one_line(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)

    with pytest.raises(StateFileError, match=why):
        load_state(path)


def test_a_place_that_can_not_be_reached_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(StateFileError, match="can't be read: No such file or directory"):
        load_state(tmp_path / "none.json")
    with pytest.raises(StateFileError, match="can't be written: No such file or directory"):
        save_state(make_initial_state("j"), tmp_path / "nowhere" / "state.json")


def test_a_save_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.mkdir()

    with pytest.raises(StateFileError, match="can't be written"):
        save_state(make_initial_state("j"), path)

    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]
