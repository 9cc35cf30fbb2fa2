"""The pre-tool check: which paths a tool may touch. It runs outside the boundary and sees paths as the agent does.

The boundary holds even where this check fails. The check tells the agent the reason, and makes sure that two things
have to fail before something is touched that is not the agent's. It refuses what it does not know.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from parley.ports.turns import Judge, Site, unjudged

HOME = "/home/agent"
SCRATCH = "/tmp"  # noqa: S108 - the agent's own behind the boundary, not the machine's
READABLE = ("/usr",)  # installed programs, which every user may read
MOST_LINKS = 40
PREFIX = "mcp__p__"  # how the CLI names the tools of the server `p`

# The tools of Claude Code's own that a role may have. Tools that start other agents, run in the background or
# reach the network are absent: conversations go over the bus.
BUILT_IN = ("Read", "Edit", "Write", "Bash", "Glob", "Grep", "NotebookEdit")


class ToolRefused(Exception):
    """A tool's call is not allowed: the text is what the agent is told."""


@dataclass(frozen=True, slots=True)
class ToolScope:
    """What an instance may touch: its site, its home and its tools."""

    site: Site
    home: str  # outside
    tools: frozenset[str]  # of the CLI's own
    protocol: frozenset[str]  # of the protocol's
    seen: str = HOME  # its home, as the agent knows it
    judge: Judge = unjudged  # says who owns a path of the workspace

    def outside(self, path: str) -> str | None:
        """A path of the agent's as it is outside; None if it can't be reached from here."""
        if within(path, self.site.workspace):
            return path
        if within(path, self.seen):
            return self.home + path[len(self.seen) :]
        return None


def check(scope: ToolScope, tool: str, arguments: Mapping[str, Any], folder: str) -> None:
    """Refuse a call that is not allowed. `folder` is where the agent is, for relative paths."""
    if tool.startswith(PREFIX):
        if tool.removeprefix(PREFIX) not in scope.protocol:
            raise ToolRefused(f"you have no tool {tool!r}")
        return
    if tool not in scope.tools or tool not in _CHECKS:
        raise ToolRefused(f"you have no tool {tool!r}")
    _CHECKS[tool](scope, arguments, folder)


def within(path: str, root: str) -> bool:
    """Whether a path is a root or lies in it."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def resolve(scope: ToolScope, path: Any, folder: str) -> str:
    """The target of a path that the agent names, with every link resolved as the agent sees it."""
    if not isinstance(path, str) or not path or "\0" in path:
        raise ToolRefused("the path must be a text")
    if path == "~" or path.startswith("~/"):
        path = scope.seen + path[1:]
    links = 0
    done = "/"
    left = _parts(posixpath.join(folder, path))
    while left:
        name = left.pop()
        if name == "..":
            done = posixpath.dirname(done)
            continue
        here = posixpath.join(done, name)
        target = _link(scope.outside(here))
        if target is None:
            done = here
            continue
        links += 1
        if links > MOST_LINKS:
            raise ToolRefused(f"{path}: too many links")
        left += _parts(target)
        if target.startswith("/"):
            done = "/"
    return done


def _parts(path: str) -> list[str]:
    """A path's names, the first at the end."""
    return [name for name in reversed(path.split("/")) if name not in {"", "."}]


def _link(path: str | None) -> str | None:
    """The target of a link; None if there is none."""
    if path is None:
        return None
    try:
        return os.readlink(path) if stat.S_ISLNK(os.lstat(path).st_mode) else None  # noqa: PTH115 - as it is written
    except (FileNotFoundError, NotADirectoryError):
        return None


def _reads(scope: ToolScope, path: Any, folder: str) -> None:
    where = resolve(scope, path, folder)
    if not _own(scope, where) and not any(within(where, root) for root in READABLE):
        raise ToolRefused(_elsewhere(scope, path, where))


def _writes(scope: ToolScope, path: Any, folder: str) -> None:
    where = resolve(scope, path, folder)
    if not _own(scope, where):
        raise ToolRefused(_elsewhere(scope, path, where))
    if within(where, scope.site.workspace) and not scope.site.writable:
        raise ToolRefused("you may only read in this workspace")
    for bind in scope.site.binds:
        if not bind.writable and within(where, bind.target):
            raise ToolRefused(f"{path} is not yours to change")
    for name in (".git", ".claude"):
        if within(where, posixpath.join(scope.site.workspace, name)):
            raise ToolRefused(f"{name} in the workspace is not yours to change")
    if within(where, scope.site.workspace):
        refusal = scope.judge(scope.site, where[len(scope.site.workspace) :].strip("/"))
        if refusal:
            raise ToolRefused(refusal)


def _own(scope: ToolScope, path: str) -> bool:
    workspace = scope.site.workspace
    if within(path, workspace) or within(path, scope.seen):
        return True
    if not path.startswith(f"{SCRATCH}/"):
        return False
    # Where the workspace itself lies in /tmp, its siblings are not scratch.
    return not (within(workspace, SCRATCH) and within(path, "/".join(workspace.split("/")[:3])))


def _elsewhere(scope: ToolScope, path: str, where: str) -> str:
    leads = "" if posixpath.normpath(path) == where else f" (it leads to {where})"
    return f"{path}{leads} is outside your workspace; use the workspace, {scope.seen} or {SCRATCH}"


def _file(
    effect: Callable[[ToolScope, Any, str], None], key: str
) -> Callable[[ToolScope, Mapping[str, Any], str], None]:
    return lambda scope, arguments, folder: effect(scope, arguments.get(key), folder)


def _bash(scope: ToolScope, arguments: Mapping[str, Any], folder: str) -> None:
    if not isinstance(arguments.get("command"), str):
        raise ToolRefused("the command must be a text")
    if arguments.get("run_in_background"):
        raise ToolRefused("nothing may outlive your turn: run it in the foreground, with a timeout")
    if arguments.get("dangerouslyDisableSandbox"):
        raise ToolRefused("the boundary can't be switched off from inside")


def _search(*patterns: str) -> Callable[[ToolScope, Mapping[str, Any], str], None]:
    def check_search(scope: ToolScope, arguments: Mapping[str, Any], folder: str) -> None:
        _reads(scope, arguments.get("path") or folder, folder)
        for key in patterns:
            pattern = arguments.get(key) or ""
            if not isinstance(pattern, str) or ".." in pattern.split("/") or pattern.startswith("~"):
                raise ToolRefused(f"{key} must stay below the folder that is searched")
            if pattern.startswith("/"):
                _reads(scope, _literal(pattern), folder)

    return check_search


def _literal(pattern: str) -> str:
    """The folder that an absolute pattern can't leave."""
    names: list[str] = []
    for name in pattern.split("/"):
        if any(sign in name for sign in "*?[{"):
            break
        names.append(name)
    return "/".join(names) or "/"


_CHECKS: dict[str, Callable[[ToolScope, Mapping[str, Any], str], None]] = {
    "Read": _file(_reads, "file_path"),
    "Edit": _file(_writes, "file_path"),
    "Write": _file(_writes, "file_path"),
    "NotebookEdit": _file(_writes, "notebook_path"),
    "Bash": _bash,
    "Glob": _search("pattern"),
    "Grep": _search("glob"),
}


def built_in(wanted: Iterable[str], protocol: Collection[str]) -> tuple[str, ...]:
    """Those of a role's tools that are Claude Code's own and allowed, in a fixed order."""
    named = {name.partition("(")[0].strip() for name in wanted} - set(protocol)
    return tuple(name for name in BUILT_IN if name in named)
