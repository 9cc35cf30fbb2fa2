"""Reads a program's standard output: its final text, its session, its usage."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from parley.base.text import BadText, cut, last_of, lenient, read_json
from parley.runners.command import codex

TEXT_LIMIT = 256 * 1024  # characters of a final text; its end is kept
HEAD_LIMIT = 64 * 1024
LINE_LIMIT = 4 << 20
DEEPEST_EVENT = 64  # levels of one event; a tool's arguments may be deep
SHOWN = 2000
LIMITED = re.compile(
    r"\b(429|529|503)\b|rate.?limit|usage limit|too many requests|overloaded|at capacity|high demand", re.IGNORECASE
)
_AGAIN = re.compile(r"try again in (?:about )?(\d+(?:\.\d+)?) ?(ms|s|m|h)", re.IGNORECASE)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
PARK_SECONDS, LONGEST_PARK = 60.0, 6 * 3600.0


def parked(text: str, *, limited: bool = False) -> float:
    """How long a provider's limit asks to wait; 0 if neither the text nor the caller reports one."""
    if not limited and not LIMITED.search(text):
        return 0.0
    found = _AGAIN.search(text)
    return min(float(found[1]) * _UNITS[found[2].lower()], LONGEST_PARK) if found else PARK_SECONDS


def seconds_of(retry_after: str) -> float:
    """How long the header asks to wait; 0 if it gives a date, or nothing usable."""
    return min(float(retry_after), LONGEST_PARK) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", retry_after.strip()) else 0.0


class TextOutput:
    """Output that is the final text; a pattern may find the session in its beginning or its end."""

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern.encode()) if pattern else None
        self._head, self._said = bytearray(), bytearray()
        self.fault = ""

    def take(self, data: bytes) -> None:
        """Read output."""
        self._head += data[: HEAD_LIMIT - len(self._head)]
        self._said += data
        if len(self._said) > 8 * TEXT_LIMIT:
            del self._said[: -4 * TEXT_LIMIT]

    @property
    def session(self) -> str:
        """The session, if the pattern finds one: its first group, or all of it."""
        for said in (self._head, self._said):
            if self._pattern is not None and (found := self._pattern.search(said)):
                whole = found[1] if found.re.groups else found[0]
                return lenient(whole or b"")[:SHOWN]
        return ""

    def text(self) -> str:
        """The end of the output, at most TEXT_LIMIT characters."""
        return last_of(lenient(bytes(self._said)).strip(), TEXT_LIMIT)

    def usage(self, before: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
        """What the turn used, and what to remember of it."""
        return {"turns": 1}, {}


class CodexOutput:
    """The JSON events of `codex exec --json`. The last message is the final text."""

    def __init__(self, tell: Callable[[str, codex.CodexToolEvent | None], None]) -> None:
        self._tell = tell  # called with a progress line, and the tool's use that begins or is over
        self._rest = bytearray()
        self._skipping = False
        self._text = ""
        self._totals: dict[str, float] = {}
        self.session = ""
        self.fault = ""

    def take(self, data: bytes) -> None:
        """Read output line by line. Lines that are no Codex events are skipped."""
        self._rest += data
        *lines, rest = self._rest.split(b"\n")
        self._rest = rest
        for line in lines:
            if self._skipping:
                self._skipping = False
            else:
                self._line(bytes(line))
        if len(self._rest) > LINE_LIMIT:
            self._rest.clear()
            self._skipping = True

    def _line(self, line: bytes) -> None:
        try:
            event = read_json(line, LINE_LIMIT + LINE_LIMIT, deepest=DEEPEST_EVENT, mend=True)
        except BadText:
            return
        if not isinstance(event, dict):
            return
        self._event(event)
        said, using = codex.shown(event), codex.using(event)
        if said or using:
            self._tell(said, using._replace(use=cut(using.use, SHOWN)) if using else None)

    def _event(self, event: Mapping[str, Any]) -> None:
        item = event.get("item")
        match event.get("type"):
            case "thread.started":
                self.session = str(event.get("thread_id", ""))[:SHOWN]
            case "item.completed" if isinstance(item, dict) and item.get("type") == "agent_message":
                self._text = str(item.get("text", ""))
            case "turn.completed":
                self.fault = ""
                usage = event.get("usage")
                self._totals = _numbers(usage) if isinstance(usage, dict) else {}
            case "turn.failed":
                error = event.get("error")
                self.fault = str(error.get("message", "") if isinstance(error, dict) else error) or "its turn failed"
            case _:
                pass

    def text(self) -> str:
        """The last message."""
        return last_of(self._text, TEXT_LIMIT)

    def usage(self, before: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
        """What the turn used: Codex counts from the session's beginning, so earlier usage is subtracted."""
        spent = {key: max(0.0, value - before.get(key, 0.0)) for key, value in self._totals.items()}
        return {"turns": 1, **{key: value for key, value in spent.items() if value}}, self._totals


def _numbers(usage: Mapping[str, Any]) -> dict[str, float]:
    return {
        cut(str(key), 80): float(value)
        for key, value in list(usage.items())[:20]
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1 << 53
    }
