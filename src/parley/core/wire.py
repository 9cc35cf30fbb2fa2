"""Molecules and choices as JSON-able values, and back. What a step's row and a derived row hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from enum import StrEnum
from json.encoder import encode_basestring as quote
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from parley.core import rule, states, terms
from parley.core.errors import ProtocolError

_CLASSES: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        *(
            getattr(terms, name)
            for name in (
                "Idle",
                "Run",
                "Send",
                "Mailbox",
                "Parent",
                "AskQuestion",
                "Proxy",
                "AskHuman",
                "Interrupt",
                "Terminate",
                "Charter",
                "Surface",
                "Tombstone",
                "Hold",
                "Crashed",
                "Tally",
                "Assertion",
                "Verdict",
                "Deliver",
                "Close",
                "Question",
                "Role",
            )
        ),
        *(
            getattr(rule, name)
            for name in ("Broadcast", "Asking", "Answer", "Ending", "Opening", "Passage", "Enrolment")
        ),
        states.Record,
        states.Entry,
    )
}
TERM_NAMES = frozenset(_CLASSES)
_NAMES: dict[type[Any], tuple[str, tuple[str, ...]]] = {
    cls: (name, tuple(field.name for field in fields(cls))) for name, cls in _CLASSES.items()
}


def encode(value: Any) -> Any:
    """A term as a JSON-able value: an object of one key for a dataclass, arrays for the rest."""
    if value is None or isinstance(value, str | int | float):
        return value
    named = _NAMES.get(type(value))
    if named is not None:
        name, attributes = named
        return {name: [encode(getattr(value, attribute)) for attribute in attributes]}
    if isinstance(value, frozenset):
        return sorted(value)
    return [encode(item) for item in value]


def text(value: Any) -> str:
    """A term as JSON text: to the letter what `encode` gives, without blanks, all Unicode as it is."""
    kind = type(value)
    if kind is str:
        return quote(value)
    known = _WRITTEN.get(kind)
    if known is not None:
        head, words, read = known
        items = read(value)
        parts = map(quote, items) if words else [quote(item) if type(item) is str else text(item) for item in items]
        return f"{head}{','.join(parts)}]}}"
    if kind is tuple:
        return f"[{','.join(map(text, value))}]" if value else "[]"
    if value is None:
        return "null"
    if kind is int:
        return repr(value)
    return json.dumps(encode(value), ensure_ascii=False, separators=(",", ":"))


def _reader(attributes: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    return attrgetter(*attributes) if attributes[1:] else lambda value: (getattr(value, attributes[0]),)


_WRITTEN = {
    cls: (f'{{"{name}":[', set(get_type_hints(cls).values()) == {str}, _reader(attributes))
    for cls, (name, attributes) in _NAMES.items()
}  # how each begins, whether all it has is words, and what reads it

Decoder = Callable[[Any], Any]


def _decoder(hint: Any) -> Decoder:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        options = [option for option in get_args(hint) if option is not NoneType]
        enums = [option for option in options if isinstance(option, type) and issubclass(option, StrEnum)]
        if enums:
            return lambda value: None if value is None else enums[0](value)
        return decode
    if origin is tuple:
        inner = get_args(hint)
        if len(inner) == 2 and inner[1] is Ellipsis:  # noqa: PLR2004 - tuple[X, ...]
            each = _decoder(inner[0])
            return lambda value: tuple(each(item) for item in value)
        decoders = [_decoder(item) for item in inner]
        return lambda value: tuple(one(item) for one, item in zip(decoders, value, strict=True))
    if origin is frozenset:
        return frozenset
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint
    if hint in (str, int, float, bool):
        return lambda value: _plain(value, hint)
    return decode


def _plain(value: Any, hint: type[Any]) -> Any:
    if not isinstance(value, int if hint is bool else (int, float) if hint is float else hint):
        raise ProtocolError(f"expected {hint.__name__}, got {value!r}")
    return value


def decode(value: Any) -> Any:
    """The term that `encode` made the value from."""
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise ProtocolError(f"not a term: {value!r}")
    ((name, arguments),) = value.items()
    if name not in _DECODERS or not isinstance(arguments, list):
        raise ProtocolError(f"not a term: {name!r}")
    cls, decoders = _DECODERS[name]
    if len(arguments) != len(decoders):
        raise ProtocolError(f"{name} takes {len(decoders)} fields, not {len(arguments)}")
    try:
        return cls(*(one(argument) for one, argument in zip(decoders, arguments, strict=True)))
    except (TypeError, ValueError) as error:
        raise ProtocolError(f"not a {name}: {error}") from error


_DECODERS: dict[str, tuple[type[Any], tuple[Decoder, ...]]] = {
    name: (cls, tuple(_decoder(get_type_hints(cls)[field.name]) for field in fields(cls)))
    for name, cls in _CLASSES.items()
}
