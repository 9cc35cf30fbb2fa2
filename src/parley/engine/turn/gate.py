"""Gates: the artifacts of a committed tree, and what features add to them when a lead asserts one."""

from __future__ import annotations

from parley.engine.owned_job import OwnedJob
from parley.engine.turn.stages import Gate
from parley.engine.world import World
from parley.ports.workspaces import WorkspaceError
from parley.protocol.errors import Refused
from parley.protocol.molecules import Record
from parley.protocol.states import State
from parley.roles.phases import PHASES

ARTIFACTS = tuple(phase.artifact for phase in PHASES.values())
WORK = PHASES[State.EXECUTE].artifact


def gate_of(job: OwnedJob, world: World, record: Record, workspace: str, tree: str) -> Gate:
    """What the artifacts contain in a tree that a workspace has committed, and nowhere else.

    For the work that is all files. A feature may bind an artifact to more than its own file.
    """
    gate = Gate(record, workspace, tree, world.workspace.contents(job.id, tree, ARTIFACTS))
    if gate.contents:
        job.guests.look_at(job, lambda folder: bool(world.workspace.list_committed(job.id, tree, folder)))
    for hook in job.guests.add_contents:
        hook(job, gate)
    if WORK in gate.contents:
        gate.contents[WORK] = tree
    return gate


def refuse_unready(job: OwnedJob, gate: Gate, artifact: str, *, counts: bool = False) -> None:
    """What features add to the gate of the job's own artifacts. Raises Refused."""
    gate.artifact, gate.counts = artifact, counts
    try:
        for hook in job.guests.at_gate:
            hook(job, gate)
    except WorkspaceError as error:
        raise Refused(str(error)) from error
