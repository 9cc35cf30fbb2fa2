"""A coordinator with a job, hosts with homes of their own, and a bare repository as the remote: all on one machine."""

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from parley.hosts.mirror.git_remote import Remote
from parley.hosts.mirror.place_mirror import PlaceMirror, Shipped
from parley.ports.turns import Order, Site
from tests.workspaces.user_repository import CHILD, JOB, ROOT, UserRepository, git, repository, write

AGENT = "coder"
Tree = dict[bytes, tuple[str, int, bytes]]  # path -> kind, permissions, content or target


def tree_of(folder: Path) -> Tree:
    """All that a folder holds, byte for byte, but for git's own."""
    found: Tree = {}
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        mode = path.lstat().st_mode
        if ".git" in inside.parts:
            continue
        if stat.S_ISLNK(mode):
            found[os.fsencode(inside)] = ("link", 0, os.fsencode(path.readlink()))
        elif stat.S_ISDIR(mode):
            found[os.fsencode(inside)] = ("folder", stat.S_IMODE(mode), b"")
        elif stat.S_ISREG(mode):
            found[os.fsencode(inside)] = ("file", stat.S_IMODE(mode), path.read_bytes())
    return found


def size_of(folder: Path) -> int:
    """The bytes of all files below a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


@dataclass
class Mirrored:
    """The coordinator's side: a user's repository with a job, and the remote."""

    base: Path
    more: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str | bytes] | None = None
    turn: int = 0

    def __post_init__(self) -> None:
        self.user = repository(self.base / "repo", self.files)
        self.bare = self.base / "remote.git"
        self.bare.mkdir()
        git(self.bare, "init", "-q", "--bare")
        self.remote = Remote(str(self.bare))
        self.mirror = PlaceMirror(self.user.root / ".parley", self.remote, **self.more)

    def host(self, name: str = "b", **more: Any) -> PlaceMirror:
        return PlaceMirror(self.base / name, self.remote, **{**self.more, **more})

    @property
    def job_folder(self) -> Path:
        return self.user.trees.home / "jobs" / JOB

    def order(self, name: str = ROOT, *, site: Site | None = None, again: bool = False, **more: Any) -> Order:
        """The next turn's order, with the workspace made ready as the engine does it."""
        self.turn += 0 if again else 1
        made = site or self.user.trees.prepare(JOB, name, "" if name == ROOT else ROOT, **more)
        return Order(
            turn=f"t{self.turn}",
            job=JOB,
            epoch=1,
            token="token",
            agent=AGENT,
            thread=name,
            message="do it",
            sender="human",
            state="EXECUTE",
            visit=1,
            site=made,
            home=str(self.job_folder / "homes" / f"{AGENT}-{name.replace(':', '-')}"),
            handle="",
            may_ask=False,
            time_limit_seconds=60.0,
            tools=(),
        )

    def there(self, host: PlaceMirror, order: Order) -> tuple[Order, Shipped]:
        """The turn begins on a host."""
        sent = self.mirror.send(order)
        return host.lay_out(without_room(order), sent), sent

    def back(self, host: PlaceMirror, order: Order, laid: Order) -> None:
        """The turn has ended there."""
        self.mirror.take_back(order, host.give_back(without_room(order), laid))

    def refs(self, under: str = "refs/parley") -> list[str]:
        return git(self.bare, "for-each-ref", "--format=%(refname)", under).split()


def without_room(order: Order) -> Order:
    """The order as the board carries it: what only the coordinator's process has is not there."""
    return structs.replace(order, site=replace(order.site, room=None))


def fill(folder: Path, files: dict[str, str | bytes], programs: Iterable[str] = ()) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write(folder, files)
    for name in programs:
        (folder / name).chmod(0o755)


__all__ = [
    "AGENT",
    "CHILD",
    "JOB",
    "ROOT",
    "Mirrored",
    "UserRepository",
    "fill",
    "git",
    "size_of",
    "tree_of",
    "without_room",
    "write",
]
