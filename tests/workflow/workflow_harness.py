"""The workflow harness: a plan in few words, its agents, and a job whose PLAN phase has left it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from parley.audit.audit import audit
from parley.bus.memory_store import MemoryStore
from parley.ports.workspaces import Kept, Scope
from parley.workflow.files.agreement import contradictions
from parley.workflow.model.flow import Flow
from parley.workflow.model.flow_slots import current
from parley.workflow.model.terms import Note
from simulator.disk import SimWorkspace
from tests.engine.job_harness import (
    JOB,
    Action,
    HarnessWorkspace,
    JobHarness,
    Rule,
    always,
    asserts,
    book,
    close,
    on,
    outcome,
    say,
    send,
    write,
)
from tests.workflow.design_actions import instructed

PLAN_FILE = "orchestration/workflow_coordination_plan.md"
YES: list[dict[str, Any]] = [{"match": ".", "verdict": "approve", "text": "yes", "repeat": True}]


def plan(*agents: Mapping[str, Any], stages: Sequence[Sequence[str]] = ()) -> str:
    """A plan of doers, one stage each unless said otherwise; `judge` verifies them all."""
    doers = {}
    for number, agent in enumerate(agents):
        name = agent["name"]
        doers[name] = {
            "role": "coder", "task_id": f"{name}_{1727539200 + number}", "depends_on": [], "verifier": "judge",
            "owns": [f"src/{name}/**"], "objective": f"make {name}", "boundaries": "no more", "deliverable": name,
            "outputs": [output(name)],
            "acceptance": {"text": "it is there", "commands": [f"test -f {name}"]},
            **{key: value for key, value in agent.items() if key != "name"},
        }  # fmt: skip
    handed = [
        {"from": above, "to": name, "by": "judge", "criteria": f"{name} can begin", "on_failure": f"back to {above}"}
        for name, worker in doers.items()
        for above in worker["depends_on"]
    ]
    document = {
        "task": "service", "goal": "a service", "stages": [list(s) for s in stages] or [[a["name"]] for a in agents],
        "agents": {**doers, "judge": {"task": "verifier", "role": "reviewer"}}, "checkpoints": handed,
        "escalation": "ask the user",
    }  # fmt: skip
    return f"---\n{json.dumps(document, indent=1)}\n---\n\n# The plan\n"


def output(name: str) -> str:
    """Where a doer leaves what others read."""
    return f"orchestration/agents/{name}/task_output/{name}.md"


def proved(code: int = 0, *names: str) -> Action:
    """A prover's words: what each doer's command did."""
    listed = names or ("one", "two", "three", "four")
    said = [{"command": f"test -f {name}", "code": code, "output": "out", "seconds": 0.1} for name in listed]
    return say(json.dumps({"proofs": said}))


def verdict(word: str, *findings: str) -> Action:
    return {"verdict": {"verdict": word, "findings": list(findings)}}


def note(**fields: str) -> Action:
    return {"note": fields}


def resolve(**fields: str) -> Action:
    return {"resolve": fields}


PROVER: list[Rule] = [always(".", proved())]
JUDGE: list[Rule] = [always(r"^\[VERIFY\]", verdict("verified"), say("good"))]
LEAD: list[Rule] = [
    on(r"^\[EXECUTE\]", send("workflow-executor", "run it", "w"), state="EXECUTE"),
    on(
        r"^\[WORKFLOW complete\]", close("w"), write("WORK_SUMMARY.md", "done"), asserts("WORK_SUMMARY.md"),
        state="EXECUTE",
    ),
    on(r"^\[ANSWER approve\]", outcome("APPROVED_WORK"), state="EXECUTE"),
]  # fmt: skip


def doer(name: str, *more: Rule) -> list[Rule]:
    """A doer that makes its output, and looks at it again."""
    made = (write(f"src/{name}/{name}.py", name), write(output(name), name), say("made"))
    return [*more, on(r"^\[TASK\]", *made), always(r"^\[REVIEW\]", say("looked")), always(".", say("mended"))]


def played_by(
    text: str, agents: Mapping[str, Sequence[Rule]], human: Any = YES, execute: Sequence[Rule] = LEAD
) -> dict[str, Any]:
    """The playbook of a job whose plan phase leaves a workflow, with who takes part."""
    lead = [
        always(
            r"^\[PLAN\]",
            write("PLAN.md", "the plan"),
            write(PLAN_FILE, text),
            *instructed(text),
            asserts("PLAN.md"),
            state="PLAN",
        ),
        always(r"^\[ANSWER approve\]", outcome("APPROVED_PLAN"), state="PLAN"),
    ]
    play = book(plan=lead, execute=execute, human=human)
    play["agents"] |= {"prover": PROVER, "judge": JUDGE, **{name: list(rules) for name, rules in agents.items()}}
    return play


class RoomyWorkspace(HarnessWorkspace):
    """The stage's workspaces, with room for a workflow's files."""

    most_files = 2000

    def snapshot(self, job: str, name: str, text: str, scope: Scope | None = None) -> Kept:
        return SimWorkspace.snapshot(self, job, name, text, scope)


class WorkflowHarness(JobHarness):
    """A job whose plan phase leaves a workflow, which its lead then has run."""

    def __init__(
        self,
        text: str,
        agents: Mapping[str, Sequence[Rule]],
        human: Any = YES,
        *,
        execute: Sequence[Rule] = LEAD,
        **limits: Any,
    ) -> None:
        super().__init__(played_by(text, agents, human, execute), **limits)

    def boot(self, fuse: Any = None) -> None:
        super().boot(fuse)
        world = self.engine.world
        object.__setattr__(world, "workspace", RoomyWorkspace(self.disk, self.fuse))

    def until(self, reached: Callable[[Any], object]) -> WorkflowHarness:
        super().until(reached)
        return self

    def lose(self, agent: str, turns: int = 1) -> WorkflowHarness:
        super().lose(agent, turns)
        return self

    def answer(self, ruling: str | None, text: str = "said", about: str = "") -> WorkflowHarness:
        super().answer(ruling, text, about)
        return self

    def run(self) -> WorkflowHarness:
        super().run()
        return self

    @property
    def flow(self) -> Flow:
        """The workflow, as the bus has it."""
        found = current(self.outside.load(JOB).molecules)
        assert found is not None
        return found

    def noted(self, agent: str) -> tuple[Note, ...]:
        """What an agent that has begun has noted."""
        session = self.flow.members[agent].standing.session
        assert session is not None
        return session.notes

    def statuses(self) -> dict[str, str]:
        return {name: str(member.standing.status) for name, member in self.flow.members.items()}

    def done(self) -> WorkflowHarness:
        """Go to the end, which must be a good one that survives its audit."""
        self.run()
        assert self.state == "DONE", (self.state, self.statuses(), self.bodies("project-lead")[-1], self.refusals)
        assert not audit(MemoryStore(self.bus, "auditor"), JOB, None).findings
        found = [str(finding) for finding in contradictions(self.files())]
        assert not found, found
        return self
