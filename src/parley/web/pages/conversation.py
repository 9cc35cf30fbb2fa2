"""The conversation of a thread, or of the whole job: messages as they went to and fro, and between them the turns.

It is shown from its end, and earlier pages are fetched when they are asked for. What is new is appended by the page's
script, so that a person who reads further up is not disturbed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from starlette.responses import Response

from parley.base.text import cut
from parley.bus.rows import NoMessage
from parley.engine.protocol_messages import excerpt
from parley.features.budgets.arithmetic import micros_of, tokens_of
from parley.protocol.molecules import HUMAN, ORCHESTRATOR
from parley.views.history.conversation import Conversation, ConversationPage, Item, Message, TurnWork
from parley.views.job_list import team
from parley.views.work import WorkEvent, WorkKind
from parley.web.pages.job_head import JobPage, job_page
from parley.web.reads.job_indexes import JobReading
from parley.web.visit import NotHere, Visit

PAGE_MESSAGES = 40
LONGEST = 6_000  # characters of a message that are shown before one asks for the rest
EVENTS = 100  # of a turn that are shown at once
GROUPED = 3  # turns without a message between them that are folded into one line
CHOICES = 60  # threads that the picker lists
MOST_NEW = 400  # items that are appended at once; after more the page is loaded again
_MARK = re.compile(r"\[([A-Z][A-Za-z ]{1,30})\]\s*")
_BAD_MARKS = ("FAILED", "MERGE conflict", "MERGE conflicts", "WITHDRAW", "STALLED")


@dataclass(frozen=True, slots=True)
class Bubble:
    """A message as the page shows it."""

    message: Message
    mark: str  # such as `MERGE clean`
    text: str
    cut: bool  # whether there is more of it
    raw: bool = False

    @property
    def side(self) -> str:
        """On which side it stands: people's words on the right."""
        return "own" if self.message.who == HUMAN or self.message.by else "theirs"

    @property
    def bad(self) -> bool:
        """Whether its mark tells of trouble."""
        return self.mark in _BAD_MARKS


@dataclass(frozen=True, slots=True)
class TurnLine:
    """A turn as the page shows it, folded."""

    turn: TurnWork
    words: str


@dataclass(frozen=True, slots=True)
class TurnGroup:
    """Several turns of one instance, with nothing said in between."""

    key: str
    lines: tuple[TurnLine, ...]

    @property
    def first(self) -> TurnWork:
        """The first of them."""
        return self.lines[0].turn

    @property
    def seconds(self) -> float:
        """How long it worked, all together."""
        return sum(max(0.0, line.turn.ended - line.turn.began) for line in self.lines if line.turn.ended)


def conversation(visit: Visit) -> Response:
    """The tab."""
    page = job_page(visit)
    thread = _thread(visit)
    if thread and not _known(page, thread):
        raise NotHere(f"there is no thread {cut(thread, 60)!r} in {page.at.id}; choose one from the list")
    found = _read(page, thread)
    return page.show(
        "job_conversation.html",
        tab="conversation",
        thread=thread,
        agent=_agent(page, thread),
        choices=list(_choices(page, "")),
        search="",
        **_shown(page, found),
    )


def earlier(visit: Visit) -> Response:
    """The page of messages before a number."""
    page = job_page(visit)
    before = visit.number("before")
    found = _read(page, _thread(visit), before=before)
    return page.part("part_talk_earlier.html", thread=_thread(visit), **_shown(page, found))


def newer(visit: Visit) -> Response:
    """What came after a number: new items, and turns that have changed."""

    def make() -> Response:
        page = job_page(visit)
        number = visit.number("after")
        talk, reading = _talk(page, _thread(visit))
        with reading.lock:
            found = talk.after(number)
        items = found.items if len(found.items) <= MOST_NEW else ()
        values = _shown(page, ConversationPage(items=items, last=found.last))
        return page.part("part_talk_new.html", thread=_thread(visit), reload=len(found.items) > MOST_NEW, **values)

    return visit.kept(make)


def one_message(visit: Visit) -> Response:
    """One message: rendered or as it was written, whole or cut."""
    page = job_page(visit)
    number = visit.number("number")
    talk, reading = _talk(page, "")
    try:
        page.at.context.store.message(page.at.id, number)
    except NoMessage as error:
        raise NotHere(f"there is no message {number} in {page.at.id}") from error
    with reading.lock:
        found = talk.page(before=number + 1, limit=1)
    message = next((item for item in found.items if isinstance(item, Message) and item.number == number), None)
    if message is None:
        raise NotHere(f"there is no message {number} in {page.at.id}")
    shown = _bubble(message, raw=visit.query.get("raw") == "1", whole=visit.query.get("whole") == "1")
    return page.part("part_message.html", item=shown, thread=_thread(visit))


def turn_events(visit: Visit) -> Response:
    """What one turn did."""
    page = job_page(visit)
    turn, after = visit.path["turn"], visit.number("after")
    talk, reading = _talk(page, _thread(visit))
    with reading.lock:
        found = talk.events(turn, after, EVENTS)
    events = list(_merged(found.events))
    return page.part(
        "part_turn_events.html",
        turn=turn,
        thread=_thread(visit),
        events=events,
        next=found.first + len(found.events) if found.more else 0,
        first=found.first,
    )


def threads(visit: Visit) -> Response:
    """The threads that a search finds."""
    page = job_page(visit)
    search = cut(visit.query.get("q", ""), 200)
    return page.part("part_threads.html", thread=_thread(visit), choices=list(_choices(page, search)), search=search)


# ---- reading -----------------------------------------------------------------------------------------


def _thread(visit: Visit) -> str:
    return cut(visit.query.get("thread", ""), 300)


def _talk(page: JobPage, thread: str) -> tuple[Conversation, JobReading]:
    reading = page.reading()
    with reading.held() as index:
        made = Conversation(page.at.context.store, page.at.id, reading.streams, thread=thread, index=index)
    return made, reading


def _read(page: JobPage, thread: str, before: int | None = None) -> ConversationPage:
    talk, reading = _talk(page, thread)
    with reading.lock:
        return talk.page(before=before, limit=PAGE_MESSAGES)


def _known(page: JobPage, thread: str) -> bool:
    if any(one.id == thread for one in page.present.threads()):
        return True
    with page.reading().held() as index:
        if index is not None:
            return index.thread(thread) is not None
    return True  # not read yet: an unknown one is just empty


def _agent(page: JobPage, thread: str) -> str:
    for one in page.present.threads():
        if one.id == thread:
            return one.agent
    with page.reading().held() as index:
        past = index.thread(thread) if index is not None else None
    return past.agent if past is not None else ""


@dataclass(frozen=True, slots=True)
class ThreadChoice:
    """A thread that can be chosen."""

    id: str
    agent: str
    words: str
    state: str


def _choices(page: JobPage, search: str) -> Iterator[ThreadChoice]:
    """The threads whose agent, name or words have all words of a search: those at work first, then the newest."""
    words = search.casefold().split()
    order = {"running": 0, "stalled": 0, "asking": 1}
    now = sorted(team(page.present), key=lambda one: order.get(one.state, 2))
    found = [ThreadChoice(one.id, one.agent, one.doing or one.state, one.state) for one in now]
    there = {one.id for one in found}
    with page.reading().held() as index:
        past = [one for one in index.threads() if one.ended] if index is not None else []
    found += [ThreadChoice(one.id, one.agent, one.how, "ended") for one in reversed(past) if one.id not in there]
    fits = (one for one in found if all(word in f"{one.agent} {one.id} {one.words}".casefold() for word in words))
    for number, one in enumerate(fits):
        if number == CHOICES:
            return
        yield one


# ---- showing -----------------------------------------------------------------------------------------


def _shown(page: JobPage, found: ConversationPage) -> dict[str, Any]:
    return {
        "items": list(_grouped(_item(item) for item in found.items if _matters(item))),
        "before": found.before,
        "last": found.last,
        "reading": page.reading(),
    }


def _matters(item: Item) -> bool:
    """The orchestrator's turns are code, and take no time."""
    return not (isinstance(item, TurnWork) and item.agent == ORCHESTRATOR)


def _item(item: Item) -> Bubble | TurnLine:
    return _bubble(item) if isinstance(item, Message) else TurnLine(item, _turn_words(item))


def _grouped(items: Iterable[Bubble | TurnLine]) -> Iterator[Bubble | TurnLine | TurnGroup]:
    """Fold turns of the same instance that follow each other, once they are over."""
    for _, run in groupby(items, key=_run_of):
        lines = list(run)
        turns = [line for line in lines if isinstance(line, TurnLine)]
        if len(turns) < GROUPED or len(turns) < len(lines):
            yield from lines
        else:
            yield TurnGroup(f"g{turns[0].turn.key}", tuple(turns))


def _run_of(item: Bubble | TurnLine) -> tuple[str, str]:
    if isinstance(item, Bubble):
        return "message", item.message.key
    turn = item.turn
    return ("out", turn.key) if turn.out else (turn.thread, turn.agent)


def _bubble(message: Message, *, raw: bool = False, whole: bool = False) -> Bubble:
    mark = _MARK.match(message.text)
    text = message.text if raw or mark is None else message.text[mark.end() :]
    longer = len(text) > LONGEST and not whole
    shown = mark[1] if mark and mark[1].split(" ")[0].lower() != message.kind and not message.ruling else ""
    kept = cut(text, LONGEST) if longer else text
    return Bubble(message=message, mark=shown, text=kept, cut=longer, raw=raw)


def _turn_words(turn: TurnWork) -> str:
    """What a turn came to, in a few words."""
    parts = []
    if turn.work.uses:
        failed = f", {turn.work.failed} failed" if turn.work.failed else ""
        parts.append(f"{turn.work.uses} tool {'use' if turn.work.uses == 1 else 'uses'}{failed}")
    if turn.work.says:
        parts.append(f"said something {turn.work.says} {'time' if turn.work.says == 1 else 'times'}")
    if (micros := micros_of(turn.usage)) > 0:
        parts.append(f"${micros / 1e6:,.2f}")
    elif (tokens := tokens_of(turn.usage)) > 0:
        parts.append(f"{tokens:,} tokens")
    if turn.model:
        parts.append(excerpt(turn.model, 60))
    if turn.fault:
        parts.append(excerpt(turn.fault, 160))
    return " · ".join(parts)


@dataclass(frozen=True, slots=True)
class Deed:
    """A tool's use with its result, or something that was said."""

    event: WorkEvent
    under_way: bool = False


def _merged(events: Iterable[WorkEvent]) -> Iterator[Deed]:
    """A use and its result are one line, where the result stands."""
    kept = list(events)
    over = {(one.turn, one.use) for one in kept if one.kind is WorkKind.RESULT and one.use}
    for one in kept:
        if one.kind is WorkKind.USE and (one.turn, one.use) in over:
            continue
        yield Deed(one, one.kind is WorkKind.USE)


_BASE = "/r/{repository}/{job}"
PAGES = (
    (f"{_BASE}/conversation", ("GET",), conversation),
    (f"{_BASE}/part/talk/earlier", ("GET",), earlier),
    (f"{_BASE}/part/talk/new", ("GET",), newer),
    (f"{_BASE}/part/message/{{number}}", ("GET",), one_message),
    (f"{_BASE}/part/turn/{{turn}}", ("GET",), turn_events),
    (f"{_BASE}/part/threads", ("GET",), threads),
)
