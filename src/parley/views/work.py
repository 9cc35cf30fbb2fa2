"""What agents did: their tool calls with the results, their words, and the ends of their turns, read from the streams.

A `WorkFollower` reads a job's streams on and on, like `chronicle.Follower` reads its log::

    follower = WorkFollower(JobFiles(home).home(job))  # the whole job, from the beginning
    follower = WorkFollower(folder, thread="dispatch:x1")  # one thread of it
    follower = WorkFollower(folder, agent="coder", last_bytes=1 << 18)  # one agent's, and only the ends of streams

    events = follower.read()  # what there is
    events = follower.read()  # later: what was added since

Each `WorkEvent` is one thing that happened. A tool's use is two of them, a USE when it begins and a RESULT when it is
over, with the same `turn` and `use`; a RESULT has the words of its USE again, so that it can be shown alone. A use
without a result is under way, or its turn was lost. Some uses have only a RESULT: calls of the protocol's by agents
that report nothing else, and what takes no time. Texts are redacted, but have to be escaped for a terminal.

Streams are files that another process writes. They may be missing, grow while they are read, or end in half a line
after a crash; a line that can't be read is skipped.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from parley.base.text import lenient
from parley.engine.files.streams import ReadLine, read_line
from parley.ports.turns import Sign
from parley.protocol.molecules import thread_kind
from parley.roles.phases import PHASES

CHUNK = 1 << 18  # bytes that are read of a stream at a time
_HEAD = '{"time":'  # how every line begins; a quotation mark inside of a text is escaped
_START, _ON_HOST = b'"event":"start"', b'"host":"'
_NAMED_THREADS = ("dispatch", "escalation")  # kinds of threads whose streams have their names
_THREAD = re.compile(r"(job|state|dispatch|escalation):[A-Za-z0-9._/-]{1,200}")  # as Parley names them


class WorkKind(StrEnum):
    """What a turn did."""

    START = "start"  # it began
    SAYS = "says"  # the agent's own words, in mid-turn
    USE = "use"  # a tool's use begins
    RESULT = "result"  # a tool's use is over
    WAITS = "waits"  # for its provider or for a free slot
    GOES_ON = "goes on"
    END = "end"  # `words` is how its final text begins
    LOST = "lost"  # `words` is why
    CUT = "cut"  # the stream is full, and has nothing of what came later


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkEvent:
    """One thing that an agent did in a turn."""

    time: float
    turn: str
    agent: str  # empty where a crash has taken the line that says who it was; `thread` likewise
    thread: str
    kind: WorkKind
    tool: str = ""
    use: str = ""  # which use of the tool
    words: str = ""  # what it is about
    result: str = ""  # how the result begins; it may have several lines
    failed: bool = False
    seconds: float | None = None  # how long a tool's use took; None where that is not known
    host: str = ""  # where the turn runs, once it does, if that is another host

    def document(self) -> dict[str, Any]:
        """The event as `--json` gives it."""
        return {
            "time": self.time,
            "turn": self.turn,
            "agent": self.agent or None,
            "thread": self.thread or None,
            "kind": self.kind.value,
            "tool": self.tool or None,
            "use": self.use or None,
            "words": self.words,
            "result": self.result,
            "failed": self.failed,
            "seconds": self.seconds,
            "host": self.host or None,
        }


class WorkFollower:
    """Reads what a job's agents did on and on: each call gives what was added since the last."""

    def __init__(
        self,
        folder: Path,
        *,
        thread: str = "",
        agent: str = "",
        last_bytes: int | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        """`folder` is the job's. `last_bytes`: of each stream that is there now, no more than its end is read.

        `redact` hides what became a secret after its stream was written.
        """
        self._folder, self._thread, self._agent, self._last_bytes = folder, thread, agent, last_bytes
        self._redact = redact
        self._streams: dict[str, _Stream] = {}
        self.left_out = False  # whether earlier events were left out, by `last_bytes`

    def read(self) -> list[WorkEvent]:
        """What is new, in the order in which it happened."""
        return list(self.events())

    def events(self) -> Iterator[WorkEvent]:
        """The same one by one, without all of it in memory. Go to its end, or what was looked at ahead is lost."""
        self._look()
        new = (stream.events() for stream in self._streams.values())
        for event in heapq.merge(*new, key=attrgetter("time")):
            if self._thread in ("", event.thread) and self._agent in ("", event.agent):
                yield redacted(event, self._redact)

    def _look(self) -> None:
        """Find the streams that have come since."""
        for path in self._paths():
            if path.name not in self._streams:
                stream = self._streams[path.name] = _Stream(path)
                if self._last_bytes is not None:
                    self.left_out |= stream.skip_to_end(self._last_bytes)
        self._last_bytes = None  # a stream that comes later is read from its beginning

    def _paths(self) -> list[Path]:
        if self._thread:
            return streams_of(self._folder, self._thread)
        phases = [self._folder / phase.stream for phase in PHASES.values()]
        return [*phases, *sorted((self._folder / "streams").glob("*.jsonl"))]


def redacted(event: WorkEvent, redact: Callable[[str], str]) -> WorkEvent:
    """An event without secrets: the stream has it without those that were known when it was written."""
    words, result = redact(event.words), redact(event.result)
    same = words is event.words and result is event.result
    return event if same else replace(event, words=words, result=result)


def streams_of(folder: Path, thread: str) -> list[Path]:
    """The files that may have lines of a thread's turns, there or not; none for what is no thread's name."""
    if not _THREAD.fullmatch(thread):
        return []
    named = folder / "streams" / f"{thread.replace(':', '-').replace('/', '-')}.jsonl"
    if thread_kind(thread) in _NAMED_THREADS:
        return [named]
    return [*(folder / phase.stream for phase in PHASES.values()), named]


def events_between(path: Path, first: int, end: int, turn: str) -> Iterator[WorkEvent]:
    """What one turn did, from the part of a stream that begins and ends at these bytes."""
    stream = _Stream(path, offset=first)
    for event in stream.events():
        if stream.offset > end:
            return
        if event.turn == turn:
            yield event


class _Whose(NamedTuple):
    agent: str = ""
    thread: str = ""
    host: str = ""


class _Use(NamedTuple):
    tool: str
    words: str


@dataclass(slots=True)
class _Stream:
    """One stream, as far as it was read."""

    path: Path
    offset: int = 0
    turns: dict[str, _Whose] = field(default_factory=dict)
    uses: dict[tuple[str, str], _Use] = field(default_factory=dict)  # those under way, by turn and use

    def skip_to_end(self, most: int) -> bool:
        """Leave out all but the last bytes, and read only whose turns those are that are left out."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, 2)
                if size <= most:
                    return False
                file.seek(0)
                while file.tell() < size - most:
                    line = file.readline()
                    if (_START in line or _ON_HOST in line) and (read := read_line(lenient(line))) is not None:
                        self._note(read)
                self.offset = file.tell()
        except OSError:
            return False
        return True

    def events(self) -> Iterator[WorkEvent]:
        """What was added since the last call."""
        for text in self._lines():
            line = read_line(text) or read_line(text[max(0, text.rfind(_HEAD)) :])  # after half a line of a crash
            event = self._event(line) if line is not None else None
            if event is not None:
                yield event

    def _lines(self) -> Iterator[str]:
        """The whole lines that were added. Each file is open only while a part of it is read: there may be many."""
        while data := self._part():
            for line in data[:-1].split(b"\n"):
                self.offset += len(line) + 1
                yield lenient(line)

    def _part(self) -> bytes:
        """The next whole lines; nothing where there are none yet."""
        try:
            with self.path.open("rb") as file:
                if file.seek(0, 2) < self.offset:  # it was replaced
                    self.offset = 0
                file.seek(self.offset)
                data = file.read(CHUNK)
                return data[: data.rfind(b"\n") + 1] or _whole(data + file.readline())
        except OSError:
            return b""

    def _note(self, line: ReadLine) -> None:
        """Keep whose turn it is that starts, or where one begins."""
        if line.event == "start":
            self.turns[line.turn] = _Whose(line.agent, line.thread)
        elif line.host:
            self.turns[line.turn] = self._whose(line.turn)._replace(host=line.host)

    def _whose(self, turn: str) -> _Whose:
        kind, _, name = self.path.stem.partition("-")
        return self.turns.get(turn) or _Whose("", f"{kind}:{name}" if kind in _NAMED_THREADS else "")

    def _event(self, line: ReadLine) -> WorkEvent | None:
        match line.event:
            case "start":
                self._note(line)
                return self._made(line, WorkKind.START)
            case "progress" if line.tool:
                return self._of_tool(line)
            case "progress" if line.text and line.sign is not Sign.WRITING:
                return self._made(line, WorkKind.SAYS, words=line.text)
            case "call" | "refused":
                return self._of_call(line)
            case "waits":
                return self._made(line, WorkKind.WAITS, words=line.reason)
            case "goes on":
                return self._made(line, WorkKind.GOES_ON)
            case "end" | "lost" | "cut" as event:
                self.uses = {key: use for key, use in self.uses.items() if key[0] != line.turn}
                said = line.fault if event == "lost" else line.text
                return self._made(line, WorkKind(event), words=said, failed=event == "lost")
            case _:
                return None

    def _of_tool(self, line: ReadLine) -> WorkEvent:
        tool, use, words = line.tool, line.use, line.text
        if line.sign is Sign.QUEUE:
            self._note(line)
            return self._made(line, WorkKind.GOES_ON if line.over else WorkKind.WAITS, words=line.text)
        if not line.over:
            self.uses[line.turn, use] = _Use(tool, words)
            return self._made(line, WorkKind.USE, tool=tool, use=use, words=words)
        begun = self.uses.pop((line.turn, use), None)
        return self._made(
            line,
            WorkKind.RESULT,
            tool=tool,
            use=use,
            words=begun.words if begun is not None else words,
            result=line.result,
            failed=line.failed,
            seconds=line.seconds,
        )

    def _of_call(self, line: ReadLine) -> WorkEvent | None:
        """A call of the protocol's: a RESULT of its own, unless its agent reports it as a tool's use as well."""
        tool, refused = line.tool, line.event == "refused"
        words = line.call
        for key, use in self.uses.items():
            if key[0] == line.turn and use.tool == tool:
                self.uses[key] = _Use(tool, words or use.words)  # the engine's words say more
                return None
        result = line.why if refused else line.result
        return self._made(line, WorkKind.RESULT, tool=tool, words=words, result=result, failed=refused)

    def _made(self, line: ReadLine, kind: WorkKind, **said: Any) -> WorkEvent:
        whose = self._whose(line.turn)
        return WorkEvent(
            time=line.time, turn=line.turn, agent=whose.agent, thread=whose.thread, host=whose.host, kind=kind, **said
        )


def _whole(line: bytes) -> bytes:
    return line if line.endswith(b"\n") else b""
