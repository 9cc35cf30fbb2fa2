"""A connection that a program in the cage opens: its one request, read strictly, and the answer to it.

h11 reads HTTP/1.1, and is lenient towards old programs: it joins folded lines, ends lines at a bare line feed, merges
repeated lengths, drops chunk extensions. Another program may read the same bytes differently, and act on what was
never judged here. So the functions named `_refuse_…` refuse what h11 would let pass.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast

import h11

HEAD_LIMIT = 64 << 10  # bytes
TARGET_LIMIT = 8 << 10  # bytes
BODY_LIMIT = 512 << 20  # bytes
FREE_CHUNKS = 1024  # a body may have this many chunks of any size
MEAN_CHUNK = 64  # bytes that chunks hold on average, at least, where there are more
RECEIVE_BYTES = 16 << 10  # at a time: a head may go beyond its limit by as much before h11 looks
HEAD, BODY = "head", "body"
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,12}")
_CHUNK_LINE_BYTES = 14  # twelve digits and the line's end
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")

Headers = list[tuple[bytes, bytes]]


class RequestRefused(Exception):
    """A request that the gateway refuses: the status of the answer, and its one line."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class CutShort(RequestRefused):
    """A request whose client went away before its end."""


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request without its body."""

    method: str
    target: str
    headers: Headers
    length: int | None  # of the body, in bytes; None: the body comes in chunks


class ClientConnection:
    """The gateway's end of such a connection. It serves one request; what follows that is never read."""

    def __init__(self, client: socket.socket) -> None:
        self.socket = client
        self._http = h11.Connection(h11.SERVER, HEAD_LIMIT)
        self._head = bytearray()  # as it was received
        self._method = b""  # as soon as it is read
        self._chunked = False

    def read_request(self) -> ClientRequest:
        """The request, without its body."""
        request = cast("h11.Request", self._next_event(HEAD))  # h11 reads nothing else first
        self._method = request.method
        received = bytes(self._head[: len(self._head) - len(self._http.trailing_data[0])])
        _refuse_ambiguous_head(received, request)
        _refuse_other_versions(request)
        length = _body_length(request)
        self._chunked = length is None
        method, target = request.method.decode("ascii"), request.target.decode("ascii")
        return ClientRequest(method, target, request.headers.raw_items(), length)

    def body(self) -> Iterator[bytes]:
        """The request's body, as it comes. A client that waits for `100 Continue` is told to send it."""
        if self._http.they_are_waiting_for_100_continue:
            self.send(h11.InformationalResponse(status_code=100, reason=b"Continue", headers=[]))
        if self._chunked:
            self._refuse_odd_chunk(0)
        size = chunks = 0
        while isinstance(event := self._next_event(BODY), h11.Data):
            size += len(event.data)
            chunks += event.chunk_start
            if size > BODY_LIMIT:
                raise RequestRefused(413, f"the body is longer than {BODY_LIMIT} bytes")
            if chunks > FREE_CHUNKS + size // MEAN_CHUNK:
                raise RequestRefused(400, "the body comes in too many small chunks")
            yield bytes(event.data)
            if event.chunk_end:
                self._refuse_odd_chunk(len(b"\r\n"))

    def open_tunnel(self) -> bytes:
        """Answer CONNECT: the tunnel is open. Returns what the client has sent into it already."""
        self._next_event(BODY)
        self.send(h11.Response(status_code=200, reason=b"Connection Established", headers=[]))
        return self._http.trailing_data[0]

    def send(self, *events: h11.Event) -> None:
        """Send parts of the answer."""
        if data := b"".join(self._http.send(event) or b"" for event in events):
            self.socket.sendall(data)

    def refuse(self, refusal: RequestRefused) -> None:
        """Answer with a refusal, unless another answer has begun."""
        if self._http.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            return
        line = f"parley: {refusal}\n".encode("utf-8", "replace")
        headers = [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(line))),
            ("Connection", "close"),
        ]
        reason = HTTPStatus(refusal.status).phrase
        self.send(
            h11.Response(status_code=refusal.status, reason=reason, headers=headers),
            h11.Data(line if self._method != b"HEAD" else b""),
            h11.EndOfMessage(),
        )

    def _next_event(self, part: str) -> object:
        """What h11 reads next; `part` names what is being read."""
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                data = self._receive(part)
                if part == HEAD:
                    self._head += data
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
                raise _long_head() from error
            what = str(error).partition(": b")[0]  # without the bytes that it quotes
            raise RequestRefused(400, f"the request's {part} is not HTTP/1.1: {what}") from error
        return event

    def _receive(self, part: str) -> bytes:
        data = self.socket.recv(RECEIVE_BYTES)
        if not data:
            raise CutShort(400, f"the request ended within its {part}")
        self._http.receive_data(data)
        return data

    def _refuse_odd_chunk(self, start: int) -> None:
        """Look at what announces the next chunk before h11 does: h11 drops extensions, spaces and trailers unseen.

        The first `start` bytes that wait are the end of the chunk before, which h11 checks.
        """
        while b"\r\n" not in (waiting := self._http.trailing_data[0][start:]) and len(waiting) < _CHUNK_LINE_BYTES:
            self._receive(BODY)
        size, _, rest = waiting.partition(b"\r\n")
        if not _CHUNK_SIZE.fullmatch(size):
            raise RequestRefused(400, "a chunk's size is not a plain hexadecimal number on a line of its own")
        if int(size, 16) == 0:
            while len(rest) < len(b"\r\n"):
                rest += self._receive(BODY)
            if not rest.startswith(b"\r\n"):
                raise RequestRefused(400, "a body in chunks must end without trailers")


def _long_head() -> RequestRefused:
    return RequestRefused(431, f"the request's head is longer than {HEAD_LIMIT} bytes")


def _refuse_ambiguous_head(received: bytes, request: h11.Request) -> None:
    """Refuse a head that h11 had to mend: its lines must say, one by one, what h11 has read."""
    if len(received) > HEAD_LIMIT:  # h11 bounds only a head whose end is not there yet
        raise _long_head()
    line, *lines = received.removesuffix(b"\r\n\r\n").split(b"\r\n")
    written = [(name, value.strip(b" \t")) for name, _, value in (header.partition(b":") for header in lines)]
    read = b"%b %b HTTP/%b" % (request.method, request.target, request.http_version)
    if line != read or written != request.headers.raw_items():
        raise RequestRefused(
            400, "a header is folded, listed or repeated, in odd letters, or a line ends without CR LF"
        )
    if any(_CONTROL.search(value) for _, value in request.headers):  # h11 refuses NUL and line ends only
        raise RequestRefused(400, "a header holds a control character")
    if len(request.target) > TARGET_LIMIT:
        raise RequestRefused(414, f"the target is longer than {TARGET_LIMIT} bytes")


def _refuse_other_versions(request: h11.Request) -> None:
    """Refuse other versions, which h11 takes for HTTP/1.1 or for 1.0.

    An answer in HTTP/1.0 ends where its connection does, so that one that broke off would look whole. A tunnel has no
    such answer, and programs still ask for it in HTTP/1.0.
    """
    if request.http_version != b"1.1" and not (request.method == b"CONNECT" and request.http_version == b"1.0"):
        raise RequestRefused(400, f"HTTP/{request.http_version.decode('ascii')} is not served; use HTTP/1.1")


def _body_length(request: h11.Request) -> int | None:
    """How many bytes the body has; None if it comes in chunks. h11 prefers chunks where a request says both."""
    said = dict(request.headers)
    chunked, length = b"transfer-encoding" in said, said.get(b"content-length")
    if chunked and length is not None:
        raise RequestRefused(400, "the request says both Content-Length and Transfer-Encoding")
    if request.method == b"CONNECT" and (chunked or int(length or b"0")):
        raise RequestRefused(400, "CONNECT takes no body")
    if chunked:
        return None
    if int(length or b"0") > BODY_LIMIT:
        raise RequestRefused(413, f"the body is longer than {BODY_LIMIT} bytes")
    return int(length or b"0")
