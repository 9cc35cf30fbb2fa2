"""The programs that may be run as agents: `[agents.NAME]` of parley.toml, and those that are known already."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parley.adapters.command import codex
from parley.config import FILE, ConfigError
from parley.ports import Bind
from parley.wording import advice

METHODS = ("POST",)
OUTPUTS = ("text", "codex-json")
PLACEHOLDERS = ("{message_file}", "{role_file}", "{handle}", "{home}", "{workspace}", "{model}")
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_UPSTREAM = re.compile(r"(https://[^/\s?#@]+|http://(127(\.\d+){3}|localhost|\[::1\])(:\d+)?)(/[^\s?#]*)?")
_KEYS = ("command", "resume", "environment", "route", "handle", "output", "binds", "folder", "model")
_ROUTE_KEYS = ("upstream", "headers", "paths", "hosts", "methods")


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


def read(tables: Mapping[str, Any], root: Path) -> dict[str, Agent]:
    """Every agent by its name: those of the settings, and those that need none. Raises ConfigError."""
    found = {codex.NAME: _codex({}, root, f"{root / FILE}: [agents.{codex.NAME}]")}
    for name, table in tables.items():
        where = f"{root / FILE}: [agents.{name}]"
        if not _NAME.fullmatch(name) or name in ("scripted", "claude", "proof"):
            raise ConfigError(f"{where}: an agent can't have this name; use small letters, digits, - and _")
        if not isinstance(table, dict):
            raise ConfigError(f"{where}: it must be a table; write [agents.{name}] on a line of its own")
        for key in table:
            if key not in _KEYS:
                raise ConfigError(f"{where} {key}: there is no such setting; {advice(key, _KEYS)}")
        preset = name == codex.NAME and "command" not in table
        found[name] = _codex(table, root, where) if preset else _agent(name, table, root, where)
    return found


def _agent(name: str, table: Mapping[str, Any], root: Path, where: str) -> Agent:
    command = _texts(table, "command", where)
    if not command:
        raise ConfigError(f'{where} command: it is missing; write command = ["program", "argument"]')
    if "folder" in table:
        raise ConfigError(f"{where} folder: it is for agents without a command of their own; name the program's path")
    handle = _text(table, "handle", where)
    try:
        re.compile(handle)
    except re.error as error:
        raise ConfigError(f"{where} handle: this is no regular expression ({error}); correct it there") from error
    output = _text(table, "output", where) or "text"
    if output not in OUTPUTS:
        raise ConfigError(f"{where} output: {output!r} is not known; {advice(str(output), OUTPUTS)}")
    return Agent(
        name,
        command,
        _texts(table, "resume", where),
        _variables(table, where),
        _way(table["route"], f"{where} route") if "route" in table else None,
        handle,
        output,
        tuple(_bind(path, root, where) for path in _texts(table, "binds", where)),
        _text(table, "model", where),
        root=root,
    )


def _codex(table: Mapping[str, Any], root: Path, where: str) -> Agent:
    """Codex as it is known already; what the settings say besides goes over it."""
    for key in ("resume", "handle", "output"):
        if key in table:
            raise ConfigError(f"{where} {key}: it goes with a command of your own; write command = [...] too")
    way = Way(codex.UPSTREAM, {"Authorization": f"Bearer ${codex.KEY}"}, codex.PATHS)
    folder = _text(table, "folder", where)
    return Agent(
        codex.NAME,
        (str(Path(root, Path(folder).expanduser())) if folder else "",),
        environment=_variables(table, where),
        way=_way(table["route"], f"{where} route") if "route" in table else way,
        output="codex-json",
        binds=tuple(_bind(path, root, where) for path in _texts(table, "binds", where)),
        model=_text(table, "model", where),
        preset=codex.NAME,
        root=root,
    )


def _text(table: Mapping[str, Any], key: str, where: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str) or "\0" in value:
        raise ConfigError(f'{where} {key}: it must be a text; write {key} = "…"')
    return value


def _texts(table: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(word, str) and word and "\0" not in word for word in value):
        raise ConfigError(f'{where} {key}: it must be a list of texts; write {key} = ["…", "…"]')
    return tuple(value)


def _variables(table: Mapping[str, Any], where: str) -> dict[str, str]:
    """Variables for the agent: a list of names to pass in, or a table of values."""
    given = table.get("environment", {})
    if isinstance(given, list):
        given = {name: f"${name}" for name in _texts(table, "environment", where)}
    if not isinstance(given, dict) or not all(isinstance(value, str) and "\0" not in value for value in given.values()):
        raise ConfigError(f'{where} environment: it must be names or values; write ["NAME"] or {{ NAME = "value" }}')
    for name in given:
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or name.startswith("PARLEY_"):
            raise ConfigError(f"{where} environment: {name!r} can't be set for an agent; use another name")
    return dict(given)


def _way(given: object, where: str) -> Way:
    if not isinstance(given, dict):
        raise ConfigError(f'{where}: it must be a table; write route = {{ upstream = "https://…", paths = ["/v1"] }}')
    for key in given:
        if key not in _ROUTE_KEYS:
            raise ConfigError(f"{where} {key}: there is no such setting; {advice(key, _ROUTE_KEYS)}")
    upstream, paths = _text(given, "upstream", where), _texts(given, "paths", where)
    if upstream and not _UPSTREAM.fullmatch(upstream):
        raise ConfigError(f'{where} upstream: {upstream!r} is no safe address; write upstream = "https://…"')
    if bool(upstream) != bool(paths) or not all(path.startswith("/") for path in paths):
        raise ConfigError(f'{where} paths: upstream and paths go together; write paths = ["/v1/…"]')
    if any("*" in path[:-1] or "?" in path for path in paths):
        raise ConfigError(f'{where} paths: a path is exact, or ends with *; write paths = ["/v1/…"] or ["/v1/*"]')
    methods = _texts(given, "methods", where) or METHODS
    if not all(re.fullmatch("[A-Z]+", method) for method in methods):
        raise ConfigError(f'{where} methods: they are words in capitals; write methods = ["POST", "GET"]')
    headers = given.get("headers", {})
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise ConfigError(f'{where} headers: it must be a table; write headers = {{ Authorization = "Bearer $KEY" }}')
    return Way(upstream, dict(headers), paths, _texts(given, "hosts", where), methods)


def _bind(path: str, root: Path, where: str) -> Bind:
    """Something of the user's that the agent may read, where it lies outside too."""
    source = Path(root, Path(path).expanduser())
    if not source.exists():
        raise ConfigError(f"{where} binds: {source} is not there; name what the agent may read")
    return Bind(str(source), str(source))


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
