"""The lines that a scripted agent's process writes, read into values: one JSON object each, told apart by `line`."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from parley.base.text import read_json

DEEPEST_LINE = 64  # levels; the engine limits how deep a call's arguments may be


class CallLine(Struct, frozen=True, tag_field="line", tag="call"):
    """It calls a tool, and waits for the reply with this number."""

    number: int
    token: str
    tool: str
    args: dict[str, Any]


class ProgressLine(Struct, frozen=True, tag_field="line", tag="progress"):
    """What it does; with a tool, that its use begins or is over, what came of it, and whether it failed."""

    text: str
    tool: str = ""
    over: bool = False
    result: str = ""
    failed: bool = False
    pause: bool = False  # it waits as its rule says


class MayLine(Struct, frozen=True, tag_field="line", tag="may"):
    """It asks whether it may write a path of the workspace, and waits for the reply with this number."""

    number: int
    path: str


class CrashLine(Struct, frozen=True, tag_field="line", tag="crash"):
    """It is about to die as its rule says: what its next try must know."""

    handle: dict[str, Any]


class EndLine(Struct, frozen=True, tag_field="line", tag="end"):
    """Its turn is over. The report is read apart: one that is malformed costs the turn, with words of its own."""

    report: Any


AgentLine = CallLine | ProgressLine | MayLine | CrashLine | EndLine


class EndReport(Struct, frozen=True):
    """What the end of a turn says."""

    text: str = ""
    handle: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None  # a number that is too large is null
    refusals: list[str] | None = None


class MalformedLine(ValueError):
    """A line, or the report in one, is not what an agent's process writes."""


def read_line(line: bytes, most: int) -> AgentLine:
    """Read a line of at most so many bytes; MalformedLine otherwise."""
    try:
        said: AgentLine = msgspec.convert(read_json(line, most, deepest=DEEPEST_LINE, mend=True), AgentLine)
    except (ValueError, msgspec.ValidationError) as error:
        raise MalformedLine(str(error)) from error
    return said


def read_report(line: EndLine) -> EndReport:
    """Read the report of a turn's end; MalformedLine if it is none."""
    try:
        return msgspec.convert(line.report, EndReport)
    except msgspec.ValidationError as error:
        raise MalformedLine(str(error)) from error
