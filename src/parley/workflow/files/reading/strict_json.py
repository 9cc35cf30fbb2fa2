"""JSON files of a workflow: read strictly, with all that is wrong as findings, each with its line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from parley.base.documents import json_text
from parley.base.documents.node import DocumentError, Entries, Items, Node, plain
from parley.base.text import DEEPEST, cut
from parley.workflow.files.reading.finding_reader import MOST_FINDINGS, finding_of
from parley.workflow.model.grammar import TASK_ID_FORM, is_task_id
from parley.workflow.model.terms import Finding

MOST_CHARACTERS = 1_000_000
LATEST = 253_402_300_799  # the last second of the year 9999
_SHOWN = 40
_SECOND = "an integer, seconds since 1970 (Unix time)"


def read_json(text: str, file: str, agent: str = "") -> tuple[Any, list[Finding]]:
    """The value of a text. With a finding the value is None."""
    node, findings = _read(text, file, agent)
    return (None if node is None else plain(node)), findings


def read_object(text: str, file: str, agent: str, expected: str) -> tuple[JsonFields | None, list[Finding]]:
    """The fields of a file that is one object; what is wrong with them gathers in the same list."""
    node, findings = _read(text, file, agent)
    if isinstance(node, Entries):
        return JsonFields(node, agent, "", findings), findings
    if node is not None:
        problem = f"the file is {shown(plain(node))}"
        findings.append(
            Finding(
                file=file,
                line=node.place.line,
                agent=agent,
                rule="wrong-value",
                text=problem,
                remedy=f"it must be {expected}",
            )
        )
    return None, findings


def _read(text: str, file: str, agent: str) -> tuple[Node | None, list[Finding]]:
    if len(text) > MOST_CHARACTERS:
        problem, remedy = f"it has {len(text)} characters", f"keep it within {MOST_CHARACTERS}"
        return None, [Finding(file=file, line=0, agent=agent, rule="json", text=problem, remedy=remedy)]
    try:
        return json_text.read_json(text, file, deepest=DEEPEST), []
    except DocumentError as error:
        return None, [finding_of(error, agent, "json")]


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
class JsonFields:
    """The fields of one JSON object, read one by one; what is wrong gathers in `findings`."""

    node: Entries
    agent: str
    at: str  # where in the file: `notes[2]`, empty for the file's own fields
    findings: list[Finding] = field(default_factory=list)
    values: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.values = plain(self.node)

    def inner(self, node: Entries, at: str, agent: str | None = None) -> JsonFields:
        """The fields of an object in this one."""
        return JsonFields(node, self.agent if agent is None else agent, at, self.findings)

    def without(self, name: str) -> JsonFields:
        """The same fields but for one."""
        pairs = tuple(pair for pair in self.node.pairs if pair[0].value != name)
        return JsonFields(Entries(self.node.source, self.node.index, pairs), self.agent, self.at, self.findings)

    def nodes(self, name: str) -> tuple[Node, ...]:
        """The items of a list, or the values of an object; nothing where there is neither."""
        node = next((value for key, value in self.node.pairs if key.value == name), None)
        if isinstance(node, Entries):
            return tuple(value for _, value in node.pairs)
        return node.nodes if isinstance(node, Items) else ()

    def place(self, name: str) -> str:
        """A field as a finding names it."""
        return f"{self.at}.{name}" if self.at and name else self.at or name

    def find(self, rule: str, name: str, text: str, remedy: str, node: Node | None = None) -> None:
        """Note down what is wrong with a field, on its line; where it is missing, on that of the object."""
        if len(self.findings) < MOST_FINDINGS:
            place = (node or self._found(name)).place
            self.findings.append(
                Finding(
                    file=place.file,
                    line=place.line,
                    agent=self.agent,
                    rule=rule,
                    text=f"{self.place(name)} {text}",
                    remedy=remedy,
                )
            )

    def _found(self, name: str) -> Node:
        """The node that a name like `agents.one.status` or `notes[2]` leads to, as far as it is there."""
        found: Node = self.node
        for part in re.findall(r"[^.\[\]]+", name):
            if isinstance(found, Entries):
                below = next((value for key, value in found.pairs if key.value == part), None)
            elif isinstance(found, Items) and part.isdecimal():
                below = dict(enumerate(found.nodes)).get(int(part))
            else:
                below = None
            if below is None:
                break
            found = below
        return found

    def only(self, known: tuple[str, ...]) -> None:
        """No fields but these."""
        for key, _ in self.node.pairs:
            if key.value not in known:
                remedy = f"remove it; the fields are: {', '.join(known)}"
                self.find("unknown-field", shown(key.value), "is not a field of this format", remedy, key)

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
        return "" if self.missing(name, expected) else self.text_at(name, self.values[name], expected, most)

    def text_at(self, name: str, value: Any, expected: str, most: int) -> str:
        """A value that must be a text with something in it, in a list or under a key."""
        if not isinstance(value, str) or not value.strip():
            self.find("wrong-value", name, f"is {shown(value)}", f"it must be {expected}")
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
        if self.missing(name, _SECOND):
            return None
        value = self.values[name]
        if not is_second(value):
            self.wrong(name, _SECOND)
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
