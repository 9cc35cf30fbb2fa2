"""Turns as local processes, one each. A turn's processes are all gone before its end is told."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from parley.ports import Called, Ended, Order, Progress, TurnEvent

LINE_LIMIT = 4 << 20  # a longer line is no call of ours
STDERR_TAIL = 2000
MARK = "PARLEY_TURN"
KILL_SECONDS = 10.0


@dataclass(slots=True)
class _Running:
    order: Order
    process: subprocess.Popen[bytes]
    deadline: float
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)
    end: dict[str, Any] | None = None
    broken: str = ""


class Processes:
    """Runs each turn as `python -m parley.adapters.scripted` in a session of its own."""

    def __init__(self, slots: int = 8) -> None:
        self._slots = slots
        self._selector = selectors.DefaultSelector()
        self._running: dict[tuple[str, str], _Running] = {}
        self._waiting: deque[Order] = deque()
        self._events: list[TurnEvent] = []

    def hosts(self) -> tuple[str, ...]:
        """Turns run here."""
        return ("local",)

    def submit(self, order: Order) -> None:
        """Start the turn, or let it wait for a free slot."""
        if (order.job, order.turn) in self._running or order in self._waiting:
            return
        if len(self._running) >= self._slots:
            self._waiting.append(order)
        else:
            self._spawn(order)

    def _spawn(self, order: Order) -> None:
        environment = {key: os.environ[key] for key in ("PATH", "HOME", "LANG", "TMPDIR") if key in os.environ}
        environment[MARK] = f"{order.job}/{order.turn}"
        process = subprocess.Popen(
            [sys.executable, "-P", "-E", "-m", "parley.adapters.scripted"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=order.site.workspace,
            env=environment,
            start_new_session=True,
        )
        running = _Running(order, process, time.monotonic() + order.time_limit_seconds)
        self._running[order.job, order.turn] = running
        for stream in (process.stdout, process.stderr):
            os.set_blocking(cast("IO[bytes]", stream).fileno(), False)
            self._selector.register(cast("IO[bytes]", stream), selectors.EVENT_READ, running)
        self._write(running, _wire(order))

    def _write(self, running: _Running, document: Mapping[str, Any]) -> None:
        data = json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
        stdin = cast("IO[bytes]", running.process.stdin)
        with contextlib.suppress(BrokenPipeError):  # it has died: its end is told when its output ends
            stdin.write(data)
            stdin.flush()

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Answer a call."""
        running = self._running.get((job, turn))
        if running is not None:
            self._write(running, {"reply": number, "ok": ok, "text": text, "data": dict(data)})

    def events(self, timeout_seconds: float) -> list[TurnEvent]:
        """What has happened, in order."""
        if not self._events:
            now = time.monotonic()
            nearest = min((r.deadline for r in self._running.values()), default=now + timeout_seconds)
            for key, _ in self._selector.select(max(0.0, min(timeout_seconds, nearest - now))):
                running = cast("_Running", key.data)
                if (running.order.job, running.order.turn) not in self._running:
                    continue  # it ended while this batch was read
                if key.fileobj is running.process.stdout:
                    self._read(running)
                else:
                    self._overhear(running)
            self._expire()
        events, self._events = self._events, []
        return events

    def _read(self, running: _Running) -> None:
        stream = cast("IO[bytes]", running.process.stdout)
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(stream.fileno(), 1 << 16):
                running.out += chunk
                if len(running.out) > LINE_LIMIT and b"\n" not in running.out:
                    running.broken = "it wrote a line that was too long"
                    break
            else:
                self._drain(running)
                self._finish(running)
                return
        self._drain(running)
        if running.end is not None or running.broken:
            self._finish(running)

    def _drain(self, running: _Running) -> None:
        *lines, rest = running.out.split(b"\n")
        running.out = rest
        for line in lines:
            self._line(running, bytes(line))

    def _line(self, running: _Running, line: bytes) -> None:
        order = running.order
        try:
            said = json.loads(line)
            if "call" in said:
                self._events.append(
                    Called(
                        order.job,
                        order.turn,
                        str(said["token"]),
                        int(said["call"]),
                        str(said["tool"]),
                        dict(said["args"]),
                    )
                )
            elif "progress" in said:
                self._events.append(Progress(order.job, order.turn, str(said["progress"])))
            elif "end" in said:
                running.end = dict(said["end"])
        except (ValueError, KeyError, TypeError, RecursionError):
            running.broken = f"it said something that is no call: {line[:80]!r}"

    def _overhear(self, running: _Running) -> None:
        stream = cast("IO[bytes]", running.process.stderr)
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(stream.fileno(), 1 << 16):
                running.err = (running.err + chunk)[-STDERR_TAIL:]
            self._selector.unregister(stream)

    def _expire(self) -> None:
        now = time.monotonic()
        for running in list(self._running.values()):
            if running.deadline <= now:
                running.broken = f"it took longer than {running.order.time_limit_seconds:g} s"
                self._finish(running)

    def _finish(self, running: _Running) -> None:
        """End every process of the turn, then tell how it ended."""
        status = self._end(running)
        order = running.order
        end = _ending(order, running.end) if running.end is not None and not running.broken else None
        if end is None:
            fault = running.broken or ("it ended its turn in no way that is known" if running.end is not None else "")
            end = Ended(order.job, order.turn, order.epoch, fault=fault or _fault(status, running.err))
        self._events.append(end)
        if self._waiting:
            self._spawn(self._waiting.popleft())

    def _end(self, running: _Running) -> int:
        order, process = running.order, running.process
        self._running.pop((order.job, order.turn), None)
        for stream in (process.stdout, process.stderr):
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(cast("IO[bytes]", stream))
        if not running.broken and running.end is None:
            _await_exit(process)
        # the leader is not reaped yet, so its group's number can't be anyone else's
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        kill_marked(f"{order.job}/{order.turn}")
        status = process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(BrokenPipeError):
                cast("IO[bytes]", stream).close()
        return status

    def cancel(self, job: str, turn: str) -> None:
        """End a turn and all its processes."""
        self._waiting = deque(order for order in self._waiting if (order.job, order.turn) != (job, turn))
        running = self._running.get((job, turn))
        if running is not None:
            running.broken = "cancelled"
            self._end(running)
            self._events = [event for event in self._events if (event.job, event.turn) != (job, turn)]
            while self._waiting and len(self._running) < self._slots:
                self._spawn(self._waiting.popleft())

    def reclaim(self, job: str) -> None:
        """End what an owner that died may have left running."""
        kill_marked(f"{job}/")

    def close(self) -> None:
        """End every turn."""
        self._waiting.clear()
        for job, turn in list(self._running):
            self.cancel(job, turn)
        self._selector.close()


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
        "limits": {"seconds": order.time_limit_seconds},
    }


def _ending(order: Order, end: dict[str, Any]) -> Ended | None:
    """What a turn says of its own end, if it is put as it should be."""
    text, handle = end.get("text", ""), end.get("handle") or {}
    usage, refusals = end.get("usage") or {}, end.get("refusals") or []
    if not (
        isinstance(text, str) and isinstance(handle, dict) and isinstance(usage, dict) and isinstance(refusals, list)
    ):
        return None
    counted = {key: float(value) for key, value in usage.items() if isinstance(value, int | float)}
    told = tuple(str(refusal) for refusal in refusals)
    return Ended(order.job, order.turn, order.epoch, text, json.dumps(handle, sort_keys=True), counted, "", told)


def _await_exit(process: subprocess.Popen[bytes]) -> None:
    """Its output has ended: give it a moment to say how, without reaping it."""
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
            return
        time.sleep(0.001)


def _fault(status: int, stderr: bytearray) -> str:
    said = stderr.decode("utf-8", "replace").strip().splitlines()
    why = f": {said[-1]}" if said else ""
    if status < 0:
        return f"it was killed by signal {-status}{why}"
    return f"it exited with {status} before its turn had ended{why}"


def _marked(mark: str) -> Iterator[int]:
    """The processes whose environment says that they belong to a turn, wherever they have moved to."""
    needle = f"{MARK}={mark}".encode()
    exact = b"" if mark.endswith("/") else b"\0"
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment = b"\0" + (entry / "environ").read_bytes()
            if b"\0" + needle + exact in environment:
                yield int(entry.name)


def kill_marked(mark: str) -> None:
    """End the processes of a turn that left its session, and wait until they are gone."""
    deadline = time.monotonic() + KILL_SECONDS
    while (found := [pid for pid in _marked(mark) if pid != os.getpid()]) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
