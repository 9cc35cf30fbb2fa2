"""Settings: `parley.toml` in the repository's root, over the user's own; read once and frozen."""

from __future__ import annotations

import errno
import math
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from parley.wording import advice

FILE = "parley.toml"
POLICIES = ("never", "when_unsure", "always")
STATES = ("intent", "plan", "execute")
COUNTS = (
    "fan_out",
    "crash_budget",
    "retry_budget",
    "backtracks",
    "repeats",
    "exchanges",
)  # of [limits], as jobs keep them
DURABILITIES = ("full", "normal")
WEAKER_BOUNDARIES = ("", "none")
DIRTY = ("leave", "include")
OCCASIONS = ("needs", "done")
DESKTOP = "desktop"
JOB_BUDGETS = ("turns", "tokens", "money", "minutes", "parallel")
DAY_BUDGETS = ("turns", "tokens", "money")
MOST_OF_A_BUDGET = 1e12
NO_LIMIT = "none"
# What a job may use where no settings say it: several times what a common job takes, so that only a runaway meets it.
DEFAULT_TURNS = 200.0
DEFAULT_MONEY = 20.0  # US dollars; for agents that report what a turn costs
# What a user may settle for all repositories. The rest is about one repository.
LONGEST_MESSAGE = 256 * 1024  # characters that a message may be let have
OWN_TABLES = ("policy", "limits", "boundary", "claude", "proxy", "notify", "budget")
TABLES = (
    "policy",
    "limits",
    "bus",
    "boundary",
    "workspace",
    "claude",
    "proxy",
    "agents",
    "roles",
    "notify",
    "budget",
    "workflow",
)
LARGEST_FILE = 256 * 1024  # bytes of settings
COPYABLE = "name files and folders of the repository"


class ConfigError(ValueError):
    """A setting that can't be used: where, what is wrong, what to do, in one line."""


@dataclass(frozen=True, slots=True)
class BoundarySettings:
    """What the user has decided about the boundary. Whatever widens it is shown in `parley doctor` and in the audit."""

    accept: str = ""  # a weaker boundary, accepted by name
    readable: tuple[str, ...] = ()  # more folders that agents may read
    hosts: tuple[str, ...] = ()  # host:port that agents may connect to
    exempt: tuple[str, ...] = ()  # attempts that may succeed
    processes: int = 256
    open_files: int = 4096
    file_megabytes: int = 4096
    memory_mb: int = 0  # for all processes of a cage; 0: 8192, or half of a smaller machine's memory


@dataclass(frozen=True, slots=True)
class WorkspaceSettings:
    """How workspaces are made, and how much they may hold."""

    setup: str = ""  # a command, run once in each fresh workspace, inside the boundary
    copy: tuple[str, ...] = ()  # what of the user's checkout is copied into each, committed or not
    quota_mb: int = 2048  # for all files of a job
    files: int = 200_000  # in one workspace
    dirty: str = "leave"  # what is not committed yet: left where it is, or included


@dataclass(frozen=True, slots=True)
class ClaudeSettings:
    """How Claude Code is used."""

    path: str = ""  # which program; empty: one on the PATH that fits, else the SDK's own
    subscription: bool = False  # whether the login of a subscription may be used
    model: str = ""  # empty: Claude Code's own choice; a role's model goes before it
    warm: int = 4  # processes kept ready between turns
    max_retries: int = 3  # of a request, before its instance is parked


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """When the proxy answers for the human, and what is remembered of them."""

    false_approval: float = 3.0  # how much worse than a needless question
    checked: float = 0.1  # the share of confident answers that the human is asked about all the same
    fresh_days: float = 90.0  # what was decided before that counts less and less
    memory: bool = True  # whether decisions are remembered and recalled
    rehearse: bool = False  # whether a playbook's proxy and human count like real ones
    brief: bool = True  # whether the proxy looks first where the policy always asks the human


@dataclass(frozen=True, slots=True)
class NotifySettings:
    """Where the human is told what needs them. The addresses hold secrets."""

    to: tuple[str, ...] = ()  # addresses as apprise has them, or `desktop`
    on: tuple[str, ...] = ("needs",)  # needs: something starts to need the human; done: a job has ended


@dataclass(frozen=True, slots=True)
class Personal:
    """What a person has decided for themselves, whatever the repository."""

    notify: NotifySettings | None = None


@dataclass(frozen=True, slots=True)
class BudgetSettings:
    """What may be used up before the human is asked. `inf` is no limit; what is absent has its default, if any."""

    job: Mapping[str, float] = field(default_factory=dict)
    day: Mapping[str, float] = field(default_factory=dict)  # of all jobs of the home together

    def of_job(self, *, costs: bool) -> dict[str, float]:
        """The limits of a job. `costs`: some agent of it reports what its turns cost."""
        default = {"turns": DEFAULT_TURNS, **({"money": DEFAULT_MONEY} if costs else {})}
        return {what: limit for what, limit in {**default, **self.job}.items() if limit != math.inf}

    def of_day(self) -> dict[str, float]:
        """The limits of a day."""
        return {what: limit for what, limit in self.day.items() if limit != math.inf}


@dataclass(frozen=True, slots=True)
class WorkflowSettings:
    """When a workflow counts as complex, and what it may repeat before others are asked."""

    complex_agents: int = 5  # with more doers than that the architect has helpers
    complex_levels: int = 3  # with more levels of dependency too
    similar: float = 85.0  # from where on two questions ask the same, of a hundred
    rounds: int = 3  # of verification, before it goes up


@dataclass(frozen=True, slots=True)
class SendingSettings:
    """How much one message may carry: characters, and files that go along with a task."""

    message: int = 16_000
    sent_files: int = 50
    sent_mb: int = 10


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, with their defaults."""

    policies: tuple[str, str, str] = ("always", "always", "always")  # of INTENT, PLAN, EXECUTE
    fan_out: int = 3
    crash_budget: int = 3
    retry_budget: int = 3
    backtracks: int = 5
    repeats: int = 10
    exchanges: int = 40
    time_limit_seconds: float = 1800.0
    stall_seconds: float = 300.0
    parallel: int = 8
    durability: str = "full"
    roles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # what is said of each role, key by key
    boundary: BoundarySettings = field(default_factory=BoundarySettings)
    workspace: WorkspaceSettings = field(default_factory=WorkspaceSettings)
    agents: Mapping[str, Any] = field(default_factory=dict)  # programs that may be run as agents, as they are written
    claude: ClaudeSettings = field(default_factory=ClaudeSettings)
    proxy: ProxySettings = field(default_factory=ProxySettings)
    notify: NotifySettings | None = None
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    workflow: WorkflowSettings = field(default_factory=WorkflowSettings)
    sending: SendingSettings = field(default_factory=SendingSettings)


def read(root: Path, own: Path | None = None) -> Settings:
    """The settings of a folder, over the user's own where that file is named; the defaults where neither is there."""
    return parse(root, place_content(root), own_content(own) if own else b"", own)


def parse(root: Path, content: bytes, settled: bytes = b"", own: Path | None = None) -> Settings:
    """The settings that the contents of a folder's file and of the user's own make: what was read is what is used.

    Each file is read by itself first, so that an error names the file that has it. Addresses for notices stay out of
    it: of those the user's own go first.
    """
    document = _document(root / FILE, content)
    alone = _Reader(root / FILE).settings(document)
    if own is None:
        return alone
    base = {name: table for name, table in _own_document(own, settled).items() if name != "notify"}
    _Reader(own).settings(base)
    return _Reader(root / FILE).settings(_over(base, document)) if base else alone


def read_personal(path: Path, content: bytes) -> Personal:
    """Where a user wants to be told of what needs them: for a repository that is not to decide."""
    return Personal(_Reader(path).notify(_own_document(path, content)))


def read_own(path: Path, content: bytes | None = None, *, notify: bool = True) -> Settings:
    """What a user has settled for all repositories; `content` where the file has been read already.

    Without `notify`, addresses for notices are left alone: no job waits for one that is written badly.
    """
    document = _own_document(path, own_content(path) if content is None else content)
    return _Reader(path).settings({name: table for name, table in document.items() if notify or name != "notify"})


def _own_document(path: Path, content: bytes) -> dict[str, Any]:
    """The user's own settings, with the tables that belong there."""
    document = _document(path, content)
    reader = _Reader(path)
    for name in document:
        if name in TABLES and name not in OWN_TABLES:
            raise reader.fail(name, "this is about one repository", f"move it to that repository's {FILE}")
    reader.check("", document, OWN_TABLES)
    return document


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
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | more)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise ConfigError(f"{path}: this is no ordinary file; remove it")
            found = file.read(LARGEST_FILE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ConfigError(f"{path}: this is a link, and links are not followed; put a copy there") from error
        if error.errno == errno.ENXIO:  # a socket
            raise ConfigError(f"{path}: this is no ordinary file; remove it") from error
        raise ConfigError(f"{path}: {error.strerror}; make it readable, or remove it") from error
    if len(found) > LARGEST_FILE:
        raise ConfigError(f"{path}: the file is larger than {LARGEST_FILE // 1024} KiB; make it smaller")
    return found


def _over(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Two documents as one: what `more` says goes before what `base` says, key by key."""
    found = dict(base)
    for key, value in more.items():
        before = found.get(key)
        found[key] = _over(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return found


def notify_to(words: Iterable[str], where: str) -> tuple[str, ...]:
    """The addresses to notify, each of which says what kind of service it is of."""
    found = tuple(words)
    for number, address in enumerate(found, 1):
        if address != DESKTOP and not re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", address):
            # the number alone: an address may hold a secret
            raise ConfigError(f"{where}: address {number} is none; write it as service://…, or `{DESKTOP}`")
    return found


def _document(path: Path, content: bytes) -> dict[str, Any]:
    """What the content of a file of settings says."""
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: this is not UTF-8; save the file as UTF-8") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: this is nested too deeply; write it flat") from error
    except ValueError as error:  # TOML's own, and that of a number with thousands of digits
        raise ConfigError(f"{path}: this is not valid TOML: {error}; correct it there") from error


def is_copyable(path: str) -> bool:
    """Whether a path of the copy list stays inside the user's folder, and leads to nothing of git's or Parley's."""
    parts = PurePosixPath(path).parts
    return bool(parts) and {"/", "//", ".git", ".parley", ".."}.isdisjoint(part.casefold() for part in parts)


def with_policy(settings: Settings, text: str) -> Settings:
    """The settings with a policy as the command line gives it: one for all states, or `plan=never,…`."""
    policies = dict(zip(STATES, settings.policies, strict=True))
    given = set[str]()
    for part in text.split(","):
        name, equals, policy = (word.strip() for word in part.partition("="))
        if not equals:
            name, policy = "", name
        if policy not in POLICIES:
            raise ConfigError(f"--policy {part.strip()}: there is no policy {policy!r}; {advice(policy, POLICIES)}")
        if name and name not in STATES:
            raise ConfigError(f"--policy {part.strip()}: there is no state {name!r}; {advice(name, STATES)}")
        if name in given:
            raise ConfigError(f"--policy {part.strip()}: {name or 'all states'} is given twice; leave one of them out")
        given.add(name)
        policies.update({name: policy} if name else dict.fromkeys(STATES, policy))
    return replace(settings, policies=(policies["intent"], policies["plan"], policies["execute"]))


# ---- budgets -------------------------------------------------------------------------------------


def with_budget(settings: Settings, text: str) -> Settings:
    """The settings with budgets as the command line gives them: `turns=40,money=5,day.turns=100`."""
    job, day = dict(settings.budget.job), dict(settings.budget.day)
    for (what, scope), word in budget_words(text).items():
        name = f"day.{what}" if scope == "day" else what
        (day if scope == "day" else job)[what] = budget_amount(what, word, f"--budget {name}={word}")
    return replace(settings, budget=BudgetSettings(job, day))


def budget_words(text: str) -> dict[tuple[str, str], str]:
    """What `--budget` names: of what, for the job or the day, how much. Each once."""
    found: dict[tuple[str, str], str] = {}
    for part in text.split(","):
        name, equals, word = (each.strip() for each in part.partition("="))
        scope, dot, what = name.rpartition(".")
        known = DAY_BUDGETS if dot else JOB_BUDGETS
        if (dot and scope != "day") or what not in known:
            names = (*JOB_BUDGETS, *(f"day.{each}" for each in DAY_BUDGETS))
            raise ConfigError(f"--budget {part.strip()}: there is no budget {name!r}; {advice(name, names)}")
        if not equals or not word:
            raise ConfigError(f"--budget {part.strip()}: it does not say how much; write {name}=40")
        if (what, scope or "job") in found:
            raise ConfigError(f"--budget {part.strip()}: {name} is given twice; leave one of them out")
        found[what, scope or "job"] = word
    return found


def budget_amount(what: str, value: object, where: str) -> float:
    """How much: a number above zero, whole where only whole ones make sense; `2M` is two million, `none` no limit."""
    wanted = "it must be a number above 0" if what in ("money", "minutes") else "it must be a whole number above 0"
    example = {"turns": "40", "tokens": "2000000", "money": "5", "minutes": "90", "parallel": "4"}[what]
    unlimited = "" if what == "parallel" else f", or {what}={NO_LIMIT} for no limit"
    problem = ConfigError(f"{where}: {wanted}; write {what}={example}{unlimited}")
    if value == NO_LIMIT and unlimited:
        return math.inf
    if isinstance(value, str):
        factor = {"k": 1e3, "m": 1e6}.get(value[-1:].lower())
        number = value[:-1] if factor else value
        if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,9})?", number):
            raise problem
        amount = round(float(number) * (factor or 1), 6)
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise problem
    else:
        amount = float(value)
    if not 0 < amount <= MOST_OF_A_BUDGET or (what not in ("money", "minutes") and amount != int(amount)):
        raise problem
    return amount


class _Reader:
    def __init__(self, path: Path) -> None:
        self.path = path

    def fail(self, where: str, problem: str, remedy: str) -> ConfigError:
        return ConfigError(f"{self.path}: {where}: {problem}; {remedy}")

    def table(self, parent: Mapping[str, Any], name: str, known: tuple[str, ...] | None) -> dict[str, Any]:
        """A table, with only the keys that are known."""
        table = parent.get(name, {})
        if not isinstance(table, dict):
            raise self.fail(name, "it must be a table", f"write [{name}] on a line of its own")
        if known is not None:
            self.check(f"[{name}] ", table, known)
        return table

    def check(self, where: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                raise self.fail(f"{where}{key}", "there is no such setting", advice(key, known))

    def settings(self, document: Mapping[str, Any]) -> Settings:
        self.check("", document, TABLES)
        default = Settings()
        policy = self.table(document, "policy", STATES)
        limits = self.table(
            document,
            "limits",
            (*COUNTS, "time_limit_seconds", "stall_seconds", "parallel", "message", "sent_files", "sent_mb"),
        )
        bus = self.table(document, "bus", ("durability",))
        intent, plan, execute = (
            self.word(policy, "policy", name, POLICIES, given)
            for name, given in zip(STATES, default.policies, strict=True)
        )
        return Settings(
            (intent, plan, execute),
            self.count(limits, "fan_out", default.fan_out),
            self.count(limits, "crash_budget", default.crash_budget),
            self.count(limits, "retry_budget", default.retry_budget),
            self.count(limits, "backtracks", default.backtracks),
            self.count(limits, "repeats", default.repeats),
            self.count(limits, "exchanges", default.exchanges, most=100_000),
            self.seconds(limits, "time_limit_seconds", default.time_limit_seconds),
            self.seconds(limits, "stall_seconds", default.stall_seconds),
            self.count(limits, "parallel", default.parallel),
            self.word(bus, "bus", "durability", DURABILITIES, default.durability),
            {name: self.role(name, given) for name, given in self.table(document, "roles", None).items()},
            self.boundary(document),
            self.workspace(document),
            self.table(document, "agents", None),
            self.claude(document),
            self.proxy(document),
            self.notify(document),
            self.budget(document),
            self.workflow(document),
            SendingSettings(
                self.count(limits, "message", default.sending.message, most=LONGEST_MESSAGE),
                self.count(limits, "sent_files", default.sending.sent_files),
                self.count(limits, "sent_mb", default.sending.sent_mb),
            ),
        )

    def workflow(self, document: Mapping[str, Any]) -> WorkflowSettings:
        default = WorkflowSettings()
        table = self.table(document, "workflow", ("complex_agents", "complex_levels", "similar", "rounds"))
        return WorkflowSettings(
            self.count(table, "complex_agents", default.complex_agents, "workflow"),
            self.count(table, "complex_levels", default.complex_levels, "workflow"),
            self.number(table, "similar", default.similar, (1, 100), "workflow"),
            self.count(table, "rounds", default.rounds, "workflow", 100),
        )

    def proxy(self, document: Mapping[str, Any]) -> ProxySettings:
        default = ProxySettings()
        known = ("false_approval", "checked", "fresh_days", "memory", "rehearse", "brief")
        table = self.table(document, "proxy", known)
        return ProxySettings(
            self.number(table, "false_approval", default.false_approval, (0, 1000)),
            self.number(table, "checked", default.checked, (0, 1)),
            self.number(table, "fresh_days", default.fresh_days, (1, 36500)),
            self.flag(table, "memory", default=default.memory),
            self.flag(table, "rehearse", default=default.rehearse),
            self.flag(table, "brief", default=default.brief),
        )

    def number(
        self, table: Mapping[str, Any], key: str, default: float, bounds: tuple[float, float], name: str = "proxy"
    ) -> float:
        value, (least, most) = table.get(key, default), bounds
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise self.fail(f"[{name}] {key}", "it must be a number", f"write one from {least:g} to {most:g}")
        return float(value)

    def flag(self, table: Mapping[str, Any], key: str, *, default: bool) -> bool:
        value = table.get(key, default)
        if not isinstance(value, bool):
            raise self.fail(f"[proxy] {key}", "it must be true or false", f"write {key} = {str(default).lower()}")
        return value

    def notify(self, document: Mapping[str, Any]) -> NotifySettings | None:
        if "notify" not in document:
            return None
        table, default = self.table(document, "notify", ("to", "on")), NotifySettings()
        found: dict[str, tuple[str, ...]] = {}
        for key, example in (("to", "ntfy://topic"), ("on", "needs")):
            value = table.get(key, list(getattr(default, key)))
            value = [value] if isinstance(value, str) else value
            if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
                raise self.fail(f"[notify] {key}", "it must be a list of texts", f'write {key} = ["{example}"]')
            found[key] = tuple(value)
        for word in found["on"]:
            if word not in OCCASIONS:
                raise self.fail("[notify] on", f"{word!r} is not known", advice(str(word), OCCASIONS))
        return NotifySettings(notify_to(found["to"], f"{self.path}: [notify] to"), found["on"])

    def budget(self, document: Mapping[str, Any]) -> BudgetSettings:
        table = self.table(document, "budget", ("job", "day"))
        found: dict[str, dict[str, float]] = {}
        for scope, known in (("job", JOB_BUDGETS), ("day", DAY_BUDGETS)):
            where = f"[budget.{scope}]"
            given = table.get(scope, {})
            if not isinstance(given, dict):
                raise self.fail(where, "it must be a table", f"write {where} on a line of its own")
            self.check(f"{where} ", given, known)
            found[scope] = {what: budget_amount(what, given[what], f"{self.path}: {where} {what}") for what in given}
        return BudgetSettings(**found)

    def workspace(self, document: Mapping[str, Any]) -> WorkspaceSettings:
        default = WorkspaceSettings()
        table = self.table(document, "workspace", ("setup", "copy", "quota_mb", "files", "dirty"))
        setup, copy = table.get("setup", default.setup), table.get("copy", [])
        if not isinstance(setup, str):
            raise self.fail("[workspace] setup", "it must be a command", 'write setup = "make deps"')
        if not isinstance(copy, list) or not all(isinstance(path, str) and path for path in copy):
            raise self.fail("[workspace] copy", "it must be a list of paths", 'write copy = [".env"]')
        for path in copy:
            if not is_copyable(path):
                raise self.fail("[workspace] copy", f"{path!r} can't be copied", COPYABLE)
        bounds = {"quota_mb": default.quota_mb, "files": default.files}
        for key, given in bounds.items():
            value = table.get(key, given)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10**9:
                raise self.fail(f"[workspace] {key}", "it must be a whole number", "write one above 0")
            bounds[key] = value
        return WorkspaceSettings(
            setup,
            tuple(copy),
            bounds["quota_mb"],
            bounds["files"],
            self.word(table, "workspace", "dirty", DIRTY, default.dirty),
        )

    def claude(self, document: Mapping[str, Any]) -> ClaudeSettings:
        default = ClaudeSettings()
        table = self.table(document, "claude", ("path", "subscription", "model", "warm", "max_retries"))
        for key in ("path", "model"):
            text = table.get(key, "")
            if not isinstance(text, str) or not text.isprintable() or text.startswith("-"):
                raise self.fail(f"[claude] {key}", "it must be a text", f'write {key} = "…"')
        subscription = table.get("subscription", default.subscription)
        if not isinstance(subscription, bool):
            raise self.fail("[claude] subscription", "it must be true or false", "write subscription = true")
        return ClaudeSettings(
            table.get("path", default.path),
            subscription,
            table.get("model", default.model),
            self.count(table, "warm", default.warm, "claude", 64),
            self.count(table, "max_retries", default.max_retries, "claude", 10),
        )

    def boundary(self, document: Mapping[str, Any]) -> BoundarySettings:
        default = BoundarySettings()
        known = ("accept", "readable", "hosts", "exempt", "processes", "open_files", "file_megabytes", "memory_mb")
        table = self.table(document, "boundary", known)
        readable = self.names(table, "readable", "~/.pyenv")
        for path in readable:
            if not path.startswith(("/", "~/")) or ".." in path.split("/"):
                raise self.fail(
                    "[boundary] readable", f"{path!r} is no whole path", "write one that begins with / or ~/"
                )
        hosts = self.names(table, "hosts", "example.org:443")
        for host in hosts:
            if not re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}", host):
                raise self.fail("[boundary] hosts", f"{host!r} is no host and port", 'write "example.org:443"')
        return BoundarySettings(
            self.word(table, "boundary", "accept", WEAKER_BOUNDARIES, default.accept),
            readable,
            hosts,
            self.names(table, "exempt", "udp"),
            self.count(table, "processes", default.processes, "boundary", 100_000),
            self.count(table, "open_files", default.open_files, "boundary", 1_000_000),
            self.count(table, "file_megabytes", default.file_megabytes, "boundary", 1_000_000),
            self.count(table, "memory_mb", default.memory_mb, "boundary", 10_000_000) if "memory_mb" in table else 0,
        )

    def names(self, table: Mapping[str, Any], key: str, example: str) -> tuple[str, ...]:
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise self.fail(f"[boundary] {key}", "it must be a list of texts", f'write {key} = ["{example}"]')
        return tuple(value)

    def word(self, table: Mapping[str, Any], name: str, key: str, known: tuple[str, ...], default: str) -> str:
        value = table.get(key, default)
        if value not in known:
            empty = "leave it out, or " if "" in known else ""
            instead = advice(str(value), [word for word in known if word])
            raise self.fail(f"[{name}] {key}", f"{value!r} is not known", f"{empty}{instead}")
        return str(value)

    def count(self, table: Mapping[str, Any], key: str, default: int, name: str = "limits", most: int = 1000) -> int:
        value = table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise self.fail(f"[{name}] {key}", "it must be a whole number", f"write one from 1 to {most}")
        return value

    def seconds(self, table: Mapping[str, Any], key: str, default: float, where: str = "[limits]") -> float:
        value = table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1e9:  # noqa: PLR2004 - the text below names the bounds
            raise self.fail(f"{where} {key}", "it must be a number of seconds", "write one above 0")
        return float(value)

    def role(self, name: str, given: Any) -> dict[str, Any]:
        where = f"[roles.{name}]"
        if not isinstance(given, dict):
            raise self.fail(where, "it must be a table", f"write {where} on a line of its own")
        self.check(f"{where} ", given, ("team", "tools", "messages", "model", "runner", "prompt", "limits"))
        found: dict[str, Any] = {}
        for key, value in given.items():
            if key in ("team", "tools", "messages"):
                if not isinstance(value, list) or not all(isinstance(word, str) and word for word in value):
                    raise self.fail(f"{where} {key}", "it must be a list of names", f'write {key} = ["one", "two"]')
                found[key] = tuple(dict.fromkeys(value))
            elif key == "limits":
                self.check(f"{where} limits ", self.table(given, "limits", None), ("turn_seconds", "stall_seconds"))
                found[key] = {name: self.seconds(value, name, 0.0, f"{where} limits") for name in value}
            elif not isinstance(value, str) or not value.isprintable() or not value.strip():
                raise self.fail(f"{where} {key}", "it must be a text", f'write {key} = "…"')
            else:
                found[key] = value.strip()
        return found
