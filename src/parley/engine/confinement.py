"""How a job's agents were confined, as the steps that ended their turns say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from parley.wording import count


@dataclass(slots=True)
class Confinement:
    """Counted over a job: turns behind a boundary that held, behind one that did not, and behind none."""

    held: int = 0
    failed: int = 0
    without: int = 0  # as the settings accept it
    exemptions: set[str] = field(default_factory=set)

    def take(self, verdict: object) -> None:
        """Count a turn's verdict; one that is not put as it should be counts as failed."""
        if not isinstance(verdict, Mapping):
            self.failed += 1
            return
        if verdict.get("accepted"):
            self.without += 1
        elif verdict.get("ok") is True:
            self.held += 1
        else:
            self.failed += 1
        exempt = verdict.get("exemptions")
        if isinstance(exempt, list):
            self.exemptions.update(map(str, exempt))

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
