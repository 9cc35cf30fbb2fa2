"""The slots of a workflow on the bus: one for each entity, and the flow rebuilt from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import asdict

from parley.base.json_codec import Unreadable, decode, encode
from parley.workflow.files.plan import read_plan
from parley.workflow.model.flow import (
    AskedQuestion,
    Entity,
    EntityKind,
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


def slot(flow: Flow, entity: Entity) -> str:
    """The slot of an entity of the flow."""
    kind, name = entity
    return f"{SLOT}{flow.thread} {kind} {name}" if name else f"{SLOT}{flow.thread} {kind}"


def _entity(kept: str) -> Entity:
    """The entity whose slot it is. Unreadable if there is none of that kind: another program left it."""
    kind, _, name = kept.partition(" ")
    try:
        return Entity(EntityKind(kind), name)
    except ValueError as error:
        raise Unreadable(f"a workflow keeps no {kind!r:.40}") from error


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


_LISTED: Mapping[EntityKind, type[Struct]] = {
    EntityKind.MERGE: Merged,
    EntityKind.JOIN: Joined,
    EntityKind.CHANGE: PlanChange,
    EntityKind.RESCOPE: Rescope,
    EntityKind.ACTION: LivenessAction,
    EntityKind.STRAY: StrayWrite,
}


def text(flow: Flow, entity: Entity) -> str | None:
    """The text of an entity's slot; None: it has none any more."""
    kind, name = entity
    value: object
    match kind:
        case EntityKind.FLOW:
            value = _Course(**{each: getattr(flow, each) for each in _Course.__struct_fields__})
        case EntityKind.PLAN:
            value = _Plans(flow.plan.text if flow.plan else "", flow.draft)
        case EntityKind.WORKER:
            value = flow.added.get(name)
        case EntityKind.AGENT:
            value = flow.members.get(name)
        case EntityKind.TOLD:
            value = flow.instructions.get(name)
        case EntityKind.TALK:
            value = flow.talks.get(name)
        case EntityKind.JUDGING:
            value = flow.judging
        case EntityKind.MERGING:
            value = flow.merging
        case _ if kind in _LISTED:
            value = getattr(flow, f"{kind}s")[int(name) - 1]
        case EntityKind.QUESTION:
            value = flow.questions.get(name)
        case EntityKind.WAITING:
            value = flow.waiting.get(name)
        case _:
            value = flow.history.get(name)
    return None if value is None else encode(value)


def load(thread: str, slots: Mapping[str, str]) -> Flow | None:
    """The flow that is kept for an executor's thread; None if there is none."""
    prefix = f"{SLOT}{thread} "
    found = {_entity(where[len(prefix) :]): body for where, body in slots.items() if where.startswith(prefix)}
    if (course := found.pop(Entity(EntityKind.FLOW), None)) is None:
        return None
    flow = Flow(thread, **asdict(decode(course, _Course)))
    kept = decode(found.pop(Entity(EntityKind.PLAN), "{}"), _Plans)
    flow.plan, flow.draft = read_plan(kept.plan)[0], kept.draft
    for entity in sorted(found, key=_number):
        _place(flow, entity, found[entity])
    names = [*(worker.name for worker in flow.plan.doers), *flow.added] if flow.plan else list(flow.members)
    flow.members = {name: flow.members[name] for name in names if name in flow.members}
    index(flow)
    return flow


def _number(entity: Entity) -> tuple[int, str]:
    return (int(entity.name) if entity.name.isdecimal() else 0), entity.name


def _place(flow: Flow, entity: Entity, body: str) -> None:
    kind, name = entity
    match kind:
        case EntityKind.WORKER:
            flow.added[name] = decode(body, Worker)
        case EntityKind.AGENT:
            flow.members[name] = decode(body, Member)
        case EntityKind.TOLD:
            flow.instructions[name] = decode(body, str)
        case EntityKind.TALK:
            flow.talks[name] = decode(body, OpenConversation)
        case EntityKind.JUDGING:
            flow.judging = decode(body, PlanReview)
        case EntityKind.MERGING:
            flow.merging = decode(body, Merging)
        case _ if kind in _LISTED:
            getattr(flow, f"{kind}s").append(decode(body, _LISTED[kind]))
        case EntityKind.QUESTION:
            flow.questions[name] = decode(body, PendingQuestion)
        case EntityKind.WAITING:
            flow.waiting[name] = decode(body, str)
        case _:
            flow.history[name] = decode(body, tuple[AskedQuestion, ...])


def current(slots: Mapping[str, str]) -> Flow | None:
    """The job's workflow: the newest, if there ever was one."""
    thread = slots.get(CURRENT)
    return load(thread, slots) if thread else None


def entities(flow: Flow) -> Iterable[Entity]:
    """Everything that is kept of a flow."""
    yield from (Entity(EntityKind.FLOW), Entity(EntityKind.PLAN))
    yield from (Entity(EntityKind.WORKER, name) for name in flow.added)
    yield from (Entity(EntityKind.AGENT, name) for name in flow.members)
    yield from (Entity(EntityKind.TOLD, name) for name in flow.instructions)
    yield from (Entity(EntityKind.TALK, name) for name in flow.talks)
    if flow.merging is not None:
        yield Entity(EntityKind.MERGING)
    if flow.judging is not None:
        yield Entity(EntityKind.JUDGING)
    for kind, listed in (
        (EntityKind.MERGE, flow.merges),
        (EntityKind.JOIN, flow.joins),
        (EntityKind.CHANGE, flow.changes),
        (EntityKind.RESCOPE, flow.rescopes),
        (EntityKind.ACTION, flow.actions),
        (EntityKind.STRAY, flow.strays),
    ):
        yield from (Entity(kind, str(number)) for number, _ in enumerate(listed, 1))
    yield from (Entity(EntityKind.QUESTION, name) for name in flow.questions)
    yield from (Entity(EntityKind.WAITING, name) for name in flow.waiting)
    yield from (Entity(EntityKind.HISTORY, name) for name in flow.history)
