"""Passing a request on to the one upstream, with the key put in, and its answer back as it comes."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from parley.adapters.boundary.messages import Bad, Head, Reader, body_length

CONNECT_SECONDS = 30.0
ANSWER_SECONDS = 900.0
_HOP = frozenset(
    ("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect", "host",
     "content-length")
)  # fmt: skip
_SECRETS = frozenset(("authorization", "proxy-authorization", "x-api-key", "cookie"))
_ODD = re.compile(r"%2e|%2f|%5c|%00|%0a|%0d|%25|%3b|;|\\|#|//|/\.\.?(/|$)", re.IGNORECASE)
_NO_BODY = (204, 304)


class Upstream(NamedTuple):
    """Where requests are passed on to."""

    secure: bool
    host: str
    port: int
    base: str

    @property
    def url(self) -> str:
        """As people write it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = self.port == (443 if self.secure else 80)
        return f"{'https' if self.secure else 'http'}://{host}{'' if usual else f':{self.port}'}{self.base}"


class Keeper(Protocol):
    """Whoever ends connections together with the cage."""

    def keep(self, one: socket.socket) -> bool:
        """Let a connection end with the cage; False if there are too many."""

    def drop(self, one: socket.socket) -> None:
        """A connection is over."""


def parse_upstream(url: str) -> Upstream:
    """A base URL; a ValueError says what is wrong with it."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ValueError(f"{url}: this is no base URL; write https://host[:port][/path]")
    local = parts.hostname in {"localhost", "::1"} or parts.hostname.startswith("127.")
    if parts.scheme == "http" and not local:
        raise ValueError(f"{url}: a key is never sent in the clear; use https")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return Upstream(parts.scheme == "https", parts.hostname, port, parts.path.rstrip("/"))


def path_allowed(target: str, paths: tuple[str, ...]) -> bool:
    """Whether a request's target is a listed path, however it is read; one listed with `*` at its end is a prefix."""
    path = target.partition("?")[0]
    if not path.startswith("/") or _ODD.search(path) or "#" in target:
        return False
    return any(path.startswith(one[:-1]) if one.endswith("*") else path == one for one in paths)


def forward(
    client: socket.socket,
    head: Head,
    upstream: Upstream,
    secrets: Mapping[str, str],
    note: Callable[[int, str], None],
    keeper: Keeper,
) -> None:
    """Pass a request on as it comes, and its answer back."""
    length, reader = body_length(head), body_of(client, head)
    try:
        connection = connect(upstream)
    except OSError as error:
        why = "its certificate is not trusted" if isinstance(error, ssl.SSLError) else "it can't be reached"
        raise Bad(502, f"{upstream.host}: {why}") from error
    kept = connection.sock
    try:
        if not keeper.keep(kept):
            raise Bad(503, "too many connections at once")
        try:
            body = reader.chunks() if length is None else reader.exactly(length)
            request(connection, head, upstream, secrets, length, body)
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise Bad(502, f"{upstream.host} broke off: {type(error).__name__}") from error
        note(response.status, response.getheader("retry-after") or "")
        pass_back(client, head.method, response)
    finally:
        keeper.drop(kept)
        connection.close()


def body_of(client: socket.socket, head: Head) -> Reader:
    """The body of a request, to be read: a client that waits to be asked for it is asked."""
    if any(value.lower() == "100-continue" for value in head.values("expect")):
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    return Reader(client, head.rest)


def connect(upstream: Upstream) -> http.client.HTTPConnection:
    """A connection to upstream; an OSError if there is none to be had."""
    if upstream.secure:
        trusted = ssl.create_default_context()
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            upstream.host, upstream.port, timeout=CONNECT_SECONDS, context=trusted
        )
    else:
        connection = http.client.HTTPConnection(upstream.host, upstream.port, timeout=CONNECT_SECONDS)
    try:
        connection.connect()
    except OSError:
        connection.close()
        raise
    connection.sock.settimeout(ANSWER_SECONDS)
    return connection


def request(
    connection: http.client.HTTPConnection,
    head: Head,
    upstream: Upstream,
    secrets: Mapping[str, str],
    length: int | None,
    body: Iterator[bytes],
) -> None:
    """Send a request upstream, with the key put in. Without a length its body goes in chunks."""
    named = {word.strip().lower() for value in head.values("connection") for word in value.split(",")}
    dropped = _HOP | _SECRETS | named | {name.lower() for name in secrets}
    connection.putrequest(head.method, upstream.base + head.target, skip_accept_encoding=True)
    for name, value in head.fields:
        if name.lower() not in dropped:
            connection.putheader(name, value.encode("latin-1"))
    for name, value in secrets.items():
        connection.putheader(name, value)
    if length is None:
        connection.putheader("Transfer-Encoding", "chunked")
    elif length or head.method in {"POST", "PUT", "PATCH"}:
        connection.putheader("Content-Length", str(length))
    connection.endheaders()
    for part in body:
        connection.send(framed(part) if length is None else part)
    if length is None:
        connection.send(b"0\r\n\r\n")


def pass_back(
    client: socket.socket, method: str, response: http.client.HTTPResponse, begun: bytes | None = None
) -> None:
    """Pass an answer back as it comes; `begun` is what was read of it already."""
    bare = method == "HEAD" or response.status in _NO_BODY
    length = response.getheader("Content-Length")
    if bare and length is None:
        length = ""
    client.sendall(head_of(response, length))
    if bare:
        return
    for part in chain((begun,) if begun else (), parts_of(response)):
        client.sendall(part if length is not None else framed(part))
    if length is None:
        client.sendall(b"0\r\n\r\n")


def head_of(response: http.client.HTTPResponse, length: str | None) -> bytes:
    """An answer's head as it is passed back: with a length, in chunks (None), or without a body (empty)."""
    lines = [f"HTTP/1.1 {response.status} {response.reason}"]
    lines += [f"{name}: {value}" for name, value in response.getheaders() if name.lower() not in _HOP]
    lines.append("Connection: close")
    if length is None:
        lines.append("Transfer-Encoding: chunked")
    elif length:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join([*lines, "\r\n"]).encode("latin-1", "replace")


def parts_of(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The body as it comes: a stream of events is passed on event by event. One that breaks off ends without an end."""
    with contextlib.suppress(ValueError):
        while True:
            try:
                part = response.read1(1 << 16)
            except http.client.HTTPException as error:
                raise ConnectionAbortedError("the answer broke off") from error
            if not part:
                return
            yield part


def framed(part: bytes) -> bytes:
    """Some bytes as a chunk of a body."""
    return b"%x\r\n%b\r\n" % (len(part), part)
