"""A job's mirror on this machine: a bare repository with what was packed here and what was fetched.

It is a cache. Whatever a crash leaves in it is mended or collected by the next use; deleted as a whole, it costs one
shipment in full. So it does not wait for the disk: after a restart of the machine it is made anew.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from parley.hosts.mirror.mirror_errors import PlaceRefused, own_disk
from parley.ports.workspaces import WorkspaceError
from parley.workspaces.files.safe_delete import discard
from parley.workspaces.job_repository import MIRROR, REPOSITORY, write_commit
from parley.workspaces.safe_git import Git, LooseObjects, ObjectReader, create

LOOSE, PACKS = 5000, 40  # objects, or packs: with more it is repacked
COMMIT_BYTES = 1 << 16  # of a commit of ours
LOCK, BOOT = "in-use.lock", "boot"
_TEXT = "a turn's place"
_FORMATS = {40: "sha1", 64: "sha256"}


@cache
def boot() -> str:
    """What tells this run of the machine from others; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def object_format(name: str) -> str:
    """The format of the repository that an object's name belongs to."""
    try:
        return _FORMATS[len(name)]
    except KeyError:
        raise PlaceRefused(f"{name!r:.100} is no name of a git object; it is refused") from None


@dataclass(frozen=True, slots=True)
class WhoseGit:
    """What a job's git bears in its environment, and whether the user has given the job up: then it is killed."""

    mark: Mapping[str, str] = field(default_factory=dict)
    given_up: Callable[[], bool] = lambda: False


PARLEYS = WhoseGit()
_MAKING = threading.Lock()


class MirrorRepository:
    """The mirror below a job's folder."""

    def __init__(self, folder: Path, form: str, whose: WhoseGit = PARLEYS) -> None:
        self.job_folder = folder
        self.form = form
        self._boot = boot()
        settings = {"core.fsync": "none"} if self._boot else {}
        self.git = Git(folder / MIRROR, settings=settings, mark=whose.mark, given_up=whose.given_up)

    @classmethod
    def existing(cls, folder: Path, whose: WhoseGit = PARLEYS) -> MirrorRepository | None:
        """The mirror of a job that has one here."""
        try:
            settings = (folder / MIRROR / "config").read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        return cls(folder, "sha256" if "sha256" in settings else "sha1", whose)

    @cached_property
    def objects(self) -> LooseObjects:
        """Where objects are written."""
        return LooseObjects(self.git.folder, self.form)

    @contextmanager
    def used(self) -> Iterator[MirrorRepository]:
        """The repository, made where it is missing, and kept from being collected meanwhile."""
        with own_disk(self.job_folder):
            handle = self._locked()
            try:
                yield self
            finally:
                os.close(handle)

    def _locked(self) -> int:
        """Open it, and hold it. Where no other turn is under way, what a crash has left is deleted first."""
        while True:
            self._make()
            handle = os.open(self.git.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                with suppress(BlockingIOError):
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if self._is_stale():
                        gone = self.git.folder.with_name(f"{MIRROR}.{os.getpid()}-old")
                        discard(gone)
                        self.git.folder.rename(gone)
                        discard(gone)
                    else:
                        self._mend()
                fcntl.flock(handle, fcntl.LOCK_SH)
                with suppress(FileNotFoundError):
                    if os.fstat(handle).st_ino == (self.git.folder / LOCK).stat().st_ino:
                        return os.dup(handle)
            finally:
                os.close(handle)

    def _is_stale(self) -> bool:
        """Whether the machine was restarted since it was made: what was not on the disk by then is gone."""
        try:
            return (self.git.folder / BOOT).read_text(encoding="ascii") != self._boot
        except FileNotFoundError:
            return True

    def tidy(self) -> None:
        """Collect what no ref holds any more, where that is worth it and no turn is under way."""
        if not self.git.folder.is_dir():
            return
        handle = os.open(self.git.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._is_cluttered():
                self.git("repack", "-a", "-d", "-l", "-q", "--window=0", seconds=3600.0)
                self.git("prune", "--expire=now", seconds=3600.0)
        except (OSError, WorkspaceError):
            pass  # it is in use, or just being deleted: the next one does it
        finally:
            os.close(handle)

    def _is_cluttered(self) -> bool:
        """Whether it has many objects or packs. Counted without git, which would take longer to start."""
        objects = self.git.folder / "objects"
        shelves = (name for name in os.listdir(objects) if len(name) == 2)  # noqa: PTH208, PLR2004 - names alone
        if sum(len(os.listdir(objects / shelf)) for shelf in shelves) > LOOSE:  # noqa: PTH208 - names alone
            return True
        return sum(name.endswith(".pack") for name in os.listdir(objects / "pack")) > PACKS  # noqa: PTH208 - the same

    def _make(self) -> None:
        with _MAKING:  # the draft is one thread's: its name has the process's number alone
            if self.git.folder.is_dir():
                return
            self.job_folder.mkdir(parents=True, exist_ok=True)
            draft = self.job_folder / f"{MIRROR}.{os.getpid()}"
            shutil.rmtree(draft, ignore_errors=True)
            create(draft, self.form)
            (draft / BOOT).write_text(self._boot, encoding="ascii")
            if (self.job_folder / REPOSITORY).is_dir():  # on the coordinator: what is committed is not written again
                (draft / "objects/info").mkdir(exist_ok=True)
                (draft / "objects/info/alternates").write_text(f"../../{REPOSITORY}/objects\n", encoding="ascii")
            try:
                draft.rename(self.git.folder)
            except OSError:
                shutil.rmtree(draft, ignore_errors=True)
                if not self.git.folder.is_dir():  # no other process was first
                    raise

    def _mend(self) -> None:
        """Delete the locks and halves that a killed git has left."""
        for pattern in ("*.lock", "refs/**/*.lock", "objects/pack/tmp_*", "objects/tmp_*"):
            for left in self.git.folder.glob(pattern):
                if left.name != LOCK:
                    left.unlink(missing_ok=True)
        for pattern in (".draft-*", ".aside*"):
            for folder in self.git.folder.glob(pattern):
                discard(folder)

    # ---- refs and commits ----------------------------------------------------------------------

    def ref(self, name: str) -> str:
        """The commit that a ref names, or nothing."""
        try:
            return (self.git.folder / name).read_text(encoding="ascii").strip()  # refs are never packed here
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return ""

    def set_ref(self, name: str, commit: str) -> None:
        """Set a ref."""
        if not self._boot:
            self.objects.sync()
        path = self.git.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{threading.get_ident()}.lock")  # git leaves such names alone
        draft.write_text(f"{commit}\n", encoding="ascii")
        draft.replace(path)

    def delete_ref(self, name: str) -> None:
        """Delete a ref, if it is there."""
        (self.git.folder / name).unlink(missing_ok=True)

    def commit(self, tree: str, *parents: str) -> str:
        """A commit of a tree: the same wherever and whenever it is made."""
        return write_commit(self.objects, tree, [one for one in parents if one], _TEXT, 0.0)

    def tree(self, commit: str) -> str:
        """The tree of a commit."""
        data = self.objects.read(commit, COMMIT_BYTES) or b""  # none: it was fetched, and is packed
        if data.startswith(b"tree "):
            return data.partition(b"\n")[0].removeprefix(b"tree ").decode("ascii")
        return self.git.text("rev-parse", "--verify", f"{commit}^{{tree}}")

    @staticmethod
    def fetched_tree(reader: ObjectReader, commit: str) -> str:
        """The tree of a commit that was fetched, by a git that runs already. PlaceRefused where it is no commit."""
        data = reader.whole(commit) if reader.kind(commit) == "commit" and reader.size(commit) <= COMMIT_BYTES else b""
        head, _, tree = data.partition(b"\n")[0].partition(b" ")
        if head != b"tree":
            raise PlaceRefused(f"{commit[:12]} is no commit of a place; it is refused")
        return tree.decode("ascii", "replace")

    def missing(self, names: set[str]) -> set[str]:
        """Those of the objects that are not here."""
        if not names:
            return set()
        asked = "".join(f"{name}\n" for name in names).encode()
        said = self.git("cat-file", "--batch-check=%(objectname)", stdin=asked).decode("ascii", "replace")
        return {line.split()[0] for line in said.splitlines() if line.endswith(" missing")}
