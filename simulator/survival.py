"""What survives a crash: all that was committed, and every row as it was. The names are those of the invariants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from parley.bus.rows import Loaded
from parley.bus.slots import holds_molecule
from parley.bus.store import Store
from parley.protocol.codec import decode_molecule
from parley.protocol.molecules import Molecule
from parley.protocol.soup import Soup


@dataclass(frozen=True)
class Settled:
    """A job with nothing left to commit: as its owner had it, or as the bus did."""

    transaction: int
    molecules: tuple[Molecule, ...]


def settled_in(loaded: Loaded) -> Settled:
    """A job as the bus has it."""
    number = loaded.transaction.number if loaded.transaction is not None else 0
    bodies = (body for slot, body in loaded.molecules.items() if holds_molecule(slot))
    return Settled(number, tuple(decode_molecule(body) for body in bodies))


def bus_durability(before: Settled | None, now: Settled) -> str:
    """What the bus has lost of what was committed; empty: nothing. A later commit may have changed the soup since."""
    if before is None or now.transaction > before.transaction:
        return ""
    if now.transaction < before.transaction:
        return f"bus_durability: transaction {before.transaction} was committed, and the bus ends at {now.transaction}"
    was, there = Soup(before.molecules), Soup(now.molecules)
    lost = [molecule for molecule in was if molecule not in there]
    more = [molecule for molecule in there if molecule not in was]
    if lost or more:
        return f"bus_durability: after transaction {now.transaction} {lost} is lost, and {more} is there instead"
    return ""


@dataclass(frozen=True)
class Rows:
    """All rows of a job that are never changed."""

    steps: Sequence[Any]
    messages: Sequence[Any]
    transactions: Sequence[Any]


def rows_of(store: Store, job: str) -> Rows:
    """The rows as they are now."""
    return Rows(list(store.steps(job)), list(store.messages(job)), list(store.transactions(job)))


def audit_append_only(before: Rows | None, now: Rows) -> str:
    """Which row of before is no more as it was; empty: none."""
    for table in ("steps", "messages", "transactions") if before is not None else ():
        was, there = getattr(before, table), getattr(now, table)
        for number, row in enumerate(was):
            if number >= len(there) or there[number] != row:
                return f"audit_append_only: row {number + 1} of {table} was {row}, and is another"
    return ""
