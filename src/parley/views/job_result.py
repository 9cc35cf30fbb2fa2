"""What a job that is done hands over: what it changed, what it cost, and what was assumed on the way."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from parley.bus.store import Store
from parley.engine.protocol_messages import excerpt
from parley.engine.values import step_extra
from parley.ports.workspaces import Change, Workspace
from parley.protocol.states import State
from parley.roles.phases import PHASES
from parley.views.job_view import past

SUMMARY = PHASES[State.EXECUTE].artifact
SUMMARY_BYTES = 256 * 1024
MOST, LONGEST = 50, 300  # assumptions that are told, and characters of each
_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_BULLET = re.compile(r"([-*+]|\d{1,3}[.)])\s+(.*)")
_NOTHING = re.compile(r"(none|nothing|n/a|-)[.!]?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Delivery:
    """The result of a job."""

    changes: tuple[Change, ...]
    cost: Mapping[str, float]
    assumptions: tuple[str, ...]

    @property
    def added(self) -> int:
        """How many lines were added."""
        return sum(one.added or 0 for one in self.changes)

    @property
    def removed(self) -> int:
        """How many lines were removed."""
        return sum(one.removed or 0 for one in self.changes)

    def document(self) -> dict[str, Any]:
        """The delivery as `--json` gives it."""
        return {
            "changes": [{"path": one.path, "added": one.added, "removed": one.removed} for one in self.changes],
            "added": self.added,
            "removed": self.removed,
            "obeyed": [{"path": one.path, "by": one.obeyed} for one in self.changes if one.obeyed],
            "unportable": [{"path": one.path, "why": one.unportable.why} for one in self.changes if one.unportable],
            "cost": dict(self.cost),
            "assumptions": list(self.assumptions),
        }


def delivery(store: Store, workspace: Workspace, job: str, work: Path, redact: Callable[[str], str] = str) -> Delivery:
    """What a job hands over. `work` is the folder of its own tree; nothing in it is trusted."""
    found = tuple(assumptions(redact(_text(work / SUMMARY)))) or tuple(_noted(store, job))
    changes = tuple(redacted_change(one, redact) for one in workspace.changes(job))
    return Delivery(changes, past(store, job).usage, found[:MOST])


def redacted_change(change: Change, redact: Callable[[str], str]) -> Change:
    """A change without secrets in its path."""
    odd = change.unportable
    return replace(change, path=redact(change.path), unportable=odd and odd._replace(why=redact(odd.why)))


def assumptions(summary: str) -> Iterator[str]:
    """What stands under the heading `Assumptions`: each item of its lists, or each paragraph, on one line."""
    level, fenced, open_ = 0, False, list[str]()
    for line in (*summary.splitlines(), ""):
        bare = line.strip()
        fenced ^= bare.startswith(("```", "~~~"))
        heading = None if fenced else _HEADING.fullmatch(bare)
        bullet = _BULLET.fullmatch(bare)
        if (heading or bullet or not bare) and open_:
            yield from _item(open_)
            open_ = []
        if heading:
            depth = len(heading[1])
            if not level and re.match(r"assumptions?\b", heading[2], re.IGNORECASE):
                level = depth
            elif level and depth <= level:
                return
        elif level and bare:
            open_.append(bullet[2] if bullet else bare)


def _item(lines: list[str]) -> Iterator[str]:
    text = excerpt(" ".join(lines), LONGEST)
    if not _NOTHING.fullmatch(text):
        yield text


def _noted(store: Store, job: str) -> Iterator[str]:
    """The assumptions that agents noted while they worked."""
    for step in store.steps(job):
        for note in step_extra.read(step.extra).notes:
            said = note.get("assumption")
            if isinstance(said, str) and said.strip():
                yield excerpt(said, LONGEST)


def artifacts(work: Path, redact: Callable[[str], str] = str) -> list[tuple[str, str]]:
    """The artifacts in a job's own tree, each with its text, the newest first; nothing in it is trusted."""
    names = [phase.artifact for phase in PHASES.values()][::-1]
    return [(name, redact(text)) for name in names if (text := _text(work / name))]


def _text(path: Path) -> str:
    """A file that an agent wrote: read if it is an ordinary one, and no link to something else."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            return file.read(SUMMARY_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
