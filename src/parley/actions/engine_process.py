"""Keeps the process alive that runs a repository's jobs for a server, and ends it with the server."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds before it is started again; twice as long each time
LONG_LIFE_SECONDS = 60.0  # after which a death counts as the first one
LOOK_SECONDS = 1.0  # between two looks whether it may start
LARGEST_LOG = 1 << 20  # bytes; a longer one is begun anew when the process is started
TAIL_BYTES = 4096
_LOG = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class EngineProcess:
    """A child process that is started again when it dies. Its standard input closes when this process ends.

    All methods may be called from any thread. `may_start` says whether it is needed: where another server runs the
    same jobs, it waits until that one is gone.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        log: Path,
        may_start: Callable[[], bool] = lambda: True,
    ) -> None:
        self._words = list(words)
        self._env = dict(env)
        self._cwd = cwd
        self._log = log
        self._may_start = may_start
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._waits = False
        self._failure = ""  # why the process could not even be started
        self._keeper: threading.Thread | None = None

    def start(self) -> None:
        """Start the process, and keep it alive from now on. More than once does no harm."""
        with self._lock:
            if self._keeper is None and not self._stopping.is_set():
                self._keeper = threading.Thread(target=self._keep, name="parley-engine-process", daemon=True)
                self._keeper.start()

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        process = self._process
        return process is not None and process.poll() is None

    @property
    def waits(self) -> bool:
        """Whether it is not needed now, as another server runs the same jobs."""
        return self._waits

    @property
    def pid(self) -> int:
        """The process's id; 0 where it does not run."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else 0

    @property
    def last_line(self) -> str:
        """The last thing that the process said: where it is dead, usually why."""
        return self._failure or _last_line(self._log)

    def stop(self, seconds: float) -> None:
        """End the process: it gets so many seconds to end its agents, then it is killed with its group."""
        self._stopping.set()
        with self._lock:  # from here on none is started
            process, keeper = self._process, self._keeper
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if keeper is not None:
            keeper.join()

    # ---- the thread that keeps it alive ------------------------------------------------------------

    def _keep(self) -> None:
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            self._waits = not self._may_start()
            if self._waits:
                self._stopping.wait(LOOK_SECONDS)
                continue
            begun = time.monotonic()
            process = self._begin()
            if process is not None:
                process.wait()
                if process.stdin is not None:
                    process.stdin.close()
            if time.monotonic() - begun > LONG_LIFE_SECONDS:
                pause = FIRST_PAUSE
            self._stopping.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _begin(self) -> subprocess.Popen[bytes] | None:
        """Start the process, unless it is to be stopped or can't be started."""
        with self._lock:
            if self._stopping.is_set():
                return None
            try:
                log = self._open_log()
                try:
                    self._process = subprocess.Popen(
                        self._words,
                        stdin=subprocess.PIPE,  # closes with this process, however that ends
                        stdout=log,
                        stderr=log,
                        start_new_session=True,  # Ctrl-C goes to the server alone
                        cwd=self._cwd,
                        env=self._env,
                    )
                finally:
                    os.close(log)
            except OSError as error:
                self._failure = f"the engine can't be started: {error.filename or self._log}: {error.strerror}"
                return None
            self._failure = ""
            return self._process

    def _open_log(self) -> int:
        log = os.open(self._log, _LOG, 0o600)
        if os.fstat(log).st_size > LARGEST_LOG:
            os.ftruncate(log, 0)
        return log


def _last_line(log: Path) -> str:
    """The last line of a log that is not empty."""
    try:
        handle = os.open(log, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        size = os.fstat(handle).st_size
        said = os.pread(handle, TAIL_BYTES, max(0, size - TAIL_BYTES)).decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    finally:
        os.close(handle)
    return next((line.strip() for line in reversed(said) if line.strip()), "")
