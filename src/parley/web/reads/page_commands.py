"""Commands that pages run for what they say: an audit, an export, a dry run. None of them outlives the server."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress

from parley.views.repository_context import CommandEnd, RepositoryContext


class PageCommands:
    """The commands that run now. Pages run in several threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._over = False

    def run(self, context: RepositoryContext, words: Sequence[str], seconds: float) -> CommandEnd | None:
        """Run `parley` with these words to its end. None: it took longer than so many seconds, and was ended."""
        process = self.start(context, words)
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            _kill(process)
            process.communicate()
            return None
        finally:
            self.forget(process)
        return CommandEnd(process.returncode, out, err)

    def start(self, context: RepositoryContext, words: Sequence[str]) -> subprocess.Popen[str]:
        """Start `parley` with these words; `forget` it when it has ended. InterruptedError if the server ends."""
        with self._lock:
            if self._over:
                raise InterruptedError("the server is ending")
            process = context.command(words)
            self._running.add(process)
            return process

    def forget(self, process: subprocess.Popen[str]) -> None:
        """A command has ended."""
        with self._lock:
            self._running.discard(process)

    def end(self) -> None:
        """The server ends: what waits for a command waits no longer."""
        with self._lock:
            self._over = True
            for process in self._running:
                _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    """End a command with all that it has started: it has a session of its own."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
