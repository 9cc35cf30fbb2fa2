"""The one way out of a cage: an HTTP proxy that serves a socket which the cage itself opened.

CONNECT goes to listed hosts only. Plain requests for listed paths are passed upstream, where the key is put in: the
cage never holds it. What comes from inside is untrusted to the last byte.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from parley.adapters.boundary.cage import Route
from parley.adapters.boundary.delivery import Delivery, Means
from parley.adapters.boundary.messages import Bad, CutShort, Head, answer, body_length, read_head
from parley.adapters.boundary.patience import Room, Standing, Troubles
from parley.adapters.boundary.upstream import body_of, forward, parse_upstream, path_allowed
from parley.text import cut

CONNECTIONS = 64
REMEMBERED = 1000
DENIALS = 100  # that are remembered, each once
LONGEST = 300  # characters of one
LONGEST_TARGET = 100  # characters of what was asked for
TROUBLE = 500  # from this status on
PROBE = "/.parley"  # asked for by the launcher
HELD_BYTES = 64 << 20  # of requests and answers that one cage has held at a time; what is more is passed on as it comes
HEAD_SECONDS = 60.0
CONNECT_SECONDS = 15.0
IDLE_SECONDS = 900.0


class Request(NamedTuple):
    """One request that a cage made."""

    method: str
    target: str
    status: int
    retry_after: str = ""  # what upstream said when it was asked too often


class Gateway:
    """Serves one cage until it is closed."""

    def __init__(
        self,
        listener: socket.socket,
        route: Route,
        hosts: Collection[str] = (),
        standing: Standing | None = None,
    ) -> None:
        """`standing` is what this process knows of the route's upstream."""
        self._listener = listener
        self._route = route
        self._upstream = parse_upstream(route.upstream) if route.upstream else None
        self._room = Room(HELD_BYTES)
        self._means: Means | None = None
        if self._upstream is not None and route.care is not None:
            troubles = Troubles(route.care)
            known = standing or Standing()
            self._means = Means(self._upstream, route.headers, route.care, troubles, known, self._room, self)
        self._hosts = {host.lower() for host in (*route.hosts, *hosts)}
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closed = False
        self._requests: deque[Request] = deque(maxlen=REMEMBERED)
        self._denied: dict[str, None] = {}  # in words, since they were last told
        threading.Thread(target=self._accept, name="parley-gateway", daemon=True).start()

    def forget(self) -> None:
        """Forget the requests so far."""
        self._requests.clear()
        self._denied.clear()

    def tell_denied(self) -> tuple[str, ...]:
        """What was refused since this was last asked, each once, with the reason."""
        with self._lock:
            denied, self._denied = self._denied, {}
        return tuple(denied)

    def requests(self) -> list[Request]:
        """The last requests, oldest first."""
        with self._lock:
            return list(self._requests)

    def close(self) -> None:
        """End every connection."""
        with self._lock:
            self._closed = True
            for one in (self._listener, *self._open):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._keep(client):
                threading.Thread(target=self._serve, args=(client,), name="parley-request", daemon=True).start()
            else:
                with contextlib.suppress(OSError):
                    client.sendall(answer(503, "too many connections at once"))
                client.close()

    def _keep(self, one: socket.socket) -> bool:
        with self._lock:
            if self._closed or len(self._open) >= 2 * CONNECTIONS:
                return False
            self._open.add(one)
            return True

    def _drop(self, one: socket.socket) -> None:
        with self._lock:
            self._open.discard(one)
        one.close()

    def _note(self, head: Head | None, status: int, retry_after: str = "") -> None:
        method, target = (head.method, cut(head.target, 500)) if head else ("", "")
        with self._lock:
            self._requests.append(Request(method, target, status, cut(retry_after, 100)))

    def _deny(self, head: Head | None, bad: Bad) -> None:
        """Remember a refusal; that upstream can't be reached, or is asked too much at once, is none."""
        if isinstance(bad, CutShort) or bad.status >= TROUBLE or (head is not None and head.target == PROBE):
            return
        asked = f"{head.method} {cut(head.target, LONGEST_TARGET)}: " if head is not None else ""
        with self._lock:
            if len(self._denied) < DENIALS:
                self._denied[cut(f"the way out: {asked}{bad}", LONGEST)] = None

    def _serve(self, client: socket.socket) -> None:
        head = None
        try:
            client.settimeout(HEAD_SECONDS)
            head = read_head(client)
            client.settimeout(IDLE_SECONDS)
            if head.method == "CONNECT":
                self._tunnel(client, head)
            else:
                self._pass_on(client, head)
        except Bad as bad:
            self._note(head, bad.status)
            self._deny(head, bad)
            with contextlib.suppress(OSError):
                client.sendall(answer(bad.status, str(bad)))
        except OSError:
            pass  # the one side or the other has gone
        finally:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
            self._drop(client)

    def _tunnel(self, client: socket.socket, head: Head) -> None:
        if head.target.lower() not in self._hosts:
            raise Bad(403, f"{cut(head.target, 200)} is not on the list of hosts")
        host, _, port = head.target.rpartition(":")
        try:
            far = socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS)
        except (OSError, ValueError) as error:
            raise Bad(502, f"{cut(head.target, 200)} can't be reached") from error
        if not self._keep(far):
            far.close()
            raise Bad(503, "too many connections at once")
        try:
            far.settimeout(IDLE_SECONDS)
            self._note(head, 200)
            client.sendall(b"HTTP/1.1 200 Connection Established\r\n\r\n")
            far.sendall(head.rest)
            back = threading.Thread(target=_pump, args=(far, client), name="parley-answer", daemon=True)
            back.start()
            _pump(client, far)
            back.join()
        finally:
            self._drop(far)

    def _pass_on(self, client: socket.socket, head: Head) -> None:
        if self._upstream is None or not path_allowed(head.target, self._route.paths):
            raise Bad(403, f"{head.method} {cut(head.target, 200)} is not on the list of paths")
        if head.method not in self._route.methods:
            raise Bad(405, f"{head.method} is not a method that may be used here; use {', '.join(self._route.methods)}")

        def note(status: int, after: str) -> None:
            self._note(head, status, after)

        length = body_length(head)
        if self._means is None or length is None or not self._room.take(length):
            forward(client, head, self._upstream, self._route.headers, note, self)
            return
        try:
            body = b"".join(body_of(client, head).exactly(length))
            Delivery(client, head, body, self._means, note).run()
        finally:
            self._room.give(length)

    # what upstream.py and delivery.py need to know: connections that end with the cage

    def keep(self, one: socket.socket) -> bool:
        """Let a connection end with this gateway."""
        return self._keep(one)

    def drop(self, one: socket.socket) -> None:
        """A connection is over."""
        with self._lock:
            self._open.discard(one)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(1 << 16):
            sink.sendall(chunk)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
