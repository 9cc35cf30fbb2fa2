"""A turn in a thread of this process, and a runner of such turns: the base classes of most runners.

A subclass of TurnThread says what a turn does, and a subclass of ThreadRunner makes such turns. This module makes sure
that nothing is reported after a cancel, and that every failure becomes an Ended.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from msgspec.structs import replace

from parley.ports.turns import BoundaryError, Ended, Order, TurnEvent

Tell = Callable[[TurnEvent], None]


class TurnThread(ABC):
    """One turn in a thread of its own. Its Ended is its last event, unless it was cancelled."""

    hopeless: ClassVar[tuple[type[Exception], ...]] = (BoundaryError,)  # errors that a retry would not change

    def __init__(self, order: Order, tell: Tell) -> None:
        self.order = order
        self._told = tell
        self._lock = threading.RLock()
        self._cancelled = False
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name=f"parley-turn-{order.turn}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def over(self) -> bool:
        """Whether its end has been reported."""
        return self._thread.ident is not None and not self._thread.is_alive()

    def cancel(self) -> None:
        """End it, and wait until it has ended. It reports nothing any more."""
        with self._lock:
            self._cancelled = True
        with contextlib.suppress(OSError):
            self._wake.send(b".")
        self._thread.join()

    def reply(self, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:  # noqa: B027 - many make no calls
        """Answer a call that it has made."""

    def wrap_up(self) -> bool:
        """Its time is over: ask its agent to come to an end. False: this agent can't be asked."""
        return False

    def stop(self) -> bool:
        """End it where it is, and report its end as overtime. False: there is no session to keep, cancel it."""
        return False

    # ---- in its own thread -----------------------------------------------------------------------

    @abstractmethod
    def _carry_out(self, ended: Ended) -> Ended:
        """Carry out the turn and return its end. When `_woken` is readable, it was cancelled."""

    def _tell(self, event: TurnEvent) -> None:
        with self._lock:
            if not self._cancelled:
                self._told(event)

    def _run(self) -> None:
        order = self.order
        ended = Ended(order.job, order.turn, order.epoch, handle=order.handle)
        try:
            ended = self._carry_out(ended)
        except self.hopeless as error:
            ended = replace(ended, fault=str(error), hard=True, unconfined=isinstance(error, BoundaryError))
        except OSError as error:
            ended = replace(ended, fault=f"it could not be run: {error}")
        except Exception as error:  # noqa: BLE001 - the engine waits for this turn's end
            ended = replace(ended, fault=f"its runner failed: {type(error).__name__}: {error}")
        finally:
            self._wake.close()
            self._woken.close()
        self._tell(ended)


One = TypeVar("One", bound=TurnThread)


class ThreadRunner(ABC, Generic[One]):
    """A Runner whose turns are threads. It keeps nothing ready between turns."""

    def __init__(self) -> None:
        self._turns: dict[tuple[str, str], One] = {}  # by job and turn

    @abstractmethod
    def _turn_of(self, order: Order, tell: Tell) -> One:
        """The turn that carries an order out. It is not started yet."""

    def start(self, order: Order, tell: Tell) -> None:
        """Begin a turn."""
        turn = self._turn_of(order, tell)
        self._turns = {key: other for key, other in self._turns.items() if not other.over}
        turn.start()
        self._turns[order.job, order.turn] = turn

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Answer a call."""
        if (found := self._turns.get((job, turn))) is not None:
            found.reply(number, ok, text, data)

    def cancel(self, job: str, turn: str) -> None:
        """End a turn and all its processes."""
        if (found := self._turns.pop((job, turn), None)) is not None:
            found.cancel()

    def wrap_up(self, job: str, turn: str) -> bool:
        """Ask a turn's agent to come to an end."""
        found = self._turns.get((job, turn))
        return found is not None and found.wrap_up()

    def stop(self, job: str, turn: str) -> bool:
        """End a turn where it is."""
        found = self._turns.get((job, turn))
        return found is not None and found.stop()

    def rest(self, job: str) -> None:
        """Nothing is kept ready between turns."""

    def close(self) -> None:
        """End every turn."""
        for job, turn in list(self._turns):
            self.cancel(job, turn)
