"""Where the board is, as a process finds it: the coordinator beside its bus, a worker by the boards that it may use."""

from __future__ import annotations

from functools import partial

import psycopg

from parley.bus.postgres.postgres_schema import board_of, id_of, schema_of
from parley.bus.postgres.server_address import SILENT_SECONDS, Address
from parley.bus.postgres.server_connection import connect
from parley.bus.rows import BusError
from parley.hosts.board_link import Connect

SHOWN = 4  # boards that are named


def board_connect(address: Address, schema: str, silent_seconds: float = SILENT_SECONDS) -> Connect:
    """How connections to a board are made; `silent_seconds`: as `connect` has it."""
    return partial(connect, address, schema, silent_seconds=silent_seconds)


def boards(address: Address) -> list[str]:
    """The boards on a server that this role may use."""
    try:
        with psycopg.connect(address.conninfo, autocommit=True) as connection:
            found = connection.execute(
                r"SELECT nspname FROM pg_namespace WHERE nspname LIKE 'parley\_%\_board' "
                "AND has_schema_privilege(oid, 'USAGE') ORDER BY nspname"
            ).fetchall()
    except psycopg.Error as error:
        said = (str(error).strip().splitlines() or ["it does not answer"])[0]
        raise BusError(f"the PostgreSQL server {address.server!r} can't be used: {said}") from error
    return [str(name) for (name,) in found]


def chosen_board(address: Address, bus: str = "") -> str:
    """The board of a bus, by the bus's id; without one, the only board that this role may use."""
    found = boards(address)
    if bus:
        wanted = board_of(schema_of(bus))
        if wanted in found:
            return wanted
        raise BusError(
            f"this role may use no board of the bus {bus!r}: a job has to have run there, and [hosts] roles of the "
            "coordinator's user has to name the role"
        )
    if len(found) == 1:
        return found[0]
    if not found:
        raise BusError(
            "there is no board that this role may use: start a job on the coordinator, with [hosts] roles naming it"
        )
    ids = ", ".join(map(id_of, found[:SHOWN]))
    raise BusError(
        f"there are {len(found)} boards; name the bus with --bus: {ids}{', …' if len(found) > SHOWN else ''}"
    )
