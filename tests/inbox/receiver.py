"""Services on loopback that notices are sent to: one that takes them, one that hangs, one that speaks SMTP."""

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """What has arrived so far."""

    def __init__(self, *, hangs: bool = False) -> None:
        self.taken: list[dict[str, Any]] = []
        self.arrived = threading.Event()
        self.release = threading.Event()
        if not hangs:
            self.release.set()
        self.port = 0

    @property
    def titles(self) -> list[str]:
        return [str(letter["title"]) for letter in self.taken]

    def take(self, letter: dict[str, Any]) -> None:
        self.taken.append(letter)
        self.arrived.set()
        self.release.wait(60)


@contextmanager
def http(*, hangs: bool = False) -> Iterator[Receiver]:
    """A service that takes JSON."""
    receiver = Receiver(hangs=hangs)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.take(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        receiver.port = server.server_address[1]
        with _serving(server):
            yield receiver
        receiver.release.set()


@contextmanager
def smtp() -> Iterator[Receiver]:
    """A server that takes mail."""
    receiver = Receiver()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.say("220 here")
            while words := self.rfile.readline().decode().split():
                match words[0].upper():
                    case "EHLO":
                        self.say("250 here")
                    case "DATA":
                        self.say("354 go on")
                        receiver.take({"title": "", "text": self.letter()})
                        self.say("250 taken")
                    case "QUIT":
                        self.say("221 bye")
                        return
                    case _:
                        self.say("250 well")

        def letter(self) -> str:
            lines = []
            while (line := self.rfile.readline().decode()) not in (".\r\n", ""):
                lines.append(line)
            return "".join(lines)

        def say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        receiver.port = server.server_address[1]
        with _serving(server):
            yield receiver


@contextmanager
def _serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
