"""Files that go along with a task: kept in the job's repository when they are sent, put into the worker's workspace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from parley.adapters.worktrees.history import GITLINK, History
from parley.adapters.worktrees.known import LINK
from parley.adapters.worktrees.marks import Marks
from parley.adapters.worktrees.scan import PRIVATE, Allowance, TooLarge, Unkept, keep, opened, refuse_name
from parley.adapters.worktrees.worktree import Worktree
from parley.ports import Sent, WorkspaceError

REF = "refs/parley/sent"  # keeps what was sent to each workspace


def pick(tree: Worktree, to: str, paths: Sequence[str], most: int) -> tuple[Sent, ...]:
    """Keep files of a workspace as they are now. Nothing is followed, and nothing is changed."""
    history, found, allowance = tree.history, [], Allowance(most)
    with opened(tree.folder) as root:
        for path in paths:
            _refuse(path)
            try:
                entry = keep(history.objects, root, path, allowance=allowance)
            except TooLarge as why:
                raise WorkspaceError(
                    f"the files have more than {most} bytes in all; send fewer, or smaller ones"
                ) from why
            except Unkept as why:
                raise WorkspaceError(f"{path!r} can't be sent: {why}") from why
            except OSError as error:
                raise WorkspaceError(f"{path!r} can't be sent: {error.strerror or error}") from error
            if entry is None or entry[0] in (LINK, GITLINK):
                raise WorkspaceError(f"{path!r} can't be sent: it is no ordinary file that is there; name a file")
            found.append(Sent(path, entry[1], entry[0], history.git.size(entry[1])))
    _hold(history, to, found)
    return tuple(found)


def _refuse(path: str) -> None:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or str(pure) != path or path == ".":
        raise WorkspaceError(f"{path!r} can't be sent: name a file by its path from your workspace's root, without ..")
    try:
        refuse_name(path)
    except Unkept as why:
        raise WorkspaceError(f"{path!r} can't be sent: {why}") from why
    if pure.parts[0] in PRIVATE:
        raise WorkspaceError(f"{path!r} can't be sent: {pure.parts[0]} is the protocol's own; copy the file elsewhere")


def _hold(history: History, to: str, files: Iterable[Sent]) -> None:
    """Let a ref hold what was sent, so that nothing deletes it while the job is there."""
    empty = history.objects.write("tree", b"")
    tree = history.changed_tree(empty, {one.path: (one.mode, one.blob) for one in files})
    history.set_ref(f"{REF}/{to}", history.commit(tree, (), f"sent to {to}"))


def put(tree: Worktree, marks: Marks, *, again: bool) -> None:
    """Put what was sent into a workspace; `again`: only what no commit can bring back, since git ignores it."""
    files = [Sent(*each) for each in marks.sent]
    if not files:
        return
    if gone := [one.path for one in files if not tree.history.has(one.blob)]:
        raise WorkspaceError(f"{gone[0]!r}, which was sent with the task, is no longer kept in the job's repository")
    if again:
        lost = tree.ignored([one.path for one in files])
        files = [one for one in files if one.path in lost]
    tree.put_files({one.path: (one.mode, one.blob) for one in files})
    tree.handed_over()
