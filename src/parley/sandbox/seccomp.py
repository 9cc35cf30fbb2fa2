"""The filter of system calls: it refuses those that no agent needs. The program for the kernel is assembled here."""

from __future__ import annotations

import errno
import struct
from collections.abc import Collection

from parley.sandbox.inside.syscalls import ARM, MACHINE, X86, number

ARCHITECTURES = {X86: 0xC000003E, ARM: 0xC00000B7}
X32 = 0x40000000  # from this number on, calls of x86_64's other calling convention

# The calls that are refused, by the attempt that shows it. An exempt attempt's calls are allowed.
REFUSED = {
    "mount": ("mount", "umount2", "move_mount", "open_tree", "open_tree_attr", "fsopen", "fsconfig", "fsmount",
              "fspick", "mount_setattr"),
    "chroot": ("chroot", "pivot_root"),
    "user_namespace": ("unshare",),
    "enter_namespace": ("setns",),
    "trace": ("ptrace", "process_vm_readv", "process_vm_writev", "kcmp"),
    "steal_descriptor": ("pidfd_getfd",),
    "keyring": ("add_key", "request_key", "keyctl"),
    "kernel_programs": ("bpf", "perf_event_open", "userfaultfd"),
    "file_handle": ("open_by_handle_at", "fanotify_init"),
    "hostname": ("sethostname", "setdomainname"),
    "kernel": ("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "swapon",
               "swapoff", "acct", "quotactl", "quotactl_fd", "syslog", "settimeofday", "clock_settime",
               "clock_adjtime", "adjtimex", "iopl", "ioperm", "modify_ldt", "uselib", "vhangup", "lookup_dcookie"),
}  # fmt: skip
# Answered as if the kernel had no such call: programs know how to go on without these.
ABSENT = {
    "io_uring": ("io_uring_setup", "io_uring_enter", "io_uring_register"),
    "user_namespace": ("clone3",),  # its flags lie in memory, where a filter can't look
}
NEW_NAMESPACES = 0x7E020000  # the flags of clone(2) that make one
INJECT = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX: typing into the user's terminal
SEGMENT_BYTES = 64 << 10  # in one segment of System V shared memory; a cage has 4096 at most
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
PLAIN_PROTOCOLS = (0, 6, 17)  # the family's default, TCP, UDP
PLAIN_PERSONALITIES = (0, 8, 0x20000, 0x20008, 0x40000, 0xFFFFFFFF)

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _KILL = 0x7FFF0000, 0x80000000


def _one(code: int, operand: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, operand)


def _refuse(error: int) -> bytes:
    return _one(_RETURN, 0x00050000 | error)


def _argument(position: int) -> bytes:
    """Load the lower half of an argument: the kernel looks at no more of those that are checked here."""
    return _one(_LOAD, _ARGUMENTS + 8 * position)


def _only(values: Collection[int], error: int) -> bytes:
    """Allow these values, refuse the rest."""
    tests = b"".join(_one(_EQUAL, value, yes=len(values) - place) for place, value in enumerate(values))
    return tests + _refuse(error) + _one(_RETURN, _ALLOW)


def _when(value: int, block: bytes) -> bytes:
    """A block for one value of what was loaded last; other values go on after it."""
    return _one(_EQUAL, value, no=len(block) // 8) + block


def _special(exempt: Collection[str], machine: str) -> list[bytes]:
    blocks = []
    if "user_namespace" not in exempt:
        flags = _argument(0) + _one(_ANY_BIT, NEW_NAMESPACES, no=1) + _refuse(errno.EPERM) + _one(_RETURN, _ALLOW)
        blocks.append(_when(number("clone", machine), flags))
    if "terminal" not in exempt:
        typing = _argument(1) + b"".join(_when(value, _refuse(errno.EPERM)) for value in INJECT) + _one(_RETURN, _ALLOW)
        blocks.append(_when(number("ioctl", machine), typing))
    if "personality" not in exempt:
        kinds = _argument(0) + _only(PLAIN_PERSONALITIES, errno.EPERM)
        blocks.append(_when(number("personality", machine), kinds))
    if "shared_memory" not in exempt:  # a segment outlives its processes, and is counted for none of them
        large = _one(_LOAD, _ARGUMENTS + 8 + 4) + _one(_EQUAL, 0, yes=1) + _refuse(errno.EINVAL)
        large += _argument(1) + _one(_AT_LEAST, SEGMENT_BYTES + 1, no=1) + _refuse(errno.EINVAL)
        blocks.append(_when(number("shmget", machine), large + _one(_RETURN, _ALLOW)))
    if "socket_families" not in exempt:
        internet = _argument(2) + _only(PLAIN_PROTOCOLS, errno.EPROTONOSUPPORT)
        families = (
            _argument(0)
            + _when(UNIX, _one(_RETURN, _ALLOW))
            + _when(INET, internet)
            + _when(INET6, internet)
            + _when(NETLINK, _argument(2) + _only((0,), errno.EPROTONOSUPPORT))
            + _refuse(errno.EAFNOSUPPORT)
        )
        blocks.append(_when(number("socket", machine), families))
    return blocks


def assemble(exempt: Collection[str] = (), machine: str = MACHINE) -> bytes:
    """The filter as the kernel takes it. A machine that is not known is a KeyError."""
    parts = [
        _one(_LOAD, _ARCHITECTURE),
        _one(_EQUAL, ARCHITECTURES[machine], yes=1),
        _one(_RETURN, _KILL),
        _one(_LOAD, _NUMBER),
    ]
    if machine == X86:
        parts.append(_one(_AT_LEAST, X32, no=1) + _refuse(errno.ENOSYS))
    for table, error in ((REFUSED, errno.EPERM), (ABSENT, errno.ENOSYS)):
        for attempt, names in table.items():
            if attempt not in exempt:
                numbers = [number(name, machine) for name in names]
                parts += [_when(value, _refuse(error)) for value in numbers if value >= 0]
    return b"".join([*parts, *_special(exempt, machine), _one(_RETURN, _ALLOW)])
