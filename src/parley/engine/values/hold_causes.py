"""The causes of holds, as typed values. A Hold's `cause` is the text of one of these; the rules read nothing in it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct
from msgspec.json import Decoder

from parley.base.json_codec import encode
from parley.protocol.bounds import STUCK
from parley.protocol.molecules import Hold, Run, thread_kind
from parley.protocol.soup import Soup


class Cause(Struct, frozen=True, array_like=True, tag=str.lower):
    """Why something is held."""

    @property
    def text(self) -> str:
        """As a Hold has it."""
        return encode(self)


class Pause(Cause, frozen=True):
    """The human has paused the whole job."""


class Stuck(Cause, frozen=True):
    """A lead has lost its turn too often, and waits until the human has said what becomes of it."""

    @property
    def text(self) -> str:
        """As the rules put it."""
        return STUCK


class Budget(Cause, frozen=True):
    """A budget of the whole job's is spent: of what, and whether it is the job's or the day's."""

    what: str
    scope: str

    def document(self) -> str:
        """As `--json` names it."""
        return f"budget {self.what} {self.scope}"


class Stall(Cause, frozen=True):
    """An instance at work shows no sign of life: its turn, and when it was last heard of."""

    turn: str
    since: float


class Wait(Cause, frozen=True):
    """An instance waits for its provider: until when it tries again, its turn (empty: that was lost), and why."""

    until: float
    agent: str
    turn: str
    reason: str
    seconds: float = 0.0  # how long that is, where its turn was lost: another owner's clock may be another

    def words(self, now: float) -> str:
        """What it does, for people."""
        return f"{_when(self.until, now)}: {self.reason}" if self.reason else _when(self.until, now)

    def document(self) -> dict[str, object]:
        """As `--json` gives it."""
        return {"reason": self.reason, "until": self.until}


PAUSE = Pause()
_decoder = Decoder(Pause | Stuck | Budget | Stall | Wait)


@lru_cache(maxsize=1024)
def read(text: str) -> Cause:
    """The cause that a hold's text says."""
    return Stuck() if text == STUCK else _decoder.decode(text)


def cause_of(hold: Hold) -> Cause:
    """The cause of a hold."""
    return read(hold.cause)


def needs_human(hold: Hold) -> bool:
    """Whether only the human can act on a hold: a budget, or a stall of an instance that no agent has dispatched."""
    cause = cause_of(hold)
    return isinstance(cause, Budget) or (isinstance(cause, Stall) and thread_kind(hold.thread) != "dispatch")


# ---- waiting for a provider ----------------------------------------------------------------------

_SECONDS, _MINUTES, _HOURS = 100, 3600, 64800  # up to which people are told a time in seconds, minutes, hours


def wait_of(cause: str) -> Wait | None:
    """What a hold's text says that its instance waits for; None if it is of another kind."""
    found = read(cause)
    return found if isinstance(found, Wait) else None


def is_parked(hold: Hold) -> bool:
    """Whether a hold waits for a provider after a lost turn, and ends by itself."""
    found = cause_of(hold)
    return isinstance(found, Wait) and not found.turn


def wait_on(soup: Soup, thread: str) -> Wait | None:
    """What the instance on a thread waits for; None if it does not."""
    run = soup.get(Run, thread)
    for hold in soup.all(Hold, thread):
        found = cause_of(hold)
        if isinstance(found, Wait) and found.turn == (run.turn if run else ""):
            return found
    return None


def waits(soup: Soup) -> Iterator[tuple[str, Wait]]:
    """The instances that wait for a provider, by their threads."""
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


# ---- stalls --------------------------------------------------------------------------------------


def stalls(soup: Soup) -> list[Hold]:
    """The stalls that are there now."""
    return [hold for hold in soup.of(Hold) if isinstance(cause_of(hold), Stall)]


def stall_of(soup: Soup, thread: str) -> Stall | None:
    """The stall of the instance on a thread, if it is stalled."""
    found = (cause_of(hold) for hold in soup.all(Hold, thread))
    return next((cause for cause in found if isinstance(cause, Stall)), None)


def alarms(soup: Soup) -> int:
    """How many stalls are for the human to act on."""
    return sum(needs_human(hold) for hold in stalls(soup))


# ---- budgets -------------------------------------------------------------------------------------


def budgets(soup: Soup, thread: str) -> list[tuple[Hold, Budget]]:
    """The holds on a job because a budget is spent."""
    found = ((hold, cause_of(hold)) for hold in soup.all(Hold, thread))
    return [(hold, cause) for hold, cause in found if isinstance(cause, Budget)]
