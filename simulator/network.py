"""What lies between simulated processes and the board's database: calls that are lost or doubled, and notifications."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

from parley.bus.rows import BusError
from parley.hosts.board import BoardEvent, HostRow, TurnKey, TurnStanding
from parley.hosts.board_link import BELL_SECONDS, PATIENCE_SECONDS, PAUSE_SECONDS, Stopping
from simulator.board_model import BoardModel
from simulator.fibers import Fibers, Process

BUS = "bus"
LATENCY = 0.02  # seconds that a message takes, at most, where nothing is wrong
LATE = 3.0  # that a doubled one may come later

R = TypeVar("R")


class Network:
    """Carries requests to the board and answers back, and rings bells."""

    def __init__(self, fibers: Fibers, board: BoardModel, wrong: float) -> None:
        self.fibers, self.board, self.wrong = fibers, board, wrong
        self.down = False  # the database
        self.lost = self.doubled = 0  # messages
        self._bells: list[SimBell] = []
        board.ring_by(self.notify)

    def join(self, bell: SimBell) -> None:
        """A bell listens from now on."""
        self._bells.append(bell)

    def notify(self, whom: str, text: str) -> None:
        """Tell all that listen, unless they can't be reached."""
        self._bells = [bell for bell in self._bells if not bell.process.dead]
        for bell in self._bells:
            if bell.channel.endswith(whom) and self.reaches(bell.process):
                delay = self.fibers.rng.random() * LATENCY
                self.fibers.schedule.after(delay, lambda bell=bell: bell.heard.append(text))  # type: ignore[misc] # mypy infers no lambda with a default

    def reaches(self, process: Process) -> bool:
        """Whether a process and the database reach each other."""
        return not self.down and BUS not in process.cut

    def request(self, process: Process, act: Callable[[], R]) -> list[R | BusError]:
        """Send a request; the answer comes into the list, if it comes. It is carried out whatever the sender does."""
        answers: list[R | BusError] = []
        rng, after = self.fibers.rng, self.fibers.schedule.after

        def arrive(*, answered: bool) -> None:
            if not self.reaches(process):
                return
            found: R | BusError
            try:
                found = act()
            except BusError as error:
                found = error
            if answered:
                after(rng.random() * LATENCY, lambda: answers.extend([found] if self.reaches(process) else []))

        strange = rng.random()
        self.lost += strange < self.wrong
        answered = strange >= self.wrong  # or it is lost on its way back, and the sender sends it again
        after(rng.random() * LATENCY, lambda: arrive(answered=answered))
        if strange > 1 - self.wrong / 2:
            self.doubled += 1
            after(rng.random() * LATE, lambda: arrive(answered=False))
        return answers


class Line:
    """A process's way to the database, in the place of what connects to it."""

    def __init__(self, network: Network, process: Process, role: str) -> None:
        self.network, self.process, self.role = network, process, role


class SimLink:
    """What BoardLink is: a statement that a lost connection leaves in doubt is run again."""

    def __init__(self, line: Line, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._line, self._fibers, self.board = line, line.network.fibers, line.network.board
        self.patience_seconds = patience_seconds
        self.stopped = SimStop(self._fibers)
        self.since = self._fibers.clock.time
        self._busy = False

    def rows(self, statement: str, given: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """A host's call of a function."""
        return self.ask(lambda: self.board.call(statement, given, self._line.role), statement)

    def ask(self, act: Callable[[], R], what: str) -> R:
        """What the server answers. BusError where it stays away."""
        fibers, network, process = self._fibers, self._line.network, self._line.process
        if self._busy:
            fibers.wait(lambda: not self._busy)
        self._busy = True
        try:
            deadline = fibers.clock.time + self.patience_seconds
            while True:
                fibers.act(what)
                answers = network.request(process, act)
                if fibers.wait(lambda answers=answers: bool(answers), 3 * LATENCY):  # type: ignore[misc] # the same
                    if isinstance(answers[0], BusError):
                        raise answers[0]
                    return answers[0]
                if self.stopped.is_set():
                    raise Stopping
                if fibers.clock.time > deadline:
                    raise BusError("the board's database can't be reached: it is away")
                away = deadline - fibers.clock.time
                fibers.wait(lambda: self.stopped.is_set() or network.reaches(process), max(away, PAUSE_SECONDS))
                fibers.sleep(PAUSE_SECONDS)
                self.since = fibers.clock.time
        finally:
            self._busy = False

    def end_soon(self) -> None:
        """The process is about to end: how long it waits for a server that is away breaks no promise."""

    def stop(self) -> None:
        """Wait for no server any more."""
        self.stopped.set()

    def close(self) -> None:
        """Let go of the connection."""
        self.stopped.set()


class SimStop:
    """An event that links wait for."""

    def __init__(self, fibers: Fibers) -> None:
        self._fibers, self._set = fibers, False

    def is_set(self) -> bool:
        """Whether it has come."""
        return self._set

    def set(self) -> None:
        """It has come."""
        self._set = True

    def wait(self, seconds: float) -> bool:
        """Wait for it."""
        return self._set or self._fibers.wait(lambda: self._set, seconds)


class SimBell:
    """What Bell is: a fiber that rings with what it heard, and with nothing now and then."""

    def __init__(self, line: Line, channel: str, ring: Callable[[Sequence[str]], None]) -> None:
        self.process, self.channel = line.process, channel
        self.heard: list[str] = []
        self._network, self._fibers, self._ring = line.network, line.network.fibers, ring
        self._stopped = False

    def start(self) -> None:
        """Begin to listen."""
        self._network.join(self)
        self._fibers.spawn(self.process, self._listen, "bell")

    def stop(self) -> None:
        """Listen no more."""
        self._stopped = True

    def join(self) -> None:
        """It rings no more once it is stopped."""

    def _listen(self) -> None:
        looked = 0.0
        while True:
            self._fibers.wait(lambda: bool(self.heard) or self._stopped, BELL_SECONDS)
            if self._stopped:
                return
            if self.heard:
                heard, self.heard = self.heard, []
                self._ring(heard)
            if self._fibers.clock.time - looked >= BELL_SECONDS:
                looked = self._fibers.clock.time
                self._ring([])


class CoordinatorBoard:
    """What Board is, over the model."""

    def __init__(self, link: SimLink, schema: str, bus: str = "") -> None:
        self._link, self.schema, self._model = link, schema, link.board

    def install(self, lost_seconds: float, roles: Iterable[str] = ()) -> None:
        """It is there."""
        self._model.lost_seconds = lost_seconds

    def put(self, key: TurnKey, agent: str, thread: str, document: str, shipped: str, label: str = "") -> bool:
        """As Board does; so are all that follow."""
        return self._link.ask(lambda: self._model.put(key, agent, thread, document, shipped, label), "put")

    def reply(self, key: TurnKey, number: int, body: str) -> None:
        """Answer a call."""
        self._link.ask(lambda: self._model.reply(key, number, body), "reply")

    def cancel(self, key: TurnKey) -> bool:
        """End a turn."""
        return self._link.ask(lambda: self._model.cancel(key), "cancel")

    def end_sessions(self, seconds: float) -> None:
        """No session keeps anything locked in this world."""

    def left_out(self, job: str) -> list[TurnKey]:
        """What former owners have left out."""
        return self._link.ask(lambda: self._model.left_out(job), "left out")

    def document(self, key: TurnKey) -> str:
        """A turn's order."""
        return self._link.ask(lambda: self._model.document(key), "document")

    def standings(self, keys: Collection[TurnKey]) -> dict[TurnKey, TurnStanding]:
        """Where turns stand."""
        asked = list(keys)
        return self._link.ask(lambda: self._model.standings(asked), "standings")

    def let_go(self, keys: Collection[TurnKey]) -> None:
        """Give up the claims of lost hosts."""
        asked = list(keys)

        def act() -> None:
            for key in asked:
                self._model.let_go(key)

        self._link.ask(act, "let go")

    def events(self, read: Sequence[tuple[TurnKey, int]]) -> list[BoardEvent]:
        """What was told."""
        return self._link.ask(lambda: self._model.events(read), "events")

    def last_host(self, job: str, agent: str, thread: str) -> str:
        """Where an instance's last turn ended well."""
        return self._link.ask(lambda: self._model.last_host(job, agent, thread), "last host")

    def strip(self, key: TurnKey, *, warm: bool = True) -> None:
        """A turn is over, and its owner knows."""
        self._link.ask(lambda: self._model.strip(key, warm=warm), "strip")

    def forget_all_but(self, jobs: Collection[str]) -> None:
        """All other jobs have ended."""
        asked = list(jobs)
        self._link.ask(lambda: self._model.forget_all_but(asked), "forget")

    def rest(self, job: str) -> None:
        """End what is kept ready."""
        self._link.ask(lambda: self._model.rest(job), "rest")

    def hosts(self) -> list[HostRow]:
        """Every host."""
        return self._link.ask(self._model.listed, "hosts")
