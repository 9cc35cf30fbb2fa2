"""What is to be seen inside a cage, as bubblewrap's arguments and as Landlock's lists."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from parley.adapters.boundary.cage import HOME, Cage
from parley.ports import Bind

PACKAGE = str(Path(__file__).resolve().parents[2])
INTERPRETER = os.path.realpath(sys.executable)
PREFIX = os.path.realpath(sys.base_prefix)

TMP_BYTES, RUN_BYTES, SHARED_BYTES = 2 << 30, 1 << 20, 512 << 20
TMP, RUN, SHARED, VAR_TMP = "/tmp", "/run", "/dev/shm", "/var/tmp"  # noqa: S108 - the cage's own
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
    """All that makes a cage. Tests spoil it, piece by piece."""

    walls: list[str]
    system: list[str]
    binds: list[Bind]
    last: list[str]
    data: dict[str, bytes]  # files that are made up: target -> content
    visible: dict[str, list[str]] = field(default_factory=dict)
    targets: list[str] = field(default_factory=list)  # what is meant to be bound
    filter: bytes = b""
    wall: bool = True  # Landlock
    writable: list[str] = field(default_factory=lambda: [TMP, "/dev"])  # to Landlock, besides the binds
    environment: dict[str, str] = field(default_factory=dict)  # of bubblewrap, and so of the first process
    descriptors: tuple[int, ...] = ()  # passed on besides: none

    def arguments(self, source: Callable[[str], str], data: Callable[[bytes], int]) -> list[str]:
        """Bubblewrap's, given how a source is reached and where made-up files can be read."""
        words = [*self.walls, *self.system]
        for target, content in self.data.items():
            words += ["--ro-bind-data", str(data(content)), target]
        for bind in self.binds:
            words += ["--bind" if bind.writable else "--ro-bind", source(bind.source), bind.target]
        return [*words, *self.last]


def draw(cage: Cage, uid: int, readable: Iterable[str]) -> Profile:
    """The profile of a cage."""
    system, targets = _system()
    workspace = cage.site.workspace
    own = [Bind(workspace, workspace, cage.site.writable), Bind(str(cage.home), HOME, writable=True)]
    given = [*own, *cage.site.binds, *cage.binds]
    shown = [bind.target for bind in given]
    paths = [PREFIX, PACKAGE, *readable]
    extra = [Bind(path, path) for path in dict.fromkeys(paths) if not _within(path, ["/usr", *shown])]
    binds = [*extra, *given]
    data = {
        "/etc/passwd": f"root:x:0:0:root:/:/bin/sh\nagent:x:{uid}:{uid}:agent:{HOME}:/bin/sh\n".encode(),
        "/etc/group": f"root:x:0:\nagent:x:{uid}:\n".encode(),
        "/etc/hosts": b"127.0.0.1 localhost cage\n::1 localhost\n",
    }
    placed = [_without_link(bind.target) for bind in binds]
    opaque = [target for target, solid in targets.items() if solid] + placed
    visible = _around([*targets, *data, *placed], opaque)
    for empty in (TMP, RUN):
        visible.setdefault(empty, [])
    visible |= {VAR_TMP + path[len(TMP) :]: names for path, names in visible.items() if _within(path, [TMP])}
    # what leads to a bind below /tmp is no place to write to: a file left there would seem to lie beside the workspace
    ways = sorted({way for target in placed if (way := _way(target)) and way not in map(_without_link, shown)})
    for way in ways:
        system += ["--perms", "0755", "--size", str(RUN_BYTES), "--tmpfs", way]
    # in /proc lies the memory of every process: one that writes there plants code in the agent's own program
    sealed = [word for way in (*ways, "/proc", "/dev", "/") for word in ("--remount-ro", way)]
    return Profile(
        list(_WALLS),
        system,
        binds,
        [*sealed, "--chdir", workspace],
        data,
        visible,
        [*shown, *(bind.target for bind in extra)],
    )


def empty() -> Profile:
    """The profile of an empty cage: to find out whether cages can be drawn at all."""
    system, _ = _system()
    data = {"/etc/hosts": b""}
    return Profile(list(_WALLS), system, [], ["--remount-ro", "/proc", "--remount-ro", "/", "--chdir", "/"], data)


def hidden(profile: Profile, paths: Iterable[str]) -> list[str]:
    """Those of some paths that nothing of the cage lies over: they are the host's own, and not to be seen."""
    return [path for path in paths if not _within(path, profile.targets)]


def landlock_lists(profile: Profile) -> tuple[list[str], list[str], list[str]]:
    """What may be read, written and listed."""
    readable = ["/usr", *(f"/{name}" for name in _MERGED), "/etc", "/var", "/proc"]
    readable += [bind.target for bind in profile.binds if not bind.writable]
    writable = [*profile.writable]
    writable += [bind.target for bind in profile.binds if bind.writable]
    return readable, writable, ["/"]


def _system() -> tuple[list[str], dict[str, bool]]:
    """The arguments for what every cage has, and the targets: whether each is a thing of the host's own."""
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
    """Where a target lies: in a cage /var/tmp is a link to /tmp."""
    return TMP + target[len(VAR_TMP) :] if _within(target, [VAR_TMP]) else target


def _way(target: str) -> str:
    """The first folder below /tmp or /run on the way to a target, if there is one between."""
    parts = Path(target).parts
    return str(Path(*parts[:3])) if f"/{parts[1]}" in {TMP, RUN} and len(parts) > 3 else ""  # noqa: PLR2004 - /, tmp, way, target


def _within(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _around(targets: Iterable[str], opaque: list[str]) -> dict[str, list[str]]:
    """Every folder that is there only because something is bound below it, and the names that it may show."""
    visible: dict[str, set[str]] = {}
    for target in targets:
        path = Path(target)
        for folder in path.parents:
            if _within(str(folder), opaque):
                break
            visible.setdefault(str(folder), set()).add(path.name)
            path = folder
    return {folder: sorted(names) for folder, names in visible.items()}
