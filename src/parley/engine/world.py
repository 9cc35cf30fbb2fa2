"""All that the engine reaches the world through."""

from __future__ import annotations

from dataclasses import dataclass, field

from parley.decisions import Decisions
from parley.engine.redaction import Secrets
from parley.notices import Notice, Notices
from parley.ports import Clock, Faults, Files, Ids, Store, Turns, Workspace


class Silence:
    """Notices that go nowhere: nobody has said where to."""

    def tell(self, notice: Notice) -> None:
        """Nothing."""


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
    notices: Notices = field(default_factory=Silence)
    faults: Faults | None = None  # where Parley's own faults are written down; without it they are raised
