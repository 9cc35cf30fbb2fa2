"""What a dispatcher sees of its workers before it closes them: their last commits, each as a folder.

The folders lie beside the workspaces, where no agent can write, and are bound read-only into the dispatcher's own. They
are made from commits alone, so that they can be made again anywhere; no worker's live folder is ever shown.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from parley.adapters.git import LONG_SECONDS
from parley.adapters.worktrees.history import History
from parley.adapters.worktrees.marks import Marks
from parley.adapters.worktrees.removal import delete_later

FOLDER, KNOWN = "children", "children.known"  # what is shown, and what is known of it


def show(history: History, parent: str, tips: Mapping[str, str], workspace: Path, marks: Marks) -> Path:
    """Bring the folder of a dispatcher up to its workers' last commits; where it lies.

    Only what a worker has committed since the last time is written. What the copy list or the set-up command has put
    into the dispatcher's own workspace is linked, so that a check finds it.
    """
    folder, known = history.folder / FOLDER / parent, history.folder / KNOWN / parent
    for path in (folder, known):
        path.mkdir(parents=True, exist_ok=True)
    for gone in {path.name for path in folder.iterdir()} - tips.keys():
        _remove(history, folder / gone)
    for name, tip in tips.items():
        place, mark = folder / name, known / f"{name}.tip"
        if place.is_dir() and mark.is_file() and mark.read_text(encoding="ascii") == tip:
            continue
        mark.unlink(missing_ok=True)
        index = known / f"{name}.index"
        if not place.is_dir():
            index.unlink(missing_ok=True)
            place.mkdir()
        history.git("read-tree", "--reset", "-u", tip, work=place, index=index, seconds=LONG_SECONDS)
        _link(place, workspace, marks)
        mark.write_text(tip, encoding="ascii")
    return folder


def forget(history: History, name: str) -> None:
    """Show nothing more of a workspace, nor in it: it is closed."""
    for path in (*(history.folder / FOLDER).glob(f"*/{name}"), history.folder / FOLDER / name):
        if path.is_dir():
            _remove(history, path)


def _link(place: Path, workspace: Path, marks: Marks) -> None:
    for path in marks.hidden:
        target = place / path
        if not os.path.lexists(target):
            with contextlib.suppress(FileExistsError, NotADirectoryError):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(workspace / path)


def _remove(history: History, path: Path) -> None:
    """Out of sight at once, deleted in its own time."""
    away = history.folder / "aside"
    away.mkdir(exist_ok=True)
    number = sum(1 for _ in away.iterdir())
    while os.path.lexists(gone := away / f"shown-{path.name}-{number}"):
        number += 1
    path.rename(gone)
    delete_later(gone)
