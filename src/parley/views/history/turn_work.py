"""What the turns of a job did, turn by turn: where each lies in its stream, how much it is, and its events in pages.

A stream is read once, from where the last look ended, and only the head of each line is looked at; the events of one
turn are read when they are asked for. So a page that shows the last turns of a long job parses no others.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from parley.views.work import CHUNK, WorkEvent, events_between, redacted, streams_of

_HEAD = re.compile(rb'\{"time":([0-9.e+]{1,30}),"turn":"(t[0-9]{1,15})","event":"([a-z ]{1,12})"')
# What a line says is found without parsing it: a quotation mark inside of a text is escaped.
_OVER, _FAILED, _TEXT, _NO_TEXT = b'"over":true', b'"failed":true', b'"text":"', b'"text":""'
_WRITING, _QUEUE = b'"sign":"writing"', b'"sign":"queue"'
_TOOL, _USE = re.compile(rb'"tool":"([^"]+)"'), re.compile(rb'"use":"([^"]*)"')


@dataclass(slots=True)
class _Part:
    """Where a turn's lines lie in one stream, and what they add up to."""

    path: Path
    first: int
    end: int = 0
    uses: int = 0
    failed: int = 0
    says: int = 0
    last: float = 0.0
    over: bool = False
    open: dict[bytes, bytes] = field(default_factory=dict)  # the tools of the uses under way


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkCount:
    """How much a turn did, as far as its stream tells."""

    uses: int = 0  # of tools, the protocol's own among them, that are over
    failed: int = 0  # of these
    says: int = 0
    last: float = 0.0  # its last sign of life
    over: bool = False  # its stream has its end


NOTHING = WorkCount()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """Some of a turn's events. Each has a place of its own: `first` is that of the first."""

    events: tuple[WorkEvent, ...] = ()
    first: int = 0
    more: bool = False  # later ones are there


class TurnStreams:
    """The streams of a job, as far as they were looked at. One for a job is enough for all that look at it."""

    def __init__(self, folder: Path, redact: Callable[[str], str] = str) -> None:
        """`folder` is the job's. `redact` hides what became a secret after its stream was written."""
        self._folder, self._redact = folder, redact
        self._offsets: dict[Path, int] = {}
        self._parts: dict[tuple[Path, str], _Part] = {}

    def count(self, thread: str, turn: str) -> WorkCount:
        """How much a turn on a thread did until now."""
        parts = self._of(thread, turn)
        if not parts:
            return NOTHING
        return WorkCount(
            uses=sum(part.uses for part in parts),
            failed=sum(part.failed for part in parts),
            says=sum(part.says for part in parts),
            last=max(part.last for part in parts),
            over=any(part.over for part in parts),
        )

    def events(self, thread: str, turn: str, after: int = 0, limit: int = 200) -> EventPage:
        """A turn's events from a place on, at most so many; a later call with the next place goes on."""
        after, limit = max(0, after), max(0, limit)
        found = (
            event for part in self._of(thread, turn) for event in events_between(part.path, part.first, part.end, turn)
        )
        page = tuple(islice(found, after, after + limit + 1))
        shown = tuple(redacted(event, self._redact) for event in page[:limit])
        return EventPage(events=shown, first=after, more=len(page) > limit)

    def _of(self, thread: str, turn: str) -> list[_Part]:
        paths = streams_of(self._folder, thread)
        for path in paths:
            self._look(path)
        return [part for path in paths if (part := self._parts.get((path, turn))) is not None]

    def _look(self, path: Path) -> None:
        """Take in the whole lines that were added to a stream."""
        offset = self._offsets.get(path, 0)
        try:
            with path.open("rb") as file:
                if file.seek(0, 2) < offset:  # it was replaced
                    self._forget(path)
                    offset = 0
                file.seek(offset)
                rest = b""
                while data := file.read(CHUNK):
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        begin, offset = offset, offset + len(line) + 1
                        self._take(path, line, begin, offset)
        except OSError:
            return
        self._offsets[path] = offset

    def _forget(self, path: Path) -> None:
        self._parts = {key: part for key, part in self._parts.items() if key[0] != path}

    def _take(self, path: Path, line: bytes, begin: int, end: int) -> None:
        head = _HEAD.match(line) or _HEAD.search(line)  # not at its beginning: after half a line of a crash
        if head is None:
            return
        turn, event = head[2].decode(), head[3]
        part = self._parts.get((path, turn))
        if part is None:
            part = self._parts[path, turn] = _Part(path, begin)
        part.end = end
        part.last = max(part.last, _seconds(head[1]))
        _count(part, event, line)


def _count(part: _Part, event: bytes, line: bytes) -> None:
    """Count what a line tells, as `work` reads it."""
    tool = _TOOL.search(line)
    if event == b"progress" and tool is not None:
        use = _USE.search(line)
        name = use[1] if use is not None else b""
        if _QUEUE in line:
            return
        if _OVER not in line:
            part.open[name] = tool[1]
            return
        part.open.pop(name, None)
        part.uses += 1
        part.failed += _FAILED in line
    elif event == b"progress":
        part.says += _TEXT in line and _NO_TEXT not in line and _WRITING not in line
    elif event in (b"call", b"refused"):
        if tool is not None and tool[1] in part.open.values():
            return  # its agent reports it as a tool's use as well
        part.uses += 1
        part.failed += event == b"refused"
    elif event in (b"end", b"lost"):
        part.over = True
        part.open.clear()


def _seconds(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
