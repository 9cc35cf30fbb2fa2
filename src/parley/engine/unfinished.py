"""Work that a step leaves out: of conversations that are still under way when one is closed, put forward or left.

What is left out follows from the soup, and from what the bus knows of trees, at the moment of the step. So the step
that decides it says it, whoever fires it, and an audit finds the same.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from parley.core.rule import Asking, Broadcast, Choice, Passage
from parley.core.soup import Soup
from parley.core.states import APPROVAL, TERMINAL, Action, Record, is_backtrack
from parley.core.terms import (
    ORCHESTRATOR,
    AskHuman,
    Close,
    Deliver,
    Kind,
    Mailbox,
    Payload,
    Proxy,
    Run,
    Surface,
    job_thread,
    thread_kind,
)
from parley.engine.names import tree_slot
from parley.engine.roster import CODE
from parley.ports import retired_ref
from parley.wording import count

KEY = "unfinished"  # in the extra of a step, and in what is known of a question
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


@dataclass(frozen=True, slots=True)
class Unfinished:
    """One conversation whose work is not all in what a step brings, puts forward or ends."""

    agent: str
    thread: str
    doing: Doing
    end: End
    since: float = 0.0  # its turn has begun; 0 where it is not at work
    mail: int = 0
    kept: str = ""  # the ref under which its files stay once it is closed

    def document(self) -> dict[str, Any]:
        """As the bus keeps it and as `--json` gives it."""
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


def read(documents: Iterable[Mapping[str, Any]]) -> tuple[Unfinished, ...]:
    """Read back what the bus keeps."""
    return tuple(
        Unfinished(
            str(one["agent"]),
            str(one["thread"]),
            Doing(one["doing"]),
            End(one["end"]),
            float(one["since"]),
            int(one["mail"]),
            str(one["kept"]),
        )
        for one in documents
    )


def lines(documents: Iterable[Mapping[str, Any]]) -> list[str]:
    """What is left out, a line each; those beyond a number are counted."""
    said = [str(one["text"]) for one in documents]
    return [*said[:MOST], f"and {len(said) - MOST} more"] if len(said) > MOST else said


# ---- what a step leaves out ------------------------------------------------------------------------


def left_by(
    soup: Soup, kept: Mapping[str, str], begun: Begun, rule: str, at: tuple[str, ...], choice: Choice
) -> list[dict[str, Any]]:
    """What a firing leaves out, before it has happened: one that closes, puts forward or ends something."""
    if rule in ("send-step", "ask-step"):
        found = _at_a_turns_end(soup, kept, begun, at, choice)
    elif rule == "transition":
        found = _at_a_transition(soup, kept, begun, at[0], choice)
    elif rule == "withdraw":
        found = _at_a_withdrawal(soup, kept, begun, at[0])
    else:
        return []
    return [one.document() for one in found]


def at_a_gate(
    soup: Soup, kept: Mapping[str, str], begun: Begun, thread: str, payloads: Sequence[Payload]
) -> list[dict[str, Any]]:
    """What is left out of what an instance puts forward on its thread, in a turn that also sends and closes."""
    return [one.document() for one in _below(soup, kept, begun, thread, payloads)]


def _at_a_turns_end(
    soup: Soup, kept: Mapping[str, str], begun: Begun, at: tuple[str, ...], choice: Choice
) -> Iterator[Unfinished]:
    agent, thread = at
    payloads = choice.payloads if isinstance(choice, Broadcast) else ()
    questions = choice.questions if isinstance(choice, Broadcast | Asking) else ()
    if agent == ORCHESTRATOR:
        return  # what it closes is said by the transition before
    gate = agent not in CODE and any(question.kind is Kind.ASSERT for question in questions)
    yield from _below(soup, kept, begun, thread, payloads, goes_on=gate)


def _below(
    soup: Soup,
    kept: Mapping[str, str],
    begun: Begun,
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
    for child in sorted(soup.children(thread)):
        if goes_on or child in closed:
            end = End.CLOSED if child in closed else End.GOES_ON
            yield from _walk(soup, kept, begun, child, end, sent)
    for (agent, child), mail in sorted(sent.items()):
        if (goes_on or child in closed) and soup.get(Surface, child) is None and agent not in CODE:
            yield Unfinished(agent, child, Doing.MAIL, End.CLOSED if child in closed else End.GOES_ON, 0.0, mail)


def _at_a_transition(
    soup: Soup, kept: Mapping[str, str], begun: Begun, name: str, choice: Choice
) -> Iterator[Unfinished]:
    record = soup.get(Record, name)
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
    for child in sorted(soup.children(record.thread)):
        yield from _walk(soup, kept, begun, child, end)


def _at_a_withdrawal(soup: Soup, kept: Mapping[str, str], begun: Begun, thread: str) -> Iterator[Unfinished]:
    job = soup.charter.job
    record = soup.get(Record, job)
    if thread == job_thread(job) and (record is None or record.state in TERMINAL):
        return  # its transition has said it
    yield from _walk(soup, kept, begun, thread, End.DISCARDED)


def _walk(
    soup: Soup,
    kept: Mapping[str, str],
    begun: Begun,
    top: str,
    end: End,
    sent: Mapping[tuple[str, str], int] = MappingProxyType({}),
) -> Iterator[Unfinished]:
    """The conversations of a subtree whose work is not all taken along, each after the one that dispatched it.

    `sent`: messages that the very step sends to them.
    """
    waiting = [top]
    while waiting:
        here = waiting.pop()
        waiting.extend(sorted(soup.children(here), reverse=True))
        surface = soup.get(Surface, here)
        if surface is None or surface.agent in CODE or thread_kind(here) != "dispatch":
            continue
        mailbox = soup.get(Mailbox, here, surface.agent)
        mail = (len(mailbox.queue) if mailbox is not None else 0) + sent.get((surface.agent, here), 0)
        run = soup.get(Run, here)
        made = run is not None or tree_slot(surface.workspace) in kept
        ref = retired_ref(soup.charter.job, surface.workspace) if made and end is not End.GOES_ON else ""
        if run is not None:
            yield Unfinished(surface.agent, here, Doing.AT_WORK, end, begun(run.turn), mail, ref)
        elif soup.get(Proxy, here) is not None or soup.get(AskHuman, here) is not None:
            yield Unfinished(surface.agent, here, Doing.ASKING, end, 0.0, mail, ref)
        elif mail:
            yield Unfinished(surface.agent, here, Doing.MAIL, end, 0.0, mail, ref)
        elif end is End.DISCARDED and made:
            yield Unfinished(surface.agent, here, Doing.IDLE, end, 0.0, 0, ref)
