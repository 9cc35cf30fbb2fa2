"""How this Parley was installed, and the commands that change that: every message that names one takes it from here.

The name of the distribution is not registered, so no command names it alone: each names the checkout or the wheel that
Parley was installed from.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

NAME = "parley-cfa"
STRANGER = "parley"  # another project's distribution; it has a package of the same name as ours

Tool = Literal["pip", "uv pip", "pipx", "uv tool"]

_OF_EXTRA = re.compile(r"([\w.-]+).*;.*\bextra\s*==\s*['\"]([\w.-]+)['\"]")


@dataclass(frozen=True, slots=True)
class Installation:
    """What installed Parley, into which environment, and from what."""

    tool: Tool
    python: str  # the environment's
    source: str  # the path of a checkout or a wheel, or an address; empty if it is not known or no longer there
    editable: bool = False
    extras: tuple[str, ...] = ()  # those that are complete
    has_pip: bool = True  # in the environment; uv makes those without

    def command(self, *extras: str, again: bool = False) -> str:
        """The command that installs Parley with these extras and those that are there; `again`: even if all is."""
        requirement = self._requirement({*self.extras, *extras})
        words = [*self._installer(again=again), *(["--editable"] if self.editable else []), requirement]
        return shlex.join(words) if self.source else f"{shlex.join(words)} (in a checkout of Parley)"

    def without_stranger(self) -> str:
        """The commands that remove the other project's package, and put back those of our files that it overwrote."""
        pip = [self.python, "-m", "pip", "uninstall", "--yes"]
        uv = ["uv", "pip", "uninstall", "--python", self.python]
        removal = shlex.join([*(pip if self.has_pip else uv), STRANGER])
        return f"remove it, then install Parley again: {removal} && {self.command(again=True)}"

    def _installer(self, *, again: bool) -> list[str]:
        match self.tool:
            case "pip":
                words = [self.python, "-m", "pip", "install"]
                return [*words, "--force-reinstall", "--no-deps"] if again else words
            case "uv pip":
                words = ["uv", "pip", "install", "--python", self.python]
                return [*words, "--reinstall-package", NAME] if again else words
            case "pipx":
                return ["pipx", "install", "--force"]
            case "uv tool":
                return ["uv", "tool", "install", "--reinstall" if again else "--force"]

    def _requirement(self, extras: set[str]) -> str:
        suffix = f"[{','.join(sorted(extras))}]" if extras else ""
        if "://" in self.source:
            return f"{NAME}{suffix} @ {self.source}"
        return f"{self.source or '.'}{suffix}"

    def __str__(self) -> str:
        how = "editable, " if self.editable else ""
        return f"installed by {self.tool} ({how}from {self.source or 'a place that is not known or is gone'})"


def read(name: str = NAME) -> Installation:
    """How Parley was installed into the environment of this Python."""
    has_pip = find_spec("pip") is not None
    tool = _tool(Path(sys.prefix), has_pip=has_pip)
    try:
        found = distribution(name)
    except PackageNotFoundError:  # the source itself is on Python's path
        return Installation(tool, sys.executable, "", has_pip=has_pip)
    source, editable = _origin(found)
    return Installation(tool, sys.executable, source, editable, tuple(sorted(_extras(found))), has_pip)


def find_stranger() -> str | None:
    """The other project's package, if it is installed in this environment too, in words."""
    try:
        found = distribution(STRANGER)
    except PackageNotFoundError:
        return None
    return f"the package {STRANGER} {found.version}, which is another project's, is installed in the same environment"


def _tool(prefix: Path, *, has_pip: bool) -> Tool:
    if (prefix / "uv-receipt.toml").exists():
        return "uv tool"
    if (prefix / "pipx_metadata.json").exists():
        return "pipx"
    return "pip" if has_pip else "uv pip"


def _origin(found: Distribution) -> tuple[str, bool]:
    """Where a distribution came from, by PEP 610, and whether it is editable."""
    try:
        told: Any = json.loads(found.read_text("direct_url.json") or "{}")
        url, editable = str(told.get("url", "")), told.get("dir_info", {}).get("editable") is True
        vcs = told.get("vcs_info", {})
        if vcs:
            return f"{vcs['vcs']}+{url}@{vcs['commit_id']}", False
    except (ValueError, KeyError, AttributeError):
        return "", False
    parts = urlsplit(url)
    if parts.scheme != "file":
        return (url, False) if parts.netloc else ("", False)
    path = unquote(parts.path)
    return (path, editable) if Path(path).exists() else ("", False)


def _extras(found: Distribution) -> Iterator[str]:
    """The extras all of whose packages are installed."""
    needs: dict[str, list[str]] = {}
    for line in found.requires or ():
        if match := _OF_EXTRA.match(line):
            needs.setdefault(match[2], []).append(match[1])
    for extra, names in needs.items():
        if all(_is_installed(name) for name in names):
            yield extra


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
