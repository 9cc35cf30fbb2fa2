"""The hash chain: each transaction's head covers every row of it and the head before."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from parley.ports import InputRow, JobRow, MessageRow, StepRow

DIGEST_BYTES = 4


def origin(row: JobRow) -> str:
    """What the first step says of the job's row (JSON), so that the chain covers what no rule knows of."""
    settings = sha256(row.settings.encode("utf-8", "surrogatepass")).hexdigest()
    said = {"decider": row.decider, "created": float(row.created), "agent": row.agent, "settings": settings}
    return json.dumps(said, ensure_ascii=False, separators=(",", ":"))


Sealed = Mapping[tuple[str, int], str]
"""The digests of rows that are shown without the secrets in them, by table and number."""


def link(
    head: str,
    transaction: int,
    time: object,
    epoch: int,
    steps: Sequence[StepRow],
    messages: Sequence[MessageRow],
    taken: Sequence[InputRow] = (),
    *,
    digested: bool = True,
    sealed: Sealed = MappingProxyType({}),
) -> tuple[str, str]:
    """The head after a transaction, and its digests. Any change to any column of any row gives another head.

    An input is covered from the moment that a transaction takes it, with what was noted of it.

    The head covers the digest of each row, so that a row can be left unread and its digest taken for it. What is
    kept of each, and of the transaction's own columns, is enough to name the row that was changed. Transactions of
    the first two schemas have none: their heads cover the rows themselves.
    """
    moments: dict[int, str] = {}
    rows = [_step(row, moments) for row in steps]
    rows += [_message(row, moments) for row in messages]
    rows += [_input(row) for row in taken]
    moment = repr(time)
    own = f"{head} {transaction} {moment} {epoch}".encode()
    if not digested:
        return sha256(own + "".join(rows).encode("utf-8", "surrogatepass")).hexdigest(), ""
    each = [sha256(row.encode("utf-8", "surrogatepass")).digest() for row in rows]
    if sealed:
        names = [("steps", row.number) for row in steps]
        names += [("messages", row.number) for row in messages]
        names += [("inputs", row.number) for row in taken]
        each = [bytes.fromhex(sealed[name]) if name in sealed else made for name, made in zip(names, each, strict=True)]
    each.insert(0, sha256(own).digest())
    return sha256(b"".join(each)).hexdigest(), b"".join([digest[:DIGEST_BYTES] for digest in each]).hex()


def digest_of(row: StepRow | MessageRow | InputRow) -> str:
    """What a head covers of a row."""
    text = (
        _step(row, {})
        if isinstance(row, StepRow)
        else _message(row, {})
        if isinstance(row, MessageRow)
        else _input(row)
    )
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# Texts that somebody else chose go in with their lengths: nothing moves from one column to the next unseen.
# A turn's rows share one time, and to write it out takes as long as to hash a row: `moments` has it by its identity,
# since numbers that are equal may be written differently. Compiled, a float that is declared has no identity and an int
# becomes one: so no time is declared here.


def _step(row: tuple[Any, ...], moments: dict[int, str]) -> str:
    number, transaction, rule, who, time, at, choice, consumed, produced, extra = row
    moment = moments.get(id(time)) or moments.setdefault(id(time), repr(time))
    return (
        f"\ns {number} {transaction} {rule} {moment} {len(who)} {len(at)} {len(choice)}"
        f" {len(consumed)} {len(produced)} {len(extra)}"
        f" {who}{at}{choice}{consumed}{produced}{extra}"
    )


def _message(row: tuple[Any, ...], moments: dict[int, str]) -> str:
    number, transaction, sender, sender_thread, agent, thread, seq, key, time, body, meta, kind = row
    moment = moments.get(id(time)) or moments.setdefault(id(time), repr(time))
    return (
        f"\nm {number} {transaction} {seq} {moment} {len(sender)} {len(sender_thread)} {len(agent)}"
        f" {len(thread)} {len(key)} {len(body)} {len(meta)}"
        f" {sender}{sender_thread}{agent}{thread}{key}{body}{meta}{kind}"
    )


def _input(i: Any) -> str:
    return (
        f"\ni {i.number} {i.taken} {i.time!r} {len(i.kind)} {len(i.key)} {len(i.by)} {len(i.body)} {len(i.note)}"
        f" {i.kind}{i.key}{i.by}{i.body}{i.note}{i.signature}"
    )


def parts(digests: str) -> list[str]:
    """The digests one by one: the transaction's own, then those of its rows."""
    width = 2 * DIGEST_BYTES
    return [digests[start : start + width] for start in range(0, len(digests), width)]
