"""A workflow whose process dies between any two status changes comes to the same end."""

import pytest

from tests.engine.job_harness import Rule, always, on, say, write
from tests.workflow.workflow_harness import PROVER, WorkflowHarness, note, output, plan, proved, resolve, verdict

HELP = note(description="which?", context="c", status="escalated", escalation_reason="r", category="scope")
WONDER = note(description="who?", context="c", status="escalated", escalation_reason="r", category="scope")
ASIDE = note(description="a name", context="c", category="implementation_detail")
SETTLED = note(note_id="note_002", status="resolved", resolution="as the code around has it")
TEXT = plan({"name": "one"}, {"name": "two", "depends_on": ["one"]})
AGENTS: dict[str, list[Rule]] = {
    "one": [
        on(r"^\[TASK\]", HELP, say("stuck")),
        on(r"^\[ANSWERS\]", write("src/one/one.py", "one"), write(output("one"), "one")),
        always(".", say("so")),
    ],
    "two": [
        on(r"^\[TASK\]", write("src/two/two.py", "two"), write(output("two"), "two")),
        always(".", say("so")),
    ],
    "judge": [
        on(r"\[ANSWERS\] judge", ASIDE, verdict("verified")),
        on("one, round 1", WONDER),
        on("one: your verdict does not count", SETTLED, verdict("verified")),
        on("two, round 1", verdict("rejected", "short")),
        always(".", verdict("verified")),
    ],
    "prover": [on("one, merge 1", proved(2)), *PROVER],
    "workflow-architect": [
        on("judge, its verifier, asks", resolve(agent="one", note_id="note_002", answer="y", source="planning")),
        on(r"^\[ESCALATION\]", resolve(agent="one", note_id="note_001", answer="x", source="planning")),
    ],
}


def end(stage: WorkflowHarness) -> tuple[object, ...]:
    """What must be the same however it came about."""
    flow = stage.flow
    rounds = {name: [one.verdict for one in member.standing.rounds] for name, member in flow.members.items()}
    one = flow.members["one"]
    sessions = [session for session in (one.standing.session, one.review.session) if session is not None]
    notes = [[(note.note_id, note.status, note.resolution) for note in session.notes] for session in sessions]
    files = {path: text for path, text in stage.files().items() if path.startswith(("src/", output("one")))}
    taken = sorted((one.agent, one.taken) for one in flow.merges)
    return stage.statuses(), rounds, notes, files, taken, flow.gate


@pytest.fixture(scope="module")
def undisturbed() -> tuple[tuple[object, ...], list[str]]:
    stage = WorkflowHarness(TEXT, AGENTS).done()
    return end(stage), list(stage.fuse.seen)


def begun(acts: list[str]) -> int:
    """How many acts come before the workflow: the commit that starts the first doer is the one before its tree."""
    return acts.index("refresh") - 4


def test_a_crash_before_a_commit_leads_to_the_same_end(undisturbed: tuple[tuple[object, ...], list[str]]) -> None:
    """Every other commit of the workflow; the long run dies at each."""
    due, acts = undisturbed
    for number in range(acts[: begun(acts)].count("commit") + 1, acts.count("commit") + 1, 2):
        stage = WorkflowHarness(TEXT, AGENTS)
        stage.die_at("commit", number)
        assert end(stage.done()) == due, number
        assert stage.processes > 1, number


def test_so_does_one_right_after_any_kind_of_effect(undisturbed: tuple[tuple[object, ...], list[str]]) -> None:
    due, acts = undisturbed
    for what in sorted(set(acts[begun(acts) :]) - {"commit"}):
        number = acts[: begun(acts)].count(what) + 1
        stage = WorkflowHarness(TEXT, AGENTS)
        stage.die_at(what, number, "after")
        assert end(stage.done()) == due, (what, number)
        assert stage.processes > 1, (what, number)


@pytest.mark.soak
@pytest.mark.parametrize("when", ["before", "after"])
def test_so_does_one_at_every_single_effect(when: str, undisturbed: tuple[tuple[object, ...], list[str]]) -> None:
    due, acts = undisturbed
    for number in range(1, len(acts) + 1):
        stage = WorkflowHarness(TEXT, AGENTS)
        stage.die_at("", number, when)
        assert end(stage.done()) == due, (number, acts[number - 1], when)
