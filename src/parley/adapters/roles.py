"""Roles that the user defines: Markdown files with YAML front matter, as Claude Code keeps its agents."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(".claude/agents")
LIMIT = 256 * 1024  # bytes
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_FENCE = "---"


class RoleError(ValueError):
    """A role that can't be used: file and line, what is wrong, what to do, in one line."""


@dataclass(frozen=True, slots=True)
class RoleFile:
    """One role as its file gives it."""

    name: str
    description: str
    tools: tuple[str, ...]
    team: tuple[str, ...]
    prompt: str


def read(root: Path) -> dict[str, RoleFile]:
    """The roles of a folder, by name."""
    found: dict[str, RoleFile] = {}
    for path in sorted((root / FOLDER).glob("*.md")):
        role = parse(_text(path), path)
        if role.name in found:
            raise RoleError(f"{path}:1: the role {role.name!r} is defined twice; rename one of them")
        found[role.name] = role
    return found


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LIMIT:
            raise RoleError(f"{path}:1: the file is larger than {LIMIT // 1024} KiB; make it smaller")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise RoleError(f"{path}:1: {error.strerror}; make it readable, or remove it") from error
    except UnicodeDecodeError as error:
        raise RoleError(f"{path}:1: this is not UTF-8; save the file as UTF-8") from error


def parse(text: str, path: Path) -> RoleFile:
    """Read a role's text; `path` is what errors call it."""
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != _FENCE:
        raise RoleError(f"{path}:1: there is no front matter; begin the file with a line of {_FENCE}")
    ends = (number for number, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE)
    end = next(ends, None)
    if end is None:
        raise RoleError(f"{path}:{len(lines)}: the front matter does not end; close it with a line of {_FENCE}")
    matter = _yaml("\n".join(lines[1:end]), path)
    name = matter.get("name", path.stem)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        problem = f"{name!r} can't be a role's name"
        raise RoleError(f"{path}:{_line(lines, 'name')}: {problem}; use small letters, digits, - and _")
    description = matter.get("description", "")
    return RoleFile(
        name,
        description if isinstance(description, str) else str(description),
        _words(matter, "tools", lines, path),
        _words(matter, "team", lines, path),
        "\n".join(lines[end + 1 :]).strip(),
    )


def _yaml(text: str, path: Path) -> dict[str, Any]:
    try:
        matter = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 2 if mark else 2  # YAML counts from 0, and the fence is a line of its own
        raise RoleError(f"{path}:{line}: this is not valid YAML ({error.problem}); correct it there") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise RoleError(f"{path}:2: this is not valid YAML ({reason}); correct it there") from error
    if matter is None:
        return {}
    if not isinstance(matter, dict):
        raise RoleError(f"{path}:2: the front matter must be `key: value` lines; correct it there")
    return matter


def _words(matter: dict[str, Any], key: str, lines: list[str], path: Path) -> tuple[str, ...]:
    """A list of names: YAML's own, or one text with commas."""
    given = matter.get(key) or []
    words = given.split(",") if isinstance(given, str) else given
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise RoleError(f"{path}:{_line(lines, key)}: `{key}` must be names; write `{key}: one, two`")
    return tuple(word.strip() for word in words if word.strip())


def _line(lines: list[str], key: str) -> int:
    """Where a key stands, for an error; the fence if it is nowhere."""
    return next((number for number, line in enumerate(lines, 1) if line.startswith(f"{key}:")), 1)
