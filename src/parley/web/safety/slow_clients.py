"""Connections of clients that send nothing, or forever: each has to send the head of a request within some seconds.

Otherwise a handful of idle connections would take all that the server may have open. And of clients that send what is
no HTTP in the middle of a request: each is cut off without a word in the server's own output.
"""

from __future__ import annotations

import asyncio
import resource
from typing import cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

HEAD_SECONDS = 10.0
MOST_CONNECTIONS = 2_000
SPARE_FILES = 256  # that the server needs besides: buses, git, pages
_REFUSAL = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n\r\n"
    b"this is no HTTP request\n"
)


class TimedProtocol(H11Protocol):
    """HTTP on one connection, with a time limit for the head of each request."""

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        super().data_received(data)
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, unless an answer has begun: then the connection just ends, and so does the answer."""
        if self.cycle is not None:
            self.cycle.disconnected = True  # nothing can be sent any more
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(_REFUSAL)
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        super().connection_lost(exc)
        self._stop()

    def _watch(self) -> None:
        """Set the time limit while the head of a request is awaited that has begun, or is the first."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None until the first request
        waits = cycle is None or (cycle.response_complete and self.timeout_keep_alive_task is None)
        if not waits or self.transport.is_closing():
            self._stop()
        elif self._limit is None:
            self._limit = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


def most_connections() -> int:
    """How many connections the server takes at once, within what the system lets it have open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(SPARE_FILES // 4, min(MOST_CONNECTIONS, files - SPARE_FILES))
