"""`parley cost`: shows what jobs cost, by job, day, agent, model or repository."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from parley.base.json_codec import Unreadable
from parley.base.wording import advice, count
from parley.bus.rows import BusError
from parley.cli import FAILED, OK, CommandError, home_bus
from parley.cli.common import Workplace, columns, one_line, place_of, print_json, safe
from parley.cli.job_filters import has_filter
from parley.cli.looking.json_documents import chosen_rows
from parley.cli.open_bus import open_bus
from parley.cli.user_homes import known
from parley.views.costs import Cost, TurnCost, grouped, total, turn_costs
from parley.views.job_view import DAMAGE, damage_words

KEYS = ("job", "day", "agent", "model", "repository")
LABEL = 12  # columns of a row's name at least; one that does not fit has a line of its own
LEAST_WORDS = 8  # columns, or a row's words are left out
SHOWN = 30  # rows, of those that a user has not chosen by a filter; the newest jobs and days, or what costs most
_HEADINGS = ("turns", "tokens in", "from cache", "out", "USD")


def run(words: argparse.Namespace) -> int:
    """Show the costs."""
    by = words.by
    if by not in KEYS:
        raise CommandError(f"--by {by}: {advice(by, KEYS)}")
    here = place_of(words.repo)
    turns: list[TurnCost] = []
    jobs: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    for place in [here, *(place for place in known() if place.home != here.home)] if words.everywhere else [here]:
        try:
            if place == here or home_bus.exists(place.home):
                turns += _of_place(place, words, jobs, problems)
        except (BusError, Unreadable) as error:  # one elsewhere that can't be read does not hide the others
            if place == here:
                raise
            problems.append(str(error) if isinstance(error, BusError) else f"{place.root}: {error}")
    costs = grouped(turns, lambda turn: str(jobs[turn.job]["root"] if by == "repository" else getattr(turn, by)))
    if by in ("agent", "model", "repository"):
        costs = dict(sorted(costs.items(), key=lambda entry: (entry[1].micros, entry[1].turns)))
    elif by == "day":
        costs = dict(sorted(costs.items()))
    everything = total(turns)
    if words.json:
        rows = [{by: name, **jobs.get(name, {}), **cost.document()} for name, cost in costs.items()]
        print_json(
            {
                "by": by,
                "costs": rows,
                "jobs": len(jobs),
                "total": everything.document(),
                "problems": problems,
            }
        )
    elif not jobs and not problems:
        print("no job matches; `parley ls --all` lists them")
    elif jobs:
        everywhere = " --everywhere" if words.everywhere else ""
        _print(by, costs, everything, jobs, everywhere, whole=bool(words.jobs) or has_filter(words))
        _print_unpriced(everything)
    for problem in problems:
        print(f"parley: {safe(problem)}", file=sys.stderr)
    return FAILED if problems else OK


def _print_unpriced(cost: Cost) -> None:
    if not cost.priced:
        print("no turn has reported what it costs")
    elif cost.priced < cost.turns:
        print(f"{cost.turns - cost.priced} of {count(cost.turns, 'turn')} have reported no money")


def _of_place(
    place: Workplace, words: argparse.Namespace, jobs: dict[str, dict[str, Any]], problems: list[str]
) -> Iterable[TurnCost]:
    """The turns of one repository's jobs; what is known of the jobs goes into `jobs`, or into `problems`."""
    with open_bus(place) as store:
        rows = sorted(chosen_rows(store, words), key=lambda row: row.created)
        for row in rows:
            try:
                yield from turn_costs(store, row)
            except DAMAGE as error:
                problems.append(f"{row.job} is left out: {damage_words(row.job)} ({error})")
                continue
            jobs[row.job] = {
                "request": row.request,
                "state": row.state,
                "created": row.created,
                "updated": row.updated,
                "home": str(place.home),
                "root": str(place.root),
            }


class _Row(NamedTuple):
    label: str
    numbers: Sequence[str]
    words: str


def _print(
    by: str,
    costs: dict[str, Cost],
    everything: Cost,
    jobs: Mapping[str, Mapping[str, Any]],
    everywhere: str,
    *,
    whole: bool,
) -> None:
    """A table whose columns are as wide as they need to be: what is left of the screen is for names and requests."""
    entries = list(reversed(costs.items()))
    left_out = [] if whole else entries[SHOWN:]
    rows = [_Row(by, _HEADINGS, "")]
    rows += [
        _row(name, cost, str(jobs[name]["request"]) if by == "job" else "")
        for name, cost in entries[: len(entries) - len(left_out)]
    ]
    if left_out:
        rest = Cost()
        for _, cost in left_out:
            rest = rest.plus(cost)
        rows.append(_row(f"{len(left_out)} more", rest, ""))
    rows.append(_row("all", everything, count(len(jobs), "job")))
    widths = [max(len(row.numbers[column]) for row in rows) for column in range(len(_HEADINGS))]
    room = columns() - sum(2 + width for width in widths) - 2 - max(len(rows[-1].words), LEAST_WORDS)
    label = min(max(LABEL, room), max(len(row.label) for row in rows))
    for row in rows:
        print(_line(row, label, widths))
    if left_out:
        print(f"see all: parley cost --by {by} --state all{everywhere}")


def _row(name: str, cost: Cost, words: str) -> _Row:
    money = f"{cost.money:,.2f}" if cost.money is not None else "-"
    tokens = (cost.input_tokens + cost.cache_creation_tokens, cost.cache_read_tokens, cost.output_tokens)
    return _Row(one_line(name, 200), [*(f"{number:,}" for number in (cost.turns, *tokens)), money], words)


def _line(row: _Row, label: int, widths: Sequence[int]) -> str:
    numbers = "".join(f"  {number:>{width}}" for number, width in zip(row.numbers, widths, strict=True))
    head = f"{row.label:<{label}}" if len(row.label) <= label else f"{row.label}\n{'':<{label}}"
    room = columns() - label - len(numbers) - 2
    return f"{head}{numbers}  {one_line(row.words, room)}" if row.words and room >= LEAST_WORDS else f"{head}{numbers}"
