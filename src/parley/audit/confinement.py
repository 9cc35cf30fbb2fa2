"""How a job's agents were confined, as the steps that ended their turns say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from parley.base.wording import count
from parley.ports.turns import Confined


@dataclass(slots=True)
class Confinement:
    """Counted over a job: turns behind a boundary that held, behind one that did not, and behind none."""

    held: int = 0
    failed: int = 0
    without: int = 0  # as the settings accept it
    exemptions: set[str] = field(default_factory=set)
    broken: tuple[int, str] | None = None  # the first step whose turn counts behind a boundary that did not hold; why
    unverified: int = 0  # the first step whose turn counts with no verdict on its boundary

    @property
    def any(self) -> bool:
        """Whether agents of the job were confined at all: nothing is said of those that a test plays."""
        return bool(self.held or self.failed or self.without)

    def counts(self, step: int, verdict: Confined | None) -> None:
        """A step ends a turn that counts: it was to be behind a boundary that held."""
        if verdict is None:
            self.unverified = self.unverified or step
        elif self.broken is None and not verdict.accepted and (verdict.faults or not verdict.ok):
            self.broken = step, "; ".join(verdict.faults) or "no reason is recorded"

    def take(self, verdict: Confined) -> None:
        """Count a turn's verdict."""
        if verdict.accepted:
            self.without += 1
        elif verdict.ok:
            self.held += 1
        else:
            self.failed += 1
        self.exemptions.update(verdict.exemptions)

    def document(self) -> dict[str, Any]:
        """The counts as a JSON-able value."""
        return {
            "held": self.held,
            "failed": self.failed,
            "without": self.without,
            "exemptions": sorted(self.exemptions),
        }

    def lines(self) -> list[str]:
        """The counts as people read them; nothing where no agent ran behind anything."""
        told = []
        if self.held:
            exempt = f", exempt by the settings: {', '.join(sorted(self.exemptions))}" if self.exemptions else ""
            told.append(f"{_turns(self.held)} behind a boundary that held{exempt}")
        if self.without:
            told.append(f"{_turns(self.without)} without a boundary, which the settings accept")
        if self.failed:
            told.append(f"{_turns(self.failed)} lost to a boundary that did not hold")
        return told


def _turns(number: int) -> str:
    return count(number, "turn was", "turns were")
