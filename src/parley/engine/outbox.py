"""The outbox: what a transaction asks of the world. Its effects are performed after the commit, and only then.

An effect is a value, and performing it twice does what performing it once does. So an owner that takes a job over puts
all that the last commits may have left undone into the same outbox (`recovery`), and nothing needs to be remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, ClassVar

from msgspec import Struct

from parley.engine.world import World
from parley.ports.notices import PutQuestion


class When(IntEnum):
    """The order in which one job's effects are performed."""

    TIDY = 0  # before any turn starts: a new turn may write to the same place
    START = 1
    RECORD = 2  # last: a record names a transaction whose effects are there to be seen


class Effect(Struct, frozen=True):
    """Something to be done in the world."""

    when: ClassVar[When] = When.TIDY


class CancelTurn(Effect, frozen=True):
    """End a turn and all its processes: the rules have taken its Run away."""

    turn: str


class RestoreWorkspace(Effect, frozen=True):
    """Put a workspace back to the tree that the bus names; `lost` names what is kept of what was there."""

    workspace: str
    lost: str


class AbandonWorkspace(Effect, frozen=True):
    """Keep what a turn that was cut short has written, and leave it there for the next turn."""

    workspace: str
    turn: str


class RetireWorkspace(Effect, frozen=True):
    """Keep a workspace's files under a ref, and take the folder away: its thread is closed."""

    workspace: str


class KeepOutcome(Effect, frozen=True):
    """Keep an outcome record as a file of the job's, and take it out of the workspace that it was left in."""

    name: str
    text: str
    workspace: str


class Notify(Effect, frozen=True):
    """Tell the human something, wherever they are. What was told once is not told again."""

    id: str
    occasion: str
    title: str
    text: str
    about: PutQuestion | None = None


class StartTurn(Effect, frozen=True):
    """Give a turn to its runner."""

    when: ClassVar[When] = When.START
    turn: str


class WriteRecord(Effect, frozen=True):
    """Write a state record as a file."""

    when: ClassVar[When] = When.RECORD
    record: str


class WriteAnchor(Effect, frozen=True):
    """Write where the bus stands beside the job's own state record: another process waits to read that."""

    when: ClassVar[When] = When.RECORD


Perform = Callable[[Any, World, Any], bool]
"""Performs an effect of a job; False: not yet, it stays in the outbox."""

Outbox = dict[Effect, None]
"""The effects of one job that wait for their commit, each once, in the order in which they were asked for."""


def in_order(outbox: Outbox) -> list[Effect]:
    """The effects in the order in which they are performed."""
    return sorted(outbox, key=lambda effect: effect.when)
