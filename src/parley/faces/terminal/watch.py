"""`parley watch`: all jobs on one screen, and every one of them within reach of a key.

It looks at the bus when something may have changed, at what is on the screen only, and paints what is different.
"""

from __future__ import annotations

import time
from typing import Protocol

from rich.text import Text

from parley.faces.terminal.deeds import Deeds
from parley.faces.terminal.keys import Pasted
from parley.faces.terminal.pages import Reading, help_page
from parley.faces.terminal.prompt import Prompt
from parley.faces.terminal.screen import cleaned, foot
from parley.faces.terminal.sight import Sight
from parley.faces.terminal.tty import Tty
from parley.ports import WorkspaceError

POLL_SECONDS = 0.25
TICK_SECONDS = 1.0  # what is not on the bus, an owner's death or an agent's progress, is looked for as often
SHARE = 10  # reading takes no more than one part in so many of the time
NOTES = 3  # lines of notes at most
LEAST = (40, 10)  # columns and lines below which nothing can be read


class Screen(Protocol):
    """What is seen at a time."""

    def read(self) -> None:
        """Something may have changed."""

    def press(self, key: str) -> bool:
        """Take a key; whether it meant something here."""

    def keys(self) -> list[str]:
        """What can be pressed, each with its meaning."""

    def draw(self, width: int, room: int) -> list[Text]:
        """What it shows, above the keys."""


class Watch:
    """The program: a stack of screens, a line that is being typed, and notes on what has become of it."""

    def __init__(self, sight: Sight) -> None:
        self.sight = sight
        self.deeds = Deeds(sight)
        self._screens: list[Screen] = []
        self._prompt: Prompt | None = None
        self._notes: list[str] = []
        self._stale = True
        self._next = self._read_at = 0.0

    def run(self, first: Screen, tty: Tty) -> None:
        """Until the human leaves."""
        self._screens = [first]
        while self._screens:
            self._look()
            tty.paint(self._lines(*tty.size))
            for key in tty.wait(POLL_SECONDS):
                try:
                    self._press(key)
                except (WorkspaceError, OSError) as error:
                    self.say(f"that was not possible: {error}")

    # ---- what the screens may ask for --------------------------------------------------------

    def open(self, screen: Screen) -> None:
        """Show another screen until it is left."""
        screen.read()
        self._screens.append(screen)

    def back(self) -> None:
        """Leave the screen that is shown."""
        self._screens.pop()
        self._stale, self._next = True, 0.0  # what lay below has not been read meanwhile

    def ask(self, prompt: Prompt) -> None:
        """Have a line typed."""
        self._prompt = prompt

    def say(self, note: str) -> None:
        """Tell the human something."""
        self._notes = [*(other for other in self._notes if other != note), note][-NOTES:]
        self._stale, self._next = True, 0.0  # a note is often about something that was just written

    # ---- the loop ----------------------------------------------------------------------------

    def _look(self) -> None:
        now = time.monotonic()
        self.sight.check()
        self._stale |= self.sight.store.changed()
        under_way = self.deeds.pending
        if under_way:
            news = self.deeds.news()
            over = set(under_way).difference(self.deeds.pending)
            self._notes = [
                note for note in self._notes if note not in over
            ]  # what a key was answered stays beside the news
            for note in news:
                self.say(note)
        if now >= self._next and (self._stale or now - self._read_at >= TICK_SECONDS):
            self._stale = False
            self._screens[-1].read()
            done = time.monotonic()
            self._read_at, self._next = now, done + (done - now) * SHARE

    def _lines(self, width: int, height: int) -> list[Text]:
        if width < LEAST[0] or height < LEAST[1]:
            small = f"this terminal has {width}x{height}; at least {LEAST[0]}x{LEAST[1]} is needed"
            return [Text(small[start : start + width]) for start in range(0, len(small), width)][:height]
        screen, prompt = self._screens[-1], self._prompt
        keys = prompt.keys if prompt else screen.keys()
        below = foot(keys, prompt.shown if prompt else None, prompt.typed if prompt else "", self._notes, width)
        room = height - len(below)
        lines = screen.draw(width, room)[:room]
        lines += [Text()] * (room - len(lines)) + below
        lines = [cleaned(line) for line in lines]
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return lines

    def _press(self, key: str) -> None:
        if not self._screens:
            return  # typed after the one that leaves
        under_way = self.deeds.pending
        self._notes = [note for note in self._notes if note in under_way]
        if self._prompt is not None:
            self._type(self._prompt, key)
        elif isinstance(key, Pasted):
            self.say("what was pasted is no order; press a key first that asks for words")
        elif not self._screens[-1].press(key):
            self._common(key)

    def _type(self, prompt: Prompt, key: str) -> None:
        if key == "esc":
            self._prompt = None
            self.say("nothing was sent")
        elif prompt.press(key):
            self._prompt = None
            sent = prompt.send(prompt.typed.strip(), prompt.way)
            if isinstance(sent, Prompt):
                self._prompt = sent
            else:
                self.say(sent)

    def _common(self, key: str) -> None:
        if key in ("q", "esc"):
            self.back()
        elif key in ("?", "h"):
            self.open(Reading(help_page()))
