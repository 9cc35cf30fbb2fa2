"""What jobs cost, over the last days: a chart of the first page, by job or by repository."""

from __future__ import annotations

import time
from datetime import date, timedelta
from typing import Any

from starlette.responses import Response

from parley.base.json_codec import Unreadable
from parley.bus.rows import BusError, Spent
from parley.engine.turn.start import day_of
from parley.views.repository_context import RepositoryContext
from parley.web.drawing.chart import Chart, ChartPart, day_words, draw, with_few_parts
from parley.web.templating import money, one_line
from parley.web.visit import Visit

DAYS = 30
MEASURES = {"money": "Money", "tokens": "Tokens", "turns": "Turns"}
STACKS = {"job": "By job", "repository": "By repository"}
LONGEST_NAME = 60  # characters
Amounts = dict[tuple[str, str], dict[str, Spent]]  # by repository and job, then by day


def costs(visit: Visit) -> Response:
    """The chart, with its totals and its table."""
    return visit.kept(lambda: visit.show("part_costs.html", **charted(visit)))


def contexts_of(visit: Visit) -> dict[str, RepositoryContext]:
    """The repositories that the visitor sees."""
    return {key: one for key, one in visit.site.contexts.items() if visit.holder.opens(key, visit.holder.job)}


def charted(visit: Visit) -> dict[str, Any]:
    """What the chart shows."""
    today = date.fromisoformat(day_of(time.time()))
    days = [(today - timedelta(days=back)).isoformat() for back in range(DAYS - 1, -1, -1)]
    amounts = _amounts(visit, days[0])
    several = len({repository for repository, _ in amounts}) > 1
    by = "repository" if visit.query.get("stack") == "repository" and several else "job"
    measure = visit.query.get("of", "")
    if measure not in MEASURES:
        measure = "money" if any(one.micros for found in amounts.values() for one in found.values()) else "turns"
    shown = {"money": short_money, "tokens": short, "turns": short}[measure]
    title = f"{MEASURES[measure]} a day over the last {DAYS} days, {STACKS[by].lower()}"
    chart = Chart(title, days, with_few_parts(_parts(visit, amounts, measure, by)), shown)
    exact = money if measure == "money" else (lambda amount: f"{amount:,}")
    return {
        "chart": chart,
        "drawing": draw(chart),
        "exact": exact,
        "day_words": day_words,
        "measure": measure,
        "measures": MEASURES,
        "stack": by,
        "stacks": STACKS if several else {},
        "totals": [("today", chart.last(1)), ("7 days", chart.last(7)), (f"{DAYS} days", chart.last(DAYS))],
    }


def _amounts(visit: Visit, since: str) -> Amounts:
    """What each job that the visitor sees has used on each day."""
    found: Amounts = {}
    for key, context in contexts_of(visit).items():
        try:
            if not context.exists():
                continue
            for job, day, spent in context.store.spending(since):
                if visit.holder.opens(key, job):
                    found.setdefault((key, job), {})[day] = spent
        except (BusError, Unreadable, OSError):  # the list says why
            continue
    return found


def _parts(visit: Visit, amounts: Amounts, measure: str, by: str) -> list[ChartPart]:
    column = {"money": "micros"}.get(measure, measure)
    if by == "job":
        names = _names(visit, amounts)
        return [
            ChartPart(
                names.get(which, which[1]), {day: getattr(one, column) for day, one in found.items()}, _link(which)
            )
            for which, found in amounts.items()
        ]
    summed: dict[str, dict[str, int]] = {}
    for (key, _), found in amounts.items():
        of_repository = summed.setdefault(key, {})
        for day, one in found.items():
            of_repository[day] = of_repository.get(day, 0) + getattr(one, column)
    return [ChartPart(visit.site.contexts[key].title, found) for key, found in summed.items()]


def _names(visit: Visit, amounts: Amounts) -> dict[tuple[str, str], str]:
    """What each job was asked, in a few words."""
    site = visit.site
    return {
        (key, one.entry.job): _shortened(one_line(one.entry.request))
        for key, context in contexts_of(visit).items()
        for one in site.board.read(key, context, site.hub.version(key))[0]
        if (key, one.entry.job) in amounts
    }


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


def _link(which: tuple[str, str]) -> str:
    return f"/r/{which[0]}/{which[1]}"


def short(amount: int) -> str:
    """A number in a few characters: 950, 12k, 3.4M."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if amount >= size:
            return f"{amount / size:.3g}{letter}"
    return str(amount)


def short_money(micros: int) -> str:
    """An amount in millionths of a dollar, in as many digits as say something."""
    dollars = micros / 1e6
    return f"${dollars:,.0f}" if dollars >= 10 or dollars == int(dollars) else f"${dollars:.2f}"  # noqa: PLR2004 - dollars


PAGES = (("/part/costs", ("GET",), costs),)
