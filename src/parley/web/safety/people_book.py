"""The people who may open the page, and read-only links: a file of the user's own, with a digest of each token.

A token is shown once, when it is made. The file is read again when it has changed, so that a person who is removed is
out at once, whichever process removed them.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from parley.base.json_codec import Unreadable, decode, encode
from parley.bus import patient_lock
from parley.engine.values.people import DOES, May

LARGEST = 1 << 20  # bytes of the file
MOST_PASSES = 1_000  # a file of so many stays within that: else it could not be read again
TOKEN_BYTES = 24
FILE = "people.json"
LONGEST_DAYS = 3_650  # that a pass lasts, where it ends by itself


class BookTrouble(Exception):
    """The file can't be read or written: the text says why, and what to do."""


class TooManyPasses(BookTrouble):
    """There are as many passes as the file takes."""


class Pass(Struct, frozen=True, kw_only=True):
    """What one token opens, for whom, and how much they may do."""

    id: str
    person: str  # empty: a link without a name
    may: May
    digest: str  # of the token
    made: float
    expires: float = 0.0  # 0: never
    repository: str = ""  # the key of the one repository that it opens; empty: all that the server shows
    job: str = ""  # the one job that it opens; empty: all
    metrics: bool = False  # it reads the server's figures, and opens nothing else

    def lives(self, now: float) -> bool:
        """Whether it still opens anything."""
        return not self.expires or now < self.expires

    def opens(self, repository: str, job: str = "") -> bool:
        """Whether it opens a job; without one, the list of a repository's jobs."""
        return not self.metrics and self.repository in ("", repository) and self.job in ("", job)

    @property
    def reads_figures(self) -> bool:
        """Whether it reads the figures of the whole server: a scraper's, and that of a person who sees all of it."""
        return self.metrics or bool(self.person and not self.repository and not self.job)

    @property
    def does(self) -> str:
        """What its holder does here, in a few words."""
        return "reads the figures" if self.metrics else DOES[self.may]


class _Book(Struct, frozen=True):
    passes: tuple[Pass, ...] = ()


class PeopleBook:
    """The file, as it is now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: tuple[tuple[int, ...], tuple[Pass, ...]] = ((), ())  # what the file was like, and what it said

    def passes(self) -> tuple[Pass, ...]:
        """Every pass that still opens something."""
        now = time.time()
        return tuple(one for one in self._read() if one.lives(now))

    def holders(self, token: str) -> list[Pass]:
        """The passes of a token: one at most, as long as the file is as it was written."""
        digest = _digest(token).encode()
        known = ((one, one.digest.encode("utf-8", "replace")) for one in self.passes())
        return [one for one, its in known if secrets.compare_digest(its, digest)]

    def find(self, token: str) -> Pass | None:
        """The pass of a token that opens pages."""
        return next((one for one in self.holders(token) if not one.metrics), None)

    def get(self, name: str) -> Pass | None:
        """The pass of an id that opens pages."""
        return next((one for one in self.passes() if one.id == name and not one.metrics), None)

    def of_person(self, person: str, repository: str, job: str) -> Pass | None:
        """A person's pass that opens a job."""
        return next((one for one in self.passes() if one.person == person and one.opens(repository, job)), None)

    def add(
        self,
        person: str,
        may: May,
        *,
        seconds: float = 0.0,
        repository: str = "",
        job: str = "",
        metrics: bool = False,
    ) -> tuple[Pass, str]:
        """Make a pass; returns it with its token, which is kept nowhere. A person's earlier passes are replaced."""
        token, now = secrets.token_urlsafe(TOKEN_BYTES), time.time()
        made = Pass(
            id=secrets.token_hex(6),
            person=person,
            may=may,
            digest=_digest(token),
            made=now,
            expires=now + seconds if seconds else 0.0,
            repository=repository,
            job=job,
            metrics=metrics,
        )
        self._change(lambda passes: _with(passes, made))
        return made, token

    def remove(self, wanted: Callable[[Pass], bool]) -> list[Pass]:
        """Take passes back; returns them."""
        gone = [one for one in self.passes() if wanted(one)]
        if gone:
            self._change(lambda passes: [one for one in passes if one not in gone])
        return gone

    # ---- the file ----------------------------------------------------------------------------

    def _change(self, change: Callable[[list[Pass]], list[Pass]]) -> None:
        try:
            with self._locked():
                now = time.time()
                passes = change([one for one in self._read() if one.lives(now)])
                draft = self._path.with_name(f".{self._path.name}.{os.getpid()}.{secrets.token_hex(4)}")
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                with os.fdopen(os.open(draft, flags, 0o600), "w", encoding="utf-8") as file:
                    file.write(encode(_Book(tuple(passes))))
                    file.flush()
                    os.fsync(file.fileno())
                draft.replace(self._path)
        except OSError as error:
            raise BookTrouble(f"{self._path}: {error.strerror}; the people of the page are kept there") from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(self._path.with_name(f"{self._path.name}.lock"), flags, 0o600)
        try:
            patient_lock.lock(handle)
            yield
        finally:
            os.close(handle)

    def _read(self) -> tuple[Pass, ...]:
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise BookTrouble(f"{self._path}: {error.strerror}; the people of the page are kept there") from error
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(file.fileno())
            if found.st_uid != os.geteuid() or found.st_mode & 0o077:
                raise BookTrouble(f"{self._path} has to be yours alone; see to its owner and mode (0600)")
            seen = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)
            known, passes = self._known
            if seen != known:
                try:
                    passes = decode(file.read(LARGEST).decode("utf-8", "replace"), _Book).passes
                except Unreadable as error:
                    raise BookTrouble(f"{self._path} is damaged ({error}); delete it, and add people anew") from error
                self._known = (seen, passes)  # in one go: several threads read it
        return passes


def _with(passes: list[Pass], made: Pass) -> list[Pass]:
    kept = [one for one in passes if not made.person or one.person != made.person]
    if len(kept) >= MOST_PASSES:
        raise TooManyPasses(f"{MOST_PASSES} links are given out already; take some back (parley people links)")
    return [*kept, made]


def book_in(state: Path) -> PeopleBook:
    """The people of a user, in the folder for what Parley keeps."""
    return PeopleBook(state / FILE)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
