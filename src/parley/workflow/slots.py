"""Where a workflow is kept on the bus: one slot for each entity, and the flow made again from them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from parley.workflow.flow import Asked, Flow, Judging, Member, Merging, Pending, Talk, index
from parley.workflow.plain import plain, read
from parley.workflow.plan import read_plan
from parley.workflow.terms import Joined, LivenessAction, Merged, PlanChange, Rescope, Stray, Worker

SLOT = "flow "
CURRENT = "flow current"


def slot(flow: Flow, entity: str) -> str:
    """Where an entity of the flow is kept."""
    return f"{SLOT}{flow.thread} {entity}"


def text(flow: Flow, entity: str) -> str | None:
    """What is kept of an entity; None: nothing any more."""
    kind, _, name = entity.partition(" ")
    value: Any
    match kind:
        case "flow":
            names = (
                "phase", "started", "ended", "why", "run", "count", "architect", "gaps", "refused", "resting",
                "commissioned", "held", "ever_held",
            )  # fmt: skip
            value = {each: getattr(flow, each) for each in names}
        case "plan":
            value = {"plan": flow.plan.text if flow.plan else "", "draft": flow.draft}
        case "worker":
            value = flow.added.get(name)
        case "agent":
            value = flow.members.get(name)
        case "told":
            value = {"text": flow.instructions[name]} if name in flow.instructions else None
        case "talk":
            value = flow.talks.get(name)
        case "judging" | "merging":
            value = getattr(flow, kind)
        case "merge" | "join" | "change" | "rescope" | "action" | "stray":
            value = getattr(flow, f"{kind}s")[int(name) - 1]
        case "question":
            value = flow.questions.get(name)
        case "waiting":
            value = flow.waiting.get(name)
        case _:
            value = flow.history.get(name)
    return None if value is None else json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))


def load(thread: str, slots: Mapping[str, str]) -> Flow | None:
    """The flow that is kept for an executor's thread; None if there is none."""
    prefix = f"{SLOT}{thread} "
    found = {where[len(prefix) :]: json.loads(body) for where, body in slots.items() if where.startswith(prefix)}
    if "flow" not in found:
        return None
    flow = Flow(thread, **found.pop("flow"))
    kept = found.pop("plan", {"plan": "", "draft": ""})
    flow.plan, flow.draft = read_plan(kept["plan"])[0], kept["draft"]
    for entity, value in sorted(found.items(), key=_number):
        _place(flow, *entity.split(" ", 1), value=value)
    names = [*(worker.name for worker in flow.plan.doers), *flow.added] if flow.plan else list(flow.members)
    flow.members = {name: flow.members[name] for name in names if name in flow.members}
    index(flow)
    return flow


def _number(entry: tuple[str, Any]) -> tuple[int, str]:
    name = entry[0].partition(" ")[2]
    return (int(name) if name.isdecimal() else 0), name


_LISTED: dict[str, type[Any]] = {
    "merge": Merged,
    "join": Joined,
    "change": PlanChange,
    "rescope": Rescope,
    "action": LivenessAction,
}


def _place(flow: Flow, kind: str, name: str = "", *, value: Any) -> None:
    match kind:
        case "worker":
            flow.added[name] = read(Worker, value)
        case "agent":
            flow.members[name] = read(Member, value)
        case "told":
            flow.instructions[name] = str(value["text"])
        case "talk":
            flow.talks[name] = read(Talk, value)
        case "judging":
            flow.judging = read(Judging, value)
        case "merging":
            flow.merging = read(Merging, value)
        case "stray":
            flow.strays.append(read(Stray, value))
        case "merge" | "join" | "change" | "rescope" | "action":
            getattr(flow, f"{kind}s").append(read(_LISTED[kind], value))
        case "question":
            flow.questions[name] = read(Pending, value)
        case "waiting":
            flow.waiting[name] = str(value)
        case _:
            flow.history[name] = tuple(read(Asked, one) for one in value)


def current(slots: Mapping[str, str]) -> Flow | None:
    """The job's workflow: the newest, if there ever was one."""
    thread = slots.get(CURRENT)
    return load(thread, slots) if thread else None


def entities(flow: Flow) -> Iterable[str]:
    """Everything that is kept of a flow."""
    yield from ("flow", "plan")
    yield from (f"worker {name}" for name in flow.added)
    yield from (f"agent {name}" for name in flow.members)
    yield from (f"told {name}" for name in flow.instructions)
    yield from (f"talk {name}" for name in flow.talks)
    if flow.merging is not None:
        yield "merging"
    if flow.judging is not None:
        yield "judging"
    for kind, listed in (
        ("merge", flow.merges),
        ("join", flow.joins),
        ("change", flow.changes),
        ("rescope", flow.rescopes),
        ("action", flow.actions),
        ("stray", flow.strays),
    ):
        yield from (f"{kind} {number}" for number, _ in enumerate(listed, 1))
    yield from (f"question {name}" for name in flow.questions)
    yield from (f"waiting {name}" for name in flow.waiting)
    yield from (f"history {name}" for name in flow.history)
