"""The process of a scripted agent: plays one turn by a playbook's rules, with no model and no key.

One JSON object a line on standard input and output, effects carried out in the workspace. A process is
started for every turn, so this module imports only what starts fast: no YAML, no dataclasses, no subprocess.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import stat
import sys
import time
import warnings
from collections.abc import Callable, Generator, Mapping
from typing import Any

from parley.runners.scripted.scripted_agent import (
    Call,
    CallReply,
    Crash,
    Effect,
    OrderError,
    PlayEnding,
    Shell,
    Sleep,
    _field,
    play,
    read_order,
)

PROGRESS_LIMIT = 2000  # characters; the runner cuts a longer line and marks the cut
EXIT_OK = 0
EXIT_ENGINE_GONE = 1
EXIT_BAD_ORDER = 2
_STDIN = 0
_STDOUT = 1
_STDERR = 2
_CHUNK = 65536
_POLL_SECONDS = 0.05
_LONGEST_SELECT = 3600.0
_COMMAND_SHOWN = 200


class EngineGoneError(Exception):
    """The engine has closed its end of the pipes: this turn is not wanted any more."""


class _Wire:
    """The lines to and from the engine, whose end is noticed even while a command runs or the agent sleeps."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._calls = 0

    def fill(self) -> None:
        """Read what has come in."""
        try:
            chunk = os.read(_STDIN, _CHUNK)
        except OSError as error:
            raise EngineGoneError from error
        if not chunk:
            raise EngineGoneError
        self._pending += chunk

    def line(self) -> bytes:
        """The next line, without its end."""
        seen = 0
        while (end := self._pending.find(b"\n", seen)) < 0:
            seen = len(self._pending)
            self.fill()
        line = bytes(self._pending[:end])
        del self._pending[: end + 1]
        return line

    def send(self, data: Mapping[str, Any]) -> None:
        """Send one line, whole."""
        rest = memoryview(json.dumps(data).encode() + b"\n")
        while rest:
            try:
                rest = rest[os.write(_STDOUT, rest) :]
            except OSError as error:
                raise EngineGoneError from error

    def progress(self, text: str, tool: str = "") -> None:
        """Report what the agent does; with a tool, what its use is about that begins."""
        self.send({"line": "progress", "text": text[: PROGRESS_LIMIT + 1], **({"tool": tool} if tool else {})})

    def over(self, tool: str, text: str = "", result: str = "", *, failed: bool = False) -> None:
        """Report that a tool's use is over, and what came of it; with a text, also what it was about."""
        came = {"result": result[: PROGRESS_LIMIT + 1], "failed": failed}
        self.send({"line": "progress", "text": text[: PROGRESS_LIMIT + 1], "tool": tool, "over": True, **came})

    def pause(self, seconds: float) -> None:
        """Sleep, but not longer than the engine lives."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([_STDIN], [], [], min(left, _LONGEST_SELECT))[0]:
                self.fill()

    def call(self, token: str, effect: Call) -> CallReply:
        """Call a tool and wait for its reply."""
        self._calls += 1
        self.send({"line": "call", "number": self._calls, "token": token, "tool": effect.tool, "args": effect.args})
        return self._reply()

    def refusal(self, path: str) -> str:
        """Ask why a path of the workspace must not be written; empty if it may."""
        self._calls += 1
        self.send({"line": "may", "number": self._calls, "path": path})
        reply = self._reply()
        return "" if reply.ok else reply.text or "the answer is no"

    def _reply(self) -> CallReply:
        """The reply to the last call; replies to earlier ones are skipped."""
        while True:
            data = _json(self.line(), "reply")
            if not isinstance(data, dict):
                raise OrderError("a reply is not a JSON object")
            if data.get("reply") == self._calls:
                found = data.get("data")
                return CallReply(
                    ok=data.get("ok") is True,
                    text=str(data.get("text", "")),
                    data=found if isinstance(found, dict) else {},
                )


def _json(line: bytes, what: str) -> object:
    try:
        data: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise OrderError(f"the {what} is not one line of JSON ({error})") from error
    return data


def _done(text: str = "") -> CallReply:
    return CallReply(ok=True, text=text, data={})


def _refused(text: str) -> CallReply:
    return CallReply(ok=False, text=text, data={})


def _write(workspace: str, path: str, text: str, refusal: Callable[[str], str]) -> None:
    """Write a file of the workspace whole or not at all; OSError or ValueError if it can't be done, or must not."""
    if "\0" in path:
        raise ValueError("the path contains NUL")
    if os.path.isabs(path):  # noqa: PTH117 - pathlib is slow to import, here and below
        raise ValueError("it is not relative to the workspace")
    # Links are resolved first, and judged by their target: one that stays inside is fine.
    target = os.path.realpath(os.path.join(workspace, path))  # noqa: PTH118 - pathlib starts slowly
    if not target.startswith(workspace.rstrip("/") + "/"):
        raise ValueError("it leads outside the workspace")
    if why := refusal(target[len(workspace.rstrip("/")) + 1 :]):
        raise ValueError(why)
    content = text.encode()
    folder = os.path.dirname(target)  # noqa: PTH120 - pathlib starts slowly
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - pathlib starts slowly
    temporary = f"{folder}/.parley-write-{os.getpid()}"
    try:
        with open(temporary, "xb") as file:  # noqa: PTH123 - pathlib starts slowly
            file.write(content)
        if os.path.exists(target):  # noqa: PTH110 - pathlib starts slowly
            os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))  # noqa: PTH101,PTH116 - a script stays one
        os.replace(temporary, target)  # noqa: PTH105 - pathlib starts slowly
    except OSError:
        if os.path.exists(temporary):  # noqa: PTH110 - pathlib starts slowly
            os.unlink(temporary)  # noqa: PTH108 - pathlib starts slowly
        raise


def _start(command: str, output: int) -> int:
    """Start a command in this process's directory, group and session; its id."""
    return os.posix_spawn(
        "/bin/sh",
        ["/bin/sh", "-c", command],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, _STDIN, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, output, _STDOUT),
            (os.POSIX_SPAWN_DUP2, output, _STDERR),
        ],
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores these two, a command expects them
    )


def _watch(pid: int, reading: int, wire: _Wire) -> tuple[int, bytes]:
    """Wait for a command's exit code, keeping the tail of its output.

    The command ends when its shell does: a background process may hold the output open for ever.
    """
    tail = bytearray()
    done = status = 0
    while not done:
        done, status = os.waitpid(pid, os.WNOHANG)
        ready = select.select([reading, _STDIN], [], [], 0 if done else _POLL_SECONDS)[0]
        if _STDIN in ready:
            wire.fill()
        if reading in ready:
            chunk = os.read(reading, _CHUNK)
            if not chunk and not done:
                done, status = os.waitpid(pid, 0)
            tail += chunk
            del tail[: -PROGRESS_LIMIT * 4]  # four bytes a character at most
    return os.waitstatus_to_exitcode(status), bytes(tail)


def _shell(command: str, wire: _Wire) -> tuple[int, str]:
    """Run a command to its end; returns its exit code, and that in words with the tail of its output."""
    reading, writing = os.pipe()
    try:
        try:
            pid = _start(command, writing)
        finally:
            os.close(writing)
        try:
            code, tail = _watch(pid, reading, wire)
        except EngineGoneError:
            os.kill(pid, signal.SIGKILL)
            raise
    finally:
        os.close(reading)
    head = f"exit {code}" if code >= 0 else f"killed by signal {-code}"
    said = tail.decode(errors="replace").rstrip()
    room = PROGRESS_LIMIT - len(head) - 1
    shown = said if len(said) <= room else f"…{said[1 - room :]}"  # every cut is marked
    return code, f"{head}\n{shown}" if said else head


def _crash(number: int) -> None:
    """Die by a signal, and leave no core in the workspace."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    # Reached where the signal doesn't end a process, or for the first process of a container.
    os._exit(128 + number)


def _carry_out(effect: Effect, wire: _Wire, token: str, workspace: str, *, asks: bool) -> CallReply:
    """Carry out one effect."""
    if isinstance(effect, Call):
        return wire.call(token, effect)
    if isinstance(effect, Sleep):
        wire.send({"line": "progress", "text": f"sleep {effect.seconds}", "pause": True})
        wire.pause(effect.seconds)
        return _done()
    if isinstance(effect, Crash):
        wire.progress(f"crash {effect.signal}")
        wire.send({"line": "crash", "handle": effect.handle})
        _crash(effect.signal)
        return _done()
    tool = "shell" if isinstance(effect, Shell) else "write"
    subject = _beginning(effect.command) if isinstance(effect, Shell) else effect.path
    try:
        if isinstance(effect, Shell):
            wire.progress(subject, tool)
            code, said = _shell(effect.command, wire)
            wire.over(tool, result=said, failed=code != 0)
        else:
            _write(workspace, effect.path, effect.text, wire.refusal if asks else lambda path: "")
            wire.over(tool, subject)  # it takes no time: one line tells all
    except (OSError, ValueError) as error:
        why = str(error.strerror if isinstance(error, OSError) else error)
        wire.over(tool, subject, why, failed=True)
        return _refused(f"{tool} {subject}: {why}")
    return _done()


def _beginning(command: str) -> str:
    """A command, cut with a mark where it is too long."""
    return command if len(command) <= _COMMAND_SHOWN else f"{command[: _COMMAND_SHOWN - 1]}…"


def _enter(data: object) -> str:
    """Go to the order's workspace; its real path."""
    workspace: str = _field(data, "workspace", (str,)) if isinstance(data, dict) else ""
    try:
        os.chdir(workspace)
    except (OSError, ValueError) as error:
        raise OrderError(f"the order's workspace {workspace!r} can't be entered ({error})") from error
    return os.path.realpath(os.curdir)


def _serve(wire: _Wire) -> None:
    """Take one order, play it, report its end."""
    try:
        line = wire.line()
    except EngineGoneError as error:
        raise OrderError("no order came in: one line of JSON is expected on standard input") from error
    data = _json(line, "order")
    order = read_order(data)
    token: str = _field(data, "token", (str,), "") if isinstance(data, dict) else ""
    asks: bool = _field(data, "asks", (bool,), False) if isinstance(data, dict) else True
    workspace = _enter(data)
    ending = _conduct(play(order), lambda effect: _carry_out(effect, wire, token, workspace, asks=asks))
    wire.send({"line": "end", "report": ending._asdict() | {"usage": {"turns": 1, **ending.usage}}})


def _conduct(turn: Generator[Effect, CallReply, PlayEnding], carry_out: Callable[[Effect], CallReply]) -> PlayEnding:
    """Run a turn to its end."""
    try:
        effect = next(turn)
        while True:
            effect = turn.send(carry_out(effect))
    except StopIteration as stop:
        ending: PlayEnding = stop.value
        return ending


def main() -> int:
    """Play one turn over standard input and output; the process's exit code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # an interrupted turn ends without a traceback
    warnings.simplefilter("ignore")  # a pattern that a later Python reads differently still works
    try:
        _serve(_Wire())
    except EngineGoneError:
        return EXIT_ENGINE_GONE
    except OrderError as error:
        os.write(_STDERR, f"scripted agent: {error}".replace("\n", " ").encode(errors="replace") + b"\n")
        return EXIT_BAD_ORDER
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
