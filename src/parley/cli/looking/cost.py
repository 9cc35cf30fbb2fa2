"""`parley cost`: shows what jobs cost, by job, day, agent or model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import Any

from parley.base.json_codec import Unreadable
from parley.base.wording import advice, count
from parley.bus.rows import BusError
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.cli import FAILED, OK, CommandError
from parley.cli.common import Workplace, columns, one_line, place_of, print_json, safe
from parley.cli.job_filters import has_filter
from parley.cli.looking.json_documents import chosen_rows
from parley.cli.open_bus import open_bus
from parley.cli.user_homes import known
from parley.views.costs import Cost, TurnCost, grouped, total, turn_costs

KEYS = ("job", "day", "agent", "model")
WIDTH = 12  # columns of a row's name
SHOWN = 30  # rows, of those that a user has not chosen by a filter; the newest jobs and days, or what costs most
_NUMBERS = f"{'turns':>7} {'tokens in':>13} {'from cache':>13} {'out':>11} {'USD':>10}"


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
            if place == here or SqliteStore.exists(place.home):
                turns += _of_place(place, words, jobs)
        except (BusError, Unreadable) as error:  # one elsewhere that can't be read does not hide the others
            if place == here:
                raise
            problems.append(str(error) if isinstance(error, BusError) else f"{place.root}: {error}")
    costs = grouped(turns, lambda turn: str(getattr(turn, by)))
    if by in ("agent", "model"):
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
    elif not jobs:
        print("no job matches; `parley ls --all` lists them")
    else:
        _print(by, costs, jobs, whole=bool(words.jobs) or has_filter(words))
        print(_line("all", everything, count(len(jobs), "job")))
        _print_unpriced(everything)
    for problem in problems:
        print(f"parley: {safe(problem)}", file=sys.stderr)
    return FAILED if problems else OK


def _print_unpriced(cost: Cost) -> None:
    if not cost.priced:
        print("no turn has reported what it costs")
    elif cost.priced < cost.turns:
        print(f"{cost.turns - cost.priced} of {count(cost.turns, 'turn')} have reported no money")


def _of_place(place: Workplace, words: argparse.Namespace, jobs: dict[str, dict[str, Any]]) -> Iterable[TurnCost]:
    """The turns of one repository's jobs; what is known of the jobs goes into `jobs`."""
    with open_bus(place) as store:
        rows = sorted(chosen_rows(store, words), key=lambda row: row.created)
        for row in rows:
            jobs[row.job] = {
                "request": row.request,
                "state": row.state,
                "created": row.created,
                "updated": row.updated,
                "home": str(place.home),
            }
            yield from turn_costs(store, row)


def _print(by: str, costs: dict[str, Cost], jobs: dict[str, dict[str, Any]], *, whole: bool) -> None:
    entries = list(reversed(costs.items()))
    left_out = [] if whole else entries[SHOWN:]
    print(f"{by:<{WIDTH}}{_NUMBERS}")
    for name, cost in entries if whole else entries[:SHOWN]:
        print(_line(name, cost, str(jobs[name]["request"]) if by == "job" else ""))
    if left_out:
        rest = Cost()
        for _, cost in left_out:
            rest = rest.plus(cost)
        print(_line(f"{len(left_out)} more", rest, f"see them with: parley cost --by {by} --state all"))


def _line(name: str, cost: Cost, words: str) -> str:
    money = f"{cost.money:,.2f}" if cost.money is not None else "-"
    tokens = cost.input_tokens + cost.cache_creation_tokens
    numbers = f"{cost.turns:>7,} {tokens:>13,} {cost.cache_read_tokens:>13,} {cost.output_tokens:>11,} {money:>10}"
    label = one_line(name, 200)
    head = f"{label:<{WIDTH}}" if len(label) <= WIDTH else f"{label}\n{'':<{WIDTH}}"
    room = columns() - WIDTH - len(numbers) - 2
    return f"{head}{numbers}  {one_line(words, room)}" if words and room >= 8 else f"{head}{numbers}"  # noqa: PLR2004
