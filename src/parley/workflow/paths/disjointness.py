"""Checks that workers own disjoint paths, from task-orchestration.md alone: now, and before every re-scope."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations, groupby, product, takewhile
from operator import eq
from typing import NamedTuple

from parley.workflow.files.reading.markdown_codec import code
from parley.workflow.files.task_record import TaskRecord, read_record
from parley.workflow.model.terms import TASK_ORCHESTRATION, Finding, Rescope, Task, Worker
from parley.workflow.model.times import moment
from parley.workflow.paths.patterns import overlap, problem, spelled

Owned = Mapping[str, tuple[str, ...]]  # by worker


class Said(NamedTuple):
    """What is wrong with what an agent owns, and what to do about it."""

    agent: str
    rule: str
    wrong: str
    remedy: str


def rescopes(
    before: Mapping[str, Worker], after: Mapping[str, Worker], by: str, reason: str, now: int
) -> tuple[Rescope, ...]:
    """What a change of the plan changes of what its workers own; also of those that come or go with it."""
    old, new = _owned(before), _owned(after)
    return tuple(
        Rescope(time=now, agent=name, by=by, before=old.get(name, ()), after=new.get(name, ()), reason=reason)
        for name in dict.fromkeys((*old, *new))
        if old.get(name, ()) != new.get(name, ())
    )


def disjoint(text: str) -> list[Finding]:
    """Findings where two workers of a page may write the same path; empty: none may."""
    record, findings = read_record(text)
    if record is None:
        return findings
    lines = text.split("\n")

    def line_of(agent: str) -> int:
        return next((number for number, line in enumerate(lines, 1) if line.startswith(f"| {code(agent)} |")), 0)

    return [
        Finding(
            file=TASK_ORCHESTRATION,
            line=line_of(one.agent),
            agent=one.agent,
            rule=one.rule,
            text=one.wrong,
            remedy=one.remedy,
        )
        for one in dict.fromkeys(_said(record))
    ]


def _said(record: TaskRecord) -> Iterator[Said]:
    names = [one.agent for one in record.tracked]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Said(name, "record", "it has more than one row in the tracker", "leave the one that is right")
    verifiers = {one.agent for one in record.assigned if one.task is Task.VERIFIER}
    owned = {one.agent: one.owns for one in record.tracked if one.agent not in verifiers}
    yield from _malformed(owned)
    yield from _overlaps(owned, owned, "")
    yield from _history(record.rescopes, owned)


def _history(changes: Sequence[Rescope], owned: Owned) -> Iterator[Said]:
    """The overlaps before each re-scope, and breaks in the chain of re-scopes, from the newest back."""
    past = dict(owned)
    moments = [list(group) for _, group in groupby(changes, key=lambda one: one.time)]
    for together in reversed(moments):
        for one in reversed(together):
            if past.get(one.agent, ()) != one.after:
                wrong = f"what the re-scope of {moment(one.time)} gave it is not what it owned afterwards"
                yield Said(one.agent, "re-scope", wrong, "see what happened: parley audit")
            past[one.agent] = one.before
        changed = {one.agent for one in together}
        yield from _malformed({name: past[name] for name in sorted(changed)})
        yield from _overlaps(past, changed, f" until {moment(together[0].time)}")


def _overlaps(owned: Owned, changed: Collection[str], when: str) -> Iterator[Said]:
    """Each two patterns of two workers, one of them changed, that some path matches."""
    sound = {
        name: [(one, _beginnings(one)) for one in patterns if not problem(one)] for name, patterns in owned.items()
    }
    for name, other in combinations(sorted(sound), 2):
        if name not in changed and other not in changed:
            continue
        for (mine, here), (theirs, there) in product(sound[name], sound[other]):
            path = overlap(mine, theirs) if _may_meet(here, there) else None
            if path is not None:
                wrong = f"{code(mine)} and {code(theirs)} of {code(other)} both match {code(path)}{when}"
                yield Said(name, "overlap", wrong, "let one of them own it")


def _beginnings(pattern: str) -> list[tuple[str, ...]]:
    """The plain names that each alternative of a pattern begins with."""
    return [tuple(takewhile(bool, names)) for names in spelled(pattern)]


def _may_meet(here: Sequence[tuple[str, ...]], there: Sequence[tuple[str, ...]]) -> bool:
    """Whether two patterns could overlap, by their first names: a quick check that rules out most pairs."""
    return any(all(map(eq, one, other)) for one in here for other in there)


def _malformed(owned: Owned) -> Iterator[Said]:
    for name, patterns in owned.items():
        for pattern in patterns:
            wrong = problem(pattern)
            if wrong:
                yield Said(name, "pattern", f"{code(pattern)} is not a pattern", wrong)


def _owned(workers: Mapping[str, Worker]) -> dict[str, tuple[str, ...]]:
    return {name: worker.owns for name, worker in workers.items() if worker.task is Task.DOER}
