"""The hosts of a home, read from the board beside its bus. Imported only where the bus is on a server."""

from __future__ import annotations

from contextlib import closing

from parley.bus.key_files import Key
from parley.bus.postgres.postgres_schema import board_of, schema_of
from parley.cli import home_bus
from parley.cli.common import own_settings
from parley.hosts.board import Board, HostRow
from parley.hosts.board_address import board_connect
from parley.hosts.board_link import BoardLink
from parley.settings import load
from parley.views.host_lines import HostLine


def hosts_of(key: Key) -> list[HostLine]:
    """Every host that has come. The board is made where the user's own settings say that turns run on hosts."""
    schema, settled = board_of(schema_of(key.id)), load.read_own(own_settings(), notify=False).hosts
    with closing(BoardLink(board_connect(home_bus.address_of(key.server), schema))) as link:
        board = Board(link, schema)
        if settled.temporal:
            board.install(settled.lost_seconds, settled.roles)  # so that hosts can come before there is a job
        return [_line(host) for host in board.hosts()] if board.exists() else []


def _line(host: HostRow) -> HostLine:
    return HostLine(
        name=host.name,
        state=_state(host),
        slots=host.slots,
        used=host.used,
        labels=host.labels,
        version=host.version,
        boundary=host.boundary,
        seen_seconds=host.seen_seconds,
    )


def _state(host: HostRow) -> str:
    if host.gone:
        return "ended"
    if not host.lives:
        return "lost"
    return "draining" if host.draining else "alive"
