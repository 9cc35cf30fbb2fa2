"""What the place of an order consists of, by paths, and where these lie on another host.

| what | where | goes out | comes back |
| --- | --- | --- | --- |
| the workspace | `work`, `trees/NAME`, `clones/TREE` | yes | where the turn may write to it |
| the instance's home, with its sessions | `homes/NAME` | yes | yes |
| the agent's own repository | `gitdirs/NAME.git` | yes | yes |
| sealed files, its workers' trees, the file at `.git` | `sealed/`, `children/`, `clones/`, `gitdirs/` | yes | no |
| the commits that it can read | `gitdirs/NAME.turns/objects`, `bases/COMMIT/objects` in the home | as commits | no |

All but the last lie in the job's folder. What a runner binds besides (programs, roles, skills, protocols) is the
host's own and in no order. Anything else that is bound is refused: another host does not have it, and Parley can't know
whether it may be sent there.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from parley.bus.rows import JOB_ID
from parley.hosts.mirror.mirror_errors import PlaceRefused
from parley.hosts.mirror.place_names import as_text
from parley.ports.turns import Bind, Order, Room

_WORKSPACES = re.compile(r"work|trees/[^/]+|clones/[^/]+")
_HOME = re.compile(r"homes/[^/]+")
_BOUND = re.compile(r"(?:gitdirs|sealed|children|clones)/[^/]+(?:/.+)?")
_TURNS = re.compile(r"gitdirs/(?P<name>[^/]+)\.turns/objects")
_BASE = re.compile(r"bases/(?P<commit>[0-9a-f]{40}|[0-9a-f]{64})/objects")


@dataclass(frozen=True, slots=True)
class PlacePart:
    """A folder or a file of the place, by its path in the job's folder."""

    path: str
    back: bool  # whether it comes back: the turn may write to it


@dataclass(frozen=True, slots=True)
class OrderPlace:
    """The parts of an order's place below the job's folder of one machine."""

    order: Order
    folder: Path  # the job's
    parts: tuple[PlacePart, ...]  # the workspace first, then the instance's home
    turns: str = ""  # the workspace whose commits the agent can read; empty: none
    base: str = ""  # the commit that the job started from, where the agent can read it

    @property
    def home(self) -> Path:
        """The home that the job's folder lies in."""
        return self.folder.parent.parent

    @property
    def key(self) -> str:
        """The instance, as a name of a ref: its home's."""
        return ref_name(posixpath.basename(self.order.home))

    def at(self, home: Path, room: Room | None) -> OrderPlace:
        """The same place in another home, with its order; `room` is that machine's."""
        folder, order = home / "jobs" / self.order.job, self.order
        site = replace(
            order.site,
            workspace=_moved(order.site.workspace, self.folder, folder),
            binds=tuple(
                Bind(_moved(bind.source, self.home, home), _moved(bind.target, self.folder, folder), bind.writable)
                for bind in order.site.binds
            ),
            room=room,
        )
        there = structs.replace(order, site=site, home=_moved(order.home, self.folder, folder))
        return replace(self, order=there, folder=folder)

    def part_folder(self, part: PlacePart) -> Path:
        """Where a part lies."""
        return self.folder / part.path


def place_of(order: Order) -> OrderPlace:
    """The place of an order. PlaceRefused where something of it can't go to another host."""
    home = Path(order.home)
    folder = home.parent.parent
    if not JOB_ID.fullmatch(order.job) or folder.name != order.job or folder.parent.name != "jobs":
        raise PlaceRefused(f"{order.home} is no home of an instance of job {order.job}; it can't go to another host")
    workspace = _below(order.site.workspace, folder)
    if not _WORKSPACES.fullmatch(workspace) or not _HOME.fullmatch(_below(order.home, folder)):
        raise _outside(order, order.site.workspace if not _WORKSPACES.fullmatch(workspace) else order.home)
    parts = {workspace: order.site.writable, _below(order.home, folder): True}
    turns = base = ""
    for bind in order.site.binds:
        inside = _below(bind.source, folder)
        if commits := _TURNS.fullmatch(inside):
            turns = commits["name"]
        elif found := _BASE.fullmatch(_below(bind.source, folder.parent.parent)):
            base = found["commit"]
        elif _BOUND.fullmatch(inside):
            parts[inside] = parts.get(inside, False) or bind.writable
        else:
            raise _outside(order, bind.source)
    return OrderPlace(
        order=order,
        folder=folder,
        parts=tuple(PlacePart(path, back) for path, back in parts.items()),
        turns=turns,
        base=base,
    )


def _outside(order: Order, path: str) -> PlaceRefused:
    return PlaceRefused(
        f"{path} is shown to {order.agent}, and is no part of the job's own files: another host does not have it; "
        "let this agent's turns run on the coordinator"
    )


def _below(path: str, folder: Path) -> str:
    """A path from a folder; empty where it does not lie below it, or is not written plainly."""
    above = f"{folder}/"
    if not path.startswith(above) or posixpath.normpath(path) != path:
        return ""
    return path[len(above) :]


def _moved(path: str, before: Path, now: Path) -> str:
    """A path below one folder as it is below another; any other path stays."""
    inside = _below(path, before)
    return f"{now}/{inside}" if inside else path


def ref_name(text: str) -> str:
    """Any text as one part of a ref's name: plain where it can be."""
    plain = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*", text) and not text.endswith(".lock")
    return text if plain else f"x{as_text(text).encode('latin-1').hex()}"
