"""Notices to the human: where they go, and `parley notify`, which tells and tries it.

The addresses hold secrets and are a person's own. They come from a variable, or from that person's own settings; in a
repository's settings they count only once they are allowed with `parley trust`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from parley import config
from parley.adapters.notices import LOG, Outbox, Sent, sent_before, try_out
from parley.adapters.notices.post import kind_of
from parley.config import NotifySettings, Settings
from parley.engine.world import Silence
from parley.faces.cli import BAD_USE, FAILED, OK, Trouble
from parley.faces.cli.desk import Place, own_settings, place_of, print_json, safe
from parley.faces.cli.trust import own_notify, settings_of
from parley.notices import Notices

VARIABLE = "PARLEY_NOTIFY"
NOWHERE = 'nobody is notified; say where to in {path}: [notify] to = ["ntfy://…", "mailto://…", "desktop"]'


def addresses(place: Place, settings: Settings) -> tuple[NotifySettings, str]:
    """Where notices go, and who says so: the variable, else the user's own settings, else the repository's."""
    own = own_notify()
    named = os.environ.get(VARIABLE)
    if named is not None:
        occasions = (own or settings.notify or NotifySettings()).on
        return NotifySettings(config.notify_to(named.split(), VARIABLE), occasions), VARIABLE
    if own is not None:
        return own, str(own_settings())
    return settings.notify or NotifySettings(), str(place.root / config.FILE)


def notices_of(place: Place, settings: Settings) -> Notices:
    """What takes an engine's notices to the human."""
    try:
        found, _ = addresses(place, settings)
    except config.ConfigError as error:  # no job is held up by it, nor the end of one
        print(f"parley: {error}; until then nobody is notified", file=sys.stderr)
        return Silence()
    return Outbox(place.home, found.to, found.on, place.root.name) if found.to else Silence()


def last_problems(home: Path) -> list[str]:
    """What was wrong with the last notice that was sent from a home, service by service."""
    logs = sorted((home / "jobs").glob(f"*/{LOG}"), key=lambda path: path.stat().st_mtime)
    found = sent_before(logs[-1].parent) if logs else []
    last = found[-1].notice if found else ""
    return [f"{sent.service}: {safe(sent.problem)}" for sent in found if sent.notice == last and sent.problem]


def run(words: argparse.Namespace) -> int:
    """Tell where notices go; with --test, send one and say what became of it at each service."""
    place = place_of(words.repo)
    found, origin = addresses(place, settings_of(place))
    if not found.to and words.test:
        raise Trouble(NOWHERE.format(path=own_settings()), BAD_USE)
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


def _test(found: NotifySettings, place: Place, words: argparse.Namespace) -> int:
    told = try_out(found.to, f"Parley ({place.root.name}): a test", "Notices reach you here.")
    answered = {sent.service for sent in told}
    named = [f"{number}. {kind_of(address)}" for number, address in enumerate(found.to, 1)]
    told += [Sent(service, "the process that sends gave no answer") for service in named if service not in answered]
    if words.json:
        print_json(
            {"services": [{"service": s.service, "ok": not s.problem, "problem": s.problem or None} for s in told]}
        )
    else:
        for sent in told:
            print(f"{sent.service}: {f'not sent: {safe(sent.problem)}' if sent.problem else 'sent'}")
    return FAILED if any(sent.problem for sent in told) else OK
