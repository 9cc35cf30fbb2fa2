"""A cage as a runner asks for it, and the verdict on the cage that was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from parley.ports.turns import Bind, BoundaryError, Confined, Site
from parley.sandbox.gateway.upstream_trouble import HoldPolicy

HOME = "/home/agent"
UNCACHED = {"PYTHONDONTWRITEBYTECODE": "1"}  # for agents and checks: no program leaves bytecode in the tree
GATEWAY = "127.0.0.1:3128"
HELD, ESCAPED, BROKEN, EXEMPT = "held", "escaped", "broken", "exempt"


@dataclass(frozen=True, slots=True)
class Route:
    """Where the gateway, 127.0.0.1:3128 inside a cage, lets requests through to."""

    upstream: str = ""  # base URL to which plain HTTP requests are passed on
    headers: Mapping[str, str] = field(default_factory=dict)  # with the key: put in outside, over the agent's own
    paths: tuple[str, ...] = ()  # that may be asked for upstream, exactly; with `*` at its end, a prefix
    hosts: tuple[str, ...] = ()  # host:port allowed for CONNECT
    methods: tuple[str, ...] = ("POST",)  # that may be used for it
    hold: HoldPolicy | None = None  # how requests are held while the upstream fails; None: they fail as they come


@dataclass(frozen=True, slots=True)
class Cage:
    """An agent process to be started behind a boundary."""

    site: Site
    home: Path  # becomes /home/agent inside, writable
    command: tuple[str, ...]
    environment: Mapping[str, str]  # all variables: no others get in
    binds: tuple[Bind, ...] = ()
    route: Route | None = None  # None: no network at all
    mark: str = ""  # by which the owner finds processes that were left behind


@dataclass(frozen=True, slots=True)
class Attempt:
    """One escape that was tried, and its result."""

    name: str
    result: str  # held, escaped, broken, exempt
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CageVerdict:
    """What was tried in a cage before its agent started."""

    attempts: tuple[Attempt, ...] = ()
    controls: tuple[Attempt, ...] = ()  # what an agent needs; `held` means that it works
    exemptions: tuple[str, ...] = ()
    accepted: str = ""  # the weaker boundary that the user accepted by name
    uid: int = -1
    resident_kb: int = 0
    milliseconds: float = 0.0
    nested: tuple[str, ...] = ()  # repositories inside the workspace, for those who run git over it
    unlinked: tuple[str, ...] = ()  # links that led outside, now copies; and what was moved for a bind

    @property
    def ok(self) -> bool:
        """Whether an agent may have this cage."""
        return bool(self.accepted) or not self.faults()

    def faults(self) -> list[Attempt]:
        """The attempts and controls for which the cage is refused."""
        return [attempt for attempt in (*self.attempts, *self.controls) if attempt.result not in {HELD, EXEMPT}]

    def summary(self) -> Confined:
        """The verdict as the audit keeps it."""
        return Confined(
            ok=self.ok,
            held=sum(attempt.result == HELD for attempt in self.attempts),
            tried=len(self.attempts),
            faults=tuple(f"{fault.name}: {fault.detail or fault.result}" for fault in self.faults()),
            exemptions=self.exemptions,
            uid=self.uid,
            accepted=self.accepted,
            nested=self.nested,
            unlinked=self.unlinked,
        )


class NotHeld(BoundaryError):
    """A cage that was tried and refused, with the verdict."""

    def __init__(self, text: str, verdict: CageVerdict) -> None:
        super().__init__(text)
        self.verdict = verdict
