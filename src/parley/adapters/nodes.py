"""YAML as a tree of nodes that know where they stand, so that whatever is wrong is told with its place."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from parley.wording import advice, near

MAX_DEPTH = 50
TAG = "tag:yaml.org,2002:"
NULL = f"{TAG}null"
_SHOWN = 40
_JSON_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")


class PlaybookError(ValueError):
    """A playbook that can't be used: where, what is wrong, what to do, in one line."""

    def __init__(self, name: str, line: int, column: int, problem: str) -> None:
        shown = "".join(char if char.isprintable() else "?" for char in name)
        super().__init__(f"{shown}:{line}:{column}: {' '.join(problem.split())}")
        self.line = line
        self.column = column


def position(text: str, index: int) -> tuple[int, int]:
    """The line and column of an index, from 1."""
    before = text[:index]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


class _Loader(yaml.SafeLoader):
    """Composes nodes, and stops at a depth that would exhaust the stack, or where there are more than wanted."""

    depth = 0
    left = math.inf

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth += 1
        self.left -= 1
        if self.depth > MAX_DEPTH or self.left < 0:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call] # the stubs lack it
            problem = f"nested deeper than {MAX_DEPTH} levels" if self.left >= 0 else "more values than can be read"
            raise yaml.composer.ComposerError(None, None, problem, mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


def compose(text: str, name: str, most: float = math.inf) -> yaml.Node | None:
    """The tree of a text's one document, with so many nodes at most; None if there is none."""
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        line, column = position(text, error.position)
        problem = "this character is not allowed in YAML; remove it or write it as an escape"
        raise PlaybookError(name, line, column, problem) from error
    loader.left = most
    try:
        node: yaml.Node | None = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark or loader.get_mark()
        context = f"{error.context}, " if error.context else ""
        problem = f"this is not valid YAML ({context}{error.problem}); correct it here"
        raise PlaybookError(name, mark.line + 1, mark.column + 1, problem) from error
    except (ValueError, OverflowError) as error:
        # PyYAML lets through what chr() and int() say to an escape or a version that is out of their range.
        mark = loader.get_mark()
        problem = f"this is not valid YAML ({error}); correct it here"
        raise PlaybookError(name, mark.line + 1, mark.column + 1, problem) from error
    finally:
        loader.dispose()
    return node


def load(text: str) -> Any:
    """The value of a text's one document, whose depth is bounded. YAMLError or ValueError if there is none."""
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - it is a SafeLoader


_NOWHERE = yaml.Mark("", 0, 0, 0, None, 0)


def node_of(value: Any) -> yaml.Node:
    """A YAML node for a JSON value, so that one reader serves both."""
    if isinstance(value, Mapping):
        pairs = [(node_of(str(key)), node_of(item)) for key, item in value.items()]
        return yaml.MappingNode(f"{TAG}map", pairs, _NOWHERE)
    if isinstance(value, list | tuple):
        return yaml.SequenceNode(f"{TAG}seq", [node_of(item) for item in value], _NOWHERE)
    if value is None:
        return yaml.ScalarNode(NULL, "null", _NOWHERE)
    if isinstance(value, bool):
        return yaml.ScalarNode(f"{TAG}bool", str(value).lower(), _NOWHERE)
    kind = "int" if isinstance(value, int) else "float" if isinstance(value, float) else "str"
    return yaml.ScalarNode(TAG + kind, str(value), _NOWHERE)


def quoted(text: str) -> str:
    """A text as an error shows it: quoted, and not too long."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def instead(word: str, known: Iterable[str]) -> str:
    """What to write instead of an unknown word."""
    names = list(known)
    meant = near(word, names)
    return f"did you mean {meant!r}?" if meant else advice(word, names)


def is_number(node: yaml.Node) -> bool:
    """Whether a number stands here; YAML 1.1 takes 1e-05 for a text, but JSON writers write it."""
    if not isinstance(node, yaml.ScalarNode):
        return False
    if node.tag in (f"{TAG}int", f"{TAG}float"):
        return True
    return node.style is None and node.tag == f"{TAG}str" and _JSON_NUMBER.fullmatch(node.value) is not None
