"""Checks and bounds untrusted text and JSON: every byte from an agent, a program or a file passes here first.

The result has no NUL and no lone surrogate, has at most the requested length, and can be written to the bus, to a file
and to a terminal.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

CUT_MARK = "…"  # the mark of every cut: half of a secret beside it is redacted
LOST = "\ufffd"  # replaces NUL and lone surrogates
DEEPEST = 32  # levels of JSON by default
_SHOWN = 40
_MOST_DIGITS = 20  # of an integer: those of 64 bits, with a sign
INTEGERS = range(-(2**63), 2**63)
_STRUCTURE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{\]}]', re.DOTALL)
_NO_CHARACTER = re.compile("[\0\ud800-\udfff]")
_ESCAPED = re.compile(r"\\u(?:[dD][89a-fA-F]|0000)")  # may be half of a surrogate pair, or NUL
# Invisible although Python calls them printable: fillers, joiners, and selectors that can hide whole messages.
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\U000e0100-\U000e01ef]")
# Combining marks above and below a letter: more than four in a row are escaped, or they would cover other lines.
_STACKED = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u1ab0-\u1aff"
    "\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f"
)
_FLOOD = re.compile(f"(?<=[{_STACKED}]{{4}})[{_STACKED}]+")
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_NAME_ESCAPE = re.compile(r"\\(?:\\|n|t|r|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")


class BadText(ValueError):
    """What is wrong with a text, what to do about it, and the line (0: none)."""

    def __init__(self, problem: str, remedy: str, line: int = 0) -> None:
        super().__init__(problem)
        self.remedy = remedy
        self.line = line


# ---- text ------------------------------------------------------------------------------------------------------------


def check(text: str, most: int, name: str = "it") -> str:
    """A text of at most so many characters, without NUL and lone surrogates; BadText, by its name, otherwise."""
    if len(text) > most:
        raise BadText(f"{name} has {len(text)} characters", f"keep it within {most}")
    if not _is_plain_ascii(text) and (found := _NO_CHARACTER.search(text)):
        what = "a NUL character" if found[0] == "\0" else "half of a surrogate pair"
        raise BadText(f"{name} has {what}", "write the character itself", text.count("\n", 0, found.start()) + 1)
    return text


def decode(data: bytes, most: int) -> str:
    """Decode at most so many bytes of UTF-8; BadText otherwise."""
    if len(data) > most:
        raise BadText(f"it has {len(data)} bytes", f"keep it within {most}")
    try:
        return check(data.decode("utf-8"), most)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadText(f"it is not UTF-8 (byte {error.start + 1})", "write it as UTF-8", line) from None


def mended(text: str) -> str:
    """A text with each NUL and lone surrogate replaced."""
    return text if _is_plain_ascii(text) else _NO_CHARACTER.sub(LOST, text)


def _is_plain_ascii(text: str) -> bool:
    """Whether a text is of ASCII without NUL, which is seen at once."""
    return text.isascii() and "\0" not in text


def fit(text: str, most: int) -> str:
    """A mended text, cut where it is too long, with its whole length."""
    text = mended(text)
    return text if len(text) <= most else f"{text[:most]}{CUT_MARK} ({len(text)} characters in all)"


def cut(text: str, most: int) -> str:
    """A text, cut with the mark where it is too long, so that half of a secret at its end is redacted."""
    return text if len(text) <= most else f"{text[: most - 1]}{CUT_MARK}"


def last_of(text: str, most: int) -> str:
    """The end of a text that is too long, with the same mark before it."""
    return text if len(text) <= most else f"{CUT_MARK}{text[1 - most :]}"


def last_bytes(data: bytes, most: int) -> bytes:
    """The same for bytes that are no text yet."""
    mark = CUT_MARK.encode()
    return data if len(data) <= most else mark + data[len(mark) - most :]


SAID = 120  # characters of an agent's text in a notice


def inert(text: str, most: int = SAID) -> str:
    """The beginning of an agent's text on one line, with nothing in it that a service would act on.

    It has no working link, mention, markup or control character. Redact it before: half a secret is one too.
    """
    shown = printable(cut(" ".join(text.split()), most))
    return re.sub(r"[<>`*_\[\]|@#\\]", " ", shown.replace("://", ": //")).strip()


def lenient(data: bytes) -> str:
    """Any bytes as text; a replacement mark stands for what can't be decoded."""
    return mended(data.decode("utf-8", "replace"))


# ---- JSON ------------------------------------------------------------------------------------------------------------


def read_json(source: str | bytes, most: int, *, deepest: int = DEEPEST, mend: bool = False) -> Any:
    """The value of a JSON text of so many characters (or bytes) at most; BadText otherwise.

    Besides malformed JSON it refuses: too deep nesting, checked before parsing, so that the stack can't overflow;
    numbers that are not finite, and integers beyond 64 bits; duplicate keys; NUL and lone surrogates, escaped ones
    too. `mend`: for streams, whose writer can't correct them: there a mark replaces NUL and lone surrogates, null a
    number that is too large, and the last of duplicate keys counts.
    """
    if len(source) > most:
        unit = "bytes" if isinstance(source, bytes) else "characters"
        raise BadText(f"it has {len(source)} {unit}", f"keep it within {most}")
    if isinstance(source, bytes):
        text = lenient(source) if mend else decode(source, most)
    else:
        text = mended(source) if mend else check(source, most)
    text = text.removeprefix("\ufeff")  # a byte order mark
    _refuse_deep(text, deepest)
    try:
        value = json.loads(text, **(_LENIENT if mend else _STRICT))
    except json.JSONDecodeError as error:
        problem = f"this is not JSON ({error.msg}, column {error.colno})"
        raise BadText(problem, "correct it", error.lineno) from None
    if _ESCAPED.search(text):
        value = _each(value, mended if mend else lambda one: check(one, most))
    return value


def check_value(value: Any, most: int, *, deepest: int = DEEPEST, values: int = 100_000) -> None:
    """The same for a parsed value: BadText where JSON can't hold it, or it is too large.

    It goes level by level, so that the stack can't overflow.
    """
    left, level, depth = values, [value], 0
    while level:
        if depth > deepest:
            raise BadText(f"it is nested deeper than {deepest} levels", "make it flatter")
        left -= len(level)
        if left < 0:
            raise BadText(f"it has more than {values} values", "make it smaller")
        below: list[Any] = []
        for one in level:
            if isinstance(one, str):
                check(one, most)
            elif isinstance(one, Mapping):
                below += [*one.keys(), *one.values()]
                if not all(isinstance(key, str) for key in one):
                    raise BadText("it has a key that is no text", "give each key as a text")
            elif isinstance(one, list | tuple):
                below += one
            else:
                _check_number(one)
        level, depth = below, depth + 1


def _check_number(value: Any) -> None:
    if value is None or isinstance(value, bool):
        return
    if not isinstance(value, int | float):
        raise BadText(f"it has a value of the kind {type(value).__name__}", "write it as JSON has it")
    if isinstance(value, float) and not math.isfinite(value):
        raise BadText("it has a number that is not finite", "write it as JSON has it")
    if isinstance(value, int) and value not in INTEGERS:
        raise BadText("it has too large a number", "write a smaller one")


def _refuse_deep(text: str, deepest: int) -> None:
    depth = 0
    for token in _STRUCTURE.finditer(text):
        mark = token[0][0]
        if mark == '"':
            continue
        depth += 1 if mark in "[{" else -1
        if depth > deepest:
            line = text.count("\n", 0, token.start()) + 1
            raise BadText(f"it is nested deeper than {deepest} levels", "make it flatter", line)


def _each(value: Any, change: Callable[[str], str]) -> Any:
    """A value with each of its texts changed, keys too; its depth was checked before."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _each(item, change) for key, item in value.items()}
    return [_each(item, change) for item in value] if isinstance(value, list) else value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            shown = json.dumps(cut(key, _SHOWN))
            raise BadText(f"the key {shown} is given twice in one object", "leave one of them out")
        found[key] = value
    return found


def _constant(word: str) -> NoReturn:
    raise BadText(f"{word} is not a number of JSON", "write a finite number")


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS or (number := int(digits)) not in INTEGERS:
        raise BadText(f"{cut(digits, _SHOWN)} is too large a number", "write a smaller one")
    return number


def _float(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise BadText(f"{cut(digits, _SHOWN)} is too large a number", "write a smaller one")
    return number


def _or_null(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def lenient_read(digits: str) -> Any:
        try:
            return read(digits)
        except BadText:
            return None

    return lenient_read


# What JSON's readers do with numbers: BadText where one is not finite, or beyond 64 bits.
NUMBERS: dict[str, Any] = {"parse_constant": _constant, "parse_int": _integer, "parse_float": _float}
_STRICT: dict[str, Any] = {"object_pairs_hook": _object, **NUMBERS}
_LENIENT = {name: _or_null(read) for name, read in NUMBERS.items()}


# ---- what people see -------------------------------------------------------------------------------------------------


def printable(text: str) -> str:
    """A text on one line with everything escaped that a terminal would obey, hide or reverse."""
    return text if _is_plain(text) else _drained("".join(map(_shown, text)))


def safe_lines(text: str) -> str:
    """The same for a text of several lines: line ends and tabs stay."""
    text = text.replace("\r\n", "\n")
    if _is_plain(text.replace("\n", "").replace("\t", "")):
        return text
    return _drained("".join(char if char in "\n\t" else _shown(char) for char in text))


def visible_json(text: str) -> str:
    """A JSON text of the same value, with everything JSON-escaped that `printable` would escape."""
    if _is_plain(text.replace("\n", "")):
        return text
    kept = "".join(char if char == "\n" or _is_plain(char) else _json_escape(char) for char in text)
    return _FLOOD.sub(lambda found: "".join(map(_json_escape, found[0])), kept)


def _json_escape(char: str) -> str:
    return json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f"


def _is_plain(text: str) -> bool:
    if not text.isprintable():
        return False
    if text.isascii() or text.replace(CUT_MARK, "").isascii():  # nearly every text is, but for the mark of a cut
        return True
    return not (_INVISIBLE.search(text) or _FLOOD.search(text))


def _drained(text: str) -> str:
    return text if text.isascii() else _FLOOD.sub(lambda found: "".join(map(_escaped, found[0])), text)


def _shown(char: str) -> str:
    return char if char.isprintable() and not _INVISIBLE.match(char) else _escaped(char)


def _escaped(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    point = ord(char)
    if 0xDC80 <= point <= 0xDCFF:  # noqa: PLR2004 - a byte that is not UTF-8, as Python carries it in names
        return f"\\x{point - 0xDC00:02x}"
    if point > 0xFFFF:  # noqa: PLR2004 - beyond four digits
        return f"\\U{point:08x}"
    return f"\\u{point:04x}" if point > 0x7F else f"\\x{point:02x}"  # noqa: PLR2004 - beyond: \x is a byte's


def name_text(name: bytes | str) -> str:
    """A file's name, or a path, as text that can be written anywhere and taken back by `name_bytes`.

    Names are bytes. A str is taken as the system's calls give it, with a surrogate for each byte that is no UTF-8.
    """
    text = name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else name
    return printable(text.replace("\\", "\\\\"))


def name_bytes(text: str) -> bytes:
    """The name that `name_text` made the text of."""
    return b"".join(_unescaped(piece) for piece in re.split(f"({_NAME_ESCAPE.pattern})", text))


def _unescaped(piece: str) -> bytes:
    if not _NAME_ESCAPE.fullmatch(piece):
        return piece.encode("utf-8", "surrogateescape")
    kind, digits = piece[1], piece[2:]
    if kind == "x":
        return bytes.fromhex(digits)
    if kind in "uU":
        return chr(int(digits, 16)).encode("utf-8", "surrogatepass")
    return {"\\": b"\\", "n": b"\n", "t": b"\t", "r": b"\r"}[kind]
