"""A step as the laws read it: what it took and gave, and what its rule may do to mail and to the tree.

The tables here say what each rule is for. They share no code with the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from parley.protocol.errors import Violated
from parley.protocol.molecules import (
    ORCHESTRATOR,
    PROXY,
    AskHuman,
    AskQuestion,
    Deliver,
    Interrupt,
    Kind,
    Mailbox,
    Molecule,
    Origin,
    Parent,
    Payload,
    Policy,
    Proxy,
    Question,
    Record,
    Run,
    Send,
    escalation_thread,
    job_thread,
    thread_kind,
)
from parley.protocol.rule import Answer, Broadcast, Ending, Firing, Opening, Reaction
from parley.protocol.soup import Soup

M = TypeVar("M")
Who = tuple[str, str]
Queue = tuple[str, ...]


class Step:
    """A step: the soup before it, the firing, and its net effect: what is gone and what is new."""

    __slots__ = ("_gone", "_made", "at", "before", "born", "choice", "gone", "made", "mail", "reaction", "rule")

    def __init__(self, before: Soup, firing: Firing, reaction: Reaction) -> None:
        self.before = before
        self.rule = firing.rule
        self.at = firing.at[:2] if firing.rule == "give-up" else firing.at  # behind them: that it is hopeless
        self.choice: Any = firing.choice
        self.reaction = reaction
        self.made = list(reaction.produced)
        self.gone: list[Molecule] = []
        for molecule in reaction.consumed:
            if molecule in self.made:
                self.made.remove(molecule)
            else:
                self.gone.append(molecule)
        self._gone = _by_kind(self.gone)
        self._made = _by_kind(self.made)
        self.born = newborn(self)
        self.mail = mail_of(self)

    def lost(self, kind: type[M]) -> list[M]:
        """What is gone of a kind."""
        return self._gone.get(kind, [])

    def new(self, kind: type[M]) -> list[M]:
        """What is new of a kind."""
        return self._made.get(kind, [])

    def had(self, kind: type[M], thread: str, agent: str | None = None) -> M:
        """A molecule without which this firing can't be."""
        found = self.before.get(kind, thread, agent)
        if found is None:
            raise Violated("left_side", f"[{self.rule}] fired with no {kind.__name__} on {thread}")
        return found

    def kept(self, kind: type[M], thread: str) -> list[M]:
        """What is on a thread after the step, of what was there before it."""
        return [m for m in self.before.all(kind, thread) if m not in self.gone]

    def head(self) -> Payload:
        """The payload that a Send gives out in this step."""
        send = self.had(Send, self.at[1], self.at[0])
        if not send.payloads:
            raise Violated("left_side", f"[{self.rule}] fired with nothing to send on {send.thread}")
        return send.payloads[0]

    def payload(self, kind: type[M]) -> M:
        """The same, of the kind that the rule gives out."""
        head = self.head()
        if not isinstance(head, kind):
            raise Violated("left_side", f"[{self.rule}] fired with no {kind.__name__} to send on {self.at[1]}")
        return head

    def chosen(self, kind: type[M]) -> M:
        """What was chosen, which is of the kind that the rule takes."""
        if not isinstance(self.choice, kind):
            raise Violated("left_side", f"[{self.rule}] fired with no {kind.__name__} chosen")
        return self.choice

    def asks(self) -> tuple[Question, ...]:
        """The questions that are put in this step."""
        if self.rule == "ask":
            return self.had(AskQuestion, self.at[1], self.at[0]).questions
        return self.had(Send, self.at[1], self.at[0]).questions if self.rule == "send-ask" else ()


def _by_kind(molecules: list[Molecule]) -> dict[type[Any], list[Any]]:
    found: dict[type[Any], list[Any]] = {}
    for molecule in molecules:
        found.setdefault(type(molecule), []).append(molecule)
    return found


# ---- mail ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MailChange:
    """What a step may do to mail: messages that end, messages that begin, and mailboxes as they become."""

    ended: Queue = ()
    begun: Queue = ()
    boxes: tuple[tuple[Who, Queue | None], ...] = ()


def carried(molecule: Molecule) -> Queue:
    """The messages that a molecule holds."""
    if isinstance(molecule, Mailbox):
        return molecule.queue
    if isinstance(molecule, Run | Interrupt):
        return (molecule.message,)
    if isinstance(molecule, Send):
        letters = tuple(p.message for p in molecule.payloads if isinstance(p, Deliver))
        return (*letters, *(q.message for q in molecule.questions))
    return tuple(q.message for q in molecule.questions) if isinstance(molecule, AskQuestion) else ()


def _appended(step: Step, thread: str, message: str, agent: str | None = None) -> tuple[Who, Queue]:
    box = step.had(Mailbox, thread, agent)
    return (box.agent, thread), (*box.queue, message)


def _turn_ends(begun: Callable[[Step], Queue]) -> Callable[[Step], MailChange]:
    return lambda step: MailChange((step.had(Run, step.at[1], step.at[0]).message,), begun(step))


def _broadcast(step: Step) -> Queue:
    chosen = step.chosen(Broadcast)
    return carried(Send("", "", chosen.payloads, chosen.questions))


def _nothing(step: Step) -> Queue:
    return ()


def _send(step: Step) -> MailChange:
    letter = step.payload(Deliver)
    return MailChange(boxes=(_appended(step, letter.thread, letter.message, letter.agent),))


def _dead_letter(step: Step) -> MailChange:
    agent, thread = step.at
    box = _appended(step, thread, step.choice, agent)
    return MailChange((step.payload(Deliver).message,), (step.choice,), (box,))


def _wake(step: Step) -> MailChange:
    agent, thread = step.at
    return MailChange(boxes=(((agent, thread), step.had(Mailbox, thread, agent).queue[1:]),))


def _recover(step: Step) -> MailChange:
    agent, thread = step.at
    run = step.had(Run, thread, agent)
    if run.interrupt is not None:
        return MailChange()
    return MailChange(boxes=(((agent, thread), (run.message, *step.had(Mailbox, thread, agent).queue)),))


def _give_up(step: Step) -> MailChange:
    agent, thread = step.at
    lost = step.had(Run, thread, agent).message
    if thread_kind(thread) == "escalation":
        return MailChange((lost,))
    told = _appended(step, step.had(Parent, thread).thread, step.choice)
    if thread_kind(thread) == "state":  # a lead keeps its message
        return MailChange((), (step.choice,), (told, *_recover(step).boxes))
    return MailChange((lost,), (step.choice,), (told,))


def _straight(step: Step) -> set[str]:
    """The questions put in this step that go to the human with no turn of the proxy before: it gets no mail."""
    unseen = not step.before.charter.brief_human and any(p.policy is Policy.ALWAYS for p in step.new(Proxy))
    return {q.id for q in step.asks() if unseen or q.kind is Kind.FAILURE}


def _posed(step: Step) -> MailChange:
    straight = _straight(step)
    return MailChange(tuple(q.message for q in step.asks() if q.id in straight))


def _answered(step: Step) -> MailChange:
    answer = step.chosen(Answer)
    esc = escalation_thread(step.at[0])
    if step.rule == "human-reply":
        if answer.ruling is not None or step.had(AskHuman, esc).question.kind is Kind.FAILURE:
            return MailChange()
        return MailChange((), (answer.message,), (_appended(step, esc, answer.message),))
    proxy = step.had(Proxy, esc)
    return MailChange((), (answer.message,), (_appended(step, proxy.thread, answer.message, proxy.agent),))


def _relayed(step: Step) -> MailChange:
    """The lead of the record that a verdict is about is told of it."""
    record = step.had(Record, step.at[0])
    return MailChange((), (step.choice,), (_appended(step, record.thread, step.choice, record.actor),))


def _withdraw(step: Step) -> MailChange:
    """The parent is told of a withdrawal, if it lives."""
    ending = step.chosen(Ending)
    parent = step.before.parent(step.at[0])
    if ending.origin is not Origin.WITHDRAWAL or parent is None or step.before.dying(parent):
        return MailChange()
    return MailChange((), (ending.notice,), (_appended(step, parent, ending.notice),))


def _told(step: Step) -> MailChange:
    """The orchestrator is told, on the job's own thread."""
    root = job_thread(step.before.charter.job)
    return MailChange((), (step.choice,), (_appended(step, root, step.choice, ORCHESTRATOR),))


def _merged(step: Step) -> MailChange:
    agent, thread = step.at
    return MailChange((), (step.choice,), (_appended(step, thread, step.choice, agent),))


def _term_mbox(step: Step) -> MailChange:
    thread, agent = step.at
    return MailChange(step.had(Mailbox, thread, agent).queue, (), (((agent, thread), None),))


def _flushed(kind: type[Any]) -> Callable[[Step], MailChange]:
    return lambda step: MailChange(tuple(m for gone in step.lost(kind)[:1] for m in carried(gone)))


NO_MAIL = MailChange()

MAIL: Mapping[str, Callable[[Step], MailChange]] = MappingProxyType(
    {
        "open": lambda step: MailChange((), (step.chosen(Opening).request,)),
        "send": _send,
        "dead-letter": _dead_letter,
        "wake": _wake,
        "send-step": _turn_ends(_broadcast),
        "nosend-step": _turn_ends(_nothing),
        "ask-step": _turn_ends(lambda step: carried(AskQuestion("", "", step.choice.questions, Policy.NEVER))),
        "interrupt": _turn_ends(_nothing),
        "ask": _posed,
        "send-ask": _posed,
        "human-reply": _answered,
        "respond": _answered,
        "relay": _relayed,
        "intervene": lambda step: MailChange((), (step.chosen(Interrupt).message,)),
        "withdraw": _withdraw,
        "pending": _told,
        "observe": _told,
        "merge": _merged,
        "recover": _recover,
        "give-up": _give_up,
        "term-mbox": _term_mbox,
        "term-run": _flushed(Run),
        "term-send": _flushed(Send),
        "term-ask": _flushed(AskQuestion),
        "term-interrupt": _flushed(Interrupt),
    }
)
"""What each rule does to mail; a rule that is not here only moves messages, and touches no mailbox."""


def mail_of(step: Step) -> MailChange:
    """What the step may do to mail."""
    effect = MAIL.get(step.rule)
    return effect(step) if effect is not None else NO_MAIL


# ---- instances -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Born:
    """An instance that comes into being."""

    agent: str
    thread: str
    parent: str
    mail: Queue


def newborn(step: Step) -> list[Born]:
    """Who comes into being in this step, as [open], [spark] and the two that put questions have it."""
    if step.rule == "open":
        opening = step.chosen(Opening)
        return [Born(ORCHESTRATOR, job_thread(opening.charter.job), "", (opening.request,))]
    if step.rule == "spark":
        letter = step.payload(Deliver)
        return [Born(letter.agent, letter.thread, step.at[1], (letter.message,))]
    asked = step.asks()
    straight = _straight(step) if asked else set()
    return [Born(PROXY, escalation_thread(q.id), step.at[1], () if q.id in straight else (q.message,)) for q in asked]
