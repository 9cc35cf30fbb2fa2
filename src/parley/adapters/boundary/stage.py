"""Where Parley is root: makes what a cage needs reachable for an ordinary user, becomes one, and starts bubblewrap.

It runs in a process of its own, in a mount namespace of its own: nothing of it is seen outside.
"""

import posix

from parley.adapters.boundary.calls import call

TYPE_CHECKING = False  # typing itself would cost the launcher a megabyte
if TYPE_CHECKING:
    from typing import Any

STAGE = "/run"
_NEW_MOUNTS = 0x20000
_BIND, _RECURSIVE, _PRIVATE, _NO_SUID, _NO_DEVICES = 4096, 16384, 1 << 18, 2, 4
_DEATH_SIGNAL, _KILL, _NO_NEW_PRIVILEGES = 1, 9, 38
_FOLDER = 0o040000
FAILED = 97


def main(place: int, words: "dict[str, Any]") -> int:
    """Set the stage, drop every privilege, become bubblewrap."""
    posix.set_inheritable(place, False)
    try:
        _set_up(words["sources"])
        _drop(words["uid"])
        posix.execve(words["command"][0], words["command"], words["environment"])
    except OSError as error:
        posix.write(2, f"the stage: {error.strerror}: {error.filename or ''}\n".encode())
    return FAILED


def _set_up(sources: "list[str]") -> None:
    call("unshare", _NEW_MOUNTS)
    call("mount", b"none\0", b"/\0", 0, _RECURSIVE | _PRIVATE, 0)
    # opened first: the stage may hide what lies where it is mounted
    places = [posix.open(source, posix.O_PATH | posix.O_CLOEXEC) for source in sources]
    call("mount", b"stage\0", f"{STAGE}\0".encode(), b"tmpfs\0", _NO_SUID | _NO_DEVICES, b"mode=0755,size=1m\0")
    for number, place in enumerate(places):
        target = f"{STAGE}/{number}"
        if posix.fstat(place).st_mode & 0o170000 == _FOLDER:
            posix.mkdir(target)
        else:
            posix.close(posix.open(target, posix.O_WRONLY | posix.O_CREAT | posix.O_CLOEXEC, 0o644))
        call("mount", f"/proc/self/fd/{place}\0".encode(), target.encode() + b"\0", 0, _BIND | _RECURSIVE, 0)


def _drop(uid: int) -> None:
    posix.setgroups([])
    posix.setresgid(uid, uid, uid)
    posix.setresuid(uid, uid, uid)
    call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    call("prctl", _DEATH_SIGNAL, _KILL, 0, 0, 0)
    posix.chdir("/")
