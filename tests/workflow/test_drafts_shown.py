"""A plan that changes in mid-work lies in no workspace before it is approved: its approver reads it in a kept tree."""

import copy
import json
from typing import Any

import pytest
from msgspec.structs import replace

from parley.audit.audit import audit
from parley.base.json_codec import decode, encode
from parley.bus.hash_chain import link
from parley.bus.rows import StepRow
from parley.engine.turn.question_clone import Clone
from parley.engine.values import message_meta, step_extra
from parley.engine.values.message_meta import Posed
from parley.workflow.design.binding import bound
from parley.workflow.host.design_gates import Committed, design_of
from parley.workflow.host.files_audit import FilesReport
from parley.workflow.model.code_steps import ExecutorStep
from parley.workflow.model.terms import instructions_of
from simulator.disk import SimDisk, SimPapers
from tests.engine.job_harness import JOB, Rule, always, on, say, sleep, write
from tests.workflow.complete_design import doer as instructions
from tests.workflow.test_plan_changes import AFTER, ANSWER, BEFORE, CHANGED, ONE, changed, designed, needing_lib, told
from tests.workflow.workflow_harness import LEAD, PLAN_FILE, WorkflowHarness, doer, output, plan, resolve

MADE = f"- `{output('one')}`: text"
MENDED = f"{instructions('one', '- nothing', MADE)}\nMind lib.\n"
REHEARSED = {"on": False, "rehearse": True}  # the proxy is told what a real one is
GOES_ON = resolve(agent="one", note_id="note_001", answer="do without", source="planning")


def says(verdict: str, text: str = "so") -> dict[str, Any]:
    return {"answer": {"verdict": verdict, "text": text, "confidence": 0.9}}


def read_slowly(verdict: str = "approve", *architect: Rule) -> WorkflowHarness:
    """A workflow whose changed plan is before the proxy, which takes its time."""
    proxy = [
        always(CHANGED, sleep(30), says(verdict)),
        always(r"\[QUESTION\]", says("approve")),
    ]
    change = designed(AFTER, write(instructions_of("one"), MENDED))
    helps = [on(r"^\[ESCALATION\]", *change, ANSWER), *architect]
    agents = {"one": needing_lib(), "workflow-architect": helps}
    stage = WorkflowHarness(BEFORE, agents, None, proxy=proxy, policies="never", execute=LEAD, memory=REHEARSED)
    return stage.until(lambda s: s.state == "EXECUTE" and s.busy("proxy"))


def reading(stage: WorkflowHarness) -> str:
    """The workspace of the proxy at work."""
    return stage.order("proxy").site.workspace.partition("|")[2]


def asked(stage: WorkflowHarness) -> tuple[str, str]:
    """The tree that the question is about, and the digest that a verdict is bound to."""
    row = next(row for row in stage.messages("proxy") if CHANGED in row.body)
    return decode(stage.live.kept[f"clone {reading(stage)}"], Clone).tree, message_meta.read_as(Posed, row).digest


def test_the_proxy_reads_the_very_plan_that_its_verdict_lets_come_into_force() -> None:
    stage = read_slowly()
    seen, own = stage.files(reading(stage)), stage.files(stage.flow.thread)

    assert (seen[PLAN_FILE], seen[instructions_of("one")]) == (AFTER, MENDED)
    assert own[PLAN_FILE] == BEFORE  # it is not in force
    assert "The plan below orchestration/ is the changed one" in stage.order("proxy").message
    differing = {path for path in {*seen, *own} if seen.get(path) != own.get(path)}
    assert differing == {PLAN_FILE, instructions_of("one"), instructions_of("judge")}

    tree, digest = asked(stage)
    design = design_of(Committed(stage.engine.world, JOB, tree))
    assert design is not None
    assert digest == bound(stage.engine.world.workspace.contents(JOB, tree, ("PLAN.md",))["PLAN.md"], design.blueprint)

    stage.done()
    assert (stage.files()[PLAN_FILE], stage.files()[instructions_of("one")]) == (AFTER, MENDED)
    assert dict(stage.record.approved)["PLAN.md"] == digest


def test_the_step_that_asserts_a_changed_plan_names_its_tree() -> None:
    stage = read_slowly()
    tree, _ = asked(stage)

    [(_, step)] = asserting(stage)
    assert step.drafts == {reading(stage).removeprefix("escalation:"): tree}


def test_a_crash_while_it_reads_gives_the_proxy_the_same_draft_again() -> None:
    stage = read_slowly()
    before = stage.files(reading(stage))
    stage.kill()
    stage.adopt().until(lambda s: s.busy("proxy"))

    assert before[PLAN_FILE] == AFTER
    assert stage.files(reading(stage)) == before


def test_a_refusal_leaves_the_plan_where_it_was() -> None:
    stage = read_slowly("revise", on(r"^\[ANSWER revise\]", *designed(BEFORE), GOES_ON, say("it stays")))
    assert stage.files(reading(stage))[PLAN_FILE] == AFTER
    approved = stage.record.approved
    stage.until(lambda s: s.fired("respond") == 3)

    assert stage.files(stage.flow.thread)[PLAN_FILE] == BEFORE
    assert stage.flow.plan is not None
    assert stage.flow.plan.text == BEFORE
    assert stage.record.approved == approved
    stage.until(lambda s: not s.busy("workflow-architect"))
    assert not [slot for slot in stage.live.kept if slot.startswith("clone ")]


def test_the_human_is_told_who_works_by_the_plan_in_force_meanwhile() -> None:
    both = [["one", "two"]]
    before, after = plan({"name": "one"}, {"name": "two"}, stages=both), plan(ONE, {"name": "two"}, stages=both)
    change = designed(after, told("two"))
    slow = doer("two", on(r"^\[TASK\]", sleep(60), *doer("two")[0]["do"]))
    agents = {"one": needing_lib(), "two": slow, "workflow-architect": [on(r"^\[ESCALATION\]", *change, ANSWER)]}
    stage = WorkflowHarness(before, agents).until(lambda s: any(CHANGED in body for body in s.bodies("human")))

    [asks] = [body for body in stage.bodies("human") if CHANGED in body]
    assert stage.busy("two")
    assert "At work meanwhile, by the plan in force: two. An agent whose contract" in asks
    assert "Left out" not in asks
    stage.done()

    alone = changed(on(r"^\[ESCALATION\]", *designed(AFTER), ANSWER))
    assert not any("At work meanwhile" in body for body in alone.bodies("human"))


# ---- the audit -------------------------------------------------------------------------------------


def audited(stage: WorkflowHarness, disk: SimDisk) -> FilesReport:
    report = audit(stage.outside, JOB, None, papers=SimPapers(disk, JOB))
    assert not report.findings
    assert report.files is not None
    return report.files


def with_tree(stage: WorkflowHarness, tree: str, files: dict[str, str] | None) -> SimDisk:
    """The disk with a tree that another hand has changed, or taken away."""
    disk = copy.copy(stage.disk)
    disk.trees = {name: held for name, held in disk.trees.items() if name != tree or files is not None}
    if files is not None:
        disk.trees[tree] = files
    return disk


def test_the_audit_holds_the_tree_that_was_shown_against_the_verdict() -> None:
    stage = read_slowly()
    tree, _ = asked(stage)
    stage.done()
    assert not audited(stage, stage.disk).odd

    [odd] = audited(stage, with_tree(stage, tree, {**stage.disk.trees[tree], PLAN_FILE: BEFORE})).odd
    assert (odd.file, "it is not what the verdict is about" in odd.what) == (PLAN_FILE, True)
    assert any("is not in snapshots.git" in remark for remark in audited(stage, with_tree(stage, tree, None)).remarks)


def asserting(stage: WorkflowHarness) -> list[tuple[StepRow, ExecutorStep]]:
    """The executor's steps that assert a changed plan."""
    rows = [row for row in stage.steps() if row.who == "workflow-executor"]
    found = [(row, step_extra.read(row.extra).left(ExecutorStep)) for row in rows]
    return [(row, step) for row, step in found if step is not None and step.drafts]


def forge(stage: WorkflowHarness, step: StepRow, drafts: dict[str, Any]) -> None:
    """Let a step name other drafts, and compute every head anew."""
    job, head = stage.bus.find(JOB), ""
    extra = json.loads(step.extra)
    extra["feature"]["drafts"] = drafts
    job.steps.rows[job.steps.rows.index(step)] = replace(step, extra=encode(extra))
    for place, commit in enumerate(job.transactions.rows):
        number = commit.number
        steps = [row for row in job.steps.rows if row.transaction == number]
        messages = [row for row in job.messages.rows if row.transaction == number]
        taken = [row for row in job.inputs.values() if row.taken == number]
        made = link(
            head, number=number, time=commit.time, epoch=commit.epoch, steps=steps, messages=messages, taken=taken
        )
        head = made.head
        job.transactions.rows[place] = replace(commit, head=head, digests=made.digests)


@pytest.mark.parametrize("named", [{}, {"another": "tree"}, {"": ""}, {"": 1}], ids=["none", "other", "empty", "odd"])
def test_a_step_that_hides_the_tree_of_what_it_asserts_is_found(named: dict[str, Any]) -> None:
    stage = read_slowly()
    [(row, step)] = asserting(stage)
    question = reading(stage).removeprefix("escalation:")
    forge(stage, row, step.drafts)
    assert not audit(stage.outside, JOB, None).findings  # it says the same

    [(row, _)] = asserting(stage)
    forge(stage, row, {name or question: tree for name, tree in named.items()})
    [finding] = audit(stage.outside, JOB, None).findings
    assert (finding.table, finding.number) == ("steps", row.number)
    unread = any(not isinstance(tree, str) for tree in named.values())
    assert ("can't be read" if unread else "does not name the tree of each changed plan") in finding.what


def test_a_step_that_names_another_tree_than_the_proxy_was_given_is_found() -> None:
    stage = read_slowly()
    [(row, step)] = asserting(stage)
    forge(stage, row, dict.fromkeys(step.drafts, "another"))

    [finding] = audit(stage.outside, JOB, None).findings
    assert (finding.table, str(finding.number).startswith("clone ")) == ("molecules", True)
