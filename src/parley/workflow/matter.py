"""The YAML front matter of a Markdown file, read node by node: all that is wrong is found, each with its line.

The nodes are never made into objects. A node counts each time that it is read, so that aliases can't make a small
file large.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import yaml

from parley.adapters.nodes import NULL, TAG, PlaybookError, compose, is_number, quoted
from parley.wording import advice
from parley.workflow.strictly import MOST_FINDINGS
from parley.workflow.terms import Finding

FENCE = "---"
MOST_CHARACTERS = 1_000_000
MOST_NODES = 50_000  # a plan of 200 agents has 8000
# Where a text belongs it is taken as it is written: `goal: yes` is the word.
_TEXTS = frozenset(TAG + kind for kind in ("str", "bool", "int", "float", "timestamp", "value", "merge"))


class Broken(ValueError):
    """Front matter that can't be read at all."""

    def __init__(self, line: int, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.line = line
        self.remedy = remedy


def split(text: str) -> tuple[str, str]:
    """The front matter, with the fence's line left empty so that its lines count as the file's, and the prose."""
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[0].rstrip() != FENCE:
        raise Broken(1, "there is no front matter", f"begin the file with a line of {FENCE}")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == FENCE), None)
    if end is None:
        raise Broken(len(lines), "the front matter does not end", f"close it with a line of {FENCE}")
    return "\n".join(("", *lines[1:end])), "\n".join(lines[end + 1 :])


def tree(text: str, file: str) -> tuple[yaml.Node | None, str]:
    """The nodes of a file's front matter, and the prose below it."""
    if len(text) > MOST_CHARACTERS:
        raise Broken(0, f"the file has {len(text)} characters", f"keep it within {MOST_CHARACTERS}")
    matter, prose = split(text)
    try:
        return compose(matter, file, MOST_NODES), prose
    except PlaybookError as error:
        problem, _, remedy = str(error).partition(": ")[2].rpartition("; ")
        if r"'\t'" in problem:
            problem, remedy = "a tab stands where YAML allows only spaces", "indent with spaces"
        elif "more values" in problem:
            problem, remedy = f"the front matter has more than {MOST_NODES} values", "make it smaller"
        raise Broken(error.line, problem, remedy) from error


class Reader:
    """Reads values out of nodes; what is wrong gathers in `findings`, and a harmless value stands in for it."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.findings: list[Finding] = []
        self._read = 0

    def find(self, node: yaml.Node, agent: str, rule: str, text: str, remedy: str) -> None:
        """Note down what is wrong at a node."""
        self.tell(line_of(node), agent, rule, text, remedy)

    def tell(self, line: int, agent: str, rule: str, text: str, remedy: str) -> None:
        """Note down what is wrong on a line."""
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(Finding(self.file, line, agent, rule, text, remedy))

    def weigh(self, node: yaml.Node) -> None:
        """Count a node that is read."""
        self._read += 1
        if self._read > MOST_NODES:
            raise Broken(line_of(node), "the aliases make the front matter too large", "write out what is meant")

    def entries(
        self, node: yaml.Node | None, what: str, agent: str = "", known: Collection[str] | None = None
    ) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """A mapping's keys, each with its own node and its value's. `known`: the keys that there are, None: any."""
        if node is None or node.tag == NULL:
            return {}
        self.weigh(node)
        if not isinstance(node, yaml.MappingNode):
            self.find(node, agent, "wrong-value", f"{what} must be a mapping", "write `key: value` lines")
            return {}
        found: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key_node, value_node in node.value:
            if key_node.tag == f"{TAG}merge":
                self.find(key_node, agent, "merge-key", "'<<' does not merge mappings here", "write the keys out")
                continue
            key = self.text(key_node, f"a key of {what}", agent)
            if not key and isinstance(key_node, yaml.ScalarNode):
                self.find(key_node, agent, "unknown-key", f"{what} has an empty key", "name it, or remove the line")
            elif key in found:
                remedy = "remove one of them"
                self.find(key_node, agent, "duplicate-key", f"{quoted(key)} is given twice in {what}", remedy)
            elif known is not None and key not in known:
                text = f"{quoted(key)} is not a key of {what}"
                near = advice(key, known) if len(self.findings) < MOST_FINDINGS else ""  # looking for one takes time
                self.find(key_node, agent, "unknown-key", text, near)
            elif key:
                found[key] = (key_node, value_node)
        return found

    def items(self, node: yaml.Node | None, what: str, agent: str = "") -> Iterator[yaml.Node]:
        """The items of a list; none where nothing stands."""
        if node is None or node.tag == NULL:
            return
        self.weigh(node)
        if not isinstance(node, yaml.SequenceNode):
            self.find(node, agent, "wrong-value", f"{what} must be a list", "write [one, two], or [] for none")
            return
        for item in node.value:
            self.weigh(item)
            yield item

    def text(self, node: yaml.Node | None, what: str, agent: str = "") -> str:
        """A text, as it is written; empty where nothing stands."""
        if node is None or node.tag == NULL:
            return ""
        self.weigh(node)
        if not isinstance(node, yaml.ScalarNode) or node.tag not in _TEXTS:
            self.find(node, agent, "wrong-value", f"{what} must be a text", "write it on one line, or in quotes")
            return ""
        written = str(node.value)
        try:
            # Two escapes of a pair, as JSON writers make them, are one character.
            return written if written.isascii() else written.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            text = f"{what} has half of a surrogate pair"
            self.find(node, agent, "wrong-value", text, "write the character itself")
            return ""

    def listed(self, node: yaml.Node | None, what: str, agent: str = "") -> dict[str, yaml.Node]:
        """A list of texts, each with something in it and each once, with the place of each."""
        found: dict[str, yaml.Node] = {}
        for item in self.items(node, what, agent):
            text = self.text(item, f"each of {what}", agent)
            if not text.strip():
                if isinstance(item, yaml.ScalarNode):
                    self.find(item, agent, "wrong-value", f"{what} has an empty item", "remove it, or fill it in")
            elif text in found:
                self.find(item, agent, "duplicate-item", f"{quoted(text)} stands twice in {what}", "remove one of them")
            else:
                found[text] = item
        return found

    def texts(self, node: yaml.Node | None, what: str, agent: str = "") -> tuple[str, ...]:
        """A list of texts."""
        return tuple(self.listed(node, what, agent))

    def word(self, node: yaml.Node | None, what: str, agent: str, known: Collection[str], default: str) -> str:
        """One of the words that are known."""
        if node is None or node.tag == NULL:
            return default
        word = self.text(node, what, agent)
        if word not in known:
            if isinstance(node, yaml.ScalarNode):
                self.find(node, agent, "wrong-value", f"{what} is {quoted(word)}", advice(word, known))
            return default
        return word

    def seconds(self, node: yaml.Node | None, what: str, agent: str, most: float) -> float:
        """A number of seconds above zero; zero where nothing stands."""
        if node is None or node.tag == NULL:
            return 0.0
        value = _number(node) if is_number(node) else None
        if value is None or not 0 < value <= most:
            text = f"{what} must be a number of seconds above 0"
            self.find(node, agent, "wrong-value", text, f"write {what}: 900, or leave it out")
            return 0.0
        return value


def line_of(node: yaml.Node) -> int:
    """Where a node stands in its file."""
    return int(node.start_mark.line) + 1


def _number(node: Any) -> float | None:
    constructor = yaml.constructor.SafeConstructor()
    try:
        if node.tag == f"{TAG}int":
            return float(constructor.construct_yaml_int(node))
        return float(constructor.construct_yaml_float(node))
    except (ValueError, LookupError, OverflowError):
        return None
