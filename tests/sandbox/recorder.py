"""An upstream that keeps every byte that the gateway sends, and a client that cuts its request where a test says so."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import h11

from parley.sandbox import Route
from parley.sandbox.gateway.gateway import Gateway

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LONGEST_PIECE = 4096


class Reading(NamedTuple):
    """One request as h11's server side reads it."""

    method: bytes
    target: bytes
    body: bytes


def read(raw: bytes) -> tuple[Reading, bytes] | None:
    """The first request in some bytes as h11 reads it, and the bytes behind it; None if there is no whole one."""
    connection = h11.Connection(h11.SERVER, 1 << 20)
    connection.receive_data(raw)
    request, body = None, b""
    with contextlib.suppress(h11.RemoteProtocolError):
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and request is not None:
                return Reading(request.method, request.target, body), connection.trailing_data[0]
            else:
                return None
    return None


class Recorder:
    """Serves one connection after the other, and keeps what each of them sent."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._server.getsockname()
        self.answer = ANSWER
        self._received: list[bytes] = []
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.address[1]}"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                with connection:
                    self._received.append(self._serve(connection))

    def _serve(self, connection: socket.socket) -> bytes:
        raw, answered = b"", False
        with contextlib.suppress(OSError):
            while part := connection.recv(1 << 16):
                raw += part
                if not answered and read(raw) is not None:
                    answered = True
                    connection.sendall(self.answer)
                    connection.shutdown(socket.SHUT_WR)
        return raw

    def take(self) -> list[bytes]:
        """What the connections sent since this was last asked, those that are being served included."""
        with socket.create_connection(self.address) as last:
            last.shutdown(socket.SHUT_WR)
            last.recv(1)  # it is served when all that came before it are over
        received, self._received = self._received, []
        return [raw for raw in received if raw]

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()


class Outcome(NamedTuple):
    """What became of a request: the gateway's answers, and the bytes that upstream got, by connection."""

    answer: bytes
    forwarded: tuple[bytes, ...]

    @property
    def status(self) -> int:
        final = self.answer.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
        return int(final[9:12]) if final.startswith(b"HTTP/1.1 ") else 0

    @property
    def whole(self) -> list[tuple[Reading, bytes]]:
        """The requests that upstream got whole, each with what followed it on its connection."""
        return [found for raw in self.forwarded if (found := read(raw)) is not None]


class CutGateway:
    """A gateway whose socket keeps the cuts between pieces: each arrives by itself."""

    def __init__(self, path: Path, recorder: Recorder, route: Route) -> None:
        self._path = str(path)
        self.recorder = recorder
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(self._path)
        listener.listen(8)
        self.gateway = Gateway(listener, route)

    def say(self, pieces: Sequence[bytes]) -> Outcome:
        """Send some pieces, end, and see what becomes of it."""
        answer = b""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(20)
            connection.connect(self._path)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it refused before it had read it all
                for piece in pieces:
                    for at in range(0, len(piece), LONGEST_PIECE):
                        connection.sendall(piece[at : at + LONGEST_PIECE])
                connection.shutdown(socket.SHUT_WR)
            for _ in range(2):  # a reset is told before what was sent before it
                with contextlib.suppress(ConnectionResetError):
                    while part := connection.recv(1 << 16):
                        answer += part
        return Outcome(answer, tuple(self.recorder.take()))


@contextmanager
def recorded(folder: Path) -> Iterator[CutGateway]:
    """A gateway before an upstream that keeps all that it gets."""
    recorder = Recorder()
    route = Route(recorder.url, {"x-api-key": "key"}, ("/v1/*",), (f"127.0.0.1:{recorder.address[1]}",))
    gateway = CutGateway(folder / "socket", recorder, route)
    try:
        yield gateway
    finally:
        gateway.gateway.close()
        recorder.close()
