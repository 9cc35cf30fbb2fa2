"""The thread that starts cages: a cage dies when the thread that started it ends, so one thread lives for them all."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections.abc import Callable
from typing import IO, Any, cast

from parley.sandbox.bubblewrap import Program
from parley.sandbox.root_mounts import RootMounts


class Spawner:
    """That thread. Where Parley is root, it has mounts of its own and starts processes as an ordinary user."""

    def __init__(self, uid: int | None) -> None:
        self._uid = uid
        self._mounts: RootMounts | None = None
        self._reached: dict[str, str] = {}  # programs that were copied to where that user can run them
        self._wanted: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="parley-spawner", daemon=True).start()

    def _work(self) -> None:
        while (task := self._wanted.get()) is not None:
            task()

    def _do(self, work: Callable[[], Any]) -> Any:
        """Let the thread do something; its result."""
        answer: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()

        def task() -> None:
            try:
                answer.put((work(), None))
            except Exception as error:  # noqa: BLE001 - the thread that asked raises it
                answer.put((None, error))

        self._wanted.put(task)
        result, error = answer.get()
        if error is not None:
            raise error
        return result

    def show(self, sources: list[str]) -> dict[str, str]:
        """The path by which the user that processes run as reaches each source."""
        if self._uid is None:
            return {source: source for source in sources}
        shown: dict[str, str] = self._do(lambda: self._own_mounts().show(sources))
        return shown

    def reach(self, program: Program) -> str:
        """The path by which the user that processes run as can run a program."""
        if self._uid is None or not program.parts:
            return program.path
        if program.path not in self._reached:
            self._reached[program.path] = self._do(lambda: self._own_mounts().copy(program.path, program.parts))
        return self._reached[program.path]

    def _own_mounts(self) -> RootMounts:
        if self._mounts is None:
            self._mounts = RootMounts()
        return self._mounts

    def hide(self, shown: dict[str, str]) -> None:
        """Unmount what was shown."""
        if self._mounts is not None and shown:
            mounts = self._mounts
            self._wanted.put(lambda: mounts.clear(shown))

    def start(self, command: list[str], environment: dict[str, str], files: tuple[int, ...]) -> subprocess.Popen[bytes]:
        """Start a process."""
        process: subprocess.Popen[bytes] = self._do(lambda: popen(command, environment, files, uid=self._uid))
        return process

    def close(self) -> None:
        """End the thread, and with it every process that it started."""
        self._wanted.put(None)


def popen(
    command: list[str],
    environment: dict[str, str],
    files: tuple[int, ...],
    folder: str = "/",
    uid: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, with pipes; as another user where one is given."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        cwd=folder,
        env=environment,
        pass_fds=files,
        start_new_session=True,
        user=uid,
        group=uid,
        extra_groups=None if uid is None else [],
    )
    if uid is not None:
        for stream in (process.stdin, process.stdout, process.stderr):
            # only the owner of a pipe may open /dev/stdout and its like
            os.fchown(cast("IO[bytes]", stream).fileno(), uid, uid)
    return process
