"""Merges at the end of a turn: the trees of conversations that it closes, or that an assert of the work includes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from parley.base.text import fit
from parley.engine import protocol_messages
from parley.engine.owned_job import OwnedJob
from parley.engine.protocol_messages import TEXT_LIMIT
from parley.engine.turn.running_turn import Turn
from parley.engine.turn.stages import Brought, TurnEnd
from parley.engine.values.message_meta import Conflicted
from parley.engine.values.step_extra import Told
from parley.engine.values.unfinished_work import Unfinished
from parley.engine.world import World
from parley.protocol.molecules import ORCHESTRATOR, MessageKind, Run, Surface
from parley.protocol.soup import Soup


def bring_up(job: OwnedJob, world: World, ending: TurnEnd, *, whole: bool) -> None:
    """Merge what the turn closes, the lowest first; `whole`: what it leaves open, too.

    It is done before the turn's tree is kept: an assert, an approval and a restart are about all of it.
    """
    ending.leaving = list(job.soup.children(ending.turn.thread)) if whole else list(ending.closing)
    for hook in job.guests.before_merge:
        hook(job, ending)
    if not ending.leaving:
        return
    merges = _lowest_last(job.soup, ending)
    _stop(job, world, [below for below, _ in merges], set(ending.closing))
    for below, into in reversed(merges):
        found = world.workspace.merge(job.id, below.workspace, into, ending.scope_for(below))
        ending.merges.append(Brought(below.agent, below.thread, found))


class _Leaving(NamedTuple):
    """A conversation whose tree comes in: into which workspace, and whether it ends with that."""

    thread: str
    into: str
    ends: bool


def _lowest_last(soup: Soup, ending: TurnEnd) -> list[tuple[Surface, str]]:
    """The trees that come in, each with the workspace that it is merged into."""
    own, closed = ending.surface.workspace, set(ending.closing)
    merges: list[tuple[Surface, str]] = []
    waiting = [_Leaving(thread, own, thread in closed) for thread in ending.leaving]
    while waiting:
        leaving = waiting.pop()
        thread, into = leaving.thread, leaving.into
        below = soup.get(Surface, thread)
        if below is None:
            continue  # it was withdrawn
        if below.workspace != into:
            merges.append((below, into))
        # never write into a running instance's worktree: past one that goes on, what lies below it comes straight here
        through = below.workspace if leaving.ends and soup.get(Run, thread) is None else into
        if below.agent not in ending.opaque:
            waiting.extend(_Leaving(child, through, leaving.ends) for child in soup.children(thread))
    return merges


def _stop(job: OwnedJob, world: World, below: Sequence[Surface], closed: Collection[str]) -> None:
    """No agent may be at work in a tree that is written to; should this close not be committed, it is a lost turn."""
    for surface in below:
        run = job.soup.get(Run, surface.thread)
        if run is not None and _ends_with(job.soup, surface.thread, closed):
            world.turns.cancel(job.id, run.turn)
    if below:
        world.turns.rest(job.id)


def _ends_with(soup: Soup, thread: str, closed: Collection[str]) -> bool:
    """Whether a thread, or one above it, is closed."""
    here: str | None = thread
    while here is not None and here not in closed:
        here = soup.parent(here)
    return here is not None


def clean(merges: Sequence[Brought]) -> list[Told]:
    """The merges without a conflict, as the agent that closed them is told with its next message."""
    return [Told(came.thread, fit(came.words(), TEXT_LIMIT)) for came in merges if not came.merge.conflicts]


def missing(left: Sequence[Unfinished]) -> list[Told]:
    """The unfinished work that a turn's end left out, as its agent is told with its next message."""
    return [Told(one.thread, fit(protocol_messages.unfinished([one.words()]), TEXT_LIMIT)) for one in left]


def tell_conflicts(job: OwnedJob, world: World, turn: Turn, merges: Sequence[Brought]) -> None:
    """[merge]: the agent that closed a conversation has conflicts to settle, and is woken for each."""
    for came in merges:
        if came.merge.conflicts:
            name = job.write(
                (ORCHESTRATOR, job.thread),
                (turn.agent, turn.thread),
                fit(came.words(), TEXT_LIMIT),
                kind=MessageKind.NOTICE,
                key=f"{turn.turn}/merge/{came.thread}",
                time=world.clock.now(),
                meta=Conflicted(
                    thread=came.thread,
                    merged=len(came.merge.paths),
                    paths=tuple(one.path for one in came.merge.conflicts),
                ),
            )
            job.fire("merge", turn.agent, turn.thread, choice=name, who=ORCHESTRATOR, time=world.clock.now())


def tell_clean(job: OwnedJob, world: World) -> bool:
    """[merge]: nothing else would wake the lead, so a message about its clean merges does; False: there are none."""
    record, now = job.record, world.clock.now()
    if (record.actor, record.thread) not in job.mail.riders:
        return False
    name = job.write(
        (ORCHESTRATOR, job.thread),
        (record.actor, record.thread),
        "",
        kind=MessageKind.NOTICE,
        key=f"merges:{job.counters.step}",
        time=now,
    )
    job.fire("merge", record.actor, record.thread, choice=name, who=ORCHESTRATOR, time=now)
    return True
