"""The protocol's own files in a workspace: read, listed and written below a folder that an agent may be changing."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from parley.base.text import lenient
from parley.ports.workspaces import WorkspaceError
from parley.workspaces.files.known_blobs import REGULAR
from parley.workspaces.files.safe_fs import FOLDER, open_below
from parley.workspaces.files.safe_walk import DEEPEST
from parley.workspaces.files.scan import PRIVATE, CannotKeep, open_up, refuse_name
from parley.workspaces.files.tree_entry import TreeEntry
from parley.workspaces.job_repository import DRAFTS
from parley.workspaces.worktree import Worktree

MOST_LISTED = 20_000
WRITTEN = "what the protocol wrote"
DRAFTED = "a draft, which holds once it is approved"


def read(tree: Worktree, path: str, most: int) -> str | None:
    """The text of an ordinary file of at most so many bytes."""
    _open_up(tree.folder, path)
    with contextlib.suppress(WorkspaceError, ValueError), tree.safe_folder() as safe_folder:
        data = safe_folder.read(path, most)
        return None if data is None or len(data) > most else lenient(data)
    return None


def listing(tree: Worktree, folder: str) -> tuple[str, ...]:
    """The ordinary files below a folder that an agent writes; MOST_LISTED at most."""
    return below(tree.folder, folder, mend=True)


def below(root: Path, folder: str, *, mend: bool = False) -> tuple[str, ...]:
    """The ordinary files below a folder of any tree, by their paths from its root.

    `mend`: folders that the agent has made unreadable are made readable again.
    """
    found: list[str] = []
    if mend:
        _open_up(root, f"{folder}/." if folder else ".")
    with contextlib.suppress(OSError, ValueError), open_below(root, folder) as handle:
        for path in _files(root if mend else None, handle, folder):
            found.append(path)
            if len(found) >= MOST_LISTED:
                break
    return tuple(sorted(found))


def _open_up(root: Path, path: str) -> None:
    """Make the folders on the way to a path readable again, where the agent has changed their modes."""
    above = path.split("/")[:-1]
    for number in range(len(above) + 1):
        open_up(root, "/".join(above[:number]) or ".")


def _files(root: Path | None, handle: int, prefix: str) -> Iterator[str]:
    with os.scandir(handle) as entries:
        inside = sorted(entries, key=lambda entry: entry.name)
    for entry in inside:
        path = f"{prefix}/{entry.name}" if prefix else entry.name
        with contextlib.suppress(OSError):
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISREG(mode):
                yield path
            elif stat.S_ISDIR(mode) and path.count("/") < DEEPEST:
                if root is not None:
                    open_up(root, path)
                inner = os.open(entry.name, FOLDER, dir_fd=handle)
                try:
                    yield from _files(root, inner, path)
                finally:
                    os.close(inner)


def write(tree: Worktree, files: Mapping[str, str | None]) -> None:
    """Write files that differ, and commit them alone: later differences are then an agent's changes."""
    tip, repository = tree.tip, tree.repository
    if not tip or not tree.folder.is_dir() or not files:
        return
    for path in files:
        _refuse(path)
        _open_up(tree.folder, path)
    known = repository.entries(tip, list(files))
    entries: dict[str, TreeEntry | None] = {}
    with tree.safe_folder() as safe_folder:
        for path, text in files.items():
            if text is None:
                safe_folder.remove(path)
                safe_folder.clear(path)
                entries |= dict.fromkeys(entry for entry in known if entry == path or entry.startswith(f"{path}/"))
                continue
            data = text.encode("utf-8", "replace")
            if safe_folder.read(path, len(data)) != data:
                safe_folder.put_data(path, data)
            entries[path] = TreeEntry(REGULAR, repository.objects.write("blob", data))
    changed = {path: entry for path, entry in entries.items() if known.get(path) != entry}
    if not changed:
        return
    if refused := repository.put_entries(tree.index, changed):
        raise WorkspaceError(f"{refused[0]!r} can't be kept by git; give it another name")
    written = repository.git.text("write-tree", index=tree.index)
    repository.set_tip(tree.slug, repository.commit(written, (tip,), WRITTEN))


def draft(tree: Worktree, files: Mapping[str, str]) -> str:
    """The last committed tree as it is once these files are written, kept under a ref; the folder is left alone."""
    tip, repository = tree.tip, tree.repository
    if not tip:
        raise WorkspaceError(f"{tree.name} has committed nothing: no draft can be made from it")
    for path in files:
        _refuse(path)
    blobs = {path: repository.objects.write("blob", text.encode("utf-8", "replace")) for path, text in files.items()}
    made = repository.changed_tree(
        repository.tree(tip), {path: TreeEntry(REGULAR, blob) for path, blob in blobs.items()}
    )
    held = repository.entries(made, list(files))
    if lost := next((path for path, blob in blobs.items() if held.get(path) != (REGULAR, blob)), ""):
        raise WorkspaceError(f"{lost!r} can't be kept by git; give it another name")
    repository.set_ref(f"{DRAFTS}/{made}", repository.commit(made, (tip,), DRAFTED))
    return made


def _refuse(path: str) -> None:
    try:
        refuse_name(path)
    except CannotKeep as why:
        raise WorkspaceError(f"{path!r} can't be written: {why}") from why
    if path.split("/", maxsplit=1)[0] in PRIVATE:
        raise WorkspaceError(f"{path!r} can't be written: it is never committed")
