"""The signatures of inputs, made with the bus's secret: one that another program wrote is known by it.

It imports little: `parley ls` checks the answers that wait with it.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from hmac import compare_digest
from typing import NamedTuple, Protocol

from parley.bus.key_files import Key


class Signable(Protocol):
    """An input, as far as its signature covers it."""

    @property
    def job(self) -> str:
        """The job that it was left for."""

    @property
    def kind(self) -> str:
        """What it asks for."""

    @property
    def key(self) -> str:
        """What makes it unique in its job."""

    @property
    def time(self) -> float:
        """When it was left."""

    @property
    def by(self) -> str:
        """In whose name it was left."""

    @property
    def body(self) -> str:
        """What it says."""


class LeftInput(NamedTuple):
    """An input as a process leaves it. A tuple, since the light commands that leave one import no Struct."""

    job: str
    kind: str
    key: str
    time: float
    by: str
    body: str
    signature: str = ""


def sign_input(secret: bytes, row: Signable) -> str:
    """The signature of an input."""
    said = json.dumps([row.job, row.kind, row.key, float(row.time), row.by, row.body])
    return blake2b(said.encode("ascii"), key=secret, digest_size=32, person=b"parley input").hexdigest()


def is_signed(secret: bytes, row: Signable, signature: str) -> bool:
    """Whether an input was signed with this secret, as it is."""
    try:
        return compare_digest(sign_input(secret, row).encode("ascii"), signature.encode("utf-8", "surrogatepass"))
    except (AttributeError, TypeError, ValueError, OverflowError):
        return False  # a row that another program wrote may hold anything


class TakenSigned(Signable, Protocol):
    """An input as the bus has it."""

    @property
    def number(self) -> int:
        """Its number."""

    @property
    def taken(self) -> int:
        """The transaction that took it, or 0."""

    @property
    def signature(self) -> str:
        """What it was signed with."""


def is_authentic(key: Key | None, row: TakenSigned) -> bool | None:
    """Whether a process with the bus's key left the input; None where that can't be told any more."""
    if key is None:
        return None
    if is_signed(key.secret, row, row.signature):
        return True
    if not row.taken or row.number > key.taken_in:
        return False
    # The record was adopted with it, and its head is sealed since: it was checked then, or could not be.
    return None if row.number <= key.unknown else True
