"""Text as PostgreSQL can hold it: a row may hold NUL, which PostgreSQL's text can't, so that it is escaped.

The escape is U+0001: NUL is U+0001 and `0`, and U+0001 itself, which is as rare, is U+0001 and `1`.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_ESCAPES = re.compile(rb"\\(?:u000([01])|.)", re.DOTALL)  # JSON's: `\\u0000` is a backslash and five characters
_READ = re.compile("\1([01])")
_NUL = "\0"
_MARK = "\1"
_KEPT_NUL, _KEPT_MARK = (_MARK + str(ord(each)) for each in (_NUL, _MARK))


def to_json(value: Any) -> str:
    """A value as JSON, its texts escaped."""
    data = _encode(value)
    if b"\\u0000" in data or b"\\u0001" in data:
        data = _ESCAPES.sub(lambda found: b"\\u0001" + found[1] if found[1] else found[0], data)
    return data.decode("ascii" if data.isascii() else "utf-8")


def to_column(text: str) -> str:
    """A text, escaped."""
    if _NUL in text or _MARK in text:
        return text.replace(_MARK, _KEPT_MARK).replace(_NUL, _KEPT_NUL)
    return text


def from_column(value: Any) -> Any:
    """A column's value as it was written."""
    if type(value) is str and _MARK in value:
        return _READ.sub(lambda found: chr(int(found[1])), value)
    return value
