"""The signed list of what the user has allowed: place, digest of the content, and what it asked for.

It lies in the user's own state folder: one JSON document a line, each sealed with a key that lies beside it. Both files
are the user's alone, and the seal includes the key file's inode: a copy of both, as a clone could bring it, allows
nothing. No agent sees the key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from parley.cli import CommandError
from parley.cli.common import users_folder

KEY_BYTES = 32
LARGEST = 16 << 20  # bytes of the list


class AllowedEntry(NamedTuple):
    """One thing that the user has allowed."""

    place: str  # the real path of the folder, or of the user's own file
    file: str  # which of its files asked for it
    digest: str
    values: Mapping[str, str]  # of each setting that was asked for, by its name


def allowed_at(place: str) -> list[AllowedEntry]:
    """What the user has allowed at a place, the newest last. An unsealed line allows nothing."""
    path = _folder() / "trusted.jsonl"
    content, key = _read(path, LARGEST), _bound(path.with_name("trust.key"))
    if content is None or key is None:
        return []
    found: list[AllowedEntry] = []
    for line in content.splitlines():
        entry = _entry(line, key)
        if entry is None or entry.get("place") != place:
            continue
        if entry.get("revoked") is True:
            found.clear()
        else:
            found.append(
                AllowedEntry(place, entry["file"], entry["digest"], entry["values"])
            )  # sealed, so it is well-formed
    return found


def allow(entry: AllowedEntry) -> None:
    """Add what the user has allowed."""
    _append(entry._asdict())


def revoke(place: str) -> None:
    """Take back all that was allowed at a place."""
    _append({"place": place, "revoked": True})


def prepare() -> None:
    """Make the key if there is none, before any agent has delivered files, so that none can deliver a key."""
    with suppress(OSError, CommandError):
        _key()


# ---- the files ------------------------------------------------------------------------------------


def _folder() -> Path:
    base = users_folder("XDG_STATE_HOME", "~/.local/state")
    if base is None:
        raise CommandError("this account has no home to keep what you allow in; name a folder with XDG_STATE_HOME")
    return base / "parley"


def _entry(line: bytes, key: bytes) -> dict[str, Any] | None:
    with suppress(ValueError, RecursionError, TypeError, KeyError):
        sealed = json.loads(line)
        said = sealed["said"]
        if isinstance(said, str) and hmac.compare_digest(str(sealed["seal"]), _seal(said, key)):
            entry = json.loads(said)
            return entry if isinstance(entry, dict) else None
    return None


def _seal(said: str, key: bytes) -> str:
    return hmac.new(key, said.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _append(entry: Mapping[str, Any]) -> None:
    path = _folder() / "trusted.jsonl"
    try:
        key = _key()
        _read(path, LARGEST)  # a file that is not the user's own is refused, not written to
        said = json.dumps(entry)
        line = json.dumps({"said": said, "seal": _seal(said, key)})
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as book:
            book.write(f"\n{line}\n".encode())  # on a line of its own, even after one that a crash cut short
            book.flush()
            os.fsync(handle)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}; make the folder writable, then allow it again") from error


def _key() -> bytes:
    """The key; made where there is none."""
    path = _folder() / "trust.key"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".trust.key.{os.getpid()}")
    if not os.path.lexists(path):
        with suppress(FileNotFoundError):
            draft.unlink()
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)  # atomically, and never over another process's
        draft.unlink()
    found = _bound(path)
    if found is None:
        raise CommandError(f"{path} holds no key; remove it, and allow again what you had allowed with `parley trust`")
    return found


def _bound(path: Path) -> bytes | None:
    """The key, bound to its file's inode; None where the file holds none."""
    found = _read(path, KEY_BYTES)
    return None if found is None or len(found) != KEY_BYTES else b"%s %d" % (found, path.lstat().st_ino)


def _read(path: Path, limit: int) -> bytes | None:
    """The content of the user's own file; None if there is none. One that other users could write is refused."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandError(
            f"{path}: {error.strerror}; remove it, then allow again what you want: parley trust"
        ) from error
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise CommandError(
                f"{path} is not a file of yours alone; remove it, then allow again what you want: parley trust"
            )
        return file.read(limit)
