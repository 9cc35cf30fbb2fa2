"""What an agent sees inside a cage, as bubblewrap's arguments and as Landlock's lists."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from parley.ports.turns import Bind
from parley.sandbox.cage import HOME, Cage

PACKAGE = str(Path(__file__).resolve().parents[1])
INTERPRETER = os.path.realpath(sys.executable)
PREFIX = os.path.realpath(sys.base_prefix)

TMP_BYTES, RUN_BYTES, SHARED_BYTES = 2 << 30, 1 << 20, 512 << 20
TMP, RUN, SHARED, VAR_TMP = "/tmp", "/run", "/dev/shm", "/var/tmp"  # noqa: S108 - the cage's own
EMPTY = (TMP, RUN, SHARED)  # the cage's own folders: they hold only what leads to a bind
OWN = (".git", ".parley")  # hidden also in a repository that can't be hidden as a whole
# Folders with the machine's programs: every cage shows them, even where one is a user's repository or home.
_USR = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec", "share", "include", "games", "src", "etc", "man")
_PUBLIC = (
    "/", "/usr", "/usr/local", "/bin", "/sbin", "/dev", "/proc",
    *(f"{above}/{name}" for above in ("/usr", "/usr/local") for name in _USR),
)  # fmt: skip
_NEEDED = (os.path.realpath(os.path.dirname(os.__file__)), INTERPRETER)  # noqa: PTH120 - texts, as binds are
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = (
    "alternatives", "ca-certificates", "crypto-policies", "fonts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
    "localtime", "mime.types", "nsswitch.conf", "os-release", "pki", "protocols", "services", "ssl", "terminfo",
    "timezone",
)  # fmt: skip
_WALLS = (
    "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
    "--hostname", "cage", "--clearenv",
)  # fmt: skip


@dataclass(slots=True)
class Profile:
    """All that makes a cage. Tests spoil it, piece by piece, to see that the attempts notice."""

    walls: list[str]
    system: list[str]
    binds: list[Bind]
    last: list[str]
    data: dict[str, bytes]  # files that are made up: target -> content
    covers: list[str] = field(default_factory=list)  # folders of the host that an empty one hides
    visible: dict[str, list[str]] = field(default_factory=dict)
    targets: list[str] = field(default_factory=list)  # where the binds are meant to lie
    filter: bytes = b""
    wall: bool = True  # Landlock
    writable: list[str] = field(default_factory=lambda: [TMP, "/dev"])  # by Landlock's rules, besides the binds
    environment: dict[str, str] = field(default_factory=dict)  # of bubblewrap, and so of the cage's first process
    descriptors: tuple[int, ...] = ()  # that bubblewrap inherits besides: none

    def arguments(self, source: Callable[[str], str], data: Callable[[bytes], int]) -> list[str]:
        """Bubblewrap's arguments. `source` tells how a source is reached, `data` opens a made-up file's content."""
        words = [*self.walls, *self.system]
        for target, content in self.data.items():
            words += ["--ro-bind-data", str(data(content)), target]
        # outer mounts first: a later one hides what lies below it
        mounts: list[str | Bind] = [*self.covers, *self.binds]
        for mount in sorted(mounts, key=_depth):
            if isinstance(mount, str):
                words += ["--perms", "0755", "--size", str(RUN_BYTES), "--tmpfs", mount]
            else:
                words += ["--bind" if mount.writable else "--ro-bind", source(mount.source), mount.target]
        return [*words, *self.last]


def draw(
    cage: Cage, uid: int, readable: Sequence[str], private: Sequence[str] = (), personal: Sequence[str] = ()
) -> Profile:
    """The profile of a cage.

    `private`: folders that are shown to no cage, wherever they lie; `personal`: those that are shown only where the
    user made them readable.
    """
    system, targets = _system()
    workspace = cage.site.workspace
    own = [Bind(workspace, workspace, cage.site.writable), Bind(str(cage.home), HOME, writable=True)]
    given = [*own, *cage.site.binds, *cage.binds]
    shown = [bind.target for bind in given]
    solid = [target for target, solid in targets.items() if solid]
    paths = list(dict.fromkeys([PREFIX, PACKAGE, *readable]))
    beside = os.path.dirname(workspace)  # noqa: PTH120 - a text, as binds are
    hides = _hiding([*solid, *paths], private, [*personal, beside], readable)
    hides = [folder for folder in hides if not _barred(folder, [*solid, *paths], uid)]  # no agent enters those
    hides += _barring([*solid, *paths], shown, uid)
    # what is visible already is bound again only where something hides it
    same = ["/usr", *(bind.target for bind in given if bind.source == bind.target)]
    extra = [Bind(path, path) for path in paths if not _within(path, same) or _within(path, hides)]
    binds = [*extra, *given]
    data = {
        "/etc/passwd": f"root:x:0:0:root:/:/bin/sh\nagent:x:{uid}:{uid}:agent:{HOME}:/bin/sh\n".encode(),
        "/etc/group": f"root:x:0:\nagent:x:{uid}:\n".encode(),
        "/etc/hosts": b"127.0.0.1 localhost cage\n::1 localhost\n",
    }
    placed = [_without_link(bind.target) for bind in binds]
    # read-only: a file that an agent leaves on the way to a bind below /tmp would seem to lie beside the workspace
    ways = {way for target in placed if (way := _way(target)) and way not in map(_without_link, shown)}
    covers = sorted({*ways, *hides})
    visible = _around([*targets, *data, *covers, *placed], [*solid, *placed], [*EMPTY, *covers])
    for empty in (*EMPTY, *(cover for cover in covers if cover not in placed)):
        visible.setdefault(empty, [])
    visible |= {VAR_TMP + path[len(TMP) :]: names for path, names in visible.items() if _within(path, [TMP])}
    # /proc holds the memory of every process: a process that writes there plants code in the agent's program
    sealed = [word for cover in (*covers, "/proc", "/dev", "/") for word in ("--remount-ro", cover)]
    return Profile(
        walls=list(_WALLS),
        system=system,
        binds=binds,
        last=[*sealed, "--chdir", workspace],
        data=data,
        covers=covers,
        visible=visible,
        targets=[*shown, *(bind.target for bind in extra)],
    )


def empty() -> Profile:
    """The profile of an empty cage, which shows whether bubblewrap works at all."""
    system, _ = _system()
    data = {"/etc/hosts": b""}
    return Profile(
        walls=list(_WALLS),
        system=system,
        binds=[],
        last=["--remount-ro", "/proc", "--remount-ro", "/", "--chdir", "/"],
        data=data,
    )


def hidden(profile: Profile, paths: Iterable[str]) -> list[str]:
    """Those of some paths that the cage shows nothing of: an agent must not see the host's folders there."""
    return [path for path in paths if path in profile.visible or not _within(path, [*profile.targets, *_PUBLIC])]


class LandlockLists(NamedTuple):
    """The paths that Landlock lets be read, written and listed."""

    readable: list[str]
    writable: list[str]
    listable: list[str]


def landlock_lists(profile: Profile) -> LandlockLists:
    """What Landlock allows in a cage."""
    readable = ["/usr", *(f"/{name}" for name in _MERGED), "/etc", "/var", "/proc"]
    readable += [bind.target for bind in profile.binds if not bind.writable]
    writable = [*profile.writable]
    writable += [bind.target for bind in profile.binds if bind.writable]
    return LandlockLists(readable, writable, ["/"])


def _system() -> tuple[list[str], dict[str, bool]]:
    """The arguments for what every cage has, and its targets: whether each shows a folder of the host."""
    words, targets = ["--ro-bind", "/usr", "/usr"], {"/usr": True}
    for path in (f"/{name}" for name in _MERGED):
        if os.path.islink(path):  # noqa: PTH114 - beside readlink, in the same words
            words += ["--symlink", os.readlink(path), path]  # noqa: PTH115 - as above
            targets[path] = False
        elif os.path.isdir(path):  # noqa: PTH112 - as above
            words += ["--ro-bind", path, path]
            targets[path] = True
    for path in _etc():
        words += ["--ro-bind", path, path]
        targets[path] = True
    words += ["--proc", "/proc", "--dev", "/dev"]
    for target, size, mode in ((SHARED, SHARED_BYTES, "1777"), (TMP, TMP_BYTES, "1777"), (RUN, RUN_BYTES, "0755")):
        words += ["--perms", mode, "--size", str(size), "--tmpfs", target]
    words += ["--perms", "0755", "--dir", "/var", "--symlink", "../tmp", VAR_TMP]
    targets |= {"/proc": True, "/dev": True, TMP: False, RUN: False, VAR_TMP: False}
    return words, targets


def _etc() -> Iterator[str]:
    folder = Path("/etc")
    for path in (*(folder / name for name in _ETC), *folder.glob("java-*"), *folder.glob("python3*")):
        if path.exists():
            yield str(path)


def _without_link(target: str) -> str:
    """A target without the one link that cages have: /var/tmp leads to /tmp."""
    return TMP + target[len(VAR_TMP) :] if _within(target, [VAR_TMP]) else target


def _depth(mount: str | Bind) -> int:
    return _without_link(mount if isinstance(mount, str) else mount.target).count("/")


def _way(target: str) -> str:
    """The first folder on the way to a target below /tmp, /run or /dev/shm, if there is one between."""
    for empty in EMPTY:
        if _within(target, [empty]):
            first, _, rest = target[len(empty) + 1 :].partition("/")
            return f"{empty}/{first}" if rest else ""
    return ""


def _hiding(folders: list[str], private: Iterable[str], personal: Iterable[str], readable: Sequence[str]) -> list[str]:
    """The private and personal folders that lie in folders of the host which cages show."""
    found = [folder for folder in private if _within(folder, folders)]
    for folder in personal:
        if _within(folder, folders):
            whole = not (_is_public(folder) or _within(folder, readable))
            found += [folder] if whole else [f"{folder}/{name}" for name in OWN]
    there = [folder for folder in dict.fromkeys(found) if os.path.isdir(folder)]  # noqa: PTH112 - texts, as binds are
    return list(map(_without_link, there))


def _is_public(folder: str) -> bool:
    """Whether a folder holds what every cage needs, so that it can't be hidden as a whole."""
    return any(_within(needed, [folder]) for needed in (*_PUBLIC, *_NEEDED))


def _barring(folders: list[str], targets: Iterable[str], uid: int) -> list[str]:
    """The folders on the way to a bind, below a folder of the host, that the cage's user can't enter."""
    return list(dict.fromkeys(barred for target in targets if (barred := _barred(target, folders, uid))))


def _barred(target: str, folders: list[str], uid: int) -> str:
    """The first folder between a folder of the host and a target that the cage's user can't enter, or none."""
    above = [folder for folder in folders if _within(target, [folder]) and target != folder]
    if not above:
        return ""
    here = max(above, key=len)
    for part in target[len(here) + 1 :].split("/")[:-1]:
        here = f"{here}/{part}"
        if not _enterable(here, uid):
            return here
    return ""


def _enterable(folder: str, uid: int) -> bool:
    if os.geteuid() != 0:
        return os.access(folder, os.X_OK)
    try:
        found = os.stat(folder)  # noqa: PTH116 - a text, as binds are
    except OSError:
        return False
    return bool(found.st_mode & (stat.S_IXUSR if found.st_uid == uid else stat.S_IXOTH))


def _within(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _around(targets: Iterable[str], opaque: list[str], emptied: list[str]) -> dict[str, list[str]]:
    """Each folder that exists only because something is bound below it, and the names that it may show."""
    visible: dict[str, set[str]] = {}
    for target in targets:
        path = target
        while path != "/":
            folder, _, name = path.rpartition("/")
            folder = folder or "/"
            if 0 < _longest(folder, opaque) >= _longest(folder, emptied):
                break
            visible.setdefault(folder, set()).add(name)
            path = folder
    return {folder: sorted(names) for folder, names in visible.items()}


def _longest(path: str, folders: list[str]) -> int:
    """The length of the innermost of some folders that holds a path; 0 if none does."""
    return max((len(folder) for folder in folders if _within(path, [folder])), default=0)
