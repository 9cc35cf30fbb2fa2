"""JSON that anybody may have written, read strictly: one value or one finding, never an exception.

Refused besides what is no JSON: a text too large or too deep, a key given twice, NaN, halves of surrogate pairs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from parley.workflow.grammar import TASK_ID_FORM, is_task_id
from parley.workflow.terms import Finding

MOST_CHARACTERS = 1_000_000
DEEPEST = 32
MOST_FINDINGS = 100  # in one file; who has so many corrects these first
LATEST = 253_402_300_799  # the last second of the year 9999
_SHOWN = 40
_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Refused(ValueError):
    """Why a text is not taken, and what to do."""

    def __init__(self, problem: str, remedy: str, line: int = 0) -> None:
        super().__init__(problem)
        self.remedy = remedy
        self.line = line


def read_json(text: str, file: str, agent: str = "") -> tuple[Any, list[Finding]]:
    """The value of a text. With a finding the value is None."""
    try:
        return _value(text.removeprefix("\ufeff")), []  # a mark that some editors put first
    except _Refused as refused:
        return None, [Finding(file, refused.line, agent, "json", str(refused), refused.remedy)]


def write_json(value: Any) -> str:
    """A value as people like to read and compare it."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def shown(value: Any) -> str:
    """A value as a finding shows it: what it is, on one line, and not too long."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        cut = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"
        return json.dumps(cut)
    return json.dumps(value)[:_SHOWN]


def is_second(value: Any) -> bool:
    """Whether a value is a moment in whole seconds since 1970."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LATEST


@dataclass(slots=True)
class Fields:
    """The fields of one JSON object, read one by one; what is wrong gathers in `findings`."""

    file: str
    agent: str
    at: str  # where in the file: `notes[2]`, empty for the file's own fields
    values: Mapping[str, Any]
    findings: list[Finding] = field(default_factory=list)

    def place(self, name: str) -> str:
        """A field as a finding names it."""
        return f"{self.at}.{name}" if self.at and name else self.at or name

    def find(self, rule: str, name: str, text: str, remedy: str) -> None:
        """Note down what is wrong with a field."""
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(Finding(self.file, 0, self.agent, rule, f"{self.place(name)} {text}", remedy))

    def only(self, known: tuple[str, ...]) -> None:
        """No fields but these."""
        for name in self.values:
            if name not in known:
                remedy = f"remove it; the fields are: {', '.join(known)}"
                self.find("unknown-field", shown(name), "is not a field of this format", remedy)

    def missing(self, name: str, expected: str) -> bool:
        """Whether a field that must be there is not."""
        if name in self.values:
            return False
        self.find("missing-field", name, "is missing", f"add it: {expected}")
        return True

    def wrong(self, name: str, expected: str) -> None:
        """A field is not what it must be."""
        self.find("wrong-value", name, f"is {shown(self.values.get(name))}", f"it must be {expected}")

    def text(self, name: str, expected: str, most: int) -> str:
        """A text with something in it."""
        if self.missing(name, expected):
            return ""
        value = self.values[name]
        if not isinstance(value, str) or not value.strip():
            self.wrong(name, expected)
            return ""
        if len(value) > most:
            self.find("too-long", name, f"has {len(value)} characters", f"keep it within {most}")
            return ""
        return value

    def task_id(self) -> str:
        """The id of a worker's task."""
        value = self.values.get("task_id")
        if not self.missing("task_id", TASK_ID_FORM) and (not isinstance(value, str) or not is_task_id(value)):
            self.wrong("task_id", TASK_ID_FORM)
            return ""
        return str(value or "")

    def second(self, name: str) -> int | None:
        """A moment in whole seconds."""
        expected = "an integer, seconds since 1970 (Unix time)"
        if self.missing(name, expected):
            return None
        value = self.values[name]
        if not is_second(value):
            self.wrong(name, expected)
            return None
        return int(value)

    def word(self, name: str, known: tuple[str, ...]) -> str:
        """One of the words that are known; the empty word where it is not."""
        expected = f"one of {', '.join(json.dumps(word) for word in known)}"
        if self.missing(name, expected):
            return ""
        value = self.values[name]
        if not isinstance(value, str) or value not in known:
            self.wrong(name, expected)
            return ""
        return value


def _value(text: str) -> Any:
    if len(text) > MOST_CHARACTERS:
        raise _Refused(f"the file has {len(text)} characters", f"keep it within {MOST_CHARACTERS}")
    depth = 0
    for token in _STRUCTURE.finditer(text):
        if token[0][0] == '"':
            continue
        depth += 1 if token[0] in "[{" else -1
        if depth > DEEPEST:
            line = text.count("\n", 0, token.start()) + 1
            raise _Refused(f"it is nested deeper than {DEEPEST} levels", "make it flatter", line)
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise _Refused(f"this is not JSON ({error.msg}, column {error.colno})", "correct it", error.lineno) from error
    if _SURROGATE.search(text) or _halves(value):
        raise _Refused("it has half of a surrogate pair", "write the character itself")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Refused(f"the key {shown(key)} is given twice in one object", "leave one of them out")
        found[key] = value
    return found


def _constant(word: str) -> NoReturn:
    raise _Refused(f"{word} is not a number of JSON", "write a finite number")


def _integer(digits: str) -> int:
    if len(digits) > _SHOWN:
        raise _Refused(f"{digits[:_SHOWN]}… is too large a number", "write a smaller one")
    return int(digits)


def _halves(value: Any) -> bool:
    """Whether an escape left half of a pair anywhere; the depth is bounded already."""
    if isinstance(value, str):
        return _SURROGATE.search(value) is not None
    if isinstance(value, dict):
        return any(_halves(key) or _halves(item) for key, item in value.items())
    return isinstance(value, list) and any(map(_halves, value))
