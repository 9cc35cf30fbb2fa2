"""JSON as a tree of nodes, read strictly.

Refused besides what is no JSON: what is nested too deep or has too many values; keys given twice; numbers that are not
finite, and integers beyond 64 bits; NUL and halves of surrogate pairs, also where an escape makes them.
"""

from __future__ import annotations

import json
import re

from parley.base.documents.node import JSON, MAX_DEPTH, MAX_NODES, SHOWN, Entries, Items, Node, Scalar, Source
from parley.base.text import NUMBERS, BadText, cut

_SCALARS = json.JSONDecoder(**NUMBERS)
_BLANK = re.compile(r"[ \t\n\r]*")
_COLON = re.compile(r"[ \t\n\r]*:[ \t\n\r]*")
_NEXT = re.compile(r"[ \t\n\r]*([,\]}])[ \t\n\r]*")
_PLAIN_TEXT = re.compile(r'"([^"\\\x00-\x1f\ud800-\udfff]*)"')  # most texts: no escapes, nothing to refuse


def read_json(text: str, file: str, *, deepest: int = MAX_DEPTH, most: int = MAX_NODES, rest: bool = False) -> Node:
    """The value of a text. `rest`: the text behind the value is not looked at."""
    text = text.removeprefix("\ufeff")  # a mark that some editors put first
    source = Source(file, text, JSON)
    scan = _Scan(source, deepest, most)
    node, end = scan.node(scan.skip(0), 0)
    end = scan.skip(end)
    if end < len(text) and not rest:
        raise source.error(end, "this is not JSON (something stands behind the value)", "remove it")
    return node


class _Scan:
    """Reads a value at an index, and gives its node with the index behind it.

    Lists and objects are read here, to know the place of each part; texts and numbers by the standard library.
    """

    def __init__(self, source: Source, deepest: int, most: int) -> None:
        self.source = source
        self.text = source.text
        self.deepest = deepest
        self.most = most
        self.count = 0

    def skip(self, at: int) -> int:
        """The index behind what is blank."""
        found = _BLANK.match(self.text, at)
        return found.end() if found else at

    def node(self, at: int, depth: int) -> tuple[Node, int]:
        self.count += 1
        if self.count > self.most:
            raise self.source.error(at, f"this has more than {self.most} values", "make it smaller")
        mark = self.text[at : at + 1]
        if mark in ("[", "{") and depth >= self.deepest:
            raise self.source.error(at, f"nested deeper than {self.deepest} levels", "make it flatter")
        if mark == "[":
            return self.items(at, depth + 1)
        if mark == "{":
            return self.entries(at, depth + 1)
        return self.scalar(at)

    def scalar(self, at: int) -> tuple[Scalar, int]:
        if found := _PLAIN_TEXT.match(self.text, at):
            return Scalar(self.source, at, found[1]), found.end()
        try:
            value, end = _SCALARS.raw_decode(self.text, at)
        except json.JSONDecodeError as error:
            raise self.source.error(error.pos, f"this is not JSON ({error.msg})", "correct it here") from None
        except BadText as bad:
            raise self.source.error(at, str(bad), bad.remedy) from None
        if isinstance(value, str):
            self.source.check(value, at)
        return Scalar(self.source, at, value), end

    def items(self, begin: int, depth: int) -> tuple[Items, int]:
        nodes: list[Node] = []
        at = self.skip(begin + 1)
        if self.text[at : at + 1] == "]":
            return Items(self.source, begin, ()), at + 1
        while True:
            node, at = self.node(at, depth)
            nodes.append(node)
            at, more = self.comma(at, "]")
            if not more:
                return Items(self.source, begin, tuple(nodes)), at

    def entries(self, begin: int, depth: int) -> tuple[Entries, int]:
        pairs: dict[str, tuple[Scalar, Node]] = {}
        at = self.skip(begin + 1)
        if self.text[at : at + 1] == "}":
            return Entries(self.source, begin, ()), at + 1
        while True:
            key, at = self.key(at)
            if key.value in pairs:
                problem = f"the key {json.dumps(cut(key.value, SHOWN))} is given twice in one object"
                raise key.error(problem, "leave one of them out", "duplicate-key")
            value, at = self.node(at, depth)
            pairs[key.value] = (key, value)
            at, more = self.comma(at, "}")
            if not more:
                return Entries(self.source, begin, tuple(pairs.values())), at

    def key(self, at: int) -> tuple[Scalar, int]:
        """A key, with the index of its value."""
        if self.text[at : at + 1] != '"':
            raise self.source.error(at, "this is not JSON (a key in double quotes must stand here)", "correct it here")
        key, at = self.scalar(at)
        colon = _COLON.match(self.text, at)
        if colon is None:
            raise self.source.error(self.skip(at), "this is not JSON (a colon must stand here)", "correct it here")
        return key, colon.end()

    def comma(self, at: int, close: str) -> tuple[int, bool]:
        """The index of the next part, or the one behind the closing mark; and whether there is a next part."""
        found = _NEXT.match(self.text, at)
        if found is None or found[1] not in (",", close):
            problem = f"this is not JSON (a comma or {close} must stand here)"
            raise self.source.error(self.skip(at), problem, "correct it here")
        return found.end(), found[1] == ","
