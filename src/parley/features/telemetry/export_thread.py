"""The thread that sends telemetry. No job waits for it, and what goes wrong in it is no job's problem.

The bus is its queue: it reads the rows of a job as fast as the collector takes what they make, with a connection of its
own, and goes on from there when a collector that was away is back. So its memory does not depend on the collector.
"""

from __future__ import annotations

import threading
import time
import traceback
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Protocol

from parley.bus.store import Store
from parley.features.telemetry import vocabulary
from parley.features.telemetry.cursor_files import CursorFiles
from parley.features.telemetry.destination import Destination
from parley.features.telemetry.job_trace import JobTrace
from parley.features.telemetry.span_values import Measurement, SpanValue
from parley.features.telemetry.vocabulary import Names
from parley.ports.machine import Faults
from parley.ports.telemetry import MidTurn
from parley.protocol.states import LIVE

BATCH = 256  # spans that are sent at once
SLICE = 100  # rows that are read in one go; between two, others have the processor
REST_SECONDS = 0.002  # that they have it for
PAUSE_SECONDS = 1.0  # between two sendings
FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 60.0  # seconds before a collector that does not answer is tried again
METRIC_SECONDS = 60.0  # between two sendings of metrics, where no variable says another time
MOST_EVENTS = 10_000  # within turns that wait to be sent
FLUSH_SECONDS = 2.0  # that the end of the process waits at most


class NotSent(Exception):
    """The collector did not take something; `again`: it may later."""

    def __init__(self, why: str, *, again: bool) -> None:
        super().__init__(why)
        self.again = again


class Sink(Protocol):
    """What takes spans and measurements to a collector. Used by one thread."""

    metric_seconds: float

    def send_spans(self, spans: Sequence[SpanValue]) -> None:
        """Send spans, and wait until they are taken. Raises NotSent."""

    def measure(self, one: Measurement) -> None:
        """Count or measure something: it is sent with the next metrics."""

    def send_metrics(self, jobs: Mapping[str, int], working: int) -> None:
        """Send all metrics as they stand, with the open jobs by state and the agents at work. Raises NotSent."""


@dataclass(slots=True)
class _Followed:
    """A job that this process owns."""

    epoch: int
    since: int  # the last step of earlier owners
    committed: int = 0
    released: bool = False
    # the thread's own
    trace: JobTrace | None = None
    read: int = 0  # the last step that was taken in
    sent: int = 0  # the last step whose spans an earlier owner has sent
    broken: bool = False
    epochs: list[tuple[int, int]] = field(default_factory=list)  # of earlier owners: first transaction, epoch

    @property
    def behind(self) -> bool:
        """Whether there are rows to be read."""
        return not self.broken and self.read < self.committed

    def epoch_of(self, step: int, transaction: int) -> int:
        """The owner that committed a step."""
        if step > self.since or not self.epochs:
            return self.epoch
        return self.epochs[max(0, bisect_right(self.epochs, (transaction, 1 << 62)) - 1)][1]


class TelemetryThread:
    """Takes what a job's owner tells, and sends it. Its calls never wait and never raise."""

    def __init__(
        self,
        *,
        open_store: Callable[[], Store],
        open_sink: Callable[[], Sink],
        cursors: CursorFiles,
        faults: Faults,
        names: Names,
    ) -> None:
        self._open_store, self._open_sink = open_store, open_sink
        self._cursors, self._faults, self._names = cursors, faults, names
        self._woken = threading.Condition()
        self._jobs: dict[str, _Followed] = {}
        self._events: deque[MidTurn] = deque()
        self._dropped = 0
        self._new = False  # whether something was told since the last look
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._pending: list[SpanValue] = []  # made, and not taken yet
        self._reached: dict[str, int] = {}  # how far each job is sent once they are
        self._told_fault = False
        self._backoff, self._next = FIRST_BACKOFF, 0.0

    # ---- what owners tell ----------------------------------------------------------------------

    def took(self, job: str, epoch: int, step: int) -> None:
        """This process owns the job from now on."""
        with self._woken:
            known = self._jobs.get(job)
            if known is None or known.epoch != epoch:
                self._jobs[job] = _Followed(epoch, step)
            if not self._closing and self._thread.ident is None:
                with suppress(RuntimeError):  # the system has no thread left: the next job tries again
                    self._thread.start()

    def committed(self, job: str, step: int) -> None:
        """All steps up to this one are on the bus."""
        with self._woken:
            followed = self._jobs.get(job)
            if followed is not None and step > followed.committed:
                followed.committed = step
                self._wake()

    def passed(self, event: MidTurn) -> None:
        """Something within a turn is over."""
        with self._woken:
            if len(self._events) >= MOST_EVENTS:
                self._events.popleft()
                self._dropped += 1
            self._events.append(event)
            self._wake()

    def released(self, job: str) -> None:
        """This process has let go of the job."""
        with self._woken:
            if (followed := self._jobs.get(job)) is not None:
                followed.released = True
                self._wake()

    def close(self) -> None:
        """Send what there is, within the time for it. The thread ends with the process, should it take longer."""
        with self._woken:
            self._closing = True
            self._woken.notify()
        if self._thread.ident is not None:
            self._thread.join(FLUSH_SECONDS)

    def _wake(self) -> None:
        if not self._new:
            self._new = True
            self._woken.notify()

    # ---- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._send_all()
        except Exception:  # noqa: BLE001 - whatever goes wrong here, jobs go on
            self._tell_fault(f"telemetry has stopped; jobs go on without it\n{traceback.format_exc()}")

    def _send_all(self) -> None:
        sink, store = self._open_sink(), self._open_store()
        try:
            metrics_due = time.monotonic() + sink.metric_seconds
            while True:
                last = self._rest(metrics_due)
                if last or time.monotonic() >= self._next:
                    self._send_spans(sink, store)
                if last or time.monotonic() >= metrics_due:
                    self._send_metrics(sink)
                    metrics_due = time.monotonic() + sink.metric_seconds
                if last:
                    return
        finally:
            store.close()

    def _rest(self, metrics_due: float) -> bool:
        """Wait until there is something to send, and time to; whether it is the last time."""
        with self._woken:
            while not self._closing:
                now = time.monotonic()
                due = min(metrics_due, self._next) if self._new or self._pending else metrics_due
                if due <= now:
                    break
                self._woken.wait(due - now)
            return self._closing

    def _send_spans(self, sink: Sink, store: Store) -> None:
        """Make spans of all that is new, and send them, until there is no more or the collector takes no more."""
        with self._woken:
            self._new = False
        while True:
            if not self._pending:
                self._make(sink, store)
            if not self._pending:
                break
            try:
                sink.send_spans(self._pending)
            except NotSent as failed:
                self._tell_fault(f"telemetry: {failed}; jobs go on")
                if failed.again:
                    self._next = time.monotonic() + self._backoff
                    self._backoff = min(2 * self._backoff, LONGEST_BACKOFF)
                    return
            self._pending = []
            self._backoff = FIRST_BACKOFF
            self._note_reached()
        self._note_reached()
        self._next = time.monotonic() + PAUSE_SECONDS
        self._forget_released()

    def _note_reached(self) -> None:
        for job, step in self._reached.items():
            self._cursors.write(job, step)
        self._reached = {}

    def _forget_released(self) -> None:
        with self._woken:
            if not self._events:
                for job in [job for job, one in self._jobs.items() if one.released and not one.behind]:
                    del self._jobs[job]

    # ---- making spans --------------------------------------------------------------------------

    def _make(self, sink: Sink, store: Store) -> None:
        """Make the next spans, a batch of them at most and what one row makes more."""
        with self._woken:
            jobs = dict(self._jobs)
            taken = [self._events.popleft() for _ in range(min(BATCH, len(self._events)))]
            dropped, self._dropped = self._dropped, 0
        if dropped:
            sink.measure(Measurement(vocabulary.DROPPED, dropped))
        for name, followed in jobs.items():
            if not followed.broken and followed.trace is None:
                self._contained(name, followed, partial(self._begin, store, name, followed))
        for event in taken:
            one = jobs.get(event.job)
            if one is not None and one.trace is not None:
                one.trace.take(event)
                self._collect(sink, one, counts=True, new=True)
        for name, followed in jobs.items():
            if followed.behind and len(self._pending) < BATCH:
                self._contained(name, followed, partial(self._read, sink, store, name, followed))

    def _begin(self, store: Store, name: str, followed: _Followed) -> None:
        followed.trace = JobTrace(store.load(name).row, self._names)
        followed.sent = self._cursors.read(name) if followed.since else 0
        if followed.since:
            for row in store.transactions(name):
                if not followed.epochs or followed.epochs[-1][1] != row.epoch:
                    followed.epochs.append((row.number, row.epoch))

    def _read(self, sink: Sink, store: Store, name: str, followed: _Followed) -> None:
        """Take rows in until there is a batch, or no more are committed by this owner."""
        trace = followed.trace
        assert trace is not None  # noqa: S101 - a job that has none is broken
        steps = store.steps(name, followed.read)
        while len(self._pending) < BATCH and followed.behind:
            rows = list(islice(steps, min(SLICE, followed.committed - followed.read)))
            for step in rows:
                trace.read(step, followed.epoch_of(step.number, step.transaction))
                followed.read = step.number
                self._collect(sink, followed, counts=step.number > followed.since, new=step.number > followed.sent)
            if not rows:
                break
            if not self._closing:
                time.sleep(REST_SECONDS)
        if followed.read > followed.sent:
            self._reached[name] = followed.read

    def _collect(self, sink: Sink, followed: _Followed, *, counts: bool, new: bool) -> None:
        """Take what was made: measurements count once, with the owner under which they came about."""
        trace = followed.trace
        if trace is None:
            return
        if trace.spans:
            if new:
                self._pending += trace.spans
            trace.spans = []
        if trace.measured:
            if counts:
                for one in trace.measured:
                    sink.measure(one)
            trace.measured = []

    def _contained(self, name: str, followed: _Followed, act: Callable[[], None]) -> None:
        """What is wrong with one job's rows ends its own telemetry alone."""
        try:
            act()
        except Exception:  # noqa: BLE001 - rows that another program changed may be wrong in any way
            followed.broken = True
            self._faults.tell(name, f"telemetry of this job has stopped; the job goes on\n{traceback.format_exc()}")

    # ---- metrics -------------------------------------------------------------------------------

    def _send_metrics(self, sink: Sink) -> None:
        with self._woken:
            traces = [one.trace for one in self._jobs.values() if one.trace is not None and not one.released]
        states = Counter(trace.state for trace in traces)
        try:
            sink.send_metrics({str(state): states[str(state)] for state in LIVE}, sum(one.working for one in traces))
        except NotSent as failed:
            self._tell_fault(f"telemetry: {failed}; jobs go on")

    def _tell_fault(self, text: str) -> None:
        """Once is enough: a collector that is away would fill the log."""
        if not self._told_fault:
            self._told_fault = True
            with self._woken:
                job = next(iter(self._jobs), "")
            if job:
                self._faults.tell(job, text)


def telemetry_thread(
    to: Destination, open_store: Callable[[], Store], jobs: Path, faults: Faults, redact: Callable[[str], str]
) -> TelemetryThread:
    """A thread that sends by OTLP. `jobs`: where the files of all jobs lie."""

    def open_sink() -> Sink:
        found: Sink = import_module("parley.features.telemetry.otlp_sink").OtlpSink(to)  # a second of importing
        return found

    return TelemetryThread(
        open_store=open_store, open_sink=open_sink, cursors=CursorFiles(jobs), faults=faults, names=Names(redact)
    )
