"""What became of a question that can't be answered any more: who answered it, or what ended it, and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from parley.bus.rows import InputRow, StepRow
from parley.bus.store import Store
from parley.engine.protocol_messages import excerpt
from parley.engine.values import human_inputs
from parley.engine.values.human_inputs import AnswerInput, WithdrawInput, is_in_vain, withdrawn_by
from parley.engine.values.people import People, people_of
from parley.engine.values.permissions import objection
from parley.engine.values.step_names import place_of
from parley.protocol.codec import decode_as
from parley.protocol.molecules import HUMAN, PROXY, escalation_thread, job_thread, thread_name
from parley.protocol.rule import Answer, Passage
from parley.protocol.states import Action

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
    people = people_of(store.load(job))
    for row in reversed(rows):  # also one that the owner has not taken yet
        said = human_inputs.read_or_none(row) if not is_in_vain(row) else None
        if isinstance(said, AnswerInput) and said.question == question and _counts(people, row, said):
            return answered(job, question, row)
    steps: dict[int, list[StepRow]] = {}
    end: StepRow | None = None
    for step in store.steps(job):
        if step.rule in _CAUSES:
            steps.setdefault(step.transaction, []).append(step)
        if step.rule in _ENDS and place_of(step).question == question:
            end = step
    if end is None:
        return None
    if end.rule == "respond":
        who = "the proxy" if end.who == PROXY else "the human"
        return Fate(
            question=question, job=job, answered=True, time=end.time, how=f"{_ruling(end) or 'in words'}, by {who}"
        )
    return Fate(
        question=question,
        job=job,
        answered=False,
        time=end.time,
        how=_cause(job, steps.get(end.transaction, []), rows, end),
    )


def _counts(people: People, row: InputRow, said: AnswerInput) -> bool:
    """Whether an answer was taken, or will be: its person may give one."""
    return bool(row.taken) or not objection(people, row.by, said)


def answered(job: str, question: str, row: InputRow) -> Fate:
    """The outcome of a question that was answered."""
    given = human_inputs.read_or_none(row)
    ruling = given.ruling if isinstance(given, AnswerInput) else None
    return Fate(question=question, job=job, answered=True, time=row.time, how=f"{ruling or 'in words'}, by {row.by}")


def _question(store: Store, job: str, given: str) -> str:
    threads = (message.thread for message in store.messages(job))
    found = next((thread for thread in threads if thread.startswith(escalation_thread(given))), "")
    return thread_name(found)


def _cause(job: str, steps: list[StepRow], rows: list[InputRow], end: StepRow) -> str:
    """What ended the question: the first that counts of what its transaction did."""
    for step in steps:
        if step.rule == "transition" and place_of(step).record == job:
            said = withdrawn_by(rows, job_thread(job), end.transaction)
            return _left(step, said.by if said else HUMAN)
        if step.rule == "withdraw" and step.who == HUMAN:
            thread = place_of(step).thread
            said = withdrawn_by(rows, thread, end.transaction)
            given = human_inputs.read_or_none(said) if said is not None else None
            what = "the job" if thread == job_thread(job) else thread
            reason = _reason(given.reason) if isinstance(given, WithdrawInput) else ""
            return f"{said.by if said else HUMAN} withdrew {what}{reason}"
    closed = any(step.rule == "send-terminate" for step in steps)
    return "its asker was closed" if closed else "its asker no longer waits for it: its state was left"


def _left(step: StepRow, by: str) -> str:
    """A transition that ended the question, in words."""
    passage = decode_as(Passage, step.choice)
    why = _reason(passage.reason)
    if passage.action is Action.WITHDRAW:
        return f"{by if passage.actor == HUMAN else passage.actor} withdrew the job{why}"
    return f"its state was left ({passage.action} by {passage.actor}{why})"


def _reason(text: str) -> str:
    return f" ({excerpt(text, REASON)})" if text else ""


def _ruling(step: StepRow) -> str:
    return decode_as(Answer, step.choice).ruling or "" if step.choice else ""
