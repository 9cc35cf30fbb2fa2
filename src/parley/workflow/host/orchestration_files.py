"""The files below `orchestration/`: how a workflow stands, for people and for those who work in it.

All of them are derived. They are written after the commit that changed the workflow, and again where a crash came in
between; of another's changes only what is taken back at the end of a worker's turn has an effect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from parley.base.text import mended
from parley.engine.owned_job import OwnedJob
from parley.engine.world import World
from parley.protocol.molecules import Surface
from parley.workflow.design.binding import is_like
from parley.workflow.files.contract import render_contract
from parley.workflow.files.joined import with_joined
from parley.workflow.files.rounds import render_round
from parley.workflow.files.session import render_session
from parley.workflow.files.status_file import PHASES, SharedStatus, render_status, shared_of
from parley.workflow.files.task_record import record_of, render_record
from parley.workflow.host import archiving, live_flows
from parley.workflow.host.live_flows import WriteFlow
from parley.workflow.host.worker_reports import whole_plan
from parley.workflow.model.ending import EndedSession, ended, is_over, run_folder
from parley.workflow.model.flow import Entity, EntityKind, Flow, OpenConversation
from parley.workflow.model.flow_slots import entities
from parley.workflow.model.terms import (
    FOLDER,
    PLAN,
    SHARED_STATUS,
    TASK_ORCHESTRATION,
    Session,
    Worker,
    instructions_of,
    round_of,
    session_of,
    task_base_of,
)

Files = dict[str, str | None]
_THE_PLAN = Entity(EntityKind.PLAN)
VERIFIER_TOLD = (
    "# {name}\n\nVerify what {doer} made: hold its outputs and its notes against its contract, {contract}. Give your "
    "verdict with findings that can be acted on.\n"
)


# ---- what they say -------------------------------------------------------------------------------


def status_text(flow: Flow) -> str:
    """`shared_status.json`."""
    return render_status(shared_of_flow(flow))


def shared_of_flow(flow: Flow) -> SharedStatus:
    """What `shared_status.json` says."""
    return shared_of(
        whole_plan(flow),
        flow.standings(),
        started=flow.started,
        status=PHASES[flow.phase],
        gate=flow.gate,
        reviews=flow.reviews(),
    )


def record_text(flow: Flow) -> str:
    """`task-orchestration.md`."""
    standings = {standing.name: standing for standing in flow.standings()}
    happened = (flow.merges, flow.rescopes, flow.actions, flow.changes, flow.strays)
    return render_record(record_of(whole_plan(flow), standings, *happened))


def of_agent(flow: Flow, agent: str) -> Files:
    """What there is about one doer: its task, its notes and the rounds of its verification."""
    worker, standing = flow.workers[agent], flow.members[agent].standing
    instructions = told(worker) if agent in flow.added else flow.instructions.get(instructions_of(agent), "")
    files: Files = {task_base_of(agent): render_contract(whole_plan(flow), worker, instructions)}
    if standing.session is None:
        files[session_of(agent)] = None  # notes of an earlier visit, which this workflow has not begun with
    elif not is_over(flow, flow.members[agent]):
        files[session_of(agent)] = render_session(standing.session)
    files |= {round_of(agent, one.number): render_round(worker, one) for one in standing.rounds}
    if agent in flow.added:
        files[instructions_of(agent)] = instructions
    return files


def of_verifier(flow: Flow, verifier: str) -> Files:
    """What a verifier has noted: about the doer that it looked at last, until all are archived at the end."""
    noted = flow.reviews(verifier)
    if noted and flow.phase != "running":
        return {}
    return {session_of(verifier): render_session(noted[-1][1]) if noted else None}


def files_of(flow: Flow, changed: Iterable[Entity]) -> Files:
    """Every file that tells of these entities of a workflow, None: one that is not to be there.

    It says so from the bus alone: the audit holds what lies in the job's tree against the same files.
    """
    files: Files = {SHARED_STATUS: status_text(flow), TASK_ORCHESTRATION: record_text(flow)}
    agents = {entity.name for entity in changed if entity.kind in (EntityKind.AGENT, EntityKind.WORKER)}
    if _THE_PLAN in changed and flow.plan is not None:
        files[PLAN] = with_joined(flow.plan.text, flow.joins)
        files |= flow.instructions
        agents |= flow.members.keys()
    for agent in sorted(agents & flow.members.keys()):
        files |= of_agent(flow, agent)
    looked = {name for agent in agents & flow.members.keys() for name in flow.members[agent].review.by}
    for verifier in sorted(looked | (agents - flow.members.keys())):
        files |= of_verifier(flow, verifier)
    return files


def left_over(flow: Flow, there: Iterable[str]) -> Files:
    """The contracts of agents that the plan no longer has: none of these is in force."""
    known = set(map(task_base_of, flow.members))
    pattern = task_base_of("*")
    return {path: None for path in there if path not in known and is_like(path, pattern)}


def told(worker: Worker) -> str:
    """The instructions of an agent that is not in the plan."""
    return (
        f"# {worker.name}\n\n{worker.objective}\n\n{worker.boundaries}\n\nDeliverable: {worker.deliverable}\n\n"
        f"Accepted when: {worker.acceptance.text}\n"
    )


# ---- where they are ------------------------------------------------------------------------------


def give(job: OwnedJob, world: World, thread: str, flow: Flow, talk: OpenConversation) -> None:
    """Before a worker's turn: its tree has what it needs to know, as it is now."""
    files: Files = {SHARED_STATUS: status_text(flow)}
    if talk.kind == "architect":
        files[TASK_ORCHESTRATION] = record_text(flow)
        for agent in flow.blocked:
            files |= of_agent(flow, agent)
    elif talk.agent in flow.members:
        files |= of_agent(flow, talk.agent)
        if talk.kind == "verifier":  # what lies there is not its verdict: its tree was the doer's
            files[round_of(talk.agent, len(flow.members[talk.agent].standing.rounds) + 1)] = None
            files |= _read_by_verifier(flow, talk)
    if flow.plan is not None and _plan_is_given(talk):
        files[PLAN] = flow.plan.text
    world.workspace.write(job.id, thread, files)


def _read_by_verifier(flow: Flow, talk: OpenConversation) -> Files:
    """What a verifier's message names beside the doer's own files: both instructions, and its notes on this doer."""
    own, noted = instructions_of(talk.name), flow.members[talk.agent].review.session
    files: Files = {session_of(talk.name): render_session(noted) if noted else None}
    files |= {path: flow.instructions[path] for path in (own, instructions_of(talk.agent)) if path in flow.instructions}
    if own not in files:  # it has joined, and the plan has nothing for it
        files[own] = VERIFIER_TOLD.format(name=talk.name, doer=talk.agent, contract=task_base_of(talk.agent))
    return files


def _plan_is_given(talk: OpenConversation) -> bool:
    """The architect may be in the middle of changing the plan, and the design verifier has that plan before it."""
    return talk.kind not in ("architect", "design")


def write(job: OwnedJob, world: World, effect: WriteFlow) -> bool:
    """After a commit: the executor's tree and the job's say how a workflow that has changed stands; False: not yet."""
    current = live_flows.current_flow(job)
    if current is not None and effect.thread != current.thread:
        # another run has followed before this one was put away: all that the newest says is written after that
        effect = WriteFlow(current.thread, frozenset(entities(current)))
    flow = live_flows.flow_of(job, effect.thread)
    if flow is None:
        return True
    above, done = job.soup.get(Surface, effect.thread), True
    for workspace in dict.fromkeys((above.workspace if above is not None else "", job.thread)):
        if workspace and _in_use(job, workspace):
            done = False
        elif workspace:
            done &= _write(job, world, flow, workspace, effect.changed)
    return done


def _write(job: OwnedJob, world: World, flow: Flow, workspace: str, changed: Collection[Entity]) -> bool:
    """Write what one workspace is to say of a workflow; what an earlier one left is put away first. False: not all."""
    tree = archiving.Tree(world.workspace, job.id, workspace)
    if live_flows.is_past(job, flow.thread):
        put_away(tree, flow)
        return True
    if _THE_PLAN in changed:
        own = files_of(flow, set(entities(flow)))
        for earlier in live_flows.all_flows(job):
            if earlier.run < flow.run:
                put_away(tree, earlier, own)
    world.workspace.write(job.id, workspace, _changed(job, world, flow, workspace, changed))
    return not shelve(tree, flow)


def all_again(job: OwnedJob) -> None:
    """After a crash it is not known how far the files had come: write all of them."""
    current = live_flows.current_flow(job)
    for flow in live_flows.all_flows(job) if current is None else [current]:
        job.ask(WriteFlow(flow.thread, frozenset(entities(flow))))


def _in_use(job: OwnedJob, workspace: str) -> bool:
    """Whether an agent is at work in a workspace: never write into a running instance's worktree."""
    for turn in job.running.values():
        if not turn.out:
            continue
        surface = job.soup.get(Surface, turn.thread, turn.agent)
        if surface is not None and surface.workspace == workspace:
            return True
    return False


def _changed(job: OwnedJob, world: World, flow: Flow, workspace: str, changed: Collection[Entity]) -> Files:
    files = files_of(flow, changed)
    if _THE_PLAN in changed:
        files |= left_over(flow, world.workspace.listing(job.id, workspace, f"{FOLDER}/agents"))
    return files


# ---- what is over --------------------------------------------------------------------------------


def shelve(shelf: archiving.Shelf, flow: Flow, *, past: bool = False) -> bool:
    """Put every session away that is over, as of the moment at which it ended; whether one has to be tried again.

    Of a run that is `past`, what is away stays as it is: a session that lies in its place is the next run's.
    """
    task = flow.plan.task if flow.plan else "workflow"
    last: dict[str, EndedSession] = {}
    earlier: dict[str, list[tuple[str, Session]]] = {}
    for one in ended(flow):
        if one.agent in last:
            earlier.setdefault(one.agent, []).append((one.agent, last[one.agent].session))
        last[one.agent] = one
    if past:
        gone = archiving.away(shelf, task, {one.agent: one.session for one in last.values()})
        last = {agent: one for agent, one in last.items() if agent not in gone}
    # who was given up while the others went on comes first, one by one: the log is the same whenever it is made
    given_up = {name for name, member in flow.members.items() if member.given_up}
    alone = [[one] for one in last.values() if one.agent in given_up]
    together = [one for one in last.values() if one.agent not in given_up]
    again = False
    for over in (*alone, together):
        if not over:
            continue
        latest = {session_of(one.agent): mended(render_session(one.session)) for one in over}
        there = {path: text for path, text in latest.items() if shelf.read(path) not in (None, text)}
        if there:  # one of an earlier moment may still lie there: what is put away is what the bus has
            shelf.write(there)
        sessions = {one.agent: one.session for one in over}
        before = [pair for one in over for pair in earlier.get(one.agent, ())]
        how = {one.agent: (one.status, one.reason) for one in over}
        again |= bool(archiving.archive(shelf, task, sessions, over[0].time, before, how).failed)
    return again


def put_away(shelf: archiving.Shelf, flow: Flow, own: Collection[str] = ()) -> None:
    """Keep what a run left whose plan is void, or that another has followed: nothing of the next one overwrites it.

    `own` are the files that the next run writes in the same places: these are not removed first, so that a crash in
    between leaves none of them missing.
    """
    folder = run_folder(flow.run)
    kept: Files = {f"{folder}/{path.removeprefix(f'{FOLDER}/')}": text for path, text in _of_run(flow).items()}
    gone: Files = dict.fromkeys(_current_of_run(flow))
    joined = {instructions_of(name): told(worker) for name, worker in flow.added.items() if name in flow.members}
    kept |= {path: text for path, text in joined.items() if path not in own}  # they are no run's alone, and stay
    shelf.write({path: text for path, text in kept.items() if shelf.read(path) != text})
    shelve(shelf, flow, past=True)
    there = set(shelf.listing(FOLDER))
    shelf.write({path: None for path in gone if path in there and path not in own})


def _of_run(flow: Flow) -> dict[str, str]:
    """What a run is known by: its plan, what its agents were told, how they stood, its record and its rounds."""
    files = {path: text for path, text in files_of(flow, set(entities(flow))).items() if text is not None}
    return {path: text for path, text in files.items() if path not in set(map(session_of, flow.workers))}


def _current_of_run(flow: Flow) -> list[str]:
    """The files of a run that the next one writes anew, or does not have."""
    rounds = [round_of(name, one.number) for name, member in flow.members.items() for one in member.standing.rounds]
    return [TASK_ORCHESTRATION, *rounds, *map(task_base_of, flow.members)]
