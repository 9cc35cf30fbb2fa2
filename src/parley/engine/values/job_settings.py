"""A job's settings: the snapshot that is taken when it begins, and stays. Each reader has a type for its part of it.

The engine's part is `JobSettings`. A feature reads its own by a type of its own: its fields are keys of the snapshot,
and what other parts hold is not looked at. A snapshot of another shape is refused in one line.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import Raw, Struct, field

from parley.base.json_codec import Unreadable, decode
from parley.bus.rows import JobRow
from parley.protocol.molecules import Policy
from parley.roles.role_snapshot import RoleSnapshot
from parley.settings.schema import JobLimits, SendingSettings, Settings

S = TypeVar("S", bound=Struct)

NOTHING = Raw(b"null")


PLAYBOOK, YES = STAND_INS = "human (playbook)", "human (--yes)"  # what may stand in for the human


class StandInRule(Struct, frozen=True):
    """What a playbook's human says to a question that fits."""

    match: str
    state: str | None = None
    visit: int | None = None
    repeat: bool = False
    verdict: str | None = None  # or a choice of the question's
    text: str | None = None


class JobSettings(JobLimits, frozen=True, kw_only=True):
    """What the engine reads of a job's settings."""

    roles: tuple[RoleSnapshot, ...]
    policies: tuple[Policy, Policy, Policy]  # of INTENT, PLAN, EXECUTE
    brief_human: bool = True  # whether the proxy looks first where the human is always asked
    sending: SendingSettings = SendingSettings()  # how much one message may carry
    time_limit_seconds: float = Settings().time_limit_seconds
    model: str = ""  # from the command line, for all roles without one of their own
    notes: str = ""  # the user's own, for every agent
    agents: dict[str, Raw] = field(
        default_factory=dict
    )  # the rules of each scripted agent, for the runner that plays them
    proxy: Raw = NOTHING  # the same of the proxy; null: it has none
    activation: Raw = NOTHING  # a design of the user's that the plan begins from, for its feature

    @property
    def has_design(self) -> bool:
        """Whether the plan begins from a design, and is approved only together with it."""
        return bytes(self.activation) not in (b"", bytes(NOTHING))


class StandIns(Struct, frozen=True):
    """What may answer in the human's place."""

    human: tuple[StandInRule, ...] | None = None  # the human of a playbook; None: it has none
    yes: bool = False  # every gate is approved

    def names(self) -> list[str]:
        """In whose name they answer."""
        return [*([PLAYBOOK] if self.human else []), *([YES] if self.yes else [])]


class Crew(Struct, frozen=True):
    """Who takes part in a job, and nothing else of its settings: for those who look at a job from outside."""

    roles: tuple[RoleSnapshot, ...] = ()


def read(row: JobRow, part: type[S]) -> S:
    """A part of a job's settings. Unreadable if they have another shape."""
    try:
        return decode(row.settings, part)
    except Unreadable as error:
        raise Unreadable(f"the settings of job {row.job}: {error}") from error
