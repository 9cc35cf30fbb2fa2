"""What the rows of a transaction have in common: its steps, the messages they deliver, the inputs it took.

Code that sees a row that does not fit raises `Found`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar, cast, get_type_hints

from parley.base.json_codec import Unreadable
from parley.bus.rows import InputRow, MessageRow, StepRow, TransactionRow
from parley.engine import protocol_messages
from parley.engine.values import human_inputs, message_meta
from parley.engine.values.human_inputs import (
    Input,
    InterveneInput,
    PauseInput,
    ResumeInput,
    WithdrawInput,
    input_of,
    is_in_vain,
)
from parley.engine.values.message_meta import Intervened, Meta, Replied
from parley.engine.values.step_names import NamedVerdict, all_named, place_of
from parley.protocol.conversation import letter_kind
from parley.protocol.errors import ProtocolError
from parley.protocol.molecules import (
    HUMAN,
    ORCHESTRATOR,
    PROXY,
    Deliver,
    Interrupt,
    Mailbox,
    MessageKind,
    Origin,
    Proxy,
    Question,
    Record,
    Ruling,
    Surface,
    escalation_thread,
    job_thread,
    thread_kind,
)
from parley.protocol.rule import Answer, Asking, Broadcast, Ending, Firing, Opening, Passage
from parley.protocol.soup import Soup

# What decoding and firing a row that another program has changed may raise.
ODD = (ProtocolError, AttributeError, TypeError, ValueError, LookupError, RecursionError)

M = TypeVar("M", bound=Meta)
Who = tuple[str, str]


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """A row that does not fit: its table, its number there (or its name), and what is wrong with it."""

    table: str
    number: int | str
    what: str

    def __str__(self) -> str:
        return f"{self.table} {self.number}: {self.what}"


class Found(Exception):
    """The row that does not fit has been found."""

    def __init__(self, finding: AuditFinding) -> None:
        super().__init__(str(finding))
        self.finding = finding


def wrong(table: str, number: int | str, what: str) -> NoReturn:
    """End the search here."""
    raise Found(AuditFinding(table, number, what))


# ---- rows ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """All rows of one transaction."""

    commit: TransactionRow
    steps: Sequence[StepRow]
    messages: Sequence[MessageRow]
    inputs: Sequence[InputRow]
    next_step: StepRow | None = None  # the first of the next transaction, or so it says
    next_message: MessageRow | None = None


TYPES: Mapping[type[Any], tuple[type[Any], ...]] = {int: (int,), str: (str,), float: (float, int)}
COLUMNS: Mapping[type[Any], tuple[tuple[str, tuple[type[Any], ...]], ...]] = {
    kind: tuple((name, TYPES[hint]) for name, hint in get_type_hints(kind).items())
    for kind in (StepRow, MessageRow, TransactionRow, InputRow)
}


def typed(table: str, row: Any) -> None:
    """A column may hold anything: SQLite, for one, keeps a text in a column for numbers."""
    for name, types in COLUMNS[type(row)]:
        value = getattr(row, name)
        if type(value) not in types:
            number = row.number if isinstance(row.number, int | str) else repr(row.number)
            wrong(table, number, f"its {name} is {value!r:.80}, no {types[0].__name__}")


def read_object(table: str, number: int, text: str) -> dict[str, Any]:
    """The JSON object in a row's column; an empty text is an empty one."""
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:
        wrong(table, number, f"it holds what is no JSON: {error}")
    if not isinstance(found, dict):
        wrong(table, number, "it holds JSON that is no object")
    return found


def meta_of(row: MessageRow) -> Meta | None:
    """What the protocol itself knows about a message."""
    try:
        return message_meta.read(row)
    except Unreadable as error:
        wrong("messages", row.number, f"what it says of itself can't be read: {error}")


def meta_as(kind: type[M], row: MessageRow) -> M:
    """The same of a message that has to mean that."""
    meta = meta_of(row)
    if not isinstance(meta, kind):
        wrong("messages", row.number, f"it says that it is a {type(meta).__name__}, and its step makes it another")
    return meta


# ---- who may have fired a step, and which messages it delivers -----------------------------------

_BY_THE_AGENT = {
    "wake", "wake-int", "interrupt", "send-step", "nosend-step", "ask-step", "ask", "send-ask", "send",
    "spark", "send-terminate", "send-empty",
}  # fmt: skip
_BY_EITHER = {"intervene", "withdraw", "hold", "release"}  # the human, or the orchestrator


def authors_of(firing: Firing) -> tuple[str, ...] | None:
    """In whose name a firing may be recorded; None for the opening, whose author the job's row names."""
    choice: Any = firing.choice
    if firing.rule == "open":
        return None
    if firing.rule in _BY_THE_AGENT:
        return (firing.at[0],)
    if firing.rule == "withdraw" and choice.origin is Origin.WITHDRAWAL and thread_kind(firing.at[0]) != "job":
        return (HUMAN,)  # only the human gives up a part of a job
    if firing.rule in _BY_EITHER:
        return (HUMAN, ORCHESTRATOR)
    match firing.rule:
        case "transition":
            return (cast("Passage", choice).actor,)
        case "respond":
            return (cast("Answer", choice).author,)
        case "escalate":
            return (PROXY,)
        case "human-reply":
            return (HUMAN,)
        case _:
            return (ORCHESTRATOR,)


@dataclass(frozen=True, slots=True)
class Letter:
    """A message that a firing delivers: its id, who may have sent it, to whom, and what it is to them."""

    name: str
    senders: tuple[Who, ...]
    to: Who
    kind: MessageKind


def letters_of(soup: Soup, firing: Firing) -> list[Letter]:
    """The messages that a firing brings into the soup. `soup` is the one before it."""
    write = _WRITES.get(firing.rule)
    return write(soup, firing.at, firing.choice) if write is not None else []


def _root(soup: Soup) -> Who:
    return ORCHESTRATOR, job_thread(soup.charter.job)


def _opened(soup: Soup, at: tuple[str, ...], choice: Any) -> list[Letter]:
    opening = cast("Opening", choice)
    thread = job_thread(opening.charter.job)
    return [Letter(opening.request, ((HUMAN, thread),), (ORCHESTRATOR, thread), MessageKind.REQUEST)]


def _asked(sender: Who, questions: Sequence[Question]) -> list[Letter]:
    kind = MessageKind.QUESTION
    return [Letter(q.message, (sender,), (PROXY, escalation_thread(q.id)), kind) for q in questions]


def _sent(soup: Soup, at: tuple[str, ...], choice: Any) -> list[Letter]:
    sender, chosen = (at[0], at[1]), cast("Broadcast", choice)
    letters, opened = [], set[str]()
    for payload in chosen.payloads:
        if isinstance(payload, Deliver):
            kind = letter_kind(soup, *sender, payload.thread, opened)
            letters.append(Letter(payload.message, (sender,), (payload.agent, payload.thread), kind))
            opened.add(payload.thread)
    return letters + _asked(sender, chosen.questions)


def _asks(soup: Soup, at: tuple[str, ...], choice: Any) -> list[Letter]:
    return _asked((at[0], at[1]), cast("Asking", choice).questions)


def _returned(soup: Soup, at: tuple[str, ...], choice: Any) -> list[Letter]:
    return [Letter(choice, (_root(soup),), (at[0], at[1]), MessageKind.NOTICE)]


def _pending(soup: Soup, at: tuple[str, ...], choice: Any) -> list[Letter]:
    return [Letter(choice, (_root(soup),), _root(soup), MessageKind.NOTICE)]


def _escalated(soup: Soup, at: tuple[str, ...], choice: Any) -> list[Letter]:
    thread = escalation_thread(at[0])
    return [Letter(choice, ((PROXY, thread),), (HUMAN, thread), MessageKind.QUESTION)]


def _replied(soup: Soup, at: tuple[str, ...], choice: Any) -> list[Letter]:
    thread = escalation_thread(at[0])
    return [Letter(cast("Answer", choice).message, ((HUMAN, thread),), (PROXY, thread), MessageKind.REPLY)]


def _told_parent(soup: Soup, thread: str, message: str) -> list[Letter]:
    box = soup.need(Mailbox, cast("str", soup.parent(thread)))
    return [Letter(message, (_root(soup),), (box.agent, box.thread), MessageKind.NOTICE)]


def _given_up(soup: Soup, at: tuple[str, ...], choice: Any) -> list[Letter]:
    return _told_parent(soup, at[1], choice) if thread_kind(at[1]) != "escalation" else []


def _withdrawn(soup: Soup, at: tuple[str, ...], choice: Any) -> list[Letter]:
    ending = cast("Ending", choice)
    return _told_parent(soup, at[0], ending.notice) if ending.notice else []


def _observed(soup: Soup, at: tuple[str, ...], choice: Any) -> list[Letter]:
    record = soup.need(Record, at[0])
    return [Letter(choice, ((record.actor, record.thread),), _root(soup), MessageKind.OUTCOME)]


def _responded(soup: Soup, at: tuple[str, ...], choice: Any) -> list[Letter]:
    thread = escalation_thread(at[0])
    proxy = soup.need(Proxy, thread)
    name = cast("Answer", choice).message
    return [Letter(name, ((PROXY, thread),), (proxy.agent, proxy.thread), MessageKind.ANSWER)]


def _relayed(soup: Soup, at: tuple[str, ...], choice: Any) -> list[Letter]:
    record = soup.need(Record, at[0])
    sender = (PROXY, escalation_thread(at[1]))
    return [Letter(choice, (sender,), (record.actor, record.thread), MessageKind.NOTICE)]


def _intervened(soup: Soup, at: tuple[str, ...], choice: Any) -> list[Letter]:
    root = _root(soup)
    to = soup.need(Surface, at[0])
    name = cast("Interrupt", choice).message
    return [Letter(name, ((HUMAN, root[1]), root), (to.agent, to.thread), MessageKind.INTERVENTION)]


_WRITES: Mapping[str, Callable[[Soup, tuple[str, ...], Any], list[Letter]]] = MappingProxyType(
    {
        "open": _opened,
        "send-step": _sent,
        "ask-step": _asks,
        "dead-letter": _returned,
        "merge": _returned,
        "pending": _pending,
        "observe": _observed,
        "give-up": _given_up,
        "withdraw": _withdrawn,
        "escalate": _escalated,
        "human-reply": _replied,
        "respond": _responded,
        "relay": _relayed,
        "intervene": _intervened,
    }
)


# ---- inputs: what was taken must have had its effect ---------------------------------------------


def check_inputs(job: str, part: Part) -> None:
    """A message that was made of an input names it; an input that was taken in time has its steps."""
    taken = {row.number for row in part.inputs}
    made: dict[int, MessageRow] = {}
    for letter in part.messages:
        try:
            number = input_of(letter.key)
        except Unreadable as odd:
            wrong("messages", letter.number, str(odd))
        if number is not None:
            made.setdefault(number, letter)
            if number not in taken:
                what = f"transaction {part.commit.number} made message {letter.number} of it"
                wrong("inputs", number, f"the row is missing there: {what}")
    for row in part.inputs:
        source = made.get(row.number)
        late = in_vain(row)
        try:
            problem = _effect(job, row, source, part) if not late else ""
        except ODD as error:
            problem = f"it can't be read: {error!r}"
        if late and source is not None:
            problem = f"it says that it had no effect, and message {source.number} was made of it"
        if problem:
            wrong("inputs", row.number, problem)
    for step in part.steps:
        if step.who == HUMAN and step.rule in ("transition", "withdraw") and not _given_up_by_human(job, step, part):
            wrong("steps", step.number, "it gives up in the human's name what none of their inputs and answers does")
        if step.who == HUMAN and step.rule in _OF_INPUTS and not _asked_for(job, step, part):
            wrong(
                "steps",
                step.number,
                f"[{step.rule}] is in the human's name, and no input of its transaction asks for it",
            )
    for letter in part.messages:
        if letter.sender == HUMAN and letter.kind != MessageKind.REQUEST and input_of(letter.key) is None:
            wrong("messages", letter.number, "it is in the human's name, and made of none of their inputs")


_OF_INPUTS: Mapping[str, type[Input]] = {
    "human-reply": human_inputs.AnswerInput,
    "intervene": InterveneInput,
    "hold": PauseInput,
    "release": ResumeInput,
}


def _asked_for(job: str, step: StepRow, part: Part) -> bool:
    """Whether an input of the transaction asks for what a step does in the human's name."""
    for row in part.inputs:
        given = human_inputs.read_or_none(row) if not in_vain(row) else None
        if isinstance(given, _OF_INPUTS[step.rule]) and _place(job, given) == _where(step):
            return True
    return False


def _place(job: str, given: Input) -> str:
    """Where an input has its effect: its question, its thread, or the whole job's."""
    match given:
        case human_inputs.AnswerInput(question=question):
            return question
        case InterveneInput(thread=thread) | WithdrawInput(thread=thread):
            return thread or job_thread(job)
        case _:
            return job_thread(job)


def _given_up_by_human(job: str, step: StepRow, part: Part) -> bool:
    """Whether the human has said what a step does in their name: by an input of the transaction, or by a verdict."""
    root = job_thread(job)
    where = root if step.rule == "transition" else place_of(step).thread
    for row in part.inputs:
        given = human_inputs.read_or_none(row) if not in_vain(row) else None
        if isinstance(given, WithdrawInput) and _place(job, given) == where:
            return True
    # a verdict of theirs ends with the transition, which comes before the job's own Terminate in one transaction
    ends = [other for other in part.steps if other.rule == "transition" and place_of(other).record == job]
    return where == root and any(_withdraws(job, end) for end in ends)


def _withdraws(job: str, end: StepRow) -> bool:
    """Whether a transition goes by a verdict of the human's that gives the job up."""
    try:
        said = [verdict for verdict in all_named(NamedVerdict, end.consumed) if verdict.record == job]
    except Unreadable as error:
        wrong("steps", end.number, f"what it consumed can't be read: {error}")
    return any(verdict.ruling is Ruling.WITHDRAW and verdict.author == HUMAN for verdict in said)


def _where(step: StepRow) -> str:
    """Where a step that an input asks for has its effect: its question, or its thread."""
    at = place_of(step)
    return at.question or at.thread


def _effect(job: str, row: InputRow, letter: MessageRow | None, part: Part) -> str:
    """What is wrong with an input that was taken, if anything is."""
    given, note = human_inputs.read(row), f"{row.kind} was taken"
    by_human = [step for step in part.steps if step.who == HUMAN]
    if isinstance(given, human_inputs.AnswerInput | InterveneInput):
        if letter is None:
            return f"{note}, and no message of transaction {part.commit.number} says so"
        says_so = (
            _says_intervention(job, row, given, letter)
            if isinstance(given, InterveneInput)
            else _says_answer(row, given, letter, [_where(step) for step in by_human if step.rule == "human-reply"])
        )
        return "" if says_so else f"{note}, and message {letter.number} says something else"
    if isinstance(given, ResumeInput) and given.raised:
        return ""  # what it raised is kept beside the molecules, and may have had nothing to release
    rule = {WithdrawInput: "withdraw", PauseInput: "hold", ResumeInput: "release"}.get(type(given), "")
    if rule and _place(job, given) not in [_where(step) for step in by_human if step.rule == rule]:
        return f"{note}, and no step of transaction {part.commit.number} does so"
    return ""


def _says_answer(row: InputRow, given: human_inputs.AnswerInput, letter: MessageRow, replies: Sequence[str]) -> bool:
    """Whether a message, and a [human-reply], say what an answer does."""
    due = Replied(by=row.by, put=given.framing, ruling=given.ruling, text=given.text, choice=given.choice)
    if meta_of(letter) != due or given.question not in replies:
        return False
    if letter.body != protocol_messages.human(given.ruling, given.text, given.choice):
        wrong("messages", letter.number, f"it does not say what input {row.number} says")
    return True


def _says_intervention(job: str, row: InputRow, given: InterveneInput, letter: MessageRow) -> bool:
    """Whether a message says what an intervention does."""
    due = Intervened(by=row.by, text=given.text, now=given.now, authoritative=given.authoritative)
    text = protocol_messages.intervene(given.text, authoritative=given.authoritative)
    return (meta_of(letter), letter.body, letter.thread) == (due, text, _place(job, given))


def in_vain(row: InputRow) -> bool:
    """Whether an input that was taken had no effect, as its note says."""
    try:
        return is_in_vain(row)
    except Unreadable as error:
        wrong("inputs", row.number, f"what became of it can't be read: {error}")
