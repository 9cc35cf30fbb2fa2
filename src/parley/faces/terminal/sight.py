"""What a watch sees of the outside, and what it can have done there. It owns nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from parley.adapters.glance import Glimpse
from parley.engine.attention import Need
from parley.ports import Files, Store


@dataclass(frozen=True, slots=True)
class Exhibit:
    """What a gate is about: the file as it was put forward, and what has changed in it since the human saw it."""

    content: str = ""
    since: str = ""  # since when, in words; empty if they never saw it
    changed: str = ""


@dataclass(frozen=True, slots=True)
class Sight:
    """The bus and the jobs' files, without secrets, and commands that are run beside."""

    store: Store
    files: Files
    by: str  # who watches
    title: str  # where
    check: Callable[[], None]  # raises what is to be said if the bus is gone
    glance: Callable[[], list[Glimpse]]  # every job, oldest first, from their rows alone
    exhibit: Callable[[Need], Exhibit]  # what a gate is about
    diff: Callable[[str], str]  # what a job changed; empty if nothing yet
    command: Callable[[Sequence[str]], subprocess.Popen[str]]  # `parley` with these words
    go_on: Callable[[str, Sequence[str]], subprocess.Popen[bytes]]  # a process of its own that works on a job
