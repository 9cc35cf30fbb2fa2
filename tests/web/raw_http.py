"""Requests to the page as a program sends them, byte by byte where it matters: what no browser would send, too."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from parley.engine.values.people import May
from parley.views.repository_context import repository_key
from parley.web.safety.people_book import PeopleBook, book_in
from tests.cli.home import PATIENCE_SECONDS, Home
from tests.web.page_harness import Server, prepare_repository

FORM = "application/x-www-form-urlencoded"


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")


@dataclass
class Client:
    """One visitor of a server, with or without a cookie."""

    address: str  # the origin
    cookie: str = ""
    context: ssl.SSLContext | None = None
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def port(self) -> int:
        return urlsplit(self.address).port or 0

    @property
    def host(self) -> str:
        return urlsplit(self.address).netloc

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str | None] | None = None
    ) -> Answer:
        """Send a request; a header that is None is left out."""
        kept = {"Host": self.host, "Cookie": self.cookie or None, **self.extra, **(headers or {})}
        connection = self._connection()
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in kept.items():
                if value is not None:
                    connection.putheader(name, value)
            if body is not None and not any(name.lower() == "content-length" for name in kept):
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            found = connection.getresponse()
            return Answer(found.status, found.getheaders(), found.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str | None) -> Answer:
        return self.send("GET", path, None, _named(headers))

    def post(self, path: str, fields: Mapping[str, str] | None = None, **headers: str | None) -> Answer:
        """Send a form as the page's own script does, unless the headers say otherwise."""
        own = {"Origin": self.address, "Content-Type": FORM, **_named(headers)}
        return self.send("POST", path, urlencode(fields or {}).encode(), own)

    def open(self, path: str) -> Client:
        """Follow a link with a token: the visitor with the cookie that it gives."""
        found = self.get(path)
        assert found.status == 303, found
        value = found.header("set-cookie").partition(";")[0]
        return Client(self.address, value, self.context)

    def _connection(self) -> http.client.HTTPConnection:
        if self.context is not None:
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS, context=self.context)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)

    @contextmanager
    def stream(self) -> Iterator[EventStream]:
        """Listen to the events."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_SECONDS) as raw:
            raw.sendall(f"GET /events HTTP/1.1\r\nHost: {self.host}\r\nCookie: {self.cookie}\r\n\r\n".encode())
            yield EventStream(raw)


@dataclass
class EventStream:
    """An open stream of events, and what came of it so far."""

    raw: socket.socket
    heard: bytes = b""

    def hear(self, what: bytes) -> None:
        """Wait until something was told."""
        while what not in self.heard:
            data = self.raw.recv(4096)
            assert data, f"the stream ended: {self.heard!r}"
            self.heard += data

    def seconds_to_end(self) -> float:
        """Wait for the end of the stream: how long it took."""
        began = time.monotonic()
        while data := self.raw.recv(4096):
            self.heard += data
            if self.heard.endswith(b"0\r\n\r\n"):
                break
        return time.monotonic() - began


def _named(headers: Mapping[str, str | None]) -> dict[str, str | None]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def speak(port: int, data: bytes, seconds: float = PATIENCE_SECONDS) -> bytes:
    """Send bytes, and read until the server closes the connection or has answered."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), seconds) as raw, suppress(ConnectionError):
        raw.sendall(data)
        while not (b"\r\n\r\n" in found and _complete(found)):
            piece = raw.recv(65536)
            if not piece:
                break
            found += piece
    return found


def speak_out(port: int, data: bytes) -> bytes:
    """Send bytes, and read until the server closes the connection, whatever it has answered."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as raw, suppress(ConnectionError):
        raw.sendall(data)
        while piece := raw.recv(65536):
            found += piece
    return found


def _complete(answer: bytes) -> bool:
    head, _, body = answer.partition(b"\r\n\r\n")
    length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b"")
    return bool(length) and len(body) >= int(length.partition(b":")[2])


def stranger(server: Server) -> Client:
    """A visitor without a cookie."""
    return Client(server.address)


def owner(server: Server) -> Client:
    """The user who runs the server."""
    return stranger(server).open(f"/?token={server.token}")


def holder(home: Home, server: Server, name: str, may: May, *, repository: str = "", job: str = "") -> Client:
    """A visitor with a pass of this home's user."""
    _, token = people_of_user(home).add(name, may, repository=repository, job=job)
    return stranger(server).open(f"/?token={token}")


def own_home(folder: Path) -> Home:
    """A repository whose user has settings, people and keys of their own."""
    home = prepare_repository(folder / "project")
    home.environment.update({name: str(folder / name.lower()) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME")})
    return home


def state_folder(home: Home) -> Path:
    """Where what belongs to a home's user is kept."""
    return Path(home.environment["XDG_STATE_HOME"]) / "parley"


def people_of_user(home: Home) -> PeopleBook:
    """The people whom a home's user lets in."""
    return book_in(state_folder(home))


def key_of(home: Home) -> str:
    """What the repository of a home is called in addresses."""
    return repository_key(home.folder / ".parley")
