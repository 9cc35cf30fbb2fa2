"""Streams: what each turn did, as lines of JSON in the job's files, for people and for what a crash left.

Lines are kept until there is nothing else to do, so that a busy engine writes them in bulk; only then are secrets taken
out of them, and texts cut. `views/work.py` reads them for people.

Every line has `time`, `turn` and `event`. The events, and what else their lines have:

- `start`: `agent`, `thread`, `message`
- `progress`: `text`, and `sign` where it tells of no work; of a tool's use also `tool` and `use`, and at its end
  `over`, `seconds`, `result` and `failed`; of a turn that begins on another host, its `host`
- `call`: a call of the protocol's that was accepted: `tool`, `call` (what it is about, in a few words), `result`
- `refused`: one that was not: `tool`, `why`
- `waits` (`reason`, `until`) and `goes on`: the turn waits for its provider
- `end` (`text`, `usage`) or `lost` (`fault`)
- `cut`: the stream is full
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct, ValidationError, convert

from parley.base.json_codec import encode
from parley.base.text import BadText, read_json, visible_json
from parley.engine.protocol_messages import excerpt
from parley.engine.turn.running_turn import CallNote
from parley.engine.world import World
from parley.ports.turns import Sign
from parley.protocol.molecules import Record, thread_kind, thread_name
from parley.roles.phases import PHASES

LINES_BUFFERED = 4096
LINES_A_STREAM = 16  # more where there are many streams, so that each is not opened for a line or two
LATE_SECONDS = 1.0  # that people who follow a stream wait for its lines, where the engine is busy
STREAMS_A_SECOND = 100  # that are opened for that; where there are more, people wait longer
LONGEST_LINE = 1 << 23  # characters
CALL_SHOWN = 80  # characters of what a call says


class Line(Struct, frozen=True):
    """One event of a turn."""

    time: float
    turn: str
    event: str
    said: Mapping[str, Any]
    cut: bool = False  # its text is shown as an excerpt
    call: CallNote | None = None


Lines = defaultdict[tuple[str, str], list[Line]]
"""What waits to be written, by job and stream."""


def are_late(lines: Lines, seconds: float) -> bool:
    """Whether lines have waited long enough, in an engine that always has something else to do."""
    return seconds >= max(LATE_SECONDS, len(lines) / STREAMS_A_SECOND)


def write(world: World, lines: Lines) -> None:
    """Write lines to their streams."""
    for (job, stream), waiting in lines.items():
        world.files.append(job, stream, [_text(world, line) for line in waiting])


def _text(world: World, line: Line) -> str:
    """A line as it is written: without secrets, and with nothing that a terminal would obey or take for its end."""
    redact, said = world.secrets.redact, dict(line.said)
    if line.cut:
        said["text"] = excerpt(redact(str(said["text"])))  # in this order: half a secret is one too
    if line.call is not None:
        said["call"] = about_call(world, line.call)
    own = encode({"time": line.time, "turn": line.turn, "event": line.event})
    return visible_json(f"{own[:-1]},{redact(encode(said)[1:])}")


def about_call(world: World, call: CallNote) -> str:
    """What an accepted call is about, on one line."""
    said = excerpt(world.secrets.redact(call.text), CALL_SHOWN)
    return f"{call.about}: {said}" if call.about and said else call.about or said


def deed(tool: str, about: str) -> str:
    """What an agent did, in words: the use of a tool, or what it said."""
    return f"{tool} {about}".strip()


def tells_of_work(sign: Sign, text: str) -> bool:
    """Whether a sign of life says more of what its agent does than the one before it."""
    return bool(text) and sign in (Sign.WORK, Sign.WRITING)


def stream_of(record: Record, thread: str) -> str:
    """The stream of a thread: one for each phase's lead, one for each other thread."""
    kind, name = thread_kind(thread), thread_name(thread)
    if kind == "state" and record.thread == thread and record.live:
        return PHASES[record.state].stream
    return f"streams/{kind}-{name.replace('/', '-')}.jsonl"


class ReadLine(Struct, frozen=True):
    """A line of a stream as it is read back: what its event does not say is empty."""

    time: float = 0.0
    turn: str = ""
    event: str = ""
    agent: str = ""  # of a turn that starts, with its thread
    thread: str = ""
    text: str = ""
    sign: Sign = Sign.WORK
    host: str = ""  # on which a turn begins
    call: str = ""  # what an accepted call is about
    tool: str = ""
    use: str = ""  # the id of a tool's use
    over: bool = False  # the use is over
    result: str = ""
    failed: bool = False
    seconds: float | None = None
    why: str = ""  # a call is refused
    reason: str = ""  # the turn waits
    fault: str = ""  # the turn is lost


def read_line(text: str) -> ReadLine | None:
    """What a line of a stream says; None where a crash has cut it off."""
    try:
        return convert(read_json(text, LONGEST_LINE, mend=True), ReadLine)
    except (BadText, ValidationError):
        return None


class Heard(NamedTuple):
    """What a turn's stream tells: when it was last heard of, the tool that it is in, and the last thing it did."""

    last: float = 0.0
    tool: str = ""
    said: str = ""
    waits: str = ""  # for a slot: what it says of that


def heard(lines: Iterable[str], turn: str) -> Heard:
    """Read the end of a stream."""
    last, said, waits, uses = 0.0, "", "", dict[str, str]()
    for text in lines:
        if turn not in text:  # the end of a stream has many turns, and to read a line takes long
            continue
        line = read_line(text)
        if line is None or line.turn != turn:
            continue
        last = max(last, line.time)
        if line.event == "progress" and line.tool:
            if line.over:
                uses.pop(line.use, None)
            else:
                uses[line.use] = line.tool
        if line.sign is Sign.QUEUE:
            waits = "" if line.over else line.text
        if line.event == "call":
            said = deed(line.tool, line.call)
        elif line.event == "progress" and tells_of_work(line.sign, line.text):
            said = deed(line.tool, line.text)
    return Heard(last, next(iter(uses.values()), ""), said, waits)
