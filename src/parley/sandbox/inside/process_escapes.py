"""Attempts to see, end or take over other processes."""

import posix

from parley.sandbox.inside.scene import Scene, first, opened_for_writing, read
from parley.sandbox.inside.syscalls import call

TYPE_CHECKING = False  # typing itself would cost the launcher a megabyte
if TYPE_CHECKING:
    from collections.abc import Callable

_TRACE_SEIZE = 0x4206
_DEATH_SIGNAL, _KILL, _END = 2, 9, 15


def other_processes(scene: Scene) -> str:
    """List the processes: only the cage's own may be there."""
    own = {"1", str(posix.getpid())}
    others = [name for name in posix.listdir("/proc") if name.isdecimal() and name not in own]
    return f"there are {len(others)} other processes" if others else ""


def environment(scene: Scene) -> str:
    """Look for variables of Parley's own in the environment, here and in the first process."""
    for path in ("/proc/self/environ", "/proc/1/environ"):
        try:
            variables = read(path).split(b"\0")
        except OSError:
            continue
        names = [variable.split(b"=")[0].decode("utf-8", "replace") for variable in variables if variable]
        extra = [name for name in names if name not in scene.variables]
        if extra:
            return f"{path} holds {extra[0]}"
    return ""


def descriptors(scene: Scene) -> str:
    """Look for open files that were inherited by mistake."""
    for name in posix.listdir("/proc/self/fd"):
        if int(name) not in scene.descriptors:
            try:
                return f"descriptor {name} is {posix.readlink(f'/proc/self/fd/{name}')}"
            except OSError:
                continue  # the listing's own descriptor
    return ""


def signal_outside(scene: Scene) -> str:
    """End a process outside; outside it is checked."""
    if scene.process not in (1, posix.getpid()):
        posix.kill(scene.process, _END)
        return f"signalled process {scene.process}"
    return ""


def trace(scene: Scene) -> str:
    """Trace the first process, and read its memory."""
    try:
        call("ptrace", _TRACE_SEIZE, 1, 0, 0)
    except OSError:
        place = posix.open("/proc/1/mem", posix.O_RDONLY | posix.O_CLOEXEC)
        posix.close(place)
        return "opened the memory of process 1"
    return "traced process 1"


def write_memory(scene: Scene) -> str:
    """Open the memory of a process for writing: its own, a child's, and from there the parent's and a sibling's."""
    own = posix.getpid()
    waits, ends = posix.pipe()
    sibling = _child(lambda: posix.read(waits, 1) and "", {ends})
    reader, writer = posix.pipe()
    child = _child(lambda: _told(writer, first(opened_for_writing, *_memories(own, sibling))), {reader, ends})
    posix.close(writer)
    try:
        reached = first(opened_for_writing, *_memories(own, sibling, child, 1))
        return reached or posix.read(reader, 200).decode()
    finally:
        for place in (reader, waits, ends):
            posix.close(place)
        for pid in (sibling, child):
            posix.waitpid(pid, 0)


def _memories(*pids: int) -> "list[str]":
    return [path for pid in pids for path in (f"/proc/{pid}/mem", f"/proc/{pid}/task/{pid}/mem")]


def _told(place: int, text: str) -> None:
    posix.write(place, text.encode())


def _child(work: "Callable[[], object]", closed: "set[int]") -> int:
    """Fork a child that does some work and ends."""
    pid = posix.fork()
    if pid:
        return pid
    try:
        for place in closed:
            posix.close(place)
        work()
    finally:
        posix._exit(0)  # noqa: SLF001 - its public name in a module of C


def steal_descriptor(scene: Scene) -> str:
    """Take an open file out of the first process."""
    handle = call("pidfd_open", 1, 0)
    try:
        posix.close(call("pidfd_getfd", handle, 0, 0))
    finally:
        posix.close(handle)
    return "took a descriptor of process 1"


def outlive(scene: Scene) -> str:
    """Check that the cage dies with the Parley that started it."""
    kept = bytes(8)
    call("prctl", _DEATH_SIGNAL, kept, 0, 0, 0)
    return "" if kept[0] == _KILL else "it would outlive Parley"
