"""`parley people`: who may open the page that `parley serve` shows, and how much each of them may do there.

A link is printed once, when it is made: only a digest of its token is kept. Who is removed is out at once.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from parley.base.wording import advice, count
from parley.cli import FAILED, OK, CommandError
from parley.cli.common import account_name, homes_file, one_line, person, place_of, print_json, time_text
from parley.cli.user_homes import known
from parley.engine.values.people import DOES, May
from parley.machine.page_address import page_address
from parley.web.safety.people_book import LONGEST_DAYS, BookTrouble, Pass, PeopleBook, book_in

ACTIONS = ("list", "add", "remove", "links")
METRICS = "metrics"  # with --may: nothing but the server's figures
DAY_SECONDS = 86_400
NO_ONE = "no one but you may open the page; `parley people add NAME` makes a link for someone"
NO_LINK = "there are no links that only show one job; a job's page makes them (Share)"


def run(words: argparse.Namespace) -> int:
    """List the people, or let someone in, or out."""
    if words.action not in ACTIONS:
        raise CommandError(f"there is no action {one_line(words.action, 40)!r}; {advice(words.action, ACTIONS)}")
    named = words.action in ("add", "remove")
    if named and not words.name:
        raise CommandError(f"who? write `parley people {words.action} NAME`")
    if words.name and not named:
        raise CommandError(f"{words.action} takes no name; leave {one_line(words.name, 40)!r} out")
    if words.action != "add" and (words.may is not None or words.days is not None):
        raise CommandError("--may and --for go with add; leave them out")
    try:
        return _ACTIONS[words.action](words, _book())
    except BookTrouble as error:
        raise CommandError(str(error), FAILED) from error


def _book() -> PeopleBook:
    state = homes_file()
    if state is None:
        raise CommandError("this account has no home folder; set XDG_STATE_HOME to a folder of yours that lasts")
    return book_in(state.parent)


def _list(words: argparse.Namespace, book: PeopleBook) -> int:
    """Show who may open the page."""
    people = [one for one in book.passes() if one.person]
    links = [one for one in book.passes() if not one.person]
    if words.json:
        print_json({"account": account_name(), "people": _documents(people), "links": _documents(links)})
        return OK
    for one in people:
        print(f"  {one_line(one.person, 64):<20}  {one.does:<10}  {_until(one)}{_only(one)}")
    if not people:
        print(NO_ONE)
    if links:
        print(f"{count(len(links), 'link')} besides, that only show a job: parley people links")
    return OK


def _links(words: argparse.Namespace, book: PeopleBook) -> int:
    """Show the links that open one job without a name."""
    links = [one for one in book.passes() if not one.person]
    if words.json:
        print_json({"links": _documents(links)})
        return OK
    for one in links:
        print(f"  {one.id}  {one.job or 'all jobs':<10}  made {time_text(one.made)}, {_until(one)}")
    print("take one back with: parley people remove ID" if links else NO_LINK)
    return OK


def _add(words: argparse.Namespace, book: PeopleBook) -> int:
    """Let a person in: print their link."""
    name, metrics = person(words.name), words.may == METRICS
    may = May.SEE if metrics else _may(words.may)
    if name.casefold() == account_name().casefold():
        raise CommandError(f"{name} is you: open the link that `parley serve` prints")
    made, token = book.add(name, may, seconds=_days(words.days) * DAY_SECONDS, metrics=metrics)
    address = _address(words)
    link = f"{address}/metrics" if metrics else f"{address}/?token={token}"
    if words.json:
        print_json({**_document(made), "token": token, "link": link if address else None})
    elif metrics:
        print(f"{name} {made.does}, {_until(made)}. The token, which is shown only now:\n{token}")
        print(f"a scraper sends it as `Authorization: Bearer …` to {link if address else 'the address of the page'}")
    elif address:
        print(f"{name} {DOES[may]}, {_until(made)}. The link, which is shown only now:\n{link}")
    else:
        print(
            f"{name} {DOES[may]}, {_until(made)}. No page is served here just now. Once `parley serve` runs, the link"
        )
        print(f"is its address followed by this, which is shown only now:\n/?token={token}")
    return OK


def _remove(words: argparse.Namespace, book: PeopleBook) -> int:
    """Take back a person's link, or one that shows a job."""
    gone = book.remove(lambda one: words.name in ((one.person,) if one.person else (one.id,)))
    if not gone:
        names = [one.person or one.id for one in book.passes()]
        hint = f"; {advice(words.name, names)}" if names else ""
        raise CommandError(f"there is no one called {one_line(words.name, 64)!r}{hint}")
    if words.json:
        print_json({"removed": _documents(gone)})
    else:
        print(f"{one_line(gone[0].person, 64) or f'the link {gone[0].id}'} is out; what they said in jobs stays")
    return OK


_ACTIONS = {"list": _list, "links": _links, "add": _add, "remove": _remove}


def _address(words: argparse.Namespace) -> str:
    """Where the page is served: of this repository, else of any that this user has; empty: nowhere."""
    here = place_of(words.repo).home
    homes: list[Path] = [here, *(place.home for place in known() if place.home != here)]
    return next((found for home in homes if (found := page_address(home))), "")


def _may(word: str | None) -> May:
    word = word or May.ANSWER.value
    if word not in list(May):
        raise CommandError(f"--may {one_line(word, 40)}: {advice(word, [*May, METRICS])}")
    return May(word)


def _days(word: str | None) -> int:
    if word is None:
        return 0
    if not word.isdecimal() or not 0 < int(word[:9]) <= LONGEST_DAYS:
        raise CommandError(f"--for {one_line(word, 40)}: write a number of days, from 1 to {LONGEST_DAYS}")
    return int(word)


def _until(one: Pass) -> str:
    return f"until {time_text(one.expires)}" if one.expires else "until removed"


def _only(one: Pass) -> str:
    return f", only {one.job}" if one.job else ""


def _documents(passes: list[Pass]) -> list[dict[str, Any]]:
    return [_document(one) for one in passes]


def _document(one: Pass) -> dict[str, Any]:
    left = max(0, round(one.expires - time.time())) if one.expires else None
    return {
        "id": one.id,
        "person": one.person or None,
        "may": METRICS if one.metrics else one.may,
        "made": one.made,
        "expires": one.expires or None,
        "seconds_left": left,
        "job": one.job or None,
    }
