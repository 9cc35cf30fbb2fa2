"""Finds placeholders such as `To be defined`: one definition for all files and fields."""

from __future__ import annotations

import re

EXAMPLES = ("example_doer", "example_reader", "example_verifier", "example_task")  # the names in a skeleton's example
OPEN = "To be defined"  # how a skeleton marks what is for others to write

_GAP = r"[\s_*`~-]+"  # what may stand between the words of one mark
_WORDS = (
    rf"(?i:(?<![a-z0-9])to{_GAP}be{_GAP}(?:decided|defined|determined|filled{_GAP}in)(?![a-z])"
    r"|(?<![a-z0-9])(?:t\.\s?b\.\s?d\.|(?:tbd|[f]ixme)(?![a-z0-9]))"
    rf"|(?<![a-z0-9])(?:{'|'.join(EXAMPLES)})(?![a-z]))"
    r"|\b(?:[T]ODO|XXX)\b"  # in capitals: people do keep lists of what is to do
)
SPOKEN = re.compile(_WORDS)
# A line of nothing but dots and the like: looked through once, however long it is.
_ANY = re.compile(rf"{_WORDS}|\?\?\?|^(?=[^\w\n]*+$)[^\w\n]*?(?:\.\.\.|…)[^\w\n]*", re.MULTILINE)


def unwritten(text: str) -> str:
    """The first placeholder in a text; empty if there is none."""
    found = _ANY.search(text)
    return " ".join(found[0].split()) if found else ""


def lines_unwritten(text: str) -> dict[int, str]:
    """The lines of a text that are not written yet, by number, each with what shows it."""
    found: dict[int, str] = {}
    line, at = 1, 0
    for match in _ANY.finditer(text):
        line, at = line + text.count("\n", at, match.start()), match.start()
        found.setdefault(line, " ".join(match[0].split()))
    return found
