"""`parley notify`: shows where notices to the human go, and sends a test.

The addresses hold secrets and are a person's own. They come from a variable, or from that person's own settings; in a
repository's settings they count only once they are allowed with `parley trust`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from parley.base.documents.node import DocumentError
from parley.cli import BAD_USE, FAILED, OK, CommandError
from parley.cli.common import Workplace, account_name, homes_file, own_settings, place_of, print_json, safe
from parley.cli.machine.trust import own_notify, settings_of
from parley.engine.world import NoNotices
from parley.features.notices import LOG, AnswerAddress, NoticeSender, SentNotice, sent_before, try_out
from parley.features.notices.post import kind_of
from parley.machine.page_address import page_address
from parley.ports.notices import Notice, Notices
from parley.settings.option_words import notify_to
from parley.settings.schema import FILE, NotifySettings, Settings
from parley.views.repository_context import repository_key
from parley.web.safety.people_book import BookTrouble, book_in
from parley.web.safety.question_links import make_link
from parley.web.safety.sessions import page_key

VARIABLE = "PARLEY_NOTIFY"
NOWHERE = 'no notices are sent; say where to in {path}: [notify] to = ["ntfy://…", "mailto://…", "desktop"]'


def addresses(place: Workplace, settings: Settings) -> tuple[NotifySettings, str]:
    """Where notices go, and what sets it: the variable, else the user's own settings, else the repository's."""
    own = own_notify()
    named = os.environ.get(VARIABLE)
    if named is not None:
        occasions = (own or settings.notify or NotifySettings()).on
        return NotifySettings(notify_to(named.split(), VARIABLE), occasions), VARIABLE
    if own is not None:
        return own, str(own_settings())
    return settings.notify or NotifySettings(), str(place.root / FILE)


def notices_of(place: Workplace, settings: Settings) -> Notices:
    """The sender of an engine's notices to the human."""
    try:
        found, _ = addresses(place, settings)
    except DocumentError as error:  # no job stops for it
        print(f"parley: {error}; until then no notices are sent", file=sys.stderr)
        return NoNotices()
    if not found.to:
        return NoNotices()
    return NoticeSender(
        place.home, found.to, found.on, place=place.root.name, address=lambda notice: answer_address(place, notice)
    )


def answer_address(place: Workplace, notice: Notice) -> AnswerAddress:
    """Where the question of a notice can be answered in the browser. A link is for a person who may open the page."""
    address, state, put = page_address(place.home), homes_file(), notice.about
    if put is None or not address or state is None:
        return AnswerAddress()
    repository = repository_key(place.home)
    page = f"{address}/r/{repository}/{notice.job}/q/{put.question}"
    try:
        if put.person != account_name() and not book_in(state.parent).of_person(put.person, repository, notice.job):
            return AnswerAddress(page)
        link = make_link(page_key(state.parent), repository, notice.job, put)
    except BookTrouble:  # no job stops for it
        return AnswerAddress(page)
    return AnswerAddress(page, f"{address}/answer/{link}")


def last_problems(home: Path) -> list[str]:
    """The problems of the last notice from a home, for each service."""
    logs = sorted((home / "jobs").glob(f"*/{LOG}"), key=lambda path: path.stat().st_mtime)
    found = sent_before(logs[-1].parent) if logs else []
    last = found[-1].notice if found else ""
    return [f"{sent.service}: {safe(sent.problem)}" for sent in found if sent.notice == last and sent.problem]


def run(words: argparse.Namespace) -> int:
    """Show where notices go; with --test, send one and show each service's result."""
    place = place_of(words.repo)
    found, origin = addresses(place, settings_of(place))
    if not found.to and words.test:
        raise CommandError(NOWHERE.format(path=own_settings()), BAD_USE)
    if words.test:
        return _test(found, place, words)
    services = [f"{number}. {kind_of(address)}" for number, address in enumerate(found.to, 1)]
    if words.json:
        print_json({"from": origin if found.to else None, "on": list(found.on), "services": services})
    elif not found.to:
        print(NOWHERE.format(path=own_settings()))
    else:
        print(f"from {origin}, on {', '.join(found.on)}:")
        for service in services:
            print(f"  {service}")
        print("try them with: parley notify --test")
    return OK


def _test(found: NotifySettings, place: Workplace, words: argparse.Namespace) -> int:
    told = try_out(found.to, f"Parley ({place.root.name}): a test", "Notices reach you here.")
    answered = {sent.service for sent in told}
    named = [f"{number}. {kind_of(address)}" for number, address in enumerate(found.to, 1)]
    told += [
        SentNotice(service, "the process that sends gave no answer") for service in named if service not in answered
    ]
    if words.json:
        print_json(
            {"services": [{"service": s.service, "ok": not s.problem, "problem": s.problem or None} for s in told]}
        )
    else:
        for sent in told:
            print(f"{sent.service}: {f'not sent: {safe(sent.problem)}' if sent.problem else 'sent'}")
    return FAILED if any(sent.problem for sent in told) else OK
