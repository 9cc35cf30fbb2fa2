"""The one codec of what rows hold beside their columns: typed values to JSON text, and back.

What can't be read is no crash: a row is another program's to change, and `Unreadable` says in one line what is wrong.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

from parley.base.text import mended

T = TypeVar("T")

JSON = msgspec.json.Encoder()


class Unreadable(ValueError):
    """A text on the bus is not what its column holds."""


def encode(value: Any) -> str:
    """A value as JSON on one line."""
    try:
        return JSON.encode(value).decode()
    except UnicodeEncodeError:  # a name of a file may hold half of a surrogate pair
        return mended(json.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(",", ":")))


def decode(text: str, kind: type[T]) -> T:
    """The value that a text holds. Unreadable if it holds another."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise Unreadable(" ".join(str(error).split())) from error
