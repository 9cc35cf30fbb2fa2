"""Workflows run by the engine, from their plan to their report, with scripted agents."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from parley.adapters.memory import MemoryStore
from parley.engine.audit import audit
from parley.workflow.slots import current
from tests.engine.stage import JOB, Rule, Stage, always, asserts, book, close, on, outcome, say, send, write

PLAN_FILE = "orchestration/workflow_coordination_plan.md"


def plan(*agents: Mapping[str, Any], stages: Sequence[Sequence[str]] = ()) -> str:
    """A plan of doers, each with the verifier `judge`."""
    doers = {}
    for number, agent in enumerate(agents):
        name = agent["name"]
        doers[name] = {
            "role": "coder", "task_id": f"{name}_17275392{number:02}", "depends_on": [], "verifier": "judge",
            "owns": [f"src/{name}/**"], "objective": f"make {name}", "boundaries": "no more", "deliverable": name,
            "outputs": [f"orchestration/agents/{name}/task_output/{name}.md"],
            "acceptance": {"text": "it is there", "commands": [f"test -f {name}"]},
            **{key: value for key, value in agent.items() if key != "name"},
        }  # fmt: skip
    document = {
        "task": "service", "goal": "a service", "stages": [list(s) for s in stages] or [[a["name"]] for a in agents],
        "agents": {**doers, "judge": {"task": "verifier", "role": "reviewer"}}, "checkpoints": [], "escalation": "ask",
    }  # fmt: skip
    return f"---\n{json.dumps(document)}\n---\n\n# The plan\n"


def proofs(code: int = 0) -> Rule:
    """A prover whose commands all end so."""
    said = [
        {"command": f"test -f {name}", "code": code, "output": "", "seconds": 0.1} for name in ("one", "two", "three")
    ]
    return always(".", say(json.dumps({"proofs": said})))


JUDGE = [always(r"^\[VERIFY\]", {"verdict": {"verdict": "verified"}}, say("good"))]
LEAD = [
    on(r"^\[EXECUTE\]", send("workflow-executor", "run it", "w"), state="EXECUTE"),
    on(
        r"^\[WORKFLOW complete\]",
        close("w"),
        write("WORK_SUMMARY.md", "done"),
        asserts("WORK_SUMMARY.md"),
        state="EXECUTE",
    ),
    on(r"^\[ANSWER approve\]", outcome("APPROVED_WORK"), state="EXECUTE"),
]


def staged(text: str, agents: Mapping[str, Sequence[Rule]], **limits: Any) -> Stage:
    """A job whose plan phase has left this workflow, with who takes part."""
    lead = [
        always(
            r"^\[PLAN\]",
            write("PLAN.md", "the plan"),
            write(PLAN_FILE, text),
            asserts("PLAN.md"),
            state="PLAN",
        ),
        always(r"^\[ANSWER approve\]", outcome("APPROVED_PLAN"), state="PLAN"),
    ]
    play = book(plan=lead, execute=LEAD, human=[{"match": ".", "verdict": "approve", "repeat": True}])
    play["agents"] |= {"prover": [proofs()], "judge": JUDGE, **agents}
    return Stage(play, **limits)


def output(name: str) -> str:
    return f"orchestration/agents/{name}/task_output/{name}.md"


def doer(name: str) -> list[Rule]:
    return [
        on(
            r"^\[TASK\]",
            write(f"src/{name}/{name}.py", name),
            write(f"orchestration/agents/{name}/task_output/{name}.md", name),
            say("made"),
        ),
        always(r"^\[REVIEW\]", say("looked")),
    ]


def statuses(stage: Stage) -> dict[str, str]:
    flow = current(stage.live.kept)
    assert flow is not None
    return {name: str(member.standing.status) for name, member in flow.members.items()}


def test_two_doers_one_after_the_other_come_to_their_end() -> None:
    text = plan({"name": "one"}, {"name": "two", "depends_on": ["one"]})
    stage = staged(text, {"one": doer("one"), "two": doer("two")}).run()

    assert stage.state == "DONE", stage.bodies("project-lead")
    assert statuses(stage) == {"one": "session_complete", "two": "session_complete"}
    assert stage.files()["src/one/one.py"] == "one"
    assert stage.files()["src/two/two.py"] == "two"
    assert audit(MemoryStore(stage.bus, "auditor"), JOB, None).ok
