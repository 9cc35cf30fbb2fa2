"""Who may make, settle and hand up a note, and what a note must say for that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.workflow.files.session import read_session, render_session
from parley.workflow.model.notes import (
    BY_EXECUTOR,
    BY_USER,
    CATEGORIES,
    MOST_NOTES,
    MUST_ESCALATE,
    RESOLVERS,
    SELF,
    called,
    escalated,
    note_id,
    of_status,
    put,
    read_call,
    refuse_blocked,
    refuse_ready,
    refuse_self,
    resolved,
    unsettled,
)
from parley.workflow.model.terms import MAY_SELF_RESOLVE, Category, Note, NoteStatus, Session
from tests.workflow.plan_strategies import sessions

NOW = 1_727_550_000
EMPTY = Session("create_user_table_1727539200", 1727539800)
DOUBT = {"description": "Which hash", "context": "Passwords"}

CALLS = st.dictionaries(
    st.sampled_from(
        ["note_id", "description", "context", "category", "status", "resolution", "escalation_reason", "x"]
    ),
    st.sampled_from(["note_001", "note_002", "open", "resolved", "escalated", "text", "", *CATEGORIES])
    | st.none()
    | st.integers()
    | st.text(max_size=3),
    max_size=6,
)


@settings(max_examples=80)
@given(sessions(), st.lists(CALLS, max_size=4))
def test_whatever_is_called_leaves_a_session_that_its_file_can_hold(session: Session, calls: list[Any]) -> None:
    for call in calls:
        before = session
        note, refusal = called(session, read_call(call), NOW + 10**10)
        assert (note is None) == bool(refusal)
        assert "\n" not in refusal
        if note is not None:
            session = put(session, note)
            assert len(session.notes) - len(before.notes) == (0 if "note_id" in call else 1)
    assert read_session(render_session(session)) == (session, [])


@settings(max_examples=60)
@given(sessions())
def test_the_gate_opens_when_every_note_is_settled(session: Session) -> None:
    left = unsettled(session)

    assert bool(refuse_ready(session)) == bool(left)
    assert all(note.note_id in refuse_ready(session) for note in left)
    assert bool(refuse_blocked(session)) == (not of_status(session, NoteStatus.ESCALATED))


@pytest.mark.parametrize("category", [category.value for category in Category])
def test_only_four_categories_may_be_settled_by_their_maker(category: str) -> None:
    settled, refusal = called(
        EMPTY, read_call({**DOUBT, "category": category, "status": "resolved", "resolution": "so"}), NOW
    )
    may = Category(category) in MAY_SELF_RESOLVE

    assert (settled is not None) == may == (refuse_self(Category(category)) == "")
    assert may or "must be escalated" in refusal
    assert not may or category not in MUST_ESCALATE


@pytest.mark.parametrize("category", [category.value for category in Category])
@pytest.mark.parametrize("by", [BY_EXECUTOR, BY_USER])
def test_an_escalated_note_of_any_category_is_settled_by_others_and_keeps_its_reason(category: str, by: str) -> None:
    note, _ = called(
        EMPTY, read_call({**DOUBT, "category": category, "status": "escalated", "escalation_reason": "why"}), NOW
    )
    assert note is not None
    answered, refusal = resolved(note, "argon2", by, NOW + 5)

    assert refusal == ""
    assert answered == Note(
        note_id="note_001",
        timestamp=NOW,
        description="Which hash",
        context="Passwords",
        status=NoteStatus.RESOLVED,
        category=Category(category),
        resolution="argon2",
        resolved_by=by,
        resolution_timestamp=NOW + 5,
        escalation_reason="why",
    )
    assert resolved(note, "mine", SELF, NOW)[0] is None
    assert all(resolved(answered, "again", who, NOW)[0] is None for who in RESOLVERS)
    assert escalated(answered, "again")[0] is None


REFUSED = [
    ({}, "description is missing"),
    ({"description": "a"}, "context is missing"),
    ({**DOUBT, "category": "colour"}, 'category is "colour"; it must be one of technology'),
    ({**DOUBT, "status": "done"}, 'status is "done"'),
    ({**DOUBT, "status": "escalated"}, "escalation_reason is missing"),
    ({**DOUBT, "category": "obvious_bug", "status": "resolved"}, "resolution is missing"),
    ({**DOUBT, "description": 3}, "description is 3; it must be a text"),
    ({**DOUBT, "description": "\ud800"}, "half of a surrogate pair"),
    ({**DOUBT, "description": "x" * 8001}, "keep it within 8000"),
    ({**DOUBT, "resolved_by": "user"}, '"resolved_by" can\'t be given here'),
    ({"note_id": "note_009", "status": "resolved"}, 'there is no note "note_009"'),
    ({"note_id": "note_001"}, "status is missing"),
    ({"note_id": "note_001", "status": "open"}, "can't be opened again"),
    ({"note_id": "note_001", "status": "escalated", "category": "scope"}, "is of category obvious_bug, which stays"),
]


@pytest.mark.parametrize("call, told", REFUSED, ids=[told for _, told in REFUSED])
def test_a_call_that_says_too_little_or_too_much_is_refused(call: dict[str, Any], told: str) -> None:
    session = put(EMPTY, Note("note_001", NOW, "a", "b", category=Category.BUG))
    note, refusal = called(session, read_call(call), NOW)

    assert note is None
    assert told in refusal


def test_notes_are_numbered_in_order_and_a_session_holds_only_so_many() -> None:
    session = EMPTY
    for number in range(1, MOST_NOTES + 1):
        note, _ = called(session, read_call(DOUBT), NOW)
        assert note is not None
        assert note.note_id == note_id(number)
        session = put(session, note)

    assert "notes already" in called(session, read_call(DOUBT), NOW)[1]


def test_who_settles_a_note_is_one_of_three() -> None:
    assert "resolved_by is" in resolved(Note("note_001", NOW, "a", "b"), "so", "somebody", NOW)[1]
