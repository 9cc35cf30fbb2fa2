"""What a proof is asked for: commands, and how long each may take. Whoever wrote it is not trusted."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from parley.text import cut

SECONDS = 600.0  # that a command may take where nothing else is said
MOST_COMMANDS = 100
MOST_CHARACTERS = 50_000  # of all commands
_FORM = '{"commands": ["..."], "seconds": 600}'


class NoTask(Exception):
    """A message that asks for no proof: the text says what it should be."""


@dataclass(frozen=True, slots=True)
class Task:
    """Commands to be run, one after another."""

    commands: tuple[str, ...]
    seconds: float  # for each


def read_task(message: str) -> Task:
    """The task that a message holds; whatever the protocol has added behind it is not looked at."""
    try:
        told, _ = json.JSONDecoder().raw_decode(message.lstrip())
    except (ValueError, RecursionError) as error:
        raise NoTask(f"the message is no JSON; send {_FORM}") from error
    if not isinstance(told, dict):
        raise NoTask(f"the message is no JSON object; send {_FORM}")
    return Task(_commands(told.get("commands")), _seconds(told.get("seconds", SECONDS)))


def _commands(told: Any) -> tuple[str, ...]:
    if not isinstance(told, list) or not told or not all(isinstance(command, str) for command in told):
        raise NoTask(f"`commands` must be a list of texts, with one at least; send {_FORM}")
    if len(told) > MOST_COMMANDS or sum(map(len, told)) > MOST_CHARACTERS:
        raise NoTask(
            f"`commands` may be {MOST_COMMANDS} of {MOST_CHARACTERS} characters in all; put more into a script"
        )
    for command in told:
        if not command.strip():
            raise NoTask("a command is empty; leave it out")
        if "\0" in command or not _is_text(command):
            raise NoTask(f"no shell can be given the command {cut(command, 80)!a}; write it as plain text")
    return tuple(told)


def _is_text(command: str) -> bool:
    try:
        command.encode()
    except UnicodeEncodeError:
        return False
    return True


def _seconds(told: Any) -> float:
    if isinstance(told, bool) or not isinstance(told, int | float) or not math.isfinite(told) or told <= 0:
        raise NoTask(f"`seconds` must be a number above 0; send {_FORM}")
    return float(told)
