"""A plan that the architecture group changes in mid-work: checked, approved, and only then in force."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from parley.base.redaction import Secrets
from parley.engine.values import message_meta
from parley.engine.values.message_meta import Put
from parley.features.secrets.row_redaction import message_row, step_row
from parley.workflow.model.terms import instructions_of
from tests.engine.job_harness import Action, Rule, always, asserts, on, outcome, say, sleep, write
from tests.workflow.complete_design import VERIFIER
from tests.workflow.complete_design import doer as instructions
from tests.workflow.workflow_harness import LEAD, PLAN_FILE, YES, WorkflowHarness, doer, note, output, plan, resolve

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


def changed(*architect: Rule, human: Any = (), execute: Sequence[Rule] = LEAD) -> WorkflowHarness:
    said = [*human, {"match": ".", "verdict": "approve", "text": "yes", "repeat": True}]
    agents = {"one": needing_lib(), "two": doer("two"), "workflow-architect": list(architect)}
    return WorkflowHarness(BEFORE, agents, said, execute=execute).done()


def test_a_re_scope_is_approved_recorded_and_enforced() -> None:
    stage = changed(on(r"^\[ESCALATION\]", *designed(AFTER), ANSWER))

    assert stage.files()["lib/x.py"] == "x"
    assert stage.flow.plan is not None
    assert stage.flow.plan.text == stage.files()[PLAN_FILE] == AFTER
    [rescope] = stage.flow.rescopes
    assert (rescope.agent, rescope.after) == ("one", ("src/one/**", "lib/**"))
    assert rescope.reason == "one asked by note_001; approved by the human"
    [asked] = [body for body in stage.bodies("human") if body.startswith("EXECUTE PLAN.md")]
    assert "changed the workflow's plan" in asked
    assert "lib/**" in asked
    assert "A workflow of 1 doer and 1 verifier" in asked
    assert "lib/**" in stage.files()["orchestration/task-orchestration.md"]


def test_nobody_is_said_to_wait_for_a_slot_while_it_waits_for_the_changed_plan() -> None:
    beside = {"name": "two"}
    before, after = (plan(one, beside, stages=[["one", "two"]]) for one in ({"name": "one"}, ONE))
    architect = [on(r"^\[ESCALATION\]", *designed(after, told("two")), ANSWER)]
    agents = {"one": needing_lib(), "two": doer("two"), "workflow-architect": architect}
    gates = [{"match": "^(INTENT|PLAN) ", "verdict": "approve", "text": "yes", "repeat": True}]
    stage = WorkflowHarness(before, agents, gates, fan_out=1).until(lambda s: s.started("one"))
    assert stage.flow.held == ["two"]
    stage.run()

    assert stage.flow.draft == after
    assert (stage.flow.talks, stage.flow.held) == ({}, [])
    stage.approve()
    assert stage.statuses() == {"one": "session_complete", "two": "session_complete"}


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
    stage = WorkflowHarness(
        before, {"one": one, "two": two, "workflow-architect": architect}, human, execute=LEAD
    ).done()

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
    stage = WorkflowHarness(before, agents, execute=LEAD).done()

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
    stage = WorkflowHarness(before, agents, execute=LEAD).done()

    [said] = [text for text in stage.told("two") if text.startswith("[VERSION] two")]
    assert "Your contract is another now: see orchestration/agents/two/task-base.md" in said


def test_a_role_and_limits_that_change_hold_from_the_next_turn_on() -> None:
    other = {"name": "one", "role": "tester", "time_limit_seconds": 17, "stall_seconds": 11}
    stage = changed(
        on(r"^\[ESCALATION\]", *designed(plan(other).replace('"role": "reviewer"', '"role": "coder"')), ANSWER)
    )

    first, *later = [order for order in stage.orders if order.agent == "one"]
    assert first.time_limit_seconds != 17
    assert {order.time_limit_seconds for order in later} == {17}
    roles = [json.loads(order.role) for order in (first, *later)]
    shipped = {role.name: role.prompt for role in stage.settings["roles"]}
    assert [role["prompt"] for role in roles] == [shipped["coder"], *([shipped["tester"]] * len(later))]
    assert (roles[-1]["name"], roles[-1]["bus"], roles[-1]["limits"]["stall_seconds"]) == (
        "one",
        ["Note", "Status"],
        11,
    )
    assert {json.loads(order.role)["prompt"] for order in stage.orders if order.agent == "judge"} == {shipped["coder"]}


@pytest.mark.parametrize("fan_out", [1, 4])  # its conversation had to end for room, or goes on
def test_what_a_blocked_doer_made_of_a_path_that_is_somebody_elses_by_now_is_not_merged(fan_out: int) -> None:
    mine, yours = {"name": "one", "owns": ["src/one/**", "lib/**"]}, {"name": "two", "owns": ["src/two/**", "lib/**"]}
    before, after = plan(mine, {"name": "two"}), plan({"name": "one"}, yours)
    one = [
        on(r"^\[TASK\]", write("lib/x.py", "of one"), write("src/one/kept.py", "kept"), SCOPE),
        on(r"^\[ANSWERS\]", write(output("one"), "one")),
        always(".", say("so")),
    ]
    architect = [on(r"^\[ESCALATION\]", *designed(after, told("two")), ANSWER)]
    agents = {"one": one, "two": doer("two"), "workflow-architect": architect}
    stage = WorkflowHarness(before, agents, fan_out=fan_out).done()

    threads = {order.thread for order in stage.orders if order.agent == "one"}
    assert (len(threads) > 1) == (fan_out == 1)
    assert stage.files()["src/one/kept.py"] == "kept"
    assert "lib/x.py" not in stage.files()
    outs = [line for one in stage.flow.merges for line in one.kept_out] if fan_out > 1 else stage.told("one")
    assert any("lib/x.py: belongs to two (rule: two owns lib/**)" in line for line in outs)


# ---- one question, bound to what it is about ------------------------------------------------------

CHANGED = "changed the workflow's plan"
EARLIER = {"match": "^(INTENT|PLAN) ", "verdict": "approve", "text": "yes", "repeat": True}


def waiting(*architect: Rule, execute: Sequence[Rule] = LEAD, **limits: Any) -> WorkflowHarness:
    """A workflow whose changed plan waits for the human."""
    helps = [on(r"^\[ESCALATION\]", *designed(AFTER), ANSWER), *architect]
    agents = {"one": needing_lib(), "workflow-architect": helps}
    return WorkflowHarness(BEFORE, agents, [EARLIER], execute=execute, **limits).run()


def test_one_approval_covers_the_plan_that_is_run_and_the_work_that_comes_of_it() -> None:
    made = f"- `{output('one')}`: text"
    mended = f"{instructions('one', '- nothing', made)}\nMind lib.\n"
    stage = changed(on(r"^\[ESCALATION\]", *designed(AFTER, write(instructions_of("one"), mended)), ANSWER))

    [asked] = [row for row in stage.messages("human") if CHANGED in row.body]
    assert "+Mind lib." in asked.body
    assert stage.files()[instructions_of("one")] == mended
    assert dict(stage.record.approved)["PLAN.md"] == message_meta.read_as(Put, asked).digest


def test_a_secret_in_changed_instructions_is_in_nothing_that_is_shown() -> None:
    made = f"- `{output('one')}`: text"
    leaky = write(instructions_of("one"), f"{instructions('one', '- nothing', made)}\nThe key is planted-key-1.\n")
    stage = changed(on(r"^\[ESCALATION\]", *designed(AFTER, leaky), ANSWER))
    secrets = Secrets([("A_KEY", "planted-key-1")])
    shown = [
        *(message_row(row, secrets) for row in stage.messages()),
        *(step_row(row, secrets) for row in stage.steps()),
    ]

    assert "planted-key-1" in repr((stage.messages(), stage.steps()))
    assert "planted-key-1" not in repr(shown)


def test_what_the_architect_changes_after_it_was_put_forward_does_not_come_into_force() -> None:
    stage = waiting(on(r"^\[INTERVENE", write(instructions_of("one"), "Do as you like."), say("so")))
    before = stage.files(stage.thread("workflow-architect"))[instructions_of("one")]
    stage.intervene("mind the time", stage.flow.thread).run()
    stage.kill()  # and what was put forward is still what comes into force
    stage.run()
    assert stage.files(stage.thread("workflow-architect"))[instructions_of("one")] == "Do as you like."
    stage.approve(CHANGED)

    assert stage.files()[instructions_of("one")] == before
    assert stage.approve().state == "DONE"


def test_a_plan_that_is_changed_once_more_takes_the_place_of_the_one_that_waits() -> None:
    more = AFTER.replace("lib/**", "lib/*")
    stage = waiting(on(r"^\[INTERVENE", *designed(more), say("so")), always(r"^\[INTERVENE", say("as it is")))
    stage.intervene("less of it", stage.flow.thread).run()
    stage.intervene("and now?", stage.flow.thread).run()
    assert [(row.about, row.text) for row in stage.flow.questions.values()] == [("plan", more)]
    stage.approve('"lib/**"')  # the older question, which is words only by now
    assert stage.flow.draft == more

    stage.approve(CHANGED)
    assert stage.flow.workers["one"].owns == ("src/one/**", "lib/*")
    assert stage.approve().state == "DONE"


def test_a_backtrack_on_a_changed_plan_is_the_verdict_that_the_lead_goes_back_on() -> None:
    back = on(r"^\[WORKFLOW stopped\]", outcome("REPLAN"), state="EXECUTE")
    stage = waiting(execute=[LEAD[0], back])
    stage.answer("backtrack plan", "think again", CHANGED).until(lambda s: s.state == "PLAN")

    assert stage.actions[-1] == "REPLAN"


def test_without_the_verdict_the_lead_does_not_go_back() -> None:
    stage = waiting(execute=[LEAD[0], on(r"^\[WORKFLOW stopped\]", outcome("REPLAN"), state="EXECUTE")])
    stage.answer("stop", "no more", CHANGED).run()

    assert "REPLAN" not in stage.actions
    assert any("needs the verdict 'backtrack plan'" in text for text in stage.told("project-lead"))


def test_a_change_that_is_refused_leaves_what_was_approved_approved() -> None:
    otherwise = resolve(agent="one", note_id="note_001", answer="do without", source="planning")
    stage = waiting(on(r"^\[ANSWER revise\]", write(PLAN_FILE, BEFORE), otherwise, say("it stays")))
    stage.answer("revise", "no", CHANGED).run()

    assert stage.approve().state == "DONE"
    assert stage.flow.plan is not None
    assert stage.flow.plan.text == BEFORE


def test_a_second_change_that_is_refused_has_the_first_asserted_again_before_the_work() -> None:
    second = note(description="less will do", context="c", status="escalated", escalation_reason="r", category="scope")
    answered = resolve(agent="one", note_id="note_002", answer="it is yours", source="planning")
    architect = [
        on(r"^\[ESCALATION\].*\n(?s:.*)note_001", *designed(AFTER), ANSWER),
        on(r"^\[ESCALATION\]", *designed(AFTER.replace("lib/**", "lib/*")), answered),
        on(r"^\[ANSWER revise\]", write(PLAN_FILE, AFTER), say("it stays")),
    ]
    said = [{"match": CHANGED, "verdict": "approve"}, {"match": CHANGED, "verdict": "revise", "text": "no"}, *YES]
    lead = [
        *LEAD[:2],
        on("PENDING", asserts("PLAN.md"), state="EXECUTE"),
        on(r"^\[ANSWER approve\]", asserts("WORK_SUMMARY.md"), state="EXECUTE"),
        LEAD[2],
    ]
    one = [on(r"^\[TASK\]", SCOPE), on(r"^\[ANSWERS\]", second), *needing_lib()[1:]]
    stage = WorkflowHarness(BEFORE, {"one": one, "workflow-architect": architect}, said, execute=lead).done()

    assert any("are not what was approved with PLAN.md; assert that again" in text for text in stage.refusals)
    assert stage.flow.workers["one"].owns == ("src/one/**", "lib/**")


def test_what_the_proxy_has_sent_back_is_a_gap_if_it_comes_again_as_it_was() -> None:
    proxy = [
        on(CHANGED, {"answer": {"verdict": "revise", "text": "no", "confidence": 0.9}}),
        always(r"\[QUESTION\]", {"answer": {"verdict": "approve", "text": "yes", "confidence": 0.9}}),
    ]
    architect = [
        on(r"^\[ESCALATION\]", *designed(AFTER), ANSWER),
        on(r"^\[ANSWER revise\]", *designed(AFTER.replace('"verifier": "judge"', '"verifier": "nobody"'))),
        on(r"(?s)^\[DESIGN gaps\].*nobody", *designed(AFTER)),
        on(r"(?s)^\[DESIGN gaps\].*sent back", *designed(AFTER.replace("lib/**", "lib/*"))),
    ]
    agents = {"one": needing_lib(), "workflow-architect": architect}
    stage = WorkflowHarness(BEFORE, agents, None, proxy=proxy, policies="never").done()

    assert stage.flow.workers["one"].owns == ("src/one/**", "lib/*")
