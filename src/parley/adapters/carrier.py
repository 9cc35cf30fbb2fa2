"""Carries turns out in threads of this process: each tells what happens until it ends, or is cancelled.

What a turn consists of is for the runners to say. That nothing is told after a cancel, and that an Ended comes of
whatever went wrong, is seen to here.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Generic, TypeVar

from parley.ports import BoundaryError, Ended, Order, TurnEvent

Tell = Callable[[TurnEvent], None]


class Carrier(ABC):
    """One turn, in a thread of its own. Its Ended is the last thing told, unless it was cancelled."""

    hopeless: ClassVar[tuple[type[Exception], ...]] = (BoundaryError,)  # what would happen again if it were tried again

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
        """Whether its end has been told."""
        return self._thread.ident is not None and not self._thread.is_alive()

    def cancel(self) -> None:
        """End it, and wait until it has ended. Nothing of it is told any more."""
        with self._lock:
            self._cancelled = True
        with contextlib.suppress(OSError):
            self._wake.send(b".")
        self._thread.join()

    # ---- in its own thread -----------------------------------------------------------------------

    @abstractmethod
    def _carry_out(self, ended: Ended) -> Ended:
        """Do all of it, and say how it ended. When `_woken` can be read, it was cancelled."""

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
        except Exception as error:  # noqa: BLE001 - whatever it was, whoever waits for this turn has to be told
            ended = replace(ended, fault=f"its runner failed: {type(error).__name__}: {error}")
        finally:
            self._wake.close()
            self._woken.close()
        self._tell(ended)


One = TypeVar("One", bound=Carrier)


class Carriers(Generic[One]):
    """The turns of a runner that have not ended."""

    def __init__(self) -> None:
        self._turns: dict[tuple[str, str], One] = {}

    def start(self, turn: One) -> None:
        """Begin a turn."""
        self._turns = {key: other for key, other in self._turns.items() if not other.over}
        self._turns[turn.order.job, turn.order.turn] = turn
        turn.start()

    def get(self, job: str, turn: str) -> One | None:
        """A turn that goes on."""
        return self._turns.get((job, turn))

    def cancel(self, job: str, turn: str) -> None:
        """End a turn and all its processes."""
        if (found := self._turns.pop((job, turn), None)) is not None:
            found.cancel()

    def close(self) -> None:
        """End every turn."""
        for job, turn in list(self._turns):
            self.cancel(job, turn)
