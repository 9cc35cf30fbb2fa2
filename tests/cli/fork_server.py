"""Runs `parley` commands in forks of one process that has imported all of Parley already.

A command is a process of its own, with its own streams, folder, environment and exit code, as when a shell starts it;
only the half second in which it would import its modules is saved. `tests/cli/test_start_up.py` tests that half second.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import parley_cfa
from parley.cli import MODULES

COMMAND = Path(sys.executable).with_name("parley")
# Python reads these only while it starts: a command for which they are others needs a Python of its own.
AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_")
PATIENCE_SECONDS = 60.0
REQUEST_BYTES = 1024 * 1024
STREAMS = 3


class ForkServer:
    """The process that forks, and what asks it to; one for each process that runs tests."""

    def __init__(self, env: Mapping[str, str], inside: Sequence[str] = ()) -> None:
        self.env = _read_at_start(env)
        self._turn = threading.Lock()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [*inside, sys.executable, __file__, str(theirs.fileno())],
                env=env, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
            )  # fmt: skip
        atexit.register(self.stop)

    def stop(self) -> None:
        """It ends when there is nothing more to hear."""
        self._socket.close()
        self._process.wait()

    def run(
        self, words: Sequence[str], folder: Path | str, env: Mapping[str, str], seconds: float
    ) -> subprocess.CompletedProcess[str] | None:
        """Run a command, and wait for it and for all that has its output open; None if it needs a Python of its own."""
        if _read_at_start(env) != self.env or not self._turn.acquire(blocking=False):
            return None
        try:
            return self._run(list(words), folder, env, seconds)
        finally:
            self._turn.release()

    def _run(
        self, words: list[str], folder: Path | str, env: Mapping[str, str], seconds: float
    ) -> subprocess.CompletedProcess[str]:
        (out, their_out), (err, their_err) = os.pipe(), os.pipe()
        empty = os.open(os.devnull, os.O_RDONLY)
        mask = os.umask(0)
        os.umask(mask)
        asked = {"words": words, "folder": str(folder), "env": dict(env), "umask": mask}
        try:
            message = json.dumps(asked).encode()
            assert len(message) < REQUEST_BYTES, "the command is too long for one message"
            socket.send_fds(self._socket, [len(message).to_bytes(4)], [empty, their_out, their_err])
            self._socket.sendall(message)
        finally:
            for number in (empty, their_out, their_err):
                os.close(number)
        child = int.from_bytes(_receive(self._socket, 4))
        try:
            told = _read_all((out, err), time.monotonic() + seconds)
        except TimeoutError as error:
            os.kill(child, signal.SIGKILL)
            raise subprocess.TimeoutExpired(words, seconds) from error
        finally:
            status = int.from_bytes(_receive(self._socket, 4))
            os.close(out)
            os.close(err)
        return subprocess.CompletedProcess(words, os.waitstatus_to_exitcode(status), *told)


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(AT_START)}


def _read_all(numbers: Sequence[int], deadline: float) -> list[str]:
    """Read streams until all that could write to them has closed them."""
    found: dict[int, list[bytes]] = {number: [] for number in numbers}
    with selectors.DefaultSelector() as selector:
        for number in numbers:
            selector.register(number, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(deadline - time.monotonic())
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                if part := os.read(key.fd, 65536):
                    found[key.fd].append(part)
                else:
                    selector.unregister(key.fd)
    # as subprocess reads text: with the ends of lines that Python knows
    return [b"".join(parts).decode().replace("\r\n", "\n").replace("\r", "\n") for parts in found.values()]


def _receive(source: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        part = source.recv(length - len(found))
        if not part:
            raise EOFError
        found += part
    return found


@cache
def _server(inside: tuple[str, ...]) -> ForkServer:
    """A server of this process, started when the first command needs it."""
    return ForkServer(users_environment(), inside)


def users_environment() -> dict[str, str]:
    """As users have it: nothing of the session that runs the tests, but modules that are compiled already."""
    return {
        name: value
        for name, value in os.environ.items()
        if name == "PYTHONPYCACHEPREFIX" or not name.startswith(("PARLEY_", "PY"))
    }


def run_parley(
    words: Sequence[str],
    folder: Path | str,
    env: Mapping[str, str] | None = None,
    seconds: float = PATIENCE_SECONDS,
    inside: tuple[str, ...] = (),
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end: in a fork, unless its environment or an option of `subprocess` needs a new Python.

    `inside`: what goes before its words, where it is to run on another machine's network.
    """
    env = users_environment() if env is None else env
    done = None if options else _server(inside).run(words, folder, env, seconds)
    return done or subprocess.run(
        [*inside, str(COMMAND), *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=seconds,
        check=False,
        **options,
    )


# ---- in the process that forks ------------------------------------------------------------------------


def serve(source: socket.socket) -> dict[str, Any]:
    """Fork for each command that is asked for; returns in the fork, with the command."""
    while True:
        head, streams, _, _ = socket.recv_fds(source, 4, STREAMS)
        if not head:  # the tests have ended
            os._exit(0)
        asked = json.loads(_receive(source, int.from_bytes(head)))
        child = os.fork()
        if not child:
            source.close()
            for wanted, number in enumerate(streams):
                os.dup2(number, wanted)
                os.close(number)
            return dict(asked)
        for number in streams:
            os.close(number)
        with contextlib.suppress(OSError):  # the tests may have been killed
            source.sendall(child.to_bytes(4))
            source.sendall((os.waitpid(child, 0)[1]).to_bytes(4))


def begin(asked: Mapping[str, Any]) -> None:
    """Be as a process that a shell has just started."""
    os.umask(asked["umask"])
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    os.chdir(asked["folder"])
    sys.argv[:] = [str(COMMAND), *asked["words"]]
    sys.path[0] = str(COMMAND.parent)
    # A stream knows from its start whether it can be positioned, which a pipe can't.
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream: io.TextIOWrapper = getattr(sys, name)
        mode: Literal["r", "w"] = "w" if number else "r"
        again = open(number, mode, encoding=stream.encoding, errors=stream.errors, closefd=False)  # noqa: SIM115 - stays open
        again.reconfigure(line_buffering=stream.line_buffering)
        setattr(sys, name, again)


if __name__ == "__main__":
    for module in MODULES.values():
        import_module(f"parley.cli.{module}")
    gc.collect()
    gc.freeze()
    begin(serve(socket.socket(fileno=int(sys.argv[1]))))
    sys.exit(parley_cfa.main())
