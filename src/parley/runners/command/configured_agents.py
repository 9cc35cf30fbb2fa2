"""The programs that may be run as agents: `[agents.NAME]` of parley.toml, and those that are known already."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from parley.base.documents.node import DocumentError, Entries, Items, Node, Scalar, plain
from parley.base.documents.reader import Fields
from parley.ports.turns import BUILT_IN, Bind
from parley.runners.command import codex
from parley.settings.schema import FILE
from parley.settings.settings_reader import SettingsReader

METHODS = ("POST",)
OUTPUTS = ("text", "codex-json")
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_UPSTREAM = re.compile(r"(https://[^/\s?#@]+|http://(127(\.\d+){3}|localhost|\[::1\])(:\d+)?)(/[^\s?#]*)?")
_KEYS = ("command", "resume", "environment", "route", "handle", "output", "binds", "folder", "model")
_ROUTE_KEYS = ("upstream", "headers", "paths", "hosts", "methods")
_READER = SettingsReader()


@dataclass(frozen=True, slots=True)
class Way:
    """The network that an agent has: where its requests go, and what is put into them outside its cage."""

    upstream: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)  # as written: `$NAME` stands for a variable of the user's
    paths: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    methods: tuple[str, ...] = METHODS


@dataclass(frozen=True, slots=True)
class Agent:
    """A program that can be run as an agent, as its settings describe it."""

    name: str
    command: tuple[str, ...]
    resume: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)  # as written, like the headers
    way: Way | None = None
    handle: str = ""
    output: str = "text"
    binds: tuple[Bind, ...] = ()
    model: str = ""
    preset: str = ""
    root: Path = Path()  # of the settings: what a relative path starts from


class AgentError(Exception):
    """An agent that can't be run here: the text says why and what to do."""


def read(tables: Node, root: Path) -> dict[str, Agent]:
    """Every agent by its name: those of the settings, and those that need none. Raises DocumentError."""
    fields = _READER.fields(tables, "[agents]")
    found = {codex.NAME: _codex(Fields(tables, f"[agents.{codex.NAME}]"), root)}
    for name in fields:
        where = f"[agents.{name}]"
        if not _NAME.fullmatch(name) or name in BUILT_IN:
            remedy = "use small letters, digits, - and _"
            raise fields.keys[name].error(f"{where}: an agent can't have this name", remedy)
        table = _READER.fields(fields[name], where, _KEYS)
        preset = name == codex.NAME and "command" not in table
        found[name] = _codex(table, root) if preset else _agent(name, table, root)
    return found


def _agent(name: str, table: Fields, root: Path) -> Agent:
    command = _texts(table, "command")
    if not command:
        raise _error(table, "command", "it is missing", 'write command = ["program", "argument"]')
    if "folder" in table:
        problem = "it is for agents without a command of their own"
        raise _error(table, "folder", problem, "name the program's path")
    handle = _text(table, "handle")
    try:
        re.compile(handle)
    except re.error as error:
        raise _error(table, "handle", f"this is no regular expression ({error})", "correct it there") from error
    output = _READER.choice(table.get("output"), f"{table.what} output", OUTPUTS, default="text")
    return Agent(
        name=name,
        command=command,
        resume=_texts(table, "resume"),
        environment=_variables(table),
        way=_way(table["route"], f"{table.what} route") if "route" in table else None,
        handle=handle,
        output=output,
        binds=_binds(table, root),
        model=_text(table, "model"),
        root=root,
    )


def _codex(table: Fields, root: Path) -> Agent:
    """Codex as it is known already; what the settings say besides goes over it."""
    for key in ("resume", "handle", "output"):
        if key in table:
            raise _error(table, key, "it goes with a command of your own", "write command = [...] too")
    way = Way(codex.UPSTREAM, {"Authorization": f"Bearer ${codex.KEY}"}, codex.PATHS)
    folder = _text(table, "folder")
    return Agent(
        codex.NAME,
        (str(Path(root, Path(folder).expanduser())) if folder else "",),
        environment=_variables(table),
        way=_way(table["route"], f"{table.what} route") if "route" in table else way,
        output="codex-json",
        binds=_binds(table, root),
        model=_text(table, "model"),
        preset=codex.NAME,
        root=root,
    )


def _error(table: Fields, key: str, problem: str, remedy: str) -> DocumentError:
    """What is wrong with a key of a table; where it is absent, with the table."""
    return table.get(key).error(f"{table.what} {key}: {problem}", remedy)


def _text(table: Fields, key: str) -> str:
    return _READER.text(table.get(key), f"{table.what} {key}", default="", remedy=f'write {key} = "…"')


def _texts(table: Fields, key: str) -> tuple[str, ...]:
    return _READER.texts(table[key], f"{table.what} {key}") if key in table else ()


def _variables(table: Fields) -> dict[str, str]:
    """Variables for the agent: a list of names to pass in, or a table of values."""
    if "environment" not in table:
        return {}
    node, where = table["environment"], f"{table.what} environment"
    names: dict[str, Node] = {}
    if isinstance(node, Items):
        given = {name: f"${name}" for name in _texts(table, "environment")}
    elif isinstance(node, Entries) and all(_is_text(value) for _, value in node.pairs):
        names = _READER.fields(node, where).keys
        given = {name: str(plain(value)) for name, value in _READER.fields(node, where).values.items()}
    else:
        raise node.error(f"{where}: it must be names or values", 'write ["NAME"] or { NAME = "value" }')
    for name in given:
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or name.startswith("PARLEY_"):
            raise names.get(name, node).error(f"{where}: {name!r} can't be set for an agent", "use another name")
    return given


def _is_text(node: Node) -> bool:
    return isinstance(node, Scalar) and isinstance(node.value, str)


def _way(node: Node, where: str) -> Way:
    if not isinstance(node, Entries):
        example = 'write route = { upstream = "https://…", paths = ["/v1"] }'
        raise node.error(f"{where}: it must be a table", example)
    route = _READER.fields(node, where, _ROUTE_KEYS)
    upstream, paths = _text(route, "upstream"), _texts(route, "paths")
    if upstream and not _UPSTREAM.fullmatch(upstream):
        raise _error(route, "upstream", f"{upstream!r} is no safe address", 'write upstream = "https://…"')
    if bool(upstream) != bool(paths) or not all(path.startswith("/") for path in paths):
        raise _error(route, "paths", "upstream and paths go together", 'write paths = ["/v1/…"]')
    if any("*" in path[:-1] or "?" in path for path in paths):
        problem = "a path is exact, or ends with *"
        raise _error(route, "paths", problem, 'write paths = ["/v1/…"] or ["/v1/*"]')
    methods = _texts(route, "methods") or METHODS
    if not all(re.fullmatch("[A-Z]+", method) for method in methods):
        raise _error(route, "methods", "they are words in capitals", 'write methods = ["POST", "GET"]')
    headers = route.values.get("headers")
    if headers is not None and not (
        isinstance(headers, Entries) and all(_is_text(value) for _, value in headers.pairs)
    ):
        example = 'write headers = { Authorization = "Bearer $KEY" }'
        raise headers.error(f"{where} headers: it must be a table", example)
    return Way(
        upstream=upstream,
        headers=plain(headers) if headers else {},
        paths=paths,
        hosts=_texts(route, "hosts"),
        methods=methods,
    )


def _binds(table: Fields, root: Path) -> tuple[Bind, ...]:
    """What of the user's the agent may read, where it lies outside too."""
    sources = [str(Path(root, Path(path).expanduser())) for path in _texts(table, "binds")]
    for source in sources:
        if not Path(source).exists():
            raise _error(table, "binds", f"{source} is not there", "name what the agent may read")
    return tuple(Bind(source, source) for source in sources)


def filled(text: str, where: str, environment: Mapping[str, str] | None = None) -> str:
    """A text with the user's variables in place of their names. AgentError if one is not set."""
    values = os.environ if environment is None else environment

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if not values.get(name):
            raise AgentError(f"{where}: {name} is not set; set it where Parley is started")
        return values[name]

    return _VARIABLE.sub(value, text)


def program(agent: Agent) -> tuple[str, tuple[Bind, ...]]:
    """Where an agent's program lies, and what has to be bound so that it lies there inside too. Raises AgentError."""
    if agent.preset == codex.NAME:
        found = codex.find(agent.command[0])
        if found is None:
            place = agent.command[0] or "the PATH"
            raise AgentError(
                f"codex is not on {place}: install it (npm install -g {codex.PACKAGE}), or name its folder: "
                f'[agents.codex] folder = "…" in {FILE}'
            )
        return str(found[0]), (Bind(str(found[1]), str(found[1])),)
    word = agent.command[0]
    path = str(Path(agent.root, Path(word).expanduser())) if "/" in word else shutil.which(word)
    if path is None or not os.access(path, os.X_OK) or Path(path).is_dir():
        raise AgentError(
            f"{word} can't be run as the agent {agent.name}: make it executable, and name it as it is found"
        )
    real = os.path.realpath(path)
    shared = any(real.startswith(f"{folder}/") for folder in ("/usr", "/bin", "/sbin"))
    return real, () if shared else (Bind(real, real),)


def problem(agent: Agent) -> str:
    """What keeps an agent from running here, in one line; empty if nothing does."""
    try:
        program(agent)
        for name, value in agent.environment.items():
            filled(value, f"the agent {agent.name}: environment {name}")
        for name, value in (agent.way.headers if agent.way else {}).items():
            filled(value, f"the agent {agent.name}: header {name}")
    except AgentError as error:
        return str(error)
    return ""
