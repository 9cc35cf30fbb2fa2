"""The runner of proofs: a turn runs acceptance commands, its final text has their results. No model is asked."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace

from parley.base.documents.node import DocumentError
from parley.base.text import cut, last_of
from parley.ports.turns import BoundaryError, Ended, Order, Progress
from parley.runners.proof.command_trial import TAIL, CommandResult, CommandTrial
from parley.runners.proof.proof_task import read_task
from parley.runners.turn_thread import Tell, ThreadRunner, TurnThread
from parley.sandbox import Boundary

SPARE_SECONDS = 5.0  # of the turn's time, to end the last command and report
SHOWN = 2000  # characters of a command, or of the end of its output
ROOM = 120_000  # characters of all commands' output
_TOOL = "shell"


class ProofRunner(ThreadRunner["ProofTurn"]):
    """A Runner for orders whose message is `{"commands": [...], "seconds": N}`.

    The final text is `{"proofs": [{"command", "code", "output", "seconds", "fault"}]}`, one for each command.
    """

    def __init__(self, boundary: Boundary) -> None:
        super().__init__()
        self._boundary = boundary

    def _turn_of(self, order: Order, tell: Tell) -> ProofTurn:
        return ProofTurn(self._boundary, order, tell)


class ProofTurn(TurnThread):
    """Runs the commands of one order, one after another: all of them end SPARE_SECONDS before the turn's time."""

    hopeless: ClassVar[tuple[type[Exception], ...]] = (BoundaryError, DocumentError)

    def __init__(self, boundary: Boundary, order: Order, tell: Tell) -> None:
        super().__init__(order, tell)
        self._boundary = boundary
        self._deadline = time.monotonic() + max(0.0, order.time_limit_seconds - SPARE_SECONDS)

    def _progress(
        self, use: str, text: str = "", result: str = "", *, over: bool = False, failed: bool = False
    ) -> None:
        self._tell(
            Progress(
                job=self.order.job,
                turn=self.order.turn,
                text=last_of(text, SHOWN),
                tool=_TOOL,
                use=use,
                over=over,
                result=last_of(result, SHOWN),
                failed=failed,
            )
        )

    def _carry_out(self, ended: Ended) -> Ended:
        order, task = self.order, read_task(self.order.message)
        self._boundary.hand_over(order.site.workspace)
        trial = CommandTrial(
            self._boundary, order.site, homes=Path(order.home), mark=f"{order.job}/{order.turn}", woken=self._woken
        )
        done: list[CommandResult] = []
        for number, command in enumerate(task.commands, 1):
            if self._cancelled:
                break
            done.append(self._try(trial, command, task.seconds, str(number)))
        room = min(TAIL, ROOM // len(task.commands))
        text = json.dumps({"proofs": [tried.document(room) for tried in done]}, ensure_ascii=False)
        boundary = next((tried.boundary for tried in reversed(done) if tried.boundary), None)
        return replace(ended, text=text, boundary=boundary)

    def _try(self, trial: CommandTrial, command: str, seconds: float, use: str) -> CommandResult:
        self._progress(use, cut(command, SHOWN))
        left = self._deadline - time.monotonic()
        if left <= 0:
            tried = CommandResult(command, -1, fault="it was not run: the turn's time was used up by those before it")
        else:
            tried = trial.run(command, min(seconds, left))
        how = tried.fault or (f"exit {tried.code}" if tried.code >= 0 else f"killed by signal {-tried.code}")
        failed = bool(tried.fault) or tried.code != 0
        self._progress(use, result=cut(f"{how}\n{tried.output}".strip(), SHOWN), over=True, failed=failed)
        return tried
