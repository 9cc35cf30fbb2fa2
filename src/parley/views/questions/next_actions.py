"""The situations that a job may be in, and what leads out of each: in words, and as a command.

Pure over a job's present. Every live job is in at least one situation, and every situation has an exit.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from parley.base.wording import count
from parley.bus.slots import number_of
from parley.engine.values import message_meta
from parley.engine.values.hold_causes import Budget, Stall, Stuck, cause_of, stall_of, wait_on
from parley.engine.values.message_meta import Conflicted, Stalled
from parley.features.budgets.arithmetic import raising
from parley.protocol.molecules import (
    ORCHESTRATOR,
    PROXY,
    AskHuman,
    Hold,
    Idle,
    Interrupt,
    Kind,
    Mailbox,
    Proxy,
    Run,
    Surface,
    job_thread,
    thread_kind,
    thread_name,
)
from parley.views.job_view import TERMINAL, Asked, Present, moment
from parley.views.questions.needs import BUDGET, Exit, exits_of, ways_on
from parley.workflow.model.terms import EXECUTOR


@dataclass(frozen=True, slots=True)
class Situation:
    """Something that a job, or an instance of it, is in, with its exits. Some pass by themselves; all can be left."""

    kind: str
    thread: str
    words: str
    exits: tuple[Exit, ...]

    def document(self) -> dict[str, Any]:
        """The situation as `--json` gives it."""
        return {
            "kind": self.kind,
            "thread": self.thread,
            "words": self.words,
            "exits": [way.document() for way in self.exits],
        }


def situations(present: Present) -> list[Situation]:
    """What a live job is in now: what needs a person first. None once it has ended."""
    if present.row.state in TERMINAL:
        return []
    asked = present.questions()
    found = [
        *_unattended(present),
        *_questions(asked),
        *_held(present),
        *_instances(present, frozenset(one.id for one in asked)),
        *_pending(present),
    ]
    if not found:
        begins = "it is about to begin"
        found = [Situation("idle", job_thread(present.job), begins, (_look(present), _withdraw(present)))]
    return sorted(found, key=lambda situation: _ORDER.index(situation.kind))


_ORDER = (
    "question", "gate", "failure", "budget", "stopped", "unattended", "paused", "stalled", "conflict", "intervention",
    "answered", "parked", "waiting for your word", "running", "asking", "mail", "waiting", "idle",
)  # fmt: skip


# ---- the whole job -------------------------------------------------------------------------------


def _resume(present: Present) -> Exit:
    for line in present.spent():
        return Exit("raise the budget, and go on", raising(present.job, line))
    return Exit("go on", f"parley resume {present.job}")


def _withdraw(present: Present) -> Exit:
    return Exit("give the job up", f"parley withdraw {present.job}")


def _unattended(present: Present) -> Iterator[Situation]:
    """No process works on the job: what is written of its instances waits for its next owner."""
    if present.stopped:
        words = (
            f"process {present.stopped}, which has it in hand, is stopped: nothing goes on, and no time limit counts"
        )
        yield Situation("stopped", job_thread(present.job), words, ways_on(present))
    elif not present.owned:
        words = "no process works on it"
        yield Situation("unattended", job_thread(present.job), words, (_resume(present), _withdraw(present)))


def _questions(questions: Iterable[Asked]) -> Iterator[Situation]:
    kinds = {"assert": "gate", "failure": "failure"}
    for asked in questions:
        words = f"{asked.asker} waits for your answer to question {asked.id}"
        yield Situation(kinds.get(asked.kind, "question"), asked.thread, words, exits_of(asked))


def _held(present: Present) -> Iterator[Situation]:
    out = (_resume(present), _withdraw(present))
    for hold in present.soup.all(Hold, job_thread(present.job)):
        cause = cause_of(hold)
        if not isinstance(cause, Budget):
            yield Situation("paused", hold.thread, "it is paused: no turn begins", out)
        else:
            line = next((line for line in present.spent() if line.cause == cause), None)
            spent = line.words() if line else f"{cause.what} {cause.scope}"
            words = f"its budget is spent ({spent}): no turn begins"
            raised = Exit("raise it, and go on", raising(present.job, line)) if line else _resume(present)
            look = Exit("see what it has used", f"parley show {present.job}")
            yield Situation(BUDGET, hold.thread, words, (raised, _withdraw(present), look))


# ---- its instances -------------------------------------------------------------------------------


def _instances(present: Present, asked: frozenset[str]) -> Iterator[Situation]:
    """Those of its instances; `asked`: the questions that wait for the human."""
    for thread in present.threads():
        if thread.agent != ORCHESTRATOR:
            yield from _instance(present, present.soup.need(Surface, thread.id, thread.agent), asked)


def _instance(present: Present, surface: Surface, asked: frozenset[str]) -> Iterator[Situation]:
    soup, thread, agent = present.soup, surface.thread, surface.agent
    name = f"{agent} on {thread}"
    held = next((hold for hold in soup.all(Hold, thread) if not isinstance(cause_of(hold), Stall)), None)
    mailbox = soup.get(Mailbox, thread, agent)
    yield from _conflicts(present, surface, mailbox)
    if soup.get(Run, thread, agent) is not None:
        yield _at_work(present, surface)
    elif (wait := wait_on(soup, thread)) is not None:
        words = f"{name} {wait.words(time.time())}"
        yield Situation("parked", thread, words, (_look(present), _end(present, thread)))
    elif held is not None and isinstance(cause_of(held), Stuck):
        yield _stuck(present, surface)
    elif mailbox is not None and mailbox.queue:
        yield _with_mail(present, surface, len(mailbox.queue))
    elif agent != PROXY and [*soup.all(Proxy, thread), *soup.all(AskHuman, thread)]:
        words = f"{name} has asked, and goes on with the answer"
        yield Situation("asking", thread, words, (_look(present), _tell(present, thread), _end(present, thread)))
    elif any(soup.get(Surface, child) for child in soup.children(thread) if thread_kind(child) == "dispatch"):
        words = f"{name} waits for those it has dispatched"
        yield Situation("waiting", thread, words, (_tell(present, thread), _end(present, thread)))
    elif agent == PROXY:
        yield from _asked(present, thread, asked)
    elif soup.get(Idle, thread, agent) is not None:
        words = f"{name} has nothing to do, and waits for mail"
        yield Situation("idle", thread, words, (_tell(present, thread), _end(present, thread)))


def _stuck(present: Present, surface: Surface) -> Situation:
    """A lead whose turn was lost too often: it waits for what the human says to the failure dialog."""
    name, end = f"{surface.agent} on {surface.thread}", _end(present, surface.thread)
    dialogs = present.soup.all(AskHuman, job_thread(present.job))
    question = next((asked.id for asked in dialogs if asked.question.kind is Kind.FAILURE), "")
    if not question:  # the human has spoken, and the job's owner is about to take it
        out = _look(present) if present.owned else _resume(present)
        return Situation("waiting for your word", surface.thread, f"{name} is about to be tried again", (out, end))
    answer = Exit("say what is to become of it", f"parley answer {question} --approve")
    words = f"{name} is not tried again before you answer question {question}"
    return Situation("waiting for your word", surface.thread, words, (answer, end))


def _at_work(present: Present, surface: Surface) -> Situation:
    thread, name = surface.thread, f"{surface.agent} on {surface.thread}"
    if not present.owned:
        words = f"{name} lost its turn with the process that ran it; it is tried again"
        return Situation("running", thread, words, (_resume(present), _end(present, thread)))
    if (waits := wait_on(present.soup, thread)) is not None:
        ways = (_look(present), *_redirect(present, surface), _end(present, thread))
        return Situation("parked", thread, f"{name} {waits.words(time.time())}", ways)
    stall = stall_of(present.soup, thread)
    wait = Exit("wait: its turn has a time limit", f"parley tree {present.job}")
    if stall is not None:
        words = f"{name} is stalled since {moment(stall.since)}"
        return Situation("stalled", thread, words, (wait, *_redirect(present, surface), _end(present, thread)))
    later = () if surface.agent == PROXY else (_tell(present, thread),)
    ways = (wait, *later, *_redirect(present, surface), _end(present, thread))
    return Situation("running", thread, f"{name} is at work", ways)


def _redirect(present: Present, surface: Surface) -> tuple[Exit, ...]:
    """Only the human whom the proxy asks talks to it."""
    return () if surface.agent == PROXY else (_tell(present, surface.thread, now=True),)


def _with_mail(present: Present, surface: Surface, mail: int) -> Situation:
    name = f"{surface.agent} on {surface.thread}"
    messages = "a message" if mail == 1 else count(mail, "message")
    if present.paused or present.unpaid:
        words = f"{name} has {messages}, and is held"
        return Situation("mail", surface.thread, words, (_resume(present), _end(present, surface.thread)))
    if not present.owned:
        words = f"{name} has {messages}, and no process to wake it"
        return Situation("mail", surface.thread, words, (_resume(present), _end(present, surface.thread)))
    words = f"{name} has {messages}, and goes on by itself"
    return Situation("mail", surface.thread, words, (_look(present), _end(present, surface.thread)))


def _asked(present: Present, thread: str, asked: frozenset[str]) -> Iterator[Situation]:
    """The proxy whose question is before the human; where its answer is given, but not taken yet, that is said."""
    name = thread_name(thread)
    if present.soup.get(AskHuman, thread) is not None and name not in asked:
        words = f"question {name} is answered, and the process that works on the job takes the answer"
        out = _look(present) if present.owned else _resume(present)
        yield Situation("answered", thread, words, (out, _withdraw(present)))


def _conflicts(present: Present, surface: Surface, mailbox: Mailbox | None) -> Iterator[Situation]:
    """A merge that its next turn is to settle."""
    run = present.soup.get(Run, surface.thread, surface.agent)
    waiting = [*(mailbox.queue if mailbox else ()), *([run.message] if run else [])]
    paths: list[str] = []
    for name in waiting:
        about = message_meta.read(present.store.message(present.job, number_of(name)))
        paths += about.paths if isinstance(about, Conflicted) else ()
    if paths:
        words = f"{surface.agent} on {surface.thread} has conflicts to settle in {', '.join(paths[:5])}"
        yield Situation(
            "conflict", surface.thread, words, (_tell(present, surface.thread), _end(present, surface.thread))
        )


def _pending(present: Present) -> Iterator[Situation]:
    """Interventions that wait for their turn; no outcome counts past an authoritative one."""
    for interrupt in present.soup.of(Interrupt):
        row = present.store.message(present.job, number_of(interrupt.message))
        if isinstance(message_meta.read(row), Stalled):
            continue
        surface = present.soup.get(Surface, interrupt.thread)
        who = f"{surface.agent} on {interrupt.thread}" if surface else interrupt.thread
        first = ", and no outcome counts before" if interrupt.authoritative else ""
        out = _resume(present) if present.paused or present.unpaid or not present.owned else _look(present)
        words = f"an intervention waits for {who}{first}"
        yield Situation("intervention", interrupt.thread, words, (out, _withdraw(present)))


# ---- ways out ------------------------------------------------------------------------------------


def _look(present: Present) -> Exit:
    return Exit("wait, and see who does what", f"parley tree {present.job}")


def _tell(present: Present, thread: str, *, now: bool = False) -> Exit:
    words = "cut its turn short with other words" if now else "tell it something when its turn ends"
    return Exit(words, f'parley intervene {present.job} "TEXT" --thread {thread}{" --now" if now else ""}')


def _end(present: Present, thread: str) -> Exit:
    """Only what was dispatched can be ended by itself."""
    here: str | None = thread
    while here is not None and thread_kind(here) != "dispatch":
        here = present.soup.parent(here) if thread_kind(here) == "escalation" else None
    if here is None:
        return _withdraw(present)
    surface = present.soup.get(Surface, here)
    executes = surface is not None and surface.agent == EXECUTOR
    words = "end the whole workflow" if executes else "end it, with all below it"
    return Exit(words, f"parley withdraw {present.job} --thread {here}")
