"""The live view: the phase, who does what, the last messages, and what needs the human, who answers here.

It never blocks: each `show` takes what was typed, reads what was committed, and draws.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from parley.config import ConfigError, budget_amount, budget_words
from parley.engine.budgets import day_of, remedies
from parley.engine.chronicle import Follower, concerns
from parley.engine.projections import Asked, Present, Thread, tree, with_progress
from parley.engine.records import WORDLESS, lacks_words
from parley.engine.session import Closed, give_answer, leave
from parley.engine.signs import alarms
from parley.faces.terminal.keys import Keys
from parley.faces.terminal.pages import question_lines
from parley.faces.terminal.prompt import Prompt, confirm
from parley.faces.terminal.questions import Choice, about, choices, words_of
from parley.faces.terminal.screen import Scene, draw, stamp, style_of, team, told, wrapped
from parley.faces.terminal.sight import Exhibit
from parley.output import beneath
from parley.ports import Files, Store, WorkspaceError

DRAW_SECONDS = 0.25
READ_SECONDS = 0.1  # a job that does much is read no more often than people see
MESSAGES = 200
LINE = 400

LEAVING = "Ctrl-C leaves; the job can be gone on with later"


class TerminalView:
    """A whole screen for one job."""

    def __init__(
        self,
        store: Store,
        files: Files,
        job: str,
        by: str,
        place: Callable[[Asked], Path],
        exhibit: Callable[[Asked], Exhibit],
        diff: Callable[[], str],
        *,
        hands_off: bool = False,
    ) -> None:
        self._hands_off = hands_off
        self._exhibit, self._diff = exhibit, diff
        self._store, self._files, self._job, self._by, self._place = store, files, job, by, place
        self._follower = Follower(store, job)
        self._lines: deque[Text] = deque(maxlen=MESSAGES)
        self._present = Present(store, job)
        self._questions: list[Asked] = []
        self._turns = 0
        self._chosen = ""
        self._prompt: Prompt | None = None
        self._note = ""
        self._page: list[str] | None = None
        self._offset = 0
        self._drawn = 0.0
        self._stale = True
        self._inputs = 0
        self._console = Console(file=beneath(sys.stdout), highlight=False)
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._keys = Keys(sys.stdin.fileno())

    def __enter__(self) -> Self:
        self._keys.__enter__()
        try:
            self._live.__enter__()
        except BaseException:
            self._keys.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._live.__exit__(kind, error, trace)
        finally:
            self._keys.__exit__(kind, error, trace)

    # ---- what has happened -------------------------------------------------------------------

    def show(self) -> None:
        """Take keys, read what is new, draw if there is something to draw."""
        keys = self._keys.read()
        for key in keys:
            self._press(key)
        self._stale |= self._store.changed()
        since = time.monotonic() - self._drawn
        if keys or (self._stale and since >= READ_SECONDS):
            self._stale = False
            self._read()
            self._draw()
        elif since >= DRAW_SECONDS:
            self._draw()

    def _read(self) -> None:
        self._present = Present(self._store, self._job)
        self._questions = self._present.questions()
        self._turns = sum(turn.status == "ended" for turn in self._store.turns(self._job))
        if self._chosen and not any(asked.id == self._chosen for asked in self._questions):
            self._chosen, self._page = "", None
        if not self._chosen and self._questions:
            self._chosen = self._questions[0].id
        for event in self._follower.read():
            if concerns(event):
                self._lines.append(stamp(event.time, told(event, LINE), style_of(event)))

    @property
    def _asked(self) -> Asked | None:
        return next((asked for asked in self._questions if asked.id == self._chosen), None)

    # ---- what is typed -----------------------------------------------------------------------

    def _press(self, key: str) -> None:
        self._note = ""
        if self._hands_off:
            self._note = "the demo answers by itself; Ctrl-C ends it"
        elif self._prompt is not None:
            self._type(self._prompt, key)
        elif self._page is not None and key in ("up", "down", "pageup", "pagedown", " ", "esc", "v", "d"):
            self._turn_page(key)
        elif self._asked is not None and self._choose(self._asked, key):
            return
        elif key == "s":
            self._prompt = Prompt("tell the team", lambda text, way: self._intervene(text))
        elif key == "z":
            self._hold()
        elif key == "b" and (spent := self._present.spent()):
            more = remedies(self._job, spent[0])[0].rpartition(" ")[2]
            self._prompt = Prompt("raise the budget", lambda text, way: self._raise(text), typed=more)
        elif key == "x":
            self._prompt = Prompt(f"withdraw {self._job}; why", self._withdraw)
        elif key == "d":
            self._read_diff()

    def _type(self, prompt: Prompt, key: str) -> None:
        if key == "esc":
            self._prompt, self._note = None, "nothing was sent"
        elif prompt.press(key):
            self._prompt = None
            sent = prompt.send(prompt.typed.strip(), prompt.way)
            if isinstance(sent, Prompt):
                self._prompt = sent
            else:
                self._note = sent

    def _choose(self, asked: Asked, key: str) -> bool:
        """A key that is about the question."""
        choice = choices(asked).get(key)
        if choice is not None:
            self._prompt = Prompt(choice.label, lambda text, way: self._answer(asked, choice, text))
        elif key == "v":
            self._page, self._offset = self._text(asked), 0
        elif key == "tab" and len(self._questions) > 1:
            ids = [each.id for each in self._questions]
            self._chosen = ids[(ids.index(asked.id) + 1) % len(ids)]
            self._page = None
        else:
            return False
        return True

    def _turn_page(self, key: str) -> None:
        if key in ("esc", "v", "d"):
            self._page = None
            return
        step = {"up": -1, "down": 1, "pageup": -10}.get(key, 10)
        width = self._console.size.width - 2
        last = sum(len(wrapped(line, width)) for line in self._page or ()) - 1
        self._offset = max(0, min(self._offset + step, last))

    def _read_diff(self) -> None:
        """Open what the job has changed."""
        try:
            text = self._diff()
        except WorkspaceError as trouble:
            self._note = str(trouble)
            return
        if text:
            self._page, self._offset = text.splitlines(), 0
        else:
            self._note = f"{self._job} has changed nothing yet"

    def _text(self, asked: Asked) -> list[str]:
        """The question in full, what has changed in the artifact that it is about, and the artifact."""
        if not asked.artifact:
            return asked.body.splitlines()
        try:
            found = self._exhibit(asked)
        except WorkspaceError as trouble:
            return [*asked.body.splitlines(), "", f"{self._place(asked)}: {trouble}"]
        return [text for text, _ in question_lines(asked, found, str(self._place(asked)))]

    # ---- what is asked of the job ------------------------------------------------------------

    def _answer(self, asked: Asked, choice: Choice, text: str) -> str | Prompt:
        if gives_up := choice.gives_up(asked):
            return confirm(self._job, gives_up, lambda: self._give(asked, choice, text))
        if lacks_words(choice.ruling, text):
            return Prompt(WORDLESS, lambda text, way: self._answer(asked, choice, text))
        return self._give(asked, choice, text)

    def _give(self, asked: Asked, choice: Choice, text: str) -> str:
        if choice.ruling is None and choice.option is None and not text:
            return "an answer needs words"
        try:
            give_answer(self._store, asked, choice.ruling, text, self._by, choice.option)
        except Closed as closed:
            return f"{closed}{f': {closed.earlier.by} was faster' if closed.earlier else ''}"
        return f"answered: {choice.ruling or choice.option or asked.menu.words or text}"

    def _leave(self, kind: str, body: dict[str, Any]) -> None:
        self._inputs += 1
        key = f"{kind}:{self._by}:{time.time_ns()}:{self._inputs}"
        leave(self._store, self._job, kind, key, body=body, by=self._by)

    def _intervene(self, text: str) -> str:
        if not text:
            return ""
        self._leave("intervene", {"thread": None, "text": text, "now": False, "authoritative": False})
        return "the lead hears it when its turn ends"

    def _withdraw(self, text: str, way: int) -> Prompt:
        def sure() -> str:
            self._leave("withdraw", {"thread": None, "reason": text})
            return "withdrawing"

        return confirm(self._job, f"withdraw {self._job} for good", sure)

    def _hold(self) -> None:
        paused = self._present.paused
        self._leave("resume" if paused else "pause", {})
        self._note = "goes on" if paused else "pauses when the turns under way have ended"

    def _raise(self, text: str) -> str:
        """Allow more, as `--budget` says it: `turns=+40`."""
        try:
            named = budget_words(text)
            for (what, _), word in named.items():
                budget_amount(what, word.removeprefix("+"), f"{what}={word}")
        except ConfigError as error:
            return str(error)
        raised = {what if scope == "job" else f"{scope}.{what}": word for (what, scope), word in named.items()}
        self._leave("resume", {"budget": raised, "day": day_of(time.time())})
        return f"raised: {text}"

    # ---- how it looks ------------------------------------------------------------------------

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        width, height = self._console.size
        self._live.update(Group(*draw(self._scene(), width, height)), refresh=True)

    def _scene(self) -> Scene:
        present, asked, now = self._present, self._asked, time.time()
        row, record = present.row, present.record
        ended = record is not None and not record.live
        return Scene(
            job=self._job,
            request=row.request,
            record=record,
            status=self._status(ended=ended),
            elapsed=(row.updated if ended else now) - row.created,
            turns=self._turns,
            now=now,
            threads=[(depth, self._live_thread(thread)) for depth, thread in tree(team(present), [])],
            messages=self._lines,
            question=about(asked) if asked else "",
            words=words_of(asked) if asked else "",
            keys=self._offered(asked),
            prompt=self._prompt.shown if self._prompt else None,
            typed=self._prompt.typed if self._prompt else "",
            note=self._note or self._spent() or ("" if asked or self._hands_off else LEAVING),
            page=self._page,
            offset=self._offset,
            place=self._which(asked) if asked else "",
        )

    def _spent(self) -> str:
        """Which budget holds the job, and what raises it."""
        spent = [line.words() for line in self._present.spent()]
        return f"the budget is spent: {'; '.join(spent)}: b raises it" if spent else ""

    def _which(self, asked: Asked) -> str:
        several = len(self._questions)
        return f" ({self._questions.index(asked) + 1} of {several})" if several > 1 else ""

    def _live_thread(self, thread: Thread) -> Thread:
        return with_progress(self._present, thread, self._files)

    def _status(self, *, ended: bool) -> str:
        if ended:
            return "finished"
        stalled = self._present.owned and alarms(self._present.soup)
        if self._questions or self._present.unpaid or stalled:
            return "needs you"
        return "paused" if self._present.paused else "working"

    def _offered(self, asked: Asked | None) -> list[str]:
        if self._hands_off:
            return ["Ctrl-C ends the demo"]
        if self._prompt is not None:
            return self._prompt.keys
        if self._page is not None:
            return [
                "Esc back",
                "up/down scroll",
                *(f"{key} {choice.label}" for key, choice in (choices(asked) if asked else {}).items() if key != "t"),
            ]
        if asked is not None:
            several = ["Tab next"] if len(self._questions) > 1 else []
            return [*(f"{key} {choice.label}" for key, choice in choices(asked).items()), "v read", "d diff", *several]
        more = ["b raise the budget"] if self._present.unpaid else []
        return [*more, "d diff", "s tell the team", "z go on" if self._present.paused else "z pause", "x withdraw"]
