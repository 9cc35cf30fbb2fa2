"""The hosts that run turns of a repository's jobs, as every face lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parley.base.wording import count


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLine:
    """One host, as it described itself when it came; whether it lives is by the database's clock."""

    name: str
    state: str  # alive, draining, ended, lost
    slots: int
    used: int
    labels: tuple[str, ...]
    version: str
    boundary: str
    seen_seconds: float  # ago

    @property
    def room(self) -> str:
        """Its slots, in words."""
        return f"{self.used} of {count(self.slots, 'slot')}"

    def document(self) -> dict[str, Any]:
        """The host as `--json` gives it."""
        return {
            "name": self.name,
            "state": self.state,
            "slots": self.slots,
            "used": self.used,
            "labels": list(self.labels),
            "version": self.version,
            "boundary": self.boundary,
            "seen_seconds": round(self.seen_seconds, 1),
            "draining": self.state == "draining",
        }
