"""The files below `orchestration/`: how a workflow stands, for people and for those who work in it.

All of them are derived. They are written after the commit that changed the workflow, and again where a crash came in
between; what anybody else makes of them changes nothing but what is taken back at the end of a worker's turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from parley.core.terms import Surface
from parley.engine import archiving, flows
from parley.engine.live import LiveJob
from parley.engine.reports import whole_plan
from parley.engine.turn import Turn
from parley.engine.world import World
from parley.workflow.binding import is_like
from parley.workflow.contract import render_contract
from parley.workflow.flow import Flow, Talk
from parley.workflow.record import record_of, render_record
from parley.workflow.rounds import render_round
from parley.workflow.session import render_session
from parley.workflow.slots import entities
from parley.workflow.status_file import PHASES, render_status, shared_of
from parley.workflow.terms import (
    FOLDER,
    PLAN,
    SHARED_STATUS,
    TASK_ORCHESTRATION,
    Session,
    Status,
    Worker,
    instructions_of,
    round_of,
    session_of,
    task_base_of,
)

Files = dict[str, str | None]


# ---- what they say -------------------------------------------------------------------------------


def status_text(flow: Flow) -> str:
    """`shared_status.json`."""
    shared = shared_of(
        whole_plan(flow), flow.standings(), started=flow.started, status=PHASES[flow.phase], gate=flow.gate
    )
    return render_status(shared)


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
    elif standing.status is not Status.COMPLETE:
        files[session_of(agent)] = render_session(standing.session)
    files |= {round_of(agent, one.number): render_round(worker, one) for one in standing.rounds}
    if agent in flow.added:
        files[instructions_of(agent)] = instructions
    return files


def files_of(flow: Flow, changed: Iterable[str]) -> Files:
    """Every file that tells of these entities of a workflow, None: one that is not to be there.

    It says so from the bus alone: the audit holds what lies in the job's tree against the same files.
    """
    files: Files = {SHARED_STATUS: status_text(flow), TASK_ORCHESTRATION: record_text(flow)}
    agents = {name for kind, _, name in (entity.partition(" ") for entity in changed) if kind in ("agent", "worker")}
    if "plan" in changed and flow.plan is not None:
        files[PLAN] = flow.plan.text
        files |= flow.instructions
        agents |= flow.members.keys()
    for agent in sorted(agents & flow.members.keys()):
        files |= of_agent(flow, agent)
    return files


def left_over(flow: Flow, there: Iterable[str]) -> Files:
    """The contracts of agents that the plan no longer has: none of these is in force."""
    known = set(map(task_base_of, flow.members))
    pattern = task_base_of("*")
    return {path: None for path in there if path not in known and is_like(path, pattern)}


def told(worker: Worker) -> str:
    """The instructions of somebody who is not in the plan."""
    return (
        f"# {worker.name}\n\n{worker.objective}\n\n{worker.boundaries}\n\nDeliverable: {worker.deliverable}\n\n"
        f"Accepted when: {worker.acceptance.text}\n"
    )


# ---- where they are ------------------------------------------------------------------------------


def give(live: LiveJob, world: World, turn: Turn) -> None:
    """Before a worker's turn: its tree has what it needs to know, as it is now."""
    found = flows.at_work(live, turn.thread)
    if found is None:
        return
    flow, talk = found
    files: Files = {SHARED_STATUS: status_text(flow)}
    if talk.kind == "architect":
        files[TASK_ORCHESTRATION] = record_text(flow)
        for agent in flow.blocked:
            files |= of_agent(flow, agent)
    elif talk.agent in flow.members:
        files |= of_agent(flow, talk.agent)
        if talk.kind == "verifier":  # what lies there is nobody's verdict: its tree was the doer's
            files[round_of(talk.agent, len(flow.members[talk.agent].standing.rounds) + 1)] = None
    if flow.plan is not None and _plan_is_given(talk):
        files[PLAN] = flow.plan.text
    world.workspace.write(live.job, turn.thread, files)


def _plan_is_given(talk: Talk) -> bool:
    """The architect may be in the middle of changing the plan, and the design verifier has that plan before it."""
    return talk.kind not in ("architect", "design")


def write(live: LiveJob, world: World) -> None:
    """After a commit: the executor's tree and the job's say how each workflow that has changed stands."""
    unwritten, live.unwritten = live.unwritten, {}
    for thread, changed in unwritten.items():
        flow = flows.flow_of(live, thread)
        if flow is None:
            continue
        above = live.soup.get(Surface, thread)
        for workspace in dict.fromkeys((above.workspace if above is not None else "", live.thread)):
            if not workspace:
                continue
            if _in_use(live, workspace):
                live.unwritten.setdefault(thread, set()).update(changed)
            else:
                world.workspace.write(live.job, workspace, _changed(live, world, flow, workspace, changed))
                if flow.phase == "complete":
                    _archive(live, world, flow, workspace)


def all_again(live: LiveJob) -> None:
    """After a crash: nobody knows how far the files had come."""
    thread = flows.current_thread(live)
    flow = flows.flow_of(live, thread) if thread else None
    if flow is not None:
        live.unwritten[thread] = set(entities(flow))


def _in_use(live: LiveJob, workspace: str) -> bool:
    """Whether somebody is at work in a workspace: nothing there is changed under its hands."""
    for turn in live.running.values():
        if turn.heard < 0:
            continue  # it is not put out yet
        surface = live.soup.get(Surface, turn.thread, turn.agent)
        if surface is not None and surface.workspace == workspace:
            return True
    return False


def _changed(live: LiveJob, world: World, flow: Flow, workspace: str, changed: Collection[str]) -> Files:
    files = files_of(flow, changed)
    if "plan" in changed:
        files |= left_over(flow, world.workspace.listing(live.job, workspace, f"{FOLDER}/agents"))
    return files


def _archive(live: LiveJob, world: World, flow: Flow, workspace: str) -> None:
    tree = archiving.Tree(world.workspace, live.job, workspace)
    there = set(tree.listing(f"{FOLDER}/agents"))
    # one of an earlier moment may still lie there: what is put away is what the bus has
    tree.write({path: text for path, text in _complete(flow).items() if path in there})
    if shelve(tree, flow).failed:
        live.unwritten.setdefault(flow.thread, set())  # it is tried again


def _sessions(flow: Flow) -> dict[str, Session]:
    return {
        name: member.standing.session
        for name, member in flow.members.items()
        if member.standing.session is not None and member.standing.status is Status.COMPLETE
    }


def _complete(flow: Flow) -> dict[str, str]:
    return {session_of(name): render_session(session) for name, session in _sessions(flow).items()}


def shelve(shelf: archiving.Shelf, flow: Flow) -> archiving.Archival:
    """Put the sessions of a complete workflow away, as of the moment at which it was complete."""
    sessions = _sessions(flow)
    earlier = [(name, session) for name in sessions for session in flow.members[name].past]
    task = flow.plan.task if flow.plan else "workflow"
    return archiving.archive(shelf, task, sessions, flow.ended, earlier)
