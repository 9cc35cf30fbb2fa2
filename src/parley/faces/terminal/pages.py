"""Texts that are read page by page: a conversation, a diff, a question with its file, the keys."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

from rich.cells import cell_len
from rich.text import Text

from parley.core.terms import HUMAN, PROXY, thread_kind
from parley.engine.chronicle import Event, Follower, concerns, headline
from parley.engine.projections import Asked
from parley.faces.terminal.screen import clean, rule, wrapped
from parley.faces.terminal.sight import Exhibit
from parley.ports import Store
from parley.text import printable

LINES = 10_000  # that are kept of a text
MESSAGES, STEPS = 5_000, 50_000  # of a job's last that a conversation goes back to
CUT = 64 * 1024  # characters of one message
_DIFF = {"+": "green", "-": "red", "@": "cyan", "d": "bold", "i": "dim"}

Line = tuple[str, str]  # a text and its style


class Page:
    """A text of any length, of which one screen is seen."""

    def __init__(self, title: str, lines: Iterable[Line] = (), *, at_end: bool = False) -> None:
        self.title = clean(title)
        self._lines: deque[Line] = deque(lines, LINES)
        self._fitted: list[Line] = []
        self._width = 0
        self._room = 1
        self._offset = 0
        self._at_end = at_end

    def add(self, lines: Iterable[Line]) -> None:
        """Put more lines at the end; who reads the end goes along."""
        more = list(lines)
        if more:
            self._lines.extend(more)
            self._fitted += self._fit(more)
            del self._fitted[: max(0, len(self._fitted) - 2 * LINES)]

    def _fit(self, lines: Iterable[Line]) -> list[Line]:
        if not self._width:
            return []  # nobody has seen it yet
        return [(part, style) for text, style in lines for part in fitted(text, self._width - 1)]

    def turn(self, key: str) -> bool:
        """Scroll; whether that is what the key is for."""
        last = max(0, len(self._fitted) - self._room)
        step = max(1, self._room - 1)
        where = {
            "up": self._offset - 1,
            "k": self._offset - 1,
            "down": self._offset + 1,
            "j": self._offset + 1,
            "pageup": self._offset - step,
            "b": self._offset - step,
            "pagedown": self._offset + step,
            " ": self._offset + step,
            "home": 0,
            "g": 0,
            "end": last,
            "G": last,
        }.get(key)
        if where is None:
            return False
        self._offset = max(0, min(where, last))
        self._at_end = self._offset == last
        return True

    def draw(self, width: int, room: int) -> list[Text]:
        """As many lines as there is room for."""
        if width != self._width:
            self._width = width
            self._fitted = self._fit(self._lines)
        self._room = max(1, room - 1)
        last = max(0, len(self._fitted) - self._room)
        self._offset = last if self._at_end else min(self._offset, last)
        seen = self._fitted[self._offset : self._offset + self._room]
        total = len(self._fitted)
        last_seen = self._offset + len(seen)
        where = "" if total <= self._room else f", lines {self._offset + 1} to {last_seen} of {total}"
        return [rule(f"{self.title}{where}", width), *(Text(f" {text}", style) for text, style in seen)]


def fitted(text: str, width: int) -> list[str]:
    """A text in lines that fit. Most do as they are."""
    if (shown := printable(text)) == text and cell_len(text) <= width:
        return [shown]
    bare = text.lstrip(" ")
    indent = " " * min(len(text) - len(bare), width // 2)
    return [f"{indent}{part}" for part in wrapped(bare, width - len(indent))]


class Reading:
    """The screen on which a page is read."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def read(self) -> None:
        """What was written stays."""

    def press(self, key: str) -> bool:
        """Scroll."""
        return self._page.turn(key)

    def keys(self) -> list[str]:
        """What can be pressed."""
        return ["up/down scroll", "space page", "g beginning", "G end", "q back"]

    def draw(self, width: int, room: int) -> list[Text]:
        """The page."""
        return self._page.draw(width, room)


# ---- a conversation ------------------------------------------------------------------------------


class Conversation(Reading):
    """A job's messages, all or those of one thread; what is said while it is read comes at the end."""

    def __init__(self, store: Store, job: str, thread: str = "", name: str = "") -> None:
        self._store, self._job, self._thread = store, job, thread
        self._names = {"": job} | ({thread: name} if thread else {})  # of those that were spoken to, in that order
        self._begin()

    def _begin(self) -> None:
        last = self._store.load(self._job).transaction
        steps, messages = (last.steps, last.messages) if last else (0, 0)
        self._follower = Follower(
            self._store, self._job, step=max(0, steps - STEPS), message=max(0, messages - MESSAGES)
        )
        super().__init__(Page(f"conversation of {self._names[self._thread]}", at_end=True))
        if messages > MESSAGES:
            self._page.add([(f"earlier messages: parley log {self._job}", "dim"), ("", "")])
        self.read()

    def read(self) -> None:
        """Add what is new."""
        for event in self._follower.read():
            if event.kind == "message" and thread_kind(event.thread) in ("state", "dispatch"):
                self._names.setdefault(event.thread, event.to)
            if self._thread in (event.thread, event.sender_thread) or (not self._thread and concerns(event)):
                self._page.add(_told(event))

    def press(self, key: str) -> bool:
        """Scroll, or go on to the next thread, also to those that have ended."""
        if key == "tab":
            order = list(self._names)
            self._thread = order[(order.index(self._thread) + 1) % len(order)]
            self._begin()
            return True
        return super().press(key)

    def keys(self) -> list[str]:
        """What can be pressed."""
        *scrolling, back = super().keys()
        return [*scrolling, "Tab next thread", back]


def _told(event: Event) -> Iterable[Line]:
    moment = time.strftime("%H:%M:%S", time.localtime(event.time))
    if event.kind != "message":
        yield f"{moment}  {clean(headline(event, 400))}", "bold cyan" if event.kind == "transition" else "red"
        yield "", ""
        return
    head, body = _said(event)
    yield f"{moment}  {clean(head)}", "bold yellow" if HUMAN in (event.who, event.to) else "bold"
    for line in body[:CUT].splitlines():
        yield f"  {line}", ""
    if len(body) > CUT:
        yield "  … cut; `parley log` has all of it", "dim"
    yield "", ""


def _said(event: Event) -> tuple[str, str]:
    """Who speaks to whom, and what they say, without the protocol's marks around it."""
    known = event.about
    if event.to == HUMAN:
        return f"{known.get('asker', event.who)} asks you", event.text
    if "request" in known:
        return "the request", event.text
    if "intervene" in known:
        return f"{known['intervene'].get('by', HUMAN)} intervenes", event.text.partition("] ")[2]
    if event.who == HUMAN and event.to == PROXY:
        ruling = known.get("ruling")
        return f"{known.get('by', HUMAN)}{f': {ruling}' if ruling else ' answers'}", str(known.get("text", ""))
    return f"{event.who} → {event.to}", event.text


# ---- other texts ---------------------------------------------------------------------------------


def question_page(asked: Asked, found: Exhibit) -> Page:
    """A page with the question."""
    return Page(f"{asked.asker} asks", question_lines(asked, found, asked.artifact))


def question_lines(asked: Asked, found: Exhibit, file: str) -> Iterable[Line]:
    """The question in full, what has changed in the file that it is about, and the file."""
    yield from ((line, "bold") for line in asked.body.splitlines())
    if asked.stat and asked.stat.warning_lines():
        yield "", ""
        yield from ((line, "") for line in asked.stat.warning_lines())
    if found.since:
        yield "", ""
        yield from _since(asked, found)
    if asked.artifact:
        yield "", ""
        yield f"{file}:", "dim"
        yield "", ""
        yield from ((line, "") for line in found.content.splitlines())


def diff_page(job: str, text: str, asked: Asked | None = None, found: Exhibit | None = None) -> Page:
    """What a job changed; before it, where a gate is open, what is new in its file."""
    lines: list[Line] = [(line, _diff_style(line)) for line in text.splitlines()]
    if asked is not None and found is not None and found.since:
        lines = [*_since(asked, found), ("", ""), ("all that the job has changed:", "dim"), ("", ""), *lines]
    if asked is not None and asked.stat and asked.stat.warning_lines():
        lines = [*((line, "") for line in asked.stat.warning_lines()), ("", ""), *lines]
    return Page(f"what {job} changed", lines)


def _since(asked: Asked, found: Exhibit) -> Iterable[Line]:
    yield f"changed in {asked.artifact} since you saw it ({found.since}):", "dim"
    yield "", ""
    yield from ((line, _diff_style(line)) for line in (found.changed or "nothing").splitlines())


def _diff_style(line: str) -> str:
    if line.startswith(("+++", "---", "diff ")):
        return "bold"
    return _DIFF.get(line[:1], "") if line[:1] in "+-@" else ""


HELP = """\
the list
  up down j k        choose a job
  Enter              open it
  a                  answer what it asks; raise its budget where that is what it waits for

a job, in the list or opened
  c                  read its conversation
  d                  see what it has changed
  s                  tell it something: Tab says when, and with what authority
  z                  pause it, or go on; where nobody works on it, somebody will
  b                  raise its budget where that is spent
  x                  withdraw it; you are asked to confirm that
  q Esc              back; from the list: leave, the jobs go on

a job that was opened
  up down j k        choose one of the team: c, s and x are about it alone
  v                  read the question, and the file that it is about
  a r                approve; revise, and say why
  i p                back to the intent; back to the plan
  t                  answer in words
  n o f              where the question lists it: go on without the agent; stop the workflow; let the job fail
  w                  give the whole job up; you are asked to confirm that
  Tab                the next question
                     After a verdict: words if you like, then Enter.

a text
  up down space b    scroll
  g G                to its beginning, to its end
  Tab                the next thread of a conversation, also one that has ended

any time
  Ctrl-L             paint the screen anew
  Ctrl-Z             stop this program until `fg`
  Ctrl-C             leave; the jobs go on
"""


def help_page() -> Page:
    """All keys."""
    return Page("the keys", ((line, "" if line.startswith(" ") else "bold") for line in HELP.splitlines()))
