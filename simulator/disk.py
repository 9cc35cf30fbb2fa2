"""The simulated disk: workspaces, snapshots, records. It outlives every process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from parley.ports.turns import Site
from parley.ports.workspaces import (
    FOLDER_VIEW,
    REPORTS,
    TIP_VIEW,
    Change,
    Conflict,
    Kept,
    Merge,
    Outcome,
    Scope,
    SentFile,
    WorkspaceError,
)
from simulator.world import Fuse

OUTCOME = ".parley/outcome.json"
MARKER = "<<<<<<<"


@dataclass(frozen=True)
class Shared:
    """What a workspace and its parent came to have in common, when, and by a merge into whom."""

    moment: int
    parent: str  # empty: by a beginning, or a refresh
    files: dict[str, str]


class SimDisk:
    """The files of all processes: workspaces, snapshots, records. It outlives every process."""

    def __init__(self) -> None:
        self.work: dict[tuple[str, str], dict[str, str]] = {}
        self.trees: dict[str, dict[str, str]] = {}
        self.tips: dict[tuple[str, str], dict[str, str]] = {}  # what each workspace has committed
        self.shared: dict[tuple[str, str], list[Shared]] = {}  # what each came to have in common with its parent
        self.moments: dict[tuple[str, str, str], int] = {}  # when each workspace last had each tree
        self.moment = 0
        self.lost: dict[str, str] = {}
        self.blobs: dict[str, str] = {}  # files that went along with tasks
        self.records: dict[tuple[str, str], str] = {}
        self.streams: dict[tuple[str, str], list[str]] = {}

    def share(self, job: str, name: str, parent: str, files: Mapping[str, str]) -> None:
        """A workspace and its parent have these files in common now; `parent`: it was merged into that one."""
        self.moment += 1
        self.shared.setdefault((job, name), []).append(Shared(self.moment, parent, dict(files)))

    def base(self, job: str, name: str) -> dict[str, str]:
        """What a workspace has in common with its parent."""
        found = self.shared.get((job, name), [])
        return found[-1].files if found else {}

    def take_back(self, job: str, parent: str, tree: str) -> None:
        """A workspace goes back to a tree: what was merged into it since then is not there any more."""
        since = self.moments.get((job, parent, tree), 0)
        for (its_job, _), events in self.shared.items():
            if its_job == job:
                events[:] = [one for one in events if one.parent != parent or one.moment <= since]

    def write(self, place: str, path: str, text: str) -> bool:
        """What an agent writes; whether it may."""
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts:
            return False
        job, _, name = place.partition("|")
        self.work.setdefault((job, name), {})[path] = text
        return True

    def run(self, place: str, command: str) -> None:
        """What a shell does there: `put PATH TEXT` writes a file; all else does nothing."""
        word, *rest = command.split(" ", 2)
        if word == "put" and len(rest) == 2:
            self.write(place, *rest)


def _put(files: dict[str, str], path: str, text: str | None) -> None:
    if text is None:
        files.pop(path, None)
    else:
        files[path] = text


def _own(path: str, scope: Scope | None) -> bool:
    """Whether a file is the protocol's own, so that no merge takes it."""
    if path in ("INTENT.md", "PLAN.md", "WORK_SUMMARY.md", OUTCOME):
        return True
    if path.startswith(f"{REPORTS}/"):
        return True
    return path.startswith("orchestration/") and not (scope is not None and (scope.design or "/task_output/" in path))


def _conflicts(base: Mapping[str, str], ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[Conflict]:
    """What both sides have made different of what they had in common."""
    return [
        Conflict(path, ours[path], text)
        for path, text in theirs.items()
        if path in ours and ours[path] not in (base.get(path), text)
    ]


def _marked(conflict: Conflict) -> str:
    return f"{MARKER} {conflict.ours} | {conflict.theirs}"


def digest(files: Mapping[str, str]) -> str:
    """What files are known by."""
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:16]


class SimWorkspace:
    """Workspaces on the simulated disk."""

    def __init__(self, disk: SimDisk, fuse: Fuse) -> None:
        self.disk = disk
        self._fuse = fuse

    def reclaim(self, job: str) -> None:
        """Nothing is ever locked."""

    def prepare(
        self,
        job: str,
        name: str,
        parent: str,
        sealed: Iterable[str] = (),
        *,
        children: Iterable[str] | None = None,
        sent: Sequence[SentFile] = (),
    ) -> Site:
        """Make a workspace ready."""
        seed = dict(self.disk.tips.get((job, parent), {})) if name.startswith("dispatch:") else {}

        def act() -> None:
            if (job, name) not in self.disk.work:
                self.disk.work[job, name] = {**seed, **{one.path: self.disk.blobs[one.blob] for one in sent}}
                self.disk.trees[f"{job}|{name}"] = dict(seed)
                self.disk.tips[job, name] = dict(seed)
                self.disk.share(job, name, "", seed)

        self._fuse.burn("prepare", act)
        return Site(f"{job}|{name}")

    def pick(self, job: str, name: str, to: str, paths: Sequence[str], most: int) -> tuple[SentFile, ...]:
        """Keep files as they are now."""
        files, found = self.disk.work.get((job, name), {}), []
        for path in paths:
            if path not in files:
                raise WorkspaceError(f"{path!r} can't be sent: there is no such file")
            blob = hashlib.sha256(files[path].encode("utf-8", "replace")).hexdigest()
            self.disk.blobs[blob] = files[path]
            found.append(SentFile(path, blob, "100644", len(files[path])))
        if sum(one.size for one in found) > most:
            raise WorkspaceError(f"the files have more than {most} bytes in all")
        return tuple(found)

    def clone(self, job: str, name: str, of: str, tree: str, children: Mapping[str, str]) -> Site:
        """A tree, and nothing of what has come since; the trees of workers must be there as well."""
        for known in (tree, *children.values()):
            if known not in self.disk.trees and known:
                raise WorkspaceError(f"{job}: there is no tree {known}")
        files = dict(self.disk.trees.get(tree, {}))
        self._fuse.burn("clone", lambda: self.disk.work.__setitem__((job, name), files))
        return Site(f"{job}|{name}", writable=False)

    def committed(self, job: str, name: str) -> str:
        """The last tree."""
        files = self.disk.tips.get((job, name))
        if files is None:
            return ""
        self.disk.trees.setdefault(digest(files), dict(files))
        return digest(files)

    def draft(self, job: str, name: str, files: Mapping[str, str]) -> str:
        """The last tree with some files in it."""
        if (job, name) not in self.disk.tips:
            raise WorkspaceError(f"{name} has committed nothing")
        made = {**self.disk.tips[job, name], **files}
        self._fuse.burn("draft", lambda: self.disk.trees.__setitem__(digest(made), made))
        return digest(made)

    def read_committed(self, job: str, tree: str, path: str, most: int = 1_000_000) -> str | None:
        """A file of a tree."""
        text = self.disk.trees.get(tree, {}).get(path)
        return text if text is not None and len(text.encode("utf-8", "replace")) <= most else None

    def list_committed(self, job: str, tree: str, folder: str) -> tuple[str, ...]:
        """The files of a tree below a folder."""
        prefix = f"{folder}/" if folder else ""
        return tuple(sorted(path for path in self.disk.trees.get(tree, {}) if path.startswith(prefix)))

    def clear_outcome(self, job: str, name: str) -> None:
        """No outcome record is there."""
        self._fuse.burn("clear outcome", lambda: self.disk.work.get((job, name), {}).pop(OUTCOME, None))

    def read_outcome(self, job: str, name: str) -> Outcome | None:
        """The outcome record."""
        text = self.disk.work.get((job, name), {}).get(OUTCOME)
        if text is None:
            return None
        try:
            said = json.loads(text)
        except ValueError:
            return Outcome(problem="the outcome record is not JSON")
        if not isinstance(said, dict) or not isinstance(said.get("outcome"), str):
            return Outcome(problem="the outcome record names no outcome")
        if not isinstance(said.get("reason"), str) or not said["reason"].strip():
            return Outcome(problem="the outcome record gives no reason")
        return Outcome(said["outcome"], said["reason"])

    def snapshot(self, job: str, name: str, text: str, scope: Scope | None = None) -> Kept:
        """Keep what is there."""
        files = {path: text for path, text in self.disk.work.get((job, name), {}).items() if path != OUTCOME}
        left = self._keep_out(job, name, files, scope) if scope is not None else {}
        tree = digest(files)

        def act() -> None:
            self.disk.trees[tree] = files
            self.disk.tips[job, name] = files
            self.disk.moments[job, name, tree] = self.disk.moment

        self._fuse.burn("snapshot", act)
        told = tuple(f"{path}: {why}" for path, why in left.items())
        return Kept(tree, told, tuple(left), f"refs/parley/left/{job}/{name}" if left else "")

    def _keep_out(self, job: str, name: str, files: dict[str, str], scope: Scope) -> dict[str, str]:
        """Put back what is not allowed."""
        before = self.disk.tips.get((job, name), {})
        paths = sorted({*files, *before})
        found = {path: scope.allowed(path) for path in paths if files.get(path) != before.get(path)}
        refused = {path: why for path, why in found.items() if why}
        there = self.disk.work.get((job, name), {})

        def act() -> None:
            self.disk.lost.setdefault(f"{job}|{name}|left", json.dumps(there, sort_keys=True))
            for path in refused:
                _put(there, path, before.get(path))

        if refused:
            self._fuse.burn("keep out", act)
            for path in refused:
                _put(files, path, before.get(path))
        return refused

    def read(self, job: str, name: str, path: str, most: int = 1_000_000) -> str | None:
        """A file."""
        text = self.disk.work.get((job, name), {}).get(path)
        return text if text is not None and len(text.encode("utf-8", "replace")) <= most else None

    def write(self, job: str, name: str, files: Mapping[str, str | None]) -> None:
        """The protocol's own files."""
        if (job, name) not in self.disk.work:
            return
        there = self.disk.work[job, name]
        if all(there.get(path) == text for path, text in files.items()):
            return
        tip = dict(self.disk.tips.get((job, name), {}))

        def put(some: Iterable[str]) -> None:
            for path in some:
                _put(there, path, files[path])
                _put(tip, path, files[path])
            self.disk.tips[job, name] = tip

        self._fuse.burn("write files", lambda: put(files), lambda: put(list(files)[: len(files) // 2]))

    def listing(self, job: str, name: str, folder: str) -> tuple[str, ...]:
        """The files below a folder."""
        prefix = f"{folder}/" if folder else ""
        return tuple(sorted(path for path in self.disk.work.get((job, name), {}) if path.startswith(prefix)))

    def contents(self, job: str, tree: str, artifacts: Iterable[str]) -> dict[str, str]:
        """Digests of the artifacts."""
        files = self.disk.trees.get(tree, {})
        return {a: hashlib.sha256(files[a].encode()).hexdigest()[:16] for a in artifacts if a in files}

    def restore(self, job: str, name: str, tree: str, lost: str) -> None:
        """Put a tree back."""

        def act() -> None:
            if (job, name) not in self.disk.work:
                return
            self.disk.lost[f"{job}|{name}|{lost}"] = json.dumps(self.disk.work.get((job, name), {}), sort_keys=True)
            self.disk.work[job, name] = dict(self.disk.trees[tree or f"{job}|{name}"])
            self.disk.tips[job, name] = dict(self.disk.work[job, name])
            self.disk.take_back(job, name, tree)

        self._fuse.burn("restore", act)

    def abandon(self, job: str, name: str, lost: str) -> None:
        """Keep what is there."""
        files = json.dumps(self.disk.work.get((job, name), {}), sort_keys=True)
        self._fuse.burn("abandon", lambda: self.disk.lost.__setitem__(f"{job}|{name}|{lost}", files))

    def merge(self, job: str, name: str, parent: str, scope: Scope | None = None) -> Merge:
        """Bring a subteam's files up; what both sides have changed has both of them in it afterwards."""
        files = self.disk.tips.get((job, name), {})  # what is not committed stays out
        above = self.disk.work.setdefault((job, parent), {})
        base = self.disk.base(job, name)
        changed = [
            path
            for path, text in files.items()
            if not _own(path, scope) and text not in (above.get(path), base.get(path))
        ]
        refused = {path: why for path in changed if scope is not None and (why := scope.allowed(path))}
        brought = {path: files[path] for path in changed if path not in refused}
        conflicts = [Conflict(path, above.get(path), text) for path, text in brought.items() if MARKER in text]
        conflicts += _conflicts(base, above, {path: text for path, text in brought.items() if MARKER not in text})
        brought |= {conflict.path: _marked(conflict) for conflict in conflicts}

        def act() -> None:
            above.update(brought)
            self.disk.tips[job, parent] = {path: text for path, text in above.items() if path != OUTCOME}
            self.disk.share(job, name, parent, files)

        self._fuse.burn("merge", act)
        own = {path: text for path, text in files.items() if not (_own(path, scope) or (scope and scope.allowed(path)))}
        commits = (digest(own), digest(above)) if brought else ()
        kept_out = tuple(f"{path}: {why}" for path, why in refused.items())
        return Merge(paths=tuple(brought), conflicts=tuple(conflicts), left_out=(), commits=commits, kept_out=kept_out)

    def refresh(self, job: str, name: str, parent: str, *, clean: bool = False) -> Merge:
        """Bring a parent's files down; with `clean` only where that leaves no conflict."""
        above = self.disk.tips.get((job, parent), {})
        files = self.disk.work.setdefault((job, name), {})
        base = self.disk.base(job, name)
        changed = {path: text for path, text in above.items() if text != base.get(path) and path != OUTCOME}
        newer = {path: text for path, text in changed.items() if files.get(path) == base.get(path)}
        conflicts = _conflicts(base, files, {path: text for path, text in changed.items() if not _own(path, None)})
        if clean and conflicts:
            return Merge((), tuple(conflicts))
        newer |= {conflict.path: _marked(conflict) for conflict in conflicts}

        def act() -> None:
            files.update(newer)
            self.disk.share(job, name, "", base | newer | {one.path: above[one.path] for one in conflicts})
            self.disk.tips[job, name] = self.disk.tips.get((job, name), {}) | newer

        self._fuse.burn("refresh", act)
        return Merge(tuple(newer), tuple(conflicts), commits=(digest(above), digest(files)) if newer else ())

    def beginning(self, job: str, tree: str, artifact: str, length: int) -> str:
        """How an artifact begins."""
        return self.disk.trees.get(tree, {}).get(artifact, "")[:length]

    def changed(self, job: str, name: str) -> tuple[str, ...]:
        """What its commits have changed since it began."""
        tip, base = self.disk.tips.get((job, name), {}), self.disk.trees.get(f"{job}|{name}", {})
        return tuple(sorted(path for path in {*tip, *base} if tip.get(path) != base.get(path)))

    def unresolved(self, job: str, name: str) -> list[str]:
        """The paths that still have both sides in them."""
        return sorted(path for path, text in self.disk.work.get((job, name), {}).items() if MARKER in text)

    def retire(self, job: str, name: str) -> None:
        """Keep what is there under what it was; a clone just goes."""
        if name.startswith("escalation:"):
            self._fuse.burn("retire", lambda: self.disk.work.pop((job, name), None))
            return
        files = self.disk.work.get((job, name), {})
        self._fuse.burn("retire", lambda: self.disk.lost.__setitem__(f"{job}|{name}", json.dumps(files)))

    def changes(self, job: str, tree: str = "") -> list[Change]:
        """No run of the simulator asks for it."""
        return []


class SimPapers:
    """The files of a job's workflow on the simulated disk, to be held against the bus."""

    def __init__(self, disk: SimDisk, job: str) -> None:
        self.views = {FOLDER_VIEW: disk.work.get((job, f"job:{job}")), TIP_VIEW: disk.tips.get((job, f"job:{job}"))}
        self.trees = disk.trees

    def listed(self, view: str) -> dict[str, str] | None:
        """What is there."""
        files = self._files(view)
        below = "orchestration/"
        return None if files is None else {path: digest({"": text}) for path, text in files.items() if below in path}

    def data(self, view: str, path: str) -> bytes | None:
        """What a file holds."""
        text = (self._files(view) or {}).get(path)
        return None if text is None else text.encode("utf-8", "replace")

    def name(self, data: bytes) -> str:
        """What a file with this content is known by."""
        return digest({"": data.decode("utf-8")})

    def _files(self, view: str) -> dict[str, str] | None:
        return self.views[view] if view in self.views else self.trees.get(view)


class SimFiles:
    """Records and streams on the simulated disk."""

    def __init__(self, disk: SimDisk, fuse: Fuse) -> None:
        self.disk = disk
        self._fuse = fuse

    def home(self, job: str) -> Path:
        """Nowhere real."""
        return Path("/nowhere") / job

    def write_state(self, job: str, name: str, text: str) -> None:
        """Whole or not at all."""
        self._fuse.burn(f"write {name}", lambda: self.disk.records.__setitem__((job, name), text))

    def append(self, job: str, stream: str, lines: Sequence[str]) -> None:
        """Lines, of which a crash may cut off the end."""
        there = self.disk.streams.setdefault((job, stream), [])

        def half() -> None:
            there.extend(lines[:-1])
            there.append(lines[-1][: len(lines[-1]) // 2])

        self._fuse.burn("append", lambda: there.extend(lines), half)

    def tail(self, job: str, stream: str) -> list[str]:
        """The last lines."""
        return self.disk.streams.get((job, stream), [])[-200:]

    def last_write(self, job: str) -> float:
        """Nothing here has a time."""
        return 0.0

    def write_outcome(self, job: str, name: str, text: str) -> None:
        """Keep an outcome record."""
        self.write_state(job, f"outcomes/{name}", text)
