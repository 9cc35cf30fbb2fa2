"""How the live view looks: a scene in, lines of text out, as many as the screen has."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from parley.core.states import LIVE, Record
from parley.core.terms import HUMAN, ORCHESTRATOR
from parley.engine.chronicle import Event, headline
from parley.engine.projections import Present, Thread
from parley.engine.texts import excerpt
from parley.text import printable
from parley.wording import count

PANEL_LINES = 7
MARKS = {
    "running": ("*", "bold green"),
    "stalled": ("!", "bold red"),
    "asking": ("?", "bold yellow"),
    "waiting": (".", ""),
    "idle": (".", "dim"),
}
_CONSOLE = Console(width=1000)  # only measures


@dataclass(slots=True)
class Scene:
    """All that is on the screen."""

    job: str
    request: str
    record: Record | None
    status: str
    elapsed: float
    turns: int
    now: float
    threads: Sequence[tuple[int, Thread]] = ()
    messages: Sequence[Text] = ()
    question: str = ""  # its head, one line
    words: str = ""  # its text
    keys: Sequence[str] = ()
    prompt: str | None = None
    typed: str = ""
    note: str = ""
    page: Sequence[str] | None = None  # a file that is being read
    offset: int = 0
    heading: str = "needs you"  # what the question stands under
    place: str = ""  # which of several questions this is
    facts: Sequence[str] = ()  # what else is to be known of the job, a line each
    chosen: str = ""  # the thread that a key would be about
    footless: bool = False  # the keys are somebody else's to show


def draw(scene: Scene, width: int, height: int) -> list[Text]:
    """Exactly as many lines as there is room for."""
    head = [_title(scene, width), _bar(scene, width), *(Text(f" {clean(fact)}", "dim") for fact in scene.facts)]
    foot = _panel(scene, width, max(1, min(PANEL_LINES, height // 3)))
    room = max(0, height - len(head) - len(foot))
    middle = _page(scene, width, room) if scene.page is not None else _middle(scene, width, room)
    middle += [Text()] * (room - len(middle))
    lines = [cleaned(line) for line in (*head, *middle[:room], *foot)][:height]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def clean(text: str) -> str:
    """A text on one line, with nothing that a terminal would obey."""
    return printable(" ".join(text.split()))


def cleaned(line: Text) -> Text:
    """A line that is about to be drawn: the net below what was put into it. One that needs it loses its style."""
    shown = printable(line.plain)
    return line if shown == line.plain else Text(shown)


def minutes(seconds: float) -> str:
    """A time as a clock shows it."""
    whole = max(0, int(seconds))
    hours = f"{whole // 3600}:" if whole >= 3600 else ""  # noqa: PLR2004 - seconds
    return f"{hours}{whole // 60 % 60:02d}:{whole % 60:02d}" if hours else f"{whole // 60}:{whole % 60:02d}"


def spread(left: Text, right: str, width: int, style: str = "") -> Text:
    """Something at each end of a line."""
    room = max(1, width - len(right) - 1)
    left.truncate(room, overflow="ellipsis")
    left.append(" " * max(1, width - left.cell_len - len(right)))
    left.append(right, style)
    return left


def _title(scene: Scene, width: int) -> Text:
    line = spread(Text(f" {scene.job}  {clean(scene.request)}"), f"{minutes(scene.elapsed)} ", width)
    line.stylize("reverse")
    return line


def _bar(scene: Scene, width: int) -> Text:
    """The phases, with the one it is in, and how often each was visited."""
    line = Text(" ")
    record = scene.record
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
    style = "bold yellow" if scene.status == "needs you" else ""
    return spread(line, f"{turned}{turn_words(scene.turns)}  {scene.status} ", width, style)


def turn_words(turns: int) -> str:
    """How many turns."""
    return count(turns, "turn")


def rule(title: str, width: int, style: str = "dim") -> Text:
    """A line across the screen, with a title."""
    return Text(f"── {title} {'─' * max(0, width - len(title) - 4)}" if title else "─" * width, style)


def _middle(scene: Scene, width: int, room: int) -> list[Text]:
    team = _team(scene, width)
    share = max(3, min(len(team), room - 2 - max(4, room // 3)))
    if len(team) > share:
        hidden = len(team) - share + 1
        chosen = next((at for at, (_, thread) in enumerate(scene.threads) if thread.id == scene.chosen), 0)
        start = max(0, min(chosen - share // 2, hidden))
        team = team[start : start + share - 1]
        team.append(Text(f"   … {hidden} more: parley tree {scene.job}", "dim"))
    below = max(0, room - len(team) - 2)
    messages = [message.copy() for message in list(scene.messages)[-below:]] if below else []
    return [rule("team", width), *team, rule("messages", width), *messages]


def _team(scene: Scene, width: int) -> list[Text]:
    lines = []
    for depth, thread in scene.threads:
        mark, style = MARKS.get(thread.state, (" ", ""))
        line = Text()
        line.append(f"{'▸' if thread.id == scene.chosen else ' '}{'  ' * depth}", "bold")
        line.append(mark, style)
        name = f" {thread.agent}"
        line.append(f"{name:<{max(len(name) + 1, 19 - 2 * depth)}}", "bold" if thread.state == "running" else "")
        line.append(clean(thread.doing), "" if thread.state in ("running", "stalled") or thread.waits else "dim")
        since = minutes(scene.now - thread.since) if thread.since and thread.state == "running" else ""
        lines.append(spread(line, f"{since} ", width, "dim"))
    over = scene.record is not None and not scene.record.live
    return lines or [Text("  nobody any more" if over else "  nobody yet", "dim")]


def _page(scene: Scene, width: int, room: int) -> list[Text]:
    lines = [part for line in scene.page or () for part in wrapped(line, width - 2)]
    last = max(0, len(lines) - (room - 1))
    start = min(scene.offset, last)
    place = f"lines {start + 1} to {min(len(lines), start + room - 1)} of {len(lines)}"
    return [rule(place, width), *(Text(f" {line}") for line in lines[start : start + room - 1])]


def wrapped(text: str, width: int) -> list[str]:
    """A text in lines that fit."""
    shown = printable(text.expandtabs(4))
    return [line.plain.rstrip() for line in Text(shown).wrap(_CONSOLE, max(10, width))] or [""]


def _panel(scene: Scene, width: int, room: int) -> list[Text]:
    """What needs the human, what can be typed, and what is being typed."""
    lines: list[Text] = []
    if scene.question:
        urgent = "bold yellow" if scene.heading == "needs you" else "dim"
        lines.append(rule(f"{scene.heading}{scene.place}", width, urgent))
        lines.append(Text(f" {clean(scene.question)}", "bold"))
        text = "" if scene.page is not None else scene.words
        words = [part for line in text.splitlines() for part in wrapped(line, width - 2)]
        lines += [Text(f" {line}") for line in words[:room]]
        if len(words) > room:
            lines[-1] = Text(" … press v to read it all", "dim")
    else:
        lines.append(rule("", width))
    if scene.footless:
        return lines
    return [*lines, *foot(scene.keys, scene.prompt, scene.typed, [scene.note], width)]


def foot(keys: Sequence[str], prompt: str | None, typed: str, notes: Sequence[str], width: int) -> list[Text]:
    """The keys that do something now, and what is being typed, or what has become of it."""
    lines = key_lines(keys, width)
    if prompt is not None:
        line = Text()
        line.append(f" {prompt}> ", "bold")
        line.append(tail(typed, max(10, width - line.cell_len - 2)))
        line.append("_", "blink")
        return [*lines, line]
    return [*lines, *(Text(f" {clean(note)}", "italic") for note in notes or [""])]


def tail(text: str, width: int) -> str:
    """The end of a text, as much as there is room for."""
    while cell_len(text) > width:
        text = text[max(1, (cell_len(text) - width) // 2) :]
    return text


def key_lines(keys: Sequence[str], width: int) -> list[Text]:
    """Keys with their meanings, on as many lines as they take."""
    lines = [Text()]
    for key in keys:
        letter, _, meaning = key.partition(" ")
        gap = "  " if lines[-1].plain else " "
        if lines[-1].plain and lines[-1].cell_len + len(gap) + cell_len(key) > width:
            lines.append(Text())
            gap = " "
        lines[-1].append(gap)
        lines[-1].append(letter, "bold reverse")
        lines[-1].append(f" {meaning}")
    return lines


def stamp(moment: float, text: str, style: str) -> Text:
    """A line of what has happened."""
    line = Text()
    line.append(f" {time.strftime('%H:%M:%S', time.localtime(moment))} ", "dim")
    line.append(clean(text), style)
    return line


def told(event: Event, width: int) -> str:
    """An event on one line: of a question its asker's own words, which matter most."""
    if event.to != HUMAN or not event.about.get("text"):
        return headline(event, width)
    asker, artifact = event.about.get("asker", event.who), event.about.get("artifact")
    return excerpt(f"{asker} asks you{f' about {artifact}' if artifact else ''}: {event.about['text']}", width)


def style_of(event: Event) -> str:
    """How an event is shown among others."""
    if event.kind == "transition":
        return "bold cyan"
    if HUMAN in (event.to, event.who):
        return "yellow"
    return "" if event.kind == "message" else "red"


def team(present: Present) -> list[Thread]:
    """Everyone but the orchestrator, whose turns take no time."""
    return [thread for thread in present.threads() if thread.agent != ORCHESTRATOR]
