"""Files that are sent with a task: kept in the job's repository, and put into the worker's workspace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from parley.ports.workspaces import SentFile, WorkspaceError
from parley.workspaces.files.known_blobs import LINK
from parley.workspaces.files.scan import PRIVATE, Allowance, CannotKeep, TooLarge, keep, open_folder, refuse_name
from parley.workspaces.files.tree_entry import TreeEntry
from parley.workspaces.job_repository import GITLINK, JobRepository
from parley.workspaces.workspace_marks import WorkspaceMarks
from parley.workspaces.worktree import Worktree

REF = "refs/parley/sent"  # holds what was sent to each workspace


def pick(tree: Worktree, to: str, paths: Sequence[str], most: int) -> tuple[SentFile, ...]:
    """Keep files of a workspace as they are now. No link is followed, and nothing is changed."""
    repository, found, allowance = tree.repository, [], Allowance(most)
    with open_folder(tree.folder) as root:
        for path in paths:
            _refuse(path)
            try:
                entry = keep(repository.objects, root, path, allowance=allowance)
            except TooLarge as why:
                raise WorkspaceError(
                    f"the files have more than {most} bytes in all; send fewer, or smaller ones"
                ) from why
            except CannotKeep as why:
                raise WorkspaceError(f"{path!r} can't be sent: {why}") from why
            except OSError as error:
                raise WorkspaceError(f"{path!r} can't be sent: {error.strerror or error}") from error
            if entry is None or entry.mode in (LINK, GITLINK):
                raise WorkspaceError(f"{path!r} can't be sent: it is no ordinary file that is there; name a file")
            found.append(SentFile(path, entry.name, entry.mode, repository.git.size(entry.name)))
    _hold(repository, to, found)
    return tuple(found)


def _refuse(path: str) -> None:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or str(pure) != path or path == ".":
        raise WorkspaceError(f"{path!r} can't be sent: name a file by its path from your workspace's root, without ..")
    try:
        refuse_name(path)
    except CannotKeep as why:
        raise WorkspaceError(f"{path!r} can't be sent: {why}") from why
    if pure.parts[0] in PRIVATE:
        raise WorkspaceError(f"{path!r} can't be sent: {pure.parts[0]} is the protocol's own; copy the file elsewhere")


def _hold(repository: JobRepository, to: str, files: Iterable[SentFile]) -> None:
    """Let a ref hold what was sent, so that nothing deletes it while the job is there."""
    empty = repository.objects.write("tree", b"")
    tree = repository.changed_tree(empty, {one.path: TreeEntry(one.mode, one.blob) for one in files})
    repository.set_ref(f"{REF}/{to}", repository.commit(tree, (), f"sent to {to}"))


def put(tree: Worktree, marks: WorkspaceMarks, *, again: bool) -> None:
    """Put what was sent into a workspace; `again`: only ignored files, which no commit can restore."""
    if not marks.sent:
        return
    files = marks.sent
    if gone := [one.path for one in files if not tree.repository.has(one.blob)]:
        raise WorkspaceError(f"{gone[0]!r}, which was sent with the task, is no longer kept in the job's repository")
    if again:
        lost = tree.ignored([one.path for one in files])
        files = [one for one in files if one.path in lost]
    tree.put_files({one.path: TreeEntry(one.mode, one.blob) for one in files})
    tree.handed_over()
