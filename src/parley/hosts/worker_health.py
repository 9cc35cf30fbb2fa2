"""What a worker answers those who watch it from outside: whether it lives, whether it can take turns, its figures.

It tells nothing of a job. There is no token: the address is this machine's own, unless the user names another.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, NamedTuple

from parley.machine.prometheus import PROCESS, TYPE, Family, Figure, exposition

REQUEST_SECONDS = 5.0  # that a client may take for its request
MOST_CLIENTS = 16  # at once; others are turned away
OK = "ok\n"
OUTCOMES = ("ended", "failed", "cancelled", "handed back")

FAMILIES: Mapping[str, Family] = {
    "parley_worker_ready": Family("gauge", "Whether the worker can take turns"),
    "parley_worker_draining": Family("gauge", "Whether the worker was told to end"),
    "parley_worker_slots": Family("gauge", "Turns that the worker runs at once, at most"),
    "parley_worker_slots_used": Family("gauge", "Turns that the worker runs now"),
    "parley_worker_turns_total": Family("counter", "Turns that are over, by what became of them", ("outcome",)),
    "parley_worker_last_sign_timestamp_seconds": Family("gauge", "When the board last took a sign of life"),
    **PROCESS,
}


class WorkerState(NamedTuple):
    """How a worker stands."""

    troubles: tuple[str, ...]  # why it can take no turns, in general words; none: it can
    draining: bool
    slots: int
    used: int
    outcomes: Mapping[str, int]
    last_sign: float  # seconds since 1970; 0: none yet

    def figures(self) -> Iterator[Figure]:
        """The series of Prometheus."""
        yield "parley_worker_ready", not self.troubles
        yield "parley_worker_draining", self.draining
        yield "parley_worker_slots", self.slots
        yield "parley_worker_slots_used", self.used
        for outcome in OUTCOMES:
            yield "parley_worker_turns_total", self.outcomes.get(outcome, 0), outcome
        yield "parley_worker_last_sign_timestamp_seconds", self.last_sign


class HealthAddress(NamedTuple):
    """Where a worker answers."""

    host: str
    port: int


def read_address(text: str) -> HealthAddress:
    """An address as the user writes it: `127.0.0.1:7328`, `[::1]:7328`. ValueError where it is none."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not port.isascii() or int(port[:6]) > 65535:  # noqa: PLR2004 - the last one
        raise ValueError
    return HealthAddress(str(ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))), int(port))


class HealthServer:
    """Answers from a thread of its own. `state` may be called from any thread, and returns at once."""

    def __init__(self, address: HealthAddress, state: Callable[[], WorkerState]) -> None:
        """OSError where it can't listen there."""
        self._server = _Server(address, state)
        self._thread = threading.Thread(target=self._server.serve_forever, name="parley-health", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: HealthAddress, state: Callable[[], WorkerState]) -> None:
        self.state = state
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self._room = threading.BoundedSemaphore(MOST_CLIENTS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    timeout: ClassVar[float | None] = REQUEST_SECONDS

    def do_GET(self) -> None:
        assert isinstance(self.server, _Server)  # noqa: S101 - no other makes one
        path, state = self.path.partition("?")[0], self.server.state()
        if path == "/healthz":
            self._answer(200, OK)
        elif path == "/readyz":
            words = "".join(f"not ready: {trouble}\n" for trouble in state.troubles)
            self._answer(503 if words else 200, words or OK)
        elif path == "/metrics":
            self._answer(200, exposition(FAMILIES, state.figures()), TYPE)
        else:
            self._answer(404, "there are /healthz, /readyz and /metrics\n")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self, code: int, text: str, kind: str = "text/plain; charset=utf-8") -> None:
        body = text.encode()
        self.send_response_only(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *given: Any) -> None:  # noqa: A002 - as the library names it
        """No log: a probe comes every few seconds."""
