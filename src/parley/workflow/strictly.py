"""JSON that anybody may have written, read strictly: one value or one finding, never an exception."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from parley import text as boundary
from parley.text import BadText, cut
from parley.workflow.grammar import TASK_ID_FORM, is_task_id
from parley.workflow.terms import Finding

MOST_CHARACTERS = 1_000_000
MOST_FINDINGS = 100  # in one file; who has so many corrects these first
LATEST = 253_402_300_799  # the last second of the year 9999
_SHOWN = 40


def read_json(text: str, file: str, agent: str = "") -> tuple[Any, list[Finding]]:
    """The value of a text. With a finding the value is None."""
    try:
        return boundary.read_json(text, MOST_CHARACTERS), []
    except BadText as refused:
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
        return json.dumps(cut(value, _SHOWN))
    return cut(json.dumps(value), _SHOWN)


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
