"""Every merge of a job: whose tree came into whose, with what, and the conflicts that it left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from parley.bus.rows import MessageRow, StepRow
from parley.engine.values import message_meta
from parley.engine.values.message_meta import Conflicted
from parley.engine.values.step_extra import StepExtra
from parley.engine.values.step_names import place_of
from parley.workflow.model.code_steps import ExecutorStep
from parley.workflow.model.events import MergeEnded
from parley.workflow.model.terms import EXECUTOR

_CLEAN = "[MERGE clean]"
_ENDED = '"merge ends"'


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRecord:
    """One merge."""

    key: str
    time: float
    thread: str  # whose tree came in; empty where a workflow's record names its agent alone
    agent: str
    into: str  # the thread that it came into
    taken: bool = True  # a workflow takes back a merge whose proof fails
    paths: tuple[str, ...] = ()  # where they are told one by one
    conflicts: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    resolved_by: str = ""
    words: str = ""  # as the agent was told


def told_merges(step: StepRow, left: StepExtra) -> Iterator[MergeRecord]:
    """The merges without a conflict that a turn's end brought, and those of a workflow."""
    into = place_of(step).thread
    for count, told in enumerate(left.merged):
        if told.text.startswith(_CLEAN):
            agent = told.text.removeprefix(_CLEAN).strip().partition(" on ")[0]
            yield MergeRecord(
                key=f"s{step.number}.{count}",
                time=step.time,
                thread=told.thread,
                agent=agent,
                into=into,
                words=told.text,
            )
    if step.who == EXECUTOR and _ENDED in step.extra:
        yield from _of_workflow(step, left, into)


def _of_workflow(step: StepRow, left: StepExtra, into: str) -> Iterator[MergeRecord]:
    turn = left.left(ExecutorStep)
    for event in turn.events if turn is not None else ():
        if isinstance(event, MergeEnded):
            one = event.merged
            yield MergeRecord(
                key=f"s{step.number}.w{one.number}",
                time=step.time,
                thread="",
                agent=one.agent,
                into=into,
                taken=one.taken,
                paths=one.paths,
                conflicts=one.conflicts,
                commits=one.commits,
                resolved_by=one.resolved_by,
                words="; ".join(one.kept_out),
            )


def conflicted_merge(row: MessageRow) -> MergeRecord | None:
    """The merge that a message tells of because it left conflicts; None: it tells of none."""
    meta = message_meta.read(row) if '"conflicted"' in row.meta else None
    if not isinstance(meta, Conflicted):
        return None
    return MergeRecord(
        key=f"m{row.number}",
        time=row.time,
        thread=meta.thread,
        agent=row.body.partition("] ")[2].partition(" on ")[0],
        into=row.thread,
        conflicts=meta.paths,
        words=row.body,
    )
