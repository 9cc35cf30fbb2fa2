"""The watch put together: the list first, and from there a job."""

from __future__ import annotations

from parley.faces.terminal.closeup import Closeup
from parley.faces.terminal.overview import Overview
from parley.faces.terminal.sight import Sight
from parley.faces.terminal.tty import Tty
from parley.faces.terminal.watch import Watch


def watch_all(sight: Sight) -> None:
    """Watch until the human leaves."""
    made, overview = _made(sight)
    with Tty() as tty:
        made.run(overview, tty)


def standing(sight: Sight, width: int) -> list[str]:
    """How things stand, as lines, where nothing can be drawn."""
    return _made(sight)[1].lines(width)


def _made(sight: Sight) -> tuple[Watch, Overview]:
    made = Watch(sight)
    return made, Overview(made, lambda job: Closeup(made, job))
