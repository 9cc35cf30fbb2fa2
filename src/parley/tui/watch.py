"""The terminal's program, for `parley watch` and `parley run`: a stack of screens with keys, prompts and notes.

It reads a bus when something may have changed, and only what is on the screen, and paints the differences.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from rich.text import Text

from parley.actions.user_actions import UserActions
from parley.bus.rows import BusError
from parley.machine import stop_signals
from parley.ports.workspaces import WorkspaceError
from parley.tui.pages import HelpScreen, PageScreen
from parley.tui.prompt import Prompt
from parley.tui.screen import cleaned, key_lines, notes_lines, prompt_lines, wrapped
from parley.tui.terminal.keys import Pasted
from parley.tui.terminal.tty import Tty
from parley.views.job_view import DAMAGE
from parley.views.repository_context import RepositoryContext

POLL_SECONDS = 0.25
TICK_SECONDS = 1.0  # between two reads of what is not on the bus: owners' deaths, agents' progress
SHARE = 10  # reading takes at most this fraction, one tenth, of the time
NOTES = 3  # lines of notes at most
KEY_SHARE = 6  # the keys take at most this fraction, one sixth, of the lines
LEAST = (40, 10)  # columns and lines below which nothing can be read
KEY_NAMES = {" ": "space", "tab": "Tab", "enter": "Enter", "clear": "Ctrl-U", "word": "Ctrl-W"}
STAYS = "Ctrl-C leaves; `parley resume` goes on with the job later"


class Screen(Protocol):
    """One screen."""

    section: str  # of the help, which has its keys

    def read(self) -> None:
        """Read again: something may have changed."""

    def press(self, key: str) -> bool:
        """Handle a key; whether this screen uses it."""

    def keys(self) -> list[str]:
        """The keys, each with its meaning."""

    def draw(self, width: int, room: int) -> list[Text]:
        """The lines above the keys."""


class Watch:
    """The program: a stack of screens, a prompt, and notes.

    `owns`: this process works on the job that is shown, so that leaving the last screen would end that. `hands_off`:
    what keys are answered with where none has an effect, as in the demo.
    """

    def __init__(
        self, tty: Tty, contexts: Sequence[RepositoryContext], *, owns: bool = False, hands_off: str = ""
    ) -> None:
        self.contexts = list(contexts)
        self.actions = UserActions(going_on="z goes on")
        self._tty = tty
        self._owns, self._hands_off = owns, hands_off
        self._screens: list[Screen] = []
        self._prompt: Prompt | None = None
        self._notes: list[str] = []
        self._stale = True
        self._next = self._read_at = 0.0

    def run(self, first: Screen) -> None:
        """Run until the user leaves."""
        self._screens = [first]
        while self.step(POLL_SECONDS):
            stop_signals.raise_if_asked()

    def begin(self, first: Screen) -> None:
        """Show a screen; `step` does the rest."""
        self._screens = [first]

    def step(self, seconds: float) -> bool:
        """Read what is new, paint it, and handle the keys that come within a time; False once the user has left."""
        self._look()
        self._tty.paint(self._lines(*self._tty.size))
        for key in self._tty.wait(seconds):
            try:
                self.press(key)
            except DAMAGE as error:
                self.say(f"that was not possible: {_damaged(error)}")
            except (WorkspaceError, BusError, OSError) as error:  # a bus that is gone ends it in `_look`
                self.say(f"that was not possible: {error}")
        return bool(self._screens)

    # ---- for the screens --------------------------------------------------------

    def open(self, screen: Screen) -> None:
        """Show another screen until it is left."""
        screen.read()
        self._screens.append(screen)

    def back(self) -> None:
        """Leave the current screen."""
        if self._owns and len(self._screens) == 1:
            self.say(STAYS)
            return
        self._screens.pop()
        self._stale, self._next = True, 0.0  # the screen below was not read meanwhile

    def ask(self, prompt: Prompt) -> None:
        """Open a prompt."""
        self._prompt = prompt

    def say(self, note: str) -> None:
        """Show a note."""
        self._notes = [*(other for other in self._notes if other != note), note][-NOTES:]
        self._stale, self._next = True, 0.0  # a note is often about a new row

    def lend(self, program: Sequence[str], words: str) -> int:
        """Give the terminal to a program, such as an editor, until it ends: its exit code."""
        self._stale, self._next = True, 0.0
        return self._tty.lend(program, words)

    @property
    def pending(self) -> bool:
        """Whether something that was asked for has not ended."""
        return bool(self.actions.pending)

    # ---- the loop ----------------------------------------------------------------------------

    def _look(self) -> None:
        now = time.monotonic()
        for context in list(self.contexts):
            self._stale |= self._changed(context)
        under_way = self.actions.pending
        if under_way:
            news = self.actions.news()
            over = set(under_way).difference(self.actions.pending)
            self._notes = [note for note in self._notes if note not in over]  # keep the reply to a key beside the news
            for note in news:
                self.say(note)
        if now >= self._next and (self._stale or now - self._read_at >= TICK_SECONDS):
            self._stale = False
            self._read()
            done = time.monotonic()
            self._read_at, self._next = now, done + (done - now) * SHARE

    def _read(self) -> None:
        """Read what the screen shows. A job that can't be read any more is left for the list."""
        try:
            self._screens[-1].read()
        except DAMAGE as error:
            if len(self._screens) == 1:
                raise
            self._prompt = None
            del self._screens[1:]
            self.say(_damaged(error))

    def _changed(self, context: RepositoryContext) -> bool:
        """Whether a bus may have changed; one of another repository may go meanwhile, and leaves the list."""
        try:
            return context.changed()
        except BusError as gone:
            if context is self.contexts[0]:
                raise
            self.contexts.remove(context)
            self._prompt = None
            del self._screens[1:]  # they may be about one of its jobs
            self.say(f"{context.title} is left out: {gone}")
            return True

    def _lines(self, width: int, height: int) -> list[Text]:
        if width < LEAST[0] or height < LEAST[1]:
            small = f"this terminal has {width}x{height}; at least {LEAST[0]}x{LEAST[1]} is needed"
            return [Text(line[:width]) for line in wrapped(small, width)][:height]
        screen, prompt = self._screens[-1], self._prompt
        below = key_lines(prompt.keys if prompt else self._offered(screen), width, max(1, height // KEY_SHARE))
        if self._notes or prompt is None:
            below += notes_lines(self._notes, width)
        if prompt is not None:
            below += prompt_lines(prompt.shown, prompt.typed, prompt.cursor, width)
        room = height - len(below)
        lines = screen.draw(width, room)[:room]
        lines += [Text()] * (room - len(lines)) + below
        lines = [cleaned(line) for line in lines]
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return lines

    def _offered(self, screen: Screen) -> list[str]:
        if self._hands_off:
            return ["Ctrl-C ends it"]
        alone = self._owns and len(self._screens) == 1
        known = [] if isinstance(screen, HelpScreen) else ["? keys"]
        return [*screen.keys(), *known, "Ctrl-C leave" if alone else "q back" if len(self._screens) > 1 else "q quit"]

    def press(self, key: str) -> None:
        """Handle a key."""
        if not self._screens:
            return  # typed after the key that leaves
        under_way = self.actions.pending
        self._notes = [note for note in self._notes if note in under_way]
        if self._hands_off:
            self.say(self._hands_off)
        elif self._prompt is not None:
            self._type(self._prompt, key)
        elif isinstance(key, Pasted):
            self.say("pasted text is ignored here; press a key first that asks for words")
        elif not self._screens[-1].press(key):
            self._common(key)

    def _type(self, prompt: Prompt, key: str) -> None:
        if key == "esc":
            self._prompt = None
            if prompt.cancelled:
                self.say(prompt.cancelled)
        elif prompt.press(key):
            sent = prompt.send(prompt.typed.strip(), prompt.way)  # where it raises, what was typed stays
            self._prompt = sent if isinstance(sent, Prompt) else None
            if isinstance(sent, str) and sent:
                self.say(sent)

    def _common(self, key: str) -> None:
        helps = key in ("?", "h")
        if key in ("q", "esc") or (helps and isinstance(self._screens[-1], HelpScreen)):
            self.back()
        elif helps:
            self.open(HelpScreen(self._screens[-1].section))
        elif key in ("/", "n", "N") and isinstance(screen := self._screens[-1], PageScreen):
            self._search(screen, key)
        elif key != "redraw":
            self.say(f"{KEY_NAMES.get(key, key)} does nothing here; ? shows the keys")

    def _search(self, screen: PageScreen, key: str) -> None:
        """Find words in a text."""
        if key == "/":
            self.ask(Prompt("find", lambda text, way: screen.search(text), cancelled="", enter="finds"))
        elif said := screen.search("", 1 if key == "n" else -1):
            self.say(said)


def _damaged(error: Exception) -> str:
    return f"a row can't be read ({error}): another program changed it; `parley audit JOB` names it"
