"""All that the engine reaches the world through."""

from __future__ import annotations

from dataclasses import dataclass, field

from parley.base.redaction import Secrets
from parley.bus.store import Store
from parley.ports.decisions import Decisions
from parley.ports.machine import Clock, Faults, Files, Ids
from parley.ports.notices import Notice, Notices
from parley.ports.telemetry import Telemetry
from parley.ports.turns import Turns
from parley.ports.workspaces import Workspace


class NoNotices:
    """Notices that go nowhere: the user has named no service."""

    def tell(self, notice: Notice) -> None:
        """Nothing."""


@dataclass(slots=True)
class Pulse:
    """Time as far as the engine was there to listen.

    It is monotonic, so that no clock that is set makes an agent silent. While the engine itself is held up, by a large
    workspace, a suspended machine or a signal, it hears no agent, and that is not the agents' silence.
    """

    time: float = 0.0
    last: float | None = None  # when it was counted last, by the monotonic clock


@dataclass(frozen=True, slots=True)
class World:
    """The adapters of one engine."""

    store: Store
    turns: Turns
    workspace: Workspace
    files: Files
    clock: Clock
    ids: Ids
    secrets: Secrets = field(default_factory=Secrets)
    decisions: Decisions | None = None  # what is remembered of the human
    notices: Notices = field(default_factory=NoNotices)
    telemetry: Telemetry | None = None  # where operators are told of jobs; None: nowhere
    faults: Faults | None = None  # where Parley's own faults are written down; without it they are raised
    pulse: Pulse = field(default_factory=Pulse)
