"""One role: a Markdown file with YAML front matter, as Claude Code keeps its agents."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from parley.adapters.nodes import load
from parley.core.states import PHASES
from parley.core.terms import AGENT_NAME, EVERYDAY, PROXY, MessageKind
from parley.wording import advice

FOLDER = Path(".claude/agents")
LIMIT = 256 * 1024  # bytes
BUS_TOOLS = ("Send", "CloseConversation", "AskQuestion")
BUILT_IN = ("Read", "Edit", "Write", "Bash")  # where a role names no tools
PROXY_TOOLS = ("Answer", "AskHuman", "Predict")
GIVEN = frozenset(("Read", "Edit", "Write", "Bash", "Glob", "Grep", "NotebookEdit", *BUS_TOOLS, *PROXY_TOOLS))
MORE = "+"
MIXED_REMEDY = f"write {MORE} before each name to extend the team, before none to replace it"
LIMITS = ("turn_seconds", "stall_seconds")
KINDS = tuple(kind for kind in EVERYDAY if kind is not MessageKind.NOTICE)  # that a role may choose from
LEADS = frozenset(phase.lead for phase in PHASES.values())
LONGEST_SECONDS = 1e9
_WORD = re.compile(r"[A-Za-z0-9][\w.:/@\[\]-]{0,99}")
_FENCE = "---"


class RoleError(ValueError):
    """A role that can't be used: file and line, what is wrong, what to do, in one line."""


class NoRole(RoleError):
    """A file that defines no role: a README, or an agent of Claude Code's whose name Parley can't use."""


@dataclass(frozen=True, slots=True)
class RoleFile:
    """One role as its file gives it. No runner or model: the job's, or the runner's own."""

    name: str
    description: str
    tools: tuple[str, ...]
    team: tuple[str, ...]
    prompt: str
    model: str = ""
    runner: str = ""
    limits: Mapping[str, float] = field(default_factory=dict)
    source: str = "package"
    messages: tuple[str, ...] | None = None  # the kinds that it takes; None: all that its tools make sense of


def to_json(role: RoleFile) -> dict[str, Any]:
    """The role as a job's snapshot keeps it."""
    return {
        "name": role.name,
        "team": sorted(role.team),
        "tools": list(role.tools),
        "description": role.description,
        "prompt": role.prompt,
        "model": role.model,
        "runner": role.runner,
        "limits": dict(role.limits),
        "messages": None if role.messages is None else list(role.messages),
    }


def lies_in(path: Path, root: Path) -> bool:
    """Whether a file is the folder's own, wherever links lead: a repository must not name its reader's other files."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def text_of(path: Path, root: Path) -> str:
    """The text of a file of the folder, if it is of a size that a prompt may have."""
    if not lies_in(path, root):
        raise RoleError(f"{path}:1: this leads outside {root}; put a copy there instead")
    try:
        found = path.stat()
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            raise RoleError(f"{path}:1: this is no ordinary file; remove it")
        if found.st_size > LIMIT:
            raise RoleError(f"{path}:1: the file is larger than {LIMIT // 1024} KiB; make it smaller")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise RoleError(f"{path}:1: {error.strerror}; make it readable, or remove it") from error
    except UnicodeDecodeError as error:
        raise RoleError(f"{path}:1: this is not UTF-8; save the file as UTF-8") from error


def parse(text: str, path: Path, bases: Mapping[str, RoleFile] | None = None) -> RoleFile:
    """Read a role's text; `path` is what errors call it. What it does not say, a base of its name does.

    Keys that only Claude Code knows are left alone.
    """
    return _Parsing(text, path).role(bases or {})


class _Parsing:
    def __init__(self, text: str, path: Path) -> None:
        self.path = path
        self.lines = text.removeprefix("\ufeff").splitlines()
        self.matter: dict[str, Any] = {}

    def line_about(self, line: int, problem: str, remedy: str) -> str:
        return f"{self.path}:{line}: {problem}; {remedy}"

    def fail(self, line: int, problem: str, remedy: str) -> RoleError:
        return RoleError(self.line_about(line, problem, remedy))

    def role(self, bases: Mapping[str, RoleFile]) -> RoleFile:
        lines = self.lines
        if not lines or lines[0].rstrip() != _FENCE:
            raise NoRole(self.line_about(1, "there is no front matter", f"begin the file with a line of {_FENCE}"))
        end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
        if end is None:
            raise self.fail(len(lines), "the front matter does not end", f"close it with a line of {_FENCE}")
        self.matter = self.yaml(lines[1:end])
        name = self.matter.get("name", self.path.stem)
        if not isinstance(name, str) or not AGENT_NAME.fullmatch(name):
            said = repr(name) if isinstance(name, str | int | float) else "this"  # a list of aliases may be endless
            said = self.line_about(
                self.line("name"), f"{said:.80} can't be a role's name", "use small letters, digits, - and _"
            )
            raise NoRole(said) if isinstance(name, str) else RoleError(said)
        base = bases.get(name)
        description = self.matter.get("description", base.description if base else "")
        if isinstance(description, list | dict):
            raise self.fail(self.line("description"), "`description` must be a text", "write `description: …`")
        model = self.word("model", base.model if base else "")
        return RoleFile(
            name,
            " ".join(str(description).split()),
            with_bus_tools(self.words("tools", base.tools if base else BUILT_IN), name),
            self.team(base.team if base else ()),
            "\n".join(lines[end + 1 :]).strip(),
            "" if model == "inherit" else model,
            self.word("runner", base.runner if base else ""),
            self.limits(base.limits if base else {}),
            str(self.path),
            self.messages(base.messages if base else None),
        )

    def yaml(self, lines: list[str]) -> dict[str, Any]:
        try:
            matter = load("\n".join(lines))
        except (yaml.YAMLError, ValueError) as error:
            mended = _quoted_description(lines)
            if mended != lines:
                return self.yaml(mended)
            mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
            line = mark.line + 2 if mark else 2  # YAML counts from 0, and the fence is a line of its own
            reason = " ".join(str(getattr(error, "problem", None) or error).split())
            raise self.fail(line, f"this is not valid YAML ({reason})", "correct it there") from error
        if matter is None:
            return {}
        if not isinstance(matter, dict):
            raise self.fail(2, "the front matter must be `key: value` lines", "correct it there")
        return matter

    def words(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """A list of names: YAML's own, or one text with commas. Claude Code takes `*` for all tools."""
        given = self.matter.get(key)
        if key not in self.matter or given == "*":
            return default
        words = given.split(",") if isinstance(given, str) else (given or [])
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise self.fail(self.line(key), f"`{key}` must be names", f"write `{key}: one, two`")
        return tuple(dict.fromkeys(word.strip() for word in words if word.strip()))

    def team(self, default: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return with_team(default, self.words("team", default))
        except ValueError as error:
            raise self.fail(self.line("team"), f"`team`: {error}", MIXED_REMEDY) from error

    def messages(self, default: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if self.matter.get("messages") is None:
            return default
        given = self.words("messages", ())
        if problem := messages_problem(given):
            raise self.fail(self.line("messages"), f"`messages`: {problem[0]}", problem[1])
        return given

    def word(self, key: str, default: str) -> str:
        given = self.matter.get(key, default) or ""
        if not isinstance(given, str) or (given and not _WORD.fullmatch(given)):
            raise self.fail(self.line(key), f"`{key}` must be one name", f"write `{key}: name`, or leave it out")
        return given

    def limits(self, default: Mapping[str, float]) -> dict[str, float]:
        given = self.matter.get("limits")
        if given is None:
            return dict(default)
        problem = limits_problem(given)
        if problem:
            raise self.fail(self.line("limits"), f"`limits`: {problem[0]}", problem[1])
        return {**default, **{key: float(value) for key, value in given.items()}}

    def line(self, key: str) -> int:
        return line_of(self.lines, key)


def line_of(lines: list[str], key: str) -> int:
    """Where a key stands, for an error; the fence if it is nowhere."""
    return next((number for number, line in enumerate(lines, 1) if line.startswith(f"{key}:")), 1)


def with_team(base: tuple[str, ...], given: tuple[str, ...]) -> tuple[str, ...]:
    """A team as it is given: it replaces the base's, or extends it where each name has a `+` before it."""
    more = [name[len(MORE) :].strip() for name in given if name.startswith(MORE)]
    if not more:
        return given
    if len(more) < len(given):
        raise ValueError(f"some names have a {MORE} and some have none")
    return tuple(dict.fromkeys((*base, *more)))


def not_given(tools: Iterable[str]) -> tuple[str, ...]:
    """Those of a role's tools that no agent gets here: Claude Code's own others, and those of MCP servers."""
    return tuple(tool for tool in tools if tool.partition("(")[0].strip() not in GIVEN)


def with_bus_tools(tools: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The tools that a role names, and the bus's, which every role has; the proxy has its own."""
    own = PROXY_TOOLS if name == "proxy" else BUS_TOOLS
    return tuple(dict.fromkeys((*tools, *own)))


def messages_problem(given: Iterable[str]) -> tuple[str, str] | None:
    """What is wrong with a list of kinds of messages, and what to do; None: nothing."""
    for kind in given:
        if kind not in KINDS:
            return f"there is no kind of messages {kind!r:.40}", advice(str(kind), KINDS)
    return None


def unfit_messages(role: RoleFile) -> str:
    """Why a role can't do its work with the kinds of messages that it takes, and what to do; empty: it can."""
    if role.messages is None:
        return ""
    lacks = [kind for kind in KINDS if kind not in role.messages]
    if role.name in LEADS and lacks:
        return f"{role.name} leads a state, and needs {', '.join(lacks)} too; leave `messages` out"
    if role.name == PROXY:
        return "the proxy takes questions and replies, and nothing else; leave `messages` out"
    if role.team and MessageKind.REPORT in lacks:
        return f"{role.name} has a team, and takes no report of it; add `report`, or leave out its team"
    return ""


def limits_problem(given: Any) -> tuple[str, str] | None:
    """What is wrong with a table of limits, and what to do; None: nothing."""
    if not isinstance(given, dict):
        return "it must be a table", f"use the keys: {', '.join(LIMITS)}"
    for key, value in given.items():
        if key not in LIMITS:
            return f"there is no limit {key!r:.40}", advice(str(key), LIMITS)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LONGEST_SECONDS:
            return f"{key} must be a number of seconds", "write one above 0"
    return None


def _quoted_description(lines: list[str]) -> list[str]:
    """Claude Code takes a description with colons and quotes in it as it stands; YAML does not."""
    return [
        f"description: {json.dumps(line.partition(':')[2].strip())}"
        if line.startswith("description:") and not line.partition(":")[2].lstrip().startswith(("|", ">", '"', "'"))
        else line
        for line in lines
    ]
