"""The user's repository: read where a job starts, written where its result is delivered."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import IO

from parley.ports.workspaces import WorkspaceError
from parley.workspaces.safe_git import ABSENT, Git, GitError, create, most_telling_line, quoted

HISTORY = 50  # commits before a job's start that its agents can read
_READ = (  # files of a repository that git always reads
    "HEAD",
    "commondir",
    "config",
    "config.worktree",
    "index",
    "info/attributes",
    "info/exclude",
    "info/grafts",
    "info/sparse-checkout",
    "objects/info/alternates",
    "packed-refs",
    "shallow",
)


@dataclass(frozen=True, slots=True)
class SourceRepository:
    """A work tree of the user's, and the git folder behind it."""

    root: Path
    git_dir: Path  # of this work tree
    common: Path  # shared by all work trees of the repository
    object_format: str

    @property
    def git(self) -> Git:
        """Git on the user's repository, run as its owner; used as little as possible."""
        return Git(self.git_dir, self._owner)

    @property
    def _owner(self) -> tuple[int, int]:
        found = self.common.stat()
        return found.st_uid, found.st_gid

    def head(self) -> str:
        """The commit that is checked out; empty if there is none yet."""
        done = self.git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}", fine=(0, 1, ABSENT))
        return done.stdout.decode().strip() if done.returncode == 0 else ""

    def branch(self) -> str:
        """The branch that is checked out; empty if there is none."""
        done = self.git.run("symbolic-ref", "--quiet", "HEAD", fine=(0, 1, ABSENT))
        return os.fsdecode(done.stdout).strip().removeprefix("refs/heads/") if done.returncode == 0 else ""

    def holds(self, commit: str) -> bool:
        """Whether a commit is here with all that it needs; the user's git may have pruned it."""
        words = ("rev-list", "--objects", "--quiet", commit, "--not", "--all")
        return self.git.run(*words, fine=(0, 1, ABSENT)).returncode == 0

    def is_ancestor(self, commit: str, of: str) -> bool:
        """Whether a commit is another one or its ancestor."""
        return self.git.run("merge-base", "--is-ancestor", commit, of, fine=(0, 1, ABSENT)).returncode == 0

    def ref(self, name: str) -> str:
        """The commit that a ref names; empty if there is no such ref."""
        done = self.git.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", fine=(0, 1, ABSENT))
        return done.stdout.decode().strip() if done.returncode == 0 else ""

    def set_ref(self, name: str, commit: str, before: str | None = None) -> None:
        """Set a ref. `before`: only if it names this commit (empty: only if there is none)."""
        old = () if before is None else (before or "0" * len(commit),)
        self.git("update-ref", "--no-deref", name, commit, *old)

    @contextmanager
    def moving(
        self, commit: str, before: str, text: str, by: Mapping[str, str], *, logged: bool
    ) -> Iterator[Callable[[], None]]:
        """Lock the checked-out branch; yields a function that moves it to a commit.

        By then git has read its configuration, and has checked everything that could make it fail.
        """
        git = Git(self.git_dir, self._owner, {"core.logAllRefUpdates": "true" if logged else "false"})
        zero = "0" * len(commit)
        with git.talk("update-ref", "--stdin", "-m", text, more=by) as process:
            kept = (f"update ORIG_HEAD {before}",) if before else ()
            self._say(process, "start", *kept, f"update HEAD {commit} {before or zero}", "prepare")
            yield lambda: self._say(process, "commit")

    def _say(self, process: Popen[bytes], *lines: str) -> None:
        """Send lines to git, and check that it accepts them."""
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise ValueError("git was started without pipes")
        try:
            process.stdin.write("".join(f"{line}\n" for line in lines).encode())
            process.stdin.flush()
        except BrokenPipeError:
            pass  # the reason is raised below
        for word in (line.split()[0] for line in lines):
            if word != "update" and process.stdout.readline() != f"{word}: ok\n".encode():
                said = most_telling_line(process.stderr.read()) or "it stopped"
                raise GitError(f"git update-ref failed in {self.git_dir}: {said}")

    def drop_ref(self, name: str, commit: str) -> None:
        """Remove a ref, if it still names this commit."""
        self.git("update-ref", "--no-deref", "-d", name, commit)

    def take(self, pack: IO[bytes]) -> None:
        """Add objects."""
        self.git.run("index-pack", "--stdin", stdin=pack)

    def reading(self) -> Mapping[str, str]:
        """The environment in which another repository's git also finds the objects of this one."""
        return {"GIT_ALTERNATE_OBJECT_DIRECTORIES": quoted(self.common / "objects")}

    @contextmanager
    def beside(self, *more: Path) -> Iterator[Git]:
        """A temporary repository that reads this one's objects (and those of others) and nothing else of it."""
        folder = Path(tempfile.mkdtemp(prefix="parley-"))
        try:
            git = create(folder / "beside.git", self.object_format)
            lines = [quoted(path) for path in (self.common / "objects", *more)]
            (git.folder / "objects" / "info" / "alternates").write_text("".join(f"{line}\n" for line in lines))
            for cut in self.shallow():
                with (git.folder / "shallow").open("a", encoding="ascii") as file:
                    file.write(f"{cut}\n")
            yield git
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def shallow(self) -> list[str]:
        """The commits at which a shallow clone was cut."""
        path = self.common / "shallow"
        return path.read_text(encoding="ascii", errors="replace").split() if path.is_file() else []

    def has_remote(self) -> bool:
        """Whether a branch can be pushed somewhere, as far as the repository's own settings tell."""
        words = ("config", "--file", str(self.common / "config"), "--no-includes", "--get-regexp", r"^remote\..+\.url$")
        return bool(Git(Path(os.devnull)).run(*words, fine=(0, 1)).stdout)

    def excludes(self) -> str:
        """What this repository ignores besides what its tree says."""
        path = self.common / "info" / "exclude"
        return path.read_text(encoding="utf-8", errors="surrogateescape") if path.is_file() else ""


def find_source(root: Path) -> SourceRepository | None:
    """The repository whose work tree a folder is; None if it is a folder without one."""
    marker = root / ".git"
    if not marker.exists():
        if all((root / name).exists() for name in ("HEAD", "objects", "refs")):
            raise WorkspaceError(f"{root} is a repository without a work tree; make one with `git worktree add`")
        return None
    git_dir = marker if marker.is_dir() else _named(marker)
    _refuse_pipes(git_dir)
    _refuse_pipes(root, (".gitignore", ".gitattributes", ".gitmodules"))
    common = git_dir
    if (git_dir / "commondir").is_file():
        common = (git_dir / os.fsdecode((git_dir / "commondir").read_bytes()).rstrip("\n")).resolve()
        _refuse_pipes(common)
    if not ((git_dir / "HEAD").exists() and (common / "objects").is_dir()):
        raise WorkspaceError(f"{marker} is not a usable repository; see what `git status` says there")
    if common == git_dir and _setting(common, "core.bare") == "true" and not _setting(common, "core.worktree"):
        raise WorkspaceError(f"{root} is set to have no work tree; run `git config core.bare false` there if it has")
    return SourceRepository(root, git_dir, common, _setting(common, "extensions.objectformat") or "sha1")


def _refuse_pipes(folder: Path, names: Sequence[str] = _READ) -> None:
    """Refuse a repository, from an archive perhaps, in which git would block at a pipe or read a device."""
    for name in names:
        path = folder / name
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise WorkspaceError(f"{path} is no ordinary file, and git would block there; delete it")


def _named(marker: Path) -> Path:
    """The git folder that a `.git` file names."""
    if not marker.is_file():
        raise WorkspaceError(f"{marker} is neither a folder nor an ordinary file; delete it")
    text = os.fsdecode(marker.read_bytes())
    if not text.startswith("gitdir:"):
        raise WorkspaceError(f"{marker} names no repository; see what `git status` says there")
    return (marker.parent / text.removeprefix("gitdir:").strip()).resolve()


def _setting(common: Path, name: str) -> str:
    """One setting, read as text from the repository's own file, without includes."""
    words = ("config", "--file", str(common / "config"), "--no-includes", "--get", name)
    done = Git(Path(os.devnull)).run(*words, fine=(0, 1))
    return done.stdout.decode("utf-8", "replace").strip()


# ---- the frozen base ---------------------------------------------------------------------------------


def freeze(source: SourceRepository, commit: str, bases: Path) -> Path:
    """A separate repository with a commit's tree and its latest history; it never changes.

    Jobs and agents read from it. So nothing that the user does to the repository deletes a job's objects, and no
    agent sees more of it than this.
    """
    place = bases / commit
    if place.is_dir():
        return place
    bases.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=bases))
    try:
        git = create(draft / "base.git", source.object_format)
        shallow = git.folder / "shallow"
        cut = set(source.shallow())
        _write_lines(shallow, sorted(cut))
        listed = git.text("rev-list", f"--max-count={HISTORY}", "--parents", commit, more=source.reading())
        family = [line.split() for line in listed.splitlines()]
        known = {words[0] for words in family}
        edge = [words[0] for words in family if words[0] in cut or not known.issuperset(words[1:])]
        _write_lines(shallow, edge)
        pack = ("pack-objects", "--quiet", "--revs", "--window=0", "--delta-base-offset")
        git(*pack, str(git.folder / "objects/pack/pack"), stdin=f"{commit}\n".encode(), more=source.reading())
        git.folder.rename(place)
    except GitError as error:
        raise WorkspaceError(
            f"the files of commit {commit[:12]} can't be read ({error}); a partial clone has to fetch them first"
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return place


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    if lines:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
    else:
        path.unlink(missing_ok=True)
