"""The one way to a bus: its folder and files are looked at, then its key, then its schema; only then its rows.

A folder named `.parley` may come with a clone, an archive or a link, and all in it be another user's: a database whose
triggers answer questions, locks that are links, repositories with hooks. So nothing below a home is read before the key
in the user's state folder says that this user made this very file here; and no row before each table, index and trigger
is compared with Parley's own. Light, as the keys are.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from parley.bus import key_files, patient_lock
from parley.bus.key_files import Key, KeyRefused, sync, user

__all__ = [
    "FILE", "IDENTITY", "MARKER", "META", "Key", "KeyRefused", "admit", "admit_any", "check_identity", "connect",
    "exists", "identify", "is_marker", "is_on_server", "make", "refuse_emptied",
]  # fmt: skip

FILE = "bus.db"
IDENTITY = "bus.id"  # which key is the bus's, told without opening it
META = "identity"  # under this name the bus itself says which key is its

_BESIDE = ("-wal", "-shm", "-journal")
_FILES = (FILE, *(f"{FILE}{end}" for end in _BESIDE), IDENTITY)
_READ = ("locks", "jobs", "bases")  # folders with what jobs go by
_FOLDERS = (*_READ, "reserve")
_DEFENSIVE, _ENABLE_VIEW = 1010, 1015  # as sqlite3.h has them: Python names them since 3.12
_PRIVATE = 0o077  # the rights of the group and of other users
_ADOPT = "take it in with `parley bus adopt`"
_SETTLING_SECONDS = 1.0
_HEAD = b"ref: refs/heads/none\n"
# The git folder that a home has: it makes `git clean -fdx` spare the home, and is no repository.
MARKER = {"objects": None, "refs": None, "HEAD": _HEAD}


# ---- files ---------------------------------------------------------------------------------------


def exists(home: Path) -> bool:
    """Whether there is a bus to open, or to refuse. A home that can't be this user's is refused here."""
    return _look(home) and (os.path.lexists(home / FILE) or is_on_server(home))


def is_on_server(home: Path) -> bool:
    """Whether this user's key of the home's bus says that it is on a server. The home itself is not looked at yet."""
    try:
        identity = _read_identity(home)
    except OSError:
        return False  # there is none, or what is in its place is refused when the home is looked at
    key = key_files.read(identity) if identity else None
    return key is not None and bool(key.server)


def admit(home: Path) -> Key | None:
    """The key of the bus in a home, which is made private; None if there is no bus, and one may be made."""
    try:
        return _admit(home)
    except KeyRefused:
        if not _is_settled(home):
            raise
        return _admit(home)  # another process may have made it meanwhile, and half of it was seen


def _is_settled(home: Path) -> bool:
    """Wait until no process makes a bus here, for a moment; whether that could be seen."""
    deadline = time.monotonic() + _SETTLING_SECONDS
    while time.monotonic() < deadline:
        try:
            with _opened(home) as handle:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return True
        except BlockingIOError:
            time.sleep(_SETTLING_SECONDS / 100)
        except OSError:
            return False
    return False


def _admit(home: Path) -> Key | None:
    if not _look(home):
        return None
    _make_private(home)
    names = [name for name in _FILES if _check_file(home / name)]
    for name in _FOLDERS:
        _check_folder(home / name)
    _check_rest(home)
    identity = _read_identity(home) if IDENTITY in names else ""
    key = key_files.read(identity) if identity else None
    place = os.path.realpath(home)
    if key is not None and key.server:
        if key.home != place:
            raise _moved(home, key)
        return key
    if FILE not in names or _is_unmade(home, names):
        if key is None or key.home != place:
            _refuse_leftovers(home, names)
        return None
    if key is None:
        raise KeyRefused(
            f"{home}: you did not make this bus here: it came with a clone or an archive, or an older Parley made it; "
            f"if it is yours, {_ADOPT}, otherwise delete that folder"
        )
    if key.home != place or key.inode != (home / FILE).lstat().st_ino:
        raise _moved(home, key)
    return key


def admit_any(home: Path) -> None:
    """As `admit`, for a bus that is to be adopted: whatever its key is, its folder and files must be the user's."""
    if not exists(home):
        raise KeyRefused(f"{home}: there is no bus here to take in; name the repository that has one with --repo")
    _make_private(home)
    for name in _FILES:
        _check_file(home / name)
    for name in _FOLDERS:
        _check_folder(home / name)
    _check_rest(home)
    if os.path.lexists(home / ".git") and not is_marker(home / ".git"):
        raise KeyRefused(
            f"{home / '.git'}: it is a repository, and git and editors obey what is set in it: another hand has been "
            "here; delete it if it is not yours, then try again"
        )


def make(home: Path) -> Key:
    """Make an empty bus and its key, unless there is one. A crash in between leaves what the next call starts anew.

    The file comes first, since the key names it; then the key, then the file that says which key it is. Only then does
    SQLite write anything.
    """
    with _alone(home):
        key = _admit(home)
        if key is not None:
            return key
        for end in ("", *_BESIDE):
            (home / f"{FILE}{end}").unlink(missing_ok=True)
        # SQLite gives its other files the mode of this one.
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(home / FILE, flags, 0o600)
        inode = os.fstat(handle).st_ino
        os.close(handle)
        key = key_files.make(os.path.realpath(home), inode)
        identify(home, key)
        return key


def identify(home: Path, key: Key) -> None:
    """Write which key is the bus's, whole or not at all."""
    draft = home / f"{IDENTITY}.{os.getpid()}"
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(f"{key.id}\n".encode("ascii"))
        file.flush()
        os.fsync(file.fileno())
    draft.rename(home / IDENTITY)
    sync(home)


def _look(home: Path) -> bool:
    """Whether there is a home; one that is not this user's own folder is refused."""
    try:
        found = home.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    if stat.S_ISLNK(found.st_mode):
        raise KeyRefused(f"{home}: a home can't be a link: delete it, or name where it leads with PARLEY_HOME")
    if not stat.S_ISDIR(found.st_mode):
        raise KeyRefused(f"{home}: this is no folder; move it away, or name another home with PARLEY_HOME")
    _refuse_owner(home, found)
    return True


def _refuse_owner(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise KeyRefused(
            f"{path} belongs to {user(found.st_uid)}, and you are {user(os.geteuid())}; "
            "work as that user, or name a home of your own with PARLEY_HOME"
        )


def _make_private(home: Path) -> None:
    """Keep other users out of the home, before anything in it is looked at."""
    found = home.lstat()
    if found.st_mode & _PRIVATE and stat.S_ISDIR(found.st_mode):
        home.chmod(stat.S_IMODE(found.st_mode) & 0o700)


def _check_file(path: Path) -> bool:
    """Whether a file of the bus is there; what is in its place and no file of the user's alone is refused.

    It is not opened for that: to close it would end the locks that SQLite holds on it in this process.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(found.st_mode):
        what = "a link" if stat.S_ISLNK(found.st_mode) else "no ordinary file"
        raise KeyRefused(f"{path}: this is {what}, and a bus is never read through one; delete it if it is not yours")
    _refuse_owner(path, found)
    if found.st_nlink > 1:
        why = "this file has another name elsewhere, by which it could be changed"
        raise KeyRefused(f"{path}: {why}; put a copy in its place, then {_ADOPT}")
    if found.st_mode & _PRIVATE:
        path.chmod(stat.S_IMODE(found.st_mode) & 0o600)
    return True


def _check_folder(path: Path) -> bool:
    """Whether a folder of the home is there; a link or a file in its place is refused."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        raise KeyRefused(f"{path}: this has to be a folder, and no link to one; delete it if it is not yours")
    _refuse_owner(path, found)
    return True


def _check_rest(home: Path) -> None:
    """Refuse a link or a pipe of whatever name: what Parley comes to keep in a home lies nowhere else."""
    with os.scandir(home) as entries:
        for entry in entries:
            if entry.is_symlink() or not (entry.is_file() or entry.is_dir()):
                what = "a link" if entry.is_symlink() else "neither a file nor a folder"
                raise KeyRefused(
                    f"{home / entry.name}: this is {what}, and a home has none; delete it if it is not yours"
                )


def _read_identity(home: Path) -> str:
    handle = os.open(home / IDENTITY, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        text = file.read(100).decode("ascii", "replace").strip()
    return text if key_files.ID.fullmatch(text) else ""


def _is_unmade(home: Path, names: list[str]) -> bool:
    """Whether a crash came before the bus had a key: its file is empty, and nothing else of it is there."""
    return names == [FILE] and (home / FILE).lstat().st_size == 0


def _refuse_leftovers(home: Path, names: list[str]) -> None:
    """A new bus is made where nothing lies that its jobs would read: what is there came from elsewhere."""
    there = [name for name in (*names, *_READ) if name != FILE and os.path.lexists(home / name)]
    if os.path.lexists(home / ".git") and not is_marker(home / ".git"):
        there.append(".git")
    if there:
        raise KeyRefused(
            f"{home}: there is no bus of yours, but {', '.join(there)}, which came with a clone or an archive, or was "
            "left of a bus that is gone; delete that folder or move it away, or name another home with PARLEY_HOME"
        )


def is_marker(path: Path) -> bool:
    """Whether a home's git folder is what Parley makes, and nothing that git would obey."""
    try:
        if not stat.S_ISDIR(path.lstat().st_mode):
            return False
        for entry in path.iterdir():
            if entry.name not in MARKER or entry.is_symlink():
                return False
            content = MARKER[entry.name]
            if content is None:
                if not entry.is_dir() or list(entry.iterdir()):
                    return False
            elif not entry.is_file() or entry.read_bytes() != content:
                return False
    except OSError:
        return False
    return True


def _moved(home: Path, key: Key) -> KeyRefused:
    where = f"it was made in {key.home}" if key.home != os.path.realpath(home) else "its file is another than was made"
    return KeyRefused(f"{home}: this bus was moved, copied or restored ({where}); {_ADOPT}, or delete that folder")


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Keep other processes from making the same bus. The folder itself is locked: no file is there yet."""
    with _opened(home) as handle:
        try:
            patient_lock.lock(handle)
        except patient_lock.StillLocked as error:
            raise KeyRefused(f"{home}: {error.strerror}") from error
        yield


@contextmanager
def _opened(home: Path) -> Iterator[int]:
    handle = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


# ---- the database --------------------------------------------------------------------------------


def connect(home: Path, seconds: float, *, shared: bool = False) -> sqlite3.Connection:
    """Open a bus that was admitted, so that nothing in its schema can do anything by itself."""
    path = str(home / FILE)
    for char in "%?#":  # what a URI gives a meaning
        path = path.replace(char, f"%{ord(char):02x}")
    connection = sqlite3.connect(
        f"file:{path}?mode=rw", uri=True, timeout=seconds, isolation_level=None, check_same_thread=not shared
    )
    try:
        if hasattr(connection, "setconfig"):  # since Python 3.12
            connection.setconfig(_DEFENSIVE, True)
            connection.setconfig(_ENABLE_VIEW, False)
        connection.execute("PRAGMA trusted_schema = OFF").close()
        connection.execute("PRAGMA cell_size_check = ON").close()
    except BaseException:
        connection.close()
        raise
    return connection


def refuse_emptied(home: Path) -> None:
    """No schema is made where jobs were: the file has lost them, and a new bus in it would not know of any."""
    jobs = home / "jobs"
    if jobs.is_dir() and any(jobs.iterdir()):
        raise KeyRefused(
            f"{home / FILE}: it is empty, and jobs/ is not: this bus was cut off; put back a copy and {_ADOPT}, "
            "or delete that folder"
        )


def check_identity(connection: sqlite3.Connection, home: Path, key: Key) -> None:
    """See that the bus is the one that the key was made for, and still the file that was looked at."""
    found = connection.execute("SELECT value FROM meta WHERE name = ?", (META,)).fetchone()
    if found is None or found[0] != key.id or (home / FILE).lstat().st_ino != key.inode:
        raise _moved(home, key)
