"""Typed values out of a document's nodes. What is wrong is raised at once, or collected: one vocabulary for both."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from parley.base.documents.node import MAX_DEPTH, DocumentError, Entries, Items, Node, Scalar, is_null, quoted
from parley.base.text import INTEGERS
from parley.base.wording import advice, near

MAX_SECONDS = 1e9

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


class Fields:
    """The keys of a mapping, each with the node of its value."""

    def __init__(self, node: Node, what: str) -> None:
        self.node = node
        self.what = what
        self.keys: dict[str, Node] = {}
        self.values: dict[str, Node] = {}

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def __getitem__(self, key: str) -> Node:
        return self.values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def get(self, key: str) -> Node:
        """The value of a key; where it is absent, null, which stands where the mapping does."""
        return self.values.get(key) or Scalar(self.node.source, self.node.index, None)


class Reader:
    """Reads values out of nodes, each with the name (`what`) that an error calls it by. The first error is raised.

    Where a default is given, an absent or empty value is that; where none is, something must stand there.
    """

    def report(self, error: DocumentError) -> None:
        """What is done with an error: here it is raised. Where it is collected, a harmless value stands in for it."""
        raise error

    def wrong(self, node: Node, problem: str, remedy: str, rule: str = "wrong-value") -> None:
        """Report what is wrong at a node."""
        self.report(node.error(problem, remedy, rule))

    def unfit(self, node: Node, what: str, expected: str, remedy: str) -> None:
        """Report a value that is not what it must be."""
        self.wrong(node, f"{what} must be {expected}", remedy)

    def unknown_key(self, key: Node, name: str, what: str, known: Collection[str]) -> None:
        """Report a key that there is not."""
        self.wrong(key, f"unknown key {quoted(name)} in {what}", instead(name, known), "unknown-key")

    def unknown_word(self, node: Node, what: str, word: str, known: Collection[str]) -> None:
        """Report a word that there is not."""
        self.wrong(node, f"unknown {what} {quoted(word)}", instead(word, known))

    def fields(self, node: Node, what: str, known: Collection[str] | None = None, *, optional: bool = False) -> Fields:
        """A mapping's keys and values; `known` are the keys that it may have, None: any."""
        found = Fields(node, what)
        if optional and is_null(node):
            return found
        if not isinstance(node, Entries):
            dialect = node.source.dialect
            self.unfit(node, what, dialect.mapping, dialect.write_mapping)
            return found
        for key, value in node.pairs:
            name = str(key.value)
            if key.fault:
                self.wrong(key, *key.fault, "merge-key")
            elif name in found:
                problem = f"the key {quoted(name)} is given twice in {what}"
                self.wrong(key, problem, "remove one of them", "duplicate-key")
            elif known is not None and name not in known:
                self.unknown_key(key, name, what, known)
            else:
                found.keys[name], found.values[name] = key, value
        return found

    def required(self, fields: Fields, key: str) -> Node:
        """The value of a key that has to be there."""
        if key not in fields:
            self.wrong(fields.node, f"'{key}' is missing in {fields.what}", f"add '{key}: …'", "missing-key")
        return fields.get(key)

    def items(self, node: Node, what: str, *, optional: bool = False, remedy: str = "") -> tuple[Node, ...]:
        """The items of a list."""
        if isinstance(node, Items):
            return node.nodes
        if not (optional and is_null(node)):
            self.unfit(node, what, "a list", remedy or node.source.dialect.write_list)
        return ()

    def text(self, node: Node, what: str, *, default: str | None = None, remedy: str = "") -> str:
        """A text. In YAML it is taken as it is written: `shell: true` is the command and `text: yes` the word."""
        if isinstance(node, Scalar) and not is_null(node):
            if node.written is not None:
                return node.written
            if isinstance(node.value, str):
                return node.value
        if default is None or not is_null(node):
            self.unfit(node, what, "a text", remedy or node.source.dialect.write_text)
        return default or ""

    def filled(self, node: Node, what: str) -> str:
        """A text with something in it."""
        text = self.text(node, what)
        if not text:
            self.wrong(node, f"{what} is empty", "fill it in")
        return text

    def choice(self, node: Node, what: str, known: Collection[str], *, default: str | None = None) -> str:
        """One of the words that are known."""
        if default is not None and is_null(node):
            return default
        word = self.text(node, what)
        if word in known:
            return word
        if isinstance(node, Scalar):
            self.unknown_word(node, what, word, known)
        return default or ""

    def number(self, node: Node, what: str, low: float, high: float) -> int | float:
        """A number within limits, both included."""
        return self._number(node, what, "a number", low, high)

    def integer(self, node: Node, what: str, low: int, high: float) -> int:
        """A whole number within limits, both included."""
        if isinstance(_number_in(node), float):
            self.unfit(node, what, "a whole number", _between(low, high))
            return low
        return int(self._number(node, what, "a whole number", low, high))

    def _number(self, node: Node, what: str, expected: str, low: float, high: float) -> int | float:
        value = _number_in(node)
        if value is not None and low <= value <= high:
            return value
        if isinstance(node, Scalar) and node.fault:
            self.wrong(node, *node.fault)
        else:
            unquoted = ", without quotes" if isinstance(node, Scalar) and isinstance(node.value, str) else ""
            self.unfit(node, what, expected, _between(low, high) + unquoted)
        return low

    def seconds(self, node: Node, what: str) -> float:
        """A number of seconds above 0."""
        value = _number_in(node)
        if value is not None and 0 < value <= MAX_SECONDS:
            return float(value)
        self.unfit(node, what, "a number of seconds", "write one above 0")
        return 0.0

    def flag(self, node: Node, what: str, *, remedy: str = "") -> bool:
        """True or false."""
        if isinstance(node, Scalar) and node.fault:
            self.wrong(node, *node.fault)
        elif isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value
        else:
            self.unfit(node, what, "true or false", remedy or node.source.dialect.write_flag)
        return False

    def value(self, node: Node, depth: int = 0) -> JsonValue:
        """Any value that JSON can hold."""
        if depth > MAX_DEPTH:
            self.wrong(node, f"nested deeper than {MAX_DEPTH} levels", "make it flatter")
            return None
        if isinstance(node, Entries):
            fields = self.fields(node, node.source.dialect.mapping)
            return {key: self.value(value, depth + 1) for key, value in fields.values.items()}
        if isinstance(node, Items):
            return [self.value(item, depth + 1) for item in node.nodes]
        return self._scalar(node)

    def _scalar(self, node: Node) -> JsonValue:
        if not isinstance(node, Scalar):
            return None
        value = node.value
        written = quoted(node.written) if node.written else "this"
        if node.fault:
            self.wrong(node, *node.fault)
        elif isinstance(value, float) and not math.isfinite(value):
            self.wrong(node, f"{written} is not a finite number", "put it in quotes")
        elif isinstance(value, int) and value not in INTEGERS:
            self.wrong(node, f"{written} is too large a number", "write a smaller one, or put it in quotes")
        elif value is None or isinstance(value, bool | int | float | str):
            return value
        else:  # of TOML's
            self.wrong(node, "this is a date or a time", "put it in quotes")
        return None


class Collector(Reader):
    """Collects all that is wrong."""

    def __init__(self) -> None:
        self.errors: list[DocumentError] = []

    def report(self, error: DocumentError) -> None:
        """Keep an error."""
        self.errors.append(error)


def instead(word: str, known: Collection[str]) -> str:
    """What to write instead of an unknown word."""
    meant = near(word, known)
    return f"did you mean {meant!r}?" if meant else advice(word, known)


def _number_in(node: Node) -> int | float | None:
    if not isinstance(node, Scalar):
        return None
    return node.value if isinstance(node.value, int | float) and not isinstance(node.value, bool) else node.number


def _between(low: float, high: float) -> str:
    """What to write for a number within limits."""
    return f"write one from {_bound(low)} to {_bound(high)}" if high < math.inf else f"write {_bound(low)} or more"


def _bound(bound: float) -> str:
    return str(int(bound)) if bound == int(bound) else f"{bound:g}"
