"""Parts of pages that were made a moment ago: many open pages show the same, and it is made once for all of them."""

from __future__ import annotations

import gzip
import hashlib
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from starlette.responses import Response

MOST = 1_000  # parts that are kept
MOST_BYTES = 64 << 20
OLDEST_SECONDS = 5.0  # some of what is shown follows from the time, or from git, and no change tells of it
COMPRESSED_FROM = 1_000  # bytes; less is not worth it
LEVEL = 5
FINE = 200


@dataclass(slots=True)
class _Part:
    lock: threading.Lock = field(default_factory=threading.Lock)
    version: int = -1
    made: float = 0.0
    asked: float = 0.0  # when it was last asked for
    body: bytes = b""
    small: bytes = b""  # the same, compressed; empty: not yet, or not worth it
    tag: str = ""
    status: int = FINE
    kind: str = ""


_PASSED = re.compile(rb"( data-(?:ago|for)>)[^<]*")  # what a time says, which the open page keeps right itself


def tag_of(body: bytes) -> str:
    """What tells one version of a part from another. That time has passed makes no other."""
    lasting = _PASSED.sub(rb"\1", body)
    return f'W/"{hashlib.sha256(lasting).hexdigest()[:20]}"'


def _sent(part: _Part, *, compressed: bool) -> Response:
    headers = {"content-type": part.kind, "vary": "accept-encoding"}
    if part.status == FINE:
        headers["etag"] = part.tag
    if not compressed or not part.small:
        return Response(part.body, part.status, headers)
    return Response(part.small, part.status, {**headers, "content-encoding": "gzip"})


class PartCache:
    """The parts, by what they show and for whom."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: OrderedDict[Hashable, _Part] = OrderedDict()
        self._bytes = 0

    @property
    def size(self) -> int:
        """How many parts are kept."""
        return len(self._parts)

    @property
    def counted(self) -> int:
        """How many bytes the parts are taken to have."""
        return self._bytes

    def get(self, key: Hashable, version: int, make: Callable[[], Response], *, compressed: bool = False) -> Response:
        """A part that is at least as new as a version. Who asks for it at the same time waits for one that is made."""
        with self._lock:
            part = self._parts.setdefault(key, _Part())
            self._use(key, part)
            self._forget_oldest()  # also where a part can't be made: its address may be any
        with part.lock:
            if part.version < version or time.monotonic() - part.made > OLDEST_SECONDS:
                self._keep(key, part, version, make())
            if compressed and not part.small and len(part.body) >= COMPRESSED_FROM:
                part.small = gzip.compress(part.body, LEVEL, mtime=0)
            return _sent(part, compressed=compressed)

    def ready(self, key: Hashable, version: int, *, compressed: bool = False) -> Response | None:
        """A part that is at least as new as a version, where it takes no time at all: else None."""
        with self._lock:
            part = self._parts.get(key)
            if part is None or not part.lock.acquire(blocking=False):
                return None
            self._use(key, part)
        try:
            fresh = part.version >= version and time.monotonic() - part.made <= OLDEST_SECONDS
            missing = compressed and not part.small and len(part.body) >= COMPRESSED_FROM
            return _sent(part, compressed=compressed) if fresh and not missing else None
        finally:
            part.lock.release()

    def _keep(self, key: Hashable, part: _Part, version: int, made: Response) -> None:
        body = bytes(made.body)
        other = tag_of(body) if body != part.body or not part.tag else ""
        with self._lock:
            if self._parts.get(key) is part:  # else it was forgotten while it was made, and counts no more
                self._bytes += len(body) - len(part.body)
            part.version, part.made = version, time.monotonic()
            if other:
                part.body, part.small, part.tag = body, b"", other
            part.status, part.kind = made.status_code, made.headers["content-type"]
            self._forget_oldest()

    def _use(self, key: Hashable, part: _Part) -> None:
        """Note that a part was asked for: it is the last to be forgotten."""
        part.asked = time.monotonic()
        self._parts.move_to_end(key)

    def _forget_oldest(self) -> None:
        """Forget what there is no room for, and what would be made anew anyway.

        Pages that follow a job ask for what has changed since they last did: after each change, for another answer.
        """
        while self._parts and (len(self._parts) > MOST or self._bytes > MOST_BYTES or self._is_over()):
            _, gone = self._parts.popitem(last=False)
            self._bytes -= len(gone.body)

    def _is_over(self) -> bool:
        """Whether the part that was asked for longest ago is too old to be shown, and is not being made."""
        oldest = next(iter(self._parts.values()))
        return time.monotonic() - oldest.asked > OLDEST_SECONDS and not oldest.lock.locked()
