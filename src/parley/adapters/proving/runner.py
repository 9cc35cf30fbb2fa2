"""The runner of proofs: its turns are commands, its final text is what they did. No model is asked."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from parley.adapters.boundary import Boundary
from parley.adapters.proving.task import NoTask, Task, read_task
from parley.adapters.proving.trial import TAIL, Trial, Tried
from parley.ports import BoundaryError, Ended, Order, Progress, TurnEvent

SPARE_SECONDS = 5.0  # of the turn's time, in which the last command is ended and all is told
SHOWN = 2000  # characters of a command, or of the end of what it said
ROOM = 120_000  # characters of all that the commands said
_TOOL = "shell"

Tell = Callable[[TurnEvent], None]


class ProofRunner:
    """A Runner for orders whose message is `{"commands": [...], "seconds": N}`.

    The final text is `{"proofs": [{"command", "code", "output", "seconds", "fault"}]}`, one for each command.
    """

    def __init__(self, boundary: Boundary) -> None:
        self._boundary = boundary
        self._turns: dict[tuple[str, str], _Turn] = {}

    def start(self, order: Order, tell: Tell) -> None:
        """Begin a turn."""
        self._turns = {key: other for key, other in self._turns.items() if not other.over}
        turn = self._turns[order.job, order.turn] = _Turn(self._boundary, order, tell)
        turn.start()

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Nothing is ever called."""

    def cancel(self, job: str, turn: str) -> None:
        """End a turn and all its processes."""
        if (found := self._turns.pop((job, turn), None)) is not None:
            found.cancel()

    def rest(self, job: str) -> None:
        """Nothing is kept ready."""

    def close(self) -> None:
        """End every turn."""
        for job, turn in list(self._turns):
            self.cancel(job, turn)


class _Turn:
    """Runs in a thread of its own. Its Ended is the last thing told, unless it was cancelled."""

    def __init__(self, boundary: Boundary, order: Order, tell: Tell) -> None:
        self._boundary, self._order, self._told = boundary, order, tell
        self._lock = threading.Lock()
        self._cancelled = False
        self._deadline = time.monotonic() + max(0.0, order.time_limit_seconds - SPARE_SECONDS)
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name=f"parley-proof-{order.turn}", daemon=True)

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

    def _tell(self, event: TurnEvent) -> None:
        with self._lock:
            if not self._cancelled:
                self._told(event)

    def _progress(self, text: str, use: str, *, over: bool = False) -> None:
        self._tell(Progress(self._order.job, self._order.turn, text[-SHOWN:], _TOOL, use, over))

    def _run(self) -> None:
        order = self._order
        ended = Ended(order.job, order.turn, order.epoch)
        try:
            ended = self._prove(ended, read_task(order.message))
        except NoTask as error:
            ended = replace(ended, fault=str(error), hard=True)
        except BoundaryError as error:
            ended = replace(ended, fault=f"no boundary: {error}", hard=True)
        except OSError as error:
            ended = replace(ended, fault=f"the commands could not be run: {error}")
        except Exception as error:  # noqa: BLE001 - whatever it was, whoever waits for this turn has to be told
            ended = replace(ended, fault=f"its runner failed: {type(error).__name__}: {error}")
        finally:
            self._wake.close()
            self._woken.close()
        self._tell(ended)

    def _prove(self, ended: Ended, task: Task) -> Ended:
        order = self._order
        self._boundary.hand_over(order.site.workspace)
        trial = Trial(self._boundary, order.site, Path(order.home), f"{order.job}/{order.turn}", self._woken)
        done: list[Tried] = []
        for number, command in enumerate(task.commands, 1):
            if self._cancelled:
                break
            done.append(self._try(trial, command, task.seconds, str(number)))
        room = min(TAIL, ROOM // len(task.commands))
        text = json.dumps({"proofs": [tried.document(room) for tried in done]}, ensure_ascii=False)
        boundary = next((tried.boundary for tried in reversed(done) if tried.boundary), {})
        return replace(ended, text=text, boundary=boundary)

    def _try(self, trial: Trial, command: str, seconds: float, use: str) -> Tried:
        self._progress(f"$ {command[:SHOWN]}", use)
        left = self._deadline - time.monotonic()
        if left <= 0:
            tried = Tried(command, -1, fault="it was not run: the turn's time was used up by those before it")
        else:
            tried = trial.run(command, min(seconds, left))
        how = tried.fault or (f"exit {tried.code}" if tried.code >= 0 else f"killed by signal {-tried.code}")
        self._progress(f"{how}\n{tried.output}".strip()[:SHOWN], use, over=True)
        return tried
