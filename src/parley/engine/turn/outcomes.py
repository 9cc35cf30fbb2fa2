"""Outcome records as the job keeps them: a file for each."""

from __future__ import annotations

from parley.engine.files.job_records import render
from parley.engine.outbox import KeepOutcome
from parley.engine.values.message_meta import Observed
from parley.protocol.molecules import Record


def kept_outcome(record: Record, report: Observed) -> KeepOutcome:
    """The effect that keeps an outcome record, under a name that says when it was left."""
    said = {
        "outcome": report.outcome,
        "reason": report.reason,
        "problem": report.problem,
        "actor": report.actor,
        "turn": report.turn,
    }
    where = record.id.rpartition(":")[2] if record.depth else report.state
    told = {name: value for name, value in said.items() if value}
    text = render({**told, "record": record.id, "state": report.state})
    return KeepOutcome(f"{int(report.turn[1:]):06d}-{where}.json", text, report.workspace)
