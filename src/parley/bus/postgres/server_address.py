"""Where a PostgreSQL server is: told by the user's own settings or environment, never by a file of a repository.

A connection that leaves this machine is encrypted, and the server proves who it is: `sslmode=verify-full`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from parley.bus.rows import BusError

URL_VARIABLE = "PARLEY_BUS_URL"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_LIBPQ = ("PGHOST", "PGHOSTADDR", "PGDATABASE")  # any of these says that libpq's own variables are meant
_SAFE = "verify-full"
# A server or a network that is silently gone is noticed within five seconds: half a lease of an owner. Connecting does
# not wait for ever either.
SILENT_SECONDS = 5.0
_PATIENCE: dict[str, str | int] = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": int(SILENT_SECONDS * 1000),
    "application_name": "parley",
}


class Address(NamedTuple):
    """How a server is reached. It may hold a password, and is never shown."""

    server: str  # the name that the user gave it
    conninfo: str

    def __repr__(self) -> str:
        """Without the address: no error shows it."""
        return f"Address({self.server!r})"


def address_of(server: str, own: Mapping[str, str], environment: Mapping[str, str]) -> Address:
    """The address of a server that the user named; `own`: those in the user's own settings, by name."""
    if NAME.fullmatch(server) is None:
        raise BusError(f"{server!a:.60} can't be a server's name; use letters, digits, dashes and underscores")
    url = environment.get(URL_VARIABLE) or own.get(server)
    if url is None and any(environment.get(name) for name in _LIBPQ):
        url = ""
    if url is None:
        raise BusError(
            f"the bus is on the PostgreSQL server {server!r}, and its address is not known here; put it into your own "
            f'settings, [servers] {server} = "postgresql://…", or into {URL_VARIABLE}'
        )
    try:
        given = {key: str(value) for key, value in conninfo_to_dict(url).items() if value is not None}
    except psycopg.ProgrammingError as error:
        raise _unreadable(server) from error
    if _is_torn(given):
        raise _unreadable(server)
    return Address(server, make_conninfo("", **{**_PATIENCE, **given, **_safety(server, given, environment)}))


def _unreadable(server: str) -> BusError:
    return BusError(
        f"the address of the PostgreSQL server {server!r} can't be read; write it as "
        '"postgresql://USER@HOST/DATABASE", and `/`, `@` and `%` of a password as %2F, %40 and %25'
    )


def _is_torn(given: Mapping[str, str]) -> bool:
    """Whether a part of a password seems to stand where another part should: an error would show it."""
    ports = given.get("port", "").split(",")
    return not all(not port or port.isdecimal() for port in ports) or any(
        "@" in given.get(name, "")[1:]
        for name in ("host", "hostaddr", "dbname")  # a first one: an abstract socket
    )


def _safety(server: str, given: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Demand encryption and proof of identity, unless the server is on this machine."""
    if "service" in given or environment.get("PGSERVICE"):
        raise BusError(
            f"the address of the PostgreSQL server {server!r} names a service, whose file Parley does not read; "
            "write the host itself"
        )
    hosts = (given.get("host") or environment.get("PGHOST") or "").split(",")
    addresses = (given.get("hostaddr") or environment.get("PGHOSTADDR") or "").split(",")
    reached = [address or (hosts[place] if place < len(hosts) else "") for place, address in enumerate(addresses)]
    reached += hosts[len(addresses) :]
    if all(map(_is_here, reached)):
        return {}
    mode = given.get("sslmode") or environment.get("PGSSLMODE") or _SAFE
    if mode != _SAFE:
        raise BusError(
            f"the PostgreSQL server {server!r} is on another machine, and sslmode={mode} does not verify it; "
            f"use sslmode={_SAFE}, with the certificate of its authority as sslrootcert"
        )
    return {"sslmode": _SAFE, "gssencmode": "disable"}


def _is_here(host: str) -> bool:
    """Whether a host is this machine: a Unix socket, or its loopback."""
    if not host or host.startswith(("/", "@")) or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
