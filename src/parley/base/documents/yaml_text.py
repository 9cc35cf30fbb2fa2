"""YAML as a tree of nodes: one document, of plain values only, whose depth and size are bounded.

PyYAML composes its own nodes; no objects are ever made of them. Aliases are written out here, so that what they repeat
counts each time.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from parley.base.documents.node import (
    MAX_DEPTH,
    MAX_NODES,
    YAML,
    DocumentError,
    Entries,
    Items,
    Node,
    Scalar,
    Source,
    quoted,
)

# What a document may weigh with its aliases written out; no file of a megabyte gets there without them.
MAX_WEIGHT = 16 * 1024 * 1024
_NODE_WEIGHT = 16
_TAG = "tag:yaml.org,2002:"
_PLAIN = frozenset(
    _TAG + kind for kind in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge", "map", "seq")
)
_EXPONENT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?[eE][+-]?[0-9]+")
_CONSTRUCTOR = yaml.constructor.SafeConstructor()


def read_yaml(
    text: str, file: str, *, start: int = 0, end: int | None = None, most: int = MAX_NODES, aliases: bool = True
) -> Node:
    """The one document of a text, or of the part of it from `start` to `end`; null if there is none."""
    source = Source(file, text, YAML)
    composed = _compose(source, start, len(text) if end is None else end, most)
    if composed is None:
        return Scalar(source, start, None)
    return _Tree(source, start, most, aliases=aliases).node(composed, 0)


class _Loader(yaml.SafeLoader):
    """Composes nodes, and stops at a depth that would exhaust the stack, or where there are more than wanted."""

    def __init__(self, source: Source, start: int, end: int, most: int) -> None:
        super().__init__(source.text[start:end])
        self.source = source
        self.start = start
        self.most = most
        self.depth = 0
        self.count = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth += 1
        self.count += 1
        if self.depth > MAX_DEPTH or self.count > self.most:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call] # the stubs lack it
            too_deep = (f"nested deeper than {MAX_DEPTH} levels", "make it flatter")
            too_many = (f"this has more than {self.most} values", "make it smaller")
            raise self.source.error(self.start + mark.index, *(too_deep if self.depth > MAX_DEPTH else too_many))
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


def _compose(source: Source, start: int, end: int, most: int) -> yaml.Node | None:
    try:
        loader = _Loader(source, start, end, most)
    except yaml.reader.ReaderError as error:
        problem = "this character is not allowed in YAML"
        raise source.error(start + error.position, problem, "remove it or write it as an escape") from error
    try:
        composed: yaml.Node | None = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark or loader.get_mark()
        raise source.error(start + mark.index, *_syntax_problem(error)) from error
    except DocumentError:
        raise
    except (ValueError, OverflowError) as error:
        # PyYAML lets through what chr() and int() say to an escape or a version that is out of their range.
        at = start + loader.get_mark().index
        raise source.error(at, f"this is not valid YAML ({error})", "correct it here") from error
    finally:
        loader.dispose()
    return composed


def _syntax_problem(error: yaml.MarkedYAMLError) -> tuple[str, str]:
    if r"'\t'" in str(error.problem):
        return "a tab stands where YAML allows only spaces", "indent with spaces"
    context = f"{error.context}, " if error.context else ""
    return f"this is not valid YAML ({context}{error.problem})", "correct it here"


class _Tree:
    """Turns PyYAML's nodes into ours."""

    def __init__(self, source: Source, start: int, most: int, *, aliases: bool) -> None:
        self.source = source
        self.start = start
        self.most = most
        self.aliases = aliases
        self.weight = 0
        self.count = 0
        self.seen = set[int]()  # by identity: an alias is the same node once more

    def node(self, node: yaml.Node, depth: int) -> Node:
        at = self.start + node.start_mark.index
        self._weigh(node, at, depth)
        if node.tag not in _PLAIN:
            shown = quoted(node.tag.replace(_TAG, "!!"))
            raise self.source.error(at, f"the tag {shown} is not known here", "leave it out")
        if isinstance(node, yaml.MappingNode):
            pairs = ((self.key(key, depth + 1), self.node(value, depth + 1)) for key, value in node.value)
            return Entries(self.source, at, tuple(pairs))
        if isinstance(node, yaml.SequenceNode):
            return Items(self.source, at, tuple(self.node(item, depth + 1) for item in node.value))
        written = self._whole(node.value, at)
        try:
            return Scalar(self.source, at, _value(node, written), written, number=_number(node, written))
        except (ValueError, LookupError, OverflowError):
            fault = (f"{quoted(written)} is not a value that YAML knows", "put it in quotes")
            return Scalar(source=self.source, index=at, value=None, written=written, fault=fault)

    def key(self, node: yaml.Node, depth: int) -> Scalar:
        """A key, which is a text however it is written."""
        at = self.start + node.start_mark.index
        self._weigh(node, at, depth)
        if not isinstance(node, yaml.ScalarNode) or node.tag not in _PLAIN:
            raise self.source.error(at, "a key must be a text", "put it in quotes")
        written = "" if node.tag == f"{_TAG}null" else self._whole(node.value, at)
        merges = node.tag == f"{_TAG}merge"
        fault = ("'<<' does not merge mappings here", "write the keys out") if merges else None
        return Scalar(source=self.source, index=at, value=written, written=written, fault=fault)

    def _weigh(self, node: yaml.Node, at: int, depth: int) -> None:
        if depth > MAX_DEPTH:  # an alias that leads back to itself
            raise self.source.error(at, f"nested deeper than {MAX_DEPTH} levels", "make it flatter")
        if id(node) in self.seen and not self.aliases:
            raise self.source.error(at, "an alias (*) repeats this", "write every value out")
        self.seen.add(id(node))
        self.count += 1
        self.weight += _NODE_WEIGHT + (len(node.value) if isinstance(node, yaml.ScalarNode) else 0)
        if self.count > self.most or self.weight > MAX_WEIGHT:
            raise self.source.error(at, "the aliases make this too large", "write out what is meant")

    def _whole(self, text: str, at: int) -> str:
        """A text in which two escapes of a pair, as JSON writers make them, are one character."""
        try:
            return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError as error:
            raise self.source.error(at, "this has half of a surrogate pair", "write the character itself") from error


def _value(node: Any, written: str) -> Any:
    """What a scalar stands for. A date is the text that stands there."""
    if node.tag == f"{_TAG}null":
        return None
    if node.tag == f"{_TAG}bool":
        return _CONSTRUCTOR.construct_yaml_bool(node)
    if node.tag == f"{_TAG}int":
        return _CONSTRUCTOR.construct_yaml_int(node)
    if node.tag == f"{_TAG}float":
        return _CONSTRUCTOR.construct_yaml_float(node)
    return written


def _number(node: Any, written: str) -> float | None:
    """The number that a text is where one is wanted: JSON writers write 1e-05, which YAML 1.1 takes for a text."""
    return float(written) if node.style is None and _EXPONENT.fullmatch(written) else None
