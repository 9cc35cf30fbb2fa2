"""All jobs in one list: what needs the human first, then what is paused or failed, what works, what is done.

The list is made of the jobs' rows alone; only jobs that are on the screen are looked into.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.text import Text

from parley.adapters.glance import Glimpse
from parley.engine.attention import GATE, QUESTION, Need, needs
from parley.engine.budgets import Tally, total
from parley.engine.projections import TERMINAL, Present, Thread, with_progress
from parley.faces.terminal.errands import ERRANDS, settle
from parley.faces.terminal.screen import clean, rule, spread, team, turn_words
from parley.faces.terminal.watch import Screen, Watch
from parley.wording import count

NEEDS, PAUSED, FAILED, WORKING, DONE = "needs you", "paused", "failed", "working", "done"
GROUPS = (NEEDS, PAUSED, FAILED, WORKING, DONE)
STYLES = {NEEDS: "bold yellow", FAILED: "bold red", WORKING: "bold green"}
FRESH_SECONDS = 86_400  # how long a failed job stands among the problems
ENDS = {"DONE": "done", "WITHDRAWN": "withdrawn", "FAILURE": "failed"}
INDENT = 12
NARROW = 70
HEAD = 15  # columns that the program's own name takes
PRINTED = 100  # jobs that are told of where nothing can be drawn


class Entry(NamedTuple):
    """A job in the list."""

    job: str
    request: str
    state: str
    group: str
    updated: float


@dataclass(frozen=True, slots=True)
class Detail:
    """What is shown of a job that is on the screen besides."""

    words: str
    since: float
    cost: str


def entries(glimpses: Iterable[Glimpse], stopped: Callable[[Glimpse], str], now: float) -> list[Entry]:
    """The list. `stopped` says of a job that nobody is asked about whether it needs the human, is paused or works."""
    groups: dict[str, list[Entry]] = {name: [] for name in GROUPS}
    for seen in glimpses:
        group = _group(seen, stopped, now)
        groups[group].append(Entry(seen.job, seen.request, seen.state, group, seen.updated))
    groups[NEEDS].sort(key=lambda entry: entry.updated)  # who waits longest, first
    for name in (PAUSED, FAILED, DONE):
        groups[name].sort(key=lambda entry: -entry.updated)
    groups[WORKING].reverse()  # an order that stands still
    return [entry for name in GROUPS for entry in groups[name]]


def _group(seen: Glimpse, stopped: Callable[[Glimpse], str], now: float) -> str:
    if seen.state in TERMINAL:
        return FAILED if seen.state == "FAILURE" and now - seen.updated < FRESH_SECONDS else DONE
    return NEEDS if seen.waiting > 0 else stopped(seen)


# ---- how it looks --------------------------------------------------------------------------------


def draw_list(
    title: str, found: Sequence[Entry], chosen: str, detail: Callable[[Entry], Detail], width: int, room: int
) -> list[Text]:
    """The head and as much of the list as there is room for, with the chosen job in it."""
    head = [_head(title, found, width)]
    if not found:
        return [*head, Text(), Text(" no jobs yet; start one with: parley run", "dim")]
    plan = list(_plan(found))
    at = next((number for number, (entry, _) in enumerate(plan) if entry and entry.job == chosen), 0)
    start = _start(plan, at, room - 1)
    lines = list[Text]()
    for number in range(start, min(len(plan), start + room - 1)):
        entry, part = plan[number]
        if entry is None:
            lines.append(rule(part, width, STYLES.get(part.partition(" (")[0], "dim")))
        else:
            lines.append(_line(entry, part, chosen, detail(entry), width))
    return head + lines


def _plan(found: Sequence[Entry]) -> Iterable[tuple[Entry | None, str]]:
    """What each line is: a group's title, a job's first line, or its second."""
    group = ""
    counts = {name: sum(entry.group == name for entry in found) for name in GROUPS}
    for entry in found:
        if entry.group != group:
            group = entry.group
            yield None, f"{group} ({counts[group]})"
        yield entry, "first"
        if group != DONE:
            yield entry, "second"


def _start(plan: Sequence[tuple[Entry | None, str]], at: int, room: int) -> int:
    """The first line to be seen, so that the chosen job is, and what follows it."""
    if len(plan) <= room or at < room - 2:
        return 0
    return max(0, min(at - room // 2, len(plan) - room))


def _head(title: str, found: Sequence[Entry], width: int) -> Text:
    counts = {name: sum(entry.group == name for entry in found) for name in GROUPS}
    words = [
        f"{count} {'need you' if name == NEEDS and count > 1 else name}" for name, count in counts.items() if count
    ]
    while sum(map(len, words)) + 2 * len(words) + HEAD > width:
        words.pop()  # the last matter least
    line = spread(Text(f" parley watch  {clean(title)}"), f"{', '.join(words)} ", width)
    line.stylize("reverse")
    return line


def _line(entry: Entry, part: str, chosen: str, detail: Detail, width: int) -> Text:
    mine = entry.job == chosen
    if part == "second":
        line = Text(" " * INDENT)
        line.append(clean(detail.words), STYLES.get(entry.group, "").removeprefix("bold "))
        return spread(line, f"{detail.cost} " if width >= NARROW else "", width, "dim")
    line = Text()
    line.append("▸ " if mine else "  ", "bold")
    line.append(entry.job, "bold reverse" if mine else "bold")
    line.append(" " * max(1, INDENT - 2 - len(entry.job)))
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


# ---- what a job that is on the screen is told with -----------------------------------------------


def need_words(needs: Sequence[Need]) -> str:
    """The first of what a job needs, in one line."""
    need = needs[0]
    more = f" (and {len(needs) - 1} more)" if len(needs) > 1 else ""
    if need.kind == GATE:
        words = need.headline.removeprefix(f"{need.artifact}: ")
        stat = f" {need.asked.stat.short}:" if need.asked and need.asked.stat else ""
        return f"approve {need.artifact}?{more}{stat} {words}"
    if need.kind == QUESTION:
        return f"{need.who} asks{more}: {need.headline}"
    return f"{need.headline}{more}"


def work_words(threads: Sequence[Thread]) -> str:
    """Who does what, in one line."""
    busy = [thread for thread in threads if thread.state == "stalled"]
    busy += [thread for thread in threads if thread.waits]
    busy += [thread for thread in threads if thread.state == "running"]
    if busy and busy[0].waits:
        more = f" (and {len(busy) - 1} more)" if len(busy) > 1 else ""
        return f"{busy[0].agent} {busy[0].doing}{more}"
    if not busy:
        return "nobody is at work just now"
    more = f" (and {len(busy) - 1} more at work)" if len(busy) > 1 else ""
    return f"{busy[0].agent}: {busy[0].doing}{more}"


def pause_words(threads: Sequence[Thread]) -> str:
    """What is left of the work while a job is paused."""
    busy = [thread.agent for thread in threads if thread.state == "running"]
    waiting = next((f"; {thread.agent} {thread.doing}" for thread in threads if thread.waits), "")
    if not busy:
        return f"paused; z goes on{waiting}"
    return f"paused; {' and '.join(busy[:2])} still {'ends its turn' if len(busy) == 1 else 'end their turns'}"


def end_words(present: Present) -> str:
    """Why a job ended as it did."""
    history = present.record.history if present.record else ()
    return history[-1].reason or ENDS.get(present.row.state, "") if history else ""


# ---- the screen ----------------------------------------------------------------------------------


class Overview:
    """The list, one job of which is chosen."""

    def __init__(self, watch: Watch, open_job: Callable[[str], Screen]) -> None:
        self._watch = watch
        self._open_job = open_job
        self._entries: list[Entry] = []
        self._chosen = ""
        self._at = 0
        self._room = 10
        self._details: dict[str, Detail] = {}
        self._stops: dict[tuple[str, float, int], str] = {}

    def read(self) -> None:
        """Read the jobs' rows; what is on the screen is looked into when it is drawn."""
        self._details.clear()
        glimpses = self._watch.sight.glance()
        known, self._stops = self._stops, {}
        self._entries = entries(glimpses, lambda seen: self._stopped(seen, known), time.time())
        places = {entry.job: number for number, entry in enumerate(self._entries)}
        self._at = places.get(self._chosen, max(0, min(self._at, len(places) - 1)))
        self._choose(self._at)

    def _stopped(self, seen: Glimpse, known: dict[tuple[str, float, int], str]) -> str:
        """Whether a job that asks nothing needs the human all the same. What is held is looked into once."""
        if not seen.held:
            return WORKING if self._watch.sight.store.owner_lives(seen.job) else NEEDS
        which = (seen.job, seen.updated, seen.held)
        self._stops[which] = known.get(which) or (NEEDS if self._needs(seen.job) else PAUSED)
        return self._stops[which]

    def _needs(self, job: str) -> list[Need]:
        sight = self._watch.sight
        return needs(sight.store, sight.files, [sight.store.load(job).row])

    def press(self, key: str) -> bool:
        """Choose a job, open it, or do something about it."""
        step = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -self._room, "pagedown": self._room, " ": self._room}
        if key in step:
            self._choose(self._at + step[key])
        elif key in ("home", "g"):
            self._choose(0)
        elif key in ("end", "G"):
            self._choose(len(self._entries) - 1)
        elif not self._chosen or key not in ("enter", "a", *ERRANDS):
            return False
        elif key == "enter":
            self._watch.open(self._open_job(self._chosen))
        elif key == "a":
            self._answer()
        else:
            ERRANDS[key](self._watch, self._chosen, "", "")
        return True

    def _choose(self, at: int) -> None:
        self._at = max(0, min(at, len(self._entries) - 1))
        self._chosen = self._entries[self._at].job if self._entries else ""

    def _answer(self) -> None:
        found = self._needs(self._chosen)
        if any(need.asked for need in found):
            self._watch.open(self._open_job(self._chosen))
        else:
            settle(self._watch, self._chosen, found[0] if found else None)

    def keys(self) -> list[str]:
        """What can be pressed."""
        if not self._entries:
            return ["? help", "q quit"]
        entry = self._entries[self._at]
        if entry.state in TERMINAL:
            return ["Enter open", "c conversation", "d diff", "? help", "q quit"]
        asks = ["a answer"] if entry.group == NEEDS else []
        going = entry.group != PAUSED and self._watch.sight.store.owner_lives(entry.job)
        hold = "z pause" if going else "z go on"
        return ["Enter open", *asks, "d diff", "s tell", hold, "x withdraw", "? help", "q quit"]

    def draw(self, width: int, room: int) -> list[Text]:
        """The list."""
        self._room = max(1, room // 2)
        return draw_list(self._watch.sight.title, self._entries, self._chosen, self._detail, width, room)

    def lines(self, width: int) -> list[str]:
        """The list as it stands, where nothing can be drawn."""
        self.read()
        drawn = draw_list(self._watch.sight.title, self._entries[:PRINTED], "", self._detail, width, 4 * PRINTED)
        left = len(self._entries) - PRINTED
        more = [f"  … and {left} more: parley ls"] if left > 0 else []
        return [line.plain.rstrip() for line in drawn] + more

    def _detail(self, entry: Entry) -> Detail:
        if entry.job not in self._details:
            self._details[entry.job] = self._looked(entry)
        return self._details[entry.job]

    def _looked(self, entry: Entry) -> Detail:
        """Look into a job that is on the screen."""
        if entry.group == DONE:
            return Detail("", entry.updated, "")
        store, files = self._watch.sight.store, self._watch.sight.files
        present = Present(store, entry.job)
        turns = sum(turn.status == "ended" for turn in store.turns(entry.job))
        cost = cost_words(turns, total(present.loaded.spent))
        if entry.group == FAILED:
            return Detail(end_words(present), entry.updated, cost)
        if entry.group == PAUSED:
            return Detail(pause_words(team(present)), entry.updated, cost)
        needed = needs(store, files, [present.row])
        if needed:
            return Detail(need_words(needed), needed[0].since, cost)
        threads = [with_progress(present, thread, files) for thread in team(present)]
        return Detail(work_words(threads), present.row.created, cost)


def cost_words(turns: int, used: Tally) -> str:
    """What a job has used up: its turns, and what they cost as far as anybody says."""
    found = [turn_words(turns)]
    if used.micros:
        found.append(f"{used.of('money'):.2f} USD")
    elif used.tokens:
        found.append(count(used.tokens, "token"))
    return ", ".join(found)
