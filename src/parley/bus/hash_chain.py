"""The hash chain: each transaction's head covers every column of its rows, and the head before.

A row is written as a JSON array of its table's name and its columns, in the order of `parley.bus.rows`; its digest is
the SHA-256 of that. A head is the SHA-256 of digests one after another: that of the transaction's own columns, then
those of its steps, its messages and the inputs that it took. A program in docs/audit.md computes a chain anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b, sha256
from types import MappingProxyType
from typing import Any

import msgspec

from parley.bus.rows import InputRow, JobRow, MessageRow, StepRow

DIGEST_BYTES = 4  # of each digest that a transaction keeps: enough to name the row that was changed

RedactedRows = Mapping[tuple[str, int], str]
"""The digests of rows that an export shows without the secrets in them, by table and number."""

_encode = msgspec.json.Encoder().encode
_UNWRITABLE = bytes(32)


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """What a transaction adds to the chain."""

    head: str
    digests: str  # the beginning of each digest, so that a changed row can be named


def link(
    before: str,
    *,
    number: int,
    time: float,
    epoch: int,
    steps: Sequence[StepRow],
    messages: Sequence[MessageRow],
    taken: Sequence[InputRow] = (),
    redacted: RedactedRows = MappingProxyType({}),
) -> Link:
    """Chain a transaction to the head before it. Any change to any column of any row gives another head.

    An input is covered from the moment that a transaction takes it, with what was noted of it. A redacted row can't be
    read: its digest is taken for it.
    """
    rows: list[StepRow | MessageRow | InputRow] = [*steps, *messages, *taken]
    digests = [_digest(("transactions", before, number, time, epoch)), *map(_digest, rows)]
    if redacted:
        for place, row in enumerate(rows, start=1):
            if known := redacted.get((table_of(row), row.number)):
                digests[place] = bytes.fromhex(known)
    head = sha256(b"".join(digests)).hexdigest()
    return Link(head=head, digests=b"".join([digest[:DIGEST_BYTES] for digest in digests]).hex())


def digest_of(row: StepRow | MessageRow | InputRow) -> str:
    """What a head covers of a row."""
    return _digest(row).hex()


def table_of(row: msgspec.Struct) -> str:
    """The name of a row's table, as its digest has it."""
    return str(row.__struct_config__.tag)


def split_digests(digests: str) -> list[str]:
    """The digests one by one: the transaction's own, then those of its rows."""
    width = 2 * DIGEST_BYTES
    return [digests[start : start + width] for start in range(0, len(digests), width)]


def seal_head(secret: bytes, job: str, number: int, head: str) -> str:
    """The signature of a transaction's head: a program without the secret can't write a record of its own."""
    said = f"{job} {number} {head}".encode("utf-8", "surrogatepass")  # neither of the first two holds a blank
    return blake2b(said, key=secret, digest_size=32, person=b"parley head").hexdigest()


class JobOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """What the first step says of the job's row, so that the chain covers what no rule knows of."""

    decider: str
    created: float
    agent: str
    settings: str  # their digest


def origin(row: JobRow) -> JobOrigin:
    """What the first step has to say of a job's row."""
    settings = sha256(row.settings.encode("utf-8", "surrogatepass")).hexdigest()
    return JobOrigin(decider=row.decider, created=float(row.created), agent=row.agent, settings=settings)


def _digest(row: Any) -> bytes:
    try:
        return sha256(_encode(row)).digest()
    except UnicodeEncodeError:
        return _UNWRITABLE  # no bus has ever held a lone surrogate: another program put this row into an export
