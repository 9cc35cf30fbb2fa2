"""The audit: a job is replayed from nothing by the rules, and all that the bus says of it is compared.

It trusts no row. Steps are fired again one by one, in the order of their numbers; messages, turns, inputs,
molecules and the job's row must be what these steps make of them, and the hash chain must lead from the first
transaction to the last. The first row that does not fit is reported. What is wrong with a row is a finding, also
where the row can't even be read.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from parley.audit.confinement import Confinement
from parley.audit.refusals import Refusals
from parley.audit.replay import Replay, Rows
from parley.audit.row_checks import ODD, AuditFinding, Found, Part, typed, wrong
from parley.base.text import printable
from parley.base.wording import count
from parley.bus.hash_chain import JobOrigin, RedactedRows, origin
from parley.bus.rows import BusError, InputRow, JobRow, Loaded, TransactionRow, TurnRow
from parley.bus.slots import slot, tree_slot
from parley.bus.store import Store
from parley.engine.values import job_settings
from parley.engine.values.hold_causes import needs_human
from parley.engine.values.human_inputs import HostLostInput, Unsigned, answered, handled, read_or_none
from parley.engine.values.job_roles import code_of
from parley.engine.values.job_settings import StandIns
from parley.engine.values.people import NamedPeople
from parley.features.budgets.arithmetic import BudgetPart, Purse
from parley.features.former_job import ContinuedJob
from parley.ports.workspaces import FOLDER_VIEW, TIP_VIEW, Papers
from parley.protocol.codec import encode_term
from parley.protocol.molecules import ORCHESTRATOR, AskHuman, Hold, Record, Run, Surface, job_thread
from parley.protocol.rule import RuleSet
from parley.protocol.rules import RULES
from parley.workflow.host.files_audit import FilesReport, Stood, compare
from parley.workflow.model.flow_slots import CURRENT
from parley.workflow.model.terms import FOLDER

SETTINGS = ("jobs", 0)  # what stands for the settings in a job's row where an export shows them without secrets
BEFORE_ALL = -(1 << 63)  # a row may bear any number: none is left out because its number is not positive
MOST_TOLD = 50  # files that differ, one by one
LOOKS = 50  # how often a job that runs is looked at until it stands still for a moment


# ---- what comes of it ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit found: how far the record could be replayed, and the first row that does not fit."""

    job: str
    steps: int
    messages: int
    transactions: int
    transitions: int
    head: str
    anchored: int | None  # the transaction that the anchor names: what comes after it may be cut off unseen
    findings: tuple[AuditFinding, ...] = ()
    redacted: int = 0  # rows of an export that are shown without the secrets in them
    confinement: Confinement = field(default_factory=Confinement)
    answers: Mapping[str, int] = field(default_factory=dict)  # who answered for the human, and how often
    refusals: Refusals = field(default_factory=Refusals)
    unsigned: tuple[AuditFinding, ...] = ()  # inputs that another program wrote, and that have had no effect
    unknown: int = 0  # inputs whose signature can't be checked here
    files: FilesReport | None = None  # its workflows' files compared with the bus; None: they were not looked at
    continues: str | None = None  # the job from whose result it began; None: from none
    lost_hosts: tuple[HostLostInput, ...] = ()  # on which turns could not be ended

    @property
    def ok(self) -> bool:
        """Whether everything fits."""
        return not self.findings and not (self.files and self.files.odd)

    def document(self) -> dict[str, Any]:
        """The report as a JSON-able value."""
        return {
            "job": self.job,
            "ok": self.ok,
            "steps": self.steps,
            "messages": self.messages,
            "transactions": self.transactions,
            "transitions": self.transitions,
            "head": self.head,
            "anchored": self.anchored,
            "redacted": self.redacted,
            "boundary": self.confinement.document(),
            "answers": dict(self.answers),
            "refusals": self.refusals.document(),
            "inputs": {
                "unknown": self.unknown,
                "unsigned": [{"number": f.number, "what": f.what} for f in self.unsigned],
            },
            "findings": [{"table": f.table, "number": f.number, "what": f.what} for f in self.findings],
            "files": self.files.document() if self.files is not None else None,
            "continues": self.continues,
            "lost_hosts": [{"host": one.host, "turn": one.turn} for one in self.lost_hosts],
        }


def render(report: AuditReport) -> list[str]:
    """The report as people read it."""
    counts = (
        f"{count(report.steps, 'step')}, {count(report.messages, 'message')},"
        f" {count(report.transactions, 'transaction')} and {count(report.transitions, 'transition')}"
    )
    if report.findings:
        first = report.findings[0]
        return [
            f"job {report.job}: the record does not hold",
            f"  the first row that does not fit: {first}",
            f"  before it, {counts} were replayed and are sound",
            *(f"  {line}" for line in _files(report.files)),
        ]
    if report.anchored is None:
        tail = "no anchor: without state.json a cut tail can't be found"
    elif report.anchored == report.transactions:
        tail = f"anchored at transaction {report.anchored}, the last: nothing was cut off"
    else:
        later = report.transactions - report.anchored
        tail = f"anchored at transaction {report.anchored}: of the {later} after it a tail may be cut off unseen"
    others = count(len({odd.file for odd in report.files.odd}), "file is", "files are") if report.files else ""
    sound = "the record is sound" if report.ok else f"the record is sound, but {others} not what it says"
    return [
        f"job {report.job}: {sound}",
        f"  {counts} were replayed from nothing",
        *((f"  it continues job {printable(report.continues)}",) if report.continues else ()),
        f"  {tail}",
        *(f"  {line}" for line in report.confinement.lines()),
        *((f"  the human's answers: {_counted(report.answers)}",) if report.answers else ()),
        *(f"  {line}" for line in report.refusals.lines()),
        *(f"  {printable(lost.words)}" for lost in report.lost_hosts),
        *(f"  {line}" for line in _signatures(report)),
        *((f"  {_redacted(report.redacted)}",) if report.redacted else ()),
        *(f"  {line}" for line in _files(report.files)),
        f"  head {report.head or '(none)'}",
    ]


def _files(held: FilesReport | None) -> list[str]:
    """What is reported of the files below orchestration/."""
    if held is None:
        return []
    lines = [*held.remarks]
    if held.compared:
        compared = f"{count(held.compared, 'file')} below {FOLDER}/ compared with the bus"
        lines.append(f"{compared}: {'each is what it says' if not held.odd else 'these are not what it says'}")
    lines += [f"  {odd}" for odd in held.odd[:MOST_TOLD]]
    more = len(held.odd) - MOST_TOLD
    lines += [f"  and {more} more; --json lists them all"] if more > 0 else []
    behind = len(held.behind)
    if behind:
        lines.append(
            f"{count(behind, 'file is', 'files are')} behind, and written when the job goes on: {held.behind[0]}"
        )
    return lines


def _signatures(report: AuditReport) -> list[str]:
    """Whose word can't be relied on."""
    lines = [str(found) for found in report.unsigned[:MOST_TOLD]]
    more = len(report.unsigned) - MOST_TOLD
    lines += [f"and {more} more inputs that are not signed; --json lists them all"] if more > 0 else []
    if report.unknown:
        inputs = count(report.unknown, "input")
        lines.append(
            f"{inputs} can't be authenticated here: this machine does not have the key that they were signed with"
        )
    return lines


def _counted(answers: Mapping[str, int]) -> str:
    return ", ".join(f"{number} by {by}" for by, number in answers.items())


def _redacted(number: int) -> str:
    rows = count(number, "row is", "rows are")
    return f"{rows} redacted: covered by the chain as they were, shown without the secrets in them"


def read_anchor(text: str | None) -> dict[str, Any] | None:
    """The anchor in a state.json; None if there is no such file, nothing in it where it can't be read."""
    if text is None:
        return None
    try:
        found = json.loads(text)["head"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def audit(
    store: Store,
    job: str,
    anchor: Mapping[str, Any] | None,
    rules: RuleSet = RULES,
    witnesses: Sequence[Mapping[str, Any]] = (),
    redacted: RedactedRows = MappingProxyType({}),
    papers: Papers | None = None,
) -> AuditReport:
    """Replay the job and compare, with its files too where these are given.

    A BusError is raised only where a running job does not stand still.
    """
    replay = Replay(job, rules, redacted=redacted)
    anchored = anchor.get("transaction") if anchor else None
    findings: tuple[AuditFinding, ...] = ()
    given = InputFindings()
    files: FilesReport | None = None
    if papers is not None:  # before the bus: what a file says was committed before it was written
        papers.listed(FOLDER_VIEW), papers.listed(TIP_VIEW)
    try:
        given = _examine(store, replay, anchor, witnesses)
        if papers is not None:
            files = compare(_stood(replay, anchored), papers)
        elif replay.batches:
            files = FilesReport(remarks=[f"the files below {FOLDER}/ are not here: none was compared with the bus"])
    except Found as found:
        findings = (found.finding,)
        if papers is not None and replay.batches:
            files = FilesReport(
                remarks=[f"the files below {FOLDER}/ were not compared: what they would be is not known"]
            )
    return AuditReport(
        job=job,
        steps=replay.step,
        messages=replay.message,
        transactions=replay.transaction,
        transitions=replay.transitions,
        head=replay.head,
        anchored=anchored if isinstance(anchored, int) else None,
        findings=findings,
        redacted=len(redacted),
        confinement=replay.confinement,
        answers=given.answers,
        refusals=replay.refusals,
        unsigned=given.unsigned,
        unknown=given.unknown,
        files=files,
        continues=given.continues,
        lost_hosts=given.lost_hosts,
    )


def _stood(replay: Replay, anchored: Any) -> Stood:
    """How the job stood, for the comparison of its files."""
    if not replay.transaction:
        return Stood()
    here = job_thread(replay.soup.charter.job)
    runs = (replay.soup.get(Surface, run.thread, run.agent) for run in replay.soup.of(Run))
    return Stood(
        batches=replay.batches,
        current=replay.kept.get(CURRENT, ""),
        tree=replay.kept.get(tree_slot(here), ""),
        since=anchored if isinstance(anchored, int) else 0,
        going=replay.soup.need(Record, replay.job).live,
        in_use=here in replay.cut_off or any(surface is not None and surface.workspace == here for surface in runs),
        drafts=replay.drafts,
    )


@dataclass(frozen=True, slots=True)
class InputFindings:
    """What was found of a job's inputs: who answered how often, and whose word can't be relied on."""

    answers: Mapping[str, int] = field(default_factory=dict)
    unsigned: tuple[AuditFinding, ...] = ()
    unknown: int = 0
    continues: str | None = None  # as the settings of the job say
    lost_hosts: tuple[HostLostInput, ...] = ()


# ---- reading: nothing is taken for granted -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Moment:
    """The derived tables of a job, all as of one transaction."""

    loaded: Loaded
    turns: list[TurnRow]
    inputs: list[InputRow]

    @property
    def transaction(self) -> int:
        """The last one."""
        return self.loaded.transaction.number if self.loaded.transaction else 0


def moment(store: Store, job: str) -> Moment:
    """Read the derived tables. If another process writes meanwhile, read again: a mixture would fit nothing."""
    loaded = store.load(job)
    for _ in range(LOOKS):
        turns, inputs = list(store.turns(job)), store.inputs(job, waiting=False)
        now = store.load(job)
        if now.transaction == loaded.transaction:
            return Moment(now, turns, inputs)
        loaded = now
    raise BusError(f"job {job} goes on faster than it can be read; pause it and try again")


def _moment(store: Store, job: str) -> Moment:
    try:
        known = [row.job for row in store.jobs()]
    except BusError as error:
        wrong("jobs", job, f"can't be read: {error}")
    if job not in known:
        wrong("jobs", job, "the row is missing")
    for table, read in (("turns", store.turns), ("inputs", store.inputs), ("molecules", store.load)):
        try:
            read(job)
        except BusError as error:
            wrong(table, "-", f"can't be read: {error}")
    now = moment(store, job)
    if now.loaded.transaction is not None:
        typed("transactions", now.loaded.transaction)
    return now


def _examine(
    store: Store, replay: Replay, anchor: Mapping[str, Any] | None, witnesses: Sequence[Mapping[str, Any]]
) -> InputFindings:
    job = replay.job
    by_number: dict[int, list[Mapping[str, Any]]] = {}
    for witness in witnesses:
        number = witness.get("transaction")
        by_number.setdefault(number if type(number) is int else 0, []).append(witness)
    now = _moment(store, job)
    replay.purse = _purse(now.loaded.row)
    replay.code = _code(now.loaded.row)
    replay.named = _read_settings(now.loaded.row, NamedPeople)
    replay.stand_ins = _read_settings(now.loaded.row, StandIns)
    commits = _listed(store, job)
    steps = Rows("steps", store.steps(job, BEFORE_ALL))
    messages = Rows("messages", store.messages(job, BEFORE_ALL))
    inputs: dict[int, list[InputRow]] = {}
    before = BEFORE_ALL
    for row in now.inputs:
        typed("inputs", row)
        if row.number <= before:
            wrong(
                "inputs",
                row.number,
                f"it stands after {before}: the row is out of its place, or one too many",
            )
        before = row.number
        inputs.setdefault(row.taken, []).append(row)
    for commit in commits:
        typed("transactions", commit)
        if commit.number > now.transaction:
            break  # the job has just gone on
        replay.expect(commit)
        part = Part(
            commit=commit,
            steps=steps.of(commit.number),
            messages=messages.of(commit.number),
            inputs=inputs.get(commit.number, []),
            next_step=steps.rest(),
            next_message=messages.rest(),
        )
        replay.take(part)
        audit_append_only(commit, anchor, by_number.get(commit.number, ()))
    _not_cut(anchor, replay.transaction)
    for number in by_number:
        if number > replay.transaction:
            _missing(WITNESS, number, replay.transaction)
    for table, left in (("steps", steps.rest()), ("messages", messages.rest())):
        if left is not None and _last(store, job) == now.transaction:
            typed(table, left)
            wrong(table, left.number, "no transaction wrote this row")
    replay.look()
    bus_durability(replay, now)
    sandbox_integrity(replay)
    unsealed = store.unsealed(job)
    if unsealed:
        wrong("transactions", unsealed, "it is not sealed with this bus's key: another program wrote it")
    return _compare_inputs(store, replay, now)


def audit_append_only(
    commit: TransactionRow, anchor: Mapping[str, Any] | None, witnesses: Sequence[Mapping[str, Any]]
) -> None:
    """A transaction is as those found it that have seen it: all its rows are numbered and chained by then."""
    _hold_against(anchor, commit)
    for witness in witnesses:
        _hold_against(witness, commit, WITNESS)


def bus_durability(replay: Replay, now: Moment) -> None:
    """The next owner finds all that the steps make: the job, its molecules, mail, turns and spending."""
    _compare_job(replay, now.loaded)
    _compare_molecules(replay, now.loaded)
    _compare_recipients(replay, now.loaded)
    _compare_turns(replay, now)
    _compare_spending(replay, now.loaded)


def sandbox_integrity(replay: Replay) -> None:
    """Where agents were confined, no turn counts that has no verdict on its boundary, or one that did not hold."""
    confinement = replay.confinement
    if confinement.broken is not None:
        number, why = confinement.broken
        wrong("steps", number, f"its turn counts, and was behind a boundary that did not hold: {why:.200}")
    if confinement.any and confinement.unverified:
        wrong("steps", confinement.unverified, "its turn counts, and nothing says that its boundary was verified")


def _listed(store: Store, job: str) -> list[TransactionRow]:
    found: list[TransactionRow] = []
    try:
        found.extend(store.transactions(job))
    except BusError as error:
        wrong("transactions", len(found) + 1, f"this row, or one soon after it, can't be read: {error}")
    return found


def _last(store: Store, job: str) -> int:
    last = store.load(job).transaction
    return last.number if last else 0


# ---- the anchor ----------------------------------------------------------------------------------

ANCHOR, WITNESS = "state.json", "a turn's commit in snapshots.git"


def _hold_against(anchor: Mapping[str, Any] | None, commit: TransactionRow, name_of: str = ANCHOR) -> None:
    """The bus must say of the anchored transaction what the anchor says."""
    if anchor is None or anchor.get("transaction") != commit.number:
        return
    for name, there in (("step", commit.steps), ("message", commit.messages), ("hash", commit.head)):
        if anchor.get(name) != there:
            what = f"its {name} is {anchor.get(name)!r:.80}, and the bus has {there!r}: one was rewritten"
            wrong(name_of, commit.number, what)


def _not_cut(anchor: Mapping[str, Any] | None, last: int) -> None:
    """The anchor is written after its transaction: a bus that ends before it has lost its tail."""
    if anchor is None:
        return
    number = anchor.get("transaction")
    if type(number) is not int or number < 1:
        wrong(ANCHOR, "head", "it can't be read, or names no transaction")
    if number > last:
        _missing(ANCHOR, number, last)


def _missing(where: str, number: int, last: int) -> None:
    wrong("transactions", last + 1, f"the row is missing: {where} was written after transaction {number}")


# ---- the derived tables --------------------------------------------------------------------------


def _compare_job(replay: Replay, loaded: Loaded) -> None:
    row = loaded.row
    if row.job != replay.job:
        wrong("jobs", replay.job, f"the row is of another job, {row.job!r:.100}")
    said: dict[str, Any] = {"state": "INTENT", "visit": 1, "backtracks": 0, "needs_human": 0, "held": 0}
    if replay.transaction:
        record = replay.soup.need(Record, replay.job)
        said = {
            "request": replay.request,
            "updated": replay.listed,
            "state": str(record.state),
            "visit": record.visit,
            "backtracks": record.backtrack_count,
            "needs_human": len(replay.soup.of(AskHuman)) + sum(map(needs_human, replay.soup.of(Hold))),
            "held": len(replay.soup.all(Hold, job_thread(replay.soup.charter.job))),
        }
        known = _origin(row)
        if SETTINGS in replay.redacted:
            known = replace(known, settings=replay.redacted[SETTINGS])
        for name, value in asdict(known).items():
            if getattr(replay.origin, name) != value:
                wrong("jobs", replay.job, f"its {name} is not the one that the job was opened with")
    for name, value in said.items():
        there = getattr(row, name)
        if there != value:
            wrong("jobs", replay.job, f"its {name} is {there!r:.80}, and the steps make it {value!r:.80}")
    if type(loaded.epoch) is not int or loaded.epoch < replay.epoch:
        wrong(
            "owners",
            replay.job,
            f"its epoch is {loaded.epoch!r:.80}, and transaction {replay.transaction} had a later one",
        )


def _origin(row: JobRow) -> JobOrigin:
    try:
        return origin(row)
    except ODD as error:
        wrong("jobs", row.job, f"it can't be read: {error}")


def _compare_molecules(replay: Replay, loaded: Loaded) -> None:
    due = {slot(molecule): encode_term(molecule) for molecule in replay.soup}
    due.update(replay.kept)
    there = loaded.molecules
    for where in sorted(due.keys() | there.keys(), key=str):
        if where not in there:
            wrong("molecules", where, "the row is missing")
        if where not in due:
            wrong("molecules", str(where), "the row is one too many: the steps leave nothing there")
        if there[where] != due[where]:
            wrong("molecules", where, f"it is {there[where]!r:.120}, and the steps make it {due[where]!r:.120}")


def _code(row: JobRow) -> frozenset[str]:
    """The agents whose turns are code; a row that can't be read names the orchestrator alone."""
    try:
        return code_of(row)
    except ODD:
        return frozenset((ORCHESTRATOR,))


def _purse(row: JobRow) -> Purse:
    try:
        return Purse.of(job_settings.read(row, BudgetPart))
    except ODD as error:
        wrong("jobs", row.job, f"its budgets can't be read: {error}")


def _compare_spending(replay: Replay, loaded: Loaded) -> None:
    there = loaded.spent
    due = replay.spent
    for day in sorted(due.keys() | there.keys(), key=str):
        if day not in due:
            wrong("spending", str(day), "the row is one too many: no turn of the job began on that day")
        if there.get(day) != due[day]:
            wrong("spending", day or "-", f"it is {there.get(day)!r:.120}, and the steps make it {due[day]!r:.120}")


def _compare_recipients(replay: Replay, loaded: Loaded) -> None:
    due, there = replay.sequences, loaded.sequences
    for who in sorted(due.keys() | there.keys(), key=str):
        name = " ".join(map(str, who))
        if who not in due:
            wrong("recipients", name, "the row is one too many: nothing was delivered there")
        if there.get(who) != due[who]:
            wrong("recipients", name, f"the last message is {there.get(who)!r:.80}, and {due[who]} was delivered")


def _compare_turns(replay: Replay, now: Moment) -> None:
    due = list(replay.turns.values())
    for row, there in zip(due, now.turns, strict=False):
        if row.turn != there.turn:
            wrong("turns", row.turn, f"the row is missing here; there is {there.turn!r:.80}")
        for column in row.__struct_fields__:
            one, other = getattr(there, column), getattr(row, column)
            if one != other:
                wrong("turns", row.turn, f"its {column} is {one!r:.80}, and the steps make it {other!r:.80}")
    if len(due) > len(now.turns):
        wrong("turns", due[len(now.turns)].turn, "the row is missing")
    if len(due) < len(now.turns):
        wrong("turns", str(now.turns[len(due)].turn), "the row is one too many: no step started it")
    out = [row for row in now.turns if row.status == "submitted"]
    if list(now.loaded.turns) != out:
        wrong("turns", "-", "those that are out are not those that an owner would load")


def _compare_inputs(store: Store, replay: Replay, now: Moment) -> InputFindings:
    """Each was taken by what is there, and left by who has the bus's key."""
    found = answered(now.inputs)
    for row in now.inputs:
        if not 0 <= row.taken <= replay.transaction:
            wrong("inputs", row.number, f"it says that transaction {row.taken} took it, which is not there")
        if row.note and not row.taken:
            wrong("inputs", row.number, "something was noted of it, and no transaction took it")
    unsigned, unknown = [], 0
    ended = bool(replay.transaction) and not replay.soup.need(Record, replay.job).live
    for row in now.inputs:
        said = store.authentic(row)
        unknown += said is None
        replay.refusals.input(row, signed=said, ended=ended)
        if said is not False:
            continue
        if row.taken and not isinstance(handled(row), Unsigned):
            wrong(
                "inputs", row.number, "it was taken, and it is not signed with this bus's key: another program wrote it"
            )
        then = "it was refused" if row.taken else "it will be refused when the job goes on"
        what = f"{row.kind!a:.20} in the name of {row.by!a:.60} is not signed with this bus's key: {then}"
        unsigned.append(AuditFinding("inputs", row.number, what))
    continues = _read_settings(now.loaded.row, ContinuedJob).id
    told = (read_or_none(row) for row in now.inputs if store.authentic(row) is not False)
    lost = tuple(given for given in told if isinstance(given, HostLostInput))
    return InputFindings(
        answers=Counter(row.by for row in found),
        unsigned=tuple(unsigned),
        unknown=unknown,
        continues=continues,
        lost_hosts=lost,
    )


S = TypeVar("S", bound=Struct)


def _read_settings(row: JobRow, part: type[S]) -> S:
    try:
        return job_settings.read(row, part)
    except ODD as error:
        wrong("jobs", row.job, str(error))
