"""The folders in which a dispatcher sees its workers' last commits before it closes them.

The folders lie beside the workspaces, where no agent can write, and are bound read-only into the dispatcher's own. They
are made from commits alone, so that they can be made again anywhere; no worker's live folder is ever shown.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from parley.workspaces.files.safe_delete import delete_later
from parley.workspaces.job_repository import JobRepository
from parley.workspaces.safe_git import LONG_SECONDS
from parley.workspaces.workspace_marks import WorkspaceMarks

FOLDER, KNOWN = "children", "children.known"  # the folders, and which commit each shows


def show(
    repository: JobRepository, parent: str, tips: Mapping[str, str], workspace: Path, marks: WorkspaceMarks
) -> Path:
    """Bring a dispatcher's folder up to its workers' last commits; returns its path.

    Only what a worker has committed since the last time is written. What the copy list or the set-up command has put
    into the dispatcher's own workspace is linked, so that a check finds it.
    """
    folder, known = repository.folder / FOLDER / parent, repository.folder / KNOWN / parent
    for path in (folder, known):
        path.mkdir(parents=True, exist_ok=True)
    for gone in {path.name for path in folder.iterdir()} - tips.keys():
        _remove(repository, folder / gone)
    for name, tip in tips.items():
        place, mark = folder / name, known / f"{name}.tip"
        if place.is_dir() and mark.is_file() and mark.read_text(encoding="ascii") == tip:
            continue
        mark.unlink(missing_ok=True)
        index = known / f"{name}.index"
        if not place.is_dir():
            index.unlink(missing_ok=True)
            place.mkdir()
        repository.git("read-tree", "--reset", "-u", tip, work=place, index=index, seconds=LONG_SECONDS)
        _link(place, workspace, marks)
        mark.write_text(tip, encoding="ascii")
    return folder


def forget(repository: JobRepository, name: str) -> None:
    """Delete the view of a closed workspace, and the views inside it."""
    for path in (*(repository.folder / FOLDER).glob(f"*/{name}"), repository.folder / FOLDER / name):
        if path.is_dir():
            _remove(repository, path)


def _link(place: Path, workspace: Path, marks: WorkspaceMarks) -> None:
    for path in marks.hidden:
        target = place / path
        if not os.path.lexists(target):
            with contextlib.suppress(FileExistsError, NotADirectoryError):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(workspace / path)


def _remove(repository: JobRepository, path: Path) -> None:
    """Move it out of sight at once, and delete it in the background."""
    away = repository.folder / "aside"
    away.mkdir(exist_ok=True)
    number = sum(1 for _ in away.iterdir())
    while os.path.lexists(gone := away / f"shown-{path.name}-{number}"):
        number += 1
    path.rename(gone)
    delete_later(gone)
