"""What became of a question that can't be answered any more: who answered it, or what ended it, and when."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from parley.core.states import Action
from parley.core.terms import HUMAN, PROXY, escalation_thread, job_thread
from parley.engine.records import LATE, REFUSED
from parley.engine.stand_in import STAND_INS
from parley.engine.texts import excerpt
from parley.ports import InputRow, StepRow, Store

_ENDS = ("human-reply", "respond", "term-human", "term-proxy")
_CAUSES = ("withdraw", "send-terminate", "transition")
REASON = 80  # characters


@dataclass(frozen=True, slots=True)
class Fate:
    """How a question came to be closed."""

    question: str
    job: str
    answered: bool
    time: float
    how: str  # who has said what, or what has ended it

    def words(self, clock: Callable[[float], str]) -> str:
        """The same in one line."""
        if self.answered:
            return f"question {self.question} was answered before: {self.how} at {clock(self.time)}"
        return f"question {self.question} is closed: {self.how} at {clock(self.time)}"


def fate(store: Store, job: str, given: str) -> Fate | None:
    """What became of the question of a job whose id begins so; None if the job never had one."""
    question = _question(store, job, given)
    if not question:
        return None
    rows = store.inputs(job, waiting=False)
    may = (store.load(job).row.decider, *STAND_INS)
    for row in reversed(rows):  # also one that nobody has taken yet
        said = row.kind == "answer" and row.by in may and not _in_vain(row)
        if said and _body(row).get("question") == question:
            return answered(job, question, row)
    steps: dict[int, list[StepRow]] = {}
    end: StepRow | None = None
    for step in store.steps(job):
        if step.rule in _CAUSES:
            steps.setdefault(step.transaction, []).append(step)
        if step.rule in _ENDS and question in step.at.split(" "):
            end = step
    if end is None:
        return None
    if end.rule == "respond":
        who = "the proxy" if end.who == PROXY else "the human"
        return Fate(question, job, True, end.time, f"{_ruling(end) or 'in words'}, by {who}")
    return Fate(question, job, False, end.time, _cause(job, steps.get(end.transaction, []), rows, end))


def answered(job: str, question: str, row: InputRow) -> Fate:
    """The fate of a question that somebody answered."""
    return Fate(question, job, True, row.time, f"{_body(row).get('ruling') or 'in words'}, by {row.by}")


def _question(store: Store, job: str, given: str) -> str:
    for message in store.messages(job):
        if '"question"' in message.meta:
            name = str(json.loads(message.meta).get("question", ""))
            if name.startswith(given):
                return name
        elif message.thread.startswith(escalation_thread(given)):
            return message.thread.partition(":")[2]  # a failure dialog
    return ""


def _cause(job: str, steps: list[StepRow], rows: list[InputRow], end: StepRow) -> str:
    """What ended the question: the first that counts of what its transaction did."""
    said = next((row for row in rows if row.taken == end.transaction and row.kind == "withdraw"), None)
    for step in steps:
        if step.rule == "transition" and step.at == job:
            return _left(step, said.by if said else HUMAN)
        if step.rule == "withdraw" and step.who == HUMAN:
            by, reason = (said.by, _reason(_body(said).get("reason"))) if said else (HUMAN, "")
            what = "the job" if step.at == job_thread(job) else step.at
            return f"{by} withdrew {what}{reason}"
    closed = any(step.rule == "send-terminate" for step in steps)
    return "whoever asked was closed" if closed else "nobody asks it any more: its state was left"


def _left(step: StepRow, by: str) -> str:
    """A transition that ended the question, in words."""
    action, actor, _, reason, *_ = json.loads(step.choice)["Passage"]
    why = _reason(reason)
    if action == Action.WITHDRAW:
        return f"{by if actor == HUMAN else actor} withdrew the job{why}"
    return f"its state was left ({action} by {actor}{why})"


def _reason(text: Any) -> str:
    return f" ({excerpt(str(text), REASON)})" if text else ""


def _ruling(step: StepRow) -> str:
    values = json.loads(step.choice)["Answer"] if step.choice else []
    return str(values[2]) if len(values) > 2 and values[2] else ""  # noqa: PLR2004 - message, author, ruling


def _body(row: InputRow) -> dict[str, Any]:
    try:
        found = json.loads(row.body)
    except ValueError:
        return {}  # anyone may leave one
    return found if isinstance(found, dict) else {}


def _in_vain(row: InputRow) -> bool:
    """Whether an answer had no effect: what closed the question is something else."""
    return row.note.startswith((LATE, REFUSED))
