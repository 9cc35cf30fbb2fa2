"""The one upstream of a cage: requests are passed on to it with the key put in, and its answers back."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import h11

from parley.ports.turns import BoundaryError
from parley.sandbox.gateway.client_connection import (
    HEAD_LIMIT,
    RECEIVE_BYTES,
    ClientConnection,
    ClientRequest,
    Headers,
    RequestRefused,
)
from parley.sandbox.gateway.open_connections import OpenConnections

CONNECT_SECONDS = 30.0
ANSWER_SECONDS = 900.0
_HOP_BY_HOP = frozenset((
    b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect",
    b"host", b"content-length",
))  # fmt: skip
_WRITTEN_HERE = frozenset((b"host", b"content-length", b"transfer-encoding"))
_SECRETS = frozenset((b"authorization", b"proxy-authorization", b"x-api-key", b"cookie"))
_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))


class Upstream(NamedTuple):
    """Where requests are passed on to."""

    secure: bool
    host: str
    port: int
    base: str  # the path before every target

    @property
    def authority(self) -> str:
        """Host and port, as in a URL and in the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """As people write it."""
        return f"{'https' if self.secure else 'http'}://{self.authority}{self.base}"


def parse_upstream(url: str) -> Upstream:
    """A base URL; a ValueError says what is wrong with it."""
    parts = urlsplit(url)
    plain = url.isascii() and url.isprintable() and " " not in url
    more = parts.query or parts.fragment or parts.username
    if not plain or parts.scheme not in {"http", "https"} or not parts.hostname or more:
        raise ValueError(f"{url}: this is no base URL; write https://host[:port][/path]")
    local = parts.hostname in {"localhost", "::1"} or parts.hostname.startswith("127.")
    if parts.scheme == "http" and not local:
        raise ValueError(f"{url}: a key is never sent in the clear; use https")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return Upstream(parts.scheme == "https", parts.hostname, port, parts.path.rstrip("/"))


def secret_headers(given: Mapping[str, str]) -> Headers:
    """The headers with the key, as they are sent; a BoundaryError names one that can't be sent, without its value."""
    found: Headers = []
    for name, value in given.items():
        if name.lower().encode() in _WRITTEN_HERE:
            raise BoundaryError(f"the header {name!a} can't be set for the API: the gateway writes it; leave it out")
        try:
            found.append((name.encode("ascii"), value.strip().encode("latin-1")))
            h11.Response(status_code=200, headers=found)  # h11 checks them as it makes it
        except (UnicodeEncodeError, h11.LocalProtocolError):
            raise BoundaryError(
                f"the header {name!a} can't be sent to the API: its value has a line break, or another character that "
                "no header may have; set it again"
            ) from None
    return found


@dataclass(frozen=True, slots=True)
class UpstreamAnswer:
    """The upstream's answer: its head, and its body as it comes."""

    head: h11.Response
    parts: Iterator[bytes]  # an OSError where the body breaks off

    def header(self, name: str) -> str:
        """The first header of that name, or nothing."""
        wanted = name.encode("ascii")
        return next((value.decode("latin-1") for key, value in self.head.headers if key == wanted), "")

    @property
    def length(self) -> str:
        """How long the body is said to be; empty if it comes in chunks, or ends with its connection."""
        return "" if self.header("transfer-encoding") else self.header("content-length")

    def head_for_client(self, length: str) -> h11.Response:
        """The head as it is passed back, with that length; without one h11 sends the body in chunks."""
        headers = [*_end_to_end(self.head.headers.raw_items()), (b"Connection", b"close")]
        if length:
            headers.append((b"Content-Length", length.encode("ascii")))
        return h11.Response(status_code=self.head.status_code, reason=self.head.reason, headers=headers)


class UpstreamConnection:
    """A connection to the upstream, for one request. An OSError says that it can't be reached, or broke off."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._http = h11.Connection(h11.CLIENT, HEAD_LIMIT)
        self.socket = _connect(upstream)

    def ask(self, request: ClientRequest, secrets: Headers, body: Iterable[bytes]) -> UpstreamAnswer:
        """Send a request with the key put in, and wait for the answer."""
        target = self._upstream.base + request.target
        self._send(h11.Request(method=request.method, target=target, headers=self._headers(request, secrets)))
        for part in body:
            self._send(h11.Data(part))
        self._send(h11.EndOfMessage())
        while isinstance(event := self._next_event(), h11.InformationalResponse):
            pass
        return UpstreamAnswer(cast("h11.Response", event), self._parts())

    def _headers(self, request: ClientRequest, secrets: Headers) -> Headers:
        given = _SECRETS | {name.lower() for name, _ in secrets}
        headers = [(b"Host", self._upstream.authority.encode("ascii"))]
        headers += [*_end_to_end(request.headers, given), *secrets]
        if request.length is None:
            headers.append((b"Transfer-Encoding", b"chunked"))
        elif request.length or request.method in _WITH_BODY:
            headers.append((b"Content-Length", b"%d" % request.length))
        return headers

    def _parts(self) -> Iterator[bytes]:
        while isinstance(event := self._next_event(), h11.Data):
            yield bytes(event.data)

    def _send(self, event: h11.Event) -> None:
        if data := self._http.send(event):  # a send of nothing would take a reset that lies behind an answer
            self.socket.sendall(data)

    def _next_event(self) -> object:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(self.socket.recv(RECEIVE_BYTES))
        except h11.RemoteProtocolError as error:
            raise ConnectionAbortedError(f"the answer is not whole: {error}") from error
        return event


def _connect(upstream: Upstream) -> socket.socket:
    connection = socket.create_connection((upstream.host, upstream.port), CONNECT_SECONDS)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if upstream.secure:
            connection = ssl.create_default_context().wrap_socket(connection, server_hostname=upstream.host)
        connection.settimeout(ANSWER_SECONDS)
    except OSError:
        connection.close()
        raise
    return connection


def _end_to_end(headers: Headers, dropped: Collection[bytes] = ()) -> Headers:
    """The headers that are not for this connection alone, without some others."""
    lists = [value.lower().split(b",") for name, value in headers if name.lower() == b"connection"]
    named = {word.strip() for words in lists for word in words}
    return [(name, value) for name, value in headers if name.lower() not in {*_HOP_BY_HOP, *named, *dropped}]


def forward(
    client: ClientConnection,
    request: ClientRequest,
    upstream: Upstream,
    secrets: Headers,
    note: Callable[[int, str], None],
    connections: OpenConnections,
) -> None:
    """Pass a request on as it comes, and its answer back."""
    try:
        connection = UpstreamConnection(upstream)
    except OSError as error:
        why = "its certificate is not trusted" if isinstance(error, ssl.SSLError) else "it can't be reached"
        raise RequestRefused(502, f"{upstream.host}: {why}") from error
    try:
        if not connections.keep(connection.socket):
            raise RequestRefused(503, "too many connections at once")
        try:
            answer = connection.ask(request, secrets, client.body())
        except OSError as error:
            raise RequestRefused(502, f"{upstream.host} broke off: {type(error).__name__}") from error
        note(answer.head.status_code, answer.header("retry-after"))
        pass_back(client, answer)
    finally:
        connections.drop(connection.socket)


def pass_back(client: ClientConnection, answer: UpstreamAnswer, begun: bytes = b"") -> None:
    """Pass an answer back as it comes; `begun` is what was read of its body already. One that breaks off has no end."""
    client.send(answer.head_for_client(answer.length))
    for part in chain((begun,), answer.parts):
        client.send(h11.Data(part))
    client.send(h11.EndOfMessage())
