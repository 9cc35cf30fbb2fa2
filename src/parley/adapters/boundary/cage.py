"""What a cage is asked to be, and what was found out about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parley.adapters.boundary.patience import Care
from parley.ports import Bind, BoundaryError, Site

HOME = "/home/agent"
UNCACHED = {"PYTHONDONTWRITEBYTECODE": "1"}  # for agents and checks: no program leaves bytecode in the tree
GATEWAY = "127.0.0.1:3128"
HELD, ESCAPED, BROKEN, EXEMPT = "held", "escaped", "broken", "exempt"


@dataclass(frozen=True, slots=True)
class Route:
    """What 127.0.0.1:3128 inside a cage does."""

    upstream: str = ""  # base URL to which plain HTTP requests are passed on
    headers: Mapping[str, str] = field(default_factory=dict)  # put in outside, in place of any of that name: the key
    paths: tuple[str, ...] = ()  # what may be asked for upstream, exactly; with `*` at its end all that begins so
    hosts: tuple[str, ...] = ()  # host:port allowed for CONNECT
    methods: tuple[str, ...] = ("POST",)  # how it may be asked for
    care: Care | None = None  # how requests are seen through trouble upstream; None: they fail as they come


@dataclass(frozen=True, slots=True)
class Cage:
    """An agent process to be started behind a boundary."""

    site: Site
    home: Path  # becomes /home/agent inside, writable
    command: tuple[str, ...]
    environment: Mapping[str, str]  # all of it: nothing else gets in
    binds: tuple[Bind, ...] = ()
    route: Route | None = None  # None: no network at all
    mark: str = ""  # for whoever looks for leftovers


@dataclass(frozen=True, slots=True)
class Attempt:
    """One escape that was tried, and what came of it."""

    name: str
    result: str  # held, escaped, broken, exempt
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was tried in a cage before its agent got it."""

    attempts: tuple[Attempt, ...] = ()
    controls: tuple[Attempt, ...] = ()  # what must work: held means that it does
    exemptions: tuple[str, ...] = ()
    accepted: str = ""  # the weaker boundary that the user accepted by name
    uid: int = -1
    resident_kb: int = 0
    milliseconds: float = 0.0
    nested: tuple[str, ...] = ()  # repositories inside the workspace: whoever runs git over it beware
    unlinked: tuple[str, ...] = ()  # links that led outside, now copies; and what gave way to a seal

    @property
    def ok(self) -> bool:
        """Whether an agent may have this cage."""
        return bool(self.accepted) or not self.faults()

    def faults(self) -> list[Attempt]:
        """What speaks against it."""
        return [attempt for attempt in (*self.attempts, *self.controls) if attempt.result not in {HELD, EXEMPT}]

    def summary(self) -> dict[str, Any]:
        """For the audit."""
        told: dict[str, Any] = {
            "ok": self.ok,
            "held": sum(attempt.result == HELD for attempt in self.attempts),
            "tried": len(self.attempts),
            "faults": [f"{fault.name}: {fault.detail or fault.result}" for fault in self.faults()],
            "exemptions": list(self.exemptions),
            "uid": self.uid,
        }
        told |= {"accepted": self.accepted} if self.accepted else {}
        told |= {"nested": list(self.nested)} if self.nested else {}
        told |= {"unlinked": list(self.unlinked)} if self.unlinked else {}
        return told


class NotHeld(BoundaryError):
    """A cage that was tried and refused, with all that was found."""

    def __init__(self, text: str, verdict: Verdict) -> None:
        super().__init__(text)
        self.verdict = verdict
