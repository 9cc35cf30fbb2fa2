"""The screen with the list of jobs: one is chosen, opened or acted on; a new one is started from here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rich.text import Text

from parley.base.wording import count
from parley.tui.key_actions import KEY_ACTIONS, ended_keys, settle
from parley.tui.prompt import Prompt
from parley.tui.screen import clean, rule, spread
from parley.tui.watch import Screen, Watch
from parley.views.job_list import DONE, ENDS, GROUPS, NEEDS, PAUSED, WORKING, Detail, JobEntry, JobList
from parley.views.job_list import FAILED as FAILED_JOBS
from parley.views.job_view import TERMINAL
from parley.views.repository_context import JobContext, RepositoryContext

COLOURS = {NEEDS: "yellow", FAILED_JOBS: "red", WORKING: "green"}
INDENT = 12
NARROW = 70
HEAD = 15  # columns of the program's name
PRINTED = 100  # jobs that are printed without a terminal
NEW = "what is to be done"
EDITING = "The request is in your editor. The job starts a moment after you leave it."

# The user's other repositories, and how many can't be read.
Others = Callable[[], tuple[Sequence[RepositoryContext], int]]


def draw_list(
    title: str,
    found: Sequence[JobEntry],
    chosen: tuple[str, str] | None,
    detail: Callable[[JobEntry], Detail],
    width: int,
    room: int,
    *,
    several: bool = False,
) -> list[Text]:
    """The head and as much of the list as fits, with the chosen job in it. `several`: of several repositories."""
    head = [_head(title, found, width)]
    if not found:
        return head
    plan = list(_plan(found))
    at = next((number for number, row in enumerate(plan) if row.entry and row.entry.key == chosen), 0)
    start = _start(plan, at, room - 1)
    lines = list[Text]()
    for number in range(start, min(len(plan), start + room - 1)):
        row = plan[number]
        entry = row.entry
        if entry is None:
            style = f"bold {COLOURS[row.group]}" if row.group in COLOURS else "dim"
            lines.append(rule(f"{row.group} ({row.size})", width, style))
        elif row.below:
            lines.append(_second(entry, detail(entry), width))
        else:
            lines.append(_first(entry, detail(entry), width, mine=entry.key == chosen, several=several))
    return head + lines


class _Row(NamedTuple):
    """What one line of the list is: a group's title, or one of the two lines of a job."""

    group: str
    size: int = 0  # how many jobs the group has
    entry: JobEntry | None = None  # None: the title
    below: bool = False  # the job's second line


def _plan(found: Sequence[JobEntry]) -> Iterable[_Row]:
    """What each line is: a group's title, a job's first line, or its second."""
    group = ""
    counts = {name: sum(entry.group == name for entry in found) for name in GROUPS}
    for entry in found:
        if entry.group != group:
            group = entry.group
            yield _Row(group, counts[group])
        yield _Row(group, entry=entry)
        if group != DONE:
            yield _Row(group, entry=entry, below=True)


def _start(plan: Sequence[_Row], at: int, room: int) -> int:
    """The first visible line, such that the chosen job and its details are visible."""
    if len(plan) <= room or at < room - 2:
        return 0
    return max(0, min(at - room // 2, len(plan) - room))


def _head(title: str, found: Sequence[JobEntry], width: int) -> Text:
    counts = {name: sum(entry.group == name for entry in found) for name in GROUPS}
    words = [f"{size} {'need you' if name == NEEDS and size > 1 else name}" for name, size in counts.items() if size]
    while sum(map(len, words)) + 2 * len(words) + HEAD > width:
        words.pop()  # the last groups matter least
    line = spread(Text(f" parley watch  {clean(title)}"), f"{', '.join(words)} ", width)
    line.stylize("reverse")
    return line


def _second(entry: JobEntry, detail: Detail, width: int) -> Text:
    line = Text(" " * INDENT)
    line.append(clean(detail.words), COLOURS.get(entry.group, ""))
    return spread(line, f"{detail.cost} " if width >= NARROW else "", width, "dim")


def _first(entry: JobEntry, detail: Detail, width: int, *, mine: bool, several: bool) -> Text:
    line = Text()
    line.append("▸ " if mine else "  ", "bold")
    line.append(entry.job, "bold reverse" if mine else "bold")
    line.append(" " * max(1, INDENT - 2 - len(entry.job)))
    if several:
        line.append(f"{clean(entry.at.context.title)}: ", "cyan")
    line.append(clean(entry.request), "bold" if mine else "dim" if entry.group == DONE else "")
    ended = entry.state in TERMINAL
    state = ENDS.get(entry.state, entry.state)
    return spread(line, f"{state} {age(time.time() - detail.since):>4}{' ago' if ended else ''} ", width)


def age(seconds: float) -> str:
    """How long, in a few characters."""
    whole = max(0, int(seconds))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def plain_list(contexts: Sequence[RepositoryContext], width: int) -> list[str]:
    """The list as plain lines, without a terminal."""
    jobs = JobList()
    jobs.read(contexts)
    drawn = draw_list(
        _title(contexts),
        jobs.entries[:PRINTED],
        None,
        jobs.detail,
        width,
        4 * PRINTED,
        several=len(contexts) > 1,
    )
    left = len(jobs.entries) - PRINTED
    more = [f"  … and {left} more: parley ls"] if left > 0 else []
    none = [] if jobs.entries else ["no jobs yet; start one with: parley run"]
    return [*(line.plain.rstrip() for line in drawn), *more, *none]


def left_out_words(repositories: int) -> str:
    """What is said of repositories that can't be read."""
    are = "can't be read and is left out" if repositories == 1 else "can't be read and are left out"
    return f"{count(repositories, 'other repository', 'other repositories')} {are}: parley inbox --everywhere says why"


def _title(contexts: Sequence[RepositoryContext]) -> str:
    return contexts[0].title if len(contexts) == 1 else f"{len(contexts)} repositories"


class Overview:
    """The screen with the list, in which one job is chosen.

    `others`: the user's other repositories, for the key that shows them too.
    """

    section = "the list"

    def __init__(
        self,
        watch: Watch,
        open_job: Callable[[JobContext], Screen],
        others: Others = lambda: ((), 0),
    ) -> None:
        self._watch = watch
        self._open_job = open_job
        self._others = others
        self._own = list(watch.contexts)
        self._jobs = JobList()
        self._shown: list[JobEntry] = []
        self._chosen: JobEntry | None = None
        self._at = 0
        self._room = 10
        self._words = ""  # what is searched for

    def read(self) -> None:
        """Read the jobs' rows."""
        self._jobs.read(self._watch.contexts)
        self._show()

    def _show(self) -> None:
        self._shown = [entry for entry in self._jobs.entries if entry.has(self._words)]
        places = {entry.key: number for number, entry in enumerate(self._shown)}
        begun = self._watch.actions.begun
        if begun is not None and (new := places.get((begun.context.home, begun.id))) is not None:
            self._watch.actions.begun = None
            self._choose(new)
            return
        before = places.get(self._chosen.key) if self._chosen else None
        self._choose(before if before is not None else self._at)

    def _choose(self, at: int) -> None:
        self._at = max(0, min(at, len(self._shown) - 1))
        self._chosen = self._shown[self._at] if self._shown else None

    # ---- keys --------------------------------------------------------------------------------

    def press(self, key: str) -> bool:
        """Choose a job, open it, act on it, search, or start a new one."""
        step = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -self._room, "pagedown": self._room, " ": self._room}
        if key in step:
            self._choose(self._at + step[key])
        elif key in ("home", "g"):
            self._choose(0)
        elif key in ("end", "G"):
            self._choose(len(self._shown) - 1)
        elif key == "/":
            self._watch.ask(Prompt("find", self._find, typed=self._words, cancelled="", enter="finds"))
        elif key == "esc" and self._words:
            self._find("", 0)
        elif key == "A":
            self._span()
        elif key in ("n", "e"):
            self._new(in_editor=key == "e")
        elif self._chosen is None or key not in ("enter", "a", *KEY_ACTIONS):
            return False
        elif key == "enter":
            self._watch.open(self._open_job(self._chosen.at))
        elif key == "a":
            self._answer(self._chosen.at)
        else:
            KEY_ACTIONS[key](self._watch, self._chosen.at, "", "")
        return True

    def _find(self, text: str, way: int) -> str:
        self._words = text
        self._show()
        return "" if self._shown or not text else f"no job has {text!r} in it; Esc shows all again"

    def _span(self) -> None:
        """Show the jobs of all the user's repositories, or of this one alone again."""
        if len(self._watch.contexts) > len(self._own):
            for context in self._watch.contexts[len(self._own) :]:
                context.close()
            self._watch.contexts[:] = self._own
        else:
            more, left_out = self._others()
            self._watch.contexts += more
            if left_out:
                self._watch.say(left_out_words(left_out))
            elif not more:
                self._watch.say("no other repository of yours has jobs")
        self.read()

    def _new(self, *, in_editor: bool) -> None:
        context = self._chosen.at.context if self._chosen else self._watch.contexts[0]
        where = f" in {context.title}" if len(self._watch.contexts) > 1 else ""
        if not in_editor:

            def send(text: str, way: int) -> str:
                return self._watch.actions.begin(context, text)

            self._watch.ask(Prompt(f"{NEW}{where}", send, cancelled="nothing was started", enter="starts it"))
            return
        known = {entry.key for entry in self._jobs.entries}
        if self._watch.lend(context.program(["run", "--detach", "--edit"]), EDITING):
            self._watch.say("nothing was started")
            return
        self._jobs.read(self._watch.contexts)
        new = [entry.at for entry in self._jobs.entries if entry.key not in known and entry.at.context is context]
        self._watch.actions.begun = new[0] if len(new) == 1 else None
        self._watch.say(f"started: {new[0].id}" if len(new) == 1 else "a job was started")

    def _answer(self, at: JobContext) -> None:
        found = at.needs()
        if any(need.asked for need in found):
            self._watch.open(self._open_job(at))
        else:
            settle(self._watch, at, found[0] if found else None)

    def keys(self) -> list[str]:
        """The keys."""
        general = [
            "n new job",
            "e in your editor",
            "/ find",
            "A all repositories" if len(self._watch.contexts) == len(self._own) else "A this repository alone",
        ]
        if self._words:
            general.append("Esc show all")
        if self._chosen is None:
            return general
        entry = self._chosen
        if entry.state in TERMINAL:
            return ["Enter open", "c work", "d diff", *ended_keys(entry.state), *general]
        asks = ["a answer"] if entry.asks else ["b raise the budget"] if entry.unpaid else []
        going = entry.group != PAUSED and entry.at.owned
        hold = "z pause" if going else "z go on"
        return ["Enter open", *asks, "c work", "d diff", "s tell", hold, "x withdraw", *general]

    # ---- how it looks ------------------------------------------------------------------------

    def draw(self, width: int, room: int) -> list[Text]:
        """The list."""
        self._room = max(1, room // 2)
        title = _title(self._watch.contexts)
        if self._words:
            title = f"{title}: {len(self._shown)} of {len(self._jobs.entries)} with {self._words!r}"
        elif len(self._shown) > self._room:
            title = f"{title}: job {self._at + 1} of {len(self._shown)}"
        chosen = self._chosen.key if self._chosen else None
        several = len(self._watch.contexts) > 1
        lines = draw_list(title, self._shown, chosen, self._jobs.detail, width, room, several=several)
        return lines if self._shown else [*lines, *_empty(searched=bool(self._words))]


def _empty(*, searched: bool) -> list[Text]:
    """What is said where no job is listed."""
    if searched:
        return [Text(), Text(" no job has these words in it; Esc shows all again", "dim")]
    return [
        Text(),
        Text(" no jobs yet"),
        Text(),
        Text(" n  say in a line what is to be done, and a team of agents sets to work on it", "dim"),
        Text(" e  the same, written in your editor", "dim"),
        Text(" ?  all keys", "dim"),
    ]
