"""Merges at the end of a turn: the trees of conversations that it closes, or that the work is asserted with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from parley.core.soup import Soup
from parley.core.states import APPROVAL, PHASES, Record, State
from parley.core.terms import ORCHESTRATOR, Close, MessageKind, Run, Surface
from parley.engine import designs, texts
from parley.engine.live import LiveJob
from parley.engine.riders import Rider
from parley.engine.turn import Turn
from parley.engine.world import World
from parley.ports import Merge, Outcome, Scope
from parley.workflow.terms import ARCHITECT, EXECUTOR, GROUP

WORK = PHASES[State.EXECUTE].artifact


def bring_up(
    live: LiveJob, world: World, turn: Turn, record: Record | None, outcome: Outcome | None
) -> list[tuple[str, str, Merge]]:
    """Merge what is closed in this turn; where the work is asserted or approved, what was left open: the lowest first.

    It is done before the turn's tree is kept: an assert, an approval and a restart are about all of it.
    """
    soup = live.soup
    leaving = closing = [payload.thread for payload in turn.payloads if isinstance(payload, Close)]
    ends = record is not None and outcome is not None and outcome.outcome == APPROVAL.get(record.state)
    if ends or any(question.artifact == WORK for question, _ in turn.questions):
        children = soup.children(turn.thread)
        leaving = [thread for thread in children if thread in closing or not designs.is_under_way(live, thread)]
    if not leaving:
        return []
    closed = set(closing)
    own = soup.need(Surface, turn.thread, turn.agent).workspace
    merges: list[tuple[Surface, str]] = []
    groups = [thread for thread in leaving if (there := soup.get(Surface, thread)) and there.agent == GROUP]
    waiting = [(thread, own, thread in closed) for thread in leaving if thread not in groups]
    while waiting:
        thread, into, ending = waiting.pop()
        below = soup.get(Surface, thread)
        if below is None:
            continue  # it was withdrawn
        if below.workspace != into:
            merges.append((below, into))
        # nobody's tree is changed under its hands: past one that goes on, what lies below it comes straight here
        through = below.workspace if ending and soup.get(Run, thread) is None else into
        if below.agent != EXECUTOR:  # what its doers made comes in by its own merges, verified and proved
            waiting.extend((child, through, ending) for child in soup.children(thread))
    for below, _ in merges:
        # nobody may be at work in a tree that is written to; should this close not be committed, it is a lost turn
        run = soup.get(Run, below.thread)
        if run is not None and _ends_with(soup, below.thread, closed):
            world.turns.cancel(live.job, run.turn)
    if merges:
        world.turns.rest(live.job)
    brought = [
        (below.agent, below.thread, world.workspace.merge(live.job, below.workspace, into, _brought_by(below, turn)))
        for below, into in reversed(merges)
    ]
    for thread in groups:
        if thread in closed:  # a design that is ready, and nothing else of the trees that it was made in
            ready = designs.is_ready(live, thread)
            paths = designs.take_over(world, live.job, soup.need(Surface, thread).workspace, own) if ready else ()
            brought.append((GROUP, thread, Merge(paths)))
    return brought


def _brought_by(below: Surface, turn: Turn) -> Scope | None:
    """What of the protocol's own files a merge brings: of a workflow what its agents made, of a design all of it."""
    if turn.agent == ARCHITECT:
        return designs.TOGETHER
    return Scope(lambda path: "") if below.agent == EXECUTOR else None


def _ends_with(soup: Soup, thread: str, closed: Collection[str]) -> bool:
    """Whether a thread, or one above it, is closed."""
    here: str | None = thread
    while here is not None and here not in closed:
        here = soup.parent(here)
    return here is not None


def clean(merges: Sequence[tuple[str, str, Merge]]) -> list[Rider]:
    """The merges without a conflict, as they are told with the next message of the one who closed them."""
    return [
        {"thread": thread, "text": texts.fit(texts.merged(agent, thread, merge))}
        for agent, thread, merge in merges
        if not merge.conflicts
    ]


def missing(left: Sequence[Mapping[str, Any]]) -> list[Rider]:
    """The unfinished work that a turn's end left out, as it is told with the next message of its agent."""
    return [{"thread": str(one["thread"]), "text": texts.fit(texts.unfinished([str(one["text"])]))} for one in left]


def tell_conflicts(live: LiveJob, world: World, turn: Turn, merges: Sequence[tuple[str, str, Merge]]) -> None:
    """[merge]: the one who closed a conversation has conflicts to settle, and is woken for each."""
    for agent, thread, merge in merges:
        if merge.conflicts:
            name = live.write(
                (ORCHESTRATOR, live.thread),
                (turn.agent, turn.thread),
                texts.fit(texts.merged(agent, thread, merge)),
                kind=MessageKind.NOTICE,
                key=f"{turn.turn}/merge/{thread}",
                time=world.clock.now(),
                meta={"merged": thread, "paths": len(merge.paths), "conflicts": [c.path for c in merge.conflicts]},
            )
            live.fire("merge", turn.agent, turn.thread, choice=name, who=ORCHESTRATOR, time=world.clock.now())


def tell_clean(live: LiveJob, world: World) -> bool:
    """[merge]: nothing else would wake the lead, so the clean merges that it is yet to be told do; False: none are."""
    record, now = live.record, world.clock.now()
    if (record.actor, record.thread) not in live.riders:
        return False
    name = live.write(
        (ORCHESTRATOR, live.thread),
        (record.actor, record.thread),
        "",
        kind=MessageKind.NOTICE,
        key=f"merges:{live.step}",
        time=now,
    )
    live.fire("merge", record.actor, record.thread, choice=name, who=ORCHESTRATOR, time=now)
    return True
