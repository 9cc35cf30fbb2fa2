"""Puts together what runs turns on other hosts, where the user's own settings name Temporal and a git remote."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing, suppress

from parley.actions.leave import leave
from parley.bus.key_files import Key
from parley.bus.postgres.postgres_schema import board_of, schema_of
from parley.bus.postgres.server_address import Address
from parley.bus.rows import Duplicate
from parley.cli import CommandError, home_bus
from parley.cli.common import Workplace
from parley.engine.values.human_inputs import HostLostInput
from parley.hosts.board_address import board_connect
from parley.hosts.mirror.git_remote import Remote
from parley.hosts.mirror.place_mirror import PlaceMirror
from parley.hosts.placed_turns import LostTurn, PlacedTurns
from parley.hosts.placer import Placer
from parley.hosts.temporal_link import TemporalAddress
from parley.machine.process_tags import MARK, gits_mark
from parley.ports.turns import Order
from parley.protocol.molecules import ORCHESTRATOR
from parley.sandbox import Boundary
from parley.settings.schema import HostsSettings, Settings

API_KEY_VARIABLE = "PARLEY_TEMPORAL_API_KEY"


def placed_turns(
    place: Workplace, settings: Settings, boundary: Boundary, key: Key, address: Address, report: Callable[[str], None]
) -> PlacedTurns:
    """The turns of a home whose bus is on a server, run on other hosts."""
    hosts, schema = settings.hosts, board_of(schema_of(key.id))
    mirror = PlaceMirror(
        place.home,
        remote_of(hosts),
        bus=key.id,
        limit=settings.workspace.quota_mb << 20,
        files=settings.workspace.files,
        setup=settings.workspace.setup,
        hand_over=boundary.hand_over,
        mark=lambda job: {MARK: gits_mark(job)},
        tell=report,
    )

    def label_of(order: Order) -> str:
        return hosts.labels.get(order.agent, "")

    return PlacedTurns(
        board_connect(address, schema),
        schema,
        Placer(temporal_of(hosts)),
        mirror,
        roles=hosts.roles,
        lost_seconds=hosts.lost_seconds,
        report=report,
        lost=lambda turn: record_lost(place, turn, report),
        label_of=label_of,
    )


def record_lost(place: Workplace, turn: LostTurn, report: Callable[[str], None]) -> None:
    """Put it on the bus that a host was lost before a turn could be ended there: the job's owner takes it from there.

    By a store of its own: the owner's hears of what others write, and may be in the middle of a transaction.
    """
    job = turn.key.job
    given = HostLostInput(turn=turn.key.turn, agent=turn.agent, thread=turn.thread, host=turn.host, why=turn.why)
    report(f"{job}: {given.words}")
    with closing(home_bus.open_store(place.home)) as store, suppress(Duplicate):
        leave(store, job, f"{HostLostInput.kind}:{turn.key.turn}", given, by=ORCHESTRATOR)


def remote_of(hosts: HostsSettings) -> Remote:
    """The git remote that carries files between hosts."""
    if not hosts.remote:
        raise CommandError("turns run on other hosts ([hosts] temporal), and no git remote carries their files: set "
                           '[hosts] remote = "ssh://…" in your own settings')  # fmt: skip
    return Remote(hosts.remote, hosts.remote_ca)


def temporal_of(hosts: HostsSettings) -> TemporalAddress:
    """Where Temporal is."""
    if not hosts.temporal:
        raise CommandError('where is Temporal? set [hosts] temporal = "HOST:7233" in your own settings')
    return TemporalAddress(
        address=hosts.temporal,
        namespace=hosts.namespace,
        ca=hosts.temporal_ca,
        certificate=hosts.temporal_certificate,
        key=hosts.temporal_key,
        api_key=os.environ.get(API_KEY_VARIABLE, ""),
    )
