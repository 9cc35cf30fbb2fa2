"""A note that was refused for its form is not lost: it stays pending until its maker mends or withdraws it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.engine.values import step_extra
from parley.workflow.files.session import read_session, render_session, take_back
from parley.workflow.files.status_file import read_status
from parley.workflow.model.code_steps import ExecutorStep
from parley.workflow.model.events import PendingSettled
from parley.workflow.model.flow import Flow
from parley.workflow.model.pending_notes import MOST_PENDING, MOST_WRITTEN, pending_id, refused
from parley.workflow.model.terms import SHARED_STATUS, Category, Note, Session, session_of
from tests.engine.job_harness import JOB, Rule, always, on, say, write
from tests.workflow.workflow_harness import WorkflowHarness, note, output, plan, resolve

ALONE = plan({"name": "one"})
BAD = {"description": "A or B?", "context": "the table", "category": "opinion"}
GOOD = {**BAD, "category": "implementation_detail", "status": "resolved", "resolution": "A"}
MADE = (write("src/one/one.py", "one"), write(output("one"), "one"), say("made"))
GIVEN = Session("one_1727539200", 1727539800, (Note("note_001", 1727539900, "Sorted?", "Listing"),))


def badly(*later: Rule) -> WorkflowHarness:
    """A doer whose first turn leaves a note of no category that there is."""
    return WorkflowHarness(ALONE, {"one": [on(r"^\[TASK\]", note(**BAD), *MADE), *later]})


def pending(flow: Flow) -> list[str]:
    session = flow.members["one"].standing.session
    return [one.pending_id for one in session.pending] if session else []


def test_a_refused_note_keeps_the_gate_closed_until_its_maker_mends_it() -> None:
    stage = badly(
        on(r"^\[REVIEW\]", say("looked")),
        on(r"pending_001", note(note_id="pending_001", **GOOD), say("mended")),
        always(".", say("so")),
    )
    stage.until(lambda seen: seen.started("one") > 1)
    assert pending(stage.flow) == ["pending_001"]
    assert stage.flow.gate == "blocked"
    told = stage.told("one")[1]
    assert 'category is "opinion"; it must be one of technology' in told
    assert "A or B?" in told
    shared, _ = read_status(stage.files()[SHARED_STATUS])
    assert shared is not None
    assert shared.agents["one"].pending == 1
    read, _ = read_session(stage.files()[session_of("one")], "one")
    assert read is not None
    assert json.loads(read.pending[0].written) == BAD

    stage.done()
    assert pending(stage.flow) == []
    assert [(one.description, one.status) for one in stage.noted("one")] == [("A or B?", "resolved")]


def test_who_never_mends_it_is_never_ready_and_others_hear_of_it() -> None:
    architect = [always(".", resolve(agent="one", note_id="note_001", answer="mend it", source="planning"))]
    human = [{"match": "INTENT|PLAN", "verdict": "approve", "text": "yes", "repeat": True}]
    agents = {"one": [on(r"^\[TASK\]", note(**BAD), *MADE), always(".", say("so"))], "workflow-architect": architect}
    stage = WorkflowHarness(ALONE, agents, human)
    stage.until(lambda seen: seen.started("workflow-architect"))

    assert pending(stage.flow) == ["pending_001"]
    assert 'pending_001: category is "opinion"' in stage.told("workflow-architect")[0]
    assert not stage.flow.members["one"].standing.rounds
    stage.until(lambda seen: seen.started("one") > 6)
    assert pending(stage.flow) == ["pending_001"]


def test_a_retry_in_the_same_turn_mends_it() -> None:
    first = on(r"^\[TASK\]", note(**BAD), note(**GOOD), *MADE)
    stage = WorkflowHarness(ALONE, {"one": [first, always(".", say("so"))]}).done()

    assert pending(stage.flow) == []
    assert len(stage.noted("one")) == 1
    assert not any("pending_001" in told for told in stage.told("one"))


def test_it_may_be_withdrawn_with_a_reason() -> None:
    withdrawn = {"note_id": "pending_001", "status": "withdrawn"}
    stage = badly(
        on(r"pending_001", note(**withdrawn), note(**withdrawn, resolution="it was nothing"), say("gone")),
        always(".", say("so")),
    ).done()

    assert any("resolution is missing; say why you withdraw the note" in text for text in stage.refusals)
    assert pending(stage.flow) == []
    assert stage.noted("one") == ()
    rows = [row for row in stage.steps() if row.who == "workflow-executor"]
    left = [step_extra.read(row.extra).left(ExecutorStep) for row in rows]
    settled = [event for step in left if step is not None for event in step.events if isinstance(event, PendingSettled)]
    assert [event.reason for event in settled] == ["withdrawn: it was nothing"]


# ---- by its file ---------------------------------------------------------------------------------


def entry(number: int, **fields: Any) -> dict[str, Any]:
    """A note as a file has it."""
    made = {"note_id": f"note_{number:03}", "timestamp": 1, "description": f"doubt {number}", "context": "here"}
    return {**made, "category": "requirements", "status": "open", **fields}


def filed(*notes: Any, given: Session = GIVEN, **top: Any) -> str:
    """The given file, with these notes after those that are in it."""
    document = json.loads(render_session(given))
    return json.dumps({**document, "notes": [*document["notes"], *notes], **top})


def test_what_is_wrong_with_one_note_of_a_file_takes_nothing_from_the_others() -> None:
    taken = take_back(GIVEN, filed(entry(2), entry(3, category="opinion"), entry(4)), 5)

    assert [change.note.description for change in taken.changes] == ["doubt 2", "doubt 4"]
    [(written, problems)] = taken.unfit
    assert json.loads(written) == entry(3, category="opinion")
    assert "notes[2].category" in problems[0]
    assert taken.findings == ()


def test_a_file_that_was_written_from_nothing_loses_no_note() -> None:
    taken = take_back(GIVEN, json.dumps({**json.loads(filed()), "notes": [entry(1)]}), 5)

    assert [finding.text for finding in taken.findings] == ["note_001 is gone"]
    assert ["doubt 1" in written for written, _ in taken.unfit] == [True]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"notes": 5}',
        filed(entry(2)).replace('"notes"', '"remarks"'),
        filed(entry(2), entry(3, context="\0")),
    ],
)
def test_a_file_that_can_not_be_read_is_pending_as_it_is(text: str) -> None:
    taken = take_back(GIVEN, text, 5)

    assert taken.changes == ()
    assert [written for written, _ in taken.unfit] == [text]


# NUL is no character of any text: a file that has one is pending as a whole, as above.
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9)
ITEMS = st.lists(
    st.builds(
        lambda drop, more: {key: value for key, value in {**entry(2), **more}.items() if key not in drop},
        st.sets(st.sampled_from(sorted(entry(2)))),
        st.dictionaries(
            st.sampled_from(sorted(entry(2))),
            st.none() | st.integers(-(2**63), 2**63 - 1) | TEXTS,
            max_size=2,
        ),
    )
    | st.none()
    | TEXTS,
    max_size=4,
)


@given(ITEMS)
def test_every_new_note_of_a_file_is_taken_or_pending(items: list[Any]) -> None:
    taken = take_back(GIVEN, filed(*items), 5)
    made = [change for change in taken.changes if change.made]

    assert len(made) + len(taken.unfit) == len(items)
    session = GIVEN
    for number, (written, problems) in enumerate(taken.unfit, 1):
        session = refused(session, number, written, problems, 5)
    assert read_session(render_session(session)) == (session, [])


def test_what_is_pending_is_mended_and_withdrawn_in_the_file_and_never_by_leaving_it_out() -> None:
    session = refused(refused(GIVEN, 1, "one", ["no"], 4), 2, "two", ["no"], 4)
    assert not take_back(session, filed(given=session, pending=[]), 5).withdrawn
    document = json.loads(render_session(session))
    document["pending"][1]["withdrawn"] = "it was nothing"
    document["notes"].append(entry(2, mends="pending_001"))

    taken = take_back(session, json.dumps(document), 5)

    assert taken.withdrawn == (("pending_002", "it was nothing"),)
    assert [change.mends for change in taken.changes] == ["pending_001"]
    assert (taken.findings, taken.unfit) == ((), ())


def test_a_note_of_a_file_stays_although_its_file_is_written_anew_and_through_crashes() -> None:
    bad = json.dumps({"task_id": "one_1727539200", "session_start": 1, "notes": [entry(1, status="done")]})
    mended = entry(1, mends="pending_001", category="obvious_bug", status="resolved", resolution="done",
                   resolved_by="agent_self", resolution_timestamp=1)  # fmt: skip
    after = {"task_id": "one_1727539200", "session_start": 1, "notes": [mended]}
    rules = [
        on(r"^\[TASK\]", {"shell": f"put {session_of('one')} {bad}"}, *MADE),
        on(r"^\[REVIEW\]", say("looked")),
        on(r"pending_001", {"shell": f"put {session_of('one')} {json.dumps(after)}"}, say("mended")),
        always(".", say("so")),
    ]
    stage = WorkflowHarness(ALONE, {"one": rules})
    stage.until(lambda seen: seen.started("one") > 1)
    stage.kill()
    stage.adopt()
    stage.until(lambda seen: seen.started("one") > 2)
    assert pending(stage.flow) == ["pending_001"]
    assert "pending_001" in stage.disk.work[JOB, stage.thread("one")][session_of("one")]
    stage.done()

    assert pending(stage.flow) == []
    assert [one.category for one in stage.noted("one")] == [Category.BUG]


# ---- bounds --------------------------------------------------------------------------------------


def test_what_is_kept_is_bounded_and_the_same_is_kept_once() -> None:
    session = GIVEN
    for number in range(1, 3 * MOST_PENDING):
        session = refused(session, number, f"{number} {'x' * 2 * MOST_WRITTEN}", ["no"], 4)
        session = refused(session, number + 1, f"{number} {'x' * 2 * MOST_WRITTEN}", ["no"], 4)

    assert len(session.pending) == MOST_PENDING
    assert max(len(one.written) for one in session.pending) <= MOST_WRITTEN
    assert len({one.pending_id for one in session.pending}) == MOST_PENDING
    assert pending_id(7) == "pending_007"
