"""What a step's row tells beside its rule: what the turn that it ended left behind, or why something is held.

The rules do not depend on it. Views, the audit and recovery read it.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Raw, Struct

from parley.base.json_codec import decode
from parley.bus.hash_chain import JobOrigin
from parley.engine.values.unfinished_work import Unfinished
from parley.ports.turns import Confined
from parley.roles.role_snapshot import RoleSnapshot

F = TypeVar("F", bound=Struct)

NO_FEATURE = Raw()  # left out of a row by its identity: nothing at all is no JSON


class Told(Struct, frozen=True):
    """Something that an agent is told with its next message: the conversation that it is about, and the words."""

    thread: str
    text: str


class Nearly(Struct, frozen=True, array_like=True):
    """A budget that is nearly spent when a turn starts."""

    what: str
    scope: str
    used: int | float
    limit: float


class StepExtra(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """Each step says only what there is to say."""

    # the job is opened
    opened: JobOrigin | None = None
    # a turn starts: where it is to run; it ends, or is lost: where it ran, if that was decided after it started
    host: str = ""
    # a turn is cut short by the one that starts: where it ran, if that was decided after it started
    cut_host: str = ""
    # a turn starts
    day: str = ""  # on which its usage counts
    nearly: tuple[Nearly, ...] = ()
    # a turn ends, or is lost
    turn: str = ""
    fault: str = ""
    handle: str = ""  # of the agent's session
    usage: dict[str, float] = {}
    worked: int = 0  # thousandths of a second
    model: str = ""
    tree: str = ""
    left_out: tuple[str, ...] = ()  # of the tree, with the reasons
    boundary: Confined | None = None  # how the agent was confined
    refused: tuple[str, ...] = ()  # the agent's calls that were not taken
    merged: tuple[Told, ...] = ()
    notes: tuple[dict[str, Any], ...] = ()
    # a hold, or its release
    agent: str = ""
    silent: float = 0.0  # seconds without a sign of life
    text: str = ""
    advice: str = ""  # the human's, for a lead that tries again
    # roles join a team
    roles: tuple[RoleSnapshot, ...] = ()
    # an agent that is code ends its turn: what its feature makes its own state again from
    feature: Raw = NO_FEATURE
    # any step that closes, puts forward or leaves something
    unfinished: tuple[Unfinished, ...] = ()

    def ran_on(self, rule: str) -> str:
        """The other host on which the turn ran that a step of this rule ended; empty: here, or it came to no host."""
        if rule == "interrupt":
            return self.cut_host
        return "" if rule in ("wake", "wake-int") else self.host

    def left(self, kind: type[F]) -> F | None:
        """What an agent of a feature left, as the feature's own value; None: nothing. Unreadable if it is another."""
        text = bytes(self.feature).decode()
        return decode(text, kind) if text else None


NOTHING = StepExtra()


def read(text: str) -> StepExtra:
    """The extra of a step's row."""
    return decode(text, StepExtra) if text else NOTHING
