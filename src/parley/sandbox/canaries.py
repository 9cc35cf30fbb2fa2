"""What lies outside and no cage may reach. It belongs to the user that agents run as: only the cage can protect it."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

PREFIX = "parley-canary-"
COMMAND = ("/bin/sh", "-c", "read line")  # of the process outside that an attempt may try to end
FOLDER_PATH_BYTES = 50  # at most, of the folder for temporary files
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")


class Canary:
    """A folder, sockets, ports and a process, for as long as the boundary lives."""

    def __init__(self, uid: int | None) -> None:
        _sweep()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=_folder_for_canaries()))
        self._uid = uid
        self._lock = threading.Lock()
        self._datagrams: set[bytes] = set()
        for name in (".git", ".git/hooks", ".git/refs", ".git/refs/heads"):
            (self.folder / name).mkdir()
        for name in ("secret", ".git/config", ".git/HEAD"):
            (self.folder / name).write_text(secrets.token_hex(8), encoding="ascii")
        self._listeners = [
            _listen(socket.AF_UNIX, f"{self.folder}/socket"),
            _listen(socket.AF_UNIX, f"\0parley-canary-{self.folder}"),
            _listen(socket.AF_INET, ("127.0.0.1", 0)),
        ]
        if uid is not None:
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, uid, uid)
        self._mailbox = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._mailbox.bind(("127.0.0.1", 0))
        self._mailbox.setblocking(False)
        self._process = self._start_process()
        self._before = self._look()
        self._finalizer = weakref.finalize(self, _clear, self.folder, [*self._listeners, self._mailbox])

    def _start_process(self) -> subprocess.Popen[bytes]:
        # it ends when its input does, so that it never outlives this process
        who = {"user": self._uid, "group": self._uid, "extra_groups": []} if self._uid is not None else {}
        return subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd="/", env={}, **who)  # type: ignore[call-overload,no-any-return] # the keywords are as Popen has them

    def words(self) -> dict[str, Any]:
        """What the attempts need to know of it."""
        return {
            "folder": str(self.folder),
            "process": self._process.pid,
            "tcp": self._listeners[2].getsockname()[1],
            "udp": self._mailbox.getsockname()[1],
            "namespaces": {kind: _namespace(kind) for kind in NAMESPACES if _namespace(kind)},
        }

    def _look(self) -> list[Any]:
        names = sorted(str(path) for path in self.folder.rglob("*"))
        found = [(name, os.lstat(name)) for name in names]
        return [(name, status.st_ctime_ns, status.st_size) for name, status in found]

    def judge(self, token: str, workspace: str) -> dict[str, str]:
        """What attempts have done out here, by their names. Their own reports do not count."""
        found = {}
        with self._lock:
            self._drain()
            if token.encode() in self._datagrams:
                found["udp"] = "a datagram arrived"
            if self._process.poll() is not None:
                found["signal_outside"] = "a process outside was ended"
                self._process = self._start_process()
            try:
                now = self._look()
            except OSError:
                now = []
            if now != self._before:
                found["change_outside"] = "files outside were changed"
                self._before = now
        beside = Path(workspace).parent / f".probe-{token}"
        if os.path.lexists(beside):
            found["write_beside"] = f"wrote {beside}"
            with contextlib.suppress(OSError):
                beside.unlink()
        return found

    def _drain(self) -> None:
        for listener in self._listeners:
            with contextlib.suppress(BlockingIOError):
                while True:
                    listener.accept()[0].close()
        with contextlib.suppress(BlockingIOError):
            while True:
                self._datagrams.add(self._mailbox.recv(64))

    def close(self) -> None:
        """Remove all of it."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._finalizer()


def _folder_for_canaries() -> str:
    """A folder for temporary files whose path leaves room for the name of a socket: 107 bytes in all."""
    for place in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"):  # noqa: S108 - mkdtemp makes the folder
        if len(os.fsencode(place)) <= FOLDER_PATH_BYTES and os.access(place, os.W_OK | os.X_OK):
            return place
    return tempfile.gettempdir()


def _sweep() -> None:
    """Remove what a Parley that was killed has left."""
    for folder in Path(_folder_for_canaries()).glob(f"{PREFIX}*-*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(folder, ignore_errors=True)


def _listen(family: int, address: Any) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen(64)
    listener.setblocking(False)
    return listener


def _namespace(kind: str) -> str:
    try:
        return os.readlink(f"/proc/self/ns/{kind}")  # noqa: PTH115 - no path: a name in brackets
    except OSError:
        return ""


def _clear(folder: Path, sockets: list[socket.socket]) -> None:
    for one in sockets:
        one.close()
    shutil.rmtree(folder, ignore_errors=True)
