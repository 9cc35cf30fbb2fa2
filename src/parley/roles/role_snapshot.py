"""A role as a job keeps it: what was said of it when the job began, or when it joined a team."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from parley.base.json_codec import decode
from parley.protocol.molecules import MessageKind, Rounds

TOOLS = ("Send", "CloseConversation", "AskQuestion")


class Traits(Struct, frozen=True):
    """What is particular about a role that a feature brings along. Its messages are no setting of the user's."""

    tools: tuple[str, ...] = TOOLS
    code: bool = False  # its turns are code, and take no time
    redirected: bool = True  # whether an intervention reaches it
    asserts: tuple[str, ...] = ()  # the artifacts that it may assert for a lead that has dispatched it
    rounds: Rounds = Rounds.OWN


NO_TRAITS: Mapping[str, Traits] = MappingProxyType({})


class RoleLimits(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A role's own limits; what is absent is the job's."""

    turn_seconds: float | None = None
    stall_seconds: float | None = None


class RoleSnapshot(Struct, frozen=True, kw_only=True):
    """One role in full. No runner or model: the job's, or the runner's own."""

    name: str
    team: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()  # as its file names them, the agent's own among them
    description: str = ""
    prompt: str = ""
    model: str = ""
    runner: str = ""
    limits: RoleLimits = RoleLimits()
    messages: tuple[MessageKind, ...] | None = None  # the kinds that it takes; None: all that its tools make sense of
    members: dict[str, str] = {}  # what each of its team is there for
    traits: Traits | None = None
    bus: tuple[str, ...] | None = None  # the protocol's tools of a role that has joined a team; None: it was there


class OrderedRole(RoleSnapshot, frozen=True, kw_only=True):
    """A role as a turn's order carries it: with the job's notes."""

    name: str = ""
    notes: str = ""


def from_text(text: str) -> OrderedRole:
    """The role of an order."""
    return decode(text or "{}", OrderedRole)
