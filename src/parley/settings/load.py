"""Reading settings: `parley.toml` in the repository's root, over the user's own. Every error has its place."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from parley.base.documents.node import DocumentError, Entries, Items, Node, Place, Scalar, decoded, plain
from parley.base.documents.reader import Fields
from parley.base.documents.toml_text import read_toml
from parley.base.person_names import LONGEST, is_person_name
from parley.base.text import cut, printable
from parley.base.wording import advice
from parley.settings.option_words import (
    amount_of,
    git_remote_scheme,
    is_address,
    no_address,
    no_amount,
    no_git_remote,
)
from parley.settings.schema import (
    COPYABLE,
    DAY_BUDGETS,
    DIRTY,
    DURABILITIES,
    FILE,
    JOB_BUDGETS,
    LONGEST_MESSAGE,
    NAMINGS,
    OCCASIONS,
    POLICIES,
    STATES,
    WEAKER_BOUNDARIES,
    BoundarySettings,
    BudgetSettings,
    ClaudeSettings,
    HostsSettings,
    JobLimits,
    NotifySettings,
    ProxySettings,
    RoleSettings,
    SendingSettings,
    Settings,
    TelemetrySettings,
    WorkflowSettings,
    WorkspaceSettings,
    is_copyable,
)
from parley.settings.settings_reader import Check, SettingsReader

LABEL = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"  # of a host
LARGEST_FILE = 256 * 1024  # bytes of settings
# What a user may settle for all repositories. The rest is about one repository.
OWN_TABLES = ("policy", "limits", "boundary", "claude", "proxy", "notify", "budget", "telemetry", "hosts", "people",
              "servers")  # fmt: skip
TABLES = ("policy", "limits", "bus", "boundary", "workspace", "claude", "proxy", "agents", "roles", "notify", "budget",
          "workflow", "telemetry", "hosts", "people", "servers")  # fmt: skip
# What only the user's own file has, and why no folder's file does: it may have come with a clone.
_NOT_OF_FOLDERS = {
    "people": "people: no repository says who answers for you",
    "hosts": "hosts: no repository says where your jobs' files are sent",
    "telemetry": "telemetry: no repository says who is told of your jobs",
    "servers": "servers: no repository says where your buses are",
}

_Value = Callable[[Node, str], Any]  # reads the value of a key; its second argument is what errors call it
_READER = SettingsReader()


# ---- files ---------------------------------------------------------------------------------------


def read(root: Path, own: Path | None = None) -> Settings:
    """The settings of a folder, over the user's own where that file is named; the defaults where neither is there."""
    return parse(root, place_content(root), own_content(own) if own else b"", own)


def parse(root: Path, content: bytes, settled: bytes = b"", own: Path | None = None) -> Settings:
    """The settings that the contents of a folder's file and of the user's own make: what was read is what is used.

    Each file is read by itself first, so that an error in one of them is reported, also where the other goes before
    it. Addresses for notices stay out of it: of those the user's own go first.
    """
    document = _document(root / FILE, content)
    _refuse_private(document)
    alone = _settings(document)
    if own is None:
        return alone
    base = _without_notify(_own_document(own, settled))
    _settings(base)
    return _settings(_over(base, document))


def read_own(path: Path, content: bytes | None = None, *, notify: bool = True) -> Settings:
    """What a user has settled for all repositories; `content` where the file has been read already.

    Without `notify`, addresses for notices are left alone: no job waits for one that is written badly.
    """
    document = _own_document(path, own_content(path) if content is None else content)
    return _settings(document if notify else _without_notify(document))


def read_own_notify(path: Path, content: bytes) -> NotifySettings | None:
    """Where a user wants to be told of what needs them: for a repository that is not to decide."""
    return _notify(_own_document(path, content))


def read_own_servers(path: Path) -> dict[str, str]:
    """The addresses of the PostgreSQL servers that a user has named. They may hold passwords, and are never shown."""
    return _servers(_READER.fields(_own_document(path, own_content(path)), ""))


def own_values(path: Path) -> dict[str, Any]:
    """What the user's own file says, as plain values."""
    return dict(plain(_own_document(path, own_content(path))))


def place_content(root: Path) -> bytes:
    """What a folder's file of settings holds; nothing if there is none.

    A link is not followed: a clone or a merge may have brought it, and it may lead anywhere.
    """
    return _content(root / FILE, os.O_NOFOLLOW)


def own_content(path: Path) -> bytes:
    """What the user's own file of settings holds; nothing if there is none. Theirs may be a link."""
    return _content(path, 0)


def _content(path: Path, more: int) -> bytes:
    """What an ordinary file holds, read once. A pipe of that name holds nothing up, a device never ends."""

    def error(problem: str, remedy: str) -> DocumentError:
        return DocumentError(Place(str(path), 0, 0), problem, remedy)

    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | more)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise error("this is no ordinary file", "remove it")
            found = file.read(LARGEST_FILE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as failed:
        if failed.errno == errno.ELOOP:
            raise error("this is a link, and links are not followed", "put a copy there") from failed
        if failed.errno == errno.ENXIO:  # a socket
            raise error("this is no ordinary file", "remove it") from failed
        raise error(str(failed.strerror), "make it readable, or remove it") from failed
    if len(found) > LARGEST_FILE:
        raise error(f"the file is larger than {LARGEST_FILE // 1024} KiB", "make it smaller")
    return found


def _document(path: Path, content: bytes) -> Entries:
    return read_toml(decoded(content, str(path)), str(path))


def _own_document(path: Path, content: bytes) -> Entries:
    """The user's own settings, with the tables that belong there."""
    document = _document(path, content)
    for key, _ in document.pairs:
        if key.value in TABLES and key.value not in OWN_TABLES:
            raise key.error(f"{key.value}: this is about one repository", f"move it to that repository's {FILE}")
    _READER.fields(document, "", OWN_TABLES)
    return document


def _refuse_private(document: Entries) -> None:
    """No folder's file says what is its user's alone to say."""
    for key, _ in document.pairs:
        if key.value in _NOT_OF_FOLDERS:
            raise key.error(_NOT_OF_FOLDERS[key.value], "move it to your own settings")


def _without_notify(document: Entries) -> Entries:
    pairs = tuple((key, value) for key, value in document.pairs if key.value != "notify")
    return Entries(document.source, document.index, pairs)


def _over(base: Entries, more: Entries) -> Entries:
    """Two documents as one: what `more` says goes before what `base` says, key by key."""
    found = {key.value: (key, value) for key, value in base.pairs}
    for key, value in more.pairs:
        before = found[key.value][1] if key.value in found else None
        if isinstance(before, Entries) and isinstance(value, Entries):
            found[key.value] = (key, _over(before, value))
        else:
            found[key.value] = (key, value)
    return Entries(more.source, more.index, tuple(found.values()))


# ---- values --------------------------------------------------------------------------------------


def _whole(low: int, high: int) -> _Value:
    return lambda node, what: _READER.integer(node, what, low, high)


def _number(low: float, high: float) -> _Value:
    return lambda node, what: float(_READER.number(node, what, low, high))


def _word(*known: str) -> _Value:
    return lambda node, what: _READER.choice(node, what, known)


def _texts(example: str, check: Check | None = None, of: str = "texts") -> _Value:
    return lambda node, what: _READER.texts(node, what, of=of, example=example, check=check)


def _flag(node: Node, what: str) -> bool:
    key = what.rpartition(" ")[2]
    return _READER.flag(node, what, remedy=f"write {key} = true or {key} = false")


def _collector(node: Node, what: str) -> str:
    """The address of a collector. A key belongs into a variable, which no file shows."""
    text = node.value if isinstance(node, Scalar) else None
    if isinstance(text, str) and re.fullmatch(r"https?://[A-Za-z0-9.\[\]:_-]+(/[A-Za-z0-9._~/-]*)?", text):
        return text
    raise node.error(
        f"{what}: it must be the address of a collector", 'write endpoint = "http://localhost:4318", without a key'
    )


def _command(node: Node, what: str) -> str:
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return node.value
    raise node.error(f"{what}: it must be a command", 'write setup = "make deps"')


def _argument(node: Node, what: str) -> str:
    """A text that a program is given, or is: no option, and nothing that can't be shown."""
    text = node.value if isinstance(node, Scalar) else None
    if isinstance(text, str) and text.isprintable() and not text.startswith("-"):
        return text
    raise node.error(f"{what}: it must be a text", f'write {what.rpartition(" ")[2]} = "…"')


def _line(node: Node, what: str) -> str:
    """A text with something in it that can be shown on one line."""
    text = node.value if isinstance(node, Scalar) else None
    if isinstance(text, str) and text.isprintable() and text.strip():
        return text.strip()
    raise node.error(f"{what}: it must be a text", f'write {what.rpartition(" ")[2]} = "…"')


def _git_remote(node: Node, what: str) -> str:
    """The address of a git remote. It may hold a password: the error does not repeat it."""
    text = node.value if isinstance(node, Scalar) else None
    if isinstance(text, str) and git_remote_scheme(text):
        return text
    problem, remedy = no_git_remote("this")
    raise node.error(f"{what}: {problem}", remedy)


def _names(node: Node, what: str) -> tuple[str, ...]:
    found = _READER.texts(node, what, of="names", example='"one", "two"')
    return tuple(dict.fromkeys(found))


def _no_folder(path: str) -> tuple[str, str] | None:
    if path.startswith(("/", "~/")) and ".." not in path.split("/"):
        return None
    return f"{path!r} is no whole path", "write one that begins with / or ~/"


def _no_host(host: str) -> tuple[str, str] | None:
    if re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}", host):
        return None
    return f"{host!r} is no host and port", 'write "example.org:443"'


def _host_and_port(node: Node, what: str) -> str:
    text = _line(node, what)
    if (problem := _no_host(text)) is not None:
        raise node.error(f"{what}: {problem[0]}", 'write "temporal.example.org:7233"')
    return text


def _whole_path(node: Node, what: str) -> str:
    text = _line(node, what)
    if (problem := _no_folder(text)) is not None:
        raise node.error(f"{what}: {problem[0]}", problem[1])
    return os.path.expanduser(text)  # noqa: PTH111 - an account may have no home


def _labels(node: Node, what: str) -> dict[str, str]:
    """Which hosts run which roles, by the hosts' label."""
    named = _READER.fields(node, what)
    for name in named:
        if re.fullmatch(LABEL, _line(named[name], f"{what} {name}")) is None:
            raise named[name].error(f"{what} {name}: no label", "use letters, digits, dots, dashes and underscores")
    return {name: _line(named[name], f"{what} {name}") for name in named}


def _not_copied(path: str) -> tuple[str, str] | None:
    return None if is_copyable(path) else (f"{path!r} can't be copied", COPYABLE)


def _no_occasion(word: str) -> tuple[str, str] | None:
    return None if word in OCCASIONS else (f"{word!r} is not known", advice(word, OCCASIONS))


def _one_or_more(example: str, check: Check | None = None) -> _Value:
    """A list of texts; one text alone is such a list too."""

    def value(node: Node, what: str) -> tuple[str, ...]:
        alone = isinstance(node, Scalar) and isinstance(node.value, str)
        listed = Items(node.source, node.index, (node,)) if alone else node
        return _READER.texts(listed, what, example=f'"{example}"', check=check)

    return value


def _addresses(node: Node, what: str) -> tuple[str, ...]:
    found: tuple[str, ...] = _one_or_more("ntfy://topic")(node, what)
    for number, address in enumerate(found, 1):
        if not is_address(address):
            problem, remedy = no_address(number)
            raise node.error(f"{what}: {problem}", remedy)
    return found


def _amount(what: str) -> _Value:
    def value(node: Node, name: str) -> float:
        amount = amount_of(what, plain(node))
        if amount is None:
            problem, remedy = no_amount(what)
            raise node.error(f"{name}: {problem}", remedy)
        return amount

    return value


# ---- tables --------------------------------------------------------------------------------------

_POLICY: Mapping[str, _Value] = dict.fromkeys(STATES, _word(*POLICIES))
_LIMITS: Mapping[str, _Value] = {
    **dict.fromkeys(JobLimits.__struct_fields__, _whole(1, 1000)),
    "exchanges": _whole(1, 100_000),
    "time_limit_seconds": _READER.seconds,
    "stall_seconds": _READER.seconds,
    "parallel": _whole(1, 1000),
    "message": _whole(1, LONGEST_MESSAGE),
    "sent_files": _whole(1, 1000),
    "sent_mb": _whole(1, 1000),
}
_BUS: Mapping[str, _Value] = {"durability": _word(*DURABILITIES)}
_BOUNDARY: Mapping[str, _Value] = {
    "accept": _word(*WEAKER_BOUNDARIES),
    "readable": _texts('"~/.pyenv"', _no_folder),
    "hosts": _texts('"example.org:443"', _no_host),
    "exempt": _texts('"udp"'),
    "processes": _whole(1, 100_000),
    "open_files": _whole(1, 1_000_000),
    "file_megabytes": _whole(1, 1_000_000),
    "memory_mb": _whole(1, 10_000_000),
}
_WORKSPACE: Mapping[str, _Value] = {
    "setup": _command,
    "copy": _texts('".env"', _not_copied, of="paths"),
    "quota_mb": _whole(1, 10**9),
    "files": _whole(1, 10**9),
    "dirty": _word(*DIRTY),
}
_CLAUDE: Mapping[str, _Value] = {
    "path": _argument,
    "subscription": _flag,
    "model": _argument,
    "warm": _whole(1, 64),
    "max_retries": _whole(1, 10),
}
_PROXY: Mapping[str, _Value] = {
    "false_approval": _number(0, 1000),
    "checked": _number(0, 1),
    "fresh_days": _number(1, 36500),
    "memory": _flag,
    "rehearse": _flag,
    "brief": _flag,
}
_NOTIFY: Mapping[str, _Value] = {"to": _addresses, "on": _one_or_more("needs", _no_occasion)}
_BUDGETS: Mapping[str, Mapping[str, _Value]] = {
    "job": {what: _amount(what) for what in JOB_BUDGETS},
    "day": {what: _amount(what) for what in DAY_BUDGETS},
}
_WORKFLOW: Mapping[str, _Value] = {
    "complex_agents": _whole(1, 1000),
    "complex_levels": _whole(1, 1000),
    "similar": _number(1, 100),
    "rounds": _whole(1, 100),
}
_TELEMETRY: Mapping[str, _Value] = {"enabled": _flag, "endpoint": _collector}
_HOSTS: Mapping[str, _Value] = {
    "remote": _git_remote,
    "remote_ca": _whole_path,
    "temporal": _host_and_port,
    "namespace": _line,
    "temporal_ca": _whole_path,
    "temporal_certificate": _whole_path,
    "temporal_key": _whole_path,
    "roles": _names,
    "labels": _labels,
    "lost_seconds": _number(1, 3600),
    "alone_seconds": _number(1, 86_400),
}
_ROLE_LIMITS: Mapping[str, _Value] = {"turn_seconds": _READER.seconds, "stall_seconds": _READER.seconds}
_ROLE: Mapping[str, _Value] = {
    "team": _names,
    "tools": _names,
    "messages": _names,
    "model": _line,
    "runner": _line,
    "prompt": _line,
    "limits": lambda node, what: _table(node, what, _ROLE_LIMITS),
}


def _table(node: Node, what: str, values: Mapping[str, _Value]) -> dict[str, Any]:
    """What a table says: only known keys, and of those only what is there."""
    fields = _READER.fields(node, what, values, optional=True)
    return {key: values[key](fields[key], f"{what} {key}") for key in fields}


def _settings(document: Entries) -> Settings:
    top = _READER.fields(document, "", TABLES)
    _servers(top)  # read where a bus is opened; what is wrong with it is said here too

    def table(name: str, values: Mapping[str, _Value]) -> dict[str, Any]:
        return _table(top.get(name), f"[{name}]", values)

    policy = {**dict.fromkeys(STATES, "always"), **table("policy", _POLICY)}
    limits = table("limits", _LIMITS)
    sending = {key: limits.pop(key) for key in SendingSettings.__struct_fields__ if key in limits}
    budget = _READER.fields(top.get("budget"), "[budget]", _BUDGETS, optional=True)
    roles = _READER.fields(top.get("roles"), "[roles]", optional=True)
    return Settings(
        policies=(policy["intent"], policy["plan"], policy["execute"]),
        **limits,
        **table("bus", _BUS),
        roles={name: _role(name, roles[name]) for name in roles},
        boundary=BoundarySettings(**table("boundary", _BOUNDARY)),
        workspace=WorkspaceSettings(**table("workspace", _WORKSPACE)),
        agents=_agents(top),
        claude=ClaudeSettings(**table("claude", _CLAUDE)),
        proxy=ProxySettings(**table("proxy", _PROXY)),
        notify=_notify(document),
        budget=BudgetSettings(
            **{scope: _table(budget[scope], f"[budget.{scope}]", _BUDGETS[scope]) for scope in budget}
        ),
        workflow=WorkflowSettings(**table("workflow", _WORKFLOW)),
        sending=SendingSettings(**sending),
        telemetry=TelemetrySettings(**table("telemetry", _TELEMETRY)),
        hosts=HostsSettings(**table("hosts", _HOSTS)),
        people=_people(top),
    )  # [servers] is no part of it: a job's settings are kept in its record


def _agents(top: Fields) -> Node:
    """The tables of programs that are run as agents, as they are written: the runner that knows them reads them."""
    if "agents" not in top:
        return Entries(top.node.source, top.node.index, ())
    _READER.fields(top["agents"], "[agents]")
    return top["agents"]


def _people(top: Fields) -> dict[str, str]:
    """Who else answers or decides, by name."""
    named = _READER.fields(top.get("people"), "[people]", optional=True)
    for name in named:
        if not is_person_name(name):
            problem = f"[people] {printable(cut(name, LONGEST))}: no person can be called so"
            raise named[name].error(problem, f"use a name of {LONGEST} characters at most, without blanks around it")
    return {name: _READER.choice(named[name], f"[people] {name}", NAMINGS) for name in named}


def _servers(top: Fields) -> dict[str, str]:
    named = _READER.fields(top.get("servers"), "[servers]", optional=True)
    return {name: _line(named[name], f"[servers] {name}") for name in named}


def _notify(document: Entries) -> NotifySettings | None:
    top = _READER.fields(document, "")
    return NotifySettings(**_table(top["notify"], "[notify]", _NOTIFY)) if "notify" in top else None


def _role(name: str, node: Node) -> RoleSettings:
    what = f"[roles.{name}]"
    said = _table(node, what, _ROLE)
    fields = _READER.fields(node, what)
    return RoleSettings(**said, places={"": node.place, **{key: fields[key].place for key in fields}})
