"""The one way out of a cage: an HTTP proxy on a socket that the cage's launcher opened and handed out.

CONNECT opens a tunnel to a listed host. A plain request for a listed path is passed on to the upstream, where the key
is put in: the key never enters the cage. Nothing that comes from inside is trusted.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from parley.base.text import cut
from parley.sandbox.cage import Route
from parley.sandbox.gateway.client_connection import ClientConnection, ClientRequest, CutShort, RequestRefused
from parley.sandbox.gateway.held_request import HeldRequest, HoldContext
from parley.sandbox.gateway.open_connections import OpenConnections
from parley.sandbox.gateway.path_rules import path_allowed
from parley.sandbox.gateway.upstream import forward, parse_upstream, secret_headers
from parley.sandbox.gateway.upstream_trouble import ByteBudget, UpstreamHealth, WaitingRequests

MAX_CONNECTIONS = 128  # to the gateway and from it
MAX_REMEMBERED_REQUESTS = 1000
MAX_REMEMBERED_REFUSALS = 100
REFUSAL_CHARACTERS = 300
TARGET_CHARACTERS = 100  # of the target, in a refusal
METHOD_CHARACTERS = 20
SERVER_ERROR = 500  # from this status on, it is not the request that is at fault
PROBE = "/.parley"  # what the launcher asks for, to see that the gateway refuses it
HELD_BYTES = 64 << 20  # of requests and answers that are held at a time; what goes beyond is passed on as it comes
HEAD_SECONDS = 60.0
CONNECT_SECONDS = 15.0
IDLE_SECONDS = 900.0


class Request(NamedTuple):
    """One request that a cage made."""

    method: str
    target: str
    status: int
    retry_after: str = ""  # what the upstream said when it was asked too often


class Gateway:
    """Serves one cage until it is closed."""

    def __init__(
        self,
        listener: socket.socket,
        route: Route,
        hosts: Collection[str] = (),
        health: UpstreamHealth | None = None,
    ) -> None:
        """`hosts` may be reached besides the route's. `health` is what this process knows of the route's upstream."""
        self._listener = listener
        self._route = route
        self._secrets = secret_headers(route.headers)
        self._upstream = parse_upstream(route.upstream) if route.upstream else None
        self._connections = OpenConnections(MAX_CONNECTIONS)
        self._budget = ByteBudget(HELD_BYTES)
        self._hold: HoldContext | None = None
        if self._upstream is not None and route.hold is not None:
            self._hold = HoldContext(
                upstream=self._upstream,
                secrets=self._secrets,
                policy=route.hold,
                waiting=WaitingRequests(route.hold),
                health=health or UpstreamHealth(),
                budget=self._budget,
                connections=self._connections,
            )
        self._hosts = {host.lower() for host in (*route.hosts, *hosts)}
        self._lock = threading.Lock()
        self._requests: deque[Request] = deque(maxlen=MAX_REMEMBERED_REQUESTS)
        self._refusals: dict[str, None] = {}  # since they were last told, each once
        threading.Thread(target=self._accept, name="parley-gateway", daemon=True).start()

    def forget(self) -> None:
        """Forget the requests so far."""
        self._requests.clear()
        self._refusals.clear()

    def tell_denied(self) -> tuple[str, ...]:
        """What was refused since this was last asked, each once, with the reason."""
        with self._lock:
            refusals, self._refusals = self._refusals, {}
        return tuple(refusals)

    def requests(self) -> list[Request]:
        """The last requests, oldest first."""
        with self._lock:
            return list(self._requests)

    def close(self) -> None:
        """End every connection."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._connections.end()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._connections.keep(client):
                threading.Thread(target=self._serve, args=(client,), name="parley-request", daemon=True).start()
            else:
                with contextlib.suppress(OSError):
                    ClientConnection(client).refuse(RequestRefused(503, "too many connections at once"))
                client.close()

    def _note(self, request: ClientRequest | None, status: int, retry_after: str = "") -> None:
        method, target = _shown(request, 500)
        with self._lock:
            self._requests.append(Request(method, target, status, cut(retry_after, 100)))

    def _remember(self, request: ClientRequest | None, refusal: RequestRefused) -> None:
        """Remember a refusal for the audit, unless the client went away or the upstream is at fault."""
        probe = request is not None and request.target == PROBE
        if probe or isinstance(refusal, CutShort) or refusal.status >= SERVER_ERROR:
            return
        asked = "{} {}: ".format(*_shown(request, TARGET_CHARACTERS)) if request is not None else ""
        with self._lock:
            if len(self._refusals) < MAX_REMEMBERED_REFUSALS:
                self._refusals[cut(f"the way out: {asked}{refusal}", REFUSAL_CHARACTERS)] = None

    def _serve(self, connection: socket.socket) -> None:
        client, request = ClientConnection(connection), None
        try:
            connection.settimeout(HEAD_SECONDS)
            request = client.read_request()
            connection.settimeout(IDLE_SECONDS)
            if request.method == "CONNECT":
                self._tunnel(client, request)
            else:
                self._pass_on(client, request)
        except RequestRefused as refusal:
            self._note(request, refusal.status)
            self._remember(request, refusal)
            with contextlib.suppress(OSError):
                client.refuse(refusal)
        except OSError:
            pass  # the client or the upstream has gone
        finally:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            self._connections.drop(connection)

    def _tunnel(self, client: ClientConnection, request: ClientRequest) -> None:
        shown = cut(request.target, 200)
        if request.target.lower() not in self._hosts:
            raise RequestRefused(403, f"{shown} is not on the list of hosts")
        host, _, port = request.target.rpartition(":")
        try:
            far = socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS)
        except (OSError, ValueError) as error:
            raise RequestRefused(502, f"{shown} can't be reached") from error
        try:
            if not self._connections.keep(far):
                raise RequestRefused(503, "too many connections at once")
            far.settimeout(IDLE_SECONDS)
            self._note(request, 200)
            far.sendall(client.open_tunnel())
            back = threading.Thread(target=_pump, args=(far, client.socket), name="parley-answer", daemon=True)
            back.start()
            _pump(client.socket, far)
            back.join()
        finally:
            self._connections.drop(far)

    def _pass_on(self, client: ClientConnection, request: ClientRequest) -> None:
        method, target = _shown(request, 200)
        if self._upstream is None or not path_allowed(request.target, self._route.paths):
            raise RequestRefused(403, f"{method} {target} is not on the list of paths")
        if request.method not in self._route.methods:
            allowed = ", ".join(self._route.methods)
            raise RequestRefused(405, f"{method} is not a method that may be used here; use {allowed}")

        def note(status: int, retry_after: str) -> None:
            self._note(request, status, retry_after)

        length = request.length
        if self._hold is None or length is None or not self._budget.take(length):
            forward(client, request, self._upstream, self._secrets, note, self._connections)
            return
        try:
            body = b"".join(client.body())
            HeldRequest(client, request, body, context=self._hold, note=note).run()
        finally:
            self._budget.give(length)


def _shown(request: ClientRequest | None, characters: int) -> tuple[str, str]:
    """A request's method and target, for people."""
    if request is None:
        return "", ""
    return cut(request.method, METHOD_CHARACTERS), cut(request.target, characters)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(1 << 16):
            sink.sendall(part)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
