"""One role: a Markdown file with YAML front matter, as Claude Code keeps its agents."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from parley.base.documents.front_matter import FrontMatter, NoFrontMatter, split
from parley.base.documents.node import DocumentError, Items, Node, Place, Scalar, is_null, quoted
from parley.base.documents.reader import Fields, Reader
from parley.base.documents.yaml_text import read_yaml
from parley.base.wording import advice
from parley.protocol.molecules import AGENT_NAME, EVERYDAY, PROXY, MessageKind
from parley.roles.phases import LEADS
from parley.roles.role_snapshot import RoleLimits, RoleSnapshot
from parley.settings.schema import FILE

FOLDER = Path(".claude/agents")
LIMIT = 256 * 1024  # bytes
BUS_TOOLS = ("Send", "CloseConversation", "AskQuestion")
BUILT_IN = ("Read", "Edit", "Write", "Bash")  # where a role names no tools
PROXY_TOOLS = ("Answer", "AskHuman", "Predict")
GIVEN = frozenset(("Read", "Edit", "Write", "Bash", "Glob", "Grep", "NotebookEdit", *BUS_TOOLS, *PROXY_TOOLS))
MORE = "+"
MIXED_REMEDY = f"write {MORE} before each name to extend the team, before none to replace it"
PACKAGE = "package"  # the source of a role that comes with Parley
LIMITS = ("turn_seconds", "stall_seconds")
KINDS = tuple(kind for kind in EVERYDAY if kind is not MessageKind.NOTICE)  # that a role may choose from
_WORD = re.compile(r"[A-Za-z0-9][\w.:/@\[\]-]{0,99}")
_DESCRIPTION = re.compile(r"^description:[ \t]*(?![ \t|>\"'])([^\r\n]*)", re.MULTILINE)


class NoRole(DocumentError):
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
    source: str = PACKAGE  # its file, or where else it is written
    settled: bool = False  # whether parley.toml says more of it
    messages: tuple[str, ...] | None = None  # the kinds that it takes; None: all that its tools make sense of
    places: Mapping[str, Place] = field(default_factory=dict, compare=False, repr=False)  # of its file's keys

    @property
    def origin(self) -> str:
        """Where it is written, for people."""
        return f"{self.source} + {FILE}" if self.settled else self.source


def snapshot_of(role: RoleFile) -> RoleSnapshot:
    """The role as a job keeps it."""
    return RoleSnapshot(
        name=role.name,
        team=tuple(sorted(role.team)),
        tools=role.tools,
        description=role.description,
        prompt=role.prompt,
        model=role.model,
        runner=role.runner,
        limits=RoleLimits(**role.limits),
        messages=None if role.messages is None else tuple(map(MessageKind, role.messages)),
    )


def lies_in(path: Path, root: Path) -> bool:
    """Whether a file is the folder's own, wherever links lead: a repository must not name its reader's other files."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def text_of(path: Path, root: Path) -> str:
    """The text of a file of the folder, if it is of a size that a prompt may have."""
    place = Place(str(path), 1, 1)
    if not lies_in(path, root):
        raise DocumentError(place, f"this leads outside {root}", "put a copy there instead")
    try:
        found = path.stat()
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            raise DocumentError(place, "this is no ordinary file", "remove it")
        if found.st_size > LIMIT:
            raise DocumentError(place, f"the file is larger than {LIMIT // 1024} KiB", "make it smaller")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise DocumentError(place, str(error.strerror), "make it readable, or remove it") from error
    except UnicodeDecodeError as error:
        raise DocumentError(place, "this is not UTF-8", "save the file as UTF-8") from error


def parse(text: str, path: Path, bases: Mapping[str, RoleFile] | None = None) -> RoleFile:
    """Read a role's text; `path` is what errors call it. What it does not say, a base of its name does.

    Keys that only Claude Code knows are left alone.
    """
    return role_of(*front_matter(text, path), path, bases or {})


def role_of(fields: Fields, prompt: str, path: Path, bases: Mapping[str, RoleFile]) -> RoleFile:
    """The role that the parts of a file make."""
    return _RoleReader(fields, path).role(prompt, bases)


def front_matter(text: str, path: Path, *, aliases: bool = True) -> tuple[Fields, str]:
    """The keys of a role's front matter, and the prompt below it."""
    try:
        parts = split(text, str(path))
    except NoFrontMatter as error:
        raise NoRole(error.place, error.problem, error.remedy) from error
    try:
        node = _matter(parts, path, aliases=aliases)
    except DocumentError:
        mended = _with_quoted_description(parts)
        if mended == parts:
            raise
        node = _matter(mended, path, aliases=aliases)
    prompt = "\n".join(parts.prose.splitlines()).strip()
    return Reader().fields(node, "the front matter", optional=True), prompt


def _matter(parts: FrontMatter, path: Path, *, aliases: bool) -> Node:
    return read_yaml(parts.text, str(path), start=parts.start, end=parts.end, aliases=aliases)


def _with_quoted_description(parts: FrontMatter) -> FrontMatter:
    """Claude Code takes a description with colons and quotes in it as it stands; YAML does not."""
    matter = parts.text[parts.start : parts.end]
    quoted_ = _DESCRIPTION.sub(lambda found: f"description: {json.dumps(found[1].strip())}", matter)
    text = parts.text[: parts.start] + quoted_ + parts.text[parts.end :]
    return parts._replace(text=text, end=parts.start + len(quoted_))


class _RoleReader(Reader):
    """Reads the keys of a role's front matter."""

    def __init__(self, fields: Fields, path: Path) -> None:
        self.given = fields
        self.path = path

    def role(self, prompt: str, bases: Mapping[str, RoleFile]) -> RoleFile:
        name = self.name()
        base = bases.get(name)
        model = self.word("model", base.model if base else "")
        return RoleFile(
            name=name,
            description=self.description(base.description if base else ""),
            tools=with_bus_tools(self.words("tools", base.tools if base else BUILT_IN), name),
            team=self.team(base.team if base else ()),
            prompt=prompt,
            model="" if model == "inherit" else model,
            runner=self.word("runner", base.runner if base else ""),
            limits=self.limits(base.limits if base else {}),
            source=str(self.path),
            messages=self.messages(base.messages if base else None),
            places={key: node.place for key, node in self.given.keys.items()},
        )

    def name(self) -> str:
        if "name" not in self.given:
            if not AGENT_NAME.fullmatch(self.path.stem):
                raise _no_name(Place(str(self.path), 1, 1), self.path.stem)
            return self.path.stem
        node = self.given["name"]
        name = self.text(node, "`name`")
        if not AGENT_NAME.fullmatch(name):
            raise _no_name(node.place, name)
        return name

    def description(self, default: str) -> str:
        if "description" not in self.given:
            return default
        node = self.given["description"]
        return " ".join(self.text(node, "`description`", default="", remedy="write `description: …`").split())

    def team(self, default: tuple[str, ...]) -> tuple[str, ...]:
        given = self.words("team", default)
        try:
            return with_team(default, given)
        except ValueError as error:
            raise self.given["team"].error(f"`team`: {error}", MIXED_REMEDY) from error

    def messages(self, default: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if is_null(self.given.get("messages")):
            return default
        given = self.words("messages", ())
        if problem := messages_problem(given):
            raise self.given["messages"].error(f"`messages`: {problem[0]}", problem[1])
        return given

    def words(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """A list of names: YAML's own, or one text with commas. Claude Code takes `*` for all tools."""
        if key not in self.given:
            return default
        node, remedy = self.given[key], f"write `{key}: one, two`"
        if isinstance(node, Items):
            words = [self.text(item, f"each of `{key}`", remedy=remedy) for item in node.nodes]
        elif isinstance(node, Scalar):
            words = self.text(node, f"`{key}`", default="").split(",")
        else:
            raise node.error(f"`{key}` must be names", remedy)
        if words == ["*"]:
            return default
        return tuple(dict.fromkeys(word.strip() for word in words if word.strip()))

    def word(self, key: str, default: str) -> str:
        if key not in self.given:
            return default
        node = self.given[key]
        word = self.text(node, f"`{key}`", default="") if isinstance(node, Scalar) else None
        if word is None or (word and not _WORD.fullmatch(word)):
            raise node.error(f"`{key}` must be one name", f"write `{key}: name`, or leave it out")
        return word

    def limits(self, default: Mapping[str, float]) -> dict[str, float]:
        limits = self.fields(self.given.get("limits"), "`limits`", LIMITS, optional=True)
        return {**default, **{key: self.seconds(limits[key], f"`{key}`") for key in limits}}


def _no_name(place: Place, name: str) -> NoRole:
    return NoRole(place, f"{quoted(name)} can't be a role's name", "use small letters, digits, - and _")


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


def unfit_messages(role: RoleFile) -> tuple[str, str] | None:
    """Why a role can't do its work with the kinds of messages that it takes, and what to do; None: it can."""
    if role.messages is None:
        return None
    lacks = [kind for kind in KINDS if kind not in role.messages]
    if role.name in LEADS and lacks:
        return f"{role.name} leads a state, and needs {', '.join(lacks)} too", "leave `messages` out"
    if role.name == PROXY:
        return "the proxy takes questions and replies, and nothing else", "leave `messages` out"
    if role.team and MessageKind.REPORT in lacks:
        return f"{role.name} has a team, and takes no report of it", "add `report`, or leave out its team"
    return None
