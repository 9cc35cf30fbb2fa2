"""Draws the view of a job: content in, exactly as many lines as the screen has out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from parley.base.text import printable
from parley.base.wording import count
from parley.engine.protocol_messages import excerpt
from parley.engine.values.message_meta import Put
from parley.protocol.molecules import HUMAN, Record
from parley.protocol.states import LIVE
from parley.views.history.chronicle import LogEvent, headline
from parley.views.job_view import Thread

PANEL_LINES = 7
WIDE = 70  # columns from which on a number has its word beside it
NOTE_LINES = 4  # of one note
TYPED_COLUMNS = 14  # that a prompt leaves at least for what is typed
TYPED_LINES = 6  # of what is typed that are visible
MARKS = {
    "running": ("*", "bold green"),
    "stalled": ("!", "bold red"),
    "asking": ("?", "bold yellow"),
    "waiting": (".", ""),
    "idle": (".", "dim"),
}
_CONSOLE = Console(width=1000)  # only for measuring


@dataclass(slots=True)
class ScreenContent:
    """The content of the screen."""

    job: str
    request: str
    record: Record | None
    status: str
    urgent: bool  # whether it waits for the user: its status and its panel stand out
    elapsed: float
    usage: str  # turns, and money where agents report it
    now: float
    threads: Sequence[tuple[int, Thread]] = ()
    messages: Sequence[Text] = ()
    question: str = ""  # its head, one line
    words: str = ""  # its text
    heading: str = "needs you"  # the title above the question
    readable: bool = True  # whether a key shows all of it
    place: str = ""  # which of several questions this is
    facts: Sequence[str] = ()  # more about the job, a line each
    chosen: str = ""  # the thread that keys act on


def draw(content: ScreenContent, width: int, height: int) -> list[Text]:
    """Exactly as many lines as fit."""
    head = [_title(content, width), _bar(content, width), *(Text(f" {clean(fact)}", "dim") for fact in content.facts)]
    panel = _panel(content, width, max(1, min(PANEL_LINES, height // 3)))
    room = max(0, height - len(head) - len(panel))
    middle = _middle(content, width, room)
    middle += [Text()] * (room - len(middle))
    lines = [cleaned(line) for line in (*head, *middle[:room], *panel)][:height]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def clean(text: str) -> str:
    """A text on one line, with nothing that a terminal would obey."""
    return printable(" ".join(text.split()))


def cleaned(line: Text) -> Text:
    """A line, escaped and redacted once more before it is drawn; if that changes it, it loses its style."""
    shown = printable(line.plain)
    return line if shown == line.plain else Text(shown)


def minutes(seconds: float) -> str:
    """A time as a clock shows it."""
    whole = max(0, int(seconds))
    hours = f"{whole // 3600}:" if whole >= 3600 else ""  # noqa: PLR2004 - seconds
    return f"{hours}{whole // 60 % 60:02d}:{whole % 60:02d}" if hours else f"{whole // 60}:{whole % 60:02d}"


def spread(left: Text, right: str, width: int, style: str = "") -> Text:
    """A line with text at both ends."""
    room = max(1, width - len(right) - 1)
    left.truncate(room, overflow="ellipsis")
    left.append(" " * max(1, width - left.cell_len - len(right)))
    left.append(right, style)
    return left


def _title(content: ScreenContent, width: int) -> Text:
    clock = minutes(content.elapsed)
    if width >= WIDE:
        clock = f"{clock} so far" if content.record is None or content.record.live else f"took {clock}"
    line = spread(Text(f" {content.job}  {clean(content.request)}"), f"{clock} ", width)
    line.stylize("reverse")
    return line


def _bar(content: ScreenContent, width: int) -> Text:
    """The phases, with the current one marked, and the number of visits."""
    line = Text(" ")
    record = content.record
    for number, state in enumerate(LIVE):
        if number:
            line.append(" > ", "dim")
        visits = record.visits(state) if record else 0
        times = f" {visits}x" if visits > 1 else ""
        here = record is not None and record.state is state
        line.append(
            f"[{state}{times}]" if here else f"{state}{times}",
            "bold cyan" if here else "" if visits else "dim",
        )
    if record is not None and not record.live:
        line.append(" > ", "dim")
        line.append(f"[{record.state}]", "bold cyan")
    back = record.backtrack_count if record else 0
    turned = f"back {back}x  " if back else ""
    style = "bold yellow" if content.urgent else ""
    return spread(line, f"{turned}{content.usage}  {content.status} ", width, style)


def rule(title: str, width: int, style: str = "dim") -> Text:
    """A line across the screen, with a title."""
    return Text(f"── {title} {'─' * max(0, width - len(title) - 4)}" if title else "─" * width, style)


def _middle(content: ScreenContent, width: int, room: int) -> list[Text]:
    team = _team(content, width)
    share = max(3, min(len(team), room - 2 - max(4, room // 3)))
    if len(team) > share:
        hidden = len(team) - share + 1
        chosen = next((at for at, (_, thread) in enumerate(content.threads) if thread.id == content.chosen), 0)
        start = max(0, min(chosen - share // 2, hidden))
        team = team[start : start + share - 1]
        team.append(Text(f"   … {hidden} more: up and down show them", "dim"))
    below = max(0, room - len(team) - 2)
    messages = [message.copy() for message in list(content.messages)[-below:]] if below else []
    return [rule("team", width), *team, rule("messages", width), *messages]


def _team(content: ScreenContent, width: int) -> list[Text]:
    lines = []
    for depth, thread in content.threads:
        mark, style = MARKS.get(thread.state, (" ", ""))
        line = Text()
        line.append(f"{'▸' if thread.id == content.chosen else ' '}{'  ' * depth}", "bold")
        line.append(mark, style)
        name = f" {thread.agent}"
        line.append(f"{name:<{max(len(name) + 1, 19 - 2 * depth)}}", "bold" if thread.state == "running" else "")
        line.append(clean(thread.doing), "" if thread.state in ("running", "stalled") or thread.waits else "dim")
        since = minutes(content.now - thread.since) if thread.since and thread.state == "running" else ""
        host = clean(f"on {thread.host} ") if thread.host else ""
        lines.append(spread(line, f"{host}{since} ", width, "dim"))
    over = content.record is not None and not content.record.live
    return lines or [Text("  no agent any more" if over else "  no agent yet", "dim")]


def wrapped(text: str, width: int) -> list[str]:
    """A text in lines that fit."""
    shown = printable(text.expandtabs(4))
    return [line.plain.rstrip() for line in Text(shown).wrap(_CONSOLE, max(10, width))] or [""]


def _panel(content: ScreenContent, width: int, room: int) -> list[Text]:
    """What needs the user."""
    lines: list[Text] = []
    if content.question:
        lines.append(rule(f"{content.heading}{content.place}", width, "bold yellow" if content.urgent else "dim"))
        lines.append(Text(f" {clean(content.question)}", "bold"))
        words = [part for line in content.words.splitlines() for part in wrapped(line, width - 2)]
        lines += [Text(f" {line}") for line in words[:room]]
        if len(words) > room:
            lines[-1] = Text(" … press v to read it all" if content.readable else " …", "dim")
    else:
        lines.append(rule("", width))
    return lines


def notes_lines(notes: Sequence[str], width: int) -> list[Text]:
    """What is told of the keys that were pressed."""
    return [Text(f" {part}", "italic") for note in notes or [""] for part in _note(note, width - 2)]


def prompt_lines(label: str, typed: str, cursor: int, width: int) -> list[Text]:
    """What is asked, and what is typed, around the cursor where it is long."""
    *above, last = wrapped(f"{clean(label)}>", width - TYPED_COLUMNS)
    head = f" {last} "
    rows = typed_rows(typed, width - 2, len(head))
    here = max(number for number, (start, _) in enumerate(rows) if start <= cursor)
    first = max(0, min(here - TYPED_LINES // 2, len(rows) - TYPED_LINES))
    shown = rows[first : first + TYPED_LINES]
    lines = [Text(f" {part}", "bold") for part in above]
    for number, (start, end) in enumerate(shown, first):
        line = Text(head if not number else "  ", "bold")
        text = typed[start:end].rstrip("\n")
        if number != here:
            line.append(text, "not bold")
        elif cursor - start >= len(text):
            line.append(text, "not bold").append("_", "blink")
        else:
            at = cursor - start
            line.append(text[:at], "not bold").append(text[at], "not bold reverse").append(text[at + 1 :], "not bold")
        lines.append(line)
    if first:
        lines.insert(len(above), Text(f"  … {count(first, 'line')} above", "dim"))
    if left := len(rows) - first - len(shown):
        lines.append(Text(f"  … {count(left, 'line')} below", "dim"))
    return lines


def typed_rows(typed: str, width: int, first: int) -> list[tuple[int, int]]:
    """What is typed in rows that fit, as places in it: the first begins behind a label of `first` columns."""
    rows, start, used = list[tuple[int, int]](), 0, first
    for at, character in enumerate(typed):
        cells = cell_len(character)
        if used + cells > width:
            rows.append((start, at))
            start, used = at, 2
        used += cells
        if character == "\n":
            rows.append((start, at + 1))
            start, used = at + 1, 2
    return [*rows, (start, len(typed))]


def _note(note: str, width: int) -> list[str]:
    """A note in a few lines; an ellipsis where it is cut."""
    lines = wrapped(clean(note), width)
    return lines if len(lines) <= NOTE_LINES else [*lines[: NOTE_LINES - 1], f"{lines[NOTE_LINES - 1][: width - 1]}…"]


def key_lines(keys: Sequence[str], width: int, most: int) -> list[Text]:
    """Keys with their meanings; where they take too many lines, the last two and as many others as fit."""
    lines, left = _laid_out(keys, width), len(keys) - 2
    while len(lines) > most and left > 0:
        left -= 1
        lines = _laid_out([*keys[:left], "…", *keys[-2:]], width)
    return lines


def _laid_out(keys: Sequence[str], width: int) -> list[Text]:
    lines = [Text()]
    for key in keys:
        letter, _, meaning = key.partition(" ")
        gap = "  " if lines[-1].plain else " "
        if lines[-1].plain and lines[-1].cell_len + len(gap) + cell_len(key) > width:
            lines.append(Text())
            gap = " "
        lines[-1].append(gap)
        lines[-1].append(letter, "bold reverse" if meaning else "")
        lines[-1].append(f" {meaning}" if meaning else "")
    return lines


def stamp(moment: float, text: str, style: str) -> Text:
    """A line with a time."""
    line = Text()
    line.append(f" {time.strftime('%H:%M:%S', time.localtime(moment))} ", "dim")
    line.append(clean(text), style)
    return line


def event_line(event: LogEvent, width: int) -> str:
    """An event in one line; for a question, its asker's own words."""
    put = event.meta
    if not isinstance(put, Put) or not put.text:
        return headline(event, width)
    return excerpt(f"{put.asker} asks you{f' about {put.artifact}' if put.artifact else ''}: {put.text}", width)


def style_of(event: LogEvent) -> str:
    """How an event is shown among others."""
    if event.kind == "transition":
        return "bold cyan"
    if HUMAN in (event.to, event.who):
        return "yellow"
    return "" if event.kind == "message" else "red"
