"""Runs one acceptance command in a cage of its own, with a time limit, and judges it by its exit code.

Nothing that the command writes can forge its result: that is the exit code of its cage. What it leaves running ends
with the cage, and its home is deleted, so that no command can prepare the next one's success there.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import socket
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, cast

from parley.base.text import last_of
from parley.ports.turns import Confined, Site
from parley.sandbox import UNCACHED, Boundary, Cage, Caged
from parley.workspaces.files.safe_delete import discard

TAIL = 4000  # characters of a command's output that are kept: its last ones
DRAIN_LIMIT = 16 << 20  # bytes that may still be in its pipes
_KILLED = -9
_CHUNK = 1 << 16
_LONGEST = 4  # bytes of a character
_SIGNALS = range(129, 193)  # exit codes of shells and bubblewrap for signals
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command that was run."""

    command: str
    code: int  # its exit code; negative: the signal that ended it
    output: str = ""
    seconds: float = 0.0
    fault: str = ""  # why it could not be run, or was ended
    boundary: Confined | None = None

    def document(self, room: int) -> dict[str, Any]:
        """The proof, with at most so many characters of output."""
        told = {name: value for name, value in asdict(self).items() if name != "boundary"}
        return told | {"output": last_of(self.output, room)}


class CommandTrial:
    """Runs commands in a site. `woken` becomes readable when the turn is cancelled."""

    def __init__(self, boundary: Boundary, site: Site, homes: Path, mark: str, woken: socket.socket) -> None:
        self._boundary, self._site, self._homes, self._mark, self._woken = boundary, site, homes, mark, woken

    def run(self, command: str, seconds: float) -> CommandResult:
        """Run a command; a BoundaryError where there is no boundary."""
        self._homes.mkdir(parents=True, exist_ok=True)
        home = Path(tempfile.mkdtemp(prefix="proof-", dir=self._homes))
        try:
            self._boundary.hand_over(home)
            return self._run(command, seconds, home)
        finally:
            discard(home)

    def _run(self, command: str, seconds: float, home: Path) -> CommandResult:
        environment = {"PATH": self._boundary.search_path(), "LANG": "C.UTF-8", **UNCACHED}
        cage = Cage(self._site, home, ("/bin/sh", "-c", command), environment, mark=self._mark)
        caged = self._boundary.launch(cage)
        begun = time.monotonic()
        tail = bytearray()
        try:
            ended = self._attend(caged, tail, begun + seconds)
        finally:
            took = time.monotonic() - begun
            status = caged.kill()
            _drain(caged, tail)
        code = 128 - status if status in _SIGNALS else status
        fault = caged.exceeded or ("" if ended else f"it was ended: it took longer than {seconds:g} s")
        code = code if ended and not caged.exceeded else _KILLED
        return CommandResult(
            command=command,
            code=code,
            output=_text(tail),
            seconds=round(took, 3),
            fault=fault,
            boundary=caged.verdict.summary(),
        )

    def _attend(self, caged: Caged, tail: bytearray, deadline: float) -> bool:
        """Read output until the command ends; whether it ended by itself."""
        process = caged.process
        cast("IO[bytes]", process.stdin).close()
        handle = os.pidfd_open(process.pid)
        try:
            with selectors.DefaultSelector() as selector:
                for one in (self._woken, handle, *_pipes(caged)):
                    selector.register(one, selectors.EVENT_READ)
                while (left := deadline - time.monotonic()) > 0:
                    ready = {key.fileobj for key, _ in selector.select(left)}
                    for pipe in _pipes(caged):
                        if pipe in ready and not _hear(pipe, tail):
                            selector.unregister(pipe)
                    if handle in ready:
                        return True
                    if self._woken in ready:
                        return False
            return process.poll() is not None
        finally:
            os.close(handle)


def _pipes(caged: Caged) -> tuple[IO[bytes], IO[bytes]]:
    return cast("IO[bytes]", caged.process.stdout), cast("IO[bytes]", caged.process.stderr)


def _hear(pipe: IO[bytes], tail: bytearray) -> bool:
    """Read some output; False at its end."""
    data = os.read(pipe.fileno(), _CHUNK)
    tail += data
    del tail[: -_LONGEST * TAIL]
    return bool(data)


def _drain(caged: Caged, tail: bytearray) -> None:
    """All writers have ended: read what is still in the pipes."""
    for pipe in _pipes(caged):
        os.set_blocking(pipe.fileno(), False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(DRAIN_LIMIT // _CHUNK):
                if not _hear(pipe, tail):
                    break
        pipe.close()


def _text(said: bytes | bytearray) -> str:
    """The end of a command's output, as text that can be shown and kept anywhere."""
    plain = _ESCAPES.sub("", said.decode("utf-8", "replace").replace("\r\n", "\n"))
    return last_of(_CONTROLS.sub("\ufffd", plain.replace("\r", "\n")), TAIL)
