"""Git inside an agent's boundary: a repository of the agent's own over its workspace.

`git status`, `diff`, `log` and `commit` work there and touch nothing shared. What the agent commits is its own
business: at the turn's end its files count. Outside, nothing ever runs git on the agent's repository.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from parley.ports.turns import Bind
from parley.workspaces.files.safe_delete import delete
from parley.workspaces.files.scan import PRIVATE
from parley.workspaces.job_repository import JobRepository
from parley.workspaces.safe_git import RAW_ATTRIBUTES
from parley.workspaces.workspace_marks import WorkspaceMarks

GIT, BASE, TURNS = "/run/parley/git", "/run/parley/base", "/run/parley/turns"  # as the agent sees them
PACKS = 40  # one a turn; then they are repacked into one
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class AgentRepository:
    """The git repository of one agent, with its name and the objects that it reads.

    `index` replaces the workspace's own; `refs` are commits of the job's start that the agent can compare with.
    """

    def __init__(
        self,
        repository: JobRepository,
        slug: str,
        name: str,
        hand_over: Callable[[Path], None] | None,
        index: Path | None = None,
        refs: Mapping[str, str] | None = None,
    ) -> None:
        place = repository.folder / "gitdirs"
        self._repository = repository
        self._slug = slug
        self._own = place / f"{name}.git"
        self._file = place / f"{name}.file" / "git"
        self._turns = place / f"{name}.turns"
        self._hand_over = hand_over
        self._index = index or repository.index(slug)
        self._refs = refs or {}

    def binds(
        self,
        folder: Path,
        tip: str,
        marks: WorkspaceMarks,
        aside: Callable[[Path], object],
        children: Mapping[str, str] | None = None,
    ) -> list[Bind]:
        """Bring it up to date with the workspace's last commit; returns what to bind for the agent.

        `children` are commits of its workers by name: it can read them as `children/NAME`.
        """
        below = children or {}
        self._pack(tip, below, marks)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        if not self._file.is_file():
            self._file.write_text(f"gitdir: {GIT}\n", encoding="utf-8")
        try:
            self._refresh(tip, below, marks)
        except OSError:  # the agent has replaced it
            aside(self._own)
            self._refresh(tip, below, marks)
        if self._hand_over is not None:
            for path in (self._own, self._file.parent):  # git refuses a repository that another user owns
                self._hand_over(path)
        base = self._base()
        found = [Bind(str(self._file), str(folder / ".git")), Bind(str(self._own), GIT, writable=True)]
        found.append(Bind(str(self._turns / "objects"), TURNS))
        return [*found, *([Bind(str(base), BASE)] if base else [])]

    def _base(self) -> Path | None:
        base = self._repository.beginning.base
        return self._repository.folder.parent.parent / "bases" / base / "objects" if base else None

    def _pack(self, tip: str, children: Mapping[str, str], marks: WorkspaceMarks) -> None:
        """Let the agent read what its workspace and its workers have committed, and nothing else."""
        folder = self._turns / "objects" / "pack"
        wanted = [tip, *children.values()]
        if folder.is_dir() and sum(path.suffix == ".pack" for path in folder.iterdir()) >= PACKS:
            delete(self._turns)
        known = [marks.packed, *marks.shown.values()] if folder.is_dir() else []
        new = [name for name in wanted if name not in known]
        if not new:
            return
        folder.mkdir(parents=True, exist_ok=True)
        without = [name for name in dict.fromkeys((self._repository.beginning.base, *known)) if name]
        lines = "".join(f"{line}\n" for line in (*new, *(f"^{name}" for name in without)))
        words = ("pack-objects", "--quiet", "--revs", "--window=0", str(folder / "pack"))
        self._repository.git(*words, stdin=lines.encode())
        marks.packed, marks.shown = tip, dict(children)
        marks.write()

    def _refresh(self, tip: str, children: Mapping[str, str], marks: WorkspaceMarks) -> None:
        """Write our files of the agent's repository anew; the agent's own stay."""
        self._own.mkdir(parents=True, exist_ok=True)
        repository, branch = self._repository, self._repository.branch(self._slug)
        sha256 = repository.beginning.object_format == "sha256"
        config = (
            f"[core]\n\trepositoryformatversion = {int(sha256)}\n\tbare = false\n\tfilemode = true\n"
            "\tcheckstat = minimal\n\ttrustctime = false\n\tautocrlf = false\n\tlogallrefupdates = true\n"
            + ("[extensions]\n\tobjectformat = sha256\n" if sha256 else "")
            + "[user]\n\tname = agent\n\temail = agent@localhost\n[gc]\n\tauto = 0\n[advice]\n\tdetachedHead = false\n"
        )
        excludes = repository.git.folder / "info/exclude"
        ignored = excludes.read_bytes() if excludes.is_file() else b""
        ignored += os.fsencode("".join(f"/{path}\n" for path in (*PRIVATE, *marks.hidden)))
        shallow = repository.git.folder / "shallow"
        alternates = f"{TURNS}\n" + (f"{BASE}\n" if repository.beginning.base else "")
        root = os.open(self._own, _FOLDER)
        try:
            _put(root, "HEAD", f"ref: refs/heads/{branch}\n".encode())
            _put(root, "config", config.encode())
            _put(root, "info/exclude", ignored)
            _put(root, "info/attributes", RAW_ATTRIBUTES.encode())
            _put(root, "objects/info/alternates", alternates.encode())
            _put(root, f"refs/heads/{branch}", f"{tip}\n".encode())
            _clear(root, "refs/children", keep=children.keys())
            for name, commit in children.items():
                _put(root, f"refs/children/{name}", f"{commit}\n".encode())
            for name, commit in self._refs.items():
                _put(root, name, f"{commit}\n".encode())
            _put(root, "index", self._index.read_bytes())
            if shallow.is_file():
                _put(root, "shallow", shallow.read_bytes())
        finally:
            os.close(root)


def _clear(root: int, path: str, keep: Collection[str]) -> None:
    """Remove the files of a folder below one that an agent can write to, all but some."""
    held = [os.dup(root)]
    try:
        for part in path.split("/"):
            held.append(os.open(part, _FOLDER, dir_fd=held[-1]))
        for name in os.listdir(held[-1]):  # noqa: PTH208 - an open folder
            if name not in keep:
                os.unlink(name, dir_fd=held[-1])
    except FileNotFoundError:
        pass
    finally:
        for handle in held:
            os.close(handle)


def _put(root: int, path: str, data: bytes) -> None:
    """Write a file below a folder that an agent can write to: no link is followed, none written through."""
    *folders, name = path.split("/")
    held = [os.dup(root)]
    try:
        for part in folders:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=held[-1])
            held.append(os.open(part, _FOLDER, dir_fd=held[-1]))
        draft = f".parley-{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=held[-1])
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(draft, flags, 0o644, dir_fd=held[-1]), "wb") as file:
            file.write(data)
        os.rename(draft, name, src_dir_fd=held[-1], dst_dir_fd=held[-1])
    finally:
        for handle in held:
            os.close(handle)
