"""A timeline as a drawing: one row a thread, one bar a turn, and the times in which it could not go on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import quote

from markupsafe import Markup

from parley.base.wording import count
from parley.views.history.timeline import Mark, Segment, Timeline, TimelineRow, ticks
from parley.web.templating import duration, one_line

NAMES, WIDE, ROW, TOP = 190, 930, 22, 26  # pixels: the names, the bars, a row, the axis
LETTERS = 24  # of a name
LABEL = 40  # pixels: half of what a label of the axis takes
KINDS: Mapping[str, str] = MappingProxyType(
    {
        "working": "at work",
        "waits": "waits for its provider",
        "stalled": "stalled",
        "asks": "asks a person",
        "paused": "paused",
        "budget": "budget spent",
        "stuck": "stuck",
    }
)
_DAY, _MINUTES = 86_400, 1_200  # seconds from which an axis needs the day, and no seconds
# Two drawings side by side: the names stay where they are while the bars scroll.
_DRAWING = Markup(
    '<div class="timeline" role="group" aria-label="{label}">'
    '<svg class="names" width="{names}" height="{height}">{left}</svg>'
    '<svg class="bars" width="{bars}" height="{height}">{right}</svg></div>'
)
_BAR = Markup(
    '<rect class="seg {kind}{marks}" x="{x:.1f}" y="{y}" width="{w:.1f}" height="{h}" rx="2"><title>{title}</title>'
    "</rect>"
)
_LIFE = Markup('<rect class="life" x="{x:.1f}" y="{y}" width="{w:.1f}" height="2"/>')
_NAME = Markup('<a href="{href}"><text x="{x}" y="{y}"><title>{title}</title>{name}</text></a>')
_TICK = Markup(
    '<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>'
    '<text class="under" x="{x:.1f}" y="14" text-anchor="{anchor}">{words}</text>'
)
_MARK = Markup(
    '<line class="passing{marks}" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"><title>{title}</title></line>'
)
_WHOLE = Markup(
    '<rect class="whole {kind}" x="{x:.1f}" y="{y}" width="{w:.1f}" height="{h}"><title>{title}</title></rect>'
)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where a moment stands on the drawing."""

    began: float
    ended: float

    def x(self, moment: float) -> float:
        """The pixel of a moment."""
        share = (moment - self.began) / max(self.ended - self.began, 1e-9)
        return WIDE * min(1.0, max(0.0, share))


def draw(found: Timeline, base: str) -> Markup:
    """The drawing; `base` is the job's address, to which the names link."""
    scale = _Scale(found.began, found.ended)
    height = TOP + ROW * len(found.rows) + 6
    names = [_name(row, TOP + ROW * number, base) for number, row in enumerate(found.rows)]
    shapes = [*_axis(found, scale, height), *_wholes(found, scale, height)]
    for number, row in enumerate(found.rows):
        shapes += _row(row, TOP + ROW * number, scale)
    shapes += [_mark(one, scale, height) for one in found.marks]
    label = f"{count(len(found.rows), 'thread')} over {duration(found.ended - found.began)}; a table below has the same"
    return _DRAWING.format(
        label=label,
        height=height,
        names=NAMES,
        bars=WIDE + 10,
        left=Markup("").join(names),
        right=Markup("").join(shapes),
    )


def clock(moment: float, span: float) -> str:
    """A moment on an axis that spans so many seconds."""
    form = "%m-%d %H:%M" if span > _DAY else "%H:%M" if span > _MINUTES else "%H:%M:%S"
    return time.strftime(form, time.localtime(moment))


def _axis(found: Timeline, scale: _Scale, height: int) -> Iterator[Markup]:
    for moment in ticks(found.began, found.ended):
        x = scale.x(moment)
        # a label at the edge would be cut off
        anchor = "end" if x > WIDE - LABEL else "start" if x < LABEL else "middle"
        yield _TICK.format(
            x=x, top=TOP - 6, bottom=height, anchor=anchor, words=clock(moment, found.ended - found.began)
        )


def _wholes(found: Timeline, scale: _Scale, height: int) -> Iterator[Markup]:
    for one in found.whole:
        x = scale.x(one.began)
        yield _WHOLE.format(
            kind=one.kind, x=x, y=TOP - 4, w=max(1.0, scale.x(one.ended) - x), h=height - TOP + 4, title=_title(one)
        )


def _name(row: TimelineRow, y: int, base: str) -> Markup:
    indent, agent = 10 * min(row.depth, 6), one_line(row.agent)
    room = LETTERS - min(row.depth, 6) * 10 // 8
    return _NAME.format(
        href=f"{base}/conversation?thread={quote(row.thread)}",
        x=4 + indent, y=y + 15, title=f"{agent} on {one_line(row.thread)}",
        name=agent if len(agent) <= room else f"{agent[: room - 1]}…",
    )  # fmt: skip


def _row(row: TimelineRow, y: int, scale: _Scale) -> Iterator[Markup]:
    agent, x = one_line(row.agent), scale.x(row.began)
    yield _LIFE.format(x=x, y=y + ROW // 2 - 1, w=max(1.0, scale.x(row.ended) - x))
    for one in row.segments:
        x = scale.x(one.began)
        marks = f" {one.how}" if one.how in ("lost", "abandoned") else ""
        yield _BAR.format(
            kind=one.kind, marks=marks, x=x, y=y + 4, w=max(1.5, scale.x(one.ended) - x), h=ROW - 8,
            title=f"{agent}: {_title(one)}",
        )  # fmt: skip


def _mark(one: Mark, scale: _Scale, height: int) -> Markup:
    return _MARK.format(
        marks=" backtrack" if one.backtrack else "",
        x=scale.x(one.time), top=TOP - 6, bottom=height,
        title=f"{one.before} → {one.after} at {clock(one.time, 0)}",
    )  # fmt: skip


def _title(one: Segment) -> str:
    several = f", {count(one.count, 'time')}" if one.count > 1 else ""
    how = f" ({one.how})" if one.how in ("lost", "abandoned", "terminated") else ""
    lasts = " so far" if one.open else ""
    said = f": {one_line(one.words)}" if one.words else ""
    how += f" on {one_line(one.host)}" if one.host else ""
    return f"{KINDS.get(one.kind, one.kind)}{how}{several}, {duration(one.ended - one.began)}{lasts}{said}"
