"""The bus of a home, whichever store keeps it: the one place where commands open it. Light: `parley ls` starts with it.

The home's own file `bus.id` names a key in the user's state folder, and that key says where the bus is: in the home, or
on a PostgreSQL server that the user has named. Its address comes from the user's own settings or environment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import closing
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from parley.bus.glimpses import Glimpse
from parley.bus.key_files import Key
from parley.bus.sqlite import quick_read, safe_open
from parley.cli import FAILED, CommandError
from parley.cli.common import own_settings

if TYPE_CHECKING:
    from parley.bus.postgres.postgres_store import PostgresStore
    from parley.bus.postgres.server_address import Address
    from parley.bus.store import HomeStore, TableStore

MISSING = "the bus is on a PostgreSQL server, and psycopg is missing: install Parley with the extra `postgres`"


def exists(home: Path) -> bool:
    """Whether there is a bus to open. A home that is a link or another user's is refused."""
    try:
        return safe_open.exists(home)
    except safe_open.KeyRefused as refused:
        raise _refusal(refused) from refused


def open_store(home: Path, *, durability: str = "full", relieve: Callable[[], None] | None = None) -> HomeStore:
    """Open the bus of a home; one is made where there is none."""
    key = on_server(home)
    if key is not None:
        return open_on_server(home, key, durability=durability)
    store: HomeStore = import_module("parley.bus.sqlite.sqlite_store").SqliteStore(
        home, durability=durability, relieve=relieve
    )
    return store


def on_server(home: Path) -> Key | None:
    """The key of a home's bus, if it is on a PostgreSQL server; the home was looked at, and is this user's."""
    try:
        if not safe_open.is_on_server(home):
            return None
        key = safe_open.admit(home)
    except safe_open.KeyRefused as refused:
        raise _refusal(refused) from refused
    return key if key is not None and key.server else None


def _refusal(refused: safe_open.KeyRefused) -> Exception:
    error: Exception = import_module("parley.bus.rows").BusError(str(refused))  # seldom needed, and takes a while
    return error


def open_on_server(home: Path, key: Key, *, durability: str = "full", idle_seconds: int | None = None) -> PostgresStore:
    """Open a bus on a server."""
    address = address_of(key.server)
    stores = import_module("parley.bus.postgres.postgres_store")
    more = {} if idle_seconds is None else {"idle_seconds": idle_seconds}
    store: PostgresStore = stores.PostgresStore(
        home, key, address, durability=durability, identity=home / safe_open.IDENTITY, **more
    )
    return store


def address_of(server: str) -> Address:
    """The address of a server, from the user's own settings or environment."""
    try:
        addresses = import_module("parley.bus.postgres.server_address")
    except ImportError as error:
        raise CommandError(MISSING, FAILED) from error
    own = import_module("parley.settings.load").read_own_servers(own_settings())
    address: Address = addresses.address_of(server, own, os.environ)
    return address


def open_bus_to_copy(home: Path) -> TableStore:
    """Open the bus of a home with what is known of its kind and its tables."""
    key = on_server(home)
    if key is not None:
        return open_on_server(home, key)
    store: TableStore = import_module("parley.bus.sqlite.sqlite_store").SqliteStore(home)
    return store


def postgres_copy() -> ModuleType:
    """The module that copies to and from a server."""
    return import_module("parley.bus.postgres.postgres_copy")


def is_put_aside(key: Key) -> bool:
    """Whether a bus on a server was put aside."""
    address = address_of(key.server)
    found: bool = postgres_copy().was_put_aside(address, key)
    return found


def glance(home: Path) -> list[Glimpse]:
    """Every job as a listing shows it, oldest first. An error if that is not so simple, or the bus is refused."""
    key = on_server(home)
    if key is None:
        return quick_read.glance(home)
    with closing(open_on_server(home, key)) as store:
        return store.glimpses()


def owned_jobs(home: Path, jobs: Iterable[str]) -> set[str]:
    """Those of some jobs that a process is seen to own: a lock that can't be read hides no other job."""
    key = on_server(home)
    if key is None:
        return {job for job in jobs if _is_locked(home, job)}
    with closing(open_on_server(home, key)) as store:
        return store.living(set(jobs))


def _is_locked(home: Path, job: str) -> bool:
    try:
        return quick_read.is_owned(home, job)
    except OSError:
        return False


def is_owned(home: Path, job: str) -> bool:
    """Whether a living process owns the job."""
    return quick_read.is_owned(home, job) if on_server(home) is None else bool(owned_jobs(home, [job]))
