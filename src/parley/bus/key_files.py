"""The keys of this user's buses: a file each, in the user's own state folder, which nothing in a repository reaches.

A key holds a secret, and says where its bus lies: in a file of a home, or on a PostgreSQL server that the user named. A
bus without a key on this machine is another user's, or came with a clone; one whose key names another place was moved,
copied or restored. Light: `parley ls` starts with it.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import stat
from pathlib import Path
from typing import Any, NamedTuple

VARIABLE = "XDG_STATE_HOME"
FORMAT = 1
SERVER_FORMAT = 2  # of a bus on a server: an earlier Parley must not take its home for one without a bus
ID = re.compile(r"[0-9a-f]{32}")
_LARGEST = 1 << 16
SECRET_BYTES = 32


class KeyRefused(ValueError):
    """What is there can't be used as this user's: the text says why, and what to do."""


class Key(NamedTuple):
    """What this machine knows of a bus of the user's."""

    id: str
    secret: bytes
    home: str  # the real path of its folder
    inode: int  # the file's number; 0: it is on a server
    taken_in: int = 0  # inputs up to this number were on the bus when it was adopted: another key has signed them
    unknown: int = 0  # inputs up to this number were signed with a key that this machine did not have
    server: str = ""  # the name of the PostgreSQL server that the bus is on, in the user's own settings

    def __repr__(self) -> str:
        """Without the secret: no error shows it."""
        return f"Key({self.id!r}, home={self.home!r})"


def folder() -> Path:
    """Where the keys lie."""
    named = Path(os.environ.get(VARIABLE, ""))
    base = named if named.is_absolute() else _users_home() / ".local" / "state"
    if not base.is_absolute():
        raise KeyRefused(
            f"this account has no home folder, and the key of a bus has to lie outside every repository; "
            f"set {VARIABLE} to a folder of yours that lasts"
        )
    return base / "parley" / "buses"


def _users_home() -> Path:
    """The account's home; no absolute path where it has none."""
    named = os.environ.get("HOME")
    if named:
        return Path(named)
    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        return Path()


def make(home: str, inode: int, *, taken_in: int = 0, unknown: int = 0) -> Key:
    """Make the key of a bus, and wait until the disk has it."""
    made = Key(
        id=os.urandom(16).hex(),
        secret=os.urandom(SECRET_BYTES),
        home=home,
        inode=inode,
        taken_in=taken_in,
        unknown=unknown,
    )
    return keep(made)


def like(key: Key, *, inode: int = 0, server: str = "") -> Key:
    """Make the key of a copy of a bus: with the same secret, so that what was signed and sealed stays so."""
    return keep(key._replace(id=os.urandom(16).hex(), inode=inode, server=server))


def keep(key: Key) -> Key:
    """Keep a key on this machine, and wait until the disk has it. One that is kept here already is refused."""
    document = {
        "parley-bus": SERVER_FORMAT if key.server else FORMAT,
        "id": key.id,
        "secret": key.secret.hex(),
        "home": os.fsencode(key.home).hex(),
        "inode": key.inode,
        "taken_in": key.taken_in,
        "unknown": key.unknown,
    }
    if key.server:
        document["server"] = key.server
    place = folder()
    try:
        _prepare(place)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(place / key.id, flags, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(json.dumps(document).encode("ascii"))
            file.flush()
            os.fsync(file.fileno())
        sync(place)
    except OSError as error:
        remedy = f"set {VARIABLE} to a folder of yours that lasts"
        raise KeyRefused(
            f"{place}: {error.strerror}; the key of a bus is kept there: mend that, or {remedy}"
        ) from error
    return key


def read(name: str) -> Key | None:
    """The key of an identity; None if this machine has none."""
    if not ID.fullmatch(name):
        return None
    path = folder() / name
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise KeyRefused(
            f"{path}: {error.strerror}; the key of this bus can't be read: see to its permissions"
        ) from error
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise KeyRefused(
                f"{path}: the key of a bus has to be a file that is yours alone; see to its owner and mode"
            )
        return _key(path, name, file.read(_LARGEST))


def forget(name: str) -> None:
    """Delete a key that no bus was made with."""
    (folder() / name).unlink(missing_ok=True)


def _key(path: Path, name: str, data: bytes) -> Key:
    try:
        found: dict[str, Any] = json.loads(data)
        key = Key(
            id=name,
            secret=bytes.fromhex(found["secret"]),
            home=os.fsdecode(bytes.fromhex(found["home"])),
            inode=found["inode"],
            taken_in=found["taken_in"],
            unknown=found["unknown"],
            server=found.get("server", ""),
        )
        version = SERVER_FORMAT if key.server else FORMAT
        same = (found["parley-bus"], found["id"], len(key.secret)) == (version, name, SECRET_BYTES)
        if (
            same
            and type(key.server) is str
            and all(type(each) is int for each in (key.inode, key.taken_in, key.unknown))
        ):
            return key
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass  # told below
    remedy = "put it back from a copy, or delete it and run `parley bus adopt`"
    raise KeyRefused(f"{path}: this key of a bus is damaged, or another Parley's; {remedy}")


def _prepare(place: Path) -> None:
    """Make the folder of keys, private. Root makes none in another user's home: that user could not use it then."""
    there = next(each for each in (place, *place.parents) if each.exists())
    if os.geteuid() == 0 and there.stat().st_uid != 0:
        raise KeyRefused(
            f"{there} belongs to {user(there.stat().st_uid)}, and you are root; "
            f"work as that user, or set {VARIABLE} to a folder of root's"
        )
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid():
            raise KeyRefused(
                f"{place} belongs to {user(found.st_uid)}, and the keys of your buses have to be yours; "
                f"delete it, or set {VARIABLE} to a folder of yours"
            )
        if stat.S_IMODE(found.st_mode) != 0o700:  # noqa: PLR2004 - private
            os.fchmod(handle, 0o700)
    finally:
        os.close(handle)


def user(number: int) -> str:
    """An account, for people."""
    try:
        return f"{pwd.getpwuid(number).pw_name} (user {number})"
    except KeyError:
        return f"user {number}"


def sync(place: Path) -> None:
    """Wait until the disk knows the names in a folder: a file that is synced can still lose its name."""
    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
