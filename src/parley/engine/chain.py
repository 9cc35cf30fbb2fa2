"""The hash chain: each transaction's head covers every row of it and the head before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

from parley.ports import MessageRow, StepRow



def head_after(
    head: str,
    transaction: int,
    time: float,
    epoch: int,
    steps: Sequence[StepRow],
    messages: Iterable[MessageRow],
) -> str:
    """The head after a transaction. Any change to any column of any row gives another.

    Texts that somebody else chose go in with their lengths, so that nothing can be moved from one
    column to the next unseen.
    """
    rows = [f"{head} {transaction} {time!r} {epoch}"]
    rows += [
        f"s {s.number} {s.transaction} {s.rule} {s.time!r} {len(s.who)} {len(s.at)} {len(s.choice)}"
        f" {len(s.consumed)} {len(s.produced)} {len(s.extra)}"
        f" {s.who}{s.at}{s.choice}{s.consumed}{s.produced}{s.extra}"
        for s in steps
    ]
    rows += [
        f"m {m.number} {m.transaction} {m.seq} {m.time!r} {len(m.sender)} {len(m.sender_thread)} {len(m.agent)}"
        f" {len(m.thread)} {len(m.key)} {len(m.body)} {len(m.meta)}"
        f" {m.sender}{m.sender_thread}{m.agent}{m.thread}{m.key}{m.body}{m.meta}"
        for m in messages
    ]
    return sha256("\n".join(rows).encode("utf-8", "surrogatepass")).hexdigest()
