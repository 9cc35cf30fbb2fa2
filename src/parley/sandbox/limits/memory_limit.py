"""The bound on the memory that a cage's processes take together: kept by the kernel, or by counting.

The kernel keeps it where Parley may make a group of processes (cgroup) with a bound. Elsewhere Parley counts a few
times a second: the processes' own memory, the cage's memory filesystems, and memory files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PAGE = os.sysconf("SC_PAGE_SIZE")
GROUPS = Path("/sys/fs/cgroup")
KERNEL, SAMPLING = "cgroup", "sampling"
MEMORIES = ("tmp", "dev/shm", "run")  # the memory filesystems of a cage, from its root
_HELD = (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:")
REMOVALS = 50
UNSEEN = 1 << 30  # bytes that other programs may take in the same time
SOCKET_BYTES = 416 << 10  # that one socket holds at most while no program reads them
_PREFIX = "parley-"
_NAMELESS = b" (deleted)"
_MEMORY_FILE = "/memfd:"


def machine_bytes() -> int:
    """The memory of this machine, or of the container that Parley runs in."""
    found = os.sysconf("SC_PHYS_PAGES") * PAGE
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            found = min(found, int((GROUPS / name).read_text("ascii")))
    return found


def exceeded_reason(bound: int) -> str:
    """Why a cage was ended that took more than its bound."""
    return f"it was ended: its processes took more than {bound >> 20} MB of memory ([boundary] memory_mb)"


# ---- counted from outside --------------------------------------------------------------------------


def used(pids: Iterable[int], root: int, bound: int) -> int:
    """The memory of some processes, and of the memory filesystems below the root of the process `root`.

    Counting shared pages several times is cheaper: where even that stays below the bound, it is the answer.
    """
    listed = list(pids)
    shared = _filesystems(root)
    rough = sum(map(_resident, listed)) + shared
    return rough if rough <= bound else sum(map(_own, listed)) + shared


def _resident(pid: int) -> int:
    """What a process has in memory and in swap, with shared pages counted in full."""
    try:
        status = Path(f"/proc/{pid}/status").read_bytes()
    except OSError:
        return 0
    return sum(_kilobytes(line) for line in status.splitlines() if line.startswith((b"VmRSS:", b"VmSwap:")))


def _own(pid: int) -> int:
    """The same with shared pages divided among the processes, and without files that the kernel can read again."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_bytes().splitlines()
    except OSError:
        return _resident(pid) if os.path.exists(f"/proc/{pid}") else 0  # noqa: PTH110 - as the paths above
    found = [_kilobytes(line) for line in lines if line.startswith(_HELD)]
    return sum(found) if found else _resident(pid)


def _kilobytes(line: bytes) -> int:
    words = line.split()
    return int(words[1]) << 10 if len(words) > 1 and words[1].isdigit() else 0


def _filesystems(root: int) -> int:
    total = 0
    if root:
        for name in MEMORIES:
            with contextlib.suppress(OSError):
                found = os.statvfs(Path("/proc", str(root), "root", name))
                total += (found.f_blocks - found.f_bfree) * found.f_frsize
    return total


class NamelessFiles(NamedTuple):
    """Files without a name that processes hold."""

    memory: int = 0  # bytes of memory files
    nameless: int = 0  # bytes of files on the disk
    hides: bool = False  # whether they hold others too, whose size can't be seen: mapped, or waiting in a socket
    sockets: int = 0


def held_open(pids: Iterable[int]) -> NamelessFiles:
    """The files without a name that processes hold open, or in other ways."""
    memory: dict[tuple[int, int], int] = {}
    nameless: dict[tuple[int, int], int] = {}
    sockets: set[int] = set()
    mapped: set[int] = set()
    in_flight = False
    for pid in pids:
        mapped |= _mapped(pid)
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    found = entry.stat()
                    if stat.S_ISSOCK(found.st_mode):
                        sockets.add(found.st_ino)
                        in_flight = in_flight or _carries(pid, entry.name)
                    if found.st_nlink or not found.st_blocks:
                        continue
                    is_memory = os.readlink(entry.path).startswith(_MEMORY_FILE)  # noqa: PTH115 - no file has this name
                    (memory if is_memory else nameless)[found.st_dev, found.st_ino] = found.st_blocks * 512
    shown = {inode for _, inode in (*memory, *nameless)}
    return NamelessFiles(sum(memory.values()), sum(nameless.values()), in_flight or bool(mapped - shown), len(sockets))


def _carries(pid: int, descriptor: str) -> bool:
    """Whether descriptors wait in a socket: no process has those open."""
    told = Path(f"/proc/{pid}/fdinfo/{descriptor}").read_bytes()
    return any(line.startswith(b"scm_fds:") and line.split()[1:] != [b"0"] for line in told.splitlines())


def _mapped(pid: int) -> set[int]:
    """The inodes of files without a name that a process has mapped."""
    found = set()
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_bytes().splitlines():
            if line.endswith(_NAMELESS):
                found.add(int(line.split(None, 5)[4]))
    return found


class Machine(NamedTuple):
    """How much memory the whole machine uses."""

    shared: int = 0  # bytes of memory files, memory filesystems and memory that processes share
    taken: int = 0  # bytes that are not available to programs

    def least(self, other: Machine) -> Machine:
        """The lower of each figure: memory that another program gives back must not hide what an agent takes."""
        return Machine(min(self.shared, other.shared), min(self.taken, other.taken))


def machine() -> Machine:
    """How much memory the machine uses now."""
    told: dict[bytes, int] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/meminfo").read_bytes().splitlines():
            told[line.partition(b":")[0]] = _kilobytes(line)
    return Machine(told.get(b"Shmem", 0), told.get(b"MemTotal", 0) - told.get(b"MemAvailable", 0))


def is_hidden(opened: NamelessFiles, before: Machine, bound: int) -> bool:
    """Whether a cage must hold too much that can't be seen: the machine has that much less memory than before.

    Other programs take memory too. So the machine must have lost the bound and a gigabyte more.
    """
    if not opened.hides and opened.sockets * SOCKET_BYTES <= bound:
        return False
    now = machine()
    grown = now.shared - before.shared if opened.hides else now.taken - before.taken
    return grown > bound + UNSEEN


# ---- kept by the kernel ----------------------------------------------------------------------------


class ControlGroup:
    """A group of processes with a bound on their memory. The kernel ends the group when it goes beyond it.

    The group also has one share of the processors, like one session of a user's. Else each session that an agent begins
    would have a share, and a process that is to end the agent would wait for its own. In the older version of cgroups
    that takes a second folder, `beside`.
    """

    def __init__(self, folder: Path, bound: int, *, unified: bool, beside: Path | None = None) -> None:
        self._folder = folder
        self._beside = beside
        self.exceeded_reason = exceeded_reason(bound)
        self._events = folder / ("memory.events" if unified else "memory.oom_control")
        try:
            if unified:
                self._write("memory.max", bound)
                self._write("memory.swap.max", 0, needed=False)
                self._write("memory.oom.group", 1, needed=False)
            else:
                self._write("memory.limit_in_bytes", bound)
                self._write("memory.memsw.limit_in_bytes", bound, needed=False)
        except OSError:
            self.close()
            raise

    def _write(self, name: str, value: int, *, needed: bool = True) -> None:
        try:
            (self._folder / name).write_text(str(value), "ascii")
        except OSError:
            if needed:
                raise

    def take(self, pids: Iterable[int]) -> None:
        """Put processes into the group; the processes that they start are in it too."""
        for pid in pids:
            self._write("cgroup.procs", pid)
            if self._beside is not None:
                with contextlib.suppress(OSError):
                    (self._beside / "cgroup.procs").write_text(str(pid), "ascii")

    def exceeded(self) -> bool:
        """Whether the kernel has ended a process of the group for its memory."""
        with contextlib.suppress(OSError):
            for line in self._events.read_text("ascii").splitlines():
                if line.startswith("oom_kill "):
                    return line.split()[1] != "0"
        return False

    def close(self) -> None:
        """Remove the group when its processes are gone. If that fails now, a later Parley does it."""
        _remove(self._folder)
        if self._beside is not None:
            _remove(self._beside)


def _remove(folder: Path) -> None:
    for _ in range(REMOVALS):
        try:
            folder.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY:
                return
            time.sleep(0.002)  # its last process is not reaped yet
        else:
            return


def make_group(bound: int, groups: Path = GROUPS, own: Path = Path("/proc/self/cgroup")) -> ControlGroup | None:
    """Make a group with a bound, below Parley's own group or one above it; None where that is not allowed."""
    for parent, unified in _parents(groups, own):
        folder = parent / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        _sweep(parent)
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            return ControlGroup(
                folder, bound, unified=unified, beside=None if unified else _share(folder.name, groups, own)
            )
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.ENOENT, errno.EBUSY, errno.EROFS, errno.EINVAL):
                raise
    return None


def _share(name: str, groups: Path, own: Path) -> Path | None:
    """Make a group for the share of the processors, where the kernel keeps those apart from memory."""
    for parent, _ in _parents(groups, own, "cpu", unified=False):
        _sweep(parent)
        with contextlib.suppress(OSError):
            (parent / name).mkdir()
            return parent / name
    return None


def _sweep(parent: Path) -> None:
    """Remove the groups of Parleys that have ended."""
    for folder in parent.glob(f"{_PREFIX}*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path(f"/proc/{pid}").exists() and not _words(folder / "cgroup.procs"):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _parents(
    groups: Path, own: Path, controller: str = "memory", *, unified: bool = True
) -> Iterable[tuple[Path, bool]]:
    """The folders in which a group may be made: of Parley's own group and those above it, in both versions of cgroups.

    `unified`: whether the newer version counts.
    """
    try:
        lines = own.read_text("utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = (*line.split(":", 2), "", "")[:3]
        newer = number == "0"
        if (newer and not unified) or (not newer and controller not in controllers.split(",")):
            continue
        base = groups if newer else groups / controller
        here = base / path.lstrip("/")
        for parent in (here, *here.parents):
            if not parent.is_relative_to(base):
                break
            # only a group that passes the controller on to the groups below it can bound them
            if not newer or controller in _words(parent / "cgroup.subtree_control"):
                yield parent, newer


def _words(path: Path) -> list[str]:
    try:
        return path.read_text("ascii").split()
    except OSError:
        return []
