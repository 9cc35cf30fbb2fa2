"""A job's whole record as one file, to be kept or audited where its bus is not.

JSON Lines: a header, the rows of every table in their order, the job's files, and a last line with the digest
of all that stands before it. The same record gives the same bytes.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec
from msgspec.structs import astuple

from parley.audit.audit import BEFORE_ALL, SETTINGS, Moment, moment
from parley.base.redaction import MARKED, Secrets
from parley.base.wording import count
from parley.bus.hash_chain import RedactedRows, digest_of
from parley.bus.rows import (
    BusError,
    Commit,
    InputRow,
    JobRow,
    Loaded,
    MessageRow,
    Spent,
    StepRow,
    TransactionRow,
    TurnRow,
)
from parley.bus.store import Store
from parley.features.secrets import row_redaction
from parley.protocol.states import Action, State

FORMAT = 5
PROTOCOL = f"ids 1; rules 3; states {' '.join(State)}; actions {' '.join(Action)}"
STATE = "state.json"
# What the engine writes of a job. The workspaces and their snapshots are no part of the record.
FILES = ("records/**/*.json", "outcomes/**/*.json", ".*-stream.jsonl", "streams/**/*.jsonl")
PIECE_BYTES = 1 << 18

_TABLES: Mapping[str, type[msgspec.Struct]] = {
    "jobs": JobRow,
    "transactions": TransactionRow,
    "steps": StepRow,
    "messages": MessageRow,
    "turns": TurnRow,
    "inputs": InputRow,
}
_WIDTHS = {"owners": 1, "molecules": 2, "spending": 5}
_GZIP = b"\x1f\x8b"

# A row is exported as it is, also one into which another program has put what is no text and no number.
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), default=repr).encode
Row = TypeVar("Row", bound=msgspec.Struct)


# ---- writing -------------------------------------------------------------------------------------


def export(store: Store, files_home: Path, job: str, secrets: Secrets | None = None) -> Iterator[bytes]:
    """The lines of a job's export. `files_home` is the folder of this job's files.

    A row with a secret in it is shown without, and with the digest of what it was: the chain covers that.
    """
    digest, count = sha256(), 0
    for document in _documents(store, files_home, job, secrets):
        line = f"{_encode(document)}\n".encode("ascii")
        digest.update(line)
        count += 1
        yield line
    yield f"{_encode({'end': {'lines': count, 'sha256': digest.hexdigest()}})}\n".encode("ascii")


def write_export(path: Path, lines: Iterable[bytes]) -> None:
    """Write an export, whole or not at all; compressed where the name ends with `.gz`."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():  # as root, a file would take the place of /dev/null for all
            raise BusError(f"{path}: it is no ordinary file; name a file to write the export to")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            if path.suffix == ".gz":
                # neither a name nor a time in it: the same record, the same bytes
                with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
                    packed.writelines(lines)
            else:
                file.writelines(lines)
        draft.replace(path)
    except OSError as error:
        raise BusError(f"{path}: the export can't be written: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)


def _documents(store: Store, files_home: Path, job: str, secrets: Secrets | None) -> Iterator[dict[str, Any]]:
    # first of all: an anchor that was read after the rows might name a transaction that is not among them
    anchor = _read(files_home / STATE)
    now = moment(store, job)
    yield {"parley-export": FORMAT, "protocol": PROTOCOL, "job": job}
    redacted = store.redacted if isinstance(store, Exported) else {}
    yield _row("jobs", now.loaded.row, redacted, secrets)
    yield {"table": "owners", "row": [now.loaded.epoch]}
    for table, rows in _rows(store, job, now):
        for row in rows:
            yield _row(table, row, redacted, secrets)
    for day, spent in now.loaded.spent.items():
        yield {"table": "spending", "row": [day, *astuple(spent)]}
    for where, body in now.loaded.molecules.items():
        yield {"table": "molecules", "row": [where, row_redaction.molecule(where, body, secrets) if secrets else body]}
    if anchor is not None:
        yield from _pieces(STATE, row_redaction.file(STATE, anchor, secrets) if secrets else anchor)
    for path in sorted({path for pattern in FILES for path in files_home.glob(pattern)}):
        name = path.relative_to(files_home).as_posix()
        data = _read(path)
        if data is not None:
            yield from _pieces(name, row_redaction.file(name, data, secrets) if secrets else data)


_DISCREET: Mapping[str, Callable[[Any, Secrets], Any]] = {
    "jobs": row_redaction.job_row,
    "steps": row_redaction.step_row,
    "messages": row_redaction.message_row,
    "inputs": row_redaction.input_row,
}


def _row(table: str, row: Any, redacted: RedactedRows, secrets: Secrets | None) -> dict[str, Any]:
    """A row's line; where it is redacted, with the digest that stands for what it was."""
    shown, was = row, redacted.get(_name(table, row))
    if secrets is not None and table in _DISCREET:
        try:
            shown = _DISCREET[table](row, secrets)
        except (AttributeError, TypeError):
            shown = row  # another program has put what is no text into it: the audit will tell
    line = {"table": table, "row": astuple(shown)}
    if shown != row and was is None:
        was = sha256(row.settings.encode("utf-8", "surrogatepass")).hexdigest() if table == "jobs" else digest_of(row)
    return {**line, "digest": was} if was is not None else line


def _name(table: str, row: Any) -> tuple[str, int]:
    return SETTINGS if table == "jobs" else (table, getattr(row, "number", 0))


def _rows(store: Store, job: str, now: Moment) -> Iterator[tuple[str, Iterable[Any]]]:
    last = now.loaded.transaction
    number, steps, messages = (last.number, last.steps, last.messages) if last else (0, 0, 0)

    def upto(rows: Iterator[Any], end: int) -> Iterator[Any]:
        """The rows up to the moment's; those beyond are left out only if the job has gone on meanwhile."""
        for row in rows:
            if row.number > end:
                later = store.load(job).transaction
                if (later.number if later else 0) != number:
                    return
                yield from chain((row,), rows)
            else:
                yield row

    yield "transactions", upto(store.transactions(job), number)
    yield "steps", upto(store.steps(job, BEFORE_ALL), steps)
    yield "messages", upto(store.messages(job, BEFORE_ALL), messages)
    yield "turns", now.turns
    yield "inputs", now.inputs


def _read(path: Path) -> bytes | None:
    """A file's bytes; None where there is no ordinary file."""
    if path.is_symlink() or not path.is_file():
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise BusError(f"{path}: it can't be read: {error.strerror}") from error


def _pieces(name: str, data: bytes) -> Iterator[dict[str, Any]]:
    """A file in lines of bounded length: as text where it is text, else in base 64."""
    for start in range(0, max(len(data), 1), PIECE_BYTES):
        piece = data[start : start + PIECE_BYTES]
        try:
            yield {"file": name, "text": piece.decode("utf-8")}
        except UnicodeDecodeError:
            yield {"file": name, "base64": base64.b64encode(piece).decode("ascii")}


# ---- reading -------------------------------------------------------------------------------------


class Exported:
    """A job as an export has it: a store that can only be read."""

    def __init__(self, job: str) -> None:
        self.job = job
        self.files: dict[str, bytes] = {}
        self.epoch = 0
        self.molecules: dict[str, str] = {}
        self.rows: dict[str, list[Any]] = {table: [] for table in _TABLES}
        self.spending: dict[str, Spent] = {}
        self.redacted: dict[tuple[str, int], str] = {}  # the digests of redacted rows

    @property
    def state(self) -> str | None:
        """The text of state.json, for its anchor; None if the export has none."""
        data = self.files.get(STATE)
        return data.decode("utf-8", "replace") if data is not None else None

    # ---- what can be asked of it

    def jobs(self) -> list[JobRow]:
        """The one job."""
        return list(self.rows["jobs"])

    def load(self, job: str) -> Loaded:
        """The job as it was when it was exported."""
        found = self._of(job, self.rows["jobs"])
        if len(found) != 1:
            raise BusError(f"this export of job {self.job} has {count(len(found), 'row')} for job {job!r:.100}")
        row: JobRow = found[0]
        sequences: dict[tuple[str, str], int] = {}
        for message in self.rows["messages"]:
            who = (message.agent, message.thread)
            if isinstance(message.seq, int):
                sequences[who] = max(sequences.get(who, message.seq), message.seq)
        transactions: list[TransactionRow] = self.rows["transactions"]
        out = tuple(turn for turn in self.rows["turns"] if turn.status == "submitted")
        last = transactions[-1] if transactions else None
        return Loaded(
            row=row,
            molecules=dict(self.molecules),
            transaction=last,
            sequences=sequences,
            turns=out,
            epoch=self.epoch,
            spent=self.spending,
        )

    def steps(self, job: str, after: int = 0) -> Iterator[StepRow]:
        """The job's steps, in order."""
        return _after(self._of(job, self.rows["steps"]), after)

    def messages(self, job: str, after: int = 0) -> Iterator[MessageRow]:
        """The job's messages, in order."""
        return _after(self._of(job, self.rows["messages"]), after)

    def message(self, job: str, number: int) -> MessageRow:
        """One message."""
        row: MessageRow
        for row in self._of(job, self.rows["messages"]):
            if row.number == number:
                return row
        raise BusError(f"this export has no message {number} of job {job!r:.100}")

    def transactions(self, job: str) -> Iterator[TransactionRow]:
        """The job's transactions, in order."""
        return iter(self._of(job, self.rows["transactions"]))

    def turns(self, job: str) -> Iterator[TurnRow]:
        """Every turn of the job, in order."""
        return iter(self._of(job, self.rows["turns"]))

    def hosts_of(self, job: str) -> Mapping[str, str]:
        """No turn of an export is under way."""
        return {}

    def inputs(self, job: str, *, waiting: bool = True) -> list[InputRow]:
        """The job's inputs, in order."""
        return [row for row in self._of(job, self.rows["inputs"]) if not (waiting and row.taken)]

    def waiting(self, jobs: Collection[str]) -> list[InputRow]:
        """The inputs that no transaction has taken, if the job is among some."""
        return self.inputs(self.job) if self.job in jobs else []

    def _of(self, job: str, rows: list[Row]) -> list[Row]:
        return rows if job == self.job else []

    def owner_lives(self, job: str) -> bool:
        """No process owns an export."""
        return False

    def owner_stopped(self, job: str) -> int:
        """No process owns an export."""
        return 0

    def authentic(self, row: InputRow) -> bool | None:
        """The key stays with the bus: here it can't be told."""
        return None

    def unsealed(self, job: str) -> int | None:
        """The key stays with the bus: here it can't be told."""
        return None

    def changed(self) -> bool:
        """An export never changes."""
        return False

    def wait(self, seconds: float) -> None:
        """An export never changes: there is nothing to wait for."""

    def close(self) -> None:
        """Nothing is held open."""

    # ---- what can't be done with it

    def create(self, row: JobRow) -> None:
        """Refused."""
        self._refuse()

    def own(self, job: str) -> int:
        """Refused."""
        self._refuse()

    def disown(self, job: str) -> None:
        """No process owns it."""

    def alone(self) -> AbstractContextManager[object]:
        """No process writes into an export."""
        return nullcontext()

    def spent(self, day: str) -> Spent:
        """What other jobs have used up is not part of it."""
        return self.spending.get(day, Spent())

    @property
    def ahead(self) -> int:
        """Nothing is written."""
        return 0

    def commit(self, commits: Sequence[Commit]) -> None:
        """Refused."""
        self._refuse()

    def begin_commit(self, commits: Sequence[Commit]) -> None:
        """Refused."""
        self._refuse()

    def put(self, job: str, kind: str, key: str, time: float, by: str, body: str) -> int:
        """Refused."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise BusError("an export can only be read; go on with the job where its bus is")


def _named(kind: type[Row], columns: Sequence[Any]) -> Row:
    """A row of a table whose columns are given in their order."""
    return kind(**dict(zip(kind.__struct_fields__, columns, strict=True)))


def _after(rows: list[Any], number: int) -> Iterator[Any]:
    """The rows after a number; one that has no number is shown too, for the audit."""
    return iter([row for row in rows if not isinstance(row.number, int) or row.number > number])


def load_export(path: Path) -> Exported:
    """Read an export, compressed or not. One that was cut off or changed is a BusError that says so."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(len(_GZIP)) == _GZIP
            raw.seek(0)
            with gzip.GzipFile(fileobj=raw, mode="rb") if packed else raw as file:
                return _Reading(path).read(file)
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            raise BusError(f"{path}: it is damaged ({error}); take another copy") from error
        raise BusError(f"{path}: it can't be read: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise BusError(f"{path}: it was cut off or damaged ({error}); take another copy") from error


class _Reading:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0
        self.exported: Exported | None = None

    def read(self, file: Iterable[bytes]) -> Exported:
        digest, end = sha256(), None
        for line in file:
            if end is not None:
                self._refuse("there is something after the last line")
            self.number += 1
            document = self._document(line)
            if "end" in document:
                end = document["end"]
                continue
            digest.update(line)
            self._take(document)
        if self.exported is None:
            raise BusError(f"{self.path}: it is empty")
        if end is None:
            raise BusError(f"{self.path}: it was cut off: line {self.number} is not the last; take another copy")
        if end != {"lines": self.number - 1, "sha256": digest.hexdigest()}:
            raise BusError(f"{self.path}: it was changed after it was exported: its digest is not that of its lines")
        return self.exported

    def _refuse(self, what: str) -> NoReturn:
        raise BusError(f"{self.path}: line {self.number}: {what}")

    def _document(self, line: bytes) -> dict[str, Any]:
        if not line.endswith(b"\n"):
            self._refuse("it was cut off here; take another copy")
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            self._refuse("it is no line of an export")
        return document

    def _take(self, document: dict[str, Any]) -> None:
        if self.exported is None:
            self.exported = self._begin(document)
        elif "table" in document:
            self._row(self.exported, document)
        elif "file" in document:
            self._file(self.exported, document)
        else:
            self._refuse("it is no line of an export")

    def _begin(self, document: dict[str, Any]) -> Exported:
        if document.get("parley-export") is None or not isinstance(document.get("job"), str):
            raise BusError(f"{self.path}: it is no export of a job")
        if document["parley-export"] != FORMAT:
            raise BusError(
                f"{self.path}: its format is {document['parley-export']!r:.40}, not {FORMAT}; "
                "audit it with the Parley that exported it"
            )
        if document.get("protocol") != PROTOCOL:
            raise BusError(
                f"{self.path}: its job follows another version of the protocol "
                f"({document.get('protocol')!r:.200}); use the Parley that exported it"
            )
        return Exported(document["job"])

    def _row(self, exported: Exported, document: dict[str, Any]) -> None:
        table, row = document["table"], document.get("row")
        kind = _TABLES.get(table) if isinstance(table, str) else None
        width = len(kind.__struct_fields__) if kind is not None else _WIDTHS.get(str(table))
        if width is None or not isinstance(row, list) or len(row) != width:
            self._refuse("it is no row of a table that this Parley knows")
        if not all(value is None or isinstance(value, str | int | float) for value in row):
            self._refuse("it holds what no row holds")
        if "digest" in document:
            self._seal(exported, str(table), row, document["digest"])
        if kind is not None:
            exported.rows[table].append(_named(kind, row))
        elif table == "owners":
            exported.epoch = row[0] if isinstance(row[0], int) else 0
        elif table == "spending":
            exported.spending[row[0]] = _named(Spent, row[1:])
        else:
            exported.molecules[row[0]] = row[1]

    def _seal(self, exported: Exported, table: str, row: list[Any], digest: Any) -> None:
        """A row is shown without its secrets: its digest is taken for what it was."""
        number = 0 if table == "jobs" else row[0]
        if table not in _DISCREET or type(number) is not int or not re.fullmatch(r"[0-9a-f]{64}", str(digest)):
            self._refuse("it is no row that could be redacted")
        if not any(isinstance(value, str) and MARKED in value for value in row):
            self._refuse("it says that it is redacted, and nothing in it is")
        exported.redacted[table, number] = str(digest)

    def _file(self, exported: Exported, document: dict[str, Any]) -> None:
        name, text, packed = (document.get(key) for key in ("file", "text", "base64"))
        try:
            piece = text.encode("utf-8") if isinstance(text, str) else base64.b64decode(str(packed), validate=True)
        except ValueError:
            self._refuse("it is no piece of a file")
        if not isinstance(name, str):
            self._refuse("it is no piece of a file")
        exported.files[name] = exported.files.get(name, b"") + piece
