"""Attempts to use the kernel's privileged calls and namespaces."""

import posix

from parley.sandbox.inside.scene import Scene, read, status
from parley.sandbox.inside.syscalls import call

_NEW_USER = 0x10000000
_RING_OF_USER, _GET_RING = -4, 0
_INJECT = 0x5412


def user_namespace(scene: Scene) -> str:
    """Make a user namespace and be root in it."""
    call("unshare", _NEW_USER)
    return "made one"


def other_namespaces(scene: Scene) -> str:
    """Compare each namespace with the host's."""
    for kind, outside in scene.namespaces.items():
        if posix.readlink(f"/proc/self/ns/{kind}") == outside:
            return f"the {kind} namespace is the host's"
    return ""


def enter_namespace(scene: Scene) -> str:
    """Enter the first process's mount namespace."""
    place = posix.open("/proc/1/ns/mnt", posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        call("setns", place, 0)
    finally:
        posix.close(place)
    return "entered it"


def mount(scene: Scene) -> str:
    """Mount something, make the root writable, unmount /proc."""
    for name, words in (
        ("mount", (b"none\0", b"/tmp\0", b"tmpfs\0", 0, 0)),
        ("mount", (b"none\0", b"/\0", 0, 0x1020, 0)),
        ("umount2", (b"/proc\0", 2)),
        ("fsopen", (b"tmpfs\0", 0)),
    ):
        try:
            call(name, *words)
        except OSError:
            continue
        return f"{name} worked"
    return ""


def chroot(scene: Scene) -> str:
    """Change the root."""
    posix.chroot("/tmp")  # noqa: S108 - the cage's own
    return "changed it"


def capabilities(scene: Scene) -> str:
    """Look for any privilege, or for a way to gain one."""
    fields = status()
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        if int(fields[name], 16):
            return f"{name} is {fields[name]}"
    if fields["NoNewPrivs"] != "1":
        return "a program may gain privileges"
    return ""


def become_root(scene: Scene) -> str:
    """Be root, or become it."""
    if 0 in {posix.getuid(), posix.geteuid()}:
        return "it is root"
    posix.setuid(0)
    return "became root"


def filtered(scene: Scene) -> str:
    """See that a filter of system calls is in force."""
    return "" if status()["Seccomp"] == "2" else "no filter is in force"


def keyring(scene: Scene) -> str:
    """Reach the user's keyring."""
    call("keyctl", _GET_RING, _RING_OF_USER, 1)
    return "reached it"


def io_uring(scene: Scene) -> str:
    """Set up io_uring, whose system calls the filter does not see."""
    posix.close(call("io_uring_setup", 1, bytes(120)))
    return "made one"


def kernel_programs(scene: Scene) -> str:
    """Load a program into the kernel, watch events, handle page faults."""
    return _not_refused(
        ("bpf", (0, bytes(128), 128)),
        ("perf_event_open", (bytes(128), 0, -1, -1, 0)),
        ("userfaultfd", (1,)),
    )


def kernel(scene: Scene) -> str:
    """Load a module, read the kernel's log, set the clock, swap."""
    return _not_refused(
        ("finit_module", (-1, b"\0", 0)),
        ("syslog", (10, 0, 0)),
        ("clock_settime", (99, bytes(16))),
        ("swapoff", (b"/nowhere\0",)),
        ("acct", (b"/nowhere\0",)),
    )


def _not_refused(*calls: "tuple[str, tuple[int | bytes, ...]]") -> str:
    """What became of the first system call that was not refused with EPERM; empty where each was."""
    for name, words in calls:
        try:
            call(name, *words)
        except OSError as error:
            if error.errno == 1:
                continue
            return f"{name} got as far as: {error.strerror}"
        return f"{name} worked"
    return ""


def hostname(scene: Scene) -> str:
    """Rename the machine."""
    call("sethostname", b"escaped", 7)
    return "renamed it"


def personality(scene: Scene) -> str:
    """Take on an execution domain that weakens memory protection."""
    call("personality", 0x0400000)
    return "took it on"


def shared_memory(scene: Scene) -> str:
    """Look for memory that other programs share."""
    shown = scene.visible.get("/dev/shm", [])  # noqa: S108 - the cage's own
    if any(name not in shown for name in posix.listdir("/dev/shm")):  # noqa: S108 - the cage's own
        return "it is not empty"
    return "there are segments of other programs" if len(read("/proc/sysvipc/shm").splitlines()) > 1 else ""


def terminal(scene: Scene) -> str:
    """Type into the user's terminal, or share its session."""
    if posix.getsid(0) == 0:
        return "the session is the host's"
    for place in (0, 1, 2):
        try:
            call("ioctl", place, _INJECT, b"\n\0")
        except OSError as error:
            if error.errno == 1:
                continue
            return f"the kernel was asked ({error.strerror})"
        return "typed a line"
    return ""
