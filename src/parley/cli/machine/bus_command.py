"""`parley bus`: says where the bus is; with a word, adopts it or copies it elsewhere."""

from __future__ import annotations

import argparse
from contextlib import closing
from importlib import import_module
from typing import Any

from parley.base.wording import advice, count
from parley.cli import BAD_USE, OK, CommandError, home_bus
from parley.cli.common import place_of, print_json
from parley.cli.shared_home import configured_remote, moving_words

ACTIONS = ("adopt", "copy", "invite", "join")
_MEGABYTE = 1 << 20


def run(words: argparse.Namespace) -> int:
    """Do what is asked of the bus."""
    if words.action is not None and words.action not in ACTIONS:
        raise CommandError(f"there is no action {words.action!a:.40}; {advice(words.action, ACTIONS)}")
    if words.to is not None and words.action in (None, "adopt"):
        raise CommandError(f"{words.to!a:.40}: only `parley bus copy`, `invite` and `join` take a second word", BAD_USE)
    if words.action is None:
        return _tell(words)
    module = {"adopt": "bus_adopt", "copy": "bus_copy", "invite": "bus_join", "join": "bus_join"}[words.action]
    return int(import_module(f"parley.cli.machine.{module}").run(words))


def _tell(words: argparse.Namespace) -> int:
    """Say where the bus is, how large, of which schema, and with how many jobs."""
    place = place_of(words.repo)
    if not home_bus.exists(place.home):
        raise CommandError(f"there is no bus in {place.home} yet; start a job with `parley run`")
    with closing(home_bus.open_bus_to_copy(place.home)) as store:
        rows = store.jobs()
        living = store.living({row.job for row in rows})
        owned = [row.job for row in rows if row.job in living]
        document: dict[str, Any] = {
            "home": str(place.home),
            "kind": store.kind,
            "server": store.key.server or None if store.key is not None else None,
            "name": store.name,
            "schema": store.schema_version,
            "bytes": store.size(),
            "durable": store.waits_for_disk(),
            "jobs": len(rows),
            "owned": owned,
        }
    if document["server"]:
        remote = configured_remote()
        document["remote"] = remote.shown if remote is not None else None
    if words.json:
        print_json(document)
        return OK
    on = f"on the PostgreSQL server {document['server']!r}, " if document["server"] else ""
    print(f"{place.home}: {on}{document['name']}")
    size = f"{document['bytes'] / _MEGABYTE:.1f} MB"
    print(f"  {count(len(rows), 'job')}, {len(owned)} of them at work; {size}; schema {document['schema']}")
    if document["server"]:
        print(f"  {moving_words(document['remote'])}")
    if not document["durable"]:
        print("  the server does not wait for its disk: what it has committed may be lost when its machine fails")
    return OK
