"""One workspace: its folder, its branch and its index, and how it is filled, scanned, committed and restored."""

from __future__ import annotations

import contextlib
import os
import posixpath
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from parley.ports.turns import Bind
from parley.ports.workspaces import CHILDREN, OverQuota, Scope, WorkspaceError
from parley.workspaces.agent_git import AgentRepository
from parley.workspaces.children_view import show
from parley.workspaces.files.changed_paths import ComparedFolder, Tracked, differing, new
from parley.workspaces.files.ignored import ignoring
from parley.workspaces.files.known_blobs import LINK, PROGRAM, KnownBlobs
from parley.workspaces.files.safe_delete import delete
from parley.workspaces.files.safe_fs import SafeFolder
from parley.workspaces.files.scan import TOO_DEEP, Allowance, CannotKeep, Survey, keep, open_folder, open_up, survey
from parley.workspaces.files.tree_entry import TreeEntry
from parley.workspaces.job_repository import GITLINK, SEED, Entries, JobRepository, within
from parley.workspaces.merge.ownership_fence import outside
from parley.workspaces.quota import OVERGROWN
from parley.workspaces.safe_git import LONG_SECONDS, GitError, ObjectReader
from parley.workspaces.workspace_marks import WorkspaceMarks, read_marks

SEALED = "it is approved, and was put back as it was"
PUT_BACK = "it was put back as it was, and what was there is kept under {ref}"
SHORT = 12  # characters of a commit's name
ROUNDS = 5  # of restoring: a restored `.gitignore` may show files that it had hidden
HandOver = Callable[[Path], None]


class KeptOut(NamedTuple):
    """What was restored because another agent owns it: the paths, the ref, and what the folder holds afterwards."""

    paths: tuple[str, ...]
    ref: str
    found: Survey


class Worktree:
    """A workspace as the orchestrator has it. `slug` is empty for the job's own."""

    def __init__(self, repository: JobRepository, slug: str, folder: Path, hand_over: HandOver | None) -> None:
        self.repository = repository
        self.job = repository.folder.name
        self.slug = slug
        self.name = slug or "job"
        self.folder = folder
        self.sealed: tuple[str, ...] = ()
        self._hand_over = hand_over
        self._most = sys.maxsize  # bytes that are read to be kept, by the last look
        self._known = KnownBlobs(repository.git.folder / f"known-{self.name}")
        self._listed: tuple[tuple[int, int, int], Tracked] | None = None  # what an index held when it was last read

    @property
    def index(self) -> Path:
        """What is known of the state of its files."""
        return self.repository.index(self.slug)

    @property
    def tip(self) -> str:
        """Its last commit; empty if it was never made."""
        return self.repository.tip(self.slug) if self.repository.exists else ""

    @property
    def marks(self) -> WorkspaceMarks:
        """What is known of it besides its files."""
        return read_marks(self.repository.folder / "marks" / f"{self.name}.json")

    # ---- filling -------------------------------------------------------------------------------

    def check_out(self, commit: str) -> None:
        """Make the folder with a commit's files.

        It is filled where no agent can reach, and moved to its place when it is whole: git follows links, so it must
        not write where an agent may be making them.
        """
        fresh = Worktree(self.repository, self.slug, self.repository.folder / "fresh" / self.name, self._hand_over)
        fresh.folder.parent.mkdir(mode=0o700, exist_ok=True)
        if fresh.folder.is_dir():  # a crash left it
            delete(fresh.folder)
        fresh.fill(commit)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(self.folder):
            self.aside(self.folder)
        fresh.folder.rename(self.folder)

    def fill(self, commit: str) -> None:
        """Fill a new folder that no agent can reach with a commit's files."""
        self.folder.mkdir()
        self.index.unlink(missing_ok=True)
        self._known.forget()
        words = ("read-tree", "--reset", "-u", commit)
        self.repository.git(*words, work=self.folder, index=self.index, seconds=LONG_SECONDS)
        self.shut()
        self.handed_over()
        self._known.take_for(self.folder, self.tracked(self.index))

    def shut(self) -> None:
        """Put an empty file at `.git`: outside the boundary the folder is no repository."""
        open_up(self.folder)
        marker = self.folder / ".git"
        if os.path.lexists(marker):
            found = marker.lstat()
            if stat.S_ISREG(found.st_mode) and found.st_size == 0:
                return
        with self.safe_folder() as safe_folder:
            safe_folder.put(".git", lambda handle: None)

    def handed_over(self) -> None:
        """Give what was written here to the user that agents run as."""
        if self._hand_over is not None:
            self._hand_over(self.folder)

    def aside(self, path: Path, ending: str = "") -> Path:
        """Move a file that is in the way aside: it may be an agent's work."""
        folder = self.repository.folder / "aside"
        folder.mkdir(exist_ok=True)
        number = sum(1 for _ in folder.iterdir())
        while os.path.lexists(place := folder / f"{path.name}-{number}{ending}"):
            number += 1
        open_up(path)  # moving a folder to another parent writes to it
        path.rename(place)
        return place

    def binds(self, tip: str, marks: WorkspaceMarks, children: Sequence[Worktree] | None = None) -> list[Bind]:
        """What an agent is to see over the folder: a repository of its own, and sealed files as they were approved.

        With `children` also the last commits of those workspaces: as folders, and as refs of that repository.
        """
        self.shut()
        inside = AgentRepository(self.repository, self.slug, self.name, self._hand_over)
        tips = {child.name: child.tip for child in children or () if child.made()}
        binds = [*inside.binds(self.folder, tip, marks, self.aside, tips), *self.seal(tip)]
        if children is not None:
            self._clear_way()
            folder = show(self.repository, self.name, tips, self.folder, marks)
            binds.append(Bind(str(folder), str(self.folder / CHILDREN)))
        return binds

    def _clear_way(self) -> None:
        """Move aside what the agent has made of the folder that the children's trees are shown in."""
        for path in (Path(CHILDREN).parent, Path(CHILDREN)):
            place = self.folder / path
            open_up(self.folder, str(path.parent))
            if place.is_symlink():
                place.unlink()
            elif os.path.lexists(place) and not place.is_dir():
                self.aside(place)

    def made(self) -> tuple[str, ...]:
        """The paths that its commits have changed since it began."""
        repository, tip = self.repository, self.tip
        seed = repository.ref(f"{SEED}/{self.name}") if tip else ""
        if not seed or seed == tip:
            return ()
        words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", seed, tip)
        untouched = self.untouched()
        return tuple(path for path in os.fsdecode(repository.git(*words)).split("\0") if path and path not in untouched)

    def untouched(self) -> Entries:
        """What was sent with its task and is still as it was sent, each as the workspace would have begun without it.

        It is the sender's copy: the agent that works here has not changed it.
        """
        sent = {one.path: (one.mode, one.blob) for one in self.marks.sent}
        if not sent:
            return {}
        seed = self.repository.entries(self.repository.ref(f"{SEED}/{self.name}"), list(sent))
        now = self.repository.entries(self.tip, list(sent))
        return {path: seed.get(path) for path, entry in sent.items() if now.get(path) == entry}

    def seal(self, tip: str) -> list[Bind]:
        """Put sealed files back as they were committed, and lay them over the workspace so that they stay so."""
        binds = []
        for bind, data in self._approved(tip):
            self._put_back(os.path.relpath(bind.target, self.folder), data)
            binds.append(bind)
        return binds

    def _approved(self, tip: str) -> list[tuple[Bind, bytes]]:
        """Sealed files as they were committed, to be laid over the workspace."""
        entries = self.repository.entries(tip, self.sealed) if self.sealed else {}
        found = []
        for path, (mode, blob) in entries.items():
            if mode.startswith("100") and path in self.sealed:
                data = self.repository.blob(blob)
                source = self.repository.folder / "sealed" / self.name / path
                source.parent.mkdir(parents=True, exist_ok=True)
                source.write_bytes(data)
                found.append((Bind(str(source), str(self.folder / path)), data))
        return found

    def _put_back(self, path: str, data: bytes) -> None:
        with self.safe_folder() as safe_folder:
            if safe_folder.read(path, len(data)) != data:
                safe_folder.clear(path)
                safe_folder.put_data(path, data)

    # ---- writing where an agent may be at work ---------------------------------------------------

    @contextlib.contextmanager
    def safe_folder(self) -> Iterator[SafeFolder]:
        """The folder, to write below."""
        try:
            with SafeFolder(self.folder, self.repository.folder / "aside") as safe_folder:
                yield safe_folder
        except OSError as error:
            raise WorkspaceError(f"{self.folder} can't be written to: {error.strerror or error}") from error

    def put_files(self, entries: Entries) -> None:
        """Put files as they are in the job's repository, in the place of files of the same names."""
        with self.safe_folder() as safe_folder:
            for path in entries:
                safe_folder.clear(path)
        self._put(entries)

    def _put(self, entries: Entries) -> None:
        """Put files as they are in the job's repository; those that are gone go first, and leave room for folders."""
        with self.safe_folder() as safe_folder, self.repository.git.contents() as contents:
            for path in sorted((path for path, entry in entries.items() if entry is None), reverse=True):
                safe_folder.remove(path)
            for path, entry in entries.items():
                if entry is None:
                    continue
                mode, name = entry
                if mode == GITLINK:
                    safe_folder.folder(path)
                elif mode == LINK:
                    target: list[bytes] = []
                    contents.copy(name, target.append)
                    safe_folder.link(path, os.fsdecode(b"".join(target)))
                else:
                    fill = partial(_copy, contents, name)
                    safe_folder.put(path, fill, program=mode == PROGRAM)

    def _differing(self, *words: str, wanted: int) -> Entries:
        """What has to be written or removed, as git says; `wanted`: which of the two compared sides is the target."""
        how = ("-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=all")
        found = os.fsdecode(self.repository.git(words[0], *how, *words[1:], index=self.index))
        parts = found.split("\0")
        entries: dict[str, TreeEntry | None] = {}
        for head, path in zip(parts[::2], parts[1::2], strict=False):
            fields = head.removeprefix(":").split()
            mode, name = fields[wanted], fields[2 + wanted]
            entries[path] = TreeEntry(mode, name) if mode.strip("0") else None
        return entries

    # ---- looking and keeping -------------------------------------------------------------------

    def tracked(self, index: Path) -> Tracked:
        """What an index has."""
        found = index.stat()
        mark = (found.st_mtime_ns, found.st_size, found.st_ino)
        if self._listed is None or self._listed[0] != mark:
            self._listed = (mark, self.repository.indexed(index))
        return self._listed[1]

    @property
    def place(self) -> ComparedFolder:
        """The folder, to be compared with what is committed."""
        repository = self.repository
        return ComparedFolder(
            git=repository.git,
            folder=self.folder,
            beside=repository.folder,
            object_format=repository.beginning.object_format,
            known=self._known,
        )

    def survey(self, file_limit: int = sys.maxsize, byte_limit: int = sys.maxsize, *, mend: bool = False) -> Survey:
        """Look through the folder."""
        self._known.begin()
        return survey(self.folder, file_limit, byte_limit, mend=mend)

    def changed(self, found: Survey | None = None, index: Path | None = None) -> list[str]:
        """The paths that differ from the last commit, or from an index. Submodules never do."""
        found = found or self.survey()
        paths = differing(self.place, found, self.tracked(index or self.index), self.marks.hidden)
        links = self.repository.beginning.gitlinks
        return [path for path in paths if path.rstrip("/") not in links]

    def ignored(self, paths: Sequence[str]) -> set[str]:
        """Those of the paths that git ignores here, and that no commit holds."""
        rules = self.survey().rules
        with ignoring(self.repository.git, self.folder, self.repository.folder, rules.__contains__) as asked:
            found = asked.of(paths)
        return found - self.tracked(self.index).keys() - self.repository.entries(self.tip, list(paths)).keys()

    def look(self, file_limit: int, byte_limit: int) -> tuple[Survey, dict[str, str]]:
        """What it holds, and what of it can't be kept. OverQuota where it is too much."""
        found = self.survey(file_limit, byte_limit, mend=True)
        self._most = byte_limit
        left = dict.fromkeys(found.special, "it is no ordinary file")
        left |= dict.fromkeys(found.shut, "this folder can't be opened")
        left |= dict.fromkeys(found.deep, TOO_DEEP)
        links = {link for link in self.repository.beginning.gitlinks if link not in self.marks.hidden}
        if links:
            inside = {link for link in links if any(path.startswith(f"{link}/") for path in found.held)}
            left |= dict.fromkeys(sorted(inside), "it is a submodule, and stays at its commit")
        return found, left

    def keep_out(self, found: Survey, scope: Scope, left: dict[str, str]) -> KeptOut:
        """Restore changed paths that another agent owns; what was there is kept under a ref first."""
        paths: dict[str, None] = {}
        for _ in range(ROUNDS):
            refused = outside(self.changed(found), scope)
            if not refused:
                break
            paths |= dict.fromkeys(sorted(refused))
            self._keep_besides(found)
            names = [path.rstrip("/") for path in refused]
            before = self.repository.entries(self.tip, names)
            with self.safe_folder() as safe_folder:
                for path in refused:
                    if path.endswith("/"):
                        safe_folder.clear(path.rstrip("/"))
            self._put({path: before.get(path) for path in names})
            told = PUT_BACK.format(ref=self._left_ref)
            left |= {path: f"{why}; {told}" for path, why in refused.items()}
            found = self.survey(mend=True)
        ref = f"{self._left_ref} ({self.repository.ref(self._left_ref)[:SHORT]})" if paths else ""
        return KeptOut(tuple(paths), ref, found)

    def take(
        self, found: Survey, left: dict[str, str], everything: Path | None = None, scope: Scope | None = None
    ) -> str:
        """Write what was found; its tree. What can't be kept, or is not allowed, is left out, and added to `left`.

        `everything`: the index for a tree that is only looked at, so that links that lead outside are taken as well.
        """
        sealed = self.sealed if everything is None else ()
        index = everything or self.index
        entries: dict[str, TreeEntry | None] = {}
        besides = False
        allowance = Allowance(self._most)
        changed_paths = self.changed(found, index)
        refused = outside(changed_paths, scope) if scope is not None else {}
        with open_folder(self.folder) as root:
            for path in changed_paths:
                top = path.split("/")[0]
                if path in refused:  # the agent keeps writing it
                    left[path] = refused[path]
                elif path.endswith("/"):
                    left[path] = "it holds a repository of its own; remove its .git to have its files kept"
                elif top in sealed:
                    left[top] = SEALED
                    besides = True
                else:
                    try:
                        any_link, note, objects = everything is not None, self._known.note, self.repository.objects
                        entries[path] = keep(objects, root, path, any_link=any_link, allowance=allowance, note=note)
                    except CannotKeep as why:
                        left[path] = str(why)
                        besides = besides or why.is_link
        if besides:
            self._keep_besides(found)
        left.update(dict.fromkeys(self.repository.put_entries(index, entries), "git can't keep this name"))
        self._known.keep(found.held)
        return self.repository.git.text("write-tree", index=index)

    @property
    def _left_ref(self) -> str:
        return f"refs/parley/left/{self.job}/{self.name}"

    def _keep_besides(self, found: Survey) -> None:
        """Keep under a ref what a commit leaves out and a ref can hold."""
        ref = self._left_ref
        before = self.repository.ref(ref)
        draft = self.index.with_suffix(".everything")
        shutil.copyfile(self.index, draft)
        tree = self.take(found, {}, draft)
        draft.unlink()
        if not before or self.repository.tree(before) != tree:
            self.repository.set_ref(ref, self.repository.commit(tree, (before or self.tip,), "what was left out"))

    def lose(self, lost: str, limits: tuple[int, int]) -> str:
        """Keep under a ref what is there; returns its tree, or nothing where the whole folder had to be moved aside."""
        tip = self.tip
        try:
            found, left = self.look(*limits)
            now = self.take(found, left, self.index)
        except OverQuota:
            self.aside(self.folder, OVERGROWN)
            return ""
        except GitError:
            self.aside(self.folder)
            return ""
        if now != self.repository.tree(tip):
            ref = self.free(f"refs/parley/lost/{self.job}/{self.name}/{lost}")
            self.repository.set_ref(ref, self.repository.commit(now, (tip,), f"lost: {lost}"))
        if left:
            self.aside(self.folder)
            return ""
        return now

    def copy_away(self, lost: str, limits: tuple[int, int]) -> None:
        """Keep under a ref what is there, as far as a ref can hold it; nothing that is there is changed."""
        draft = self.index.with_suffix(".abandoned")
        try:
            found, left = self.look(*limits)
            shutil.copyfile(self.index, draft)
            now = self.take(found, left, draft)
        except (OverQuota, GitError):
            return  # all of it is still there
        finally:
            draft.unlink(missing_ok=True)
        if now != self.repository.tree(self.tip):
            ref = self.free(f"refs/parley/lost/{self.job}/{self.name}/{lost}")
            self.repository.set_ref(ref, self.repository.commit(now, (self.tip,), f"abandoned: {lost}"))

    def free(self, ref: str) -> str:
        """A ref name that is not used yet."""
        number, name = 1, ref
        while self.repository.ref(name):
            number += 1
            name = f"{ref}-{number}"
        return name

    def go_to(self, tree: str) -> None:
        """Bring the folder, all of which is kept under some ref, to a tree."""
        try:
            entries = dict(self._differing("diff-index", "--cached", tree, wanted=0))
            if changed := [path for path in self.changed() if path in self.tracked(self.index)]:
                wanted = self.repository.entries(tree, changed)
                entries |= {path: wanted.get(path) for path in changed}
            self._put(entries)
        except WorkspaceError:  # a process keeps putting things in the way: it can't reach a new folder
            self.aside(self.folder)
            self.check_out(tree)
            return
        self.repository.git("read-tree", "-i", "-m", tree, index=self.index)
        self.shut()

    def update(self, tree: str, limits: tuple[int, int]) -> None:
        """Bring a folder whose files are committed to another tree."""
        tip = self.tip
        entries = self._differing("diff-tree", tip, tree, wanted=1)
        if self._is_in_the_way(entries):  # of something that no commit holds
            self.lose("merge", limits)
            if self.folder.is_dir():
                self.go_to(tree)
            else:
                self.check_out(tree)
        else:
            self._put(entries)
            self.repository.git("read-tree", "-i", "-m", tip, tree, index=self.index)

    def _is_in_the_way(self, entries: Entries) -> bool:
        """Whether something that no commit holds lies where entries are to be put or removed."""
        found = self.survey()
        tracked, changed = self.tracked(self.index), {path.rstrip("/") for path in self.changed(found)}
        loose = {path for path in (*found.held, *found.special, *found.nested) if path not in tracked} | changed
        if not loose:
            return False
        put = {path for path, entry in entries.items() if entry is not None}
        over = {above for path in loose for above in _above(path)}  # the folders that hold it
        return any(path in loose or path in over or within(path, loose) for path in put) or any(
            path in changed for path in entries
        )

    def new_paths(self) -> Iterable[str]:
        """What is there and in no commit, folders as a whole."""
        return new(self.place, self.survey(), self.tracked(self.index), whole=True)


def _above(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path


def _copy(contents: ObjectReader, name: str, handle: int) -> None:
    with os.fdopen(os.dup(handle), "wb") as file:
        contents.copy(name, file.write)
