"""`parley hosts`: the hosts that run turns of this repository's jobs."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import Any

from parley.base.wording import count
from parley.bus.postgres.postgres_schema import schema_of
from parley.cli import OK, home_bus
from parley.cli.common import place_of, print_json, safe
from parley.cli.machine.trust import settings_of
from parley.hosts.board import Board, HostRow, board_of
from parley.hosts.board_address import board_connect
from parley.hosts.board_link import BoardLink

LOCAL = "turns run on this machine: the bus of this home is a file; see docs/hosts.md for turns on others"


def run(words: argparse.Namespace) -> int:
    """List the hosts."""
    place = place_of(words.repo)
    key = home_bus.on_server(place.home) if home_bus.exists(place.home) else None
    if key is None:
        if not words.json:
            print(LOCAL)
            return OK
        print_json({"bus": "", "hosts": []})
        return OK
    schema, settled = board_of(schema_of(key.id)), settings_of(place).hosts
    with closing(BoardLink(board_connect(home_bus.address_of(key.server), schema))) as link:
        board = Board(link, schema)
        if settled.temporal:
            board.install(settled.lost_seconds, settled.roles)  # so that hosts can come before there is a job
        hosts = board.hosts() if board.exists() else []
    if words.json:
        print_json({"bus": key.id, "hosts": [_document(host) for host in hosts]})
        return OK
    for host in hosts:
        labels = f"  {', '.join(host.labels)}" if host.labels else ""
        print(safe(f"{host.name:<20} {_state(host):<9} {host.used} of {count(host.slots, 'slot')}{labels}"))
        print(safe(f"    Parley {host.version}; seen {host.seen_seconds:.0f} s ago; boundary: {host.boundary}"))
    if not hosts:
        print(f"no host has come yet; on each, run: parley worker --bus {key.id}")
    return OK


def _state(host: HostRow) -> str:
    if host.gone:
        return "ended"
    if not host.lives:
        return "lost"
    return "draining" if host.draining else "alive"


def _document(host: HostRow) -> dict[str, Any]:
    return {
        "name": host.name,
        "state": _state(host),
        "slots": host.slots,
        "used": host.used,
        "labels": list(host.labels),
        "version": host.version,
        "boundary": host.boundary,
        "seen_seconds": round(host.seen_seconds, 1),
        "draining": host.draining,
    }
