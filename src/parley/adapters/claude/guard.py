"""The pre-tool check: what a tool may touch. It runs outside the boundary and sees paths as the agent does.

The boundary holds whatever this check lets through; the check is there so that an agent is told why, and so that
two things have to fail before something is touched that is not the agent's. What it does not know, it refuses.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from parley.ports import Judge, Site, unjudged

HOME = "/home/agent"
SCRATCH = "/tmp"  # noqa: S108 - a memory of the agent's own behind the boundary, not the machine's
READABLE = ("/usr",)  # what is installed, as anybody may read it
MOST_LINKS = 40
PREFIX = "mcp__p__"  # how the CLI names the tools of the server `p`

# The tools of Claude Code's own that a role may have. All others are absent: what starts other agents, works in
# the background or reaches out; a conversation goes over the bus.
BUILT_IN = ("Read", "Edit", "Write", "Bash", "Glob", "Grep", "NotebookEdit")


class Refused(Exception):
    """A tool's call is not allowed: the text is what the agent is told."""


@dataclass(frozen=True, slots=True)
class Ground:
    """Where an instance stands, and what it has."""

    site: Site
    home: str  # outside
    tools: frozenset[str]  # of the CLI's own
    protocol: frozenset[str]  # of the protocol's
    seen: str = HOME  # its home, as the agent knows it
    judge: Judge = unjudged  # whose a path of the workspace is

    def outside(self, path: str) -> str | None:
        """Where a path of the agent's lies outside; None if it lies nowhere that can be looked at from here."""
        if within(path, self.site.workspace):
            return path
        if within(path, self.seen):
            return self.home + path[len(self.seen) :]
        return None


def check(ground: Ground, tool: str, arguments: Mapping[str, Any], folder: str) -> None:
    """Refuse a call that is not allowed. `folder` is where the agent is, for relative paths."""
    if tool.startswith(PREFIX):
        if tool.removeprefix(PREFIX) not in ground.protocol:
            raise Refused(f"you have no tool {tool!r}")
        return
    if tool not in ground.tools or tool not in _CHECKS:
        raise Refused(f"you have no tool {tool!r}")
    _CHECKS[tool](ground, arguments, folder)


def within(path: str, root: str) -> bool:
    """Whether a path is a root or lies in it."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def resolve(ground: Ground, path: Any, folder: str) -> str:
    """Where a path leads that the agent names, with every link on the way followed, as the agent sees it."""
    if not isinstance(path, str) or not path or "\0" in path:
        raise Refused("the path must be a text")
    if path == "~" or path.startswith("~/"):
        path = ground.seen + path[1:]
    links = 0
    done = "/"
    left = _parts(posixpath.join(folder, path))
    while left:
        name = left.pop()
        if name == "..":
            done = posixpath.dirname(done)
            continue
        here = posixpath.join(done, name)
        target = _link(ground.outside(here))
        if target is None:
            done = here
            continue
        links += 1
        if links > MOST_LINKS:
            raise Refused(f"{path}: too many links")
        left += _parts(target)
        if target.startswith("/"):
            done = "/"
    return done


def _parts(path: str) -> list[str]:
    """A path's names, the first at the end."""
    return [name for name in reversed(path.split("/")) if name not in {"", "."}]


def _link(path: str | None) -> str | None:
    """What a link holds; None if there is none."""
    if path is None:
        return None
    try:
        return os.readlink(path) if stat.S_ISLNK(os.lstat(path).st_mode) else None  # noqa: PTH115 - as it is written
    except (FileNotFoundError, NotADirectoryError):
        return None


def _reads(ground: Ground, path: Any, folder: str) -> None:
    where = resolve(ground, path, folder)
    if not _own(ground, where) and not any(within(where, root) for root in READABLE):
        raise Refused(_elsewhere(ground, path, where))


def _writes(ground: Ground, path: Any, folder: str) -> None:
    where = resolve(ground, path, folder)
    if not _own(ground, where):
        raise Refused(_elsewhere(ground, path, where))
    if within(where, ground.site.workspace) and not ground.site.writable:
        raise Refused("you may only read in this workspace")
    for bind in ground.site.binds:
        if not bind.writable and within(where, bind.target):
            raise Refused(f"{path} is not yours to change")
    for name in (".git", ".claude"):
        if within(where, posixpath.join(ground.site.workspace, name)):
            raise Refused(f"{name} in the workspace is not yours to change")
    if within(where, ground.site.workspace):
        refusal = ground.judge(ground.site, where[len(ground.site.workspace) :].strip("/"))
        if refusal:
            raise Refused(refusal)


def _own(ground: Ground, path: str) -> bool:
    workspace = ground.site.workspace
    if within(path, workspace) or within(path, ground.seen):
        return True
    if not path.startswith(f"{SCRATCH}/"):
        return False
    # Where the workspace itself lies in /tmp, what is beside it is not scratch.
    return not (within(workspace, SCRATCH) and within(path, "/".join(workspace.split("/")[:3])))


def _elsewhere(ground: Ground, path: str, where: str) -> str:
    leads = "" if posixpath.normpath(path) == where else f" (it leads to {where})"
    return f"{path}{leads} is outside your workspace; use the workspace, {ground.seen} or {SCRATCH}"


def _file(effect: Callable[[Ground, Any, str], None], key: str) -> Callable[[Ground, Mapping[str, Any], str], None]:
    return lambda ground, arguments, folder: effect(ground, arguments.get(key), folder)


def _bash(ground: Ground, arguments: Mapping[str, Any], folder: str) -> None:
    if not isinstance(arguments.get("command"), str):
        raise Refused("the command must be a text")
    if arguments.get("run_in_background"):
        raise Refused("nothing may outlive your turn: run it in the foreground, with a timeout")
    if arguments.get("dangerouslyDisableSandbox"):
        raise Refused("the boundary can't be switched off from inside")


def _search(*patterns: str) -> Callable[[Ground, Mapping[str, Any], str], None]:
    def check_search(ground: Ground, arguments: Mapping[str, Any], folder: str) -> None:
        _reads(ground, arguments.get("path") or folder, folder)
        for key in patterns:
            pattern = arguments.get(key) or ""
            if not isinstance(pattern, str) or ".." in pattern.split("/") or pattern.startswith("~"):
                raise Refused(f"{key} must stay below the folder that is searched")
            if pattern.startswith("/"):
                _reads(ground, _literal(pattern), folder)

    return check_search


def _literal(pattern: str) -> str:
    """The folder that an absolute pattern is sure to stay in."""
    names: list[str] = []
    for name in pattern.split("/"):
        if any(sign in name for sign in "*?[{"):
            break
        names.append(name)
    return "/".join(names) or "/"


_CHECKS: dict[str, Callable[[Ground, Mapping[str, Any], str], None]] = {
    "Read": _file(_reads, "file_path"),
    "Edit": _file(_writes, "file_path"),
    "Write": _file(_writes, "file_path"),
    "NotebookEdit": _file(_writes, "notebook_path"),
    "Bash": _bash,
    "Glob": _search("pattern"),
    "Grep": _search("glob"),
}


def built_in(wanted: Iterable[str], protocol: Collection[str]) -> tuple[str, ...]:
    """Those of a role's tools that are Claude Code's own and may be had, in one order."""
    named = {name.partition("(")[0].strip() for name in wanted} - set(protocol)
    return tuple(name for name in BUILT_IN if name in named)
