"""Landlock: a second wall behind the mounts. The launcher puts itself behind it, and so every process of the agent."""

import posix

from parley.sandbox.inside.syscalls import call

_VERSION_FLAG = 1
_FOLDER = 0o040000
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
_ALL_ACCESS = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF}  # from version 5 on: also ioctl on devices
_ALL_NEWEST = 0xFFFF
_SCOPES = 3  # abstract sockets and signals stay inside, from version 6 on
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | 0x4000 | 0x8000  # and truncate, ioctl

READ = EXECUTE | READ_FILE | READ_DIR


def version() -> int:
    """The version that the kernel has; 0 for none."""
    try:
        return call("landlock_create_ruleset", 0, 0, _VERSION_FLAG)
    except OSError:
        return 0


def restrict(readable: "list[str]", writable: "list[str]", listable: "list[str]") -> int:
    """Allow access to these paths alone, for good; the version used. An OSError where there is no Landlock."""
    newest = call("landlock_create_ruleset", 0, 0, _VERSION_FLAG)
    everything = _ALL_ACCESS.get(newest, _ALL_NEWEST)
    attributes = _word(everything, 8)
    if newest >= 6:  # noqa: PLR2004 - the version that brought scopes
        attributes += _word(0, 8) + _word(_SCOPES, 8)
    ruleset = call("landlock_create_ruleset", attributes, len(attributes), 0)
    try:
        for paths, access in ((listable, READ_DIR), (readable, READ), (writable, everything)):
            for path in paths:
                _allow(ruleset, path, access & everything)
        call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        call("landlock_restrict_self", ruleset, 0)
    finally:
        posix.close(ruleset)
    return newest


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        place = posix.open(path, posix.O_PATH | posix.O_CLOEXEC)
    except FileNotFoundError:
        return  # a missing path needs no rule
    try:
        folder = posix.fstat(place).st_mode & 0o170000 == _FOLDER
        rule = _word(access if folder else access & _OF_FILES, 8) + _word(place, 4)
        call("landlock_add_rule", ruleset, _PATH_BENEATH, rule, 0)
    finally:
        posix.close(place)


def _word(value: int, size: int) -> bytes:
    return value.to_bytes(size, "little")
