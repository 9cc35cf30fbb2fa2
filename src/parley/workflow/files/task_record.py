"""`task-orchestration.md`: the tracker of workers and the log of merges, for people.

It is read back exactly, so that disjoint ownership can be checked from this file alone. Each table is declared once,
for the writer and for the reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from parley.base.text import cut
from parley.workflow.files.reading.markdown_codec import (
    Appendix,
    Section,
    UnreadablePage,
    block,
    code,
    sections,
    table,
    text_of,
)
from parley.workflow.model.terms import (
    TASK_ORCHESTRATION,
    Finding,
    LivenessAction,
    Merged,
    Plan,
    PlanChange,
    Proof,
    Remedy,
    Rescope,
    Status,
    StrayWrite,
    Task,
    Worker,
    WorkerStanding,
)
from parley.workflow.model.times import moment, time_of

_TITLE = "Task orchestration: "
_GOAL = "Goal: "
_INTRODUCTION = (
    "This page is written from the job's bus after every change; an edit here changes nothing. Times are UTC.",
    "In code, `\\|` is a pipe, `\\n` a line's end, `\\\\` a backslash, `\\u0060` the character of that number.",
)
_MERGE = r"Merge -?\d+"
_ENDED = re.compile(r"- (`[^`]+`) ended with (-?\d+) after (-?[0-9.]+(?:e[+-]?[0-9]+)?) s(?:: (`[^`]+`))?")


@dataclass(frozen=True, slots=True)
class Tracked:
    """A doer in the tracker: its status, its paths, and its deliverable."""

    agent: str
    status: Status
    owns: tuple[str, ...] = ()
    forbids: tuple[str, ...] = ()
    deliverable: str = ""
    acceptance: str = ""
    commands: tuple[str, ...] = ()
    last_progress: int | None = None


@dataclass(frozen=True, slots=True)
class Assigned:
    """A worker's place in the workflow."""

    agent: str
    task: Task
    role: str
    task_id: str = ""
    objective: str = ""
    depends_on: tuple[str, ...] = ()
    verifier: str = ""
    version: int = 0
    verdicts: tuple[str, ...] = ()  # of its rounds of verification
    on_stall: Remedy = Remedy.ESCALATE
    remark: str = ""  # why it is blocked, stalled or failed


@dataclass(frozen=True, slots=True)
class DecidedChange:
    """A change of the plan during the work, and its decision."""

    time: int
    decision: str  # approved or refused
    by: str
    reason: str = ""
    judged: str = ""  # what became of it at the design verifier
    answers: tuple[str, ...] = ()  # those that came with it


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """The content of the page."""

    task: str
    goal: str = ""
    tracked: tuple[Tracked, ...] = ()
    assigned: tuple[Assigned, ...] = ()
    rescopes: tuple[Rescope, ...] = ()
    actions: tuple[LivenessAction, ...] = ()
    merges: tuple[Merged, ...] = ()
    changes: tuple[DecidedChange, ...] = ()
    strays: tuple[StrayWrite, ...] = ()


def record_of(
    plan: Plan,
    standings: Mapping[str, WorkerStanding],
    merges: Iterable[Merged] = (),
    rescopes: Iterable[Rescope] = (),
    actions: Iterable[LivenessAction] = (),
    changes: Iterable[PlanChange] = (),
    strays: Iterable[StrayWrite] = (),
) -> TaskRecord:
    """What the page says of a workflow: its plan as it is now, and what has happened."""
    workers = plan.workers.values()
    known = {worker.name: standings.get(worker.name, WorkerStanding(worker.name)) for worker in workers}
    return TaskRecord(
        task=plan.task,
        goal=plan.goal,
        tracked=tuple(_tracked(worker, known[worker.name]) for worker in workers if worker.task is Task.DOER),
        assigned=tuple(_assigned(worker, known[worker.name]) for worker in workers),
        rescopes=tuple(rescopes),
        actions=tuple(actions),
        merges=tuple(merges),
        changes=tuple(_decided(change) for change in changes),
        strays=tuple(strays),
    )


def _decided(change: PlanChange) -> DecidedChange:
    answers = tuple(f"{one.agent} {one.note_id}: {one.answer}" for one in change.answers)
    return DecidedChange(
        time=change.time,
        decision=change.decision,
        by=change.by,
        reason=change.reason,
        judged=change.judged,
        answers=answers,
    )


def _tracked(worker: Worker, standing: WorkerStanding) -> Tracked:
    return Tracked(
        agent=worker.name,
        status=standing.status,
        owns=worker.owns,
        forbids=worker.forbids,
        deliverable=worker.deliverable,
        acceptance=worker.acceptance.text,
        commands=worker.acceptance.commands,
        last_progress=standing.last_progress,
    )


def _assigned(worker: Worker, standing: WorkerStanding) -> Assigned:
    return Assigned(
        agent=worker.name,
        task=worker.task,
        role=worker.role,
        task_id=worker.task_id,
        objective=worker.objective,
        depends_on=worker.depends_on,
        verifier=worker.verifier,
        version=standing.version,
        verdicts=tuple(one.verdict for one in standing.rounds),
        on_stall=worker.on_stall,
        remark=standing.reason,
    )


# ---- the tables ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Column:
    """One column: the field that it shows, how it is written, and how it is read."""

    title: str
    field: str
    write: Callable[[Any, Appendix], str]
    read: Callable[[str, Appendix], Any]


_Row = TypeVar("_Row", Tracked, Assigned, Rescope, LivenessAction, Merged, DecidedChange, StrayWrite)


@dataclass(frozen=True, slots=True)
class _Table(Generic[_Row]):
    """A section with a table: one row for each value of a kind."""

    title: str
    about: str
    kind: type[_Row]
    columns: tuple[_Column, ...]

    def lines(self, rows: Sequence[_Row], appendix: Appendix) -> Iterator[str]:
        yield from ("", f"## {self.title}", "", self.about if rows else f"{self.about} None so far.")
        if rows:
            shown: list[list[str]] = [
                [one.write(getattr(row, one.field), appendix) for one in self.columns] for row in rows
            ]
            yield from ("", *table([one.title for one in self.columns], shown))

    def rows(self, found: Sequence[Section], appendix: Appendix) -> tuple[_Row, ...]:
        named = [section for section in found if (section.level, section.title) == (2, self.title)]
        if len(named) != 1:
            at = named[1].line if named else 1
            raise UnreadablePage(at, f"one section `## {self.title}` is expected, not {len(named)}")
        rows = named[0].rows([one.title for one in self.columns])
        return tuple(self._row(number, cells, appendix) for number, cells in rows)

    def _row(self, number: int, cells: Sequence[str], appendix: Appendix) -> _Row:
        values = {}
        for column, cell in zip(self.columns, cells, strict=True):
            try:
                values[column.field] = column.read(cell, appendix)
            except ValueError as error:
                raise UnreadablePage(number, f"{column.title}: {error}") from None
        return self.kind(**values)


def _text(title: str, field: str) -> _Column:
    return _Column(title, field, lambda value, appendix: appendix.text(value), lambda cell, kept: kept.read_text(cell))


def _texts(title: str, field: str) -> _Column:
    return _Column(
        title, field, lambda value, appendix: appendix.texts(value), lambda cell, kept: kept.read_texts(cell)
    )


def _time(title: str, field: str) -> _Column:
    return _Column(
        title,
        field,
        lambda value, _: "" if value is None else moment(value),
        lambda cell, _: time_of(cell) if cell else None,
    )


def _word(title: str, field: str, kind: Callable[[str], Any]) -> _Column:
    return _Column(title, field, lambda value, _: str(value), lambda cell, _: kind(cell))


def _flag(title: str, field: str, yes: str, no: str) -> _Column:
    def read(cell: str, _: Appendix) -> bool:
        if cell not in {yes, no}:
            message = f"`{yes}` or `{no}` is expected, not {cut(cell, 40)!r}"
            raise ValueError(message)
        return cell == yes

    return _Column(title, field, lambda value, _: yes if value else no, read)


def _proofs(proofs: Sequence[Proof], _: Appendix) -> str:
    return f"{sum(proof.holds for proof in proofs)} of {len(proofs)} hold" if proofs else ""


_TRACKER = _Table(
    "Worker tracker",
    "Who stands where, what each owns and must not touch, and the bar for what it delivers.",
    Tracked,
    (
        _text("Worker", "agent"),
        _word("Status", "status", Status),
        _texts("Owns", "owns"),
        _texts("Forbidden", "forbids"),
        _text("Deliverable", "deliverable"),
        _text("Acceptance", "acceptance"),
        _texts("Commands", "commands"),
        _time("Last progress", "last_progress"),
    ),
)
_ASSIGNMENTS = _Table(
    "Assignments",
    "Each worker's place in the workflow, the version of its verified output, and the verdicts of its rounds.",
    Assigned,
    (
        _text("Worker", "agent"),
        _word("Task", "task", Task),
        _text("Role", "role"),
        _text("Task id", "task_id"),
        _text("Objective", "objective"),
        _texts("Depends on", "depends_on"),
        _text("Verified by", "verifier"),
        _word("Version", "version", int),
        _texts("Rounds", "verdicts"),
        _word("If stalled", "on_stall", Remedy),
        _text("Remark", "remark"),
    ),
)
_RESCOPES = _Table(
    "Re-scopes",
    "Changes of what a worker owns, in order.",
    Rescope,
    (
        _time("Time", "time"),
        _text("Worker", "agent"),
        _text("By", "by"),
        _texts("Owned before", "before"),
        _texts("Owns now", "after"),
        _text("Reason", "reason"),
    ),
)
_CHANGES = _Table(
    "Plan changes",
    "Changes of the plan that were decided about, in order. One that is refused takes the answers with it.",
    DecidedChange,
    (
        _time("Time", "time"),
        _word("Decision", "decision", str),
        _text("By", "by"),
        _text("Reason", "reason"),
        _text("Design verifier", "judged"),
        _texts("Answers", "answers"),
    ),
)
_ACTIONS = _Table(
    "Liveness",
    "What was done about workers that had stalled, in order.",
    LivenessAction,
    (
        _time("Time", "time"),
        _text("Worker", "agent"),
        _word("Action", "action", Remedy),
        _text("By", "by"),
        _text("Outcome", "outcome"),
    ),
)
_STRAYS = _Table(
    "Outside owned paths",
    "What a worker's turn wrote where it may not, in order. It was put back; what was there is kept under the ref.",
    StrayWrite,
    (
        _time("Time", "time"),
        _text("Worker", "agent"),
        _texts("Paths", "paths"),
        _texts("Whose", "owners"),
        _text("Kept under", "ref"),
    ),
)
_MERGES = _Table(
    "Merge log",
    "Merges are made one at a time. What each command did on the merged tree stands below, by the merge's number.",
    Merged,
    (
        _word("No.", "number", int),
        _time("Time", "time"),
        _text("Worker", "agent"),
        _flag("Result", "taken", "taken", "not taken"),
        _text("Reason", "reason"),
        _texts("Commits", "commits"),
        _texts("Files", "paths"),
        _texts("Kept out", "kept_out"),
        _texts("Conflicts", "conflicts"),
        _flag("Kind", "trivial", "trivial", "not trivial"),
        _text("Resolved by", "resolved_by"),
        _Column("Proof", "proofs", _proofs, lambda _cell, _kept: ()),
    ),
)


# ---- writing -------------------------------------------------------------------------------------


def render_record(record: TaskRecord) -> str:
    """The page."""
    appendix = Appendix()
    lines = [f"# {_TITLE}{code(record.task)}", "", f"{_GOAL}{code(record.goal)}", "", *_INTRODUCTION]
    lines.extend(_TRACKER.lines(record.tracked, appendix))
    lines.extend(_ASSIGNMENTS.lines(record.assigned, appendix))
    lines.extend(_CHANGES.lines(record.changes, appendix))
    lines.extend(_RESCOPES.lines(record.rescopes, appendix))
    lines.extend(_ACTIONS.lines(record.actions, appendix))
    lines.extend(_STRAYS.lines(record.strays, appendix))
    lines.extend(_MERGES.lines(record.merges, appendix))
    for merge in record.merges:
        if merge.proofs:
            lines.extend(("", f"### Merge {merge.number}"))
            lines.extend(line for proof in merge.proofs for line in proof_lines(proof))
    if appendix.entries:
        lines.extend(("", "## Appendix", "", "What is too long for a table, in full."))
        lines.extend(appendix.lines())
    return "\n".join(lines) + "\n"


def proof_lines(proof: Proof) -> list[str]:
    """What a command did, with the end of its output."""
    fault = f": {code(proof.fault)}" if proof.fault else ""
    told = f"- {code(proof.command)} ended with {proof.code} after {proof.seconds!r} s{fault}"
    return ["", told, "", *block(proof.output)]


# ---- reading -------------------------------------------------------------------------------------


def read_record(text: str) -> tuple[TaskRecord | None, list[Finding]]:
    """The content of a page, or findings where it differs from what the program writes."""
    try:
        return _read(text), []
    except UnreadablePage as error:
        remedy = "take back the edit: the page is written anew at the workflow's next change"
        return None, [
            Finding(file=TASK_ORCHESTRATION, line=error.line, agent="", rule="record", text=str(error), remedy=remedy)
        ]


def _read(text: str) -> TaskRecord:
    found = sections(text)
    heads = [section for section in found if section.level == 1]
    if len(heads) != 1 or not heads[0].title.startswith(_TITLE):
        raise UnreadablePage(heads[-1].line if heads else 1, f"one heading `# {_TITLE}…` is expected")
    goals = [(number, line) for number, line in heads[0].lines if line.startswith(_GOAL)]
    if not goals:
        raise UnreadablePage(heads[0].line, f"a line `{_GOAL}…` is expected below the heading")
    appendix = Appendix.read(found)
    proofs = {section.title: _read_proofs(section) for section in found if re.fullmatch(_MERGE, section.title)}
    merges = _MERGES.rows(found, appendix)
    return TaskRecord(
        task=_span(heads[0].line, heads[0].title.removeprefix(_TITLE)),
        goal=_span(goals[0][0], goals[0][1].removeprefix(_GOAL)),
        tracked=_TRACKER.rows(found, appendix),
        assigned=_ASSIGNMENTS.rows(found, appendix),
        rescopes=_RESCOPES.rows(found, appendix),
        actions=_ACTIONS.rows(found, appendix),
        merges=tuple(replace(merge, proofs=proofs.get(f"Merge {merge.number}", ())) for merge in merges),
        changes=_CHANGES.rows(found, appendix),
        strays=_STRAYS.rows(found, appendix),
    )


def _read_proofs(section: Section) -> tuple[Proof, ...]:
    proofs = []
    parts = (part for part in section.parts() if part.text or part.is_block)
    for told in parts:
        number, found = told.line, _ENDED.fullmatch(told.text)
        output = next(parts, None)
        if found is None or output is None or not output.is_block:
            raise UnreadablePage(number, "a command with its exit code, and then its output in a block, are expected")
        fault = _span(number, found[4]) if found[4] else ""
        try:
            proofs.append(
                Proof(
                    command=_span(number, found[1]),
                    code=int(found[2]),
                    output=output.text,
                    seconds=float(found[3]),
                    fault=fault,
                )
            )
        except ValueError:  # as of `1.2.3`, or of more digits than Python reads
            raise UnreadablePage(number, "its exit code and its seconds can't be read") from None
    return tuple(proofs)


def _span(line: int, text: str) -> str:
    try:
        return text_of(text)
    except ValueError as error:
        raise UnreadablePage(line, str(error)) from None
