"""The runner of scripted agents: each turn is a process behind the boundary that speaks JSON lines."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, cast

from msgspec.structs import replace

from parley.base.text import cut, last_bytes, lenient
from parley.ports.turns import Called, Confined, Ended, Judge, Order, Progress, Sign, unjudged
from parley.runners.scripted.agent_lines import (
    CallLine,
    CrashLine,
    EndLine,
    MalformedLine,
    MayLine,
    ProgressLine,
    read_line,
    read_report,
)
from parley.runners.turn_thread import Tell, ThreadRunner, TurnThread
from parley.sandbox import UNCACHED, Boundary, Cage, Caged

LINE_LIMIT = 4 << 20  # bytes of a line
CHUNK = 1 << 16
STDERR_TAIL = 2000
UNANSWERED = 64  # open calls at once; a scripted agent waits for each reply
PATIENCE_SECONDS = 5.0  # how long an agent may leave a reply unread


class ScriptedRunner(ThreadRunner["ScriptedTurn"]):
    """Runs `agent_process` for each turn. `judge` says who owns a path."""

    def __init__(self, boundary: Boundary, judge: Judge = unjudged) -> None:
        super().__init__()
        self._boundary = boundary
        self._judge = judge

    def _turn_of(self, order: Order, tell: Tell) -> ScriptedTurn:
        return ScriptedTurn(self._boundary, self._judge, order, tell)


class ScriptedTurn(TurnThread):
    """Starts the agent's process, reads its lines, and answers its calls."""

    def __init__(self, boundary: Boundary, judge: Judge, order: Order, tell: Tell) -> None:
        super().__init__(order, tell)
        self._boundary, self._judge = boundary, judge
        self._caged: Caged | None = None
        self._broken = ""  # why the turn is lost
        self._remembered = ""
        self._unanswered = 0  # calls that wait for a reply

    def reply(self, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Answer a call."""
        self._unanswered -= 1
        self._write({"reply": number, "ok": ok, "text": text, "data": dict(data)})

    # ---- in its own thread -----------------------------------------------------------------------

    def _carry_out(self, ended: Ended) -> Ended:
        """Start the agent in its cage, and listen to it until it ends."""
        self._caged = caged = self._boundary.launch(self._cage())
        try:
            return self._live(caged, ended)
        finally:
            caged.kill()
            for stream in (caged.process.stdin, caged.process.stdout, caged.process.stderr):
                with contextlib.suppress(OSError):
                    cast("IO[bytes]", stream).close()

    def _cage(self) -> Cage:
        order, home = self.order, Path(self.order.home)
        home.parent.mkdir(exist_ok=True)  # and nothing above: a job's deleted folder is not made again
        home.mkdir(exist_ok=True)
        self._boundary.hand_over(home)
        return Cage(
            order.site,
            home,
            self._boundary.python("parley.runners.scripted.agent_process"),
            {"PATH": self._boundary.search_path(), "LANG": "C.UTF-8", **UNCACHED},
            mark=f"{order.job}/{order.turn}",
        )

    def _live(self, caged: Caged, ended: Ended) -> Ended:
        summary = caged.verdict.summary()
        self._write(_wire(self.order))
        end, said = self._listen(caged)
        if end is None:
            if not self._broken and not self._cancelled:
                with contextlib.suppress(subprocess.TimeoutExpired):  # its output has ended: wait for its exit code
                    caged.process.wait(1.0)
            status = caged.kill()
            lost = caged.exceeded or self._broken or _fault(status, said)
            return replace(ended, fault=lost, boundary=summary, remembered=self._remembered)
        try:
            return _ending(self.order, end, summary)
        except MalformedLine:
            return replace(ended, fault="its end-of-turn message is malformed", boundary=summary)

    def _listen(self, caged: Caged) -> tuple[EndLine | None, bytes]:
        """Read lines until the turn's end or the process's; returns the end, and the last of standard error."""
        out, err = cast("IO[bytes]", caged.process.stdout), cast("IO[bytes]", caged.process.stderr)
        pending, said = bytearray(), bytearray()
        open_ = [out.fileno(), err.fileno()]
        while out.fileno() in open_ and not self._broken and not self._cancelled:
            for ready in select.select([*open_, self._woken.fileno()], [], [], PATIENCE_SECONDS)[0]:
                if ready == self._woken.fileno():
                    break
                chunk = os.read(ready, CHUNK)
                if not chunk:
                    open_.remove(ready)
                elif ready == err.fileno():
                    said = bytearray(last_bytes(bytes(said + chunk), STDERR_TAIL))
                else:
                    pending += chunk
                    *lines, pending = pending.split(b"\n")
                    for line in lines:
                        end = self._line(bytes(line))
                        if end is not None:
                            return end, bytes(said)
                    if len(pending) > LINE_LIMIT:
                        self._broken = "it wrote a line that was too long"
        return None, bytes(said)

    def _line(self, line: bytes) -> EndLine | None:
        """Take one line; the end of the turn, if it tells that."""
        order = self.order
        try:
            said = read_line(line, LINE_LIMIT + CHUNK)
        except MalformedLine:
            self._broken = f"it wrote a malformed line: {cut(lenient(line), 80)!r}"
            return None
        match said:
            case CallLine():
                self._call(said)
            case ProgressLine(tool=tool):
                progress = Progress(
                    job=order.job,
                    turn=order.turn,
                    text=said.text,
                    tool=tool,
                    use=tool,
                    over=said.over,
                    result=said.result,
                    failed=said.failed,
                    sign=Sign.PAUSE if said.pause else Sign.WORK,
                )
                self._tell(progress)
            case MayLine():
                refusal = self._refusal(said.path)
                self._write({"reply": said.number, "ok": not refusal, "text": refusal, "data": {}})
            case CrashLine():
                self._remembered = json.dumps(said.handle, sort_keys=True)
            case EndLine():
                return said
        return None

    def _call(self, said: CallLine) -> None:
        self._unanswered += 1
        if self._unanswered > UNANSWERED:
            self._broken = f"it made {UNANSWERED} calls without waiting for replies"
            return
        called = Called(
            job=self.order.job,
            turn=self.order.turn,
            token=said.token,
            number=said.number,
            tool=said.tool,
            arguments=said.args,
        )
        self._tell(called)

    def _refusal(self, path: str) -> str:
        """Why a path of the workspace must not be written."""
        try:
            return self._judge(self.order.site, path)
        except Exception as error:  # noqa: BLE001 - fail closed: a path that can't be judged must not be written
            return f"{path}: the check failed, so the answer is no ({type(error).__name__})"

    def _write(self, document: Mapping[str, Any]) -> None:
        """Write a whole line. An agent that does not read loses its turn; it can't block the engine."""
        rest = memoryview(json.dumps(document, ensure_ascii=False).encode() + b"\n")
        stdin = cast("IO[bytes]", cast("Caged", self._caged).process.stdin)
        try:
            os.set_blocking(stdin.fileno(), False)
            while rest:
                if not select.select([], [stdin], [], PATIENCE_SECONDS)[1]:
                    self._broken = "it does not read its replies"
                    return
                with contextlib.suppress(BlockingIOError):
                    rest = rest[os.write(stdin.fileno(), rest) :]
        except (OSError, ValueError):
            return  # it has died, or was ended: its end is reported when its output ends


def _wire(order: Order) -> dict[str, Any]:
    return {
        "turn": order.turn,
        "token": order.token,
        "agent": order.agent,
        "rules": json.loads(order.rules) if order.rules else [],
        "message": order.message,
        "kind": order.kind,
        "asked": order.asked,
        "state": order.state,
        "visit": order.visit,
        "handle": json.loads(order.handle) if order.handle else {},
        "may_ask": order.may_ask,
        "workspace": order.site.workspace,
        "asks": bool(order.site.worker or order.site.claims),
        "limits": {"seconds": order.time_limit_seconds},
    }


def _ending(order: Order, end: EndLine, boundary: Confined) -> Ended:
    """The end that a turn reports; MalformedLine if it reports none."""
    report = read_report(end)
    usage = (report.usage or {}).items()
    return Ended(
        job=order.job,
        turn=order.turn,
        epoch=order.epoch,
        text=report.text,
        handle=json.dumps(report.handle or {}, sort_keys=True),
        usage={key: float(value) for key, value in usage if isinstance(value, int | float)},
        fault="",
        refusals=tuple(report.refusals or ()),
        boundary=boundary,
    )


def _fault(status: int, stderr: bytes) -> str:
    said = lenient(stderr).strip().splitlines()
    why = f": {said[-1]}" if said else ""
    number = -status if status < 0 else status - 128
    if 0 < number < 65:  # noqa: PLR2004 - bubblewrap's exit codes for signals
        return f"it was killed by signal {number}{why}"
    return f"it exited with {status} before its turn had ended{why}"
