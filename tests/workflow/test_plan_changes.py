"""A plan that the architecture group changes in mid-work: checked, approved, and only then in force."""

from collections.abc import Sequence
from typing import Any

from parley.workflow.terms import instructions_of
from tests.engine.stage import Action, Rule, always, on, say, sleep, write
from tests.workflow.book import AGAIN, LEAD, PLAN_FILE, Workflow, doer, note, output, plan, resolve
from tests.workflow.designs import VERIFIER
from tests.workflow.designs import doer as instructions

SCOPE = note(description="I need lib/", context="c", status="escalated", escalation_reason="r", category="scope")
BEFORE = plan({"name": "one"})
ONE = {"name": "one", "owns": ["src/one/**", "lib/**"], "boundaries": "no more"}
AFTER = plan(ONE)
CHECKED = (
    '"checkpoints": [{"from": "one", "to": "two", "by": "judge", "criteria": "it is there", "on_failure": "back"}]'
)
GROWN = plan(ONE, {"name": "two", "depends_on": ["one"], "inputs": [output("one")]}).replace(
    '"checkpoints": []', CHECKED
)
ANSWER = resolve(agent="one", note_id="note_001", answer="lib is yours", source="planning")


def told(name: str, inputs: str = "nothing") -> Action:
    return write(instructions_of(name), instructions(name, f"- {inputs}", f"- `{output(name)}`: text"))


def designed(text: str, *more: Action) -> list[Action]:
    """What the architect leaves: a plan and all that belongs to it."""
    judge = write(instructions_of("judge"), VERIFIER.format(name="judge"))
    return [write(PLAN_FILE, text), told("one"), judge, *more]


TWO = told("two", f"`{output('one')}`")


def needing_lib() -> list[Rule]:
    return [
        on(r"^\[TASK\]", SCOPE),
        on(r"^\[ANSWERS\]", write("lib/x.py", "x"), write(output("one"), "one")),
        always(".", say("so")),
    ]


def changed(*architect: Rule, human: Any = (), execute: Sequence[Rule] = AGAIN) -> Workflow:
    said = [*human, {"match": ".", "verdict": "approve", "text": "yes", "repeat": True}]
    agents = {"one": needing_lib(), "two": doer("two"), "workflow-architect": list(architect)}
    return Workflow(BEFORE, agents, said, execute=execute).done()


def test_a_re_scope_is_approved_recorded_and_enforced() -> None:
    stage = changed(on(r"^\[ESCALATION\]", *designed(AFTER), ANSWER))

    assert stage.files()["lib/x.py"] == "x"
    assert stage.flow.plan is not None
    assert stage.flow.plan.text == stage.files()[PLAN_FILE] == AFTER
    [rescope] = stage.flow.rescopes
    assert (rescope.agent, rescope.after) == ("one", ("src/one/**", "lib/**"))
    assert rescope.reason == "one asked by note_001; approved by the human"
    asked = next(body for body in stage.bodies("human") if "changed the workflow's plan" in body)
    assert "lib/**" in asked
    assert "lib/**" in stage.files()["orchestration/task-orchestration.md"]


def test_a_changed_plan_with_gaps_goes_back_before_anybody_sees_it() -> None:
    broken = AFTER.replace('"verifier": "judge"', '"verifier": "nobody"')
    stage = changed(on(r"^\[ESCALATION\]", *designed(broken), ANSWER), on(r"^\[DESIGN gaps\]", *designed(AFTER)))

    assert "nobody" in next(text for text in stage.told("workflow-architect") if text.startswith("[DESIGN gaps]"))
    assert sum("changed the workflow's plan" in body for body in stage.bodies("human")) == 1
    assert stage.files()["lib/x.py"] == "x"


def test_what_the_human_sends_back_is_revised() -> None:
    stage = changed(
        on(r"^\[ESCALATION\]", *designed(AFTER.replace("lib/**", "**/lib*")), ANSWER),
        on(r"^\[ANSWER revise\]", *designed(AFTER)),
        human=[{"match": "changed the workflow's plan", "verdict": "revise", "text": "too much"}],
    )

    assert stage.flow.workers["one"].owns == ("src/one/**", "lib/**")
    assert any("too much" in text for text in stage.told("workflow-architect"))


def test_agents_may_be_added() -> None:
    stage = changed(on(r"^\[ESCALATION\]", *designed(GROWN, TWO), ANSWER))

    assert stage.statuses() == {"one": "session_complete", "two": "session_complete"}
    assert stage.files()["src/two/two.py"] == "two"


def test_a_plan_that_is_never_mended_stays_out_of_force() -> None:
    broken = AFTER.replace('"verifier": "judge"', '"verifier": "nobody"')
    stage = changed(on(r"^\[ESCALATION\]", *designed(broken), ANSWER), execute=LEAD)

    gaps = [text for text in stage.told("workflow-architect") if text.startswith("[DESIGN gaps]")]
    assert len(gaps) == 3
    assert stage.flow.plan is not None
    assert stage.flow.plan.text == BEFORE
    assert "lib/x.py" not in stage.files()


def test_who_has_read_an_older_output_is_told_and_sent_back() -> None:
    above = {"name": "one", "owns": ["src/one/**"]}
    below = {"name": "two", "depends_on": ["one"], "inputs": [output("one")]}
    before = plan(above, below).replace('"checkpoints": []', CHECKED)
    after = plan({**above, "objective": "make one better"}, below).replace('"checkpoints": []', CHECKED)
    one = [*doer("one")[:2], on(r"^\[PLAN changed\]", write(output("one"), "better")), always(".", say("so"))]
    two = [on(r"^\[TASK\]", SCOPE), on(r"^\[ANSWERS\]", sleep(30), write(output("two"), "two")), always(".", say("so"))]
    answer = resolve(agent="two", note_id="note_001", answer="one is made better", source="planning")
    architect = [on(r"^\[ESCALATION\]", *designed(after, TWO), answer)]
    human = [{"match": ".", "verdict": "approve", "text": "yes", "repeat": True}]
    stage = Workflow(before, {"one": one, "two": two, "workflow-architect": architect}, human, execute=AGAIN).done()

    standing = stage.flow.members
    assert (standing["one"].standing.version, dict(standing["two"].standing.read)) == (2, {"one": 2})
    assert any(text.startswith("[VERSION] two") for text in stage.told("two"))
    assert stage.files()[output("one")] == "better"
    assert stage.started("two") > 3


def test_what_was_verified_with_an_older_output_is_looked_at_again() -> None:
    below = {"name": "two", "depends_on": ["one"], "inputs": [output("one")]}
    last = {"name": "three"}
    before = plan({"name": "one"}, below, last)
    after = plan({"name": "one", "objective": "make one better"}, below, last)
    one = [*doer("one")[:2], on(r"^\[PLAN changed\]", write(output("one"), "better")), always(".", say("so"))]
    answer = resolve(agent="three", note_id="note_001", answer="one is made better", source="planning")
    agents = {
        "one": one,
        "two": [on(r"^\[VERSION\]", write(output("two"), "with the better one")), *doer("two")],
        "three": doer("three", on(r"^\[TASK\]", SCOPE)),
        "workflow-architect": [on(r"^\[ESCALATION\]", *designed(after, TWO, told("three")), answer)],
    }
    stage = Workflow(before, agents, execute=AGAIN).done()

    two = stage.flow.members["two"].standing
    assert (two.version, dict(two.read)) == (2, {"one": 2})
    assert any(text.startswith("[VERSION] two") for text in stage.told("two"))
    assert stage.files()[output("two")] == "with the better one"


def test_a_working_doer_whose_contract_changes_is_told_and_sent_back() -> None:
    other = {"name": "two", "objective": "make two better"}
    asks = [on(r"^\[TASK\]", SCOPE), on(r"^\[ANSWERS\]", write("lib/x.py", "x"), write(output("one"), "one"))]
    slow = [on(r"^\[TASK\]", sleep(15), write(output("two"), "two")), always(".", say("so"))]
    architect = [on(r"^\[ESCALATION\]", *designed(plan(ONE, other, stages=[["one", "two"]]), told("two")), ANSWER)]
    before = plan({"name": "one"}, {"name": "two"}, stages=[["one", "two"]])
    agents = {"one": [*asks, always(".", say("so"))], "two": slow, "workflow-architect": architect}
    stage = Workflow(before, agents, execute=AGAIN).done()

    [said] = [text for text in stage.told("two") if text.startswith("[VERSION] two")]
    assert "Your contract is another now: see orchestration/agents/two/task-base.md" in said
