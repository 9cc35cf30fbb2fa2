"""What the steps of the two agents that are code carry: all that their state is made again from."""

from __future__ import annotations

from msgspec import Struct

from parley.workflow.model.events import AnyEvent


class ExecutorStep(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """A turn of the workflow executor: what happened to its workflow, and the trees of the plans that it asserts."""

    events: tuple[AnyEvent, ...] = ()
    drafts: dict[str, str] = {}  # by question


class DesignStanding(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where a design stands: whose conversations are open, and how often it went back."""

    architect: str = ""
    verifier: str = ""
    checks: int = 0  # that found gaps, since the lead spoke
    rounds: int = 0  # of verification that found gaps, since the lead spoke
    reminders: int = 0
    delegated: bool = False
    ready: bool = False
    wanted: str = ""  # what the lead asked for, for an architect that comes in later


class GroupStep(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """A turn of the architecture group: where its design stands, and the digest of one that both have found good."""

    design: DesignStanding
    verified: str = ""
