"""How each effect of the outbox is performed. Features bring along how theirs are."""

from __future__ import annotations

from collections.abc import Mapping

from parley.bus.slots import tree_slot
from parley.engine.files import job_records
from parley.engine.outbox import (
    AbandonWorkspace,
    CancelTurn,
    Effect,
    KeepOutcome,
    Notify,
    Perform,
    RestoreWorkspace,
    RetireWorkspace,
    WriteAnchor,
    WriteRecord,
)
from parley.engine.owned_job import OwnedJob
from parley.engine.values.human_inputs import authentic_answers
from parley.engine.world import World
from parley.ports.notices import Notice
from parley.protocol.molecules import Record, thread_name


def _cancel(job: OwnedJob, world: World, effect: CancelTurn) -> bool:
    world.turns.cancel(job.id, effect.turn)
    return True


def _restore(job: OwnedJob, world: World, effect: RestoreWorkspace) -> bool:
    tree = job.kept.get(tree_slot(effect.workspace), "")  # none: it goes back to how it began
    world.workspace.restore(job.id, effect.workspace, tree, effect.lost)
    for hook in job.guests.workspace_put_back:
        hook(job, effect.workspace)
    return True


def _abandon(job: OwnedJob, world: World, effect: AbandonWorkspace) -> bool:
    world.workspace.abandon(job.id, effect.workspace, effect.turn)
    return True


def _retire(job: OwnedJob, world: World, effect: RetireWorkspace) -> bool:
    world.turns.rest(job.id)  # what was kept ready for the instance that is gone goes too
    world.workspace.retire(job.id, effect.workspace)
    return True


def _keep_outcome(job: OwnedJob, world: World, effect: KeepOutcome) -> bool:
    world.files.write_outcome(job.id, effect.name, effect.text)
    world.workspace.clear_outcome(job.id, effect.workspace)
    return True


def _notify(job: OwnedJob, world: World, effect: Notify) -> bool:
    world.notices.tell(
        Notice(
            id=effect.id,
            job=job.id,
            occasion=effect.occasion,
            title=effect.title,
            text=effect.text,
            about=effect.about,
        )
    )
    return True


def _write_record(job: OwnedJob, world: World, effect: WriteRecord) -> bool:
    record = job.soup.get(Record, effect.record)
    if record is None:
        return True
    if record.depth:
        name = thread_name(record.id)
        text = job_records.render(job_records.state_document(record))
        world.files.write_state(job.id, f"records/{name}.json", text)
        return True
    world.turns.rest(job.id)  # a state's agents end with it
    return write_anchor(job, world)


def write_anchor(job: OwnedJob, world: World, effect: WriteAnchor | None = None) -> bool:
    """Write the job's own state record, with where the bus stands and who has answered for the human."""
    answers = authentic_answers(world.store, job.id)
    document = job_records.state_document(job.record, job.anchor(), answers)
    world.files.write_state(job.id, "state.json", job_records.render(document))
    job.anchored()
    return True


PERFORM: Mapping[type[Effect], Perform] = {
    CancelTurn: _cancel,
    RestoreWorkspace: _restore,
    AbandonWorkspace: _abandon,
    RetireWorkspace: _retire,
    KeepOutcome: _keep_outcome,
    Notify: _notify,
    WriteRecord: _write_record,
    WriteAnchor: write_anchor,
}
