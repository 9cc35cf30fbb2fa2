"""Writes any text into Markdown as inert code, and reads it back exactly.

In code a backslash begins an escape: of itself, of a pipe, of a line's end, or of a character by its number.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from parley.base.text import cut

INLINE = 120  # characters of a text that a table shows; a longer one stands whole in the appendix
BEGINNING = 72
ITEMS = 6  # of a list that a table shows
_LEVEL = 3  # of the appendix's headings
NOTHING = "\\&"  # stands for an empty text among others

_NAMED = {"\\": "\\\\", "|": "\\|", "\n": "\\n", "\r": "\\r", "\t": "\\t", "`": "\\u0060"}
_IN_BLOCKS = {"\\": "\\\\", "\n": "\n", "\t": "\t", "`": "`"}
_AS_THEY_ARE = {"\n": "\n", "\t": "\t"}
_MEANT = {"\\": "\\", "|": "|", "n": "\n", "r": "\r", "t": "\t", "&": ""}
_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|U(00(?:0[0-9a-f]|10)[0-9a-f]{4})|([\\|nrt&]))")
_SPAN = r"`((?:[^`\\|]|\\.)+)`"
_SPANS = re.compile(rf"{_SPAN}(?:<br>{_SPAN})*")
_SHORTENED = re.compile(r"(.*?) ?(?:and \d+ more )?\(\[(text|list) ([0-9a-f]+)\]\(#\2-\3\)\)")
_CELL = re.compile(r"(?:[^|\\]|\\.)*")
_FENCE = re.compile(r"(`{3,})[a-z]*")
_HEADING = re.compile(r"(#{1,6}) (.+)")


class UnreadablePage(Exception):
    """A place that does not hold what it should."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


# ---- one text ------------------------------------------------------------------------------------


def code(text: str) -> str:
    """A text as a span of code, on one line."""
    inner = _escaped(text, _NAMED)
    if inner.startswith(" "):
        inner = f"\\u0020{inner[1:]}"
    if inner.endswith(" "):
        inner = f"{inner[:-1]}\\u0020"
    return f"`{inner or NOTHING}`"


def text_of(span: str) -> str:
    """The text that a span of code shows; ValueError if this is no such span."""
    found = re.fullmatch(_SPAN, span)
    if found is None:
        message = f"a text between backticks is expected, not {cut(span, 40)!r}"
        raise ValueError(message)
    return _unescaped(found[1])


def block(text: str) -> list[str]:
    """A text as a fenced block of code, in its own lines."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *_escaped(text, _IN_BLOCKS).split("\n"), fence]


def quoted(text: str) -> list[str]:
    """A text in its own lines as a quotation, so that no line of it is a heading of the page."""
    lines = _escaped(text.replace("\r\n", "\n"), _AS_THEY_ARE).split("\n")
    return [f"> {line}".rstrip() for line in lines]


def _escaped(text: str, named: dict[str, str]) -> str:
    if text.isprintable() and not any(letter in text for letter in named):
        return text
    return "".join(
        named[letter] if letter in named else letter if letter.isprintable() else _number(letter) for letter in text
    )


def _number(letter: str) -> str:
    number = ord(letter)
    return f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    if "\\" in _ESCAPE.sub("", text):
        message = f"an escape in {cut(text, 40)!r} is not one of those that are written"
        raise ValueError(message)
    return _ESCAPE.sub(lambda found: _MEANT[found[3]] if found[3] else chr(int(found[1] or found[2], 16)), text)


# ---- the appendix --------------------------------------------------------------------------------


@dataclass(slots=True)
class Appendix:
    """What is too long for a table, in full: texts as blocks, lists as lists.

    Each is named by its content, so that its name stays when others come and go.
    """

    entries: dict[str, str | tuple[str, ...]] = field(default_factory=dict)

    def text(self, text: str) -> str:
        """A cell for a text: the whole of it, or its beginning and where it stands whole; empty for an empty one."""
        if not text or (len(text) <= INLINE and "\n" not in text):
            return code(text) if text else ""
        return f"{code(_beginning(text))} {self._refer('text', text)}"

    def texts(self, texts: Sequence[str]) -> str:
        """A cell for several texts."""
        if len(texts) <= ITEMS and all(len(text) <= INLINE for text in texts):
            return "<br>".join(code(text) for text in texts)
        rest = f" and {len(texts) - ITEMS} more" if len(texts) > ITEMS else ""
        return f"{_first_of(texts)}{rest} {self._refer('list', tuple(texts))}"

    def read_text(self, cell: str) -> str:
        """The text of a cell."""
        found = _SHORTENED.fullmatch(cell)
        if found is None:
            return text_of(cell) if cell else ""
        whole = self._find(found[2], found[3])
        if not isinstance(whole, str) or code(_beginning(whole)) != found[1]:
            message = f"text {found[3]} does not begin as the table says"
            raise ValueError(message)
        return whole

    def read_texts(self, cell: str) -> tuple[str, ...]:
        """The texts of a cell."""
        found = _SHORTENED.fullmatch(cell)
        if found is not None:
            whole = self._find(found[2], found[3])
            if not isinstance(whole, tuple) or _first_of(whole) != found[1]:
                message = f"list {found[3]} does not begin as the table says"
                raise ValueError(message)
            return whole
        if cell and not _SPANS.fullmatch(cell):
            message = f"texts between backticks with <br> between them are expected, not {cut(cell, 40)!r}"
            raise ValueError(message)
        return tuple(_unescaped(found[1]) for found in re.finditer(_SPAN, cell))

    def lines(self) -> Iterator[str]:
        """The appendix as it is written."""
        for name, entry in self.entries.items():
            if isinstance(entry, str):
                yield from ("", f"### Text {name}", "", *block(entry))
            else:
                yield from ("", f"### List {name}", "", *(f"- {code(text)}" for text in entry))

    @staticmethod
    def read(sections: Sequence[Section]) -> Appendix:
        """The appendix among the sections of a page."""
        appendix = Appendix()
        for section in sections:
            kind, _, name = section.title.partition(" ")
            if section.level != _LEVEL or kind not in {"Text", "List"}:
                continue
            if name in appendix.entries:
                raise UnreadablePage(section.line, f"{kind.lower()} {name} stands here twice")
            if kind == "Text":
                whole = [part.text for part in section.parts() if part.is_block]
                if len(whole) != 1:
                    raise UnreadablePage(section.line, f"text {name} should be one block")
                appendix.entries[name] = whole[0]
            else:
                appendix.entries[name] = tuple(_item(part.text, part.line) for part in section.parts() if part.text)
        return appendix

    def _refer(self, kind: str, entry: str | tuple[str, ...]) -> str:
        digest = hashlib.sha256(repr(entry).encode()).hexdigest()
        name = next(digest[:length] for length in range(8, 65) if self.entries.get(digest[:length], entry) == entry)
        self.entries[name] = entry
        return f"([{kind} {name}](#{kind}-{name}))"

    def _find(self, kind: str, name: str) -> str | tuple[str, ...]:
        if name not in self.entries:
            message = f"{kind} {name} is not in the appendix"
            raise ValueError(message)
        return self.entries[name]


def _beginning(text: str) -> str:
    first = text.split("\n", 1)[0]
    return text if len(text) <= BEGINNING and first == text else f"{first[:BEGINNING]}…"


def _first_of(texts: Sequence[str]) -> str:
    return "<br>".join(code(_beginning(text)) for text in texts[:ITEMS])


def _item(line: str, number: int) -> str:
    try:
        return text_of(line.removeprefix("- "))
    except ValueError as error:
        raise UnreadablePage(number, str(error)) from None


# ---- a page --------------------------------------------------------------------------------------


class PagePart(NamedTuple):
    """A line of a section, or the text of a fenced block in it, with the number of the line where it begins."""

    line: int
    text: str
    is_block: bool = False


@dataclass(slots=True)
class Section:
    """A heading of a page and what stands below it, up to the next heading; lines with their numbers."""

    level: int
    title: str
    line: int
    lines: list[tuple[int, str]] = field(default_factory=list)

    def rows(self, head: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
        """The cells of the rows of the table that stands here."""
        table = [(one.line, one.text) for one in self.parts() if one.text.startswith("|") and not one.is_block]
        if not table:
            return
        if _cells(*table[0]) != list(head) or len(table) < 2:  # noqa: PLR2004 - the head and the line below it
            raise UnreadablePage(table[0][0], f"the table should have these columns: {', '.join(head)}")
        for number, line in table[2:]:
            cells = _cells(number, line)
            if len(cells) != len(head):
                raise UnreadablePage(number, f"the row should have {len(head)} cells, not {len(cells)}")
            yield number, cells

    def parts(self) -> Iterator[PagePart]:
        """The lines here, and the texts of the fenced blocks."""
        fence, begun = "", 0
        kept: list[str] = []
        for number, line in self.lines:
            if fence and line == fence:
                try:
                    yield PagePart(begun, _unescaped("\n".join(kept)), is_block=True)
                except ValueError as error:
                    raise UnreadablePage(begun, str(error)) from None
                fence, kept = "", []
            elif fence:
                kept.append(line)
            elif found := _FENCE.fullmatch(line):
                fence, begun = found[1], number
            else:
                yield PagePart(number, line)
        if fence:
            raise UnreadablePage(begun, "the block that begins here does not end")


def sections(text: str) -> list[Section]:
    """The sections of a page; what looks like a heading inside a block is none."""
    found = [Section(0, "", 1)]
    fence = ""
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.removesuffix("\r")
        if fence:
            fence = "" if line == fence else fence
        elif begun := _FENCE.fullmatch(line):
            fence = begun[1]
        elif heading := _HEADING.fullmatch(line):
            found.append(Section(len(heading[1]), heading[2], number))
            continue
        found[-1].lines.append((number, line))
    return found


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table of cells that are ready."""
    return [_row(head), _row(["---"] * len(head)), *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(number: int, line: str) -> list[str]:
    parts, at = [], 1
    while at < len(line):
        found = _CELL.match(line, at)
        if found is None or found.end() >= len(line):
            raise UnreadablePage(number, "the row should end with a pipe")
        parts.append(found[0].strip())
        at = found.end() + 1
    return parts
