"""The glob patterns of a plan's ownership: parsing, matching, and whether two can match the same path.

A path is given from the root of the tree: names with `/` between them, none of them empty, `.` or `..`. Of a pattern:

- `*` stands for any run of characters of one name, also for none; `?` for any one character. A dot at the beginning
  of a name is a character like any other.
- `[abc]`, `[a-z]`, `[!a-z]`: one character of these, or any one but these. `]` comes first, `-` first or last.
- `**` as a whole name stands for any number of names, also for none; at the end of a pattern, for one at least.
- `{a,b}` makes two patterns of one, as in a shell; alternatives may hold a `/` or be empty, but no further braces.
- `db/` is `db/**`: everything below. A pattern whose last name is plain text, as in `db` or `src/api`, means
  that file, or that folder with everything below it, unless the name is plainly a file's: one with a dot behind its
  first character, as in `README.md`, or one of `FILES`. These, and last names with a wildcard, as in `src/*.py`,
  mean the paths that match and nothing below them.
- Everything else stands for itself; upper and lower case are different characters. To mean a character of the
  language, put it in a class: `[*]`, `[{]`, `[[]`.

Two patterns overlap if there is any path at all that both match, over all of Unicode. That is decided, not guessed:
see `overlap`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from typing import TypeAlias

from parley.workflow.paths.glob_automaton import GAP, fits, meet, tidy

LONGEST = 255  # characters of a pattern
MOST_EXPANDED = 1000  # characters of all that its braces make of it
LAST = 0x10FFFF
FILES = frozenset({
    "AUTHORS", "Brewfile", "CHANGELOG", "CODEOWNERS", "COPYING", "Containerfile", "Dockerfile", "GNUmakefile",
    "Gemfile", "INSTALL", "Jenkinsfile", "Justfile", "LICENSE", "Makefile", "NOTICE", "OWNERS", "Pipfile", "Procfile",
    "README", "Rakefile", "VERSION", "Vagrantfile",
})  # fmt: skip

Ranges: TypeAlias = tuple[tuple[int, int], ...]  # characters, as code points from and to, in order and apart
Row: TypeAlias = tuple[Ranges | None, ...]  # a name, with GAP for `*`


class MalformedPattern(ValueError):
    """Text that is not a pattern, or not a path. It says what to write instead."""


@dataclass(frozen=True, slots=True, eq=False)
class NamePattern:
    """One name of a pattern: what it takes, and the same without `.` and `..`, which are no names.

    There is one object for each row, so that it can be compared and looked up at once.
    """

    row: Row
    proper: tuple[Row, ...]
    plain: str = ""  # its text, if it has no wildcard


Way: TypeAlias = tuple[NamePattern | None, ...]  # a path, with GAP for `**`


# ---- the questions -------------------------------------------------------------------------------


def problem(pattern: str) -> str:
    """Why a text is not a pattern, and what to write instead; empty if it is one."""
    try:
        _ways(pattern)
    except MalformedPattern as fault:
        return str(fault)
    return ""


def path_problem(path: str) -> str:
    """Why a text is no path from the root of the tree; empty if it is one."""
    if not path or path.startswith("/"):
        return "name the path from the root of the tree, without a / at its beginning"
    if "\0" in path:
        return "no path has a NUL character in it"
    if any(name in {"", ".", ".."} for name in path.split("/")):
        return "name the path without empty names, . and .."
    return ""


def matches(pattern: str, path: str) -> bool:
    """Whether a path is one of those that the pattern means. What is no path matches nothing."""
    names = path.split("/")
    fit = any(names[: len(lead)] == lead and fits(way, names, _takes) for way, lead in _led(pattern))
    return fit and not path_problem(path)


def overlap(one: str, other: str) -> str | None:
    """A path that both patterns match, existing or not, or None if there is none."""
    for left, right in product(_ways(one), _ways(other)):
        names = meet(left, right, _common, _some)
        if names is not None:
            return "/".join(names)
    return None


def spelled(pattern: str) -> list[tuple[str, ...]]:
    """The names of each alternative of a pattern as plain text; empty for one with wildcards."""
    return [tuple(name.plain if name else "" for name in way) for way in _ways(pattern)]


def folders(pattern: str) -> list[str]:
    """The folders that a pattern spells out: all that one of its alternatives means lies below each of them."""
    found: dict[str, None] = {}
    for way in _ways(pattern):
        last = max(at for at, name in enumerate(way) if name is not GAP)  # a gap behind it may be nothing
        names = [_only(name) if name else "" for name in way[:last]]
        for count in range(1, (names.index("") if "" in names else last) + 1):
            found["/".join(names[:count])] = None
    return list(found)


def samples(pattern: str) -> list[str]:
    """Sample paths of every kind that a pattern matches: gaps of several lengths, and unusual characters."""
    return [
        path
        for way in _ways(pattern)
        for end, size, depth in product((0, -1), (0, 1, 3), (0, 1, 3))
        if not path_problem(path := "/".join(_sample(way, end, size, depth)))
    ]


def _sample(way: Way, end: int, size: int, depth: int) -> Iterator[str]:
    for name in way:
        row = (ANY,) if name is GAP else name.row
        for _ in range(depth if name is GAP else 1):
            yield "".join(chr(ANY[-1][-1]) * size if item is GAP else chr(item[end][end]) for item in row)


# ---- names ---------------------------------------------------------------------------------------


def _takes(name: NamePattern, text: str) -> bool:
    return name.plain == text if name.plain else fits(name.row, map(ord, text), _holds)


@lru_cache(maxsize=65536)
def _common(one: NamePattern, other: NamePattern) -> str | None:
    """A name that both take."""
    if one.plain:
        return one.plain if _takes(other, one.plain) else None
    if other.plain:
        return other.plain if _takes(one, other.plain) else None
    for row in one.proper:
        points = meet(row, other.row, _shared, _pick)
        if points is not None:
            return "".join(map(chr, points))
    return None


def _some(name: NamePattern) -> str:
    return _common(name, ANY_NAME) or ""


@lru_cache(maxsize=65536)
def _name(row: Row) -> NamePattern:
    return NamePattern(row, tuple(_proper(row)), _text(row))


def _text(row: Row) -> str:
    """The one text that a row takes; empty if it takes several."""
    text = "".join(chr(item[0][0]) for item in row if item is not GAP and _single(item))
    return text if len(text) == len(row) else ""


def _only(name: NamePattern) -> str:
    """The one name that is taken, also where it is one only because `.` and `..` are none; empty for several."""
    texts = {_text(row) for row in name.proper}
    return texts.pop() if len(texts) == 1 else ""


def _proper(row: Row) -> Iterator[Row]:
    """The rows that take together what `row` takes, but neither nothing nor `.` nor `..`."""
    if not any(fits(row, map(ord, text), _holds) for text in ("", ".", "..")):
        yield row
        return
    yield from _first(row, NO_DOT)
    for behind in _rest(row, DOT):
        yield from ((DOT, *more) for more in _first(behind, NO_DOT))
        for further in _rest(behind, DOT):
            yield from ((DOT, DOT, *more) for more in _first(further, ANY))


def _first(row: Row, wanted: Ranges) -> Iterator[Row]:
    """What begins with one of the wanted characters."""
    for behind, taken in _steps(row, wanted):
        yield (taken, *behind)


def _rest(row: Row, taken: Ranges) -> Iterator[Row]:
    """What may follow one of these characters."""
    for behind, _ in _steps(row, taken):
        yield behind


def _steps(row: Row, wanted: Ranges) -> Iterator[tuple[Row, Ranges]]:
    """Each way to take one of the wanted characters at the beginning: what is left, and which characters it may be."""
    if row and row[0] is GAP:
        yield row, wanted
        row = row[1:]
    if row and row[0] is not GAP:
        both = _both(row[0], wanted)
        if both:
            yield row[1:], both


# ---- sets of characters --------------------------------------------------------------------------


def _holds(ranges: Ranges, point: int) -> bool:
    return any(low <= point <= high for low, high in ranges)


def _single(ranges: Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]


def _both(one: Ranges, other: Ranges) -> Ranges:
    """What is in both sets."""
    found = []
    i = j = 0
    while i < len(one) and j < len(other):
        low, high = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if low <= high:
            found.append((low, high))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def _union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The set in its one form: in order, and apart."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


def _but(ranges: Ranges) -> Ranges:
    """All characters that a name can have, but these."""
    edges = [-1, *(edge for pair in ranges for edge in pair), LAST + 1]
    outside = tuple((low + 1, high - 1) for low, high in list(pairwise(edges))[::2] if low + 1 <= high - 1)
    return _both(outside, ANY)


def _shared(one: Ranges, other: Ranges) -> int | None:
    both = one if one == other else _both(one, other)
    return _pick(both) if both else None


@lru_cache(maxsize=4096)
def _pick(ranges: Ranges) -> int:
    """One character of a set, if possible one that a person would use in a name."""
    for char in LIKED:
        if _holds(ranges, ord(char)):
            return ord(char)
    printable = (
        point for low, high in ranges for point in range(low, min(high, low + 512) + 1) if chr(point).isprintable()
    )
    return next(printable, ranges[0][0])


LIKED = "xabcdefghijklmnopqrstuvwyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
ANY: Ranges = ((1, ord("/") - 1), (ord("/") + 1, LAST))
DOT: Ranges = ((ord("."), ord(".")),)
NO_DOT: Ranges = ((1, ord(".") - 1), (ord("/") + 1, LAST))
ANY_NAME = _name((GAP,))


# ---- reading a pattern ---------------------------------------------------------------------------

Atom: TypeAlias = Ranges | str | None  # characters; one of `/`, `{`, `,`, `}`; a gap


@lru_cache(maxsize=8192)
def _ways(pattern: str) -> tuple[Way, ...]:
    """The alternatives of a pattern: a path must match one of these."""
    if not pattern or pattern != pattern.strip():
        raise MalformedPattern("write a path or a pattern, without blanks around it")
    if len(pattern) > LONGEST:
        raise MalformedPattern(f"it has {len(pattern)} characters; {LONGEST} are the most, so split it into several")
    if not all(char.isprintable() for char in pattern):
        raise MalformedPattern("it has a character that can't be seen; write only what can be read")
    if unicodedata.normalize("NFC", pattern) != pattern:
        raise MalformedPattern(
            "its accents are written as characters of their own; write it in Unicode's composed form, NFC"
        )
    if pattern.startswith("/"):
        raise MalformedPattern("name it from the root of the tree, without a / at its beginning")
    if pattern.startswith("!"):
        raise MalformedPattern("patterns are not negated; list what is not to be touched under forbids")
    rows = _expanded(_atoms(pattern))
    if sum(map(len, rows)) > MOST_EXPANDED:
        raise MalformedPattern("its braces make too much of it; write several patterns")
    return tuple(dict.fromkeys(_way(row) for row in rows))


@lru_cache(maxsize=8192)
def _led(pattern: str) -> tuple[tuple[Way, list[str]], ...]:
    """Each alternative with its first plain names, which rule out most patterns quickly."""
    names = ((way, [name.plain if name else "" for name in way]) for way in _ways(pattern))
    return tuple((way, lead[: lead.index("")] if "" in lead else lead) for way, lead in names)


def _atoms(pattern: str) -> list[Atom]:
    atoms: list[Atom] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "[":
            ranges, at = _class(pattern, at)
            atoms.append(ranges)
            continue
        if char == "\\":
            raise MalformedPattern("names are separated by /, and a special character is put in brackets: [*]")
        if char == "*":
            atoms.append(GAP)
        elif char == "?":
            atoms.append(ANY)
        elif char in "/{,}":
            atoms.append(char)
        else:
            atoms.append(((ord(char), ord(char)),))
        at += 1
    return atoms


def _class(pattern: str, at: int) -> tuple[Ranges, int]:
    """The class that begins at a bracket, and where it ends."""
    begin = at + 1 + pattern.startswith("!", at + 1)
    end = pattern.find("]", begin + 1)
    inside = pattern[begin:end]
    if end < 0:
        raise MalformedPattern("a bracket is not closed; to mean the character, write [[]")
    if "/" in inside:
        raise MalformedPattern("a class stands for one character of a name and can't hold a /; use braces: {a,b/c}")
    if inside.startswith("^") or "[:" in inside:
        raise MalformedPattern("a class is written as [abc], [a-z] or [!a-z]")
    ranges = []
    place = 0
    while place < len(inside):
        low = high = inside[place]
        if inside[place + 1 : place + 2] == "-" and place + 2 < len(inside):
            high = inside[place + 2]
            place += 2
        if high < low:
            raise MalformedPattern(f"{low}-{high} is empty: a range goes from the lower character to the higher")
        ranges.append((ord(low), ord(high)))
        place += 1
    found = _union(ranges)
    found = _but(found) if begin > at + 1 else _both(found, ANY)
    if not found:
        raise MalformedPattern("a class matches no character at all")
    return found, end + 1


def _expanded(atoms: list[Atom]) -> list[list[Atom]]:
    """What the braces make of a pattern."""
    rows: list[list[Atom]] = [[]]
    choices: list[list[Atom]] | None = None
    for atom in atoms:
        if atom == "{":
            if choices is not None:
                raise MalformedPattern("braces within braces are not understood; write several patterns")
            choices = [[]]
        elif atom == "}":
            if choices is None or len(choices) == 1:
                raise MalformedPattern(
                    "braces hold two alternatives or more, as in {a,b}; to mean the character, write [}]"
                )
            rows = [[*row, *choice] for row in rows for choice in choices]
            choices = None
        elif atom == "," and choices is not None:
            choices.append([])
        else:
            here = ((ord(","), ord(",")),) if atom == "," else atom
            for row in rows if choices is None else choices[-1:]:
                row.append(here)
        if sum(map(len, rows)) > MOST_EXPANDED:
            raise MalformedPattern("its braces make too much of it; write several patterns")
    if choices is not None:
        raise MalformedPattern("a brace is not closed; to mean the character, write [{]")
    return rows


def _way(atoms: list[Atom]) -> Way:
    """One pattern without braces."""
    names: list[list[Ranges | None]] = [[]]
    for atom in atoms:
        if isinstance(atom, str):
            names.append([])
        else:
            names[-1].append(atom)
    if len(names) > 1 and not names[-1]:
        names[-1] = [GAP, GAP]
    way = [_name_of(name) for name in names]
    if way[-1] is GAP:
        way[-1:] = [GAP, ANY_NAME]  # something below, not the folder itself
    elif way[-1].plain and "." not in way[-1].plain[1:] and way[-1].plain not in FILES:
        way.append(GAP)
    return tidy(way)


def _name_of(row: list[Ranges | None]) -> NamePattern | None:
    if row == [GAP, GAP]:
        return GAP
    if not row:
        raise MalformedPattern("it has an empty name; put one / between two names, and none at its beginning")
    if any(one is GAP and other is GAP for one, other in pairwise(row)):
        raise MalformedPattern("** stands for whole names, as in src/**/x; within a name write *")
    name = _name(tuple(row))
    if name.plain in {".", ".."}:
        raise MalformedPattern("a path has no . and .. in it; name it from the root of the tree")
    if not name.proper:
        raise MalformedPattern("one of its names can match nothing but . or .., which are no names")
    return name
