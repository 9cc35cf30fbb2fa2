"""A user's repository with jobs in it, for the tests of workspaces."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from parley.ports.workspaces import Kept
from parley.settings.schema import WorkspaceSettings
from parley.workspaces import JobWorkspaces

JOB = "j1"
ROOT = f"job:{JOB}"
CHILD = "dispatch:c1"
OTHER = "dispatch:c2"


def git(folder: Path, *words: str, fine: bool = True, **more: Any) -> str:
    """The user's own git."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = {**kept, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", **more.pop("env", {})}
    identity = ("-c", "user.name=ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
    words = (*identity, "-c", "protocol.file.allow=always", *words)
    done = subprocess.run(["git", *words], cwd=folder, env=environment, capture_output=True, check=False, **more)
    assert not fine or done.returncode == 0, done.stderr.decode("utf-8", "replace")
    return str(done.stdout.decode("utf-8", "surrogateescape"))


def write(folder: Path, files: dict[str, str | bytes]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


def read(folder: Path) -> dict[str, bytes]:
    """The files of a workspace, the empty `.git` left out."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.name != ".git":
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


def fingerprint(root: Path) -> dict[str, str]:
    """All that is the user's: every file of the checkout and of the git folder, but for what Parley may add."""
    found = {}
    for here, folders, names in os.walk(root):
        inside = Path(here).relative_to(root).as_posix()
        folders[:] = [name for name in folders if f"{inside}/{name}" not in {"./.parley", ".git/objects"}]
        if inside == ".git/refs/heads":
            folders[:] = [name for name in folders if name != "parley"]
        for name in names:
            path = Path(here) / name
            data = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b"?"
            found[path.relative_to(root).as_posix()] = f"{path.lstat().st_mode:o} {hashlib.sha256(data).hexdigest()}"
    return found


@dataclass
class UserRepository:
    """A user's folder and a home in it."""

    root: Path
    settings: WorkspaceSettings = field(default_factory=WorkspaceSettings)
    more: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.trees = JobWorkspaces(
            self.root / ".parley", self.root, self.settings, title=lambda job: "Do it", **self.more
        )

    def again(self) -> None:
        """Another process, as it were."""
        self.__post_init__()

    def prepare(self, name: str = ROOT, parent: str = "", **more: Any) -> Path:
        return Path(self.trees.prepare(JOB, name, parent, **more).workspace)

    def turn(self, name: str, files: dict[str, str | bytes], gone: tuple[str, ...] = ()) -> Kept:
        """A turn in a workspace that writes and removes files."""
        folder = self.trees.path(JOB, name)
        write(folder, files)
        for path in gone:
            (folder / path).unlink()
        return self.trees.snapshot(JOB, name, f"turn of {name}")

    def committed(self, name: str = ROOT) -> dict[str, bytes]:
        """The files of a workspace's last commit, as git has them."""
        history = self.trees.repository(JOB)
        tip = self.trees.tree(JOB, name).tip
        return {path: history.blob(blob) for path, (mode, blob) in history.entries(tip).items() if mode != "160000"}

    def own(self, *words: str) -> str:
        """Git on the job's own repository."""
        return git(self.root, f"--git-dir={self.trees.repository(JOB).git.folder}", *words)


FILES: dict[str, str | bytes] = {"a.txt": "a\n", "sub/b.txt": "b\n"}


def repository(root: Path, files: dict[str, str | bytes] | None = None, *words: str) -> UserRepository:
    """A repository with one commit."""
    if files is None and not words:
        shutil.copytree(Path(_template().name) / "repo", root, symlinks=True)
    else:
        _commit(root, FILES if files is None else files, *words)
    git(root, "status")  # so that the index knows the files as they lie here
    return UserRepository(root)


@cache
def _template() -> tempfile.TemporaryDirectory[str]:
    """The repository that most tests begin with: copying it costs a fraction of making it."""
    folder = tempfile.TemporaryDirectory(prefix="parley-repository-")
    Path(folder.name).chmod(0o755)  # some tests become another user
    _commit(Path(folder.name) / "repo", FILES)
    return folder


def _commit(root: Path, files: dict[str, str | bytes], *words: str) -> None:
    root.mkdir(parents=True)
    git(root, "init", "-q", *words)
    write(root, files)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first", "--allow-empty")
    write(root, {".git/info/exclude": "/.parley/\n"})
