"""The runner of proofs: its turns are commands, its final text is what they did. No model is asked."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from parley.adapters.boundary import Boundary
from parley.adapters.carrier import Carrier, Carriers, Tell
from parley.adapters.proving.task import NoTask, read_task
from parley.adapters.proving.trial import TAIL, Trial, Tried
from parley.ports import BoundaryError, Ended, Order, Progress
from parley.text import cut, last_of

SPARE_SECONDS = 5.0  # of the turn's time, in which the last command is ended and all is told
SHOWN = 2000  # characters of a command, or of the end of what it said
ROOM = 120_000  # characters of all that the commands said
_TOOL = "shell"


class ProofRunner:
    """A Runner for orders whose message is `{"commands": [...], "seconds": N}`.

    The final text is `{"proofs": [{"command", "code", "output", "seconds", "fault"}]}`, one for each command.
    """

    def __init__(self, boundary: Boundary) -> None:
        self._boundary = boundary
        self._turns: Carriers[_Turn] = Carriers()

    def start(self, order: Order, tell: Tell) -> None:
        """Begin a turn."""
        self._turns.start(_Turn(self._boundary, order, tell))

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Nothing is ever called."""

    def cancel(self, job: str, turn: str) -> None:
        """End a turn and all its processes."""
        self._turns.cancel(job, turn)

    def wrap_up(self, job: str, turn: str) -> bool:
        """Commands can't be asked; they end a little before the turn's time does."""
        return False

    def stop(self, job: str, turn: str) -> bool:
        """There is no session to be kept: it is cancelled."""
        return False

    def rest(self, job: str) -> None:
        """Nothing is kept ready."""

    def close(self) -> None:
        """End every turn."""
        self._turns.close()


class _Turn(Carrier):
    """Runs the commands of one order, one after another."""

    hopeless: ClassVar[tuple[type[Exception], ...]] = (BoundaryError, NoTask)

    def __init__(self, boundary: Boundary, order: Order, tell: Tell) -> None:
        super().__init__(order, tell)
        self._boundary = boundary
        self._deadline = time.monotonic() + max(0.0, order.time_limit_seconds - SPARE_SECONDS)

    def _progress(self, text: str, use: str, *, over: bool = False) -> None:
        self._tell(Progress(self.order.job, self.order.turn, last_of(text, SHOWN), _TOOL, use, over))

    def _carry_out(self, ended: Ended) -> Ended:
        order, task = self.order, read_task(self.order.message)
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
        self._progress(f"$ {cut(command, SHOWN)}", use)
        left = self._deadline - time.monotonic()
        if left <= 0:
            tried = Tried(command, -1, fault="it was not run: the turn's time was used up by those before it")
        else:
            tried = trial.run(command, min(seconds, left))
        how = tried.fault or (f"exit {tried.code}" if tried.code >= 0 else f"killed by signal {-tried.code}")
        self._progress(cut(f"{how}\n{tried.output}".strip(), SHOWN), use, over=True)
        return tried
