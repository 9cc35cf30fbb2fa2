"""The log of a job: its messages, and what the protocol did, in the order in which it happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from parley.bus.rows import REACH, InputRow, MessageRow, StepRow
from parley.bus.store import Store
from parley.engine.protocol_messages import excerpt
from parley.engine.values import hold_causes, message_meta, step_extra
from parley.engine.values.hold_causes import Budget, Stall, Wait, wait_of
from parley.engine.values.human_inputs import (
    HostLostInput,
    Input,
    NameInput,
    PauseInput,
    ResumeInput,
    asked_by,
    is_in_vain,
    note_words,
    withdrawn_by,
)
from parley.engine.values.message_meta import (
    Answered,
    Intervened,
    Meta,
    PassedOn,
    Put,
    Relayed,
    Replied,
    Requested,
    SentFiles,
)
from parley.engine.values.step_extra import StepExtra
from parley.engine.values.step_names import NamedRecord, NamedRun, first_named, place_of
from parley.engine.values.unfinished_work import Unfinished
from parley.features.budgets.arithmetic import BudgetLine
from parley.protocol.codec import decode_as
from parley.protocol.molecules import HUMAN, ORCHESTRATOR, PROXY, job_thread, thread_kind
from parley.protocol.rule import Passage
from parley.views.history.interventions import Lives, matters
from parley.views.job_view import TERMINAL, Abandoned, abandoned_by, moment
from parley.views.turn_hosts import lost_host
from parley.workflow.execution.executor_messages import held_back
from parley.workflow.model.code_steps import ExecutorStep
from parley.workflow.model.events import HeldBack
from parley.workflow.model.terms import EXECUTOR


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One line of a job's log: a message, or something that the protocol did."""

    time: float
    kind: str  # `message`, or the name of a rule: transition, hold, recover, …
    who: str
    to: str
    thread: str
    sender_thread: str
    text: str
    number: int
    message: str = ""  # of a message: what it is to its recipient
    meta: Meta | None = None  # the same: what is known about it
    waits: Wait | None = None  # what an instance waits for from now on
    unfinished: Unfinished | None = None  # the work that a step leaves out
    abandoned: str = ""  # the turn that is cut short
    person: str = ""  # who asked for what a step did in the human's name
    host: str = ""  # where the turn ran that has sent the message, or that the step has ended, if on another host

    @property
    def by(self) -> str:
        """Who it was where the human spoke: a person, or what stood in for one."""
        return self.meta.by if isinstance(self.meta, Replied | Intervened) else self.person

    @property
    def author(self) -> str:
        """In whose name an answer is given."""
        return self.meta.author if isinstance(self.meta, Answered | Relayed) else ""

    def document(self) -> dict[str, Any]:
        """The event as `--json` gives it."""
        return {
            "time": self.time,
            "kind": self.kind,
            "from": self.who,
            "by": self.by or None,
            "to": self.to or None,
            "thread": self.thread,
            "number": self.number,
            "text": self.text,
            "message": self.message or None,
            "files": [sent.path for sent in self.meta.files] if isinstance(self.meta, SentFiles) else None,
            "waits": self.waits.document() if self.waits is not None else None,
            "unfinished": self.unfinished.document() if self.unfinished is not None else None,
            "host": self.host or None,
        }


_GIVEN_UP = {  # what comes of an instance that lost its turn for the last time
    "state": "the orchestrator decides whether it is tried again",
    "dispatch": "it is given up, and its dispatcher is told",
    "escalation": "it is given up, and the question goes on without it",
}
_STEERING: Mapping[str, type[Input]] = {"hold": PauseInput, "release": ResumeInput}
_TOLD = ("transition", "term-record", "hold", "release", "recover", "give-up", "withdraw", "interrupt", "dead-letter")


class Follower:
    """Reads a job's log on and on: each call gives what was added since the last."""

    def __init__(self, store: Store, job: str, *, step: int = 0, message: int = 0) -> None:
        self.store = store
        self.job = job
        self.step = step
        self.message = message
        self._lives = Lives(store, job)
        self._transaction = 0  # of the last step that was read
        self._hosts: dict[tuple[int, str], str] = {}  # where the turns ran that ended, by transaction and thread
        self._named = -1 if step else 0  # the transaction up to which namings are told; -1: of the first step read
        self._before = 0  # the transaction before the first one that is told
        self._lost = 0  # the input up to which lost hosts are told

    def read(self) -> list[LogEvent]:
        """What is new, in the order in which it happened."""
        found: list[tuple[int, float, int, LogEvent]] = []
        # Steps first: a message that is committed between the two reads is then simply read, never missed.
        lived: list[StepRow] = []
        given: list[InputRow] | None = None  # read once, and only where the human did something
        for step in self.store.steps(self.job, self.step):
            self.step, self._transaction = step.number, step.transaction
            host = self._place(step)
            if matters(step):
                lived.append(step)
            if step.rule in _TOLD and not _is_errand(step):
                event = _step_event(step, host)
                if step.who == HUMAN:
                    given = self.store.inputs(self.job, waiting=False) if given is None else given
                    event = _in_their_name(event, step, given)
                if step.rule == "interrupt":
                    event = _interrupted(event, abandoned_by(self.store, self.job, step))
                found.append((step.transaction, step.time, 0, event))
            found.extend((step.transaction, step.time, 0, event) for event in _beside(step))
        for step, words in self._lives.news(lived):
            found.append((step.transaction, step.time, 2, _news_event(step, words)))
        for row in self.store.messages(self.job, self.message):
            if 0 < self._transaction < row.transaction:
                break  # the step that has sent it is read first: it says where its turn ran
            self.message = row.number
            host = self._hosts.get((row.transaction, row.sender_thread), "")
            found.append((row.transaction, row.time, 1, _message_event(row, host)))
        self._hosts.clear()
        if self._named < 0:
            last = self.store.load(self.job).transaction
            self._named = min((transaction for transaction, *_ in found), default=last.number + 1 if last else 1) - 1
            self._before = self._named
        found += [(transaction, event.time, 3, event) for transaction, event in self._told_inputs()]
        found.sort(key=lambda entry: entry[:3])
        return [event for *_, event in found]

    def _place(self, step: StepRow) -> str:
        """Where the turn ran that a step ended, if it was on another host."""
        host = step_extra.read(step.extra).ran_on(step.rule) if "host" in step.extra else ""
        if host:
            run = first_named(NamedRun, step.consumed)
            self._hosts[step.transaction, run.thread if run is not None else place_of(step).thread] = host
        return host

    def _told_inputs(self) -> Iterator[tuple[int, LogEvent]]:
        """Whom the decider named since the last look, and which hosts were lost, each after which transaction.

        No step tells of either, since neither changes any rule's facts. A lost host is told before its owner takes it.
        """
        rows = self.store.inputs(self.job, waiting=False)
        named = [row for row in rows if row.kind == NameInput.kind and row.taken > self._named]
        self._named = max((row.taken for row in named), default=self._named)
        yield from ((row.taken, _naming_event(row)) for row in named if not is_in_vain(row))
        lost = [row for row in rows if row.kind == HostLostInput.kind and row.number > self._lost]
        self._lost = max((row.number for row in lost), default=self._lost)
        for row in lost:
            if not 0 < row.taken <= self._before and (found := lost_host(self.store, row)) is not None:
                yield row.taken or REACH, _lost_event(row, found.given)


def _in_their_name(event: LogEvent, step: StepRow, given: Sequence[InputRow]) -> LogEvent:
    """An event with the name of the person who has paused, resumed or withdrawn something."""
    if (kind := _STEERING.get(step.rule)) is not None:
        found = asked_by(given, kind, step.transaction)
    else:
        at = place_of(step)
        found = withdrawn_by(given, at.thread or job_thread(at.record), step.transaction)
    return replace(event, person=found.by, text=f"{event.text}, by {found.by}") if found is not None else event


def _is_errand(step: StepRow) -> bool:
    """Whether a step of a kind that is told says nothing new."""
    if step.rule == "term-record":
        return _states(step)[1] not in TERMINAL  # one of several on the way to its end
    return (step.rule == "withdraw" and step.who != HUMAN) or _waits_on(step)


def _message_event(row: MessageRow, host: str) -> LogEvent:
    return LogEvent(
        host=host,
        time=row.time,
        kind="message",
        who=row.sender,
        to=row.agent,
        thread=row.thread,
        sender_thread=row.sender_thread,
        text=row.body,
        number=row.number,
        message=row.kind,
        meta=message_meta.read(row),
    )


def _naming_event(row: InputRow) -> LogEvent:
    return LogEvent(
        time=row.time,
        kind=row.kind,
        who=HUMAN,
        to="",
        thread=job_thread(row.job),
        sender_thread="",
        text=f"{note_words(row)}, by {row.by}",
        number=row.number,
        person=row.by,
    )


def _lost_event(row: InputRow, given: HostLostInput) -> LogEvent:
    return LogEvent(
        time=row.time,
        kind=row.kind,
        who=row.by,
        to="",
        thread=given.thread,
        sender_thread=given.thread,
        text=given.words,
        number=row.number,
        host=given.host,
    )


def _step_event(step: StepRow, host: str) -> LogEvent:
    at = place_of(step)
    thread, text, who = at.thread or at.record, step.rule, step.who
    if step.rule in ("transition", "term-record"):
        passage = decode_as(Passage, step.choice)
        action, actor, reason = passage.action, passage.actor, passage.reason
        before, after = _states(step)
        whose = f"{at.record}: " if thread_kind(at.record) == "dispatch" else ""  # a subteam's record, not the job's
        text, who = f"{whose}{before} -> {after} ({action}){f': {reason}' if reason else ''}", actor
    elif step.rule in ("hold", "release"):
        cause = hold_causes.read(decode_as(str, step.choice))
        if isinstance(cause, Stall):
            return _stall_event(step, thread, cause.since)
        if isinstance(cause, Wait):
            return _wait_event(step, thread, cause)
        whose = f"{thread} " if thread_kind(thread) != "job" else ""
        waits = "waits for your word" if whose else "paused"
        text = f"{whose}goes on" if step.rule == "release" else f"{whose}{waits}"
        if isinstance(cause, Budget):
            text = _budget_words(cause, released=step.rule == "release")
    elif step.rule in ("recover", "give-up"):
        fault = step_extra.read(step.extra).fault or "the process that ran it is gone"
        next_ = "it is tried again" if step.rule == "recover" else _GIVEN_UP.get(thread_kind(thread), "it is given up")
        text = f"{at.agent} lost its turn{_on(host)} ({fault}); {next_}"
    elif step.rule == "withdraw":
        text = f"{thread} is withdrawn"
    elif step.rule == "interrupt":
        text = f"{at.agent} is interrupted{_on(host)}"
    return replace(_of_step(step, thread, text, who=who), host=host)


def _on(host: str) -> str:
    return f" on {host}" if host else ""


def _of_step(
    step: StepRow,
    thread: str,
    text: str,
    *,
    kind: str = "",
    who: str = "",
    waits: Wait | None = None,
    unfinished: Unfinished | None = None,
) -> LogEvent:
    """What a step did, on a thread; `kind` and `who` where they are not the step's own."""
    return LogEvent(
        time=step.time,
        kind=kind or step.rule,
        who=who or step.who,
        to="",
        thread=thread,
        sender_thread=thread,
        text=text,
        number=step.number,
        waits=waits,
        unfinished=unfinished,
    )


def _news_event(step: StepRow, words: str) -> LogEvent:
    """What has become of an intervention, told where it happened."""
    thread = place_of(step).thread
    return _of_step(step, thread, words, kind="intervention")


def _interrupted(event: LogEvent, cut: Abandoned) -> LogEvent:
    text = f"{event.text}; turn {cut.turn} is abandoned, which was about: {cut.message}"
    return replace(event, text=text, abandoned=cut.turn)


def _waits_on(step: StepRow) -> bool:
    """Whether a release says nothing new: what waited within its turn waits again, or its turn is over."""
    wait = wait_of(decode_as(str, step.choice)) if step.rule == "release" and step.choice else None
    return wait is not None and bool(wait.turn) and not step.extra


def _wait_event(step: StepRow, thread: str, wait: Wait) -> LogEvent:
    """That an instance waits for its provider, or goes on."""
    held = step.rule == "hold"
    text = f"{wait.agent} {wait.words(step.time)}" if held else f"{wait.agent} goes on"
    waits = wait if held else None
    return _of_step(step, thread, text, waits=waits)


def _stall_event(step: StepRow, thread: str, last: float) -> LogEvent:
    """That an instance is stalled, or no more."""
    left = step_extra.read(step.extra)
    text = f"{thread} is not stalled any more: {left.text}"
    if step.rule == "hold":
        did = f"; the last thing it did: {left.text}" if left.text else ""
        text = f"{left.agent} on {thread} is stalled: no sign of life since {moment(last)}{did}"
    return _of_step(step, thread, text)


def _beside(step: StepRow) -> Iterator[LogEvent]:
    """What a step tells beside its rule."""
    if step.extra:
        left = step_extra.read(step.extra)
        yield from _refusals(step, left)
        yield from _notices(step, left)
        yield from _held_back(step, left)
        yield from _left(step, left)


def _refusals(step: StepRow, left: StepExtra) -> Iterator[LogEvent]:
    """What the turn that a step ends was refused, and what of its files was not kept."""
    for kind, words, texts in (
        ("refused", "was refused", left.refused),
        ("left-out", "left what is not kept", left.left_out),
    ):
        for text in texts:
            at, said = place_of(step), f"{place_of(step).agent} {words}: {text}"
            yield _of_step(step, at.thread, said, kind=kind, who=at.agent)


def _left(step: StepRow, left: StepExtra) -> Iterator[LogEvent]:
    """The unfinished work that a step leaves out."""
    for one in left.unfinished:
        said = f"left out: {one.words()}"
        yield _of_step(step, one.thread, said, kind="unfinished", unfinished=one)


def _notices(step: StepRow, left: StepExtra) -> Iterator[LogEvent]:
    """The budgets that are nearly spent, as the step that starts a turn tells."""
    for one in left.nearly:
        thread, line = place_of(step).thread, BudgetLine(one.what, one.scope, one.used, one.limit)
        said = f"the budget is nearly spent: {line.words()}, with this turn"
        yield _of_step(step, thread, said, kind="budget", who=ORCHESTRATOR)


def _held_back(step: StepRow, left: StepExtra) -> Iterator[LogEvent]:
    """Agents of a workflow that could work, and wait for a free slot."""
    turn = left.left(ExecutorStep) if step.who == EXECUTOR else None
    for event in turn.events if turn is not None else ():
        thread = place_of(step).thread
        if isinstance(event, HeldBack) and event.agents:
            said = held_back(event.agents, event.at_work, event.fan_out)
            yield _of_step(step, thread, said, kind="fan-out", who=EXECUTOR)


def _budget_words(cause: Budget, *, released: bool) -> str:
    whose = f"today's budget of {cause.what}" if cause.scope == "day" else f"the budget of {cause.what}"
    return f"{whose} allows it to go on" if released else f"{whose} is spent: it waits for you"


def _states(step: StepRow) -> tuple[str, str]:
    before, after = first_named(NamedRecord, step.consumed), first_named(NamedRecord, step.produced)
    return (before.state if before is not None else "?", after.state if after is not None else "?")


def concerns(event: LogEvent) -> bool:
    """Whether people who watch want to see it: not the protocol's own errands around a question."""
    if event.kind != "message":
        return True
    if event.to == PROXY:
        return event.who == HUMAN
    if event.to == ORCHESTRATOR:
        return isinstance(event.meta, Requested | Intervened)
    if isinstance(event.meta, PassedOn):
        return False  # the same words, passed on
    return event.author != HUMAN


def headline(event: LogEvent, width: int = 200) -> str:
    """An event on one line, without its time."""
    if event.kind != "message":
        return excerpt(event.text, width)
    match event.meta:
        case Put(asker=asker):
            said = f"{asker} asks you: {event.text}"
        case Requested():
            said = f"the request: {event.text}"
        case Intervened(by=by, text=text):
            said = f"{by} intervenes: {text}"
        case Replied(by=by, ruling=ruling, text=text):
            said = f"{by}: {f'{ruling}. ' if ruling else ''}{text}"
        case _:
            said = f"{event.who} → {event.to}: {event.text}"
    return excerpt(said, width)
