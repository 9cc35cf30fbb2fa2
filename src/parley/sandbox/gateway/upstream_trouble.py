"""An upstream that fails: what went wrong, when a request is sent again, and how the cage's runner hears of it."""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime

DELAYS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)  # seconds before the next attempts; the last one is repeated
LONGEST_WAIT = 7 * 86400.0  # seconds, also where the upstream asks for more
SHORTEST_WAIT = 0.05  # seconds
LIMITED, TIMED_OUT, SERVER, OVERLOADED = 429, 408, 500, 529

REFUSED, UNKNOWN_HOST, UNREACHABLE, CERTIFICATE = "refused", "unknown host", "unreachable", "certificate"
STATUS, BROKEN, SILENT = "status", "broken", "silent"
_NEVER_THERE = (REFUSED, UNKNOWN_HOST, UNREACHABLE)
_NUMBER = re.compile(r"[0-9]{1,10}(\.[0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class UpstreamTrouble:
    """Why a request is not answered yet, and when it is sent again."""

    kind: str
    where: str  # the upstream's URL
    status: int = 0  # for the kind `status`
    asked_seconds: float = 0.0  # how long the upstream asks to wait
    until: float = 0.0  # when it is sent again, in seconds since the epoch
    answered: bool = True  # whether this upstream has ever answered in this process

    @property
    def is_doubtful(self) -> bool:
        """Whether the URL itself may be wrong: it has never been reached."""
        return not self.answered and self.kind in _NEVER_THERE

    def words(self, setting: str) -> str:
        """What is wrong, for people. `setting` is where the URL comes from; empty if it is the usual one."""
        found = {
            REFUSED: f"connection refused at {self.where}",
            UNKNOWN_HOST: f"the host of {self.where} is unknown",
            UNREACHABLE: f"no connection to {self.where}",
        }.get(self.kind)
        if found is not None and self.is_doubtful and setting:
            return f"{setting} may be wrong: {found}"
        if found is not None:
            return f"the API can't be reached: {found}"
        told = {
            CERTIFICATE: f"the API can't be trusted: {self.where} has no valid certificate",
            BROKEN: "the API broke off its answer",
            SILENT: "the API does not answer",
        }
        limits = {
            LIMITED: f"a rate limit is reached ({LIMITED})",
            OVERLOADED: f"the API is overloaded ({OVERLOADED})",
        }
        return told.get(self.kind) or limits.get(self.status, f"the API is down ({self.status})")

    @property
    def is_shared(self) -> bool:
        """Whether it ends for all requests at once. A limit may be one key's or one model's."""
        return not (self.kind == STATUS and self.status in (LIMITED, OVERLOADED))


def is_passing(status: int) -> bool:
    """Whether a status tells of trouble that passes: the same request may succeed later."""
    return status in (TIMED_OUT, LIMITED) or status >= SERVER


def kind_of(error: Exception) -> str:
    """What kind of trouble an error in connecting is."""
    if isinstance(error, ssl.SSLError):
        return CERTIFICATE
    if isinstance(error, ConnectionRefusedError):
        return REFUSED
    return UNKNOWN_HOST if isinstance(error, socket.gaierror) else UNREACHABLE


def seconds_asked(header: Callable[[str], str], now: float) -> float:
    """How long the upstream asks to wait, by `retry-after` or by when its limit is reset; 0 if it does not say."""
    after = header("retry-after").strip()
    if _NUMBER.fullmatch(after):
        return min(float(after), LONGEST_WAIT)
    if after:
        try:
            return min(max(0.0, parsedate_to_datetime(after).timestamp() - now), LONGEST_WAIT)
        except (ValueError, TypeError, OverflowError):
            pass
    reset = header("anthropic-ratelimit-unified-reset").strip()
    return min(max(0.0, float(reset) - now), LONGEST_WAIT) if _NUMBER.fullmatch(reset) else 0.0


class UpstreamHealth:
    """What the cages of one process know together of an upstream. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.answered = False  # whether it has ever answered, with success or with an error
        self.served = 0  # how many requests it has answered whole

    def note_answer(self) -> None:
        """The upstream has answered, with success or with an error."""
        self.answered = True

    def note_served(self) -> None:
        """The upstream has answered a request whole."""
        with self._lock:
            self.served += 1


@dataclass(frozen=True, slots=True)
class HoldPolicy:
    """How the gateway holds a route's requests until the upstream answers them whole."""

    endings: tuple[str, ...] = ()  # the types of events that end a stream; none: a stream is passed on as it comes
    ping: bytes = b": waiting\n\n"  # the event that keeps a client waiting for its stream
    troubled: Callable[[UpstreamTrouble | None], None] = lambda _: None  # called when a request waits; None: none does
    heard: Callable[[], None] = lambda: None  # called when the upstream sends something


class WaitingRequests:
    """The requests of one cage that wait. The policy hears of one reason at a time: the latest."""

    def __init__(self, policy: HoldPolicy) -> None:
        self._policy = policy
        self._lock = threading.Lock()
        self._waiting: dict[int, UpstreamTrouble] = {}

    def begin(self, key: int, trouble: UpstreamTrouble) -> None:
        """A request waits, or waits again."""
        with self._lock:
            self._waiting[key] = trouble
            self._policy.troubled(trouble)

    def end(self, key: int) -> None:
        """A request does not wait any more: it is answered, or its client is gone."""
        with self._lock:
            if self._waiting.pop(key, None) is not None:
                self._policy.troubled(next(reversed(self._waiting.values()), None))


class ByteBudget:
    """How many bytes of requests and answers one gateway may hold at a time. Any thread may use it."""

    def __init__(self, size: int) -> None:
        self._lock = threading.Lock()
        self._left = size

    def take(self, size: int) -> bool:
        """Take some bytes; False if that many are not left."""
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True

    def give(self, size: int) -> None:
        """Give them back."""
        with self._lock:
            self._left += size


def delayed(trouble: UpstreamTrouble, failures: int, health: UpstreamHealth) -> tuple[float, UpstreamTrouble]:
    """How many seconds to wait after that many earlier failures; and the trouble, with the time when the wait ends."""
    seconds = trouble.asked_seconds or DELAYS[min(failures, len(DELAYS) - 1)]
    seconds = max(SHORTEST_WAIT, seconds)
    return seconds, replace(trouble, until=time.time() + seconds, answered=health.answered)
