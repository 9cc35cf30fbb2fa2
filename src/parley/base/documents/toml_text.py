"""TOML as a tree of nodes: the values are the standard library's, the places come from a scan of the same text.

The scan runs over text that the standard library has accepted, so it only has to tell keys, values and tables apart.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from parley.base.documents.node import MAX_DEPTH, MAX_NODES, TOML, DocumentError, Entries, Items, Node, Scalar, Source
from parley.base.text import INTEGERS

_Path = tuple[str | int, ...]  # keys, and positions in lists

# A string that does not end is matched as far as it goes, so that no text is looked at again and again.
_LINE = (r'"(?:\\.|[^"\\\n])*"?', r"'[^'\n]*'?")
_STRING = "|".join((r'"""(?:\\.|[^\\])*?(?:"""(?!")|\Z)', r"'''.*?(?:'''(?!')|\Z)", *_LINE))
_TOKEN = re.compile(rf"{_STRING}|#[^\n]*|[\[\]{{}}.,=\n]", re.DOTALL)
_VALUE = re.compile(rf"{_STRING}|[^\s,\]}}#][^,\]}}#\n]*", re.DOTALL)
_KEY = re.compile("|".join((*_LINE, r"[A-Za-z0-9_-]+")))
_BLANK = re.compile(r"[ \t]*")
_GAP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def read_toml(text: str, file: str, *, most: int = MAX_NODES) -> Entries:
    """The table that a text is."""
    source = Source(file, text.removeprefix("\ufeff"), TOML)
    _refuse_deep(source)
    try:
        document = tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(source, str(error)) from error
    except (ValueError, RecursionError) as error:  # a number with thousands of digits, or one that is out of range
        raise source.error(0, f"this is not valid TOML ({error})", "correct it") from error
    return _Tree(source, most).table(document, (), 0)


def _syntax_error(source: Source, said: str) -> DocumentError:
    found = _AT.search(said)
    problem = f"this is not valid TOML ({said[: found.start()] if found else said})"
    if found is None or found[1] is None:
        return source.error(len(source.text), problem, "correct it here")
    place = source.place(0)._replace(line=int(found[1]), column=int(found[2]))
    return DocumentError(place, problem, "correct it here", "syntax")


def _refuse_deep(source: Source) -> None:
    """Refuse what is nested too deep before it is parsed: brackets would exhaust the stack, dotted keys the time."""
    depth = dots = 0
    for token in _TOKEN.finditer(source.text):
        mark = token[0]
        if mark == ".":
            dots += 1
        elif mark in ("\n", ",", "="):
            dots = 0
        elif mark in ("[", "{"):
            depth += 1
        elif mark in ("]", "}"):
            depth, dots = depth - 1, 0
        if depth + dots > MAX_DEPTH:
            raise source.error(token.start(), f"nested deeper than {MAX_DEPTH} levels", "make it flatter")


class _Tree:
    """Puts the values of a text and their places together."""

    def __init__(self, source: Source, most: int) -> None:
        self.source = source
        self.places = _Places(source.text)
        self.most = most
        self.count = 0

    def table(self, table: dict[str, Any], path: _Path, at: int) -> Entries:
        pairs = []
        for name, value in table.items():
            key_at, value_at = self.places.found.get((*path, name), (at, at))
            self.source.check(name, key_at)
            pairs.append((Scalar(self.source, key_at, name), self.node(value, (*path, name), value_at)))
        return Entries(self.source, at, tuple(pairs))

    def node(self, value: Any, path: _Path, at: int) -> Node:
        self.count += 1
        if self.count > self.most:
            raise self.source.error(at, f"this has more than {self.most} values", "make it smaller")
        if isinstance(value, dict):
            return self.table(value, path, at)
        if isinstance(value, list):
            places = [self.places.found.get((*path, number), (at, at))[1] for number in range(len(value))]
            nodes = (self.node(item, (*path, number), places[number]) for number, item in enumerate(value))
            return Items(self.source, at, tuple(nodes))
        if isinstance(value, int) and value not in INTEGERS:
            raise self.source.error(at, "this is too large a number", "write a smaller one")
        if isinstance(value, str):
            self.source.check(value, at)
        return Scalar(self.source, at, value)


class _Places:
    """Where each key of a valid TOML text stands, and where its value does. A table stands where its name does."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.found: dict[_Path, tuple[int, int]] = {}
        self.lists: dict[_Path, int] = {}  # lists of tables, each with the number of its tables so far
        table: _Path = ()
        at = self._gap(0)
        while at < len(text):
            if text[at] == "[":
                table, at = self._header(at)
            else:
                at = self._pair(at, table)
            at = self._gap(at)

    def _gap(self, at: int) -> int:
        return _end(_GAP, self.text, at)

    def _header(self, at: int) -> tuple[_Path, int]:
        """`[a.b]` or `[[a.b]]`: the table that it opens, and the index behind it."""
        listed = self.text.startswith("[[", at)
        parts, at = self._keys(at + 1 + listed)
        path: _Path = ()
        for number, (name, key_at) in enumerate(parts, 1):
            path = (*path, name)
            last = number == len(parts)
            if last and not listed:
                self.found[path] = (key_at, key_at)
            self.found.setdefault(path, (key_at, key_at))
            if last and listed:
                self.lists[path] = self.lists.get(path, 0) + 1
            if path in self.lists:
                path = (*path, self.lists[path] - 1)
                self.found.setdefault(path, (key_at, key_at))
        return path, at + 1 + listed

    def _pair(self, at: int, table: _Path) -> int:
        """`a.b = value`: the index behind it."""
        parts, at = self._keys(at)
        path = table
        for name, key_at in parts:
            path = (*path, name)
            self.found.setdefault(path, (key_at, key_at))
        at = _end(_BLANK, self.text, at + 1)
        self.found[path] = (parts[-1][1], at)
        return self._value(at, path)

    def _keys(self, at: int) -> tuple[list[tuple[str, int]], int]:
        """The parts of a dotted key, each with its place, and the index behind them."""
        parts = []
        while True:
            at = _end(_BLANK, self.text, at)
            end = _end(_KEY, self.text, at)
            parts.append((_name(self.text[at:end]), at))
            at = _end(_BLANK, self.text, end)
            if self.text[at : at + 1] != ".":
                return parts, at
            at += 1

    def _value(self, at: int, path: _Path) -> int:
        """A value: the index behind it. The places of all that is in it are noted."""
        mark = self.text[at]
        if mark not in "[{":
            return _end(_VALUE, self.text, at)
        number, at = 0, self._gap(at + 1)
        while self.text[at] not in "]}":
            if mark == "{":
                at = self._pair(at, path)
            else:
                self.found[*path, number] = (at, at)
                at = self._value(at, (*path, number))
                number += 1
            at = self._gap(at)
            if self.text[at] == ",":
                at = self._gap(at + 1)
        return at + 1


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _name(key: str) -> str:
    """The name that a key is, without its quotes."""
    return str(tomllib.loads(f"x = {key}")["x"]) if key[:1] in ('"', "'") else key
