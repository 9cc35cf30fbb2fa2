"""The hash chain: each transaction's head covers every row of it and the head before."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256

from parley.ports import InputRow, JobRow, MessageRow, StepRow

DIGEST_BYTES = 4


def origin(row: JobRow) -> str:
    """What the first step says of the job's row (JSON), so that the chain covers what no rule knows of."""
    settings = sha256(row.settings.encode("utf-8", "surrogatepass")).hexdigest()
    said = {"decider": row.decider, "created": float(row.created), "agent": row.agent, "settings": settings}
    return json.dumps(said, ensure_ascii=False, separators=(",", ":"))


def link(
    head: str,
    transaction: int,
    time: float,
    epoch: int,
    steps: Sequence[StepRow],
    messages: Iterable[MessageRow],
    taken: Iterable[InputRow] = (),
    *,
    digested: bool = True,
) -> tuple[str, str]:
    """The head after a transaction, and its digests. Any change to any column of any row gives another head.

    An input is covered from the moment that a transaction takes it, with what was noted of it.

    Texts that somebody else chose go in with their lengths, so that nothing can be moved from one
    column to the next unseen.

    The digests say how the hash stands after the transaction's own columns and after each row: the first that
    differs names the row that was changed. Transactions of the first two schemas have none.
    """
    rows = [
        f"\ns {s.number} {s.transaction} {s.rule} {s.time!r} {len(s.who)} {len(s.at)} {len(s.choice)}"
        f" {len(s.consumed)} {len(s.produced)} {len(s.extra)}"
        f" {s.who}{s.at}{s.choice}{s.consumed}{s.produced}{s.extra}"
        for s in steps
    ]
    rows += [
        f"\nm {m.number} {m.transaction} {m.seq} {m.time!r} {len(m.sender)} {len(m.sender_thread)} {len(m.agent)}"
        f" {len(m.thread)} {len(m.key)} {len(m.body)} {len(m.meta)}"
        f" {m.sender}{m.sender_thread}{m.agent}{m.thread}{m.key}{m.body}{m.meta}"
        for m in messages
    ]
    rows += [
        f"\ni {i.number} {i.taken} {i.time!r} {len(i.kind)} {len(i.key)} {len(i.by)} {len(i.body)} {len(i.note)}"
        f" {i.kind}{i.key}{i.by}{i.body}{i.note}"
        for i in taken
    ]
    covered = sha256(f"{head} {transaction} {time!r} {epoch}".encode())
    if not digested:
        covered.update("".join(rows).encode("utf-8", "surrogatepass"))
        return covered.hexdigest(), ""
    stands = [covered.digest()[:DIGEST_BYTES]]
    for row in rows:
        covered.update(row.encode("utf-8", "surrogatepass"))
        stands.append(covered.digest()[:DIGEST_BYTES])
    digests = b"".join(stands).hex()
    covered.update(digests.encode())
    return covered.hexdigest(), digests


def parts(digests: str) -> list[str]:
    """The digests one by one: the transaction's own, then those of its rows."""
    width = 2 * DIGEST_BYTES
    return [digests[start : start + width] for start in range(0, len(digests), width)]
