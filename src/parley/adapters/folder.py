"""Workspaces as plain folders, with every turn's end kept as a git tree in a repository of the job's own.

The tree's id is what an approval of the work is bound to. Agents write into the folder only; the
repository lies beside it, and git is told everything by argument, so that nothing in the folder configures it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from parley.ports import BusError, Change, Kept, Merge, Outcome, Site

OUTCOME = ".parley/outcome.json"
OUTCOME_LIMIT = 64 * 1024
ARTIFACTS = ("INTENT.md", "PLAN.md", "WORK_SUMMARY.md")
_SAFE = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.autocrlf=false",
    "-c", "core.attributesFile=/dev/null", "-c", "core.symlinks=true", "-c", "gc.auto=0",
    "-c", "protocol.allow=never", "-c", "user.name=parley", "-c", "user.email=parley@localhost",
    "-c", "advice.addEmbeddedRepo=false", "-c", "safe.directory=*",
)  # fmt: skip


class FolderWorkspace:
    """One folder for a job, and one for each subteam of it."""

    def __init__(self, home: Path) -> None:
        self._jobs = home.resolve() / "jobs"

    def path(self, job: str, name: str) -> Path:
        """The folder of a workspace. A job's own is named by its job thread."""
        kind, _, rest = name.partition(":")
        return self._jobs / job / ("work" if kind == "job" else f"teams/{rest}")

    def prepare(self, job: str, name: str, parent: str, sealed: Iterable[str] = ()) -> Site:
        """Make a workspace ready; a subteam's starts as a copy of its parent's."""
        path = self.path(job, name)
        path.mkdir(parents=True, exist_ok=True)
        if name.startswith("dispatch:") and parent and not self._found(job, f"refs/parley/seed/{_ref(name)}"):
            tree = self.snapshot(job, parent, "seed").tree
            self._git(job, name, "read-tree", "--reset", "-u", tree)
            # the seed comes last: where it stands, all before it was done
            for ref in ("last", "seed"):
                self._git(job, name, "update-ref", f"refs/parley/{ref}/{_ref(name)}", self._commit(job, name, tree))
        return Site(str(path.resolve()))

    def clear_outcome(self, job: str, name: str) -> None:
        """See to it that no outcome record is there when a turn starts."""
        path = self.path(job, name) / OUTCOME
        folder = path.parent
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            folder.unlink()
        elif path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def read_outcome(self, job: str, name: str) -> Outcome | None:
        """The outcome record, if a turn left one. Whatever else lies there is a problem, told as such."""
        path = self.path(job, name) / OUTCOME
        if path.parent.is_symlink():
            return Outcome(problem=".parley must be a folder, not a link")
        try:
            found = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISREG(found.st_mode):
            return Outcome(problem=f"{OUTCOME} must be an ordinary file, not a link or a folder")
        if found.st_size > OUTCOME_LIMIT:
            return Outcome(problem=f"{OUTCOME} has {found.st_size} bytes, {OUTCOME_LIMIT} at most")
        return _parse(path)

    def contents(self, job: str, name: str, artifacts: Iterable[str]) -> dict[str, str]:
        """The digest of each artifact that is there as an ordinary file."""
        found = {}
        for artifact in artifacts:
            path = self.path(job, name) / artifact
            if Path(artifact).name == artifact and path.is_file() and not path.is_symlink():
                with path.open("rb") as file:
                    found[artifact] = hashlib.file_digest(file, "sha256").hexdigest()
        return found

    def snapshot(self, job: str, name: str, text: str) -> Kept:
        """Keep what is there now, all but `.parley`; the id of its tree."""
        if not self.path(job, name).is_dir():
            return Kept("")
        self._git(job, name, "add", "--all", "--force", "--", ".", ":(exclude).parley")
        tree = self._git(job, name, "write-tree")
        self._git(job, name, "update-ref", f"refs/parley/last/{_ref(name)}", self._commit(job, name, tree, text))
        return Kept(tree)

    def restore(self, job: str, name: str, tree: str, lost: str) -> None:
        """Put back what a tree holds; what was there instead stays under a ref."""
        if not self.path(job, name).is_dir():
            self.path(job, name).mkdir(parents=True)
        now = self.snapshot(job, name, lost).tree
        if now == tree or not tree:
            return
        kept = self._commit(job, name, now, f"lost: {lost}")
        self._git(job, name, "update-ref", f"refs/parley/lost/{_ref(name)}/{lost}", kept)
        self._git(job, name, "read-tree", "--reset", "-u", tree)

    def merge(self, job: str, name: str, parent: str) -> Merge:
        """Bring what a subteam changed since it began into its parent's folder, its artifacts left out.

        May be done again, as the subteam goes on: what the parent has changed itself since stays as it is.
        """
        seed = f"refs/parley/seed/{_ref(name)}"
        if not self.path(job, name).is_dir() or not self._found(job, seed):
            return Merge()
        tree = self.snapshot(job, name, "merge").tree
        changed = self._git(job, name, "diff", "--name-only", "--no-renames", "-z", seed, tree).split("\0")
        paths = [path for path in changed if path and path not in ARTIFACTS]
        taken = [path for path in paths if self._theirs(job, name, parent, path)]
        for path in taken:
            source, target = self.path(job, name) / path, self.path(job, parent) / path
            target.unlink(missing_ok=True)
            if source.exists() and not source.is_symlink():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
        return Merge(tuple(taken))

    def unresolved(self, job: str, name: str) -> list[str]:
        """A plain folder keeps no conflicts: the parent's version stays."""
        return []

    def retire(self, job: str, name: str) -> None:
        """Keep what is there; the folder stays."""
        self.snapshot(job, name, "retired")

    def changes(self, job: str) -> list[Change]:
        """What there is, all of it new."""
        return []

    def _theirs(self, job: str, name: str, parent: str, path: str) -> bool:
        """Whether the parent's version of a file is one that the subteam had, or none."""
        there = self.path(job, parent) / path
        if not there.exists() or there.is_dir() or there.is_symlink():
            return not there.is_dir() and not there.is_symlink()
        blob = self._git(job, parent, "hash-object", "--no-filters", "--", path)
        history = ("log", "--raw", "--no-abbrev", "--no-renames", "--format=", f"refs/parley/last/{_ref(name)}")
        return blob in self._git(job, name, *history, "--", path)

    def anchors(self, job: str) -> list[dict[str, Any]]:
        """Where the bus stood at each turn's end, as the turns' commits say."""
        repository = self._jobs / job / "snapshots.git"
        if not (repository / "HEAD").is_file():
            return []
        words = ["git", *_SAFE, f"--git-dir={repository}", "log", "--glob=refs/parley", "--format=%b"]
        found = []
        for line in _run(words, {}).splitlines():
            if line.startswith('{"head":'):
                with contextlib.suppress(ValueError):
                    found.append(json.loads(line)["head"])
        return [head for head in found if isinstance(head, dict)]

    # ---- git -----------------------------------------------------------------------------------

    def _repository(self, job: str) -> Path:
        path = self._jobs / job / "snapshots.git"
        if not path.is_dir():
            # made aside and moved into place whole: a crash must not leave half a repository
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(f"snapshots.git.{os.getpid()}")
            _run(["git", *_SAFE, "init", "--quiet", "--bare", str(draft)], {})
            draft.rename(path)
        return path

    def _found(self, job: str, ref: str) -> str:
        """The commit that a ref names, or nothing."""
        path = self._repository(job) / ref  # refs are never packed here
        return path.read_text(encoding="ascii").strip() if path.is_file() else ""

    def _commit(self, job: str, name: str, tree: str, text: str = "seed") -> str:
        """A commit of a tree, behind the workspace's last one: its history tells which versions were its own."""
        last = self._found(job, f"refs/parley/last/{_ref(name)}")
        behind = ("-p", last) if last else ()
        return self._git(job, name, "commit-tree", *behind, "-m", f"{name} {text}", tree)

    def _git(self, job: str, name: str, *words: str) -> str:
        repository = self._repository(job)
        index = repository / f"index-{_ref(name)}"
        git = ["git", *_SAFE, f"--git-dir={repository}", f"--work-tree={self.path(job, name)}", *words]
        return _run(git, {"GIT_INDEX_FILE": str(index)}, cwd=self.path(job, name))


def _ref(name: str) -> str:
    return name.replace(":", "-").replace("/", "-")


def _environment(more: dict[str, str]) -> dict[str, str]:
    """Git's environment: nothing of the user's configuration, and times that do not vary."""
    keep = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR", "LANG") if key in os.environ}
    fixed = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0"}
    return {**keep, **fixed, **more}


def _run(words: list[str], more: dict[str, str], cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(words, capture_output=True, env=_environment(more), cwd=cwd, check=False)
    except FileNotFoundError as error:
        raise BusError("git is not installed; install it and try again") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise BusError(f"git {words[-1]} failed: {said[-1] if said else done.returncode}")
    return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


def _parse(path: Path) -> Outcome:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        return Outcome(problem=f"{OUTCOME} is not UTF-8")
    except (ValueError, RecursionError) as error:
        return Outcome(problem=f"{OUTCOME} is not JSON: {error}")
    if not isinstance(document, dict) or set(document) - {"outcome", "reason"}:
        return Outcome(problem=f'{OUTCOME} must be an object {{"outcome": …, "reason": …}}')
    outcome, reason = document.get("outcome"), document.get("reason", "")
    if not isinstance(outcome, str) or not isinstance(reason, str):
        return Outcome(problem=f"`outcome` and `reason` in {OUTCOME} must be strings")
    return Outcome(outcome, reason)
