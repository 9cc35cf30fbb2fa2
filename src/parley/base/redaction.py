"""Replaces secrets in texts for people by `[redacted NAME]`.

Known values are found as they are and in encoded forms: JSON escapes, percent-encoding, base 64, hexadecimal. Keys of
well-known shapes are found without being known. The time is linear in the text, and redacting twice changes nothing.
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

LONG = 8  # characters; a value this long is searched for anywhere, in every form
SHORT = 4  # characters; below LONG a value is found only as a whole word, below SHORT never
LINE = 16  # characters; a line this long of a multi-line secret is a secret by itself
NAME_LENGTH = 60
PREFIX = 6  # characters of each form that are searched for first, all at once
CUT = "…"  # the mark of every cut: half of a secret beside it is redacted too

Span = tuple[int, int, str]


# ---- keys known by their shape -----------------------------------------------------------------------


class Shape(NamedTuple):
    """A kind of key, known by its shape. Where the pattern has a group, only that is the secret."""

    name: str
    anchors: tuple[str, ...]  # without any of these there is no such key in a text
    pattern: str
    flags: int = 0


def _shape(name: str, anchors: str, pattern: str, flags: int = 0) -> Shape:
    return Shape(name, tuple(anchors.split("|")), pattern, flags)


# What a cut leaves of a key: its recognizable beginning, and the mark of the cut.
_BEGUN = (
    rf"(?<![A-Za-z0-9_-])(?:sk-ant-|[rs]k_(?:live|test)_|gh[oprsu]_|github_pat_|glpat-|AKIA|ASIA|xox[a-z]-|xapp-|AIza|npm_|pypi-)"
    rf"[A-Za-z0-9_-]*(?={CUT})|(?<![A-Za-z0-9_-])(?:sk-|eyJ|hf_)[A-Za-z0-9_.-]{{6,}}(?={CUT})"
    rf"|(?<=://)[^\s/:@\"'<>\\]{{1,100}}:(?!\d+{CUT})[^\s/@\"'<>\\{CUT}]{{3,200}}(?={CUT})"
)
_compiled = cache(re.compile)  # on first use: a listing needs none, and starts faster


# Every pattern begins at a word's start and takes the whole word, so that none leaves a start for another.
_START = r"(?<![A-Za-z0-9_-])"
_WORD = r"[A-Za-z0-9_-]"
_BEARER = r"[A-Za-z0-9._~+/=-]"
_QUOTES = r"[\"'\\]{0,3}[ \t]{0,4}[:=][ \t]{0,4}[\"'\\]{0,3}"

SHAPES = (
    _shape("anthropic-key", "sk-ant-", rf"{_START}sk-ant-{_WORD}{{8,}}"),
    _shape("api-key", "sk-", rf"{_START}sk-(?={_WORD}{{0,80}}[0-9A-Z]|{_WORD}{{0,80}}?[a-z]{{20}}){_WORD}{{20,}}"),
    _shape("payment-key", "sk_live_|sk_test_|rk_live_|rk_test_", rf"{_START}[rs]k_(?:live|test)_{_WORD}{{10,}}"),
    _shape(
        "github-token", "gho_|ghp_|ghr_|ghs_|ghu_|github_pat_", rf"{_START}(?:gh[oprsu]_|github_pat_){_WORD}{{20,}}"
    ),
    _shape("gitlab-token", "glpat-", rf"{_START}glpat-{_WORD}{{16,}}"),
    _shape("aws-key", "AKIA|ASIA", rf"{_START}(?:AKIA|ASIA)[A-Z0-9]{{12,}}{_WORD}*"),
    _shape("slack-token", "xox|xapp-", rf"{_START}(?:xox[a-z]|xapp)-{_WORD}{{8,}}"),
    _shape("google-key", "AIza", rf"{_START}AIza{_WORD}{{30,}}"),
    _shape("package-token", "npm_|pypi-|hf_", rf"{_START}(?:npm_|pypi-|hf_){_WORD}{{30,}}"),
    _shape("jwt", "eyJ", rf"{_START}eyJ{_WORD}{{8,}}\.{_WORD}{{8,}}\.{_WORD}*"),
    _shape(
        "private-key",
        "PRIVATE KEY",
        r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^\"]{0,16384}?-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----|[^\"]{0,8192})",
    ),
    _shape(
        "authorization",
        "authorization|Authorization|AUTHORIZATION",
        rf"authorization{_QUOTES}(?:bearer|basic|token)[ \t]{{1,4}}({_BEARER}{{8,}})",
        re.IGNORECASE,
    ),
    _shape(
        "bearer",
        "bearer|Bearer|BEARER",
        rf"\bbearer[ \t]{{1,4}}(?={_BEARER}{{0,300}}[0-9])({_BEARER}{{12,}})",
        re.IGNORECASE,
    ),
    _shape(
        "api-key-header",
        "x-api-key|X-Api-Key|X-API-Key|X-API-KEY",
        rf"x-api-key{_QUOTES}({_BEARER}{{8,}})",
        re.IGNORECASE,
    ),
    _shape("url-password", "://", r"://[^\s/:@\"'<>\\]{1,100}:([^\s/@\"'<>\\]{3,200})@"),
)


# ---- undoing escapes -----------------------------------------------------


class _View(NamedTuple):
    """A text with its escapes undone, and a map from its places back to the original's."""

    text: str
    back: Callable[[int], int]


_JSON = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\[\"\\/bfnrt]"
_PERCENT = r"%[0-9a-fA-F]{2}"
_PLAIN = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _unjson(escape: str) -> str:
    if len(escape) == 12:  # noqa: PLR2004 - two halves of one character
        return chr(0x10000 + ((int(escape[2:6], 16) - 0xD800) << 10) + int(escape[8:12], 16) - 0xDC00)
    return chr(int(escape.removeprefix("\\u"), 16)) if escape[1] == "u" else _PLAIN.get(escape[1], escape[1])


def _unpercent(escape: str) -> str:
    """One byte, as the character of that number: values are searched for as bytes there."""
    return chr(int(escape[1:], 16))


def _undone(outer: _View, escapes: str, undo: Callable[[str], str]) -> _View:
    pieces: list[str] = []
    here, there = [0], [0]  # where each piece begins, undone and before
    length = at = 0
    for found in _compiled(escapes).finditer(outer.text):
        pieces += [outer.text[at : found.start()], undo(found[0])]
        length += found.start() - at
        here += [length, length + 1]
        there += [found.start(), found.end()]
        length, at = length + 1, found.end()
    pieces.append(outer.text[at:])

    def back(place: int) -> int:
        piece = bisect_right(here, place) - 1
        return outer.back(there[piece] + place - here[piece])

    return _View("".join(pieces), back)


def _views(text: str) -> Iterator[_View]:
    """The text as it is, with JSON escapes undone once and twice, and each of these with %41 undone."""
    view = _View(text, lambda place: place)
    for _ in range(3):
        yield view
        if "%" in view.text:
            yield _undone(view, _PERCENT, _unpercent)
        if "\\" not in view.text:
            return
        view = _undone(view, _JSON, _unjson)


# ---- secrets -------------------------------------------------------------------------------------


class Secrets:
    """Known secrets, each with a name for its place. Without any, keys are still found by their shapes."""

    def __init__(self, values: Iterable[tuple[str, str]] = (), certain: Iterable[str] = ()) -> None:
        """`certain`: values that are secrets in any case, and not only because a repository's file says so."""
        self._certain = frozenset(certain)
        named: dict[str, str] = {}
        for name, value in values:
            for part in (value, *(line.strip() for line in value.splitlines() if len(line.strip()) >= LINE)):
                if len(part.strip()) >= SHORT:
                    named.setdefault(part.strip(), re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:NAME_LENGTH] or "secret")
        self._values = {value: name for value, name in named.items() if len(value) >= LONG}
        self._names = {*named.values(), *(shape.name for shape in SHAPES), "key"}
        markers = [_marker(name) for name in self._names]
        # a value that is part of a marker can't be redacted
        kept = {value: name for value, name in named.items() if not any(value in marker for marker in markers)}
        forms = {form: name for value, name in kept.items() if len(value) >= LONG for form in _forms(value)}
        self._forms = sorted(forms.items(), key=lambda pair: -len(pair[0]))
        self._words = [
            (value, name, rf"(?<!\w){re.escape(value)}(?!\w)") for value, name in kept.items() if len(value) < LONG
        ]
        self._hints = hints(
            {
                *(form[:PREFIX] for form, _ in self._forms),
                *(value for value, *_ in self._words),
                *(anchor for shape in SHAPES for anchor in shape.anchors),
            }
        )

    def redact(self, text: str) -> str:
        """The text without secrets; the very same text where there are none."""
        if "\\" not in text and "%" not in text and not any(self._found(text)):
            return text
        while spans := self._spans(text):
            pieces, at = [], 0
            for start, end, name in spans:
                pieces += [text[at:start], _marker(name)]
                at = end
            text = "".join((*pieces, text[at:]))
        return text

    def sparing(self, *texts: str) -> Secrets:
        """Only the long secrets, for texts that are not prose; without those that are part of the given texts."""
        kept = ((name, value) for value, name in self._values.items() if not any(value in text for text in texts))
        return Secrets(kept, self._certain)

    def showing(self, texts: Iterable[str]) -> Secrets:
        """Without values that only a file calls secrets and that are part of these texts, which the user has to read.

        A repository brings files: a `.env` in a clone could hide what its `parley.toml` asks for.
        """
        shown = [*texts]
        kept = (
            (name, value)
            for value, name in self._values.items()
            if any(value in one for one in self._certain) or not any(value in text for text in shown)
        )
        return Secrets(kept, self._certain)

    def document(self, value: Any) -> Any:
        """A JSON value with every text in it redacted, keys too."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {self.document(key): self.document(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.document(item) for item in value]
        return value

    def _spans(self, text: str) -> list[Span]:
        """The spans to replace, in order and disjoint."""
        found = [
            (view.back(start), view.back(end), name)
            for view in _views(text)
            for start, end, name in self._found(view.text)
        ]
        if not found:
            return []
        markers = self._markers(text) if MARKED in text else []
        found = [span for span in found if not _inside(span, markers)]
        if not found:
            return []
        merged: list[Span] = []
        for start, end, name in sorted((*found, *markers)):
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]), merged[-1][2])
            else:
                merged.append((start, end, name))
        kept = set(markers)
        return [span for span in merged if span not in kept]

    def _found(self, text: str) -> Iterator[Span]:
        cut = CUT in text
        if not self._clear(text):  # the beginning of a secret, whole or cut, is there
            yield from self._whole(text)
            if cut:
                yield from self._begun(text)
        if cut:
            yield from self._ended(text)

    def _whole(self, text: str) -> Iterator[Span]:
        """The secrets that are there from their beginning to their end."""
        for form, name in self._forms:
            start = text.find(form)
            while start >= 0:
                yield start, start + len(form), name
                start = text.find(form, start + len(form))
        for value, name, pattern in self._words:
            if value in text:
                yield from ((found.start(), found.end(), name) for found in _compiled(pattern).finditer(text))
        for shape in SHAPES:
            if any(anchor in text for anchor in shape.anchors):
                for found in _compiled(shape.pattern, shape.flags).finditer(text):
                    yield (*found.span(found.re.groups), shape.name)

    def _begun(self, text: str) -> Iterator[Span]:
        """The secrets that a cut ends."""
        for found in _compiled(_BEGUN).finditer(text):
            yield (*found.span(), "key")
        for form, name in self._forms:
            start = text.find(form[:PREFIX])
            while start >= 0:
                cut = text.find(CUT, start, start + len(form))
                if cut >= 0 and form.startswith(text[start:cut]):
                    yield start, cut, name
                start = text.find(form[:PREFIX], start + 1)

    def _ended(self, text: str) -> Iterator[Span]:
        """The secrets that begin before a cut, of which their end is there."""
        for form, name in self._forms:
            end = text.find(form[-PREFIX:]) + PREFIX
            while end >= PREFIX:
                cut = text.rfind(CUT, max(0, end - len(form)), end)
                if cut >= 0 and form.endswith(text[cut + 1 : end]):
                    yield cut + 1, end, name
                end = text.find(form[-PREFIX:], end - PREFIX + 1) + PREFIX

    def _clear(self, text: str) -> bool:
        """Whether nothing in a text begins like a secret, as in nearly every text; every key of `_BEGUN` does."""
        for rare, only, pattern in self._hints:
            if rare in text and (only in text if only else _compiled(pattern).search(text)):
                return False
        return True

    def _markers(self, text: str) -> list[Span]:
        return [(m.start(), m.end(), m[1]) for m in _compiled(_MARKER).finditer(text) if m[1] in self._names]


MARKED = "[redacted "
_MARKER = rf"\[redacted ([A-Za-z0-9_.-]{{1,{NAME_LENGTH}}})\]"


def _marker(name: str) -> str:
    return f"{MARKED}{name}]"


def _inside(span: Span, markers: list[Span]) -> bool:
    """Whether a span lies within a marker; markers are in order and disjoint."""
    at = bisect_right(markers, (span[0], span[1] + 2 * NAME_LENGTH, "")) - 1
    return at >= 0 and markers[at][0] <= span[0] and span[1] <= markers[at][1]


def hints(beginnings: Iterable[str]) -> list[tuple[str, str, str]]:
    """Patterns that find each of the beginnings by its rarest character, grouped by that character.

    Most texts lack most of these characters, which is quick to see. A pattern that starts with one is tried only where
    it occurs; one pattern for all beginnings would be tried everywhere, and one for each would scan every text.
    """
    found: dict[str, list[str]] = {}
    for beginning in sorted(beginnings):
        rare = max(beginning, key=lambda letter: _COMMON.find(letter) % (len(_COMMON) + 1))
        found.setdefault(rare, []).append(beginning)
    return [
        (rare, those[0], "") if len(those) == 1 else (rare, "", _around(rare, those)) for rare, those in found.items()
    ]


_COMMON = '": etaoinsrhldcumpfgwybvkxjqz'  # the most common first; other characters are rarer


def _around(rare: str, those: list[str]) -> str:
    parts = (beginning.partition(rare) for beginning in those)
    sides = [rf"(?<={re.escape(before + rare)}){re.escape(behind)}" for before, _, behind in parts]
    return f"{re.escape(rare)}(?:{'|'.join(sides)})"


def _forms(value: str) -> Iterator[str]:
    """The forms in which a value may be written."""
    data = value.encode("utf-8", "surrogatepass")
    for plain in {value, data.decode("latin-1")}:  # as it is, and as percent-encoding has it
        yield from {plain, plain.replace(" ", "+")}
    yield from (data.hex(), data.hex().upper())
    for before in range(3):  # inside something longer it may begin at any of three offsets
        packed = base64.b64encode(bytes(before) + data).decode("ascii").rstrip("=")
        whole = packed[(0, 2, 3)[before] : len(packed) - (1 if (before + len(data)) % 3 else 0)]
        yield from {whole, whole.replace("+", "-").replace("/", "_")}
