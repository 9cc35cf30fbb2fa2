"""A job that the human gives up: by `withdraw`, or by the answer to a question.

The lead that has asked gets the marker and writes its outcome. Where it writes none, or can't be woken for it, the
human's word is carried out all the same; where another agent has asked, at once.
"""

from __future__ import annotations

from parley.engine.outbox import WriteAnchor
from parley.engine.owned_job import OwnedJob
from parley.engine.reduction import message, terminate
from parley.engine.values import message_meta
from parley.engine.values.message_meta import Answered
from parley.engine.world import World
from parley.protocol.molecules import HUMAN, Crashed, Idle, Interrupt, Mailbox, Origin, Run, Verdict
from parley.protocol.rule import Ending, Passage
from parley.protocol.states import Action

LAST_WORD_SECONDS = 60.0  # that a lead has to write its outcome: the job's other agents are at work meanwhile


def withdraw_job(job: OwnedJob, world: World, reason: str) -> None:
    """The human abandons the job: its record ends, and its whole tree with it, in this transaction."""
    now = world.clock.now()
    job.ask(WriteAnchor())  # another process waits to read that all of this was carried out
    passage = Passage(Action.WITHDRAW, HUMAN, now, reason)
    job.fire("transition", job.id, choice=passage, who=HUMAN, time=now)
    job.fire("withdraw", job.thread, choice=Ending(Origin.WITHDRAWAL), who=HUMAN, time=now)
    terminate(job, world, job.thread)


def carry_out(job: OwnedJob, world: World, word: Verdict) -> None:
    """Withdraw the job on the human's answer to a question."""
    withdraw_job(job, world, reason_of(job, world, word))


def reason_of(job: OwnedJob, world: World, word: Verdict) -> str:
    """Why the job is given up: the human's words, and which question they answer."""
    answer = message(job, world, word.answer)
    words = message_meta.read_as(Answered, answer).text.strip()
    where = f"the answer to question {word.question} of {answer.agent}"
    return f"{words} ({where})" if words else where


def is_awaited(job: OwnedJob, world: World, word: Verdict) -> bool:
    """Whether the job's lead is at work on the marker, and may still write its outcome: it has its time for that."""
    run = job.soup.get(Run, job.record.thread)
    if run is None or run.message != word.answer:
        return False
    turn = job.running.get(run.turn)
    return turn is None or world.clock.now() - turn.begun < LAST_WORD_SECONDS


def may_write(job: OwnedJob, word: Verdict) -> bool:
    """Whether the job's lead could take the marker up now: it waits, and nothing else comes first.

    A lead that has other mail to read, or has lost its turn on the marker, is not waited for.
    """
    soup, record = job.soup, job.record
    box = soup.get(Mailbox, record.thread, record.actor)
    waits = soup.get(Idle, record.thread, record.actor) is not None and box is not None
    first = waits and box is not None and box.queue[:1] == (word.answer,)
    return first and not soup.all(Interrupt, record.thread) and soup.get(Crashed, record.thread) is None
