"""What one human has decided, as one SQLite file of their own, outside every repository and workspace.

Recall goes by the rare words of a question: how often each word occurs is counted beside the full-text index,
so that the few that tell decisions apart are looked up and no common word's long list is ever walked.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from parley.features.proxy.decision_store_check import VARIABLE, admit, check_schema, restrain
from parley.ports.decisions import Decided, Guess, MemoryTrouble, Recalled

SCHEMA = 1
BUSY_SECONDS = 5.0
PAUSE_SECONDS = 0.01
SHORTEST, LONGEST = 2, 40  # characters of a word that is looked for
TEXT = 20_000  # characters of a question that are looked at: enough to know it by
WORDS_READ = 400  # of a question: what comes after these adds nothing
RARE = 5  # words that a recall goes by
WALKED = 320  # decisions with one of them that are looked at, the newest
POSTINGS = 100  # those of the human's own among them that it may lead to
WEIGHED = 30  # decisions that are read whole and weighed
PAST = 200  # decisions of one state and kind, and of any, that a record is made of
LATE = 1000  # decisions that are looked at for the latter
FADING_SECONDS = 180 * 86400.0  # after this long a decision comes to mind half as readily

_APPLICATION = 0x5061726D  # in the file's header: no other program's database is taken for a memory
_WORD = re.compile(r"[^\W_]+")
_K, _B = 1.2, 0.75  # of BM25, as usual
_LENGTH = 60.0  # words that a decision is taken to have


def _read_queries() -> dict[str, str]:
    text = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    _, *parts = re.split(r"^-- name: (\S+)$", text, flags=re.MULTILINE)
    bodies = (re.sub(r"^\s*--.*\n", "", body, flags=re.MULTILINE).strip() for body in parts[1::2])
    return dict(zip(parts[::2], bodies, strict=True))


_SQL = _read_queries()


class Correction(NamedTuple):
    """What a decision said before it was corrected."""

    time: float
    verdict: str | None
    said: str
    how: str
    agreed: bool


def place(environment: Mapping[str, str]) -> Path:
    """Where a human's memory lies."""
    named = environment.get(VARIABLE)
    if named:
        return Path(os.path.realpath(named))  # a link that the user names is followed once, here
    base = environment.get("XDG_DATA_HOME") or Path("~/.local/share").expanduser()
    return Path(base) / "parley" / "memory.db"


def words_of(text: str) -> list[str]:
    """The words of a text that may be looked for, in order."""
    return [word for word in _WORD.findall(text[:TEXT].lower()) if SHORTEST <= len(word) <= LONGEST]


def id_of(decided: Decided) -> str:
    """A decision's name: the same whenever it is kept."""
    return hashlib.sha256(f"{decided.job}\n{decided.question}\n{decided.framing}".encode()).hexdigest()[:12]


class SqliteDecisions:
    """The memory in a file. It is made when something is first remembered, and opened when it is first used."""

    def __init__(self, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self.path = path
        self._busy_seconds = busy_seconds
        self._connection: sqlite3.Connection | None = None

    @property
    def exists(self) -> bool:
        """Whether anything was ever remembered here."""
        return self.path.is_file()

    def close(self) -> None:
        """Let go of the file. It is opened again where it is used again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # ---- opening -------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            yield self._opened()
        except sqlite3.Error as error:
            self.close()
            raise self._trouble(error) from error
        except OSError as error:
            raise MemoryTrouble(
                f"{self.path}: {error.strerror}; see to its permissions, or name another with {VARIABLE}"
            ) from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            admit(self.path)
            if not self.path.exists():
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with suppress(FileExistsError):  # another process was faster
                    os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            connection = sqlite3.connect(
                f"file:{quote(str(self.path))}?mode=rw",
                uri=True,
                timeout=self._busy_seconds,
                isolation_level=None,
                check_same_thread=False,
            )
            try:
                restrain(connection)
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.row_factory = sqlite3.Row
        if self._schema(connection) < SCHEMA:
            self._go_over_to_wal(connection)
            connection.execute("BEGIN IMMEDIATE")
            if self._schema(connection) < SCHEMA:  # another process may have been faster
                for statement in _SQL["schema-1"].split(";\n"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {SCHEMA}")
            connection.execute("COMMIT")
        check_schema(connection, self.path, _SQL["schema-1"])
        connection.execute("PRAGMA secure_delete = ON")  # what is forgotten leaves no trace in a free page

    def _go_over_to_wal(self, connection: sqlite3.Connection) -> None:
        """SQLite itself does not wait for another process here: two may make the file at the same time."""
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_SECONDS)
            else:
                return

    def _schema(self, connection: sqlite3.Connection) -> int:
        application, version, tables = (
            int(connection.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("application_id", "user_version", "schema_version")
        )
        if (application, version, tables) != (0, 0, 0) and application != _APPLICATION:
            raise MemoryTrouble(f"{self.path}: this is another program's database; name another with {VARIABLE}")
        if version > SCHEMA:
            raise MemoryTrouble(
                f"{self.path}: a newer Parley wrote this memory (schema {version}, this one knows {SCHEMA}); "
                f"update Parley, or name another with {VARIABLE}"
            )
        return version

    def _trouble(self, error: sqlite3.Error) -> MemoryTrouble:
        said = str(error)
        if "locked" in said or "busy" in said:
            return MemoryTrouble(f"{self.path}: another process keeps the memory busy; try again when it is done")
        if isinstance(error, sqlite3.OperationalError) and ("readonly" in said or "unable to open" in said):
            return MemoryTrouble(
                f"{self.path}: {said}; see to its permissions and the disk, or name another with {VARIABLE}"
            )
        return MemoryTrouble(
            f"{self.path}: the memory is damaged ({said}) and was left as it is; put a copy back, or move it away "
            "and a new one begins"
        )

    # ---- keeping -------------------------------------------------------------------------------

    def remember(self, decided: Sequence[Decided]) -> None:
        """Keep decisions; those that are there stay as they are."""
        with self._writing() as connection:
            for one in decided:
                cursor = connection.execute(_SQL["add"], _columns(one))
                if cursor.rowcount:
                    self._index(connection, int(cursor.lastrowid or 0), one)

    def _index(self, connection: sqlite3.Connection, number: int, one: Decided) -> None:
        connection.execute(_SQL["add_words"], (number, one.asked, one.excerpt, one.said))
        connection.executemany(_SQL["count_term"], [(word,) for word in _vocabulary(one)])

    def _unindex(self, connection: sqlite3.Connection, number: int, one: Decided) -> None:
        connection.execute(_SQL["drop_words"], (number, one.asked, one.excerpt, one.said))
        connection.executemany(_SQL["discount_term"], [(word,) for word in _vocabulary(one)])
        connection.execute(_SQL["drop_terms"])

    def correct(self, name: str, verdict: str, said: str, now: float) -> Decided:
        """Put the human's own word in the place of what is kept; what was there stays as history."""
        with self._writing() as connection:
            number, old = self._find(connection, name)
            agreed = old.after is not None and old.after.met_by(verdict, said)
            connection.execute(_SQL["keep_old"], (now, old.id))
            self._unindex(connection, number, old)
            connection.execute(_SQL["correct"], (verdict, said, int(agreed), old.id))
            number, new = self._find(connection, old.id)
            self._index(connection, number, new)
            return new

    def forget(self, names: Iterable[str]) -> int:
        """Let go of decisions for good: rows, index, history and the pages they lay on. How many there were."""
        with self._writing() as connection:
            found = [self._find(connection, name) for name in dict.fromkeys(names)]
            for number, one in found:
                self._unindex(connection, number, one)
                connection.execute(_SQL["forget"], (one.id,))
                connection.execute(_SQL["forget_corrections"], (one.id,))
            connection.execute(_SQL["rebuild"])  # the index marks what is deleted; only so the words themselves go
        with self._reading() as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return len(found)

    # ---- recalling -----------------------------------------------------------------------------

    def recall(self, human: str, state: str, kind: str, text: str, limit: int) -> list[Recalled]:
        """The decisions that are most like a question, most like first."""
        if not self.exists:
            return []
        with self._reading() as connection:
            likeness, rarity = self._like(connection, human, text)
            best = sorted(likeness, key=lambda number: (likeness[number], number), reverse=True)[:WEIGHED]
            rows = connection.execute(_SQL["numbered"], (json.dumps(best),)).fetchall()
        newest = max((row["time"] for row in rows), default=0.0)
        weighed = []
        for row in rows:
            one = _decided(row)
            near = 1.0 + 0.5 * (one.state == state) + 0.25 * (one.kind == kind)
            fresh = 0.25 + 0.75 * 0.5 ** (max(0.0, newest - one.time) / FADING_SECONDS)
            weighed.append((_bm25(one, rarity) * near * fresh, row["number"], one))
        weighed.sort(reverse=True, key=lambda entry: entry[:2])
        return [Recalled(one, likeness[number]) for _, number, one in weighed[:limit]]

    def past(self, human: str, state: str, kind: str, text: str) -> list[Recalled]:
        """The last decisions of this state and kind and of any, without their texts, each with how like it is."""
        if not self.exists:
            return []
        with self._reading() as connection:
            likeness, _ = self._like(connection, human, text)
            own = connection.execute(_SQL["of_kind"], (human, state, kind, PAST)).fetchall()
            newest = int(connection.execute(_SQL["newest"]).fetchone()[0])
            late = connection.execute(_SQL["of_late"], (newest - LATE, human, PAST)).fetchall()
        rows = {row["number"]: row for row in (*own, *late)}
        return [Recalled(_outline(rows[number]), likeness.get(number, 0.0)) for number in sorted(rows)]

    def _like(self, connection: sqlite3.Connection, human: str, text: str) -> tuple[dict[int, float], dict[str, float]]:
        """How like each decision is that shares a rare word with the text; and how rare those words are."""
        asked = list(dict.fromkeys(words_of(text)))[:WORDS_READ]
        seen = {row["term"]: row["seen"] for row in connection.execute(_SQL["seen"], (json.dumps(asked),))}
        count = int(connection.execute(_SQL["newest"]).fetchone()[0])
        rare = sorted(seen, key=lambda word: (seen[word], word))[:RARE]
        rarity = {word: math.log(1.0 + (max(0, count - seen[word]) + 0.5) / (seen[word] + 0.5)) for word in rare}
        found: defaultdict[int, float] = defaultdict(float)
        for word, weight in rarity.items():
            for row in connection.execute(_SQL["holding"], (_quoted(word), WALKED, human, POSTINGS)):
                found[row[0]] += weight
        whole = sum(rarity.values())
        return {number: min(1.0, weight / whole) for number, weight in found.items()}, rarity

    # ---- for people ----------------------------------------------------------------------------

    def last(self, limit: int, state: str = "") -> list[Decided]:
        """The newest decisions, newest first."""
        return self._rows("last_of_state", (state, limit)) if state else self._rows("last", (limit,))

    def search(self, text: str, limit: int) -> list[Decided]:
        """The decisions that hold all words of a text, best first."""
        wanted = " ".join(_quoted(word) for word in dict.fromkeys(words_of(text)))
        return self._rows("search", (wanted, limit)) if wanted else []

    def of_job(self, job: str) -> list[Decided]:
        """A job's decisions, oldest first."""
        return self._rows("of_job", (job,))

    def everything(self) -> Iterator[Decided]:
        """All of it, oldest first, some at a time: other processes are not kept waiting."""
        after = 0
        while self.exists:
            with self._reading() as connection:
                rows = connection.execute(_SQL["all"], (after, 500)).fetchall()
            if not rows:
                return
            yield from map(_decided, rows)
            after = rows[-1]["number"]

    def named(self, name: str, limit: int = 9) -> list[Decided]:
        """The decisions whose ids begin so."""
        return self._rows("named", (name, f"{name}\U0010ffff", limit))

    def corrections(self, name: str) -> list[Correction]:
        """What a decision said before, oldest first."""
        if not self.exists:
            return []
        with self._reading() as connection:
            rows = connection.execute(_SQL["corrections"], (name,)).fetchall()
        return [
            Correction(
                time=row["time"], verdict=row["verdict"], said=row["said"], how=row["how"], agreed=bool(row["agreed"])
            )
            for row in rows
        ]

    def count(self) -> int:
        """How many decisions there are."""
        if not self.exists:
            return 0
        with self._reading() as connection:
            return int(connection.execute(_SQL["count"]).fetchone()[0])

    def _rows(self, query: str, words: tuple[Any, ...]) -> list[Decided]:
        if not self.exists:
            return []
        with self._reading() as connection:
            return [_decided(row) for row in connection.execute(_SQL[query], words)]

    def _find(self, connection: sqlite3.Connection, name: str) -> tuple[int, Decided]:
        row = connection.execute(_SQL["named"], (name, f"{name}\x00", 1)).fetchone()
        if row is None:
            raise MemoryTrouble(f"there is no decision {name!r}; `parley memory list` lists them")
        return row["number"], _decided(row)


# ---- rows ----------------------------------------------------------------------------------------


def _columns(one: Decided) -> tuple[Any, ...]:
    before = (one.before.verdict, one.before.confidence) if one.before else (None, None)
    after = (
        (one.after.verdict, one.after.confidence, one.after.reason, one.after.text)
        if one.after
        else (None, None, None, None)
    )
    return (
        one.id or id_of(one),
        one.time,
        one.human,
        one.repository,
        one.job,
        one.question,
        one.framing,
        one.state,
        one.kind,
        one.asked,
        one.artifact,
        one.digest,
        one.excerpt,
        *before,
        *after,
        one.verdict,
        one.said,
        one.how,
        int(one.agreed),
    )


def _decided(row: sqlite3.Row) -> Decided:
    before, after = row["before_verdict"], row["after_verdict"]
    return Decided(
        time=row["time"],
        human=row["human"],
        repository=row["repository"],
        job=row["job"],
        question=row["question"],
        framing=row["framing"],
        state=row["state"],
        kind=row["kind"],
        asked=row["asked"],
        artifact=row["artifact"],
        digest=row["digest"],
        excerpt=row["excerpt"],
        before=None if before is None else Guess(before, row["before_confidence"]),
        after=None if after is None else Guess(after, row["after_confidence"], row["after_reason"], row["after_text"]),
        verdict=row["verdict"],
        said=row["said"],
        how=row["how"],
        agreed=bool(row["agreed"]),
        id=row["id"],
    )


def _outline(row: sqlite3.Row) -> Decided:
    after = row["after_verdict"]
    return Decided(
        time=row["time"],
        human=row["human"],
        repository="",
        job="",
        question="",
        framing="",
        state=row["state"],
        kind=row["kind"],
        asked="",
        after=None if after is None else Guess(after, row["after_confidence"]),
        verdict=row["verdict"],
        how=row["how"],
        agreed=bool(row["agreed"]),
        id=row["id"],
    )


def _vocabulary(one: Decided) -> list[str]:
    return sorted({word for text in (one.asked, one.excerpt, one.said) for word in words_of(text)})


def _quoted(word: str) -> str:
    """A word as the index takes it: quoted, so that nothing in it is a command."""
    return '"' + word.replace('"', '""') + '"'


def _bm25(one: Decided, rarity: Mapping[str, float]) -> float:
    words = Counter(word for text in (one.asked, one.excerpt) for word in words_of(text))
    length = 1.0 - _B + _B * words.total() / _LENGTH  # without what was said: refusals say why, approvals say little
    words.update(words_of(one.said))
    return sum(weight * words[word] * (_K + 1.0) / (words[word] + _K * length) for word, weight in rarity.items())
