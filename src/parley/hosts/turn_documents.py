"""Orders, events and replies as JSON texts: what of a turn passes over the board."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace as replace_fields

from parley.hosts.mirror.place_mirror import Shipped
from parley.ports.turns import Called, Ended, Order, Progress, TurnEvent, Waiting

K = TypeVar("K")

MOMENT = 0.001  # seconds: a wait that is over

KINDS: Mapping[str, type[TurnEvent]] = {"called": Called, "progress": Progress, "waiting": Waiting, "ended": Ended}
_NAMES = {kind: name for name, kind in KINDS.items()}


_SURROGATE = re.compile("[\ud800-\udfff]")
MOST_NUMBER = 2**31 - 1  # of a turn's calls
LATEST = 32_503_680_000.0  # the year 3000: no time after it is written out


class NotReadable(Exception):
    """A text on the board is not what it should be: another program wrote it, or another version of Parley."""


class BoardReply(msgspec.Struct, frozen=True):
    """The answer to a call."""

    ok: bool
    text: str
    data: Mapping[str, Any]


class _Event(msgspec.Struct, frozen=True):
    kind: str
    event: msgspec.Raw
    shipped: Shipped | None = None


def order_text(order: Order) -> str:
    """An order. How much room its job has is each host's own to look up."""
    bare = replace_fields(order, site=replace(order.site, room=None))
    return msgspec.json.encode(bare).decode()


def read_order(text: str) -> Order:
    """The same, read."""
    return _read(text, Order)


def event_text(event: TurnEvent, shipped: Shipped | None = None) -> str:
    """An event, and the files that go along with it. How long a turn waits is told, not until when: clocks differ."""
    if isinstance(event, Waiting) and event.until:
        event = replace_fields(event, until=max(MOMENT, event.until - time.time()))
    try:
        body = msgspec.json.encode(event)
    except UnicodeEncodeError:  # JSON can't hold a lone surrogate: the coordinator refuses a NUL in its place, as ever
        body = msgspec.json.encode(_without_surrogates(msgspec.to_builtins(event)))
    return msgspec.json.encode(_Event(_NAMES[type(event)], msgspec.Raw(body), shipped)).decode()


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\0", value)
    if isinstance(value, Mapping):
        return {_without_surrogates(key): _without_surrogates(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(one) for one in value]
    return value


def read_event(text: str, job: str, turn: str) -> tuple[TurnEvent, Shipped | None]:
    """The same, read: of a turn, and of no other."""
    found = _read(text, _Event)
    kind = KINDS.get(found.kind)
    if kind is None:
        raise NotReadable("an event of no known kind")
    event = _read(bytes(found.event).decode(), kind)
    if (event.job, event.turn) != (job, turn):
        raise NotReadable("an event of another turn")
    if isinstance(event, Called) and not 0 <= event.number <= MOST_NUMBER:
        raise NotReadable("a call with no number that a call can have")
    if isinstance(event, Waiting) and event.until > 0:
        event = replace_fields(event, until=min(time.time() + event.until, LATEST))
    return event, found.shipped


def reply_text(reply: BoardReply) -> str:
    """A reply."""
    return msgspec.json.encode(reply).decode()


def read_reply(text: str) -> BoardReply:
    """The same, read."""
    return _read(text, BoardReply)


def shipped_text(shipped: Shipped) -> str:
    """Where pushed files are."""
    return msgspec.json.encode(shipped).decode()


def read_shipped(text: str) -> Shipped:
    """The same, read."""
    return _read(text, Shipped)


def _read(text: str, kind: type[K]) -> K:
    try:
        return msgspec.json.decode(text, type=kind, dec_hook=_no_room)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise NotReadable(f"not a {kind.__name__}: {error}") from error


def _no_room(kind: type[Any], value: Any) -> Any:
    raise msgspec.ValidationError("a host looks itself how much room there is")
