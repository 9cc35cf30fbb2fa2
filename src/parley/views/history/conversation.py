"""The conversation of a thread, or of a whole job: its messages, and between them the turns with what they did.

It is read in pages from its end, and followed by number. Every item has a key that stays, so that a live page replaces
what it has and appends what is new.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile

from parley.bus.rows import MessageRow, NoMessage
from parley.bus.store import Store
from parley.engine.values import message_meta
from parley.engine.values.message_meta import (
    Answered,
    Conflicted,
    Intervened,
    Meta,
    Posed,
    Put,
    Relayed,
    Replied,
    SentFiles,
)
from parley.views.history.job_index import JobIndex
from parley.views.history.turn_history import OUT, TurnSpan, from_outbox
from parley.views.history.turn_work import NOTHING, EventPage, TurnStreams, WorkCount

LIMIT = 50
MOST_TURNS, FEWEST = 200, 10  # turns of a page; one with more has fewer messages, down to so many
_SLICE, _WIDEST = 200, 8_000  # messages that are looked at together where a thread's are looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message, as a page shows it."""

    key: str
    number: int
    time: float
    kind: str  # what it is to its recipient: task, report, question, …
    who: str
    to: str
    thread: str
    sender_thread: str
    text: str
    by: str = ""  # the person, where the human spoke
    author: str = ""  # in whose name an answer is given: human or proxy
    question: str = ""  # that it asks, puts, or answers
    ruling: str = ""
    artifact: str = ""
    files: tuple[str, ...] = ()  # that came along
    conflicts: tuple[str, ...] = ()  # that a merge left
    outgoing: bool = False  # it comes from the thread that is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnWork:
    """A turn, folded: who worked, how long, and how much."""

    key: str
    turn: str
    agent: str
    thread: str
    message: str  # that woke it
    began: float
    ended: float = 0.0  # 0: it is out, or that is not known
    how: str = OUT  # ended, lost, abandoned, terminated; empty: it is out
    fault: str = ""
    model: str = ""
    usage: Mapping[str, float] = field(default_factory=dict)
    work: WorkCount = NOTHING
    host: str = ""  # where it runs or ran, if that is another host

    @property
    def out(self) -> bool:
        """Whether it is under way."""
        return self.how == OUT


Item = Message | TurnWork


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationPage:
    """Some items in the order in which they happened."""

    items: tuple[Item, ...] = ()
    before: int | None = None  # for the page before this one; None: this is the first
    last: int = 0  # the number to follow from


class Conversation:
    """A thread's conversation; without a thread the job's. With an index that is complete it is found at once."""

    def __init__(
        self, store: Store, job: str, streams: TurnStreams, *, thread: str = "", index: JobIndex | None = None
    ) -> None:
        self._store, self._job, self._streams, self._thread = store, job, streams, thread
        self._index = index

    def page(self, before: int | None = None, limit: int = LIMIT) -> ConversationPage:
        """The last messages before a number, at most so many, with the turns among and after them."""
        last = self._last()
        upper = last + 1 if before is None else max(0, min(before, last + 1))
        rows = self._rows_before(upper, max(1, limit) + 1)
        more = len(rows) > limit
        rows = rows[-limit:] if more else rows
        until = None if before is None or before > last else self._time(before)
        turns = sorted(self._turns(), key=lambda turn: turn.began)  # a clock may have gone back
        turns = turns if until is None else turns[: _first_since(turns, until)]
        turns = turns[_first_since(turns, rows[0].time) :] if more else turns
        while len(turns) > MOST_TURNS and len(rows) > FEWEST:
            more, rows = True, rows[len(rows) // 2 :]
            turns = turns[_first_since(turns, rows[0].time) :]
        return ConversationPage(items=self._items(rows, turns), before=rows[0].number if more else None, last=last)

    def after(self, number: int) -> ConversationPage:
        """What is new since a number: later messages, and the turns that were under way then or began since."""
        last = self._last()
        rows = [row for row in self._read(max(0, number), last) if self._concerns(row)]
        since = self._time(number) if 0 < number <= last else 0.0
        turns = [one for one in self._turns() if one.how == OUT or max(one.began, one.ended) >= since]
        return ConversationPage(items=self._items(rows, turns), last=last)

    def events(self, turn: str, after: int = 0, limit: int = 200) -> EventPage:
        """What one turn did, in pages; nothing for a turn that this conversation does not have."""
        found = next((one for one in self._turns() if one.turn == turn), None)
        return self._streams.events(found.thread, turn, after, limit) if found is not None else EventPage()

    # ---- messages

    @property
    def _ready(self) -> JobIndex | None:
        return self._index if self._index is not None and self._index.complete else None

    def _last(self) -> int:
        if (index := self._ready) is not None:
            return index.message
        transaction = self._store.load(self._job).transaction
        return transaction.messages if transaction is not None else 0

    def _time(self, number: int) -> float:
        try:
            return self._store.message(self._job, number).time
        except NoMessage:
            return 0.0

    def _rows_before(self, upper: int, most: int) -> list[MessageRow]:
        """The last messages before a number that concern the thread, at most so many, oldest first."""
        if self._thread and (index := self._ready) is not None:
            numbers = index.letters(self._thread)
            end = bisect_left(numbers, upper)
            return [self._store.message(self._job, number) for number in numbers[max(0, end - most) : end]]
        found: list[MessageRow] = []
        width = _SLICE if self._thread else most
        while upper > 1 and len(found) < most:
            lower = max(0, upper - 1 - width)
            found = [row for row in self._read(lower, upper - 1) if self._concerns(row)] + found
            upper, width = lower + 1, min(4 * width, _WIDEST)
        return found[-most:]

    def _read(self, after: int, last: int) -> Iterator[MessageRow]:
        return takewhile(lambda row: row.number <= last, self._store.messages(self._job, after))

    def _concerns(self, row: MessageRow) -> bool:
        return self._thread in ("", row.thread, row.sender_thread)

    # ---- turns

    def _turns(self) -> list[TurnSpan]:
        index = self._ready
        rows = index.turns_of(self._thread) if index is not None else None
        found = rows if rows is not None else from_outbox(self._store.turns(self._job), self._thread)
        hosts = self._store.hosts_of(self._job) if any(turn.how == OUT for turn in found) else {}
        return [replace(turn, host=hosts[turn.turn]) if turn.turn in hosts else turn for turn in found]

    def _items(self, rows: list[MessageRow], turns: list[TurnSpan]) -> tuple[Item, ...]:
        placed: list[tuple[float, int, int, Item]] = [
            (row.time, 0, row.number, _message(row, self._thread)) for row in rows
        ]
        placed += [(turn.began, 1, place, self._folded(turn)) for place, turn in enumerate(turns)]
        placed.sort(key=lambda one: one[:3])
        return tuple(item for *_, item in placed)

    def _folded(self, turn: TurnSpan) -> TurnWork:
        work = self._streams.count(turn.thread, turn.turn)
        return TurnWork(
            key=turn.turn,
            turn=turn.turn,
            agent=turn.agent,
            thread=turn.thread,
            message=turn.message,
            began=turn.began,
            ended=turn.ended or (work.last if work.over else 0.0),
            how=turn.how,
            fault=turn.fault,
            model=turn.model,
            usage=turn.usage,
            work=work,
            host=turn.host,
        )


def _first_since(turns: list[TurnSpan], time: float) -> int:
    """Which turn is the first that began at a time or later; they are in the order in which they began."""
    return bisect_left(turns, time, key=lambda turn: turn.began)


def _message(row: MessageRow, thread: str) -> Message:
    meta = message_meta.read(row)
    return Message(
        key=f"m{row.number}",
        number=row.number,
        time=row.time,
        kind=row.kind,
        who=row.sender,
        to=row.agent,
        thread=row.thread,
        sender_thread=row.sender_thread,
        text=row.body,
        by=meta.by if isinstance(meta, Replied | Intervened) else "",
        author=meta.author if isinstance(meta, Answered | Relayed) else "",
        question=meta.question if isinstance(meta, Posed | Put | Answered | Relayed) else "",
        ruling=_ruling(meta),
        artifact=meta.artifact if isinstance(meta, Posed | Put) else "",
        files=tuple(sent.path for sent in meta.files) if isinstance(meta, SentFiles) else (),
        conflicts=meta.paths if isinstance(meta, Conflicted) else (),
        outgoing=bool(thread) and row.sender_thread == thread,
    )


def _ruling(meta: Meta | None) -> str:
    return str(meta.ruling or meta.choice) if isinstance(meta, Answered | Replied) else ""
