"""A chart of bars by day, each stacked from a few parts: an SVG that the server makes, and the same as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from markupsafe import Markup

WIDTH, HEIGHT = 360, 190
LEFT, RIGHT, TOP, BOTTOM = 44, 4, 10, 22  # room around the bars
LEAST = 1.5  # how high a part is drawn at least, so that it can be seen
MOST_PARTS = 6  # with a colour each; the rest is one part
REST = "others"
_RECT = Markup(
    '<rect class="part-{number}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}">'
    "<title>{words}</title></rect>"
)
_LINE = Markup(
    '<line class="scale" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
    '<text x="{at}" y="{base:.1f}">{words}</text>'
)


@dataclass(frozen=True, slots=True)
class ChartPart:
    """One part of the bars: what it is called, where it leads, and how much of it there is on each day."""

    name: str
    amounts: Mapping[str, int]  # by day
    link: str = ""

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self.amounts.values())


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars by day."""

    title: str
    days: Sequence[str]  # as 2026-01-31, the oldest first
    parts: Sequence[ChartPart]  # the largest first
    shown: Callable[[int], str]  # an amount in words

    @property
    def total(self) -> int:
        """All of it."""
        return sum(part.total for part in self.parts)

    def of_day(self, day: str) -> int:
        """What one day has."""
        return sum(part.amounts.get(day, 0) for part in self.parts)

    def last(self, days: int) -> int:
        """What the last days have together."""
        return sum(self.of_day(day) for day in self.days[-days:])

    def busy_days(self) -> list[str]:
        """The days that have anything, the newest first."""
        return [day for day in reversed(self.days) if self.of_day(day)]


def with_few_parts(parts: Sequence[ChartPart]) -> list[ChartPart]:
    """The largest parts, and one for the rest."""
    found = sorted((part for part in parts if part.total), key=lambda part: (-part.total, part.name))
    if len(found) <= MOST_PARTS + 1:
        return found
    rest: dict[str, int] = {}
    for part in found[MOST_PARTS:]:
        for day, amount in part.amounts.items():
            rest[day] = rest.get(day, 0) + amount
    return [*found[:MOST_PARTS], ChartPart(f"{len(found) - MOST_PARTS} {REST}", rest)]


def draw(chart: Chart) -> Markup:
    """The chart as an SVG. Its table says the same to who can't see it."""
    top = _scale(max((chart.of_day(day) for day in chart.days), default=0))
    floor = HEIGHT - BOTTOM
    height = floor - TOP
    drawn = [_lines(chart, top, floor, height)]
    step = (WIDTH - LEFT - RIGHT) / max(1, len(chart.days))
    for number, day in enumerate(chart.days):
        drawn.append(_bar(chart, day, LEFT + number * step, step, floor, height / top))
    drawn.append(_names(chart.days, step))
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, HEIGHT, chart.title, Markup("").join(drawn)
    )


def _bar(chart: Chart, day: str, x: float, step: float, floor: float, each: float) -> Markup:
    found, y = [], floor
    for number, part in enumerate(chart.parts):
        amount = part.amounts.get(day, 0)
        if not amount:
            continue
        height = max(LEAST, amount * each)
        y -= height
        words = f"{day_words(day)}: {chart.shown(amount)}, {part.name}"
        found.append(_RECT.format(number=number, x=x + step * 0.12, y=y, width=step * 0.76, height=height, words=words))
    return Markup("").join(found)


def _lines(chart: Chart, top: int, floor: float, height: float) -> Markup:
    """The scale: a few lines with their amounts."""
    found = []
    steps = min(top, 5 if str(top)[0] in "15" else 4)  # of what is counted there are no halves
    for number in range(steps + 1):
        amount, y = top * number // steps, floor - height * number / steps
        found.append(
            _LINE.format(left=LEFT, right=WIDTH - RIGHT, y=y, at=LEFT - 6, base=y + 3.5, words=chart.shown(amount))
        )
    return Markup("").join(found)


def _names(days: Sequence[str], step: float) -> Markup:
    """The names of a few days below the bars."""
    found = []
    for number in range(len(days) - 1, -1, -7):
        x = LEFT + (number + 0.5) * step
        anchor = "end" if number == len(days) - 1 else "middle"
        found.append(
            Markup('<text class="day {}" x="{:.1f}" y="{}">{}</text>').format(
                anchor, x + (step / 2 if anchor == "end" else 0), HEIGHT - 6, day_words(days[number])
            )
        )
    return Markup("").join(found)


def _scale(most: int) -> int:
    """A round number that is no less: 1, 2, 4, 5 or 8 with zeros."""
    if most <= 1:
        return 1
    size = int("1".ljust(len(str(most)), "0"))
    return next(factor * size for factor in (1, 2, 4, 5, 8, 10, 20) if factor * size >= most)


def day_words(day: str) -> str:
    """A day as people write it: 31 Jan."""
    try:
        found = date.fromisoformat(day)
    except ValueError:
        return day
    return f"{found.day} {found:%b}"
