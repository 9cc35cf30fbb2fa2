"""System calls, by the part of ctypes that is built in: importing all of it costs the launcher two megabytes.

This module also runs inside the cage: it imports only what the interpreter has loaded already.
"""

import _ctypes
import posix

X86, ARM = "x86_64", "aarch64"
MACHINE = posix.uname().machine

# The calls that the filter and the attempts use: their numbers on x86_64 and on aarch64 (-1: there is none).
NUMBERS = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, -1),
    "iopl": (172, -1),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "landlock_add_rule": (445, 445),
    "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446),
    "lookup_dcookie": (212, 18),
    "modify_ldt": (154, -1),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "openat2": (437, 437),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pivot_root": (155, 41),
    "prctl": (157, 167),
    "prlimit64": (302, 261),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "shmget": (29, 194),
    "socket": (41, 198),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "uselib": (134, -1),
    "vhangup": (153, 58),
}


class _Long(_ctypes._SimpleCData):  # type: ignore[type-arg] # noqa: SLF001 - it is what ctypes.c_long is made of
    _type_ = "l"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Long


_syscall = _Function(_ctypes.dlsym(_ctypes.dlopen(None, 0), "syscall"))  # type: ignore[arg-type] # the stub knows only the class itself


def number(name: str, machine: str = MACHINE) -> int:
    """A call's number on a machine; -1 if it has none."""
    return NUMBERS[name][0 if machine == X86 else 1]


def call(name: str, *arguments: "int | bytes") -> int:
    """Make a system call; an OSError if it fails. Bytes are passed by their address, and may be written to."""
    _ctypes.set_errno(0)
    words = [word if isinstance(word, bytes) else _Long(word) for word in arguments]
    result: int = _syscall(_Long(number(name)), *words)
    if result == -1:
        error = _ctypes.get_errno()
        raise OSError(error, posix.strerror(error), name)
    return result
