"""Agent dynamics and the dispatch model: who may address whom, and the rules of a turn.

A turn goes Idle, Run, Send, Idle. [spark] brings an instance into being with all of its protocol surface, and draws
the only edge that leads to it; what an instance sees follows from the edges. [dead-letter] is added: a letter to an
instance that has died since it was accepted comes back to its sender.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator
from typing import Any

from parley.protocol.bounds import DEEPEST, counted
from parley.protocol.errors import Disabled, Refused
from parley.protocol.gates import refuse_assert
from parley.protocol.molecules import (
    ORCHESTRATOR,
    OWN,
    AskHuman,
    AskQuestion,
    Close,
    Crashed,
    Deliver,
    Hold,
    Idle,
    Interrupt,
    Kind,
    Mailbox,
    MessageKind,
    Molecule,
    Origin,
    Parent,
    Payload,
    Proxy,
    Question,
    Record,
    Role,
    Run,
    Send,
    Surface,
    Terminate,
    Tombstone,
    escalation_thread,
    job_thread,
    thread_kind,
)
from parley.protocol.rule import Broadcast, Firing, Menu, Reaction, Rule, Sites
from parley.protocol.soup import Soup, stirs
from parley.protocol.transitions import make_child_state

OWN_WORKSPACE = ("dispatch", "escalation")  # the kinds of threads whose instances share no workspace

# ---- who may address whom ------------------------------------------------------------------------


def sees(soup: Soup, agent: str, thread: str, other: str, other_thread: str) -> bool:
    """Whether (other, other_thread) is in the visibility of (agent, thread).

    Only a spark installs a surface and draws an edge, and it does both at once: so an instance sees
    those it sparked and the one that sparked it. The orchestrator sees its whole job.
    """
    surface = soup.get(Surface, other_thread, other)
    if surface is None or soup.get(Surface, thread, agent) is None:
        return False
    if agent == ORCHESTRATOR:
        return True
    return soup.linked(other_thread, thread) or soup.linked(thread, other_thread)


def visibility(soup: Soup, agent: str, thread: str) -> frozenset[tuple[str, str]]:
    """All that (agent, thread) sees."""
    return frozenset(
        (surface.agent, surface.thread)
        for surface in soup.of(Surface)
        if sees(soup, agent, thread, surface.agent, surface.thread) and surface.thread != thread
    )


def fresh(soup: Soup, thread: str) -> bool:
    """Whether nothing was ever installed on the thread."""
    return soup.get(Surface, thread) is None and soup.get(Mailbox, thread) is None and not soup.dying(thread)


def free_slots(soup: Soup, thread: str) -> int:
    """How many more dispatches the thread may have open."""
    return soup.charter.fan_out - soup.open_dispatches(thread)


# ---- which kinds of messages a surface takes -----------------------------------------------------

RESERVED = frozenset((MessageKind.REQUEST, MessageKind.QUESTION, MessageKind.REPLY, MessageKind.OUTCOME))
"""What the rules deliver to the orchestrator and the proxy alone."""


def misfit(role: Role) -> str:
    """Why a role can't take part, by the kinds that it takes; empty: it can.

    A notice reaches every other agent unasked, in a step that must not wait: so none may refuse it.
    """
    kinds = frozenset(role.takes)
    if len(kinds) < len(role.takes):
        return f"{role.name} lists a kind of messages twice"
    if role.name in OWN:
        due = OWN[role.name]
        return "" if kinds == frozenset(due) else f"{role.name} takes {', '.join(sorted(due))}, and nothing else"
    if wrong := sorted(kinds & RESERVED):
        return f"{role.name} can't take {', '.join(wrong)}"
    return "" if MessageKind.NOTICE in kinds else f"{role.name} must take the protocol's own notices"


def letter_kind(soup: Soup, agent: str, thread: str, target: str, opened: Container[str] = ()) -> MessageKind:
    """What a letter from (agent, thread) is on `target`; `opened`: the threads that its broadcast opens before it."""
    if target not in opened and fresh(soup, target):
        return MessageKind.TASK
    if agent == ORCHESTRATOR:
        return MessageKind.NOTICE
    return MessageKind.REPORT if soup.linked(thread, target) else MessageKind.MESSAGE


def refuse_untaken(soup: Soup, thread: str, kind: MessageKind) -> None:
    """A rule delivers a message only to a surface that takes its kind."""
    there = soup.need(Surface, thread)
    if kind not in there.messages:
        raise Disabled(f"{there.agent} takes no {kind} on {thread}")


class Admission:
    """A turn's broadcast as it grows, payload by payload: a close frees its slot for what comes after it.

    What is admitted always reduces later, except that its recipient may have died: a dead letter.
    """

    __slots__ = ("agent", "closed", "sparked", "thread")

    def __init__(self, agent: str, thread: str) -> None:
        self.agent = agent
        self.thread = thread
        self.sparked: dict[str, str] = {}  # the threads that the broadcast opens, and whose they are
        self.closed: set[str] = set()

    def admit(self, soup: Soup, payload: Payload) -> None:
        """Count the payload in, or refuse it and change nothing."""
        target = payload.thread
        if thread_kind(self.thread) == "escalation":
            raise Refused("a question ends with its answer; nothing else that is said here reaches anyone")
        if isinstance(payload, Close):
            self._admit_close(soup, target)
        elif target in self.closed:
            raise Refused(f"{target} was closed earlier in this turn")
        elif target in self.sparked or not fresh(soup, target):
            _refuse_unknown_recipient(soup, self.agent, self.thread, payload, self.sparked.get(target))
        else:
            _refuse_outsider(soup, self.agent, self.thread, payload)
            if thread_kind(self.thread) != "job" and self._slots(soup) <= 0:
                raise Refused(f"{soup.charter.fan_out} dispatches are open; close one before you open another")
            self.sparked[target] = payload.agent

    def _admit_close(self, soup: Soup, target: str) -> None:
        if target in self.closed:
            raise Refused(f"{target} is already closed in this turn")
        if target not in self.sparked and not soup.linked(target, self.thread):
            raise Refused(f"{target} is not a conversation that you opened")
        if thread_kind(target) == "escalation":
            raise Refused(f"{target} is a question; it ends with its answer")
        self.closed.add(target)

    def _slots(self, soup: Soup) -> int:
        freed = sum(target in self.sparked or not soup.dying(target) for target in self.closed)
        return free_slots(soup, self.thread) - len(self.sparked) + freed


def refuse_unless_admissible(soup: Soup, agent: str, thread: str, payloads: tuple[Payload, ...]) -> None:
    """Check a turn's whole broadcast in its order."""
    admission = Admission(agent, thread)
    for payload in payloads:
        admission.admit(soup, payload)


def _refuse_unknown_recipient(soup: Soup, agent: str, thread: str, payload: Deliver, sparked: str | None) -> None:
    if sparked is not None:
        if sparked != payload.agent:
            raise Refused(f"{payload.thread} belongs to {sparked}, not to {payload.agent}")
        role = soup.charter.role(sparked)
        if role is not None and MessageKind.MESSAGE not in role.takes:
            raise Refused(f"{sparked} takes no message after its task; put all of it into the task")
        return
    if soup.get(Tombstone, payload.thread) and soup.parent(payload.thread) == thread:
        return  # it died after the call was accepted: [dead-letter] will say so
    if not sees(soup, agent, thread, payload.agent, payload.thread):
        raise Refused(f"({payload.agent}, {payload.thread}) is not in your visibility")
    kind = letter_kind(soup, agent, thread, payload.thread)
    if kind not in soup.need(Surface, payload.thread, payload.agent).messages:
        raise Refused(f"{payload.agent} takes no {kind} on {payload.thread}; {_instead(kind, payload.thread)}")


def _instead(kind: MessageKind, target: str) -> str:
    """What a sender can do where its letter is not taken."""
    if thread_kind(target) == "escalation":
        return "a question ends with its answer"
    if kind is MessageKind.REPORT:
        return "leave what you have to say in your files"
    return "close it, and dispatch another for what is new"


def _refuse_outsider(soup: Soup, agent: str, thread: str, payload: Deliver) -> None:
    surface = soup.need(Surface, thread, agent)
    if payload.agent not in surface.team:
        known = ", ".join(sorted(surface.team)) or "no agent"
        raise Refused(f"{payload.agent} is not in your team; you may dispatch: {known}")
    role = soup.charter.role(payload.agent)
    if role is None:
        raise Refused(f"{payload.agent} has no role in this job")
    if MessageKind.TASK not in role.takes:
        raise Refused(f"{payload.agent} takes no task; dispatch another")
    if MessageKind.REPORT not in surface.messages:
        raise Refused("you take no report, so you can't dispatch anyone; do it yourself")
    if role.team and enclosing(soup, thread).depth >= DEEPEST:
        raise Refused(f"{payload.agent} would lead a team of its own, and teams are nested {DEEPEST} deep already")


def refuse_unless_askable(soup: Soup, agent: str, thread: str, questions: tuple[Question, ...]) -> None:
    """Check a turn's questions."""
    if questions and thread_kind(thread) == "escalation":
        raise Refused("you were asked; turn to the human or answer")
    if questions and MessageKind.ANSWER not in soup.need(Surface, thread, agent).messages:
        raise Refused("you take no answer, so you can't ask; say it in your report")
    if len({question.id for question in questions}) != len(questions):
        raise Refused("two questions have one id")
    for question in questions:
        if not fresh(soup, escalation_thread(question.id)):
            raise Refused(f"question {question.id} was asked before")
        if question.kind is Kind.ASSERT:
            refuse_assert(soup, enclosing(soup, thread), thread, question)
        elif question.kind is Kind.FAILURE and agent != ORCHESTRATOR:
            raise Refused("only the orchestrator opens a failure dialog")


def install(soup: Soup, role: Role, thread: str, parent: str, mail: tuple[str, ...]) -> tuple[Molecule, ...]:
    """The one registration path: every instance, of whatever tier, comes into being with these."""
    return (
        Mailbox(role.name, thread, mail),
        Idle(role.name, thread),
        Parent(thread, parent),
        surface(role, thread, workspace_of(soup, thread, parent)),
    )


def surface(role: Role, thread: str, workspace: str) -> Surface:
    """A role's surface on a thread."""
    return Surface(
        agent=role.name,
        thread=thread,
        team=role.team,
        tools=role.tools,
        messages=role.takes,
        workspace=workspace,
        asserts=role.asserts,
        rounds=role.rounds,
    )


def workspace_of(soup: Soup, thread: str, parent: str) -> str:
    """Whose workspace a new instance works in: a dispatch and a question have one of their own, leads share the job's.

    A question's is a clone of what its asker had committed: the asker goes on and can't change what the proxy reads.
    """
    if thread_kind(thread) in OWN_WORKSPACE:
        return thread
    above = soup.get(Surface, parent)
    return above.workspace if above else parent


def led_by(soup: Soup, thread: str) -> Record | None:
    """The record whose lead works on the thread, if it leads one."""
    record = soup.get(Record, thread) or soup.get(Record, soup.charter.job)
    return record if record is not None and record.thread == thread else None


def enclosing(soup: Soup, thread: str) -> Record:
    """The live record whose state a thread works for: its own, or the nearest above it."""
    here: str | None = thread
    while here is not None:
        record = soup.get(Record, here)
        if record is not None and record.live:
            return record
        here = soup.parent(here)
    return soup.need(Record, soup.charter.job)


UNDER_WAY: tuple[type[Any], ...] = (Run, Send, AskQuestion, Mailbox, Proxy, AskHuman, Interrupt)


def works_below(soup: Soup, thread: str, closed: Collection[str] = ()) -> bool:
    """Whether anything goes on below a thread; what is in `closed` does not count."""
    waiting = [child for child in soup.children(thread) if child not in closed]
    while waiting:
        here = waiting.pop()
        if any(stirs(molecule) for kind in UNDER_WAY for molecule in soup.all(kind, here)):
            return True
        waiting.extend(soup.children(here))
    return False


def finished(soup: Soup, thread: str) -> bool:
    """Whether a dispatched instance has done all that it was asked: it waits for mail, and nothing of it goes on.

    A turn that ends with nothing under way reports to its dispatcher, so one that has come to rest has reported.
    """
    at_work = any(stirs(molecule) for kind in UNDER_WAY for molecule in soup.all(kind, thread))
    return soup.get(Idle, thread) is not None and not at_work and not works_below(soup, thread)


# ---- the rules -----------------------------------------------------------------------------------


def _heads(soup: Soup, kind: type[Payload]) -> Iterator[tuple[Send, Payload]]:
    for send in soup.of(Send):
        if send.payloads and isinstance(send.payloads[0], kind):
            yield send, send.payloads[0]


def _sending(soup: Soup, firing: Firing) -> Send:
    """The Send whose first payload is next."""
    agent, thread = firing.at
    send = soup.need(Send, thread, agent)
    if not send.payloads:
        raise Disabled(f"{agent} has nothing left to send on {thread}")
    return send


def _letter(send: Send) -> Deliver:
    """The next payload, where that is a message."""
    payload = send.payloads[0]
    if not isinstance(payload, Deliver):
        raise Disabled(f"the next payload of {send.agent} on {send.thread} is a close")
    return payload


def _rest(send: Send) -> Send:
    """What is left to send after the next payload."""
    return Send(send.agent, send.thread, send.payloads[1:], send.questions)


def _send_sites(name: str) -> Sites:
    def sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
        for send, _ in _heads(soup, Deliver):
            for choice in menu(name, soup, send):
                yield Firing(name, (send.agent, send.thread), choice)

    return sites


def _send(soup: Soup, firing: Firing) -> Reaction:
    send = _sending(soup, firing)
    letter = _letter(send)
    mailbox = soup.need(Mailbox, letter.thread, letter.agent)
    if not sees(soup, send.agent, send.thread, letter.agent, letter.thread):
        raise Disabled(f"({letter.agent}, {letter.thread}) is not in the sender's visibility")
    refuse_untaken(soup, letter.thread, letter_kind(soup, send.agent, send.thread, letter.thread))
    return Reaction((send, mailbox), (_rest(send), mailbox.grown(letter.message)))


def _spark(soup: Soup, firing: Firing) -> Reaction:
    send = _sending(soup, firing)
    letter = _letter(send)
    if not fresh(soup, letter.thread):
        raise Disabled(f"{letter.thread} is not a new thread")
    sender = soup.need(Surface, send.thread, send.agent)
    role = soup.charter.role(letter.agent)
    if role is None or letter.agent not in sender.team:
        raise Disabled(f"{letter.agent} is not in the team of {send.agent}")
    if MessageKind.TASK not in role.takes or MessageKind.REPORT not in sender.messages:
        raise Disabled(f"{letter.agent} takes no task, or {send.agent} no report")
    if thread_kind(send.thread) != "job" and free_slots(soup, send.thread) <= 0:
        raise Disabled(f"{send.agent} has no free slot on {send.thread}")
    if role.team and thread_kind(letter.thread) == "dispatch" and enclosing(soup, send.thread).depth >= DEEPEST:
        raise Disabled(f"{letter.agent} would lead a team, and teams are nested {DEEPEST} deep already")
    made = install(soup, role, letter.thread, send.thread, (letter.message,))
    if thread_kind(letter.thread) == "dispatch" and role.team:
        above = enclosing(soup, send.thread)
        intent = soup.charter.phases[0].artifact
        made = (*made, make_child_state(above, team_id=role.name, task_id=letter.thread, intent=intent))
    return Reaction((send,), (_rest(send), *made))


def _dead_letter(soup: Soup, firing: Firing) -> Reaction:
    send = _sending(soup, firing)
    letter = _letter(send)
    soup.need(Tombstone, letter.thread)
    mailbox = soup.need(Mailbox, send.thread, send.agent)
    refuse_untaken(soup, send.thread, MessageKind.NOTICE)
    return Reaction((send, mailbox), (_rest(send), mailbox.grown(firing.chosen(str))))


def _send_terminate_sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
    for send, _ in _heads(soup, Close):
        yield Firing("send-terminate", (send.agent, send.thread))


def _send_terminate(soup: Soup, firing: Firing) -> Reaction:
    send = _sending(soup, firing)
    payload = send.payloads[0]
    if not isinstance(payload, Close):
        raise Disabled(f"the next payload of {send.agent} on {send.thread} is a message")
    edge = Parent(payload.thread, send.thread)
    if edge not in soup:
        raise Disabled(f"{payload.thread} was not sparked from {send.thread}")
    subteam = soup.get(Record, payload.thread) is not None
    accepts = subteam and payload.origin is Origin.CLOSE and finished(soup, payload.thread)
    origin = Origin.ACCEPT if accepts else payload.origin
    return Reaction((send, edge), (_rest(send), edge, Terminate(payload.thread, origin)))


def _send_empty_sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
    for send in soup.of(Send):
        if not send.payloads and not send.questions:
            yield Firing("send-empty", (send.agent, send.thread))


def _send_empty(soup: Soup, firing: Firing) -> Reaction:
    agent, thread = firing.at
    send = soup.need(Send, thread, agent)
    if send.payloads or send.questions:
        raise Disabled(f"{agent} is still sending on {thread}")
    return Reaction((send,), (Idle(agent, thread),))


def refuse_while_held(soup: Soup, thread: str) -> None:
    """[wake] and [wake-int] alone wait for a hold to be released: of the whole job, or of this instance."""
    hold = soup.get(Hold, job_thread(soup.charter.job)) or soup.get(Hold, thread)
    if hold is not None:
        raise Disabled(f"{hold.thread} is held: {hold.cause}")


def _wake_sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
    for idle in soup.of(Idle):
        for choice in menu("wake", soup, idle):
            yield Firing("wake", (idle.agent, idle.thread), choice)


def _wake(soup: Soup, firing: Firing) -> Reaction:
    agent, thread = firing.at
    idle = soup.need(Idle, thread, agent)
    mailbox = soup.need(Mailbox, thread, agent)
    if not mailbox.queue:
        raise Disabled(f"{agent} has no mail on {thread}")
    if soup.get(Interrupt, thread) is not None:
        raise Disabled(f"an interrupt goes first on {thread}")
    refuse_while_held(soup, thread)
    run = Run(agent, thread, mailbox.queue[0], firing.chosen(str))
    return Reaction((idle, mailbox), (run, Mailbox(agent, thread, mailbox.queue[1:])))


def run_sites(name: str) -> Sites:
    """The sites of a rule that ends a turn in a way that its agent chooses."""

    def sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
        for run in soup.of(Run):
            for choice in menu(name, soup, run):
                yield Firing(name, (run.agent, run.thread), choice)

    return sites


def forgiven(soup: Soup, agent: str, thread: str) -> tuple[Molecule, ...]:
    """What a turn that ends well takes along: its instance's count of crashes."""
    crashed = soup.get(Crashed, thread, agent)
    return (crashed,) if crashed else ()


def _send_step(soup: Soup, firing: Firing) -> Reaction:
    agent, thread = firing.at
    run = soup.need(Run, thread, agent)
    chosen = firing.chosen(Broadcast)
    refuse_unless_admissible(soup, agent, thread, chosen.payloads)
    refuse_unless_askable(soup, agent, thread, chosen.questions)
    gone, tally = counted(soup, agent, thread, chosen.payloads, chosen.questions, progress=chosen.progress)
    send = Send(agent, thread, chosen.payloads, chosen.questions)
    return Reaction((run, *forgiven(soup, agent, thread), *gone), (send, *tally))


def _nosend_step(soup: Soup, firing: Firing) -> Reaction:
    agent, thread = firing.at
    run = soup.need(Run, thread, agent)
    return Reaction((run, *forgiven(soup, agent, thread)), (Idle(agent, thread),))


RULES = (
    Rule(
        name="send",
        section="§5",
        shape="Send(B, t, (A,t',x):msgs) ‖ Mailbox_A(t', as) → Send(B, t, msgs) ‖ Mailbox_A(t', as ++ [x])",
        when="(A, t') is in B's visibility, and takes what x is to it: a message, a report, a notice",
        sites=_send_sites("send"),
        react=_send,
    ),
    Rule(
        name="spark",
        section="§5",
        shape="Send(B, t, (A,t',x):msgs) → Send(B, t, msgs) ‖ Mailbox_A(t', [x]) ‖ Idle_A(t') ‖ Parent(t', t)",
        besides="ε → Surface_A(t') ‖ Record(t', INTENT)?",
        when=(
            "t' is new, A is in B's team and takes tasks, B takes reports and has a free slot; a role with a team also "
            "gets its Record, four deep at most"
        ),
        sites=_send_sites("spark"),
        react=_spark,
    ),
    Rule(
        name="send-terminate",
        section="§5",
        shape="Send(B, t, terminate(t'):msgs) ‖ Parent(t', t) → Send(B, t, msgs) ‖ Parent(t', t) ‖ Terminate(t')",
        when="the close of a subteam that has finished accepts its work",
        sites=_send_terminate_sites,
        react=_send_terminate,
    ),
    Rule(
        name="send-empty",
        section="§5",
        shape="Send(B, t, []) → Idle_B(t)",
        when="no questions ride on it",
        sites=_send_empty_sites,
        react=_send_empty,
    ),
    Rule(
        name="wake",
        section="§5",
        shape="Idle_A(t) ‖ Mailbox_A(t, m:rs) → Run(A, t, m) ‖ Mailbox_A(t, rs)",
        when="no Interrupt(t, _), no Hold on the job or on t",
        sites=_wake_sites,
        react=_wake,
    ),
    Rule(
        name="send-step",
        section="§5",
        shape="Run(A, t, m) → Send(A, t, xs)",
        besides="Crashed_A(t)? ‖ Tally_A(t)? → Tally_A(t)?",
        when=(
            "every payload and question was admissible, earlier ones counted; t is no escalation's; A has not sent and "
            "asked too often"
        ),
        sites=run_sites("send-step"),
        react=_send_step,
    ),
    Rule(
        name="nosend-step",
        section="§5",
        shape="Run(A, t, m) → Idle_A(t)",
        besides="Crashed_A(t)? → ε",
        sites=run_sites("nosend-step"),
        react=_nosend_step,
    ),
    Rule(
        name="dead-letter",
        section="added",
        shape="Send(B, t, (A,t',x):msgs) ‖ Mailbox_B(t, as) → Send(B, t, msgs) ‖ Mailbox_B(t, as ++ [notice])",
        when="t' has a Tombstone",
        sites=_send_sites("dead-letter"),
        react=_dead_letter,
    ),
)
