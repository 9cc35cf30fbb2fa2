"""What an owner that died has left, and how the next one finds it again: the same effects, and the turns it lost."""

from __future__ import annotations

from parley.base.json_codec import Unreadable
from parley.engine.files.streams import deed, read_line, stream_of
from parley.engine.outbox import RestoreWorkspace, RetireWorkspace
from parley.engine.owned_job import OwnedJob
from parley.engine.turn.outcomes import kept_outcome
from parley.engine.values import message_meta
from parley.engine.values.message_meta import Observed
from parley.engine.values.step_extra import StepExtra
from parley.engine.world import World
from parley.protocol.molecules import ORCHESTRATOR, Record, Run, Surface, Tombstone, thread_kind

LAST_MESSAGES = 256  # that are looked through for outcome records whose files may be missing


def ask_again(job: OwnedJob, world: World, *, untouched: bool = False) -> None:
    """Put into the outbox what the last commits asked for and may not have got; loading has asked for the records.

    `untouched`: workspaces stay as they are.
    """
    if not untouched:
        _put_workspaces_back(job)
    _keep_outcomes(job, world)
    for hook in job.guests.restored:
        hook(job)


def _put_workspaces_back(job: OwnedJob) -> None:
    """Every workspace goes back to what the bus names; those whose threads are closed are taken away again."""
    inhabited = {job.thread, *(surface.workspace for surface in job.soup.of(Surface))}
    for workspace in sorted(inhabited):
        if thread_kind(workspace) != "escalation":  # a clone is never written to, and is made again for its proxy
            job.ask(RestoreWorkspace(workspace, f"epoch-{job.epoch}"))
    for grave in job.soup.of(Tombstone):
        if thread_kind(grave.thread) == "dispatch" and grave.thread not in inhabited:
            job.ask(RetireWorkspace(grave.thread))


def _keep_outcomes(job: OwnedJob, world: World) -> None:
    for row in world.store.messages(job.id, max(0, job.counters.message - LAST_MESSAGES)):
        try:
            report = message_meta.read(row)
        except Unreadable:  # another program changed it: such a job is not resumed, and can be withdrawn
            continue
        record = job.soup.get(Record, report.record) if isinstance(report, Observed) else None
        if isinstance(report, Observed) and record is not None:
            job.ask(kept_outcome(record, report))


def give_back(job: OwnedJob, world: World) -> None:
    """[recover]: the turns whose processes died with the last owner are lost, and their messages are given back."""
    now = world.clock.now()
    for turn in world.store.load(job.id).turns:
        job.forget(turn)
    found = orphans(job)
    hosts = world.store.hosts_of(job.id) if found else {}
    for run in found:
        job.after(run.agent, run.thread).calls = logged_calls(job, world, run)
        ran = StepExtra(turn=run.turn, host=hosts[run.turn]) if run.turn in hosts else None
        job.fire("recover", run.agent, run.thread, choice="engine", who=ORCHESTRATOR, time=now, extra=ran)


def orphans(job: OwnedJob) -> list[Run]:
    """The turns that were under way, found along the Parent edges from the root."""
    found: list[Run] = []
    waiting = [job.thread]
    while waiting:
        here = waiting.pop()
        found.extend(job.soup.all(Run, here))
        waiting.extend(job.soup.children(here))
    return found


def logged_calls(job: OwnedJob, world: World, run: Run) -> list[str]:
    """What a lost turn had called, as its stream has it."""
    stream = stream_of(job.record, run.thread)
    found = []
    for text in world.files.tail(job.id, stream):
        logged = read_line(text)
        if logged is not None and logged.turn == run.turn and logged.event == "call":
            found.append(deed(logged.tool, logged.call))
    return found
