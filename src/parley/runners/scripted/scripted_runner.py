"""The runner of scripted agents: each turn is a process behind the boundary that speaks JSON lines."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from msgspec.structs import replace

from parley.base.text import cut, last_bytes, lenient
from parley.ports.turns import BoundaryError, Called, Confined, Ended, Judge, Order, Progress, TurnEvent, unjudged
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
from parley.sandbox import UNCACHED, Boundary, Cage, Caged

LINE_LIMIT = 4 << 20  # bytes of a line
CHUNK = 1 << 16
STDERR_TAIL = 2000
UNANSWERED = 64  # open calls at once; a scripted agent waits for each reply
PATIENCE_SECONDS = 5.0  # how long an agent may leave a reply unread

Tell = Callable[[TurnEvent], None]


@dataclass(slots=True)
class _Turn:
    order: Order
    tell: Tell
    thread: threading.Thread | None = None
    caged: Caged | None = None
    cancelled: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    broken: str = ""
    remembered: str = ""
    unanswered: int = 0  # calls that wait for a reply


class ScriptedRunner:
    """Runs `agent_process` for each turn. `judge` says who owns a path."""

    def __init__(self, boundary: Boundary, judge: Judge = unjudged) -> None:
        self._boundary = boundary
        self._judge = judge
        self._turns: dict[tuple[str, str], _Turn] = {}

    def start(self, order: Order, tell: Tell) -> None:
        """Begin a turn, in a thread of its own: a boundary takes a moment to be verified."""
        turn = _Turn(order, tell)
        turn.thread = threading.Thread(target=self._run, args=(turn,), name=f"turn {order.turn}", daemon=True)
        self._turns[order.job, order.turn] = turn
        turn.thread.start()

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Answer a call."""
        found = self._turns.get((job, turn))
        if found is not None and found.caged is not None:
            found.unanswered -= 1
            _write(found, {"reply": number, "ok": ok, "text": text, "data": dict(data)})

    def cancel(self, job: str, turn: str) -> None:
        """End a turn; its thread ends its processes."""
        found = self._turns.pop((job, turn), None)
        if found is None:
            return
        with found.lock:
            found.cancelled = True
            if found.caged is not None:
                found.caged.kill()
        cast("threading.Thread", found.thread).join()

    def wrap_up(self, job: str, turn: str) -> bool:
        """A scripted agent can't be asked: it plays what it is given."""
        return False

    def stop(self, job: str, turn: str) -> bool:
        """There is no session to keep: the turn is cancelled."""
        return False

    def rest(self, job: str) -> None:
        """Nothing is kept ready."""

    def close(self) -> None:
        """End everything."""
        for job, turn in list(self._turns):
            self.cancel(job, turn)

    # ---- in the turn's thread --------------------------------------------------------------------

    def _run(self, turn: _Turn) -> None:
        """Carry the turn out, end its processes, and tell how it ended."""
        try:
            ended = self._conduct(turn)
        except Exception as error:  # noqa: BLE001 - a thread that ends silently would leave its turn open
            order = turn.order
            fault = f"it can't be run: {type(error).__name__}: {error}"
            ended = Ended(order.job, order.turn, order.epoch, fault=fault)
        if turn.caged is not None:
            turn.caged.kill()
            process = turn.caged.process
            for stream in (process.stdin, process.stdout, process.stderr):
                with contextlib.suppress(OSError):
                    cast("IO[bytes]", stream).close()
        self._tell(turn, ended)
        self._turns.pop((turn.order.job, turn.order.turn), None)

    def _tell(self, turn: _Turn, event: TurnEvent) -> None:
        with turn.lock:
            if not turn.cancelled:
                turn.tell(event)

    def _conduct(self, turn: _Turn) -> Ended:
        """Start the agent in its cage, and listen to it until it ends."""
        order = turn.order
        fault = Ended(order.job, order.turn, order.epoch)
        home = Path(order.home)
        home.parent.mkdir(exist_ok=True)  # and nothing above: a job's deleted folder is not made again
        home.mkdir(exist_ok=True)
        self._boundary.hand_over(home)
        cage = Cage(
            order.site,
            home,
            self._boundary.python("parley.runners.scripted.agent_process"),
            {"PATH": self._boundary.search_path(), "LANG": "C.UTF-8", **UNCACHED},
            mark=f"{order.job}/{order.turn}",
        )
        try:
            caged = self._boundary.launch(cage)
        except BoundaryError as error:
            return replace(fault, fault=str(error), hard=True, unconfined=True)
        summary = caged.verdict.summary()
        with turn.lock:
            turn.caged = caged
            if turn.cancelled:
                return fault
        _write(turn, _wire(order))
        end, said = self._listen(turn, caged)
        if end is None:
            if not turn.broken:
                with contextlib.suppress(subprocess.TimeoutExpired):  # its output has ended: wait for its exit code
                    caged.process.wait(1.0)
            status = caged.kill()
            lost = _lost(fault, caged.exceeded or turn.broken or _fault(status, said), summary)
            return replace(lost, remembered=turn.remembered)
        try:
            return _ending(order, end, summary)
        except MalformedLine:
            return _lost(fault, "its end-of-turn message is malformed", summary)

    def _listen(self, turn: _Turn, caged: Caged) -> tuple[EndLine | None, bytes]:
        """Read lines until the turn's end or the process's; returns the end, and the last of standard error."""
        out, err = cast("IO[bytes]", caged.process.stdout), cast("IO[bytes]", caged.process.stderr)
        pending, said = bytearray(), bytearray()
        open_ = [out.fileno(), err.fileno()]
        while out.fileno() in open_ and not turn.broken:
            for ready in select.select(open_, [], [], PATIENCE_SECONDS)[0]:
                chunk = os.read(ready, CHUNK)
                if not chunk:
                    open_.remove(ready)
                elif ready == err.fileno():
                    said = bytearray(last_bytes(bytes(said + chunk), STDERR_TAIL))
                else:
                    pending += chunk
                    *lines, pending = pending.split(b"\n")
                    for line in lines:
                        end = self._line(turn, bytes(line))
                        if end is not None:
                            return end, bytes(said)
                    if len(pending) > LINE_LIMIT:
                        turn.broken = "it wrote a line that was too long"
        return None, bytes(said)

    def _line(self, turn: _Turn, line: bytes) -> EndLine | None:
        """Take one line; the end of the turn, if it tells that."""
        order = turn.order
        try:
            said = read_line(line, LINE_LIMIT + CHUNK)
        except MalformedLine:
            turn.broken = f"it wrote a malformed line: {cut(lenient(line), 80)!r}"
            return None
        match said:
            case CallLine():
                self._call(turn, said)
            case ProgressLine(tool=tool):
                progress = Progress(
                    job=order.job,
                    turn=order.turn,
                    text=said.text,
                    tool=tool,
                    use=tool,
                    over=said.over,
                    failed=said.failed,
                )
                self._tell(turn, progress)
            case MayLine():
                refusal = self._refusal(order, said.path)
                _write(turn, {"reply": said.number, "ok": not refusal, "text": refusal, "data": {}})
            case CrashLine():
                turn.remembered = json.dumps(said.handle, sort_keys=True)
            case EndLine():
                return said
        return None

    def _call(self, turn: _Turn, said: CallLine) -> None:
        turn.unanswered += 1
        if turn.unanswered > UNANSWERED:
            turn.broken = f"it made {UNANSWERED} calls without waiting for replies"
            return
        called = Called(
            job=turn.order.job,
            turn=turn.order.turn,
            token=said.token,
            number=said.number,
            tool=said.tool,
            arguments=said.args,
        )
        self._tell(turn, called)

    def _refusal(self, order: Order, path: str) -> str:
        """Why a path of the workspace must not be written."""
        try:
            return self._judge(order.site, path)
        except Exception as error:  # noqa: BLE001 - fail closed: a path that can't be judged must not be written
            return f"{path}: the check failed, so the answer is no ({type(error).__name__})"


def _write(turn: _Turn, document: Mapping[str, Any]) -> None:
    """Write a whole line. An agent that does not read loses its turn; it can't block the engine."""
    rest = memoryview(json.dumps(document, ensure_ascii=False).encode() + b"\n")
    stdin = cast("IO[bytes]", cast("Caged", turn.caged).process.stdin)
    try:
        os.set_blocking(stdin.fileno(), False)
        while rest:
            if not select.select([], [stdin], [], PATIENCE_SECONDS)[1]:
                turn.broken = "it does not read its replies"
                return
            with contextlib.suppress(BlockingIOError):
                rest = rest[os.write(stdin.fileno(), rest) :]
    except (BrokenPipeError, ValueError):
        return  # it has died, or was ended: its end is reported when its output ends


def _wire(order: Order) -> dict[str, Any]:
    return {
        "turn": order.turn,
        "token": order.token,
        "agent": order.agent,
        "rules": json.loads(order.rules) if order.rules else [],
        "message": order.message,
        "state": order.state,
        "visit": order.visit,
        "handle": json.loads(order.handle) if order.handle else {},
        "may_ask": order.may_ask,
        "workspace": order.site.workspace,
        "asks": bool(order.site.worker or order.site.claims),
        "limits": {"seconds": order.time_limit_seconds},
    }


def _lost(ended: Ended, fault: str, boundary: Confined) -> Ended:
    return replace(ended, fault=fault, boundary=boundary)


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
