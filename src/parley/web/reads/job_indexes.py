"""The past of the jobs that people look at: read once, in slices, by a thread beside the pages, and kept.

A page takes what has been read; where that is not all yet, it says how much, and is told when there is more. A job
that goes on is followed from where the last look ended.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from parley.bus.rows import BusError
from parley.views.history import interventions
from parley.views.history.interventions import Intervention, Lives
from parley.views.history.job_index import JobIndex
from parley.views.history.turn_work import TurnStreams
from parley.views.job_view import DAMAGE, Present
from parley.views.repository_context import JobContext

MOST = 16  # jobs that are kept
MOST_STEPS = 600_000  # steps of them all, but for one job: 100,000 take about 50 MB
SLICE = 250  # steps that are read before a page may look in between
AT_ONCE = 2_000  # steps that a page reads on itself
BREATH_SECONDS = 0.003  # between two slices, in which pages go first
FIRST_SECONDS = 0.3  # before the first slice: the page that asked for it is shown first
INDEX = "index"  # what the hub tells of: more of a job's past is read


class JobReading:
    """What has been read of one job. Whoever looks at it holds its lock."""

    def __init__(self, at: JobContext) -> None:
        store, context = at.context.store, at.context
        self.lock = threading.RLock()
        self.streams = TurnStreams(context.files.home(at.id), context.redact)
        self.problem = ""  # why it can't be read on
        self.store = store
        self.hidden = context.hidden_version()  # what was read has no secret that was known then
        self._job = at.id
        self._index = JobIndex(store, at.row)
        self._lives, self._lived = Lives(store, at.id), 0
        self._ready = False
        self._steps = 1

    def is_of(self, at: JobContext) -> bool:
        """Whether it can be read on: the bus is the same file as before, and there are no more secrets to hide."""
        return self.store is at.context.store and self.hidden == at.context.hidden_version()

    @property
    def ready(self) -> bool:
        """Whether it has come to the job's end once."""
        return self._ready

    @property
    def steps(self) -> int:
        """How many steps are read."""
        return self._index.step

    @property
    def percent(self) -> int:
        """How much of the job is read."""
        return min(99, 100 * self._index.step // max(1, self._steps))

    @contextmanager
    def held(self) -> Iterator[JobIndex | None]:
        """The index, while no other thread changes it; None: it has not come to the job's end yet."""
        with self.lock:
            yield self._index if self._ready else None

    def is_behind(self, present: Present) -> int:
        """How many steps it has not seen."""
        last = present.loaded.transaction
        self._steps = max(last.steps if last else 0, 1)
        return self._steps - self._index.step if last else 0

    def go_on(self, steps: int) -> bool:
        """Read some more; whether there is more. What can't be read is told, and ends the reading."""
        with self.lock:
            try:
                more = self._index.read(steps)
                self._live_on()
            except (*DAMAGE, BusError) as error:
                self.problem = str(error)
                return False
            self._ready |= not more
            return more

    def _live_on(self) -> None:
        """Follow the interventions up to the same step."""
        for step in self.store.steps(self._job, self._lived):
            if step.number > self._index.step:
                break
            self._lived = step.number
            if interventions.matters(step):
                self._lives.read(step)

    def interventions(self) -> list[Intervention]:
        """All that people have said to the job, in that order, as far as it is read."""
        with self.lock:
            return interventions.with_lives(self.store, self._job, self._lives)


class JobIndexes:
    """The readings of all jobs that were looked at lately, and the thread that reads them on."""

    def __init__(self, tell: Callable[[str, str], None]) -> None:
        """`tell` is called with a repository's key and a job when more of that is read."""
        self._tell = tell
        self._lock = threading.Lock()
        self._readings: OrderedDict[tuple[str, str], JobReading] = OrderedDict()
        self._wanted: deque[tuple[str, str]] = deque()
        self._thread: threading.Thread | None = None

    def of(self, key: str, at: JobContext, present: Present) -> JobReading:
        """The reading of a job, as new as the job if that takes no time; else it is read on beside."""
        name = (key, at.id)
        with self._lock:
            reading = self._readings.get(name)
            if reading is None or not reading.is_of(at):
                reading = self._readings[name] = JobReading(at)
            self._readings.move_to_end(name)
            self._forget_oldest()
        behind = reading.is_behind(present)
        if not reading.problem and (behind or not reading.ready):
            if behind <= AT_ONCE:
                reading.go_on(AT_ONCE)
            else:
                self._want(name)
        return reading

    def _forget_oldest(self) -> None:
        """Keep no more than there is room for: so many jobs, and so many steps of them all."""
        while len(self._readings) > 1 and (
            len(self._readings) > MOST or sum(one.steps for one in self._readings.values()) > MOST_STEPS
        ):
            self._readings.popitem(last=False)

    def _want(self, name: tuple[str, str]) -> None:
        with self._lock:
            if name not in self._wanted:
                self._wanted.append(name)
            if self._thread is None:
                self._thread = threading.Thread(target=self._read_on, name="job indexes", daemon=True)
                self._thread.start()

    def _read_on(self) -> None:
        """Read what is wanted, until nothing is. A fault ends this thread; the next wish begins another."""
        name: tuple[str, str] | None = None
        try:
            while (name := self._next()) is not None:
                reading = self._readings.get(name)
                if reading is not None:
                    self._read(name, reading)
                self._over(name)
                self._tell(*name)
        finally:
            if name is not None:
                self._over(name)
                self._thread = None

    def _next(self) -> tuple[str, str] | None:
        with self._lock:
            if not self._wanted:
                self._thread = None
                return None
            return self._wanted[0]

    def _over(self, name: tuple[str, str]) -> None:
        with self._lock, suppress(ValueError):
            self._wanted.remove(name)

    def _read(self, name: tuple[str, str], reading: JobReading) -> None:
        breath = threading.Event()
        breath.wait(FIRST_SECONDS)
        slices = 0
        while reading.go_on(SLICE):
            slices += 1
            if slices % 40 == 0:
                self._tell(*name)
            breath.wait(BREATH_SECONDS)
