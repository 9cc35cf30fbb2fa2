"""What the gateway knows of an upstream that fails: what went wrong, when it is asked again, and who hears of it."""

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
LONGEST_WAIT = 7 * 86400.0  # seconds; an upstream that asks for more is asked again after this
SHORTEST_WAIT = 0.05
LIMITED, TIMED_OUT, SERVER, OVERLOADED = 429, 408, 500, 529

REFUSED, UNKNOWN_HOST, UNREACHABLE, CERTIFICATE = "refused", "unknown host", "unreachable", "certificate"
STATUS, BROKEN, SILENT = "status", "broken", "silent"
_NEVER_THERE = (REFUSED, UNKNOWN_HOST, UNREACHABLE)
_NUMBER = re.compile(r"[0-9]{1,10}(\.[0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a request is not answered yet, and when it is sent again."""

    kind: str
    where: str  # the upstream's URL
    status: int = 0  # for the kind `status`
    asked_seconds: float = 0.0  # how long upstream asks to wait
    until: float = 0.0  # when it is sent again, in seconds since the epoch
    answered: bool = True  # whether this upstream has ever answered in this process

    @property
    def is_doubtful(self) -> bool:
        """Whether the URL itself may be wrong: there was never anything to be reached."""
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
        """Whether it ends for all at once. A limit may be one key's or one model's."""
        return not (self.kind == STATUS and self.status in (LIMITED, OVERLOADED))


def is_passing(status: int) -> bool:
    """Whether a status tells of trouble that passes: the same request may be answered later."""
    return status in (TIMED_OUT, LIMITED) or status >= SERVER


def kind_of(error: Exception) -> str:
    """What kind of trouble an error in connecting is."""
    if isinstance(error, ssl.SSLError):
        return CERTIFICATE
    if isinstance(error, ConnectionRefusedError):
        return REFUSED
    return UNKNOWN_HOST if isinstance(error, socket.gaierror) else UNREACHABLE


def seconds_asked(header: Callable[[str], str | None], now: float) -> float:
    """How long upstream asks to wait, by `retry-after` or by when its limit is reset; 0 if it does not say."""
    after = (header("retry-after") or "").strip()
    if _NUMBER.fullmatch(after):
        return min(float(after), LONGEST_WAIT)
    if after:
        try:
            return min(max(0.0, parsedate_to_datetime(after).timestamp() - now), LONGEST_WAIT)
        except (ValueError, TypeError, OverflowError):
            pass
    reset = (header("anthropic-ratelimit-unified-reset") or "").strip()
    return min(max(0.0, float(reset) - now), LONGEST_WAIT) if _NUMBER.fullmatch(reset) else 0.0


class Standing:
    """What the cages of one process know together of an upstream. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.answered = False  # whether it has ever answered, whatever it said
        self.served = 0  # how many requests it has answered whole

    def hear(self) -> None:
        """It has answered something."""
        self.answered = True

    def serve(self) -> None:
        """It has answered a request whole."""
        with self._lock:
            self.served += 1


@dataclass(frozen=True, slots=True)
class Care:
    """How a route's requests are seen through trouble: held inside the gateway until upstream answers them whole."""

    endings: tuple[str, ...] = ()  # the types of events that end a stream; none: a stream is passed on as it comes
    ping: bytes = b": waiting\n\n"  # what keeps a stream open meanwhile
    troubled: Callable[[Trouble | None], None] = lambda _: None  # a request waits; None: none does any more
    heard: Callable[[], None] = lambda: None  # upstream is sending


class Troubles:
    """The requests of one cage that wait, told of as one: an observer of the cage sees one reason."""

    def __init__(self, care: Care) -> None:
        self._care = care
        self._lock = threading.Lock()
        self._waiting: dict[int, Trouble] = {}

    def begin(self, key: int, trouble: Trouble) -> None:
        """A request waits, or waits again."""
        with self._lock:
            self._waiting[key] = trouble
            self._care.troubled(trouble)

    def end(self, key: int) -> None:
        """A request does not wait any more: it is answered, or its client is gone."""
        with self._lock:
            if self._waiting.pop(key, None) is not None:
                self._care.troubled(next(reversed(self._waiting.values()), None))


class Room:
    """Bytes that one gateway may hold of requests and answers at a time. Any thread may use it."""

    def __init__(self, size: int) -> None:
        self._lock = threading.Lock()
        self._left = size

    def take(self, size: int) -> bool:
        """Take so many bytes; False if there is no room for them."""
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True

    def give(self, size: int) -> None:
        """Give them back."""
        with self._lock:
            self._left += size


def delayed(trouble: Trouble, failures: int, standing: Standing) -> tuple[float, Trouble]:
    """How many seconds to wait after so many failures before this one, and the trouble with when that is over."""
    seconds = trouble.asked_seconds or DELAYS[min(failures, len(DELAYS) - 1)]
    seconds = max(SHORTEST_WAIT, seconds)
    return seconds, replace(trouble, until=time.time() + seconds, answered=standing.answered)
