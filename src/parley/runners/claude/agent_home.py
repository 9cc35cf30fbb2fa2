"""Access to an instance's home from outside, where the agent may have put links, pipes or other files."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from parley.base.text import lenient, read_json

PROJECTS = (".claude", "projects")
INTERRUPTED = "interrupted.json"
INTERRUPTED_LIMIT = 4000  # characters of a message that are kept
INTERRUPTED_MOST = 3
SCRATCH = "scratch.md"
FOLDERS = 1000  # the CLI makes one
TAIL = 4 << 20  # bytes; no line that is searched for in a session is longer
_NAME = re.compile(rb'"uuid":"([0-9a-f-]{36})"')
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class SessionEnd(NamedTuple):
    """The id of a session's last whole entry, empty if it has none, and the length up to it; 0: no entry."""

    last: str = ""
    size: int = 0


class InterruptedMessage(NamedTuple):
    """The message of a turn that was interrupted."""

    message_id: str
    text: str


class AgentHome:
    """The runner's files in a home: only plain files, never through a link."""

    def __init__(self, path: str) -> None:
        self.path = path

    # ---- the session -----------------------------------------------------------------------------

    def mark(self, session: str, last: str) -> int | None:
        """The length of the session's file up to the entry `last`; None if that is not written yet."""
        with self._session(session, os.O_RDONLY) as file:
            if file is None:
                return None
            end = os.fstat(file).st_size
            begin = max(0, end - TAIL)
            data = os.pread(file, end - begin, begin)
        found = data.rfind(f'"uuid":"{last}"'.encode()) if last else len(data) - 1
        newline = data.find(b"\n", found) if last else data.rfind(b"\n")
        return begin + newline + 1 if found >= 0 and newline >= 0 else None

    def end_of(self, session: str) -> SessionEnd:
        """Where a session ends now."""
        with self._session(session, os.O_RDONLY) as file:
            if file is None:
                return SessionEnd()
            end = os.fstat(file).st_size
            begin = max(0, end - TAIL)
            whole, newline, _ = os.pread(file, end - begin, begin).rpartition(b"\n")
        named = _NAME.search(whole.rpartition(b"\n")[2])
        return SessionEnd(named[1].decode() if named else "", begin + len(whole) + 1 if newline else 0)

    def put_back(self, session: str, last: str, size: int) -> bool:
        """Truncate the session after the entry `last`; whether that could be done."""
        with self._session(session, os.O_RDWR) as file:
            if file is None or os.fstat(file).st_size < size or size <= 0:
                return False
            begin = max(0, size - TAIL)
            line = os.pread(file, size - begin, begin).rstrip(b"\n").rpartition(b"\n")[2]
            if last and f'"uuid":"{last}"'.encode() not in line:
                return False
            os.ftruncate(file, size)
        return True

    @contextlib.contextmanager
    def _session(self, session: str, flags: int) -> Iterator[int | None]:
        """The session's file, wherever the CLI keeps it for this workspace."""
        with contextlib.ExitStack() as stack:
            try:
                folder = _opened(stack, self.path, _FOLDER)
                for name in PROJECTS:
                    folder = _opened(stack, name, _FOLDER, folder)
                names = sorted(entry.name for entry in islice(os.scandir(folder), FOLDERS))
                found = (_in(stack, folder, name, session, flags) for name in names)
                file = next((one for one in found if one is not None), None)
            except OSError:
                file = None
            yield file

    # ---- small files -----------------------------------------------------------------------------

    def scratch(self, limit: int) -> str:
        """The beginning of the agent's scratch file."""
        return lenient(self._read(SCRATCH, limit))

    def note_interrupted(self, handle: dict[str, Any], message: InterruptedMessage) -> None:
        """Record the message of an interrupted turn: it is in no session that outlives the process."""
        messages = [*self.interrupted(handle), message._replace(text=message.text[:INTERRUPTED_LIMIT])]
        text = json.dumps({"handle": handle, "messages": [one._asdict() for one in messages[-INTERRUPTED_MOST:]]})
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            folder = _opened(stack, self.path, _FOLDER)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(INTERRUPTED, dir_fd=folder)
            file = os.open(INTERRUPTED, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o600, dir_fd=folder)
            with os.fdopen(file, "w", encoding="utf-8") as stream:
                stream.write(text)

    def interrupted(self, handle: dict[str, Any]) -> list[InterruptedMessage]:
        """The messages of the turns that were interrupted since this handle was committed."""
        try:
            most = 8 * INTERRUPTED_LIMIT * INTERRUPTED_MOST
            document = read_json(self._read(INTERRUPTED, most), most, mend=True)
            messages = list(document["messages"]) if document["handle"] == handle else []
            return [
                InterruptedMessage(str(one["message_id"]), str(one["text"])[:INTERRUPTED_LIMIT])
                for one in messages[-INTERRUPTED_MOST:]
            ]
        except (ValueError, KeyError, TypeError):
            return []

    def _read(self, name: str, limit: int) -> bytes:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            folder = _opened(stack, self.path, _FOLDER)
            file = _opened(stack, name, os.O_RDONLY | _FILE, folder)
            if stat.S_ISREG(os.fstat(file).st_mode):
                return os.read(file, limit)
        return b""


def _opened(stack: contextlib.ExitStack, name: str, flags: int, folder: int | None = None) -> int:
    file = os.open(name, flags, dir_fd=folder)
    stack.callback(os.close, file)
    return file


def _in(stack: contextlib.ExitStack, folder: int, name: str, session: str, flags: int) -> int | None:
    try:
        project = _opened(stack, name, _FOLDER, folder)
        file = _opened(stack, f"{session}.jsonl", flags | _FILE, project)
    except OSError:
        return None
    return file if stat.S_ISREG(os.fstat(file).st_mode) else None
