"""Starting processes from a thread that lives: a cage dies when the thread that started it does."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections.abc import Callable
from typing import IO, Any, cast

from parley.adapters.boundary.bubblewrap import Program
from parley.adapters.boundary.stage import Stage


class Spawner:
    """Such a thread. Where Parley is root it has a stage, and starts processes as an ordinary user."""

    def __init__(self, uid: int | None) -> None:
        self._uid = uid
        self._stage: Stage | None = None
        self._reached: dict[str, str] = {}  # programs that were copied onto the stage
        self._wanted: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="parley-spawner", daemon=True).start()

    def _work(self) -> None:
        while (task := self._wanted.get()) is not None:
            task()

    def _do(self, work: Callable[[], Any]) -> Any:
        """Have something done by the thread; what came of it."""
        answer: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()

        def task() -> None:
            try:
                answer.put((work(), None))
            except Exception as error:  # noqa: BLE001 - it is raised where it was asked for
                answer.put((None, error))

        self._wanted.put(task)
        result, error = answer.get()
        if error is not None:
            raise error
        return result

    def show(self, sources: list[str]) -> dict[str, str]:
        """How each source can be reached by whoever a process is started as."""
        if self._uid is None:
            return {source: source for source in sources}
        shown: dict[str, str] = self._do(lambda: self._own_stage().show(sources))
        return shown

    def reach(self, program: Program) -> str:
        """The path by which the user that a process is started as can run a program."""
        if self._uid is None or not program.parts:
            return program.path
        if program.path not in self._reached:
            self._reached[program.path] = self._do(lambda: self._own_stage().copy(program.path, program.parts))
        return self._reached[program.path]

    def _own_stage(self) -> Stage:
        if self._stage is None:
            self._stage = Stage()
        return self._stage

    def hide(self, shown: dict[str, str]) -> None:
        """End what was shown."""
        if self._stage is not None and shown:
            stage = self._stage
            self._wanted.put(lambda: stage.clear(shown))

    def start(self, command: list[str], environment: dict[str, str], files: tuple[int, ...]) -> subprocess.Popen[bytes]:
        """Start a process."""
        process: subprocess.Popen[bytes] = self._do(lambda: popen(command, environment, files, uid=self._uid))
        return process

    def close(self) -> None:
        """Let the thread end, and with it whatever it started."""
        self._wanted.put(None)


def popen(
    command: list[str],
    environment: dict[str, str],
    files: tuple[int, ...],
    folder: str = "/",
    uid: int | None = None,
) -> subprocess.Popen[bytes]:
    """A process in a session of its own, spoken to by pipes; as another user where one is named."""
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
            # a pipe has an owner too, who alone may open /dev/stdout and its like
            os.fchown(cast("IO[bytes]", stream).fileno(), uid, uid)
    return process
