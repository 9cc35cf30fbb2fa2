"""The causes of holds: each begins with a word that says of what kind it is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from parley.core.bounds import STUCK as STUCK  # noqa: PLC0414 - of a lead, until the human has said what becomes of it
from parley.core.soup import Soup
from parley.core.terms import Hold, Run

PAUSE = "pause"  # of the whole job, by somebody
LIMIT = "limit"  # of an instance that lost its turn to its provider; then when it tries again, who it is, and why
WAIT = (
    "wait"  # of an instance whose turn waits for its provider; then when it tries again, who it is, its turn, and why
)
BUDGET = "budget"  # of the whole job, by a budget that is spent; then of what, and whether the job's or the day's
STALL = "stall"  # of an instance that shows no sign of life; then its turn, and when it was last heard of


def kind_of(hold: Hold) -> str:
    """Of what kind a hold is."""
    return hold.cause.partition(" ")[0]


def rest_of(hold: Hold) -> str:
    """What else its cause says."""
    return hold.cause.partition(" ")[2]


# ---- waiting for a provider ----------------------------------------------------------------------

_SECONDS, _MINUTES, _HOURS = 100, 3600, 64800  # up to which people are told a time in seconds, minutes, hours


class Wait(NamedTuple):
    """What an instance waits for: when it tries again, who it is, its turn (empty: that was lost), and why."""

    until: float
    agent: str
    turn: str
    reason: str

    @property
    def cause(self) -> str:
        """As a hold says it."""
        until = repr(round(self.until, 1))
        head = (WAIT, until, self.agent, self.turn) if self.turn else (LIMIT, until, self.agent)
        return " ".join((*head, self.reason))

    def words(self, now: float) -> str:
        """What it does, for people."""
        return f"{_when(self.until, now)}: {self.reason}" if self.reason else _when(self.until, now)

    def document(self) -> dict[str, object]:
        """As `--json` gives it."""
        return {"reason": self.reason, "until": self.until}


def wait_of(cause: str) -> Wait | None:
    """What a hold's cause says that its instance waits for; None if it is of another kind."""
    kind, _, rest = cause.partition(" ")
    if kind == WAIT:
        until, agent, turn, reason = rest.split(" ", 3)
        return Wait(float(until), agent, turn, reason)
    if kind == LIMIT:
        until, agent, reason = rest.split(" ", 2)
        return Wait(float(until), agent, "", reason)
    return None


def wait_on(soup: Soup, thread: str) -> Wait | None:
    """What the instance on a thread waits for; None if it does not."""
    run = soup.get(Run, thread)
    for hold in soup.all(Hold, thread):
        found = wait_of(hold.cause)
        if found is not None and found.turn == (run.turn if run else ""):
            return found
    return None


def waits(soup: Soup) -> Iterator[tuple[str, Wait]]:
    """Who waits for a provider, by threads."""
    for thread in dict.fromkeys(hold.thread for hold in soup.of(Hold)):
        if (found := wait_on(soup, thread)) is not None:
            yield thread, found


def _when(until: float, now: float) -> str:
    left = until - now
    if left < 0.5:  # noqa: PLR2004 - rounded, that is none
        return "retries now"
    if left < _SECONDS:
        return f"retries in {left:.0f} s"
    if left < _MINUTES:
        return f"retries in {left / 60:.0f} min"
    return f"retries at {time.strftime('%H:%M' if left < _HOURS else '%d %b %H:%M', time.localtime(until))}"
