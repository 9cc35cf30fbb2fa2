"""HTTP/1.1 as the gateway reads it: strictly, so that nobody behind it can read the same bytes in another way."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass

HEAD_LIMIT = 64 << 10
BODY_LIMIT = 512 << 20
LINE_LIMIT = 256  # a chunk's size takes a dozen
CHUNKS_FREE = 1024  # a body may have so many chunks of any size
CHUNK_MEAN = 64  # bytes that they have to hold on average where there are more
_LINE = re.compile(rb"([A-Z]{1,20}) ([\x21-\x7e]{1,8192}) HTTP/1\.[01]")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\t\x80-\xff]*)")
_SIZE = re.compile(rb"[0-9A-Fa-f]{1,12}")
REASONS = {
    400: "Bad Request", 403: "Forbidden", 405: "Method Not Allowed", 411: "Length Required", 413: "Content Too Large",
    431: "Request Header Fields Too Large", 502: "Bad Gateway", 503: "Service Unavailable",
}  # fmt: skip


class Bad(Exception):
    """A request that is refused, and with which status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class CutShort(Bad):
    """A request whose sender went away: it was not refused for what it asked."""


@dataclass(slots=True)
class Head:
    """A request's beginning, and whatever came along with it."""

    method: str
    target: str
    fields: list[tuple[str, str]]
    rest: bytes

    def values(self, name: str) -> list[str]:
        """All that a header of that name says."""
        return [value for key, value in self.fields if key.lower() == name]


def answer(status: int, text: str) -> bytes:
    """A whole answer of the gateway's own: one line."""
    body = f"parley: {text}\n".encode("utf-8", "replace")
    head = f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def read_head(client: socket.socket) -> Head:
    """A request's beginning, or Bad."""
    data = b""
    while b"\r\n\r\n" not in data:
        if len(data) > HEAD_LIMIT:
            raise Bad(431, "the request's head is too long")
        part = client.recv(1 << 14)
        if not part:
            raise CutShort(400, "the request ended within its head")
        data += part
    raw, _, rest = data.partition(b"\r\n\r\n")
    if len(raw) > HEAD_LIMIT:
        raise Bad(431, "the request's head is too long")
    first, *lines = raw.split(b"\r\n")
    line = _LINE.fullmatch(first)
    if line is None:
        raise Bad(400, "the request line can't be read")
    fields = []
    for one in lines:
        matched = _FIELD.fullmatch(one)
        if matched is None:
            raise Bad(400, "a header can't be read")
        fields.append((matched[1].decode("ascii"), matched[2].decode("latin-1").strip(" \t")))
    return Head(line[1].decode(), line[2].decode(), fields, rest)


def body_length(head: Head) -> int | None:
    """How long the body is; None if it comes in chunks. Anything that could be read in two ways is refused."""
    lengths, encodings = head.values("content-length"), head.values("transfer-encoding")
    if encodings:
        if lengths or encodings != ["chunked"]:
            raise Bad(400, "the length of the body is told in more than one way")
        return None
    if not lengths:
        return 0
    if len(lengths) > 1 or not re.fullmatch(r"[0-9]{1,12}", lengths[0], re.ASCII):
        raise Bad(400, "the length of the body can't be read")
    if int(lengths[0]) > BODY_LIMIT:
        raise Bad(413, "the body is too long")
    return int(lengths[0])


class Reader:
    """What comes from a client, beginning with what was read along with the head."""

    def __init__(self, client: socket.socket, rest: bytes) -> None:
        self._client = client
        self._rest = rest
        self._at = 0  # how much of it was taken

    def _more(self) -> None:
        self._rest, self._at = self._client.recv(1 << 16), 0
        if not self._rest:
            raise CutShort(400, "the request ended within its body")

    def _some(self, limit: int) -> bytes:
        if self._at == len(self._rest):
            self._more()
        part = self._rest[self._at : self._at + limit]
        self._at += len(part)
        return part

    def exactly(self, length: int) -> Iterator[bytes]:
        """So many bytes, as they come."""
        while length:
            part = self._some(length)
            length -= len(part)
            yield part

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\r\n"):
            if self._at == len(self._rest):
                self._more()
            end = self._rest.find(b"\n", self._at, self._at + LINE_LIMIT)
            line += self._some(end + 1 - self._at if end >= 0 else LINE_LIMIT)
            if len(line) > LINE_LIMIT:
                raise Bad(400, "a chunk's size can't be read")
        return line[:-2]

    def chunks(self) -> Iterator[bytes]:
        """A body in chunks, without their frames. What follows the last one is dropped."""
        total = count = 0
        while True:
            line = self._line()
            if not _SIZE.fullmatch(line):
                raise Bad(400, "a chunk's size can't be read")
            size = int(line, 16)
            total += size
            if total > BODY_LIMIT:
                raise Bad(413, "the body is too long")
            if not size:
                while self._line():
                    pass
                return
            count += 1
            if count > CHUNKS_FREE + total // CHUNK_MEAN:
                raise Bad(400, "the body comes in too many small chunks")
            yield from self.exactly(size)
            if self._line():
                raise Bad(400, "a chunk is longer than it says")
