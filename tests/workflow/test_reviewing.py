"""A verifier's own notes: made like a doer's, and nothing is verified before each is settled."""

from __future__ import annotations

from typing import Any

import pytest

from parley.workflow.files.session import read_session
from parley.workflow.files.status_file import read_status
from parley.workflow.host.orchestration_files import files_of
from parley.workflow.model.events import ReviewBegun, RoundEnded, apply
from parley.workflow.model.flow import Entity, EntityKind, Flow, IllegalEvent
from parley.workflow.model.terms import SHARED_STATUS, Note, NoteStatus, Round, session_of
from tests.engine.job_harness import Rule, always, ask, on, say, write
from tests.workflow.workflow_harness import WorkflowHarness, doer, note, plan, resolve, verdict

OPEN = {"description": "the table may be empty", "context": "reading the output", "category": "implementation_detail"}
ASKED = {
    "description": "is an empty table allowed?", "context": "reading the output", "category": "requirements",
    "status": "escalated", "escalation_reason": "only the user knows",
}  # fmt: skip
SETTLED = {"note_id": "note_001", "status": "resolved", "resolution": "the output says so"}
VERIFY = r"^\[VERIFY\] one, round"
HELD = r"^\[VERIFY\] one: your verdict does not count"
ARCHITECT = [
    on(r"is an empty table allowed\?", ask("allowed?")),
    on(r"^\[ANSWER", resolve(agent="one", note_id="note_001", answer="it is", source="user"), say("answered")),
]


def played(judge: list[Rule], *names: str, architect: list[Rule] | None = None, **more: Any) -> WorkflowHarness:
    agents = [{"name": name} for name in names or ("one",)]
    team = {name: doer(name) for name in names or ("one",)}
    return WorkflowHarness(
        plan(*agents), {**team, "judge": judge, "workflow-architect": architect or ARCHITECT}, **more
    )


def noted(job: WorkflowHarness, agent: str = "one") -> tuple[Note, ...]:
    session = job.flow.members[agent].review.session
    assert session is not None
    return session.notes


def test_an_open_note_of_the_verifiers_holds_its_approval_up_until_it_is_settled() -> None:
    judge = [
        on(VERIFY, note(**OPEN), verdict("verified"), say("good")),
        on(HELD, note(**SETTLED), verdict("verified"), say("settled")),
    ]
    job = played(judge).done()
    assert [one.status for one in noted(job)] == [NoteStatus.RESOLVED]
    assert len(job.flow.members["one"].standing.rounds) == 1
    told = [text for text in job.told("judge") if "does not count" in text]
    assert len(told) == 1
    assert "note_001 [open" in told[0]


def test_while_it_is_open_the_gate_is_blocked_and_the_shared_file_counts_it() -> None:
    judge = [on(VERIFY, note(**OPEN), verdict("verified"), say("good"))]
    job = played(judge).until(lambda job: any("does not count" in text for text in job.told("judge")))
    shared, findings = read_status(job.files()[SHARED_STATUS])
    assert shared is not None, findings
    check = shared.verification["judge"]
    assert (check.notes, check.unresolved, shared.gate) == (1, 1, "blocked")
    session, _ = read_session(job.files()[session_of("judge")], "judge")
    assert session is not None
    assert [one.description for one in session.notes] == [OPEN["description"]]
    assert job.statuses() == {"one": "ready_for_verification"}


def test_an_escalated_note_goes_up_and_its_answer_comes_back_to_the_verifier_alone() -> None:
    judge = [
        on(rf"{VERIFY} 1[\s\S]*\[ANSWERS\]", verdict("verified"), say("good")),
        on(VERIFY, note(**ASKED), verdict("rejected", "it is empty"), say("I wonder")),
    ]
    job = played(judge).done()
    (mine,) = noted(job)
    assert (mine.status, mine.resolved_by) == (NoteStatus.RESOLVED, "user")
    assert "it is" in (mine.resolution or "")
    assert [one.verdict for one in job.flow.members["one"].standing.rounds] == ["verified"]
    assert job.started("judge") == 2
    assert job.started("one") == 2  # its task and its review: it has nothing to do with the answer
    (asked,) = [text for text in job.told("workflow-architect") if text.startswith("[ESCALATION]")]
    assert "is an empty table allowed? (while: judge, its verifier, asks in its note_001: reading the output" in asked
    assert "its verdict waits: rejected; it is empty" in asked


def test_the_summary_and_the_archive_have_the_verifiers_notes() -> None:
    judge = [on(VERIFY, note(**OPEN), note(**SETTLED), verdict("verified"), say("good"))]
    job = played(judge).done()
    files = job.files()
    assert "`judge` note_001 (implementation_detail): `the table may be empty`" in files["WORK_SUMMARY.md"]
    assert session_of("judge") not in files
    kept = [path for path in files if path.startswith("orchestration/agents/judge/completion_drive/session_2")]
    assert len(kept) == 1
    session, _ = read_session(files[kept[0]], "judge")
    assert session is not None
    assert session.notes == noted(job)


def test_a_verifier_of_several_doers_keeps_what_it_noted_about_each() -> None:
    judge = [always(r"^\[VERIFY\]", note(**OPEN), note(**SETTLED), verdict("verified"), say("good"))]
    job = played(judge, "one", "two").done()
    assert len(noted(job, "one")) == len(noted(job, "two")) == 1
    kept = [path for path in job.files() if path.startswith("orchestration/agents/judge/completion_drive/session_2")]
    assert len(kept) == 2
    shared, _ = read_status(job.files()[SHARED_STATUS])
    assert shared is not None
    assert shared.verification["judge"].notes == 2


def test_a_note_in_its_file_counts_as_one_by_its_tool() -> None:
    by_tool = played([on(VERIFY, note(**OPEN), say("hm"))])
    by_tool.until(lambda job: any("without a verdict" in text for text in job.told("judge")))
    text = by_tool.files()[session_of("judge")]
    judge = [
        on(VERIFY, write(session_of("judge"), text), verdict("verified"), say("good")),
        on(HELD, note(**SETTLED), verdict("verified"), say("settled")),
    ]
    job = played(judge).done()
    assert [(one.description, one.resolution) for one in noted(job)] == [(OPEN["description"], SETTLED["resolution"])]


def test_a_file_of_notes_that_can_not_be_read_stays_pending_until_it_is_withdrawn() -> None:
    judge = [
        on(VERIFY, write(session_of("judge"), '{"notes": 3}'), verdict("verified"), say("good")),
        on(
            HELD,
            note(note_id="pending_001", status="withdrawn", resolution="a slip"),
            verdict("verified"),
            say("withdrawn"),
        ),
    ]
    job = played(judge).done()
    (told,) = [text for text in job.told("judge") if "does not count" in text]
    assert "pending_001, written as" in told
    assert job.started("judge") == 2


def test_a_verifier_that_gives_no_verdict_either_leaves_no_note_behind() -> None:
    judge = [
        on(r"\[ANSWERS\]", verdict("verified"), say("good")),
        on(VERIFY, note(**OPEN), say("hm")),
        always(r"^\[VERIFY\] one: your turn ended", say("hm")),
    ]
    architect = [always(".", resolve(agent="one", note_id="note_001", answer="it may", source="planning"), say("so"))]
    job = played(judge, architect=architect).done()
    assert [one.resolution for one in noted(job)] == ["it may"]


def test_a_verifier_that_settles_nothing_is_told_so_often_and_then_it_goes_up() -> None:
    judge = [
        on(r"\[ANSWERS\]", verdict("verified"), say("good")),
        on(VERIFY, note(**OPEN), verdict("verified"), say("good")),
        always(HELD, verdict("verified"), say("good, I say")),
    ]
    architect = [always(".", resolve(agent="one", note_id="note_001", answer="it may", source="planning"), say("so"))]
    job = played(judge, architect=architect).done()
    assert len([text for text in job.told("judge") if "does not count" in text]) == 3
    (mine,) = noted(job)
    assert mine.escalation_reason == "its maker was asked to settle it and left it open"
    assert mine.resolution == "it may"


def test_a_note_that_was_refused_for_its_form_holds_up_too_and_is_not_lost() -> None:
    bad = {"description": "who may read it?", "context": "reading", "category": "nonsense"}
    judge = [
        on(r"\[ANSWERS\]", verdict("verified"), say("good")),
        on(rf"{VERIFY} 1", note(**bad), verdict("verified"), say("good")),
        always(r"^\[VERIFY\]", verdict("verified"), say("good")),
    ]
    architect = [always(".", resolve(agent="one", note_id="note_001", answer="all", source="planning"), say("so"))]
    job = played(judge, architect=architect).done()
    assert any("pending_001" in text for text in job.told("judge"))
    assert "who may read it?" in job.noted("one")[0].description
    assert job.flow.unsettled == 0


def test_a_rejection_needs_no_settled_note_and_the_note_waits_for_the_next_round() -> None:
    judge = [
        on(rf"{VERIFY} 1", note(**OPEN), verdict("rejected", "mend it"), say("no")),
        on(rf"{VERIFY} 2[\s\S]*note_001 \[open", note(**SETTLED), verdict("verified"), say("good")),
    ]
    job = played(judge).done()
    assert [one.verdict for one in job.flow.members["one"].standing.rounds] == ["rejected", "verified"]


def test_who_is_abandoned_leaves_no_note_of_its_verifier_open() -> None:
    judge = [
        on(VERIFY, note(**OPEN), verdict("rejected", "it is empty"), say("no")),
        always(r"^\[VERIFY\]", verdict("verified"), say("good")),
    ]
    text = plan(
        {"name": "one"}, {"name": "two", "depends_on": ["one"]}, {"name": "three"}, stages=[["one", "three"], ["two"]]
    )
    text = text.replace("back to one", "abandon it")
    team = {name: doer(name) for name in ("one", "two", "three")}
    job = WorkflowHarness(text, {**team, "judge": judge}).done()
    assert [name for name, _ in job.flow.abandoned()] == ["one", "two"]
    (mine,) = noted(job)
    assert (mine.status, mine.resolved_by) == (NoteStatus.RESOLVED, "workflow_executor")
    assert "abandoned" in (mine.resolution or "")


def test_a_verifier_that_asks_what_it_was_told_goes_round_in_a_circle_and_the_user_decides() -> None:
    again = {**ASKED, "category": "scope"}
    judge = [on(r"the user says so", verdict("verified"), say("good")), on(VERIFY, note(**again), say("I wonder"))]
    answers = [
        on(rf"^\[ESCALATION\][\s\S]*note_00{number}", resolve(
            agent="one", note_id=f"note_00{number}", answer="it is", source="planning"), say("so"))
        for number in (1, 2)
    ]  # fmt: skip
    architect = [
        *answers,
        on(r"^\[LOOP\]", ask("allowed?")),
        on(
            r"^\[ANSWER",
            resolve(agent="one", note_id="note_003", answer="the user says so", source="user"),
            say("answered"),
        ),
    ]
    job = played(judge, architect=architect).done()
    assert len([text for text in job.told("workflow-architect") if text.startswith("[LOOP]")]) == 1
    assert [one.resolved_by for one in noted(job)] == ["workflow_executor", "workflow_executor", "user"]


def test_the_protocol_itself_refuses_to_verify_over_a_verifiers_open_note() -> None:
    judge = [on(VERIFY, note(**OPEN), verdict("verified"), say("good"))]
    job = played(judge).until(lambda job: any("does not count" in text for text in job.told("judge")))
    flow: Flow = job.flow
    with pytest.raises(IllegalEvent, match="judge has a note that is not settled"):
        apply(flow, RoundEnded("one", Round(1, "judge", "verified", time=1)))


def test_another_verifier_takes_the_notes_over_and_the_file_of_the_first_goes() -> None:
    judge = [on(VERIFY, note(**OPEN), verdict("verified"), say("good"))]
    job = played(judge).until(lambda job: any("does not count" in text for text in job.told("judge")))
    flow, before = job.flow, noted(job)
    assert files_of(flow, {Entity(EntityKind.AGENT, "one")})[session_of("judge")] is not None
    apply(flow, ReviewBegun("one", "other", "x_1727539200", 9))
    files = files_of(flow, {Entity(EntityKind.AGENT, "one")})
    session, _ = read_session(files[session_of("other")] or "", "other")
    assert files[session_of("judge")] is None
    assert session is not None
    assert session.notes == before
    assert [name for name, _ in flow.reviews()] == ["other"]
