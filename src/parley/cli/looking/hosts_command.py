"""`parley hosts`: the hosts that run turns of this repository's jobs."""

from __future__ import annotations

import argparse

from parley.cli import OK, home_bus
from parley.cli.common import place_of, print_json, safe
from parley.cli.looking.home_hosts import hosts_of

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
    hosts = hosts_of(key)
    if words.json:
        print_json({"bus": key.id, "hosts": [host.document() for host in hosts]})
        return OK
    for host in hosts:
        labels = f"  {', '.join(host.labels)}" if host.labels else ""
        print(safe(f"{host.name:<20} {host.state:<9} {host.room}{labels}"))
        print(safe(f"    Parley {host.version}; seen {host.seen_seconds:.0f} s ago; boundary: {host.boundary}"))
    if not hosts:
        print(f"no host has come yet; on each, run: parley worker --bus {key.id}")
    return OK
