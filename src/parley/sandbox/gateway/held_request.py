"""One request that the gateway holds until the upstream answers it whole.

While the client has nothing of an answer, the gateway waits until trouble is over and asks again: the agent sees a
slow answer instead of a failed one. A stream of events is passed on when its last event is there, so that an answer
that breaks off has no effect. Until then pings keep the client waiting. A client that goes away is noticed at once.
"""

from __future__ import annotations

import contextlib
import json
import re
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import h11

from parley.base.text import BadText, lenient, read_json
from parley.sandbox.gateway import upstream_trouble
from parley.sandbox.gateway.client_connection import ClientConnection, ClientRequest, Headers, RequestRefused
from parley.sandbox.gateway.open_connections import OpenConnections
from parley.sandbox.gateway.upstream import Upstream, UpstreamAnswer, UpstreamConnection, pass_back
from parley.sandbox.gateway.upstream_trouble import (
    ByteBudget,
    HoldPolicy,
    UpstreamHealth,
    UpstreamTrouble,
    WaitingRequests,
)

PING_SECONDS = 10.0
DEEPEST_BODY = 128  # levels of JSON in a request or an answer that is read
STREAM = "text/event-stream"
_BODILESS = (204, 304)
_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_PASSING_ERRORS = {"rate_limit_error": 429, "api_error": 500, "timeout_error": 504, "overloaded_error": 529}
# The head of a stream whose client is sent pings before the upstream has answered.
_EARLY_HEAD = h11.Response(
    status_code=200,
    reason=b"OK",
    headers=[
        ("Content-Type", f"{STREAM}; charset=utf-8"),
        ("Cache-Control", "no-cache"),
        ("Connection", "close"),
    ],
)


@dataclass(frozen=True, slots=True)
class HoldContext:
    """What the held requests of one gateway share."""

    upstream: Upstream
    secrets: Headers
    policy: HoldPolicy
    waiting: WaitingRequests
    health: UpstreamHealth
    budget: ByteBudget
    connections: OpenConnections


class ClientGone(ConnectionAbortedError):
    """The client does not wait any more."""


class BrokenAnswer(ConnectionAbortedError):
    """The upstream's answer breaks off while the gateway holds it."""


class HeldRequest:
    """One request and its answer, in the thread of its connection."""

    def __init__(
        self,
        client: ClientConnection,
        request: ClientRequest,
        body: bytes,
        context: HoldContext,
        note: Callable[[int, str], None],
    ) -> None:
        self._client, self._request, self._body, self._context, self._note = client, request, body, context, note
        self._begun = False  # whether the client has the head of a stream: from then on it gets events
        self._pinged = time.monotonic()
        self._gone = threading.Event()
        self._lock = threading.Lock()
        self._far: socket.socket | None = None
        self._over, self._told_over = socket.socketpair()

    def run(self) -> None:
        """Ask the upstream until it answers, and pass the answer on."""
        watching = threading.Thread(target=self._watch, name="parley-client", daemon=True)
        watching.start()
        failures = 0
        try:
            while (trouble := self._attempt()) is not None:
                seconds, trouble = upstream_trouble.delayed(trouble, failures, self._context.health)
                failures += 1
                self._wait(trouble, seconds)
        finally:
            self._context.waiting.end(id(self))
            self._told_over.close()
            watching.join()
            self._over.close()

    def _watch(self) -> None:
        """Notice that the client goes away, and end what is asked for it. A client that sends more counts as gone."""
        poll = select.poll()
        poll.register(self._over, select.POLLIN)
        poll.register(self._client.socket, select.POLLIN)
        if any(file == self._over.fileno() for file, _ in poll.poll()):
            return
        with self._lock:
            self._gone.set()
            if self._far is not None:
                with contextlib.suppress(OSError):
                    self._far.shutdown(socket.SHUT_RDWR)

    def _wait(self, trouble: UpstreamTrouble, seconds: float) -> None:
        context, until = self._context, time.monotonic() + seconds
        context.waiting.begin(id(self), trouble)
        served = context.health.served
        while (left := until - time.monotonic()) > 0:
            if trouble.is_shared and context.health.served != served:
                return  # another request was answered: this one may be, too
            if self._gone.wait(min(left, 0.25)):
                raise ClientGone
            if time.monotonic() - self._pinged >= PING_SECONDS and (self._begun or self._asks_for_stream()):
                if not self._begun:
                    self._begin_stream(_EARLY_HEAD)
                self._send_events(context.policy.ping)

    def _begin_stream(self, head: h11.Response) -> None:
        self._begun = True
        self._client.send(head)

    def _asks_for_stream(self) -> bool:
        try:
            document = read_json(self._body, sys.maxsize, deepest=DEEPEST_BODY, mend=True)
        except BadText:
            return False
        return isinstance(document, dict) and document.get("stream") is True

    def _send_events(self, data: bytes, *, last: bool = False) -> None:
        self._pinged = time.monotonic()
        self._client.send(h11.Data(data), *([h11.EndOfMessage()] if last else []))

    # ---- one attempt -----------------------------------------------------------------------------

    def _attempt(self) -> UpstreamTrouble | None:
        """Ask the upstream once. None: it has answered, and the client has the answer."""
        context = self._context
        try:
            connection = UpstreamConnection(context.upstream)
        except OSError as error:
            self._note(502, "")
            return UpstreamTrouble(upstream_trouble.kind_of(error), context.upstream.url)
        try:
            self._keep(connection.socket)
            try:
                answer = connection.ask(self._request, context.secrets, (self._body,))
            except OSError as error:
                self._stop_if_gone()
                self._note(502, "")
                kind = upstream_trouble.SILENT if isinstance(error, TimeoutError) else upstream_trouble.BROKEN
                return UpstreamTrouble(kind, context.upstream.url)
            status = answer.head.status_code
            context.health.note_answer()
            self._note(status, answer.header("retry-after"))
            if upstream_trouble.is_passing(status):
                asked = upstream_trouble.seconds_asked(answer.header, time.time())
                return self._trouble(upstream_trouble.STATUS, status, asked)
            context.waiting.end(id(self))
            return self._take(answer)
        finally:
            with self._lock:
                self._far = None
            context.connections.drop(connection.socket)

    def _keep(self, far: socket.socket) -> None:
        with self._lock:
            self._far = far
        self._stop_if_gone()
        if not self._context.connections.keep(far):
            raise RequestRefused(503, "too many connections at once")

    def _stop_if_gone(self) -> None:
        if self._gone.is_set():
            raise ClientGone

    def _trouble(self, kind: str, status: int = 0, asked_seconds: float = 0.0) -> UpstreamTrouble:
        return UpstreamTrouble(kind, self._context.upstream.url, status, asked_seconds)

    def _take(self, answer: UpstreamAnswer) -> UpstreamTrouble | None:
        bodiless = self._request.method == "HEAD" or answer.head.status_code in _BODILESS
        streams = answer.header("content-type").startswith(STREAM) and not bodiless
        if streams and self._context.policy.endings:
            return self._take_stream(answer)
        if streams and not self._begun:
            pass_back(self._client, answer)
            self._context.health.note_served()
            return None
        return self._take_whole(answer)

    # ---- an answer of one piece ------------------------------------------------------------------

    def _take_whole(self, answer: UpstreamAnswer) -> UpstreamTrouble | None:
        """Read all of it before any of it is passed on; what the budget has no room for is passed on as it comes."""
        held, taken = bytearray(), 0
        try:
            for part in self._parts(answer):
                if not self._context.budget.take(len(part)):
                    pass_back(self._client, answer, bytes(held + part))
                    return None
                taken += len(part)
                held += part
        except BrokenAnswer:
            return self._trouble(upstream_trouble.BROKEN)
        finally:
            self._context.budget.give(taken)
        if self._begun:
            self._send_events(_as_event(bytes(held)), last=True)
        else:
            length = str(len(held)) if held else answer.length  # an answer to HEAD has a length, and no body
            self._client.send(answer.head_for_client(length), h11.Data(bytes(held)), h11.EndOfMessage())
        self._context.health.note_served()
        return None

    def _parts(self, answer: UpstreamAnswer) -> Iterator[bytes]:
        """What comes from the upstream; BrokenAnswer where it breaks off, ClientGone where the client is why."""
        while True:
            try:
                part = next(answer.parts, b"")
            except OSError as error:
                self._stop_if_gone()
                raise BrokenAnswer from error
            if not part:
                self._stop_if_gone()
                return
            self._context.policy.heard()
            yield part

    # ---- a stream --------------------------------------------------------------------------------

    def _take_stream(self, answer: UpstreamAnswer) -> UpstreamTrouble | None:
        """Hold the events back until the last is there; pings are passed on at once."""
        if not self._begun:
            self._begin_stream(answer.head_for_client(""))
        held, rest, taken = bytearray(), b"", 0
        loose = False  # whether the budget is spent: what was passed on since then can't be asked for again
        try:
            for part in self._parts(answer):
                loose = loose or not self._context.budget.take(len(part))
                taken += 0 if loose else len(part)
                *events, rest = _events(rest + part)
                for event in events:
                    kind = _kind(event)
                    if kind == "error" and (status := _passing_status(event)) and not loose:
                        return self._trouble(upstream_trouble.STATUS, status)
                    if kind == "ping":
                        self._send_events(event)
                        continue
                    held += event
                    if kind in self._context.policy.endings or kind == "error":
                        self._send_events(bytes(held), last=True)
                        self._context.health.note_served()
                        return None
                if time.monotonic() - self._pinged >= PING_SECONDS:
                    self._send_events(self._context.policy.ping)
                if loose and held:
                    self._send_events(bytes(held))
                    held.clear()
        except BrokenAnswer:
            if loose:
                raise
            return self._trouble(upstream_trouble.BROKEN)
        finally:
            self._context.budget.give(taken)
        if loose:
            raise BrokenAnswer
        return self._trouble(upstream_trouble.BROKEN)


def _events(data: bytes) -> list[bytes]:
    """The whole events at the beginning of some bytes, each with the blank line after it, and the rest."""
    found, start = list[bytes](), 0
    for blank in _BLANK_LINE.finditer(data):
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


def _passing_status(event: bytes) -> int:
    """The status that an error within a stream stands for, if it is one that passes; else 0."""
    error = _data(event).get("error")
    return _PASSING_ERRORS.get(str(error.get("type")), 0) if isinstance(error, dict) else 0


def _as_event(body: bytes) -> bytes:
    """An answer that refuses, as an event: its client waits for a stream."""
    try:
        document = read_json(body, sys.maxsize, deepest=DEEPEST_BODY, mend=True)
    except BadText:
        document = None
    if not isinstance(document, dict) or "error" not in document:
        text = lenient(body[:500])
        document = {"type": "error", "error": {"type": "invalid_request_error", "message": text}}
    return f"event: error\ndata: {json.dumps(document)}\n\n".encode()
