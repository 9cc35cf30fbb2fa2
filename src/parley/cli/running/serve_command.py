"""`parley serve`: the page in the browser, and the engine for all jobs of a repository or several."""

from __future__ import annotations

import argparse
import ipaddress
import re
from contextlib import ExitStack
from pathlib import Path

from parley.cli import FAILED, OK, CommandError, ctrl_c
from parley.cli.common import Workplace, account_name, homes_file, make_home, place_of
from parley.cli.looking.repository_contexts import context_of, titles_of
from parley.cli.running.spawn import engine_process
from parley.cli.user_homes import known, remember
from parley.machine.page_address import served
from parley.web.safety.people_book import BookTrouble
from parley.web.server import NoAddress, ServeOptions, serve

_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*")


def run(words: argparse.Namespace) -> int:
    """Serve the page until it is stopped."""
    places = _places(words)
    state = homes_file()
    if state is None:
        raise CommandError("this account has no home folder; set XDG_STATE_HOME to a folder of yours that lasts")
    _check_address(words)
    for place in places:
        make_home(place)
        remember(place)
    contexts = [context_of(place, title) for place, title in zip(places, titles_of(places), strict=True)]
    ctrl_c.set_interrupted_hint(lambda: "")
    held = ExitStack()
    try:
        serve(
            ServeOptions(
                contexts=contexts,
                engines={} if words.only_look else {str(place.home): engine_process(place) for place in places},
                account=account_name(),
                state=state.parent,
                host=words.host,
                port=words.port,
                names=words.name,
                certificate=words.cert or "",
                certificate_key=words.key or "",
                browser=not words.no_browser,
                announce=lambda origin: [held.enter_context(served(place.home, origin)) for place in places],
                tell=lambda link: print(f"Parley is at {link}\nCtrl-C ends it", flush=True),
            )
        )
    except (NoAddress, BookTrouble) as error:
        raise CommandError(str(error), FAILED) from error
    finally:
        held.close()
        for context in contexts:
            context.close()
    return OK


def _places(words: argparse.Namespace) -> list[Workplace]:
    """The repositories that are served: this one, or those that were named, or all."""
    named = words.folders or [words.repo]
    found = [place_of(folder) for folder in named]
    if words.everywhere:
        found += known()
    return list({place.home: place for place in found}.values())


def _check_address(words: argparse.Namespace) -> None:
    """Other machines reach the page only under TLS."""
    if bool(words.cert) != bool(words.key):
        raise CommandError("TLS needs both files: --cert FILE and --key FILE")
    try:
        local = words.host == "localhost" or ipaddress.ip_address(words.host).is_loopback
    except ValueError as error:
        raise CommandError(f"--host {words.host!r}: write an address of this machine, such as 127.0.0.1") from error
    for name in words.name:
        if _NAME.fullmatch(name) is None and not _is_address(name):
            raise CommandError(f"--name {name!r}: write a name or an address as browsers have it, without the port")
    if not local and not words.cert:
        raise CommandError(f"--host {words.host}: others could read what is sent; give --cert FILE and --key FILE")
    for path in (words.cert, words.key):
        if path and not Path(path).is_file():
            raise CommandError(f"{path}: there is no such file; name the TLS files with --cert and --key")


def _is_address(word: str) -> bool:
    try:
        ipaddress.ip_address(word)
    except ValueError:
        return False
    return True
