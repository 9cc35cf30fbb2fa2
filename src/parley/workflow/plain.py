"""The values of a workflow as JSON, and back: what its events and its slots on the bus hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
Reader = Callable[[Any], Any]


def plain(value: Any) -> Any:
    """A value as JSON has it: a dataclass is an object without what is as it is by default."""
    if value is None or isinstance(value, str | int | float):
        return value
    if is_dataclass(value):
        return {
            each.name: plain(getattr(value, each.name))
            for each in fields(value)
            if each.default != getattr(value, each.name) or each.name in ("name", "status")
        }
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value]


def read(kind: type[T], value: Any) -> T:
    """The value of a kind that `plain` made this of. ValueError, TypeError or KeyError if it did not."""
    found: T = _reader(cast("Any", kind))(value)
    return found


@cache
def _reader(kind: Any) -> Reader:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        some = _reader(next(option for option in inner if option is not NoneType))
        return lambda value: None if value is None else some(value)
    if origin is tuple:
        if len(inner) == 2 and inner[1] is Ellipsis:  # noqa: PLR2004 - tuple[X, ...]
            each = _reader(inner[0])
            return lambda value: tuple(each(item) for item in value)
        readers = [_reader(item) for item in inner]
        return lambda value: tuple(one(item) for one, item in zip(readers, value, strict=True))
    if isinstance(kind, type) and is_dataclass(kind):
        return _object(kind)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return kind
    return lambda value: _checked(kind, value)


def _object(kind: type[Any]) -> Reader:
    hints = get_type_hints(kind)
    names = {each.name: _reader(hints[each.name]) for each in fields(kind)}
    return lambda value: kind(**{name: names[name](item) for name, item in value.items()})


def _checked(kind: Any, value: Any) -> Any:
    if kind is float and type(value) is int:
        return value
    if type(value) is not kind:
        raise TypeError(f"{value!r:.60} is no {kind.__name__}")
    return value
