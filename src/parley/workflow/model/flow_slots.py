"""The slots of a workflow on the bus: one for each entity, and the flow rebuilt from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import asdict

from parley.base.json_codec import decode, encode
from parley.workflow.files.plan import read_plan
from parley.workflow.model.flow import (
    AskedQuestion,
    Flow,
    Member,
    Merging,
    NoteName,
    OpenConversation,
    PendingQuestion,
    PlanReview,
    index,
)
from parley.workflow.model.terms import Joined, LivenessAction, Merged, PlanChange, Rescope, StrayWrite, Worker

SLOT = "flow "
CURRENT = "flow current"


def slot(flow: Flow, entity: str) -> str:
    """The slot of an entity of the flow."""
    return f"{SLOT}{flow.thread} {entity}"


class _Course(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What is kept of the flow itself."""

    phase: str = "running"
    started: int = 0
    ended: int = 0
    why: str = ""
    run: int = 1
    count: int = 0
    architect: str = ""
    gaps: int = 0
    refused: str = ""
    resting: list[NoteName] = []
    commissioned: list[NoteName] = []
    held: list[str] = []
    ever_held: list[str] = []


class _Plans(Struct, frozen=True):
    """The plan in force, and the one that waits for the human: each as its file has it."""

    plan: str = ""
    draft: str = ""


_LISTED: Mapping[str, type[Struct]] = {
    "merge": Merged,
    "join": Joined,
    "change": PlanChange,
    "rescope": Rescope,
    "action": LivenessAction,
    "stray": StrayWrite,
}


def text(flow: Flow, entity: str) -> str | None:
    """The text of an entity's slot; None: it has none any more."""
    kind, _, name = entity.partition(" ")
    value: object
    match kind:
        case "flow":
            value = _Course(**{each: getattr(flow, each) for each in _Course.__struct_fields__})
        case "plan":
            value = _Plans(flow.plan.text if flow.plan else "", flow.draft)
        case "worker":
            value = flow.added.get(name)
        case "agent":
            value = flow.members.get(name)
        case "told":
            value = flow.instructions.get(name)
        case "talk":
            value = flow.talks.get(name)
        case "judging" | "merging":
            value = getattr(flow, kind)
        case _ if kind in _LISTED:
            value = getattr(flow, f"{kind}s")[int(name) - 1]
        case "question":
            value = flow.questions.get(name)
        case "waiting":
            value = flow.waiting.get(name)
        case _:
            value = flow.history.get(name)
    return None if value is None else encode(value)


def load(thread: str, slots: Mapping[str, str]) -> Flow | None:
    """The flow that is kept for an executor's thread; None if there is none."""
    prefix = f"{SLOT}{thread} "
    found = {where[len(prefix) :]: body for where, body in slots.items() if where.startswith(prefix)}
    if "flow" not in found:
        return None
    flow = Flow(thread, **asdict(decode(found.pop("flow"), _Course)))
    kept = decode(found.pop("plan", "{}"), _Plans)
    flow.plan, flow.draft = read_plan(kept.plan)[0], kept.draft
    for entity in sorted(found, key=_number):
        kind, _, name = entity.partition(" ")
        _place(flow, kind, name, found[entity])
    names = [*(worker.name for worker in flow.plan.doers), *flow.added] if flow.plan else list(flow.members)
    flow.members = {name: flow.members[name] for name in names if name in flow.members}
    index(flow)
    return flow


def _number(entity: str) -> tuple[int, str]:
    name = entity.partition(" ")[2]
    return (int(name) if name.isdecimal() else 0), name


def _place(flow: Flow, kind: str, name: str, body: str) -> None:
    match kind:
        case "worker":
            flow.added[name] = decode(body, Worker)
        case "agent":
            flow.members[name] = decode(body, Member)
        case "told":
            flow.instructions[name] = decode(body, str)
        case "talk":
            flow.talks[name] = decode(body, OpenConversation)
        case "judging":
            flow.judging = decode(body, PlanReview)
        case "merging":
            flow.merging = decode(body, Merging)
        case _ if kind in _LISTED:
            getattr(flow, f"{kind}s").append(decode(body, _LISTED[kind]))
        case "question":
            flow.questions[name] = decode(body, PendingQuestion)
        case "waiting":
            flow.waiting[name] = decode(body, str)
        case _:
            flow.history[name] = decode(body, tuple[AskedQuestion, ...])


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
