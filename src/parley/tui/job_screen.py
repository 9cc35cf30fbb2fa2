"""The screen of one job: its phase, its team, the last messages, its usage, and what needs the user."""

from __future__ import annotations

import time
from collections import deque
from functools import partial

from rich.text import Text

from parley.base.wording import joined
from parley.engine.values.human_inputs import WORDLESS, AnswerInput, lacks_words
from parley.engine.values.permissions import objection
from parley.features.budgets.arithmetic import PARALLEL, standing
from parley.protocol.molecules import Ruling, thread_kind
from parley.protocol.states import State
from parley.roles.phases import PHASES
from parley.tui.key_actions import KEY_ACTIONS, ended_keys, settle, ways_out
from parley.tui.pages import PageScreen, artifacts_page, question_page
from parley.tui.prompt import OPTIONAL, Prompt, confirm
from parley.tui.screen import ScreenContent, draw, event_line, stamp, style_of
from parley.tui.watch import Watch
from parley.views.history.chronicle import Follower, concerns
from parley.views.job_list import ENDS, cost_of, end_words, team
from parley.views.job_view import TERMINAL, Asked, Thread, is_seen_owned, lasted, tree, with_progress
from parley.views.questions.answer_choices import AnswerChoice, about, choices, words_of
from parley.views.questions.needs import BUDGET, STALL, UNATTENDED, UNDELIVERED, Need, needs
from parley.views.repository_context import JobContext

MESSAGES = 200
STEPS = 4_000  # of the job's last steps that are searched for messages
LINE = 400


class JobScreen:
    """A whole screen for one job."""

    section = "a job, in the list or opened"

    def __init__(self, watch: Watch, at: JobContext) -> None:
        self._watch, self._at, self._job = watch, at, at.id
        self._store, self._files = at.context.store, at.context.files
        self._present = at.present()
        last = self._present.loaded.transaction
        steps, messages = (last.steps, last.messages) if last else (0, 0)
        self._follower = Follower(self._store, at.id, step=max(0, steps - STEPS), message=max(0, messages - MESSAGES))
        self._lines: deque[Text] = deque(maxlen=MESSAGES)
        self._needs: list[Need] = []
        self._threads: list[tuple[int, Thread]] = []
        self._usage = ""
        self._facts: list[str] = []
        self._merged = False  # whether the user has its result, when git was last asked:
        self._asked_git = -1  # that was after so many commands of this watch
        self._need = ""  # the need that is shown
        self._thread = ""  # the thread that is chosen

    def read(self) -> None:
        """Read what is new."""
        self._present = self._at.present()
        self._needs = needs(self._store, self._files, [self._present.row])
        if not any(need.id == self._need for need in self._needs):
            self._need = self._needs[0].id if self._needs else ""
        redact = self._at.context.redact
        everyone = [with_progress(self._present, thread, self._files, redact) for thread in team(self._present)]
        self._threads = tree(everyone, [])
        if self._thread not in self._order():
            self._thread = ""
        lines = [line for line in standing(self._store, self._present.loaded, time.time()) if line.what != PARALLEL]
        self._facts = [f"budget: {'; '.join(line.words() for line in lines)}"] if lines else []
        self._usage = cost_of(self._present)
        if self._present.row.state == "DONE" and self._asked_git != self._watch.actions.ended:
            self._asked_git = self._watch.actions.ended
            self._merged = self._at.context.merged(self._job)
        for event in self._follower.read():
            if concerns(event):
                self._lines.append(stamp(event.time, event_line(event, LINE), style_of(event)))

    def _order(self) -> list[str]:
        """The threads that can be chosen; not questions, which are answered."""
        return [thread.id for _, thread in self._threads if thread_kind(thread.id) != "escalation"]

    @property
    def _name(self) -> str:
        """The agent of the chosen thread."""
        return next((thread.agent for _, thread in self._threads if thread.id == self._thread), "")

    @property
    def _shown(self) -> Need | None:
        return next((need for need in self._needs if need.id == self._need), None)

    @property
    def _asked(self) -> Asked | None:
        return self._shown.asked if self._shown else None

    @property
    def _choices(self) -> dict[str, AnswerChoice]:
        """The choices for the shown question, if this user may answer it."""
        asked = self._asked
        return {key: one for key, one in choices(asked).items() if self._may_give(asked, one)} if asked else {}

    def _may_give(self, asked: Asked, choice: AnswerChoice) -> bool:
        """Whether this user may give this answer."""
        ruling = Ruling(choice.ruling) if choice.ruling else None
        given = AnswerInput(question=asked.id, framing=asked.framing, ruling=ruling, choice=choice.option or "")
        return not objection(self._present.people, self._at.context.by, given, asked.put_as)

    # ---- keys --------------------------------------------------------------------------------

    def press(self, key: str) -> bool:
        """Answer, choose a thread, or act on the job."""
        asked = self._asked
        choice = self._choices.get(key)
        if asked is not None and choice is not None:
            self._answer(asked, choice)
        elif self._shown is not None and asked is not None and key == "v":
            self._watch.open(PageScreen(question_page(asked, self._at.context.exhibit(self._shown))))
        elif key == "v":
            self._read_artifacts()
        elif key == "tab" and len(self._needs) > 1:
            ids = [need.id for need in self._needs]
            self._need = ids[(ids.index(self._need) + 1) % len(ids)]
        elif key in ("up", "down", "j", "k"):
            self._choose(-1 if key in ("up", "k") else 1)
        elif key == "esc" and self._thread:
            self._thread = ""
        elif key in KEY_ACTIONS:
            KEY_ACTIONS[key](self._watch, self._at, self._thread, self._name)
        elif key == "a":
            settle(self._watch, self._at, self._shown)
        else:
            return False
        return True

    def _read_artifacts(self) -> None:
        """Show what the job has agreed on and reported so far."""
        if found := self._at.context.artifacts(self._job):
            self._watch.open(PageScreen(artifacts_page(self._job, found)))
        else:
            self._watch.say(f"{self._job} has no INTENT.md yet")

    def _choose(self, step: int) -> None:
        """Choose the next thread, or none before the first."""
        order = ["", *self._order()]
        self._thread = order[max(0, min(order.index(self._thread) + step, len(order) - 1))]

    def _answer(self, asked: Asked, choice: AnswerChoice) -> None:
        def send(text: str, way: int) -> str | Prompt:
            if lacks_words(choice.ruling, text):
                return Prompt(WORDLESS, send)
            if gives_up := choice.gives_up(asked):
                then = partial(self._watch.actions.answer, self._at, asked, choice.ruling, choice.option, text)
                return confirm(self._job, gives_up, then, "nothing was sent")
            return self._watch.actions.answer(self._at, asked, choice.ruling, choice.option, text)

        needs_words = lacks_words(choice.ruling, "") if choice.ruling else choice.option is None
        self._watch.ask(Prompt(choice.label, send, enter="sends" if needs_words else OPTIONAL))

    def keys(self) -> list[str]:
        """The keys."""
        asked = self._asked
        answers = [f"{key} {choice.label}" for key, choice in self._choices.items()]
        answers += self._readable(asked)
        if self._shown is not None and self._shown.kind == BUDGET:
            answers.append("b raise the budget")
        if len(self._needs) > 1:
            answers.append("Tab next")
        state = self._present.row.state
        going = is_seen_owned(self._store, self._job) and not self._present.paused
        hold = [] if self._present.unpaid else ["z pause" if going else "z go on"]
        name = self._name
        withdraw = f"x withdraw {name if name and thread_kind(self._thread) != 'state' else 'job'}"
        live = [f"s tell {name}".rstrip(), *hold, withdraw]
        if state in TERMINAL:
            live = ended_keys(state, merged=self._merged)
        chosen = ["Esc the whole job"] if name else []
        return [*answers, f"c {f'work of {name}' if name else 'work'}", "d diff", *live, *chosen]

    def _readable(self, asked: Asked | None) -> list[str]:
        """The key that reads a text: the question with its file; else the newest file of the job."""
        if asked:
            return [f"v read {asked.artifact or 'all of it'}"]
        live = [phase.artifact for state, phase in PHASES.items() if self._visited(state)]
        return [f"v read {live[-1]}"] if live else []

    def _visited(self, state: State) -> bool:
        """Whether a state has ended, so that its artifact is there."""
        record = self._present.record
        return record is not None and record.visits(state) > 0 and record.state is not state

    # ---- how it looks ------------------------------------------------------------------------

    def draw(self, width: int, room: int) -> list[Text]:
        """The job."""
        present, need, asked, now = self._present, self._shown, self._asked, time.time()
        row, record = present.row, present.record
        ended = row.state in TERMINAL
        scene = ScreenContent(
            job=self._job,
            request=row.request,
            record=record,
            status=self._status(ended=ended),
            urgent=bool(self._needs) and not ended,
            elapsed=lasted(present, self._files, now),
            usage=self._usage,
            now=now,
            threads=self._threads,
            messages=self._lines,
            heading=ENDS[row.state] if ended else "needs you",
            question=about(asked) if asked else _label(need) if need else end_words(present) if ended else "",
            words=self._words(asked) if asked else _ways_out(need) if need else self._what_now() if ended else "",
            readable=asked is not None,
            place=self._place(),
            facts=self._facts,
            chosen=self._thread,
        )
        return draw(scene, width, room)

    def _status(self, *, ended: bool) -> str:
        if ended:
            return "merged" if self._merged else "finished"
        if self._needs:
            return "paused, needs you" if self._present.paused and not self._present.unpaid else "needs you"
        return "paused" if self._present.paused else "working"

    def _words(self, asked: Asked) -> str:
        people, notes = self._present.people, list[str]()
        decider, *others = people.who_may(asked.put_as.needed())
        if self._at.context.by not in (decider, *others):
            notes.append(f"Only {joined([f'{decider}, who started the job,', *others])} can answer.")
        if asked.superseded:
            notes.append(f"{asked.artifact} was asserted again since: the verdict on {asked.superseded} counts.")
        return "\n".join([*notes, words_of(asked)])

    def _what_now(self) -> str:
        """What can be done about a job that has ended."""
        row, merged = self._present.row, "it is merged: what you have checked out has it"
        ways = merged if self._merged else "m merges it; P opens a pull request"
        home = f"v reads what was done; {ways}\n" if row.state == "DONE" else ""
        return f"{home}C goes on from its result with another job\nverify its record: parley audit {row.job}"

    def _place(self) -> str:
        several = len(self._needs)
        if several < 2:  # noqa: PLR2004 - several are more than one
            return ""
        return f" ({[need.id for need in self._needs].index(self._need) + 1} of {several})"


def _label(need: Need) -> str:
    """The label of a need that is no question."""
    labels = {
        BUDGET: "a budget is spent",
        STALL: f"{need.who} is stalled",
        UNATTENDED: "nothing goes on",
        UNDELIVERED: "your words reached no agent",
    }
    return labels.get(need.kind, need.kind)


def _ways_out(need: Need) -> str:
    """The next actions for a need that is no question."""
    return "\n".join([need.body, *ways_out(need)])
