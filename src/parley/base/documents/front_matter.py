"""The YAML front matter of a Markdown file: what stands between two lines of `---` at its beginning."""

from __future__ import annotations

from typing import NamedTuple

from parley.base.documents.node import DocumentError, Place

FENCE = "---"
RULE = "front-matter"


class FrontMatter(NamedTuple):
    """A Markdown file in two parts: the front matter lies from `start` to `end` of `text`, the prose below it."""

    text: str
    start: int
    end: int
    prose: str


class NoFrontMatter(DocumentError):
    """A file that has none."""


def split(text: str, file: str) -> FrontMatter:
    """The parts of a file; an error if there is no front matter, or no end of it."""
    text = text.removeprefix("\ufeff")
    first, _, _ = text.partition("\n")
    if first.rstrip() != FENCE:
        remedy = f"begin the file with a line of {FENCE}"
        raise NoFrontMatter(Place(file, 1, 1), "there is no front matter", remedy, RULE)
    start = end = len(first) + 1
    for line in text[start:].split("\n"):
        if line.rstrip() == FENCE:
            return FrontMatter(text, start, max(start, end - 1), text[end + len(line) + 1 :])
        end += len(line) + 1
    place = Place(file, text.rstrip("\n").count("\n") + 1, 1)
    raise DocumentError(place, "the front matter does not end", f"close it with a line of {FENCE}", RULE)
