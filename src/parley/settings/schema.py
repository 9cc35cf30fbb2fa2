"""The settings: every one with its type, its default and what it means. They are read once, and frozen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import PurePosixPath

import msgspec

from parley.base.documents.node import TOML, Node, Place, node_of

FILE = "parley.toml"
POLICIES = ("never", "when_unsure", "always")
STATES = ("intent", "plan", "execute")
NAMINGS = ("answer", "decide")  # what a person may be named for
DURABILITIES = ("full", "normal")
WEAKER_BOUNDARIES = ("", "none")
DIRTY = ("leave", "include")
OCCASIONS = ("needs", "done")
DESKTOP = "desktop"
JOB_BUDGETS = ("turns", "tokens", "money", "minutes", "parallel")
DAY_BUDGETS = ("turns", "tokens", "money")
NO_LIMIT = "none"
# What a job may use where no settings say it: several times what a common job takes, so that only a runaway meets it.
DEFAULT_TURNS = 200.0
DEFAULT_MONEY = 20.0  # US dollars; for agents that report what a turn costs
LONGEST_MESSAGE = 256 * 1024  # characters that a message may be let have
COPYABLE = "name files and folders of the repository"


class SettingsGroup(msgspec.Struct, frozen=True):
    """Settings that belong together."""


class BoundarySettings(SettingsGroup, frozen=True):
    """What the user has decided about the boundary. `parley doctor` and the audit show all that widens it."""

    accept: str = ""  # a weaker boundary, accepted by name
    readable: tuple[str, ...] = ()  # more folders that agents may read
    hosts: tuple[str, ...] = ()  # host:port that agents may connect to
    exempt: tuple[str, ...] = ()  # attempts that may succeed
    processes: int = 256
    open_files: int = 4096
    file_megabytes: int = 4096
    memory_mb: int = 0  # for all processes of a cage; 0: 8192, or half of a smaller machine's memory


class WorkspaceSettings(SettingsGroup, frozen=True):
    """How workspaces are made, and how much they may hold."""

    setup: str = ""  # a command, run once in each fresh workspace, inside the boundary
    copy: tuple[str, ...] = ()  # what of the user's checkout is copied into each, committed or not
    quota_mb: int = 2048  # for all files of a job
    files: int = 200_000  # in one workspace
    dirty: str = "leave"  # what is not committed yet: left where it is, or included


class ClaudeSettings(SettingsGroup, frozen=True):
    """How Claude Code is used."""

    path: str = ""  # which program; empty: one on the PATH that fits, else the SDK's own
    subscription: bool = False  # whether the login of a subscription may be used
    model: str = ""  # empty: Claude Code's own choice; a role's model goes before it
    warm: int = 4  # processes kept ready between turns
    max_retries: int = 3  # of a request, before its instance is parked


class ProxySettings(SettingsGroup, frozen=True):
    """When the proxy answers for the human, and what is remembered of them."""

    false_approval: float = 3.0  # how much worse than a needless question
    checked: float = 0.1  # the share of confident answers that the human is asked about all the same
    fresh_days: float = 90.0  # what was decided before that counts less and less
    memory: bool = True  # whether decisions are remembered and recalled
    rehearse: bool = False  # whether a playbook's proxy and human count like real ones
    brief: bool = True  # whether the proxy looks first where the policy always asks the human


class NotifySettings(SettingsGroup, frozen=True):
    """Where the human is told what needs them. The addresses hold secrets."""

    to: tuple[str, ...] = ()  # addresses as apprise has them, or `desktop`
    on: tuple[str, ...] = ("needs",)  # needs: something starts to need the human; done: a job has ended


class BudgetSettings(SettingsGroup, frozen=True):
    """What may be used up before the human is asked. `inf` is no limit; what is absent has its default, if any."""

    job: Mapping[str, float] = msgspec.field(default_factory=dict)
    day: Mapping[str, float] = msgspec.field(default_factory=dict)  # of all jobs of the home together

    def of_job(self, *, costs: bool) -> dict[str, float]:
        """The limits of a job. `costs`: some agent of it reports what its turns cost."""
        default = {"turns": DEFAULT_TURNS, **({"money": DEFAULT_MONEY} if costs else {})}
        return {what: limit for what, limit in {**default, **self.job}.items() if limit != math.inf}

    def of_day(self) -> dict[str, float]:
        """The limits of a day."""
        return {what: limit for what, limit in self.day.items() if limit != math.inf}


class WorkflowSettings(SettingsGroup, frozen=True):
    """When a workflow counts as complex, and what it may repeat before others are asked."""

    complex_agents: int = 5  # with more doers than that the architect has helpers
    complex_levels: int = 3  # with more levels of dependency too
    similar: float = 85.0  # from where on two questions ask the same, of a hundred
    rounds: int = 3  # of verification, before it goes up


class SendingSettings(SettingsGroup, frozen=True):
    """How much one message may carry: characters, and files that go along with a task."""

    message: int = 16_000
    sent_files: int = 50
    sent_mb: int = 10


class TelemetrySettings(SettingsGroup, frozen=True):
    """Where operators are told of jobs. No repository's file has a say in it."""

    enabled: bool = True  # false: nothing is sent, whatever the environment says
    endpoint: str = ""  # of an OpenTelemetry collector; empty: the one that the environment names, if any


class HostsSettings(SettingsGroup, frozen=True):
    """How turns reach other hosts. Only the user's own file says so."""

    remote: str = ""  # the git repository that carries workspaces and sessions: ssh://, https:// or a path
    remote_ca: str = ""  # the file of certificates that an https:// remote's is checked by; empty: the system's
    temporal: str = ""  # host:port of the Temporal server that places turns; empty: turns run on this machine
    namespace: str = "default"  # of Temporal
    temporal_ca: str = ""  # the file of certificates that Temporal's is checked by; empty: the system's
    temporal_certificate: str = ""  # the file of this user's own certificate, where Temporal asks for one
    temporal_key: str = ""  # the file of its key
    roles: tuple[str, ...] = ()  # database roles that workers may come with
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)  # by agent's role, the label of hosts that run it
    lost_seconds: float = 10.0  # without a sign of life, after which a host counts as lost
    alone_seconds: float = 300.0  # that agents go on on a host that can't reach PostgreSQL


class RoleSettings(msgspec.Struct, frozen=True):
    """What is said of one role, over what its file says; None: nothing."""

    team: tuple[str, ...] | None = None
    tools: tuple[str, ...] | None = None
    messages: tuple[str, ...] | None = None
    model: str | None = None
    runner: str | None = None
    prompt: str | None = None  # the path of a file
    limits: Mapping[str, float] = msgspec.field(default_factory=dict)
    places: Mapping[str, Place] = msgspec.field(default_factory=dict)  # where each is said, for errors


def _no_agents() -> Node:
    return node_of({}, FILE, TOML)


class JobLimits(SettingsGroup, frozen=True, kw_only=True):
    """Whole numbers of [limits] that every job's snapshot keeps, and that no repository's file raises by itself."""

    fan_out: int = 3
    crash_budget: int = 3
    retry_budget: int = 3
    backtracks: int = 5
    repeats: int = 10
    exchanges: int = 40


class Settings(JobLimits, frozen=True, kw_only=True):
    """All settings, with their defaults."""

    policies: tuple[str, str, str] = ("always", "always", "always")  # of INTENT, PLAN, EXECUTE
    time_limit_seconds: float = 1800.0
    stall_seconds: float = 300.0
    parallel: int = 8
    durability: str = "full"
    roles: Mapping[str, RoleSettings] = msgspec.field(default_factory=dict)
    boundary: BoundarySettings = BoundarySettings()
    workspace: WorkspaceSettings = WorkspaceSettings()
    agents: Node = msgspec.field(
        default_factory=_no_agents
    )  # programs run as agents, as written: their runner reads it
    claude: ClaudeSettings = ClaudeSettings()
    proxy: ProxySettings = ProxySettings()
    notify: NotifySettings | None = None
    budget: BudgetSettings = BudgetSettings()
    workflow: WorkflowSettings = WorkflowSettings()
    sending: SendingSettings = SendingSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    hosts: HostsSettings = HostsSettings()
    people: Mapping[str, str] = msgspec.field(default_factory=dict)  # who else answers or decides in the user's jobs


def is_copyable(path: str) -> bool:
    """Whether a path of the copy list stays inside the user's folder, and leads to nothing of git's or Parley's."""
    parts = PurePosixPath(path).parts
    return bool(parts) and {"/", "//", ".git", ".parley", ".."}.isdisjoint(part.casefold() for part in parts)
