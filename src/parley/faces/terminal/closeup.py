"""One job: its phase, who does what, the last messages, what it has used, and what it needs with all ways out."""

from __future__ import annotations

import time
from collections import deque

from rich.text import Text

from parley.core.terms import thread_kind
from parley.engine.attention import BUDGET, STALL, UNATTENDED, UNDELIVERED, Need, needs
from parley.engine.budgets import PARALLEL, standing
from parley.engine.chronicle import Follower, concerns
from parley.engine.projections import TERMINAL, Asked, Present, Thread, lasted, tree, with_progress
from parley.engine.records import WORDLESS, lacks_words
from parley.faces.terminal.errands import ERRANDS, settle
from parley.faces.terminal.overview import ENDS, end_words
from parley.faces.terminal.pages import Reading, question_page
from parley.faces.terminal.prompt import Prompt, confirm
from parley.faces.terminal.questions import Choice, about, choices, words_of
from parley.faces.terminal.screen import Scene, draw, stamp, style_of, team, told
from parley.faces.terminal.watch import Watch
from parley.ports import JobRow

MESSAGES = 200
STEPS = 4_000  # of the job's last that its last messages are looked for in
LINE = 400


class Closeup:
    """A whole screen for one job."""

    def __init__(self, watch: Watch, job: str) -> None:
        self._watch, self._job = watch, job
        self._store, self._files = watch.sight.store, watch.sight.files
        self._present = Present(self._store, job)
        last = self._present.loaded.transaction
        steps, messages = (last.steps, last.messages) if last else (0, 0)
        self._follower = Follower(self._store, job, step=max(0, steps - STEPS), message=max(0, messages - MESSAGES))
        self._lines: deque[Text] = deque(maxlen=MESSAGES)
        self._needs: list[Need] = []
        self._threads: list[tuple[int, Thread]] = []
        self._turns = 0
        self._facts: list[str] = []
        self._need = ""  # the one that is shown
        self._thread = ""  # the one that is chosen

    def read(self) -> None:
        """Read what is new."""
        self._present = Present(self._store, self._job)
        self._needs = needs(self._store, self._files, [self._present.row])
        if not any(need.id == self._need for need in self._needs):
            self._need = self._needs[0].id if self._needs else ""
        everyone = (with_progress(self._present, thread, self._files) for thread in team(self._present))
        self._threads = tree(list(everyone), [])
        if self._thread not in self._order():
            self._thread = ""
        lines = [line for line in standing(self._store, self._present.loaded, time.time()) if line.what != PARALLEL]
        self._facts = [f"budget: {'; '.join(line.words() for line in lines)}"] if lines else []
        self._turns = sum(turn.status == "ended" for turn in self._store.turns(self._job))
        for event in self._follower.read():
            if concerns(event):
                self._lines.append(stamp(event.time, told(event, LINE), style_of(event)))

    def _order(self) -> list[str]:
        """Who can be chosen: a question is answered, not told something."""
        return [thread.id for _, thread in self._threads if thread_kind(thread.id) != "escalation"]

    @property
    def _shown(self) -> Need | None:
        return next((need for need in self._needs if need.id == self._need), None)

    @property
    def _asked(self) -> Asked | None:
        return self._shown.asked if self._shown else None

    @property
    def _choices(self) -> dict[str, Choice]:
        """How the question that is shown can be answered, by who may."""
        mine = self._present.row.decider == self._watch.sight.by
        return choices(self._asked) if self._asked and mine else {}

    # ---- keys --------------------------------------------------------------------------------

    def press(self, key: str) -> bool:
        """Answer, choose who it is about, or do something about the job."""
        asked = self._asked
        choice = self._choices.get(key)
        if asked is not None and choice is not None:
            self._answer(asked, choice)
        elif self._shown is not None and asked is not None and key == "v":
            self._watch.open(Reading(question_page(asked, self._watch.sight.exhibit(self._shown))))
        elif key == "tab" and len(self._needs) > 1:
            ids = [need.id for need in self._needs]
            self._need = ids[(ids.index(self._need) + 1) % len(ids)]
        elif key in ("up", "down", "j", "k"):
            self._choose(-1 if key in ("up", "k") else 1)
        elif key == "esc" and self._thread:
            self._thread = ""
        elif key in ERRANDS:
            name = next((thread.agent for _, thread in self._threads if thread.id == self._thread), "")
            ERRANDS[key](self._watch, self._job, self._thread, name)
        elif key == "a":
            settle(self._watch, self._job, self._shown)
        else:
            return False
        return True

    def _choose(self, step: int) -> None:
        """The next one of the team, or none before the first."""
        order = ["", *self._order()]
        self._thread = order[max(0, min(order.index(self._thread) + step, len(order) - 1))]

    def _answer(self, asked: Asked, choice: Choice) -> None:
        def send(text: str, way: int) -> str | Prompt:
            if lacks_words(choice.ruling, text):
                return Prompt(WORDLESS, send)
            if gives_up := choice.gives_up(asked):
                return confirm(self._job, gives_up, lambda: self._watch.deeds.answer(asked, choice, text))
            return self._watch.deeds.answer(asked, choice, text)

        self._watch.ask(Prompt(choice.label, send))

    def keys(self) -> list[str]:
        """What can be pressed."""
        asked = self._asked
        answers = [f"{key} {choice.label}" for key, choice in self._choices.items()]
        if asked:
            answers.append("v read")
        if self._shown is not None and self._shown.kind == BUDGET:
            answers.append("b raise the budget")
        if len(self._needs) > 1:
            answers.append("Tab next")
        ended = self._present.row.state in TERMINAL
        going = self._store.owner_lives(self._job) and not self._present.paused
        hold = [] if self._present.unpaid else ["z pause" if going else "z go on"]
        live = [] if ended else ["s tell", *hold, "x withdraw job"]
        return [*answers, "c conversation", "d diff", *live, "? help", "q back"]

    # ---- how it looks ------------------------------------------------------------------------

    def draw(self, width: int, room: int) -> list[Text]:
        """The job."""
        present, need, asked, now = self._present, self._shown, self._asked, time.time()
        row, record = present.row, present.record
        ended = row.state in TERMINAL
        scene = Scene(
            job=self._job,
            request=row.request,
            record=record,
            status=self._status(ended=ended),
            elapsed=lasted(present, self._files, now),
            turns=self._turns,
            now=now,
            threads=self._threads,
            messages=self._lines,
            heading=ENDS[row.state] if ended else "needs you",
            question=about(asked) if asked else _label(need) if need else end_words(present) if ended else "",
            words=self._words(asked) if asked else _ways_out(need) if need else _what_now(row) if ended else "",
            place=self._place(),
            facts=self._facts,
            chosen=self._thread,
            footless=True,
        )
        return draw(scene, width, room)

    def _status(self, *, ended: bool) -> str:
        if ended:
            return "finished"
        if self._needs:
            return "needs you"
        return "paused" if self._present.paused else "working"

    def _words(self, asked: Asked) -> str:
        decider, notes = self._present.row.decider, list[str]()
        if decider != self._watch.sight.by:
            notes.append(f"Only {decider}, who started the job, can answer.")
        if asked.superseded:
            notes.append(f"{asked.artifact} was put forward anew since: the verdict on {asked.superseded} counts.")
        return "\n".join([*notes, words_of(asked)])

    def _place(self) -> str:
        several = len(self._needs)
        if several < 2:  # noqa: PLR2004 - several are more than one
            return ""
        return f" ({[need.id for need in self._needs].index(self._need) + 1} of {several})"


def _what_now(row: JobRow) -> str:
    """What can be done about a job that has ended."""
    home = f"take it home: parley merge {row.job}\n" if row.state == "DONE" else ""
    return f"{home}prove its record: parley audit {row.job}"


def _label(need: Need) -> str:
    """What something is that is no question, in a few words."""
    labels = {
        BUDGET: "a budget is spent",
        STALL: f"{need.who} is stalled",
        UNATTENDED: "nobody works on it",
        UNDELIVERED: "words of yours reached no agent",
    }
    return labels.get(need.kind, need.kind)


def _ways_out(need: Need) -> str:
    """What can be done about something that is no question."""
    return "\n".join([need.body, *(f"{way.words}: {way.command}" for way in need.exits)])
