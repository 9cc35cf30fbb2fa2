"""Work that a step leaves out: of conversations that are still under way when one is closed, asserted or left.

What is left out follows from the soup, and from what the bus knows of trees, at the moment of the step. So the step
that decides it says it, for every author of the step, and an audit finds the same.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from parley.base.wording import count
from parley.bus.slots import tree_slot
from parley.ports.workspaces import retired_ref
from parley.protocol.molecules import (
    ORCHESTRATOR,
    AskHuman,
    Close,
    Deliver,
    Kind,
    Mailbox,
    Payload,
    Proxy,
    Record,
    Run,
    Surface,
    job_thread,
    thread_kind,
)
from parley.protocol.rule import Asking, Broadcast, Choice, Passage
from parley.protocol.soup import Soup
from parley.protocol.states import APPROVAL, TERMINAL, Action, is_backtrack

TELLING = frozenset(("send-step", "ask-step", "transition", "withdraw"))  # the rules whose steps leave something out
MOST = 20  # that a text names one by one

Begun = Callable[[str], float]  # when a turn under way has begun


class Doing(StrEnum):
    """What a conversation was at."""

    AT_WORK = "at work"
    ASKING = "asking"
    MAIL = "mail"  # it has messages that it has not read
    IDLE = "idle"  # it waits for its dispatcher, who never took over what it made


class End(StrEnum):
    """What the step makes of it."""

    GOES_ON = "goes on"
    CLOSED = "closed"  # by its dispatcher
    PHASE = "phase"  # its state ends, with all that was committed taken over
    DISCARDED = "discarded"  # a backtrack, a failure or a withdrawal takes nothing over


class Unfinished(Struct, frozen=True, omit_defaults=True):
    """One conversation whose work is not all in what a step brings, asserts or ends."""

    agent: str
    thread: str
    doing: Doing
    end: End
    since: float = 0.0  # its turn has begun; 0 where it is not at work
    mail: int = 0
    kept: str = ""  # the ref under which its files stay once it is closed

    def document(self) -> dict[str, Any]:
        """As `--json` gives it."""
        return {**asdict(self), "doing": str(self.doing), "end": str(self.end), "text": self.words()}

    def words(self) -> str:
        """The same in one line."""
        who, unread = f"{self.agent} on {self.thread}", count(self.mail, "message")
        if self.end is End.GOES_ON:
            return {
                Doing.AT_WORK: f"{self.agent} is still at work on {self.thread}, since {_moment(self.since)};"
                " its last turn is not in this",
                Doing.ASKING: f"{who} waits for an answer; what it makes of it is not in this",
                Doing.MAIL: f"{self.agent} still has work to do on {self.thread} ({unread} to read);"
                " what it makes of that is not in this",
                Doing.IDLE: f"{who} has work that is not in this",
            }[self.doing]
        how = {End.CLOSED: "was closed", End.PHASE: "was ended with its phase", End.DISCARDED: "was ended"}[self.end]
        when = {
            Doing.AT_WORK: f" in mid-turn, at work since {_moment(self.since)}",
            Doing.ASKING: " while it waited for an answer",
            Doing.MAIL: f" with {unread} unread",
            Doing.IDLE: "",
        }[self.doing]
        if self.end is End.DISCARDED:
            where = f"; it is kept under {self.kept}" if self.kept else ""
            return f"{who} {how}{when}; nothing that it made is taken over{where}"
        if self.doing is Doing.AT_WORK:
            lost = f"what it did since its last committed turn is not in this, and is kept under {self.kept}"
            return f"{who} {how}{when}; {lost}"
        return f"{who} {how}{when}; what it was asked for is not all in this"


def _moment(seconds: float) -> str:
    return time.strftime("%H:%M:%S UTC", time.gmtime(seconds))


def lines(left: Iterable[Unfinished]) -> list[str]:
    """What is left out, a line each; those beyond a number are counted."""
    said = [one.words() for one in left]
    return [*said[:MOST], f"and {len(said) - MOST} more"] if len(said) > MOST else said


# ---- what a step leaves out ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sight:
    """What is looked at: the soup, what the bus keeps beside it, when turns began, and which agents are code."""

    soup: Soup
    kept: Mapping[str, str]
    begun: Begun
    code: Collection[str]


def left_by(
    soup: Soup,
    kept: Mapping[str, str],
    begun: Begun,
    code: Collection[str],
    rule: str,
    at: tuple[str, ...],
    choice: Choice,
) -> tuple[Unfinished, ...]:
    """What a firing leaves out, before it has happened: one that closes, asserts or ends something."""
    sight = _Sight(soup, kept, begun, code)
    if rule in ("send-step", "ask-step"):
        found = _at_a_turns_end(sight, at, choice)
    elif rule == "transition":
        found = _at_a_transition(sight, at[0], choice)
    elif rule == "withdraw":
        found = _at_a_withdrawal(sight, at[0])
    else:
        return ()
    return tuple(found)


def at_a_gate(
    soup: Soup,
    kept: Mapping[str, str],
    begun: Begun,
    code: Collection[str],
    thread: str,
    payloads: Sequence[Payload],
) -> tuple[Unfinished, ...]:
    """What is left out of what an instance asserts on its thread, in a turn that also sends and closes."""
    return tuple(_below(_Sight(soup, kept, begun, code), thread, payloads))


def _at_a_turns_end(sight: _Sight, at: tuple[str, ...], choice: Choice) -> Iterator[Unfinished]:
    agent, thread = at
    payloads = choice.payloads if isinstance(choice, Broadcast) else ()
    questions = choice.questions if isinstance(choice, Broadcast | Asking) else ()
    if agent == ORCHESTRATOR:
        return  # what it closes is said by the transition before
    gate = agent not in sight.code and any(question.kind is Kind.ASSERT for question in questions)
    yield from _below(sight, thread, payloads, goes_on=gate)


def _below(
    sight: _Sight,
    thread: str,
    payloads: Sequence[Payload],
    *,
    goes_on: bool = True,
) -> Iterator[Unfinished]:
    """What is under way below a thread whose turn ends with these payloads; `goes_on`: also what it does not close."""
    closed = {payload.thread for payload in payloads if isinstance(payload, Close)}
    sent = Counter((payload.agent, payload.thread) for payload in payloads if isinstance(payload, Deliver))
    if not closed and not goes_on:
        return
    for child in sorted(sight.soup.children(thread)):
        if goes_on or child in closed:
            end = End.CLOSED if child in closed else End.GOES_ON
            yield from _walk(sight, child, end, sent)
    for (agent, child), mail in sorted(sent.items()):
        if (goes_on or child in closed) and sight.soup.get(Surface, child) is None and agent not in sight.code:
            yield Unfinished(
                agent=agent,
                thread=child,
                doing=Doing.MAIL,
                end=End.CLOSED if child in closed else End.GOES_ON,
                since=0.0,
                mail=mail,
            )


def _at_a_transition(sight: _Sight, name: str, choice: Choice) -> Iterator[Unfinished]:
    record = sight.soup.get(Record, name)
    if record is None or not record.live or not isinstance(choice, Passage):
        return
    if choice.action == APPROVAL.get(record.state):
        end = End.GOES_ON if record.depth else End.PHASE
    elif record.depth:
        return  # its dispatcher decides what becomes of its team
    elif is_backtrack(record.state, choice.action) or choice.action in (Action.WITHDRAW, Action.FAILURE):
        end = End.DISCARDED
    else:
        return
    for child in sorted(sight.soup.children(record.thread)):
        yield from _walk(sight, child, end)


def _at_a_withdrawal(sight: _Sight, thread: str) -> Iterator[Unfinished]:
    job = sight.soup.charter.job
    record = sight.soup.get(Record, job)
    if thread == job_thread(job) and (record is None or record.state in TERMINAL):
        return  # its transition has said it
    yield from _walk(sight, thread, End.DISCARDED)


def _walk(
    sight: _Sight,
    top: str,
    end: End,
    sent: Mapping[tuple[str, str], int] = MappingProxyType({}),
) -> Iterator[Unfinished]:
    """The conversations of a subtree whose work is not all taken along, each after the one that dispatched it.

    `sent`: messages that the very step sends to them.
    """
    soup = sight.soup
    waiting = [top]
    while waiting:
        here = waiting.pop()
        waiting.extend(sorted(soup.children(here), reverse=True))
        surface = soup.get(Surface, here)
        if surface is None or surface.agent in sight.code or thread_kind(here) != "dispatch":
            continue
        mailbox = soup.get(Mailbox, here, surface.agent)
        mail = (len(mailbox.queue) if mailbox is not None else 0) + sent.get((surface.agent, here), 0)
        run = soup.get(Run, here)
        made = run is not None or tree_slot(surface.workspace) in sight.kept
        ref = retired_ref(soup.charter.job, surface.workspace) if made and end is not End.GOES_ON else ""
        if run is not None:
            yield Unfinished(
                agent=surface.agent,
                thread=here,
                doing=Doing.AT_WORK,
                end=end,
                since=sight.begun(run.turn),
                mail=mail,
                kept=ref,
            )
        elif soup.get(Proxy, here) is not None or soup.get(AskHuman, here) is not None:
            yield Unfinished(
                agent=surface.agent, thread=here, doing=Doing.ASKING, end=end, since=0.0, mail=mail, kept=ref
            )
        elif mail:
            yield Unfinished(
                agent=surface.agent, thread=here, doing=Doing.MAIL, end=end, since=0.0, mail=mail, kept=ref
            )
        elif end is End.DISCARDED and made:
            yield Unfinished(agent=surface.agent, thread=here, doing=Doing.IDLE, end=end, since=0.0, mail=0, kept=ref)
