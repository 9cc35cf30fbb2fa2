"""Workflows, as they hang on the engine. A job without one runs none of this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from parley.bus.slots import tree_slot
from parley.engine import protocol_messages
from parley.engine.hooks import Feature, Guest, Reply
from parley.engine.owned_job import OwnedJob
from parley.engine.turn import calls
from parley.engine.turn.gate import WORK
from parley.engine.turn.running_turn import CallNote, Turn
from parley.engine.turn.stages import Brought, Gate, Start, TurnEnd
from parley.engine.values.message_meta import LeftForCode
from parley.engine.world import World
from parley.ports.workspaces import Merge, Scope
from parley.protocol.molecules import Origin, Record, Surface
from parley.protocol.rule import Passage
from parley.protocol.states import State, is_backtrack
from parley.roles.skill_anatomy import PLANNING
from parley.workflow.design.activation import DesignSettings
from parley.workflow.design.binding import bound
from parley.workflow.host import design_gates, design_messages, live_flows, orchestration_files, worker_reports
from parley.workflow.host.architecture_group import ArchitectureGroup
from parley.workflow.host.design_gates import DESIGN, PLAN_MD, Committed
from parley.workflow.host.executor_agent import Executor
from parley.workflow.host.live_flows import Flows, WriteFlow
from parley.workflow.host.worker_turn import WorkerTurn
from parley.workflow.model.flow import Flow, OpenConversation
from parley.workflow.model.flow_slots import SLOT as FLOW
from parley.workflow.model.terms import ARCHITECT, EXECUTOR, FOLDER, GROUP, PLAN

EXECUTION = "workflow-execution"  # the skill of a lead whose plan is a workflow


class WorkflowFeature(Feature):
    """Designs and carries out workflows. It comes to a job with its agents, its files, or the human's own word."""

    def __init__(self, world: World) -> None:
        super().__init__(
            agents={EXECUTOR: Executor, GROUP: ArchitectureGroup},
            effects={WriteFlow: orchestration_files.write},
            dormant=True,
            slots=(FLOW, DESIGN),
            setting=DesignSettings,
            folder=FOLDER,
        )
        self._world = world

    def guests(self, job: OwnedJob) -> Iterable[Guest]:
        """What the job knows of its workflows, and what hangs on its turns."""
        return Flows(), WorkflowGuest(self._world)


class WorkflowGuest(Guest):
    """The workflows of one job."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.tools = {"Note": _note, "Status": _status, "Verdict": _verdict, "Resolve": _resolve}

    # ---- before a start ------------------------------------------------------------------------

    def before_workspace(self, job: OwnedJob, start: Start) -> None:
        """A verifier, a prover or an integrator begins with the tree that it looks at."""
        found = live_flows.at_work(job, start.turn.thread)
        if found is not None and found.talk.base and found.talk.kind != "doer":
            start.base = found.talk.base

    def prepare(self, job: OwnedJob, start: Start) -> None:
        """A worker's tree has what it needs to know, and its paths have their owners."""
        thread = start.turn.thread
        found = live_flows.at_work(job, thread)
        if found is None:
            return
        flow, talk = found
        if talk.kind == "doer" and start.above is not None:
            brought = self._refresh(job, thread, flow, talk, start.above)
            start.remarks.extend([brought] if brought else [])
        orchestration_files.give(job, self._world, thread, flow, talk)
        start.site = worker_reports.owned(job, thread, start.site)

    def _refresh(self, job: OwnedJob, thread: str, flow: Flow, talk: OpenConversation, above: Surface) -> str:
        """Bring a doer's earlier work, and what is merged by now, into its tree; what it is told of that."""
        behind, workspace = "", self._world.workspace
        if talk.base != above.workspace and tree_slot(thread) not in job.kept:  # its last conversation had to end
            moved = workspace.merge(job.id, talk.base, thread, worker_reports.scope_of(job, thread))
            behind = f"{protocol_messages.left_out(moved.kept_out)}\n" if moved.kept_out else ""
        # a conflict is settled where both sides are proved: at the merge, unless that could not do it
        clean = not flow.was_refused(talk.agent)
        merged = workspace.refresh(job.id, thread, above.workspace, clean=clean)
        if not merged.conflicts:
            return behind.rstrip()
        apart = design_messages.apart(merged) if clean else protocol_messages.merged(above.agent, above.thread, merged)
        return behind + apart

    def prepare_lead(self, job: OwnedJob, start: Start) -> None:
        """The lead of EXECUTE finds the approved design as it was approved; who leads a workflow has a skill for it."""
        part, record = start.turn.part(WorkerTurn), start.record
        part.design = design_gates.in_force(job, self._world, record, start.turn.thread)
        design_gates.put_back(job, self._world, part.design)
        if record.state is State.EXECUTE and part.design:
            start.skills.append(EXECUTION)
        elif record.state is State.PLAN and PLANNING not in start.skills and self._has_plan(job, start):
            start.skills.append(PLANNING)

    def _has_plan(self, job: OwnedJob, start: Start) -> bool:
        return bool(self._world.workspace.read(job.id, start.surface.workspace, PLAN))

    # ---- at a gate -----------------------------------------------------------------------------

    def before_tree_read(self, job: OwnedJob, record: Record) -> None:
        """Every assumption of the workflow is in the work's summary."""
        design_gates.sum_up(job, self._world, record)

    def add_contents(self, job: OwnedJob, gate: Gate) -> None:
        """The job's plan is bound to the design of its workflow."""
        if PLAN_MD in gate.contents and gate.workspace == job.thread:
            design = design_gates.design_of(Committed(self._world, job.id, gate.tree))
            if design is not None:
                gate.contents[PLAN_MD] = bound(gate.contents[PLAN_MD], design.blueprint)

    def at_gate(self, job: OwnedJob, gate: Gate) -> None:
        """No plan with gaps, no work before the workflow is through. Raises Refused."""
        if gate.counts:
            if gate.record.state is State.PLAN:
                design_gates.refuse_gaps(job, self._world, gate.tree)
        elif gate.artifact == PLAN_MD:
            design_gates.refuse_undesigned(job, self._world, gate.record, gate.tree)
            design_gates.refuse_gaps(job, self._world, gate.tree)
        elif gate.artifact == WORK:
            design_gates.refuse_unfit(job, self._world, gate.record, gate.tree)

    def describe_gate(self, job: OwnedJob, gate: Gate) -> None:
        """What the human is told of the workflow that a plan brings along."""
        if gate.artifact != PLAN_MD or gate.record.depth:
            return
        if lines := design_gates.told_of(job, self._world, gate.tree):
            gate.outline = tuple(lines)

    def before_outcome(self, job: OwnedJob, record: Record, contents: dict[str, str]) -> None:
        """How the workflow's own gate stands."""
        contents |= design_gates.at_the_gate(job, record)

    # ---- after an end --------------------------------------------------------------------------

    def read_left_files(self, job: OwnedJob, ending: TurnEnd) -> None:
        """What a worker's turn left for the code that dispatched it."""
        ending.turn.part(WorkerTurn).report = worker_reports.report(job, self._world, ending.turn)

    def before_merge(self, job: OwnedJob, ending: TurnEnd) -> None:
        """A workflow that is under way is not merged yet, and a design comes in as a whole once it is ready."""
        closing, soup = set(ending.closing), job.soup
        leaving = [
            thread for thread in ending.leaving if thread in closing or not design_gates.is_under_way(job, thread)
        ]
        groups = [thread for thread in leaving if (there := soup.get(Surface, thread)) and there.agent == GROUP]
        ending.turn.part(WorkerTurn).groups = [thread for thread in groups if thread in closing]
        ending.leaving = [thread for thread in leaving if thread not in groups]
        ending.opaque = frozenset((EXECUTOR,))  # what its doers made comes in by its own merges, verified and proved
        ending.scope_for = _together if ending.turn.agent == ARCHITECT else _made

    def before_keep(self, job: OwnedJob, ending: TurnEnd) -> None:
        """A ready design comes in, the approved one is put back, and a doer changes only what it owns."""
        part, workspace = ending.turn.part(WorkerTurn), ending.surface.workspace
        for thread in part.groups:
            paths: tuple[str, ...] = ()
            if design_gates.is_ready(job, thread):
                source = job.soup.need(Surface, thread).workspace
                paths = design_gates.take_over(self._world, job.id, source, workspace)
            ending.merges.append(Brought(GROUP, thread, Merge(paths)))
        ending.put_back = design_gates.put_back(job, self._world, part.design)
        ending.scope = worker_reports.scope_of(job, ending.turn.thread)

    def tree_kept(self, job: OwnedJob, ending: TurnEnd) -> None:
        """What the turn left goes to the code that dispatched it, with what a doer wrote outside its paths."""
        left = ending.turn.part(WorkerTurn).report
        if left is not None:
            outside = worker_reports.outside(job, ending.turn, ending.kept)
            ending.left = LeftForCode.of(replace(left, outside=outside))

    # ---- what the rules do ---------------------------------------------------------------------

    def thread_closed(self, job: OwnedJob, surface: Surface, origin: Origin, time: float) -> None:
        """A workflow that had not come to its end is stopped with its executor."""
        if surface.agent == EXECUTOR:
            live_flows.over(job, surface.thread, time, origin)

    def state_left(self, job: OwnedJob, record: Record, passage: Passage) -> None:
        """A backtrack voids the plan, and its workflow."""
        if is_backtrack(record.state, passage.action):
            live_flows.void(job)

    def state_remark(self, job: OwnedJob, record: Record) -> str:
        """What a lead is told where the human has activated the workflow architect."""
        given = job.settings_of(DesignSettings).covered
        return design_messages.activated(record, given) if given is not None else ""

    # ---- recovery ------------------------------------------------------------------------------

    def workspace_put_back(self, job: OwnedJob, workspace: str) -> None:
        """With what a lost turn wrote into the job's tree went all that was told there meanwhile."""
        if workspace == job.thread:
            orchestration_files.all_again(job)

    def restored(self, job: OwnedJob) -> None:
        """It is not known how far the files had come."""
        orchestration_files.all_again(job)


def _together(below: Surface) -> Scope | None:
    """Of a design all of its files: an architect's helpers make one together."""
    return design_gates.TOGETHER


def _made(below: Surface) -> Scope | None:
    """Of a workflow what its agents made, of every other tree nothing of the protocol's own files."""
    return Scope(lambda path: "") if below.agent == EXECUTOR else None


# ---- tools -----------------------------------------------------------------------------------------


def _note(job: OwnedJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> Reply:
    if not worker_reports.keeps_notes(job, turn):
        return calls.note(job, world, turn, arguments)
    return _told(turn, "Note", worker_reports.note(job, world, turn, arguments))


def _status(job: OwnedJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> Reply:
    return _told(turn, "Status", worker_reports.status(job, turn, arguments))


def _verdict(job: OwnedJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> Reply:
    return _told(turn, "Verdict", worker_reports.verdict(job, turn, arguments))


def _resolve(job: OwnedJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> Reply:
    return _told(turn, "Resolve", worker_reports.resolve(job, world, turn, arguments))


def _told(turn: Turn, tool: str, said: str) -> Reply:
    turn.calls.append(CallNote(tool, said))
    return Reply(said)
