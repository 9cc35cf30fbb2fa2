"""Starting processes from a thread that lives: a cage dies when the thread that started it does."""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Callable


class Spawner:
    """Such a thread."""

    def __init__(self) -> None:
        self._wanted: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="parley-spawner", daemon=True).start()

    def _work(self) -> None:
        while (task := self._wanted.get()) is not None:
            task()

    def start(self, command: list[str], environment: dict[str, str], files: tuple[int, ...]) -> subprocess.Popen[bytes]:
        """Start a process."""
        answer: queue.SimpleQueue[subprocess.Popen[bytes] | OSError] = queue.SimpleQueue()

        def task() -> None:
            try:
                answer.put(popen(command, environment, files))
            except OSError as error:
                answer.put(error)

        self._wanted.put(task)
        given = answer.get()
        if isinstance(given, OSError):
            raise given
        return given

    def close(self) -> None:
        """Let the thread end, and with it whatever it started."""
        self._wanted.put(None)


def popen(
    command: list[str], environment: dict[str, str], files: tuple[int, ...], folder: str = "/"
) -> subprocess.Popen[bytes]:
    """A process in a session of its own, spoken to by pipes."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        cwd=folder,
        env=environment,
        pass_fds=files,
        start_new_session=True,
    )
