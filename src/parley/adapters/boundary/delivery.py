"""One request that is held until upstream answers it whole.

As long as nothing of an answer was passed on, trouble is waited out here: the agent sees a slow answer, not a
failed one, and goes on from where it was. A stream of events is passed on when its last event is there, so that an
answer that breaks off has no effect. Meanwhile pings keep the client waiting. A client that goes is noticed at once.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from parley.adapters.boundary import patience
from parley.adapters.boundary.messages import Bad, Head
from parley.adapters.boundary.patience import Care, Room, Standing, Trouble, Troubles
from parley.adapters.boundary.upstream import (
    Keeper,
    Upstream,
    connect,
    framed,
    head_of,
    parts_of,
    pass_back,
    request,
)
from parley.text import BadText, lenient, read_json

PING_SECONDS = 10.0
DEEPEST_BODY = 128  # levels of a request's or an answer's JSON that are looked into
STREAM = "text/event-stream"
_BLANK = re.compile(rb"\r?\n\r?\n")
_ERRORS = {"rate_limit_error": 429, "api_error": 500, "timeout_error": 504, "overloaded_error": 529}
_EARLY = (
    f"HTTP/1.1 200 OK\r\nContent-Type: {STREAM}; charset=utf-8\r\nCache-Control: no-cache\r\n"
    "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
).encode()


@dataclass(frozen=True, slots=True)
class Means:
    """What the requests of one gateway are delivered with."""

    upstream: Upstream
    secrets: Mapping[str, str]
    care: Care
    troubles: Troubles
    standing: Standing
    room: Room
    keeper: Keeper


class Gone(ConnectionAbortedError):
    """The client does not wait any more."""


class Delivery:
    """One request and its answer, in the thread of its connection."""

    def __init__(
        self, client: socket.socket, head: Head, body: bytes, means: Means, note: Callable[[int, str], None]
    ) -> None:
        self._client, self._head, self._body, self._means, self._note = client, head, body, means, note
        self._begun = False  # whether the client has the head of a stream: from then on it gets events
        self._pinged = time.monotonic()
        self._gone = threading.Event()
        self._lock = threading.Lock()
        self._far: socket.socket | None = None
        self._over, self._told_over = socket.socketpair()

    def run(self) -> None:
        """Ask upstream until it answers, and pass the answer on."""
        watching = threading.Thread(target=self._watch, name="parley-client", daemon=True)
        watching.start()
        failures = 0
        try:
            while (trouble := self._attempt()) is not None:
                seconds, trouble = patience.delayed(trouble, failures, self._means.standing)
                failures += 1
                self._wait(trouble, seconds)
        finally:
            self._means.troubles.end(id(self))
            self._told_over.close()
            watching.join()
            self._over.close()

    def _watch(self) -> None:
        """See the client go, and end what is asked upstream for it. One that talks out of turn counts as gone."""
        poll = select.poll()
        poll.register(self._over, select.POLLIN)
        poll.register(self._client, select.POLLIN)
        if any(file == self._over.fileno() for file, _ in poll.poll()):
            return
        with self._lock:
            self._gone.set()
            if self._far is not None:
                with contextlib.suppress(OSError):
                    self._far.shutdown(socket.SHUT_RDWR)

    def _wait(self, trouble: Trouble, seconds: float) -> None:
        means, until = self._means, time.monotonic() + seconds
        means.troubles.begin(id(self), trouble)
        served = means.standing.served
        while (left := until - time.monotonic()) > 0:
            if trouble.is_shared and means.standing.served != served:
                return  # another request got through: so may this one
            if self._gone.wait(min(left, 0.25)):
                raise Gone
            if time.monotonic() - self._pinged >= PING_SECONDS and (self._begun or self._asks_for_stream()):
                if not self._begun:
                    self._begun = True
                    self._client.sendall(_EARLY)
                self._say(means.care.ping)

    def _asks_for_stream(self) -> bool:
        try:
            document = read_json(self._body, sys.maxsize, deepest=DEEPEST_BODY, mend=True)
        except BadText:
            return False
        return isinstance(document, dict) and document.get("stream") is True

    def _say(self, data: bytes) -> None:
        self._pinged = time.monotonic()
        self._client.sendall(framed(data))

    # ---- one attempt -----------------------------------------------------------------------------

    def _attempt(self) -> Trouble | None:
        """Ask upstream once. None: it has answered, and the client has it."""
        means, where = self._means, self._means.upstream.url
        try:
            connection = connect(means.upstream)
        except OSError as error:
            self._note(502, "")
            return Trouble(patience.kind_of(error), where)
        far = connection.sock
        try:
            self._keep(far)
            try:
                request(connection, self._head, means.upstream, means.secrets, len(self._body), iter((self._body,)))
                response = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                self._refuse_gone()
                self._note(502, "")
                return Trouble(patience.SILENT if isinstance(error, TimeoutError) else patience.BROKEN, where)
            means.standing.hear()
            self._note(response.status, response.getheader("retry-after") or "")
            if patience.is_passing(response.status):
                asked = patience.seconds_asked(response.getheader, time.time())
                return Trouble(patience.STATUS, where, response.status, asked)
            means.troubles.end(id(self))
            return self._take(response)
        finally:
            with self._lock:
                self._far = None
            means.keeper.drop(far)
            connection.close()

    def _keep(self, far: socket.socket) -> None:
        with self._lock:
            self._far = far
        self._refuse_gone()
        if not self._means.keeper.keep(far):
            if self._begun:
                raise Gone
            raise Bad(503, "too many connections at once")

    def _refuse_gone(self) -> None:
        if self._gone.is_set():
            raise Gone

    def _take(self, response: http.client.HTTPResponse) -> Trouble | None:
        streams = (response.getheader("content-type") or "").startswith(STREAM)
        if streams and self._means.care.endings:
            return self._take_stream(response)
        if streams and not self._begun:
            pass_back(self._client, self._head.method, response)
            self._means.standing.serve()
            return None
        return self._take_whole(response)

    # ---- an answer of one piece ------------------------------------------------------------------

    def _take_whole(self, response: http.client.HTTPResponse) -> Trouble | None:
        """Read all of it before any of it is passed on; what there is no room for is passed on as it comes."""
        held, taken, parts = bytearray(), 0, self._parts(response)
        told = response.getheader("Content-Length")
        try:
            for part in parts:
                if not self._means.room.take(len(part)):
                    pass_back(self._client, self._head.method, response, bytes(held + part))
                    return None
                taken += len(part)
                held += part
        except Broken:
            return Trouble(patience.BROKEN, self._means.upstream.url)
        finally:
            self._means.room.give(taken)
        bare = self._head.method == "HEAD"
        if told is not None and told.isdecimal() and len(held) < int(told) and not bare:
            return Trouble(patience.BROKEN, self._means.upstream.url)
        if self._begun:
            self._client.sendall(framed(_as_event(bytes(held))) + b"0\r\n\r\n")
        else:
            self._client.sendall(head_of(response, told if bare and told else str(len(held))) + bytes(held))
        self._means.standing.serve()
        return None

    def _parts(self, response: http.client.HTTPResponse) -> Iterator[bytes]:
        """What comes from upstream; Broken where it breaks off, Gone where the client is why."""
        parts = parts_of(response)
        while True:
            try:
                part = next(parts, b"")
            except OSError as error:
                self._refuse_gone()
                raise Broken from error
            if not part:
                self._refuse_gone()
                return
            self._means.care.heard()
            yield part

    # ---- a stream --------------------------------------------------------------------------------

    def _take_stream(self, response: http.client.HTTPResponse) -> Trouble | None:
        """Hold the events back until the last is there; pings are passed on at once."""
        if not self._begun:
            self._begun = True
            self._client.sendall(head_of(response, None))
        held, rest, taken, loose = bytearray(), b"", 0, False
        broken = Trouble(patience.BROKEN, self._means.upstream.url)
        try:
            for part in self._parts(response):
                loose = loose or not self._means.room.take(len(part))
                taken += 0 if loose else len(part)
                *events, rest = _events(rest + part)
                for event in events:
                    kind = _kind(event)
                    if kind == "error" and (status := _status(event)) and not loose:
                        return Trouble(patience.STATUS, broken.where, status)
                    if kind == "ping":
                        self._say(event)
                        continue
                    held += event
                    if kind in self._means.care.endings or kind == "error":
                        self._say(bytes(held))
                        self._client.sendall(b"0\r\n\r\n")
                        self._means.standing.serve()
                        return None
                if time.monotonic() - self._pinged >= PING_SECONDS:
                    self._say(self._means.care.ping)
                if loose and held:  # there is no room for all of it: from here on it can't be asked for again
                    self._say(bytes(held))
                    held.clear()
        except Broken:
            if loose:
                raise
            return broken
        finally:
            self._means.room.give(taken)
        if loose:
            raise Broken
        return broken


class Broken(ConnectionAbortedError):
    """Upstream's answer breaks off."""


def _events(data: bytes) -> list[bytes]:
    """The whole events at the beginning of some bytes, each with the blank line behind it, and the rest."""
    found, start = list[bytes](), 0
    for blank in _BLANK.finditer(data):
        found.append(data[start : blank.end()])
        start = blank.end()
    return [*found, data[start:]]


def _kind(event: bytes) -> str:
    """An event's type, by its name or by what its data says."""
    for line in event.splitlines():
        if line.startswith(b"event:"):
            return lenient(line[6:].strip())
    return str(_data(event).get("type", ""))


def _data(event: bytes) -> Mapping[str, object]:
    text = b"\n".join(line[5:].strip() for line in event.splitlines() if line.startswith(b"data:"))
    try:
        document = read_json(text, sys.maxsize, deepest=DEEPEST_BODY, mend=True)
    except BadText:
        return {}
    return document if isinstance(document, dict) else {}


def _status(event: bytes) -> int:
    """The status that an error within a stream stands for, where it passes; else 0."""
    error = _data(event).get("error")
    return _ERRORS.get(str(error.get("type")), 0) if isinstance(error, dict) else 0


def _as_event(body: bytes) -> bytes:
    """An answer that refuses, for a client that waits for events."""
    try:
        document = read_json(body, sys.maxsize, deepest=DEEPEST_BODY, mend=True)
    except BadText:
        document = None
    if not isinstance(document, dict) or "error" not in document:
        text = lenient(body[:500])
        document = {"type": "error", "error": {"type": "invalid_request_error", "message": text}}
    return f"event: error\ndata: {json.dumps(document)}\n\n".encode()
