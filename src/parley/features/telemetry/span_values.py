"""Spans and measurements as plain values, and their ids: no package of OpenTelemetry is needed to make them.

Ids are derived from what the bus names: the same job gives the same trace and the same spans, whichever process reads
its rows, and however often.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from msgspec import Struct

from parley.bus.rows import JobRow

Value = str | int | float | bool


class SpanValue(Struct, frozen=True, kw_only=True):
    """One span that is over."""

    trace: int
    id: int
    parent: int = 0  # 0: it is the root
    name: str
    began: float
    ended: float
    attributes: Mapping[str, Value]
    failed: bool = False


class Measurement(Struct, frozen=True):
    """One value of a metric that counts or measures."""

    metric: str
    amount: float
    attributes: Mapping[str, Value] = {}


def trace_of(row: JobRow) -> int:
    """The trace of a job: jobs of two repositories may have the same id, but were not made at the same moment."""
    return int.from_bytes(_digest(row.job, repr(row.created))[:16], "big") or 1


def span_of(trace: int, *what: str) -> int:
    """The span of a thing of a job: of its state's visit, a turn, a use of a tool, a wait."""
    return int.from_bytes(_digest(f"{trace:032x}", *what)[:8], "big") or 1


def _digest(*words: str) -> bytes:
    return hashlib.sha256("\0".join(("parley", *words)).encode("utf-8", "surrogatepass")).digest()
