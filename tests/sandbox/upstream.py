"""A small API on loopback, which remembers what it was asked and streams events as slowly as it is told to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """One request as it arrived."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name]


class Api:
    """What the server knows."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.next_event = threading.Event()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class Handler(BaseHTTPRequestHandler):
    """Answers as the path asks for."""

    api: Api
    protocol_version = "HTTP/1.1"

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if len(body) < length:
            raise ConnectionAbortedError("the body broke off")
        return body

    def do_POST(self) -> None:
        self.api.asked.append(Asked(self.command, self.path, list(self.headers.items()), self._body()))
        if self.path.startswith("/v1/stream"):
            self._stream()
        elif self.path.startswith("/v1/broken"):
            self.close_connection = True
        else:
            self._say(429 if self.path.startswith("/v1/busy") else 200, b'{"ok": true}')

    do_GET = do_POST  # noqa: N815 - as the base class calls it

    def _say(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("retry-after", "3")
        self.end_headers()
        self.wfile.write(body)

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(3):
            event = f"data: {number}\n\n".encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
            self.wfile.flush()
            if not self.api.next_event.wait(10):
                return
            self.api.next_event.clear()
        if "cut" in self.path:
            self.close_connection = True
            return
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *words: Any) -> None:  # noqa: A002 - as the base class has it
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """A server that says nothing about clients that break off."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that breaks off is what some tests are about."""


@contextmanager
def serve() -> Iterator[Api]:
    """An API for as long as the block lasts."""
    api = Api()
    server = Server(("127.0.0.1", 0), type("Serving", (Handler,), {"api": api}))
    api.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield api
    finally:
        api.next_event.set()
        server.shutdown()
        thread.join()
        server.server_close()
