"""Watches running cages: an agent that goes beyond its bound of memory or disk is ended while it does so.

Asking the filesystem how full it is takes microseconds. A job's folders are measured only when so much was written
since the last time that the job may be near its quota.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from parley.base.wording import count
from parley.machine import disk
from parley.ports.turns import Room, Weight
from parley.sandbox.cage import Cage
from parley.sandbox.caged_process import Caged
from parley.sandbox.limits import memory_limit, process_tree

TICK_SECONDS = 0.2
LOOK_SECONDS = 2.0, 30.0  # between two looks at a job that seems to write nothing, at least and at most
LOOK_SHARE = 50  # times as long as the last look took; for hard links, which take no space and still count
OPEN_SECONDS = 2.0  # between two looks at all processes of the machine, and at what a cage's own hold open
HURRY_SECONDS = 1.0  # between two looks at a job that may be beyond its bounds
SHARE = 5  # seconds without a look for each second that the last one took
NEAR = 16 << 20  # bytes that a job may be beyond its quota before it is measured
FLOOR, FLOOR_SHARE = 256 << 20, 20  # the disk is low below this many bytes free, or this part of a small disk
FILES_SHARE = 100  # and below this part of its files free
MEGABYTE = 1 << 20


@dataclass(slots=True, eq=False)
class _Watched:
    caged: Caged
    folders: tuple[str, ...]  # that it can write to: its workspace first, if it can
    room: Room | None
    before: Mapping[str, Weight] = field(default_factory=dict)  # what the folders held when it began
    # that it holds open
    opened: memory_limit.NamelessFiles = field(default_factory=memory_limit.NamelessFiles)
    hidden: int = 0  # bytes of the disk that it holds without a trace
    machine: memory_limit.Machine = field(
        default_factory=memory_limit.machine
    )  # the least that the machine used since the cage was made
    looked: float = 0.0

    def growth(self, parts: Mapping[str, Weight]) -> dict[str, Weight]:
        """How much each folder has grown."""
        found = {}
        for folder in self.folders:
            now, then = parts.get(folder, Weight()), self.before.get(folder, Weight())
            found[folder] = Weight(max(0, now.bytes - then.bytes), max(0, now.files - then.files))
        return found


@dataclass(slots=True)
class _Job:
    """A job's part of the disk, at the last look."""

    used: int = 0  # of the whole filesystem
    files: int = 0
    left: int = 0  # bytes to the job's quota
    files_left: int = 0  # names to the fullest workspace's bound
    looked: float = 0.0
    took: float = 0.0  # seconds: the last look
    parts: dict[str, Weight] = field(default_factory=dict)
    besides: int = 0  # used by others on the filesystem: the least since the first look

    def unseen(self, standing: disk.DiskSpace, members: Iterable[_Watched], limit: int) -> int:
        """How much an agent holds without a trace: the disk has that much less than it had.

        Other programs write too. So the disk must have lost the quota and a gigabyte more.
        """
        grown = standing.used - (limit - self.left) - self.besides
        return grown if grown > limit + memory_limit.UNSEEN and any(one.opened.hides for one in members) else 0


class ResourceWatch:
    """Two threads for all cages of a boundary: measuring a large disk must not hold up the look at memory."""

    def __init__(self, memory_bytes: int) -> None:
        self._bound = memory_bytes
        self._lock = threading.Lock()
        self._cages: dict[Caged, _Watched] = {}
        self._jobs: dict[Path, _Job] = {}
        self._more = threading.Event()
        self._looks = {"parley-memory": self._look_at_processes, "parley-disk": self._look_at_jobs}
        self._threads: set[str] = set()

    def add(self, caged: Caged, cage: Cage) -> None:
        """Watch a cage until it has ended."""
        own = [cage.site.workspace] if cage.site.writable else []
        binds = [bind.source for bind in (*cage.site.binds, *cage.binds) if bind.writable]
        watched = _Watched(caged, (*own, str(cage.home), *binds), cage.site.room)
        with self._lock:
            if watched.room is not None and watched.room.folder in self._jobs:
                watched.before = self._jobs[watched.room.folder].parts
            self._cages[caged] = watched
            for name in self._looks:
                if name not in self._threads:
                    self._threads.add(name)
                    threading.Thread(target=self._work, args=(name,), name=name, daemon=True).start()

    @property
    def busy(self) -> bool:
        """Whether there is a cage to watch."""
        with self._lock:
            return bool(self._threads)

    def close(self) -> None:
        """End the threads."""
        with self._lock:
            self._cages.clear()
        self._more.set()

    def _work(self, name: str) -> None:
        while True:
            with self._lock:
                for caged in [caged for caged in self._cages if caged.ended]:
                    del self._cages[caged]
                cages = list(self._cages.values())
                if not cages:
                    self._threads.discard(name)
                    self._jobs.clear()  # by the next turn the files may be others
                    return
            with contextlib.suppress(OSError):  # such as no descriptor left: the next look may succeed
                self._looks[name](cages)
            self._more.wait(TICK_SECONDS)

    def _look_at_processes(self, cages: list[_Watched]) -> None:
        """Look at each cage, and now and then at what it holds open, for which all processes of the machine are read.

        Every process of Parley's does so. When all were read at every tick, thirty jobs kept the machine busy.
        """
        now = time.monotonic()
        due = [watched for watched in cages if now - watched.looked >= OPEN_SECONDS]
        parents = process_tree.parents() if due else {}
        for watched in cages:
            pids = watched.caged.members(parents) if watched in due else set()
            if pids:
                self._look_at_open_files(watched, pids)
            self._look_at_memory(watched, pids)

    def _look_at_jobs(self, cages: list[_Watched]) -> None:
        by_job: dict[Path, list[_Watched]] = {}
        for watched in cages:
            if watched.room is not None:
                by_job.setdefault(watched.room.folder, []).append(watched)
        with self._lock:
            self._jobs = {folder: job for folder, job in self._jobs.items() if folder in by_job}
        for folder, members in by_job.items():
            with contextlib.suppress(OSError):  # the job's folder is gone: its turns end for that
                self._look_at_disk(folder, members)

    # ---- memory ----------------------------------------------------------------------------------

    @staticmethod
    def _look_at_open_files(watched: _Watched, pids: set[int]) -> None:
        begun = time.monotonic()
        watched.opened = memory_limit.held_open(pids)
        watched.machine = watched.machine.least(memory_limit.machine())
        watched.looked = time.monotonic() + SHARE * (time.monotonic() - begun)

    def _look_at_memory(self, watched: _Watched, pids: set[int]) -> None:
        """End a cage that takes too much; `pids`: its processes, empty where they are yet to be found."""
        caged = watched.caged
        if caged.group is not None:
            over = caged.group.exceeded()
        else:
            room = self._bound - watched.opened.memory
            over = room < 0 or memory_limit.used(pids or caged.likely_members(), caged.root, room) > room
            over = over or memory_limit.is_hidden(watched.opened, watched.machine, self._bound)
        if over:
            caged.exceed(memory_limit.exceeded_reason(self._bound))

    # ---- the disk --------------------------------------------------------------------------------

    def _look_at_disk(self, folder: Path, members: list[_Watched]) -> None:
        now, standing = time.monotonic(), disk.disk_space(folder)
        job = self._jobs.get(folder)
        nameless = sum(watched.opened.nameless for watched in members)
        room = _room(members)
        hidden = job.unseen(standing, members, room.limit) if job is not None else 0
        if job is None or self._due(job, standing, max(nameless, hidden), now):
            begun = time.monotonic()
            own = {folder: disk.weigh(folder, room.files) for watched in members for folder in watched.folders}
            if job is not None:  # before the rest is measured, which may take long
                self._judge_files(own, members, room.files)
            fresh = self._weigh(own, members, standing, nameless)
            fresh.took = time.monotonic() - begun
            fresh.besides = standing.used - (room.limit - fresh.left)
            if job is None:
                for watched in members:
                    watched.before = fresh.parts
            else:
                fresh.besides = min(job.besides, fresh.besides)
                self._charge(fresh, fresh.unseen(standing, members, room.limit), members)
            self._jobs[folder] = fresh
            self._judge(fresh, members, standing)

    @staticmethod
    def _charge(job: _Job, hidden: int, members: list[_Watched]) -> None:
        """Charge an agent that holds files in hidden ways with what the disk lacks."""
        if hidden:
            next((watched for watched in members if watched.opened.hides), members[0]).hidden = hidden
            job.left -= hidden

    @staticmethod
    def _due(job: _Job, standing: disk.DiskSpace, nameless: int, now: float) -> bool:
        """Whether the job may be near its bounds, if all that was written to the disk since then is its own."""
        grown, more = standing.used - job.used, standing.files - job.files
        beyond = grown > job.left or more > job.files_left
        if now < job.looked + (min(job.took, HURRY_SECONDS) if beyond else SHARE * job.took):
            return False
        near = 2 * max(grown, nameless) >= max(job.left, NEAR) or 2 * more >= max(job.files_left, 1000)
        shortest, longest = LOOK_SECONDS
        quiet = min(longest, max(shortest, LOOK_SHARE * job.took))
        moved = (grown or more or not standing.files) and now - job.looked >= quiet
        return near or bool(moved) or is_low(standing)

    @staticmethod
    def _weigh(own: Mapping[str, Weight], members: list[_Watched], standing: disk.DiskSpace, nameless: int) -> _Job:
        room = _room(members)
        held = room.look(own)
        fullest = max((weight.files for weight in own.values()), default=0)
        return _Job(
            used=standing.used,
            files=standing.files,
            left=room.limit - held.bytes - nameless,
            files_left=room.files - fullest,
            looked=time.monotonic(),
            parts={**held.parts, **own},
        )

    @staticmethod
    def _judge_files(parts: dict[str, Weight], members: list[_Watched], most: int) -> None:
        """End each agent that has made too many files."""
        for watched in members:
            grown = watched.growth(parts)
            if any(parts[folder].files > most and grown[folder].files for folder in watched.folders):
                _end(watched, parts, grown, f"it made more than {most} files ([workspace] files)")

    @staticmethod
    def _judge(job: _Job, members: list[_Watched], standing: disk.DiskSpace) -> None:
        """End the agent that has written most, where the job is over its quota or the disk is low."""
        grown = {watched: watched.growth(job.parts) for watched in members}
        sizes = {
            watched: watched.opened.nameless + watched.hidden + sum(one.bytes for one in grown[watched].values())
            for watched in members
        }
        most = max(members, key=lambda watched: sizes[watched])
        room = _room(members)
        if job.left < 0 and not sizes[most]:
            # too much at the first look already: an agent that holds it took it within a moment
            most = max(members, key=lambda watched: _weight(watched, job).bytes)
        if job.left < 0 and (sizes[most] or 2 * _weight(most, job).bytes > room.limit):
            took, may = (room.limit - job.left) // MEGABYTE, room.limit // MEGABYTE
            why = f"the job's files took {took} MB, and may take {may} MB ([workspace] quota_mb)"
            _end(most, job.parts, grown[most], why)
        elif is_low(standing) and sizes[most] > standing.free:
            left, wrote = standing.free // MEGABYTE, sizes[most] // MEGABYTE
            _end(most, job.parts, grown[most], f"the disk has {left} MB left, and it had written {wrote} MB", low=True)
        elif is_low(standing) and max(weight.files for weight in grown[most].values()) > standing.files_free:
            why = f"the disk has room for {count(standing.files_free, 'more file')}, and it made most"
            _end(most, job.parts, grown[most], why, low=True)


def _room(members: list[_Watched]) -> Room:
    """The room of the job that these agents work on."""
    room = members[0].room
    assert room is not None  # noqa: S101 - only agents with a room are compared
    return room


def is_low(standing: disk.DiskSpace) -> bool:
    """Whether a disk has few bytes or few files left."""
    floor = min(FLOOR, standing.size // FLOOR_SHARE)
    return standing.free < floor or standing.files_free < standing.most_files // FILES_SHARE


def _weight(watched: _Watched, job: _Job) -> Weight:
    """What an agent's folders hold together."""
    return sum((job.parts[folder] for folder in watched.folders), Weight())


def _end(
    watched: _Watched, parts: dict[str, Weight], grown: Mapping[str, Weight], why: str, *, low: bool = False
) -> None:
    """End an agent and remove the folders that it filled. Of its workspace a copy is kept, unless the disk is low."""
    total = sum(grown.values(), Weight())
    held = grown if total != Weight() else {folder: parts[folder] for folder in watched.folders}
    total = sum(held.values(), Weight())
    filled = [
        folder
        for folder, weight in held.items()
        if (weight.bytes and 2 * weight.bytes >= total.bytes) or (weight.files and 2 * weight.files >= total.files)
    ]
    watched.caged.exceed(f"it was ended: {why}", _cleared(watched, filled, low=low))
    for folder in filled:
        parts[folder] = Weight()  # the next turn has a new folder, which must not be compared with this one


def _cleared(watched: _Watched, filled: Iterable[str], *, low: bool) -> tuple[Path, ...]:
    room = watched.room
    assert room is not None  # noqa: S101 - only agents with a room are compared
    away = []
    for folder in filled:
        if folder == watched.folders[0] and room.owns(folder):
            room.spoil(folder, delete=low)
        else:
            away.append(Path(folder))
    return tuple(away)
