"""`parley tool`: calls a protocol tool from a program that Parley runs as an agent, inside a turn."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from parley.base.wording import advice
from parley.cli import FAILED, OK, CommandError
from parley.runners.command.tool_caller import LINE_LIMIT, CallRefused, call
from parley.runners.command.tool_schemas import TOOLS

OPTIONS = (
    "to", "thread", "files", "kind", "artifact", "verdict", "choice", "found", "would", "reason", "confidence",
)  # fmt: skip


def run(words: argparse.Namespace) -> int:
    """Call the tool and print its answer."""
    if words.tool not in TOOLS:
        raise CommandError(f"there is no tool {words.tool!r}; {advice(words.tool, TOOLS)}")
    arguments: dict[str, Any] = {name: value for name in OPTIONS if (value := getattr(words, name)) is not None}
    takes = TOOLS[words.tool][1]["properties"]
    for name in arguments:
        if name not in takes:
            raise CommandError(f"{words.tool} takes no --{name}; it takes: {', '.join(takes)}")
    if "text" in takes:
        arguments["text"] = _text(words.text)
    elif words.text and "thread" not in arguments:
        arguments["thread"] = words.text
    try:
        text, data = call(words.tool, arguments)
    except CallRefused as refused:
        raise CommandError(f"refused: {refused}", FAILED) from refused
    print(data.get("thread", text) if words.brief else text)
    return OK


def _text(given: str) -> str:
    """The words, or standard input for `-`."""
    if given != "-":
        return given
    text = sys.stdin.read(LINE_LIMIT + 1)
    if len(text) > LINE_LIMIT:
        raise CommandError(f"refused: the text has more than {LINE_LIMIT} characters; put it into a file", FAILED)
    return text
