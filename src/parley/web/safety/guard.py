"""The first gate of every request: its host, its origin, its size; and the headers that every response carries.

A page of another site can make a browser send requests here (cross-site requests), and a name that an attacker owns can
be made to lead here (DNS rebinding). So a request is answered only under a name of this server, and one that changes
anything, or that another site's page makes, only if it comes from this server's own page.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY = 16 << 20  # bytes: a request with the files that go along
SAFE_METHODS = ("GET", "HEAD")
ONCE = ("host", "origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest")  # headers by which requests are refused
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with none at all, browsers send forms as of an unknown origin
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}

_RAW = {name.encode(): value.encode() for name, value in HEADERS.items()}


class BodyTooLarge(Exception):
    """A request's body has more bytes than any form of the page sends."""


class Guard:
    """Wraps the application. `hosts` are the names, with their port, under which it is reached."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str], *, tls: bool) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._scheme = "https" if tls else "http"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on with a bounded body."""
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        body = _Body(receive, headers)
        status, why = HTTPStatus.FORBIDDEN, self._objection(scope["method"], headers)
        if not why:
            status, why = _malformed(scope, headers)
        if why:
            answer = PlainTextResponse(f"{why}\n", status_code=status)
            await answer(scope, body.receive, _marking(send, body, last=True))
            return
        await self._app(scope, body.receive, _marking(send, body))

    def _objection(self, method: str, headers: Headers) -> str:
        """Why a request is not answered; empty if it is."""
        host, site = headers.get("host", "").lower(), headers.get("sec-fetch-site", "")
        if host not in self._hosts or any(len(headers.getlist(name)) > 1 for name in ONCE):
            return "this server is not reached under that name: open the link that `parley serve` printed"
        origin = headers.get("origin")
        if origin is not None and origin != f"{self._scheme}://{host}":
            return "another site's page asks for this, which is refused"
        if method in SAFE_METHODS:
            foreign = _is_foreign(headers) and not _is_followed(headers)
            return "another site's page asks for this, which is refused" if foreign else ""
        if origin is None and site != "same-origin":
            return "a request that changes something has to come from this server's own page"
        return ""


def _is_foreign(headers: Headers) -> bool:
    """Whether another site's page has led the browser here."""
    return headers.get("sec-fetch-site", "") in ("cross-site", "same-site")


def is_linked(headers: Headers) -> bool:
    """Whether a page, of any site, has led the browser here: the address was not typed, pasted or kept by a person."""
    return headers.get("sec-fetch-site", "none") != "none"


def _is_followed(headers: Headers) -> bool:
    """Whether a person has followed a link: it is opened as a page, not inside of another."""
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest", "document") == "document"


def _malformed(scope: Scope, headers: Headers) -> tuple[HTTPStatus, str]:
    """What is wrong with a request from any visitor; the words are empty if nothing is."""
    if not scope["path"].startswith("/"):
        return HTTPStatus.BAD_REQUEST, "the address has to begin with a slash"
    if "\0" in scope["path"] or b"%00" in scope["query_string"]:
        return HTTPStatus.BAD_REQUEST, "the address has a NUL character"
    if "content-length" in headers and "transfer-encoding" in headers:
        return HTTPStatus.BAD_REQUEST, "the request says in two ways how long it is"
    if int(headers.get("content-length", "0")) > LARGEST_BODY:  # it is a number: the HTTP reader has seen to it
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the request is too large"
    return HTTPStatus.OK, ""


class _Body:
    """The body of a request as it comes in, within bounds."""

    def __init__(self, receive: Receive, headers: Headers) -> None:
        self._receive, self._size = receive, 0
        self.whole = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers

    async def receive(self) -> Message:
        """The next piece; BodyTooLarge once there is too much."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            self.whole = self.whole or not message.get("more_body", False)
        if self._size > LARGEST_BODY:
            raise BodyTooLarge
        return message


def _marking(send: Send, body: _Body, *, last: bool = False) -> Send:
    """Send with the headers of all answers. `last`: what the visitor sends after this request is not read."""

    async def marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = [(name, value) for name, value in message.get("headers", ()) if name not in _RAW]
            if not any(name == b"cache-control" for name, _ in own):
                own.append((b"cache-control", b"private, no-cache"))
            if last or not body.whole:
                own.append((b"connection", b"close"))  # what was not read might come forever
            message = {**message, "headers": [*own, *_RAW.items()]}  # an answer is sent to many: it stays as it is
        await send(message)

    return marked
