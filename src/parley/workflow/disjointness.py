"""Whether workers own disjoint paths, derived from the page of the workflow alone: now, and before every re-scope."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations, groupby, product, takewhile
from operator import eq

from parley.workflow.cells import code
from parley.workflow.patterns import overlap, problem, spelled
from parley.workflow.record import Record, read_record
from parley.workflow.terms import TASK_ORCHESTRATION, Finding, Rescope, Task, Worker
from parley.workflow.times import moment

Owned = Mapping[str, tuple[str, ...]]  # by worker
Said = tuple[str, str, str, str]  # agent, rule, what is wrong, what to do


def rescopes(
    before: Mapping[str, Worker], after: Mapping[str, Worker], by: str, reason: str, now: int
) -> tuple[Rescope, ...]:
    """What a change of the plan changes of what its workers own; also of those that come or go with it."""
    old, new = _owned(before), _owned(after)
    return tuple(
        Rescope(now, name, by, old.get(name, ()), new.get(name, ()), reason)
        for name in dict.fromkeys((*old, *new))
        if old.get(name, ()) != new.get(name, ())
    )


def disjoint(text: str) -> list[Finding]:
    """What speaks against the claim that no two workers of a page may ever write the same path; empty: it holds."""
    record, findings = read_record(text)
    if record is None:
        return findings
    lines = text.split("\n")

    def line_of(agent: str) -> int:
        return next((number for number, line in enumerate(lines, 1) if line.startswith(f"| {code(agent)} |")), 0)

    return [
        Finding(TASK_ORCHESTRATION, line_of(agent), agent, rule, wrong, remedy)
        for agent, rule, wrong, remedy in dict.fromkeys(_said(record))
    ]


def _said(record: Record) -> Iterator[Said]:
    names = [one.agent for one in record.tracked]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield name, "record", "it has more than one row in the tracker", "leave the one that is right"
    verifiers = {one.agent for one in record.assigned if one.task is Task.VERIFIER}
    owned = {one.agent: one.owns for one in record.tracked if one.agent not in verifiers}
    yield from _malformed(owned)
    yield from _overlaps(owned, owned, "")
    yield from _history(record.rescopes, owned)


def _history(changes: Sequence[Rescope], owned: Owned) -> Iterator[Said]:
    """What was wrong before each change, and with the chain of changes itself, from the newest back."""
    past = dict(owned)
    moments = [list(group) for _, group in groupby(changes, key=lambda one: one.time)]
    for together in reversed(moments):
        for one in reversed(together):
            if past.get(one.agent, ()) != one.after:
                wrong = f"what the re-scope of {moment(one.time)} gave it is not what it owned afterwards"
                yield one.agent, "re-scope", wrong, "see what happened: parley audit"
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
                yield name, "overlap", wrong, "let one of them own it"


def _beginnings(pattern: str) -> list[tuple[str, ...]]:
    """The plain names that each alternative of a pattern begins with."""
    return [tuple(takewhile(bool, names)) for names in spelled(pattern)]


def _may_meet(here: Sequence[tuple[str, ...]], there: Sequence[tuple[str, ...]]) -> bool:
    """Whether two patterns begin so that they could overlap: most of a large plan's do not, which is seen at once."""
    return any(all(map(eq, one, other)) for one in here for other in there)


def _malformed(owned: Owned) -> Iterator[Said]:
    for name, patterns in owned.items():
        for pattern in patterns:
            wrong = problem(pattern)
            if wrong:
                yield name, "pattern", f"{code(pattern)} is not a pattern", wrong


def _owned(workers: Mapping[str, Worker]) -> dict[str, tuple[str, ...]]:
    return {name: worker.owns for name, worker in workers.items() if worker.task is Task.DOER}
