"""A document as a tree of nodes. Every node knows its file, its line and its column, and so does every error."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from parley.base.text import BadText, check, cut

MAX_DEPTH = 50
MAX_NODES = 200_000
SHOWN = 40  # characters of a text that an error shows


class Place(NamedTuple):
    """A line and a column of a file, both from 1."""

    file: str
    line: int
    column: int


class DocumentError(ValueError):
    """A document that can't be used: where, what is wrong, what to do, in one line. Line 0: the file as a whole."""

    def __init__(self, place: Place, problem: str, remedy: str, rule: str = "wrong-value") -> None:
        self.place = place
        self.problem = " ".join(problem.split())
        self.remedy = " ".join(remedy.split())
        self.rule = rule  # a short name that stays, for findings
        name = "".join(char if char.isprintable() else "?" for char in place.file)
        where = f"{name}:{place.line}:{place.column}" if place.line else name
        super().__init__(f"{where}: {self.problem}; {self.remedy}")


class Dialect(NamedTuple):
    """What a format calls things, and how they are written in it."""

    name: str
    mapping: str
    write_mapping: str
    write_list: str
    write_text: str
    write_flag: str


JSON = Dialect(
    name="JSON",
    mapping="an object",
    write_mapping='write {"key": value}',
    write_list="write [one, two], or [] for none",
    write_text="put it in quotes",
    write_flag="write one of them without quotes",
)
TOML = JSON._replace(name="TOML", mapping="a table", write_mapping="write [name] on a line of its own")
YAML = JSON._replace(
    name="YAML",
    mapping="a mapping",
    write_mapping="write {key: value, …}",
    write_list="write '- …' lines, or [] for none",
)


class Source:
    """The text of a document, and what errors call its file."""

    def __init__(self, file: str, text: str, dialect: Dialect) -> None:
        self.file = file
        self.text = text
        self.dialect = dialect

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer("\n", self.text))]

    def place(self, index: int) -> Place:
        """The line and column of an index."""
        line = bisect_right(self._line_starts, index)
        return Place(self.file, line, index - self._line_starts[line - 1] + 1)

    def error(self, index: int, problem: str, remedy: str, rule: str = "syntax") -> DocumentError:
        """What is wrong at an index."""
        return DocumentError(self.place(index), problem, remedy, rule)

    def check(self, text: str, index: int) -> None:
        """Refuse a text that has NUL or half of a surrogate pair, also where an escape has made it."""
        try:
            check(text, len(text))
        except BadText as bad:
            raise self.error(index, str(bad), bad.remedy) from bad


def decoded(content: bytes, file: str) -> str:
    """The text of a file's content, which must be UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start].decode()
        place = Source(file, before, JSON).place(len(before))
        raise DocumentError(place, "this is not UTF-8", "save the file as UTF-8", "syntax") from error


class Node(msgspec.Struct, frozen=True, eq=False):
    """One value of a document, and where it begins."""

    source: Source
    index: int

    def __eq__(self, other: object) -> bool:
        """Two nodes are equal where their values are, wherever they stand."""
        return isinstance(other, Node) and plain(self) == plain(other)

    __hash__ = None  # type: ignore[assignment] # what is equal by value may be a dict

    @property
    def place(self) -> Place:
        """Where it stands."""
        return self.source.place(self.index)

    def error(self, problem: str, remedy: str, rule: str = "wrong-value") -> DocumentError:
        """What is wrong here."""
        return DocumentError(self.place, problem, remedy, rule)


class Scalar(Node, frozen=True, eq=False):
    """A text, a number, true, false or null; in TOML also a date or a time."""

    value: Any
    written: str | None = None  # in YAML, where a text needs no quotes: what stands there
    fault: tuple[str, str] | None = None  # why it can only be taken as a text, and what to do
    number: float | None = None  # for a text that is a number where one is wanted


class Items(Node, frozen=True, eq=False):
    """A list."""

    nodes: tuple[Node, ...]


class Entries(Node, frozen=True, eq=False):
    """A mapping: pairs of a key and a value. In YAML a key may stand twice, until a reader refuses it."""

    pairs: tuple[tuple[Scalar, Node], ...]


def is_null(node: Node) -> bool:
    """Whether null stands here, or nothing."""
    return isinstance(node, Scalar) and node.value is None and node.fault is None


def plain(node: Node) -> Any:
    """The value of a node without its places."""
    if isinstance(node, Entries):
        return {plain(key): plain(value) for key, value in node.pairs}
    if isinstance(node, Items):
        return [plain(item) for item in node.nodes]
    return node.value if isinstance(node, Scalar) else None


def node_of(value: Any, file: str, dialect: Dialect = JSON) -> Node:
    """A node for a plain value that has no text, so that one reader serves both."""
    return _node_of(value, Source(file, "", dialect))


def _node_of(value: Any, source: Source) -> Node:
    if isinstance(value, Mapping):
        pairs = tuple((Scalar(source, 0, str(key)), _node_of(item, source)) for key, item in value.items())
        return Entries(source, 0, pairs)
    if isinstance(value, list | tuple):
        return Items(source, 0, tuple(_node_of(item, source) for item in value))
    return Scalar(source, 0, value)


def quoted(text: str) -> str:
    """A text as an error shows it: quoted, and not too long."""
    return repr(cut(text, SHOWN))
