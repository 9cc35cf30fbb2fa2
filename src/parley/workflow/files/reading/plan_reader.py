"""The front matter of a workflow's plan: its nodes, and the values in them, with all that is wrong as findings."""

from __future__ import annotations

from collections.abc import Collection

from parley.base.documents import front_matter
from parley.base.documents.node import DocumentError, Node, Place, Scalar, quoted
from parley.base.documents.yaml_text import read_yaml
from parley.base.wording import advice
from parley.workflow.files.reading.finding_reader import FindingReader

MOST_CHARACTERS = 1_000_000
MOST_NODES = 50_000  # a plan of 200 agents has 8000


def tree(text: str, file: str) -> Node:
    """The front matter of a file; null where it is empty."""
    if len(text) > MOST_CHARACTERS:
        problem = f"the file has {len(text)} characters"
        raise DocumentError(Place(file, 0, 0), problem, f"keep it within {MOST_CHARACTERS}")
    matter = front_matter.split(text, file)
    return read_yaml(matter.text, file, start=matter.start, end=matter.end, most=MOST_NODES)


class PlanReader(FindingReader):
    """Reads the values of a plan. Where nothing stands, the value is empty."""

    def unknown_key(self, key: Node, name: str, what: str, known: Collection[str]) -> None:
        """Report a key that there is not."""
        remedy = "" if self.full else advice(name, known)  # looking for one that is near takes time
        self.wrong(key, f"{quoted(name)} is not a key of {what}", remedy, "unknown-key")

    def listed(self, node: Node, what: str) -> dict[str, Node]:
        """A list of texts, each with something in it and each once, with the place of each."""
        found: dict[str, Node] = {}
        for item in self.items(node, what, optional=True):
            text = self.text(item, f"each of {what}", default="")
            if not text.strip():
                if isinstance(item, Scalar):
                    self.wrong(item, f"{what} has an empty item", "remove it, or fill it in")
            elif text in found:
                self.wrong(item, f"{quoted(text)} stands twice in {what}", "remove one of them", "duplicate-item")
            else:
                found[text] = item
        return found

    def texts(self, node: Node, what: str) -> tuple[str, ...]:
        """A list of texts."""
        return tuple(self.listed(node, what))
