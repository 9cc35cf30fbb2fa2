"""The disk quota of a job: its workspaces, its repository, its instances' homes, and what was moved aside."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

from parley.machine import disk
from parley.ports.turns import DiskUse, Weight
from parley.workspaces.files.safe_delete import delete_later
from parley.workspaces.job_repository import MIRROR, REPOSITORY

ASIDE = "aside"
GOING = ".going-"  # prefix of what is being deleted there; `parley gc` finds what a crash leaves of it
WEIGHED = 10_000  # files of a folder that was moved aside; one with more counts as a whole quota
OVERGROWN = ".overgrown"  # suffix of a workspace that was moved aside because it held too much
_KNOWN = {"work", "trees", ASIDE, REPOSITORY}  # what only Parley changes, or measures at each turn's end
_OURS = {"clones", "clones.known", MIRROR}  # copies of what is counted elsewhere: the proxy's, and those for hosts


class Quota:
    """How many bytes a job has left. Folders that no agent can have changed are not measured again."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self._workspaces: dict[str, int] = {}
        self._aside: dict[tuple[str, int], int] = {}  # by name and inode: a name may be used again
        self._repository_bytes: int | None = None

    def keep(self, name: str, size: int) -> None:
        """Record a workspace's size."""
        self._workspaces[name] = size

    def forget(self, name: str) -> None:
        """Forget a workspace that was deleted."""
        self._workspaces.pop(name, None)

    def left_to(self, name: str) -> int:
        """How many bytes a workspace may hold, by all that the job holds besides."""
        if self._repository_bytes is None:
            self._repository_bytes = self._size(self._folder / REPOSITORY)
            found = {path.name: path for path in self._folder.glob("trees/*")} | {"job": self._folder / "work"}
            self._workspaces = {key: self._size(path) for key, path in found.items()} | self._workspaces
        others = sum(size for key, size in self._workspaces.items() if key != name)
        return self._limit - self._repository_bytes - others - self._moved_aside() - self._rest()

    def _rest(self) -> int:
        """What agents and records write besides: homes, the agents' repositories, streams."""
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            return sum(self._size(Path(entry.path)) for entry in entries if entry.name not in _KNOWN | _OURS)
        return 0

    def _moved_aside(self) -> int:
        """The size of all but the largest: one turn that outgrew the quota must not end the job, two may."""
        found: dict[tuple[str, int], int] = {}
        with contextlib.suppress(OSError), os.scandir(self._folder / ASIDE) as entries:
            for entry in entries:
                key = entry.name, entry.inode()
                if not entry.name.startswith(GOING):
                    found[key] = self._aside[key] if key in self._aside else _weigh_aside(entry.path, self._limit)
        self._aside = found
        return sum(found.values()) - max(found.values(), default=0)

    @staticmethod
    def _size(path: Path) -> int:
        return disk.weigh(path).bytes


AGENTS = ("trees", "homes", "gitdirs")  # folders of a job with one below them for each agent


class RunningJobQuota:
    """A job's quota while its turns run, for the resource watch. Any thread may ask."""

    def __init__(self, folder: Path, limit: int, files: int) -> None:
        self.folder = folder
        self.limit = limit
        self.files = files
        self._spoilt: dict[str, bool] = {}
        self._aside: dict[tuple[str, int], int] = {}  # by path and inode: measured once, since nothing changes there

    def look(self, known: Mapping[str, Weight]) -> DiskUse:
        """Measure all of the job's folders but the known ones; each agent's only up to the limit."""
        parts = {
            path: known[path] if path in known else disk.weigh(path, self.files) for path in map(str, self._parts())
        }
        counted = {*AGENTS, *_OURS, "work", ASIDE}
        rest = [Path(entry.path) for entry in _entries(self.folder) if entry.name not in counted]
        aside = self._weigh_aside().values()
        held = sum((disk.weigh(path) for path in rest), Weight()).bytes + sum(aside) - max(aside, default=0)
        return DiskUse(held + sum(weight.bytes for weight in parts.values()), parts)

    def _parts(self) -> Iterator[Path]:
        yield self.folder / "work"
        for name in AGENTS:
            yield from (Path(entry.path) for entry in _entries(self.folder / name))

    def _weigh_aside(self) -> dict[str, int]:
        found: dict[tuple[str, int], int] = {}
        for entry in _entries(self.folder / ASIDE):
            key = entry.path, entry.inode()
            if not entry.name.startswith(GOING):
                found[key] = self._aside[key] if key in self._aside else _weigh_aside(entry.path, self.limit)
        self._aside = found
        return {path: size for (path, _), size in found.items()}

    def thin_out(self) -> None:
        """Delete the oldest of the workspaces that were moved aside because they held too much.

        What is kept takes half of the quota at most: an agent that fills its workspace turn after turn loses its
        turns, and does not end the job.
        """
        aside = self._weigh_aside()
        overgrown = [path for path in aside if path.endswith(OVERGROWN)]
        for path in sorted(overgrown, key=lambda path: os.lstat(path).st_ctime_ns)[:-1]:
            if sum(aside.values()) - max(aside.values()) <= self.limit // 2:
                return
            gone = self.folder / ASIDE / f"{GOING}{secrets.token_hex(4)}"
            with contextlib.suppress(OSError):
                os.rename(path, gone)  # noqa: PTH104 - a text, as the keys are
                delete_later(gone)
            del aside[path]

    def owns(self, folder: str) -> bool:
        """Whether a folder is a workspace of the job's."""
        path = Path(folder)
        return path == self.folder / "work" or path.parent == self.folder / "trees"

    def spoil(self, folder: str, *, delete: bool) -> None:
        """Record that a turn filled this workspace and is lost for it."""
        self._spoilt[folder] = delete

    def spoilt(self, folder: Path) -> bool | None:
        """Whether to delete what lies in a workspace; None: its turn did not fill it. Answered once."""
        return self._spoilt.pop(str(folder), None)


def _weigh_aside(path: str, limit: int) -> int:
    found = disk.weigh(path, WEIGHED)
    return found.bytes if found.files <= WEIGHED else max(found.bytes, limit)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []
