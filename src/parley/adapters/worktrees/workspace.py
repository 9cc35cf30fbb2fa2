"""The workspaces of a home's jobs: made, committed, put back, retired. Merging and delivering are beside this."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from parley.adapters import outcome as outcomes
from parley.adapters.git import GitError
from parley.adapters.worktrees import delivery, merging
from parley.adapters.worktrees.copying import bring, check_copies
from parley.adapters.worktrees.history import BEGIN, History, begin, unknown_tree
from parley.adapters.worktrees.homecoming import Homecoming, bring_home
from parley.adapters.worktrees.inside import Inside
from parley.adapters.worktrees.marks import Marks, read_marks
from parley.adapters.worktrees.scan import Unkept, changed, keep, opened, survey, told
from parley.adapters.worktrees.source import Source, find_source
from parley.config import WorkspaceSettings
from parley.ports import Bind, Change, Kept, Merge, Outcome, OverQuota, Site, WorkspaceError

SEALED = "it is approved, and was put back as it was"


def slug_of(name: str) -> str:
    """A workspace's name as part of a file's or a branch's name; empty for a job's own."""
    kind, _, rest = name.partition(":")
    if kind == "job":
        return ""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", rest)
    return plain if plain == rest and rest else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


class Worktrees:
    """One worktree for a job, and one for each dispatch of it.

    `root` is the user's folder, `title` tells what a job was asked for, `hand_over` gives files that were made here
    to whoever agents run as, and `set_up` runs the user's set-up command in a site.
    """

    def __init__(
        self,
        home: Path,
        root: Path | None = None,
        settings: WorkspaceSettings | None = None,
        *,
        title: Callable[[str], str] = lambda job: "",
        hand_over: Callable[[Path], None] | None = None,
        set_up: Callable[[Site, str], None] | None = None,
    ) -> None:
        self.home = home.resolve()
        self.root = root
        self.settings = settings or WorkspaceSettings()
        self._title = title
        self._hand_over = hand_over
        self._set_up = set_up
        self._sizes: dict[str, dict[str, int]] = {}  # job -> workspace -> bytes, when it was last looked through
        self._sealed: dict[tuple[str, str], tuple[str, ...]] = {}

    # ---- where things are ----------------------------------------------------------------------

    def path(self, job: str, name: str) -> Path:
        """The folder of a workspace."""
        slug = slug_of(name)
        return self.home / "jobs" / job / (f"trees/{slug}" if slug else "work")

    def history(self, job: str) -> History:
        """The job's repository."""
        return History(self.home / "jobs" / job)

    def source(self) -> Source | None:
        """The user's repository; None where the folder has none."""
        return find_source(self.root) if self.root is not None else None

    def marks(self, history: History, slug: str) -> Marks:
        """What is known of a workspace besides its files."""
        return read_marks(history.folder / "marks" / f"{slug or 'job'}.json")

    def aside(self, history: History, path: Path) -> Path:
        """Move something away: it is in the way, and may be somebody's work."""
        folder = history.folder / "aside"
        folder.mkdir(exist_ok=True)
        number = sum(1 for _ in folder.iterdir())
        while os.path.lexists(place := folder / f"{path.name}-{number}"):
            number += 1
        path.rename(place)
        return place

    # ---- making --------------------------------------------------------------------------------

    def prepare(self, job: str, name: str, parent: str, sealed: Iterable[str] = ()) -> Site:
        """Make a workspace ready (again). A new one starts as its parent's tree; sealed files can't be changed."""
        history, slug, folder = self._begun(job), slug_of(name), self.path(job, name)
        marks = self.marks(history, slug)
        tip = history.tip(slug)
        if not tip:
            tip = self._make(history, slug, folder, parent, marks)
        elif not folder.is_dir():
            self._check_out(history, slug, folder, tip)
            self._bring(folder, marks)
        self._sealed[job, slug] = tuple(sealed)
        _mark(folder, lambda path: self.aside(history, path))
        binds = Inside(history, slug, self._hand_over).binds(folder, tip, marks, lambda path: self.aside(history, path))
        return Site(str(folder), True, (*binds, *self._seal(history, slug, folder, tip)))

    def _begun(self, job: str) -> History:
        history = self.history(job)
        if not history.exists:
            check_copies(self.settings.copy)
            source = self.source()
            found = delivery.found_tree(source) if source and self.settings.dirty == "include" else None
            begin(history, source, job, self._title(job), self.home / "bases", found)
        return history

    def _make(self, history: History, slug: str, folder: Path, parent: str, marks: Marks) -> str:
        """A new workspace. Its branch comes last: where it stands, all before it was done."""
        above = (history.tip(slug_of(parent)) if parent and slug else "") or history.tip("") or history.ref(BEGIN)
        if os.path.lexists(folder):
            self.aside(history, folder)
        self._check_out(history, slug, folder, above)
        self._bring(folder, marks)
        if self.settings.setup and self._set_up is not None:
            _mark(folder, lambda path: self.aside(history, path))
            binds = Inside(history, slug, self._hand_over).binds(
                folder, above, marks, lambda path: self.aside(history, path)
            )
            self._set_up(Site(str(folder), True, tuple(binds)), self.settings.setup)
            new = history.git.text(
                "ls-files", "-z", "--others", "--directory", "--exclude-standard",
                work=folder, index=history.index(slug),
            )  # fmt: skip
            marks.hidden = sorted({*marks.hidden, *(path.rstrip("/") for path in new.split("\0") if path)})
        marks.write()
        history.set_tip(slug, above)
        return above

    def _bring(self, folder: Path, marks: Marks) -> None:
        if self.root is not None and self.settings.copy:
            marks.hidden = sorted({*marks.hidden, *bring(self.root, self.settings.copy, folder)})
            if self._hand_over is not None:
                self._hand_over(folder)

    def _check_out(self, history: History, slug: str, folder: Path, commit: str) -> None:
        """Fill a new folder with a commit's files."""
        folder.mkdir(parents=True)
        index = history.index(slug)
        index.unlink(missing_ok=True)
        history.git("read-tree", "--reset", "-u", commit, work=folder, index=index)
        _mark(folder, lambda path: self.aside(history, path))
        self.handed_over(history, slug, folder)

    def handed_over(self, history: History, slug: str, folder: Path) -> None:
        """Give what was written here to whoever agents run as; the index knows the files again afterwards."""
        if self._hand_over is not None:
            self._hand_over(folder)
            history.git("update-index", "-q", "--refresh", work=folder, index=history.index(slug), fine=(0, 1))

    def _seal(self, history: History, slug: str, folder: Path, tip: str) -> list[Bind]:
        """Put sealed files back as they were committed, and lay them over the workspace so that they stay so."""
        sealed = self._sealed.get((history.folder.name, slug), ())
        entries = history.entries(tip, sealed) if sealed else {}
        binds = []
        for path, (mode, blob) in entries.items():
            if mode.startswith("100") and path in sealed:
                data = history.blob(blob)
                source = history.folder / "sealed" / (slug or "job") / path
                source.parent.mkdir(parents=True, exist_ok=True)
                source.write_bytes(data)
                self._put_back(history, folder / path, data)
                binds.append(Bind(str(source), str(folder / path)))
        return binds

    def _put_back(self, history: History, path: Path, data: bytes) -> None:
        if path.is_file() and not path.is_symlink() and path.read_bytes() == data:
            return
        if os.path.lexists(path):
            self.aside(history, path)
        path.write_bytes(data)
        if self._hand_over is not None:
            self._hand_over(path)

    # ---- the outcome record and the artifacts --------------------------------------------------

    def clear_outcome(self, job: str, name: str) -> None:
        """See to it that no outcome record is there when a turn starts."""
        outcomes.clear_outcome(self.path(job, name))

    def read_outcome(self, job: str, name: str) -> Outcome | None:
        """The outcome record, if a turn left one. Whatever else lies there is a problem, told as such."""
        return outcomes.read_outcome(self.path(job, name))

    def contents(self, job: str, name: str, artifacts: Iterable[str]) -> dict[str, str]:
        """The digest of each artifact that is there as an ordinary file."""
        found = {}
        for artifact in artifacts:
            if Path(artifact).name != artifact:
                continue
            try:
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                handle = os.open(self.path(job, name) / artifact, flags)
            except OSError:
                continue
            try:
                if stat.S_ISREG(os.fstat(handle).st_mode):
                    with os.fdopen(os.dup(handle), "rb") as file:
                        found[artifact] = hashlib.file_digest(file, "sha256").hexdigest()
            finally:
                os.close(handle)
        return found

    # ---- keeping -------------------------------------------------------------------------------

    def snapshot(self, job: str, name: str, text: str) -> Kept:
        """Commit what is there now, with this message. OverQuota if there is too much of it."""
        history, slug, folder = self.history(job), slug_of(name), self.path(job, name)
        tip = history.tip(slug) if history.exists else ""
        if not tip or not folder.is_dir():
            return Kept("")
        left = self.check_quota(history, slug, folder)
        tree = self.take(history, slug, folder, left)
        for path in self._sealed.get((job, slug), ()):
            if path in left:
                self._seal(history, slug, folder, tip)
        history.set_tip(slug, history.commit(tree, (tip,), text))
        self.marks(history, slug).remember(tree, folder)
        return Kept(tree, told(left))

    def check_quota(self, history: History, slug: str, folder: Path) -> dict[str, str]:
        """Look through a workspace; what of it can't be kept, with the reason."""
        limit = self.settings.quota_mb << 20
        sizes = self._sizes.setdefault(history.folder.name, {})
        if not sizes:
            for place in (history.git.folder, *(path for path in history.folder.glob("trees/*") if path != folder)):
                sizes[place.name] = _size(place, limit)
        others = sum(size for place, size in sizes.items() if place != (slug or "work"))
        found = survey(folder, self.settings.files, limit - others - history.objects.written_bytes)
        sizes[slug or "work"] = found.bytes
        left = dict.fromkeys(found.special, "it is no ordinary file")
        for link in history.beginning.gitlinks:
            hidden = self.marks(history, slug).hidden
            with contextlib.suppress(OSError):
                if any((folder / link).iterdir()) and link not in hidden:
                    left[link] = "it is a submodule, and stays at its commit"
        return left

    def take(
        self, history: History, slug: str, folder: Path, left: dict[str, str], *, everything: Path | None = None
    ) -> str:
        """Write what is in a workspace; its tree. What can't be kept is left out, and added to `left`.

        `everything`: the index for a tree that is only looked at, so that links that lead outside are taken as well.
        """
        sealed = self._sealed.get((history.folder.name, slug), ()) if everything is None else ()
        index = everything or history.index(slug)
        paths = changed(history.git, folder, index, self.marks(history, slug).hidden)
        entries: dict[str, tuple[str, str] | None] = {}
        kept_besides = False
        with opened(folder) as root:
            for path in paths:
                if path in history.beginning.gitlinks:
                    continue
                if path.endswith("/"):
                    left[path] = "it holds a repository of its own; remove its .git to have its files kept"
                elif path.split("/")[0] in sealed:
                    left[path.split("/")[0]] = SEALED
                    kept_besides = True
                else:
                    try:
                        entries[path] = keep(history.objects, root, path, any_link=everything is not None)
                    except Unkept as why:
                        left[path] = str(why)
                        kept_besides = kept_besides or "link" in str(why)
        if kept_besides:
            self._keep_besides(history, slug, folder)
        left.update(dict.fromkeys(history.put_entries(index, entries), "git can't keep this name"))
        if entries:
            history.git("update-index", "-q", "--refresh", work=folder, index=index, fine=(0, 1))
        return history.git.text("write-tree", index=index)

    def _keep_besides(self, history: History, slug: str, folder: Path) -> None:
        """Keep under a ref what a commit leaves out and a ref can hold."""
        ref = f"refs/parley/left/{history.folder.name}/{slug or 'job'}"
        before = history.ref(ref)
        draft = history.index(slug).with_suffix(".everything")
        shutil.copyfile(history.index(slug), draft)
        tree = self.take(history, slug, folder, {}, everything=draft)
        draft.unlink()
        if not before or history.tree(before) != tree:
            parents = (before or history.tip(slug),)
            history.set_ref(ref, history.commit(tree, parents, "what was left out"))

    def restore(self, job: str, name: str, tree: str, lost: str) -> None:
        """Put back what a tree holds; what was there instead stays under a ref, or aside where no ref can hold it."""
        history, slug, folder = self.history(job), slug_of(name), self.path(job, name)
        tip = history.tip(slug) if history.exists else ""
        if not tip:
            return
        if not history.has(f"{tree}^{{tree}}"):
            raise unknown_tree(tree, job)
        now = self._lose(history, slug, folder, lost) if folder.is_dir() else ""
        back = next((commit for commit, held in history.log(tip) if held == tree), "")
        if back != tip:
            history.set_ref(self._free(history, f"refs/parley/lost/{job}/{slug or 'job'}/{lost}-branch"), tip)
            history.set_tip(slug, back or history.commit(tree, (tip,), f"back to {tree}"))
        if not folder.is_dir():
            self._check_out(history, slug, folder, history.tip(slug))
            marks = self.marks(history, slug)
            self._bring(folder, marks)
        elif now != tree:
            history.git("read-tree", "--reset", "-u", tree, work=folder, index=history.index(slug))
            self.handed_over(history, slug, folder)
        self.marks(history, slug).go_back(tree)

    def _lose(self, history: History, slug: str, folder: Path, lost: str) -> str:
        """Keep what a lost turn had written; its tree, or nothing where the folder had to go as a whole."""
        left: dict[str, str] = {}
        tip = history.tip(slug)
        try:
            left = self.check_quota(history, slug, folder)
            now = self.take(history, slug, folder, left, everything=history.index(slug))
        except (OverQuota, GitError):
            self.aside(history, folder)
            return ""
        if now != history.tree(tip):
            ref = self._free(history, f"refs/parley/lost/{history.folder.name}/{slug or 'job'}/{lost}")
            history.set_ref(ref, history.commit(now, (tip,), f"lost: {lost}"))
        if left:
            self.aside(history, folder)
            return ""
        return now

    def _free(self, history: History, ref: str) -> str:
        """A ref that names nothing yet."""
        number, name = 1, ref
        while history.ref(name):
            number += 1
            name = f"{ref}-{number}"
        return name

    def retire(self, job: str, name: str) -> None:
        """Keep what a workspace holds under a ref, and take its folder away."""
        history, slug, folder = self.history(job), slug_of(name), self.path(job, name)
        tip = history.tip(slug) if history.exists else ""
        if not tip or not folder.is_dir():
            return
        left: dict[str, str] = {}
        try:
            left = self.check_quota(history, slug, folder)
            tree = self.take(history, slug, folder, left, everything=history.index(slug))
        except (OverQuota, GitError):
            self.aside(history, folder)
            return
        kept = tip if tree == history.tree(tip) else history.commit(tree, (tip,), "retired")
        history.set_ref(f"refs/parley/retired/{job}/{slug or 'job'}", kept)
        gone = self.aside(history, folder)
        self._sizes.get(job, {}).pop(slug or "work", None)
        if not left:
            threading.Thread(target=shutil.rmtree, args=(gone,), kwargs={"ignore_errors": True}, daemon=True).start()

    # ---- merging and delivering ----------------------------------------------------------------

    def merge(self, job: str, name: str, parent: str) -> Merge:
        """Bring what a workspace committed since it began, or was last merged, into its parent's tree."""
        history, slug, above = self.history(job), slug_of(name), slug_of(parent)
        if not history.exists or not history.tip(slug) or not history.tip(above) or slug == above:
            return Merge()
        left = self._uncommitted(history, slug, self.path(job, name))
        folder = self.path(job, parent)
        if folder.is_dir():
            self.snapshot(job, parent, f"before {name} is merged")
        found = merging.combine(history, slug, above, name)
        if found is None:
            return Merge(left_out=told(left))
        if folder.is_dir():
            self._update(history, above, folder, found.tree)
        marks = self.marks(history, above)
        marks.conflicts.update(found.signs)
        marks.write()
        parents = (history.tip(above), history.tip(slug))
        history.set_tip(above, history.commit(found.tree, parents, f"merge {name}"))
        marks.remember(found.tree, folder)
        return Merge(found.paths, found.conflicts, told(left))

    def _uncommitted(self, history: History, slug: str, folder: Path) -> dict[str, str]:
        """What lies in a workspace and was not committed by its last turn."""
        if not folder.is_dir():
            return {}
        paths = changed(history.git, folder, history.index(slug), self.marks(history, slug).hidden)
        return {path: "its last turn did not commit it" for path in paths if path not in history.beginning.gitlinks}

    def _update(self, history: History, slug: str, folder: Path, tree: str) -> None:
        """Bring a workspace whose files are committed to another tree."""
        index = history.index(slug)
        try:
            history.git("read-tree", "-m", "-u", history.tip(slug), tree, work=folder, index=index)
        except GitError:  # something that no commit holds is in the way
            self._lose(history, slug, folder, "merge")
            if folder.is_dir():
                history.git("read-tree", "--reset", "-u", tree, work=folder, index=index)
            else:
                self._check_out(history, slug, folder, tree)
        self.handed_over(history, slug, folder)

    def unresolved(self, job: str, name: str) -> list[str]:
        """The paths that a merge left in conflict and nobody has settled yet."""
        return self.marks(self.history(job), slug_of(name)).settle(self.path(job, name))

    def changes(self, job: str, *, whole: bool = False) -> list[Change]:
        """What the job's tree has changed of what it started from, the protocol's own files left out."""
        return delivery.changes(self.history(job), whole=whole)

    def diff(self, job: str, *, whole: bool = False, stat: bool = False) -> bytes:
        """The same, as git shows it."""
        return delivery.diff(self.history(job), whole=whole, stat=stat)

    def deliver(self, job: str) -> delivery.Delivered | None:
        """Make the result a branch of the user's repository, if there is one."""
        history = self.history(job)
        source = delivery.source_of(history) if history.exists else None
        return delivery.deliver(history, source) if source else None

    def bring_home(self, job: str, *, whole: bool = False) -> Homecoming:
        """Merge the result into what the user has checked out."""
        if self.root is None or not self.history(job).exists:
            raise WorkspaceError(f"{job} has no files to bring home; see how it stands with `parley show {job}`")
        return bring_home(self.history(job), self.root, whole=whole)

    def uncommitted(self) -> list[str]:
        """The paths of the user's checkout that are not committed: no job starts with them, unless the settings say so."""
        source = self.source()
        if source is None or self.settings.dirty == "include":
            return []
        return delivery.uncommitted(source)

    def anchors(self, job: str) -> list[dict[str, Any]]:
        """Where the bus stood at each turn's end, as the turns' commits say."""
        history = self.history(job)
        if not history.exists:
            return []
        found = []
        for line in os.fsdecode(history.git("log", "--all", "--format=%b")).splitlines():
            if line.startswith('{"head":'):
                with contextlib.suppress(ValueError):
                    found.append(json.loads(line)["head"])
        return [head for head in found if isinstance(head, dict)]


def _mark(folder: Path, aside: Callable[[Path], object]) -> None:
    """Where git looks for a repository there is an empty file: outside the boundary the folder is none."""
    marker = folder / ".git"
    if os.path.lexists(marker):
        found = marker.lstat()
        if stat.S_ISREG(found.st_mode) and found.st_size == 0:
            return
        aside(marker)
    marker.touch()


def _size(place: Path, limit: int) -> int:
    try:
        return survey(place, limit, limit).bytes
    except OverQuota:
        return limit


__all__ = ["WorkspaceError", "Worktrees", "slug_of"]
