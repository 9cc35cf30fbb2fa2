"""Scrollable texts: a diff, a question with its file, the help."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.cells import cell_len
from rich.text import Text

from parley.base.text import printable
from parley.tui.screen import clean, rule, wrapped
from parley.views.job_view import Asked
from parley.views.questions.needs import GateView

LINES = 10_000  # of a text that grows: its last ones are kept
_STAMP = re.compile(r"\d\d:\d\d:\d\d  ")  # what follows a time stays to the right of it
_DIFF = {"+": "green", "-": "red", "@": "cyan", "d": "bold", "i": "dim"}

PAST_END, PAST_START = "that was the last one: on from the beginning", "that was the first one: on from the end"

Line = tuple[str, str]  # a text and its style


class Page:
    """A text of any length, of which one screen is visible.

    `earlier`: where the beginning of a text that has grown too long can be read.
    """

    def __init__(
        self, title: str, lines: Iterable[Line] = (), *, at_end: bool = False, at: int = 0, earlier: str = ""
    ) -> None:
        self.title, self._earlier = clean(title), earlier
        self._lines = list(lines)
        self._fitted: list[Line] = []
        self._width = 0
        self._room = 1
        self._offset, self._begin = 0, at  # `at`: the line that is the first to be seen
        self._at_end = at_end
        self._mark = ""  # the words that were searched for
        self._found: int | None = None  # the line that has them

    def add(self, lines: Iterable[Line]) -> None:
        """Add lines at the end; a view at the end scrolls along."""
        more = list(lines)
        if not more:
            return
        self._lines += more
        self._fitted += self._fit(more)
        if len(self._lines) > LINES:
            del self._lines[: -LINES // 2]  # by half: not again for each line that comes
            before = len(self._fitted)
            self._lines.insert(0, (f"earlier: {self._earlier}", "dim"))
            self._fitted = self._fit(self._lines)
            self._offset = max(0, self._offset + len(self._fitted) - before)
            self._found = None

    def stay_near(self, other: Page) -> None:
        """Show the place that another page of the same text shows: the moment at its top."""
        above = [text for text, _ in other._fitted[: other._offset + 1] if _STAMP.match(text)]
        if other._at_end or not above:
            return
        self._width = other._width
        self._fitted = self._fit(self._lines)
        places = [number for number, (text, _) in enumerate(self._fitted) if text == above[-1]]
        if places:
            self._offset, self._at_end = places[min(above.count(above[-1]), len(places)) - 1], False

    def put_first(self, line: Line) -> None:
        """Add a line at the beginning, before the first drawing."""
        self._lines.insert(0, line)

    def _fit(self, lines: Iterable[Line]) -> list[Line]:
        if not self._width:
            return []  # the width is not known yet
        return [(part, style) for text, style in lines for part in fitted(text, self._width - 1)]

    def turn(self, key: str) -> bool:
        """Scroll; whether the key scrolls."""
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
        self._found = None
        return True

    def find(self, words: str, step: int = 1) -> str | None:
        """Scroll to the next line that has some words, with `step` -1 to the one before.

        None: no line has them. Else what the reader has to know, if anything: that the search went past an end.
        """
        total, sought = len(self._fitted), words.casefold()
        before = self._offset - 1 if self._found is None else self._found  # the first line on the screen counts
        for number in range(1, total + 1):
            at = (before + step * number) % total
            if sought in self._fitted[at][0].casefold():
                self._offset, self._at_end = min(at, max(0, total - self._room)), False
                self._mark, passed = words, self._found is not None and (at - before) * step <= 0
                self._found = at
                return (PAST_END if step > 0 else PAST_START) if passed else ""
        return None

    def draw(self, width: int, room: int) -> list[Text]:
        """As many lines as fit."""
        if width != self._width:
            self._width, self._found = width, None
            self._fitted = self._fit(self._lines)
            if self._begin:
                self._offset, self._begin = len(self._fit(self._lines[: self._begin])), 0
        self._room = max(1, room - 1)
        last = max(0, len(self._fitted) - self._room)
        self._offset = last if self._at_end else min(self._offset, last)
        seen = self._fitted[self._offset : self._offset + self._room]
        total = len(self._fitted)
        last_seen = self._offset + len(seen)
        where = "" if total <= self._room else f", lines {self._offset + 1} to {last_seen} of {total}"
        return [rule(f"{self.title}{where}", width), *(self._line(text, style) for text, style in seen)]

    def _line(self, text: str, style: str) -> Text:
        line = Text(f" {text}", style)
        if self._mark:
            line.highlight_words([self._mark], "reverse", case_sensitive=False)
        return line


def fitted(text: str, width: int) -> list[str]:
    """A text in lines that fit; what is broken goes on below where it began."""
    if (shown := printable(text)) == text and cell_len(text) <= width:
        return [shown]
    stamp = _STAMP.match(text)
    bare = text[stamp.end() :] if stamp else text.lstrip(" ")
    head = text[: len(text) - len(bare)][: width // 2]
    first, *rest = wrapped(bare, width - len(head))
    return [f"{head}{first}", *(f"{' ' * len(head)}{part}" for part in rest)]


class PageScreen:
    """The screen on which a page is read."""

    section = "a text"

    def __init__(self, page: Page) -> None:
        self._page = page
        self._sought = ""

    def read(self) -> None:
        """The text does not change."""

    def press(self, key: str) -> bool:
        """Scroll."""
        return self._page.turn(key)

    def search(self, words: str, step: int = 1) -> str:
        """Go to the next place that has some words, the last ones if none are given; why that failed, if it did."""
        self._sought = words or self._sought
        if not self._sought:
            return "nothing was searched for yet: / does"
        found = self._page.find(self._sought, step)
        return f"nothing here has {self._sought!r} in it" if found is None else found

    def keys(self) -> list[str]:
        """The keys."""
        return ["up/down scroll", "space page", "g/G top/end", "/ find", *(["n/N next/before"] if self._sought else [])]

    def draw(self, width: int, room: int) -> list[Text]:
        """The page."""
        return self._page.draw(width, room)


# ---- other texts ---------------------------------------------------------------------------------


def question_page(asked: Asked, found: GateView) -> Page:
    """A page with the question."""
    return Page(f"{asked.asker} asks", question_lines(asked, found, asked.artifact))


def question_lines(asked: Asked, found: GateView, file: str) -> Iterable[Line]:
    """The question in full, the changes of its file, and the file."""
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


def artifacts_page(job: str, found: Iterable[tuple[str, str]]) -> Page:
    """A job's artifacts, one below the other."""
    lines = list[Line]()
    for name, text in found:
        lines += [(f"{name}:", "bold"), ("", ""), *((line, "") for line in text.splitlines()), ("", "")]
    return Page(f"what {job} has agreed on and reported", lines)


def diff_page(job: str, text: str, asked: Asked | None = None, found: GateView | None = None) -> Page:
    """A job's diff; where a gate is open, after the changes of its file."""
    lines: list[Line] = [(line, _diff_style(line)) for line in text.splitlines()]
    if asked is not None and found is not None and found.since:
        lines = [*_since(asked, found), ("", ""), ("all that the job has changed:", "dim"), ("", ""), *lines]
    if asked is not None and asked.stat and asked.stat.warning_lines():
        lines = [*((line, "") for line in asked.stat.warning_lines()), ("", ""), *lines]
    return Page(f"what {job} changed", lines)


def _since(asked: Asked, found: GateView) -> Iterable[Line]:
    yield f"changed in {asked.artifact} since you saw it ({found.since}):", "dim"
    yield "", ""
    yield from ((line, _diff_style(line)) for line in (found.changed or "nothing").splitlines())


def _diff_style(line: str) -> str:
    if line.startswith(("+++", "---", "diff ")):
        return "bold"
    return _DIFF.get(line[:1], "") if line[:1] in "+-@" else ""


HELP = """\
the list
  up down j k      choose a job
  Enter            open it
  a                answer what it asks, or raise the budget that it waits for
  n                start a new job: say in a line what is to be done
  e                the same, written in your editor
  /                show only jobs with some words; Esc shows all again
  A                show the jobs of all your repositories, or of this one

a job, in the list or opened
  c                read what was said and done: messages, tool calls, results
  d                see what it has changed
  s                tell it something: Tab says when, and with what authority
  z                pause it, or go on; starts a process where none works on it
  b                raise its budget where that is spent
  x                withdraw it; you are asked to confirm that
  m                when it is done: merge its result into your checkout
  P                when it is done: push its branch, and open a pull request
  C                when it has ended: start a job that goes on from its result
  q Esc            back; from the list: leave, the jobs go on

a job that was opened
  up down j k      choose one of the team: c, s and x are about it alone
  v                read the question and its file; else the job's newest files
  a r              approve; revise, and say why
  i p              back to the intent; back to the plan
  t                answer in words
  n                where the question lists it: go on without the agent
  o f              the same: stop the workflow; let the job fail
  w                give the whole job up; you are asked to confirm that
  Tab              the next question
                   After a verdict: words if you like, then Enter.

a text
  up down space b  scroll
  g G              to its beginning, to its end
  / n N            find some words; the next place, the one before
  Tab              in what was said and done: the next thread, ended ones too
  w f              there: leave the tool calls out; show their results in full

while you type
  Enter Esc        send it; cancel
  Tab              where that is offered: when it is delivered
  left right       move in it; Ctrl-A to its beginning, Ctrl-E to its end
  Ctrl-W Ctrl-U    delete the word before; delete all

any time
  ?                these keys, or back from them
  Ctrl-L           redraw the screen
  Ctrl-Z           stop this program until `fg`; not where it works on a job
  Ctrl-C           leave; jobs in the background go on
"""


class HelpScreen(PageScreen):
    """All keys, those of one kind of screen first on it."""

    def __init__(self, section: str) -> None:
        lines = HELP.splitlines()
        styled = ((line, "" if line.startswith(" ") else "bold") for line in lines)
        super().__init__(Page("the keys", styled, at=lines.index(section)))
