"""Runs the page: binds the address, starts an engine for each repository, prints the link, and ends cleanly."""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import socket
import ssl
import sys
import threading
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from parley.actions.engine_process import EngineProcess
from parley.views.repository_context import RepositoryContext, repository_key
from parley.web.app import make_app
from parley.web.live.events import Hub, Watcher
from parley.web.safety.opening_token import OpeningToken
from parley.web.safety.people_book import book_in
from parley.web.safety.sessions import Sessions, page_key
from parley.web.safety.slow_clients import TimedProtocol, most_connections
from parley.web.site import PageSite

EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - to compare with
LOOPBACK = ("127.0.0.1", "::1", "localhost")
USUAL_PORT = 7327
GRACE_SECONDS = 3  # that requests under way have when the server ends
UNREAD_SECONDS = 20  # that a client may take no byte of its answer: then its connection ends
ENGINE_SECONDS = 20.0  # that an engine has to end the processes of its turns


class NoAddress(Exception):
    """The server can't listen where it was told to: the text says why, and what to do."""


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """How the page is served."""

    contexts: Sequence[RepositoryContext]
    engines: Mapping[str, EngineProcess]  # by the home of the repository
    account: str
    state: Path  # the user's own folder for what Parley keeps
    host: str = "127.0.0.1"
    port: int | None = None  # None: the usual one, or any that is free
    names: Sequence[str] = ()  # under which the server is reached besides
    certificate: str = ""
    certificate_key: str = ""
    browser: bool = True
    tell: Callable[[str], None] = print
    announce: Callable[[str], object] = lambda origin: None  # who else wants to know the address: notices


def serve(options: ServeOptions) -> None:
    """Serve until a signal asks for the end."""
    tls = bool(options.certificate)
    if tls:
        _try_certificate(options)
    listener = _listen(options.host, options.port)
    port = listener.getsockname()[1]
    shown = options.names[0] if options.names else options.host
    scheme = "https" if tls else "http"
    origin = f"{scheme}://{_bracketed(shown)}:{port}"
    contexts = {repository_key(Path(context.home)): context for context in options.contexts}
    engines = {repository_key(Path(home)): engine for home, engine in options.engines.items()}
    hub = Hub()
    site = PageSite(
        contexts=contexts,
        account=options.account,
        token=secrets.token_urlsafe(24),
        origin=origin,
        key=(key := page_key(options.state)),
        people=book_in(options.state),
        sessions=Sessions(key, port, tls=tls),
        hub=hub,
        watcher=Watcher(hub, contexts),
        opening=OpeningToken(port),
        engine_words=lambda key: _engine_words(engines.get(key)),
    )
    config = uvicorn.Config(
        make_app(site, _names(options, port)),
        http=TimedProtocol,
        limit_concurrency=most_connections(),
        proxy_headers=False,  # nothing stands before it: what a client says of itself counts for nothing
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=30,
        ssl_certfile=options.certificate or None,
        ssl_keyfile=options.certificate_key or None,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # any program can make it warn of requests, without end
    for engine in options.engines.values():
        engine.start()
    site.watcher.start()
    try:
        asyncio.run(_run(config, listener, site, lambda: _greet(options, site)))
    finally:
        site.watcher.stop()
        ended = [threading.Thread(target=engine.stop, args=(ENGINE_SECONDS,)) for engine in options.engines.values()]
        for thread in ended:
            thread.start()
        for thread in ended:
            thread.join()


def _greet(options: ServeOptions, site: PageSite) -> None:
    link = f"{site.origin}/?token={site.token}"
    options.announce(site.origin)
    options.tell(link)
    if options.browser:
        opened = f"{site.origin}/?token={site.opening.make()}"  # others see the words of a program that is started
        threading.Thread(target=_open, args=(opened,), daemon=True).start()


def _open(link: str) -> None:
    """Open the browser, where there is one."""
    with suppress(webbrowser.Error, OSError):
        webbrowser.open(link)


class _Server(uvicorn.Server):
    """Ends its streams first, since they would keep it waiting; and greets once it listens."""

    def __init__(self, config: uvicorn.Config, site: PageSite, greet: Callable[[], None]) -> None:
        super().__init__(config)
        self._site, self._greet = site, greet

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        if self.started:
            self._greet()

    def end(self) -> None:
        """Begin to end. What is under way then may be cut off, of which the user is told nothing: they ended it."""
        logging.getLogger("uvicorn.error").disabled = True
        self.should_exit = True
        self._site.hub.close()
        self._site.commands.end()  # requests under way wait for them


async def _run(config: uvicorn.Config, listener: socket.socket, site: PageSite, greet: Callable[[], None]) -> None:
    server = _Server(config, site, greet)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup has set it to be ignored
            asyncio.get_running_loop().add_signal_handler(number, server.end)
    await server._serve([listener])  # noqa: SLF001 - `serve` would take the signals itself


# ---- the address ----------------------------------------------------------------------------------


def _listen(host: str, port: int | None) -> socket.socket:
    """A socket at the address; where no port was named and the usual one is taken, at any that is free."""
    for tried in (USUAL_PORT, 0) if port is None else (port,):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # By the protocol's name asyncio knows that it is TCP, and sends each piece at once: else the second piece of an
        # answer waits for the first to be acknowledged, some 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sys.platform == "linux":  # of its connections; asyncio itself has no such limit
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_SECONDS * 1000)
        try:
            listener.bind((host, tried))
        except (OSError, OverflowError) as error:
            listener.close()
            if port is None and tried:
                continue
            why = getattr(error, "strerror", None) or str(error)
            raise NoAddress(f"{host} port {tried}: {why}; name another --port, or another --host") from error
        listener.listen(1024)
        listener.set_inheritable(False)
        return listener
    raise AssertionError("a port is always tried")


def _names(options: ServeOptions, port: int) -> list[str]:
    names = [options.host, *options.names]
    if options.host in LOOPBACK or options.host in EVERYWHERE:
        names += LOOPBACK
    plain = 443 if options.certificate else 80
    found = [f"{_bracketed(name)}:{port}" for name in names]
    return found + [_bracketed(name) for name in names if port == plain]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _try_certificate(options: ServeOptions) -> None:
    """Refuse TLS files that can't be used, before anything starts."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            options.certificate,
            options.certificate_key or None,
            password=lambda: b"",  # a terminal is not asked for one
        )
    except (OSError, ssl.SSLError) as error:
        raise NoAddress(f"{options.certificate}: the TLS files can't be used ({error}); name others") from error


def _engine_words(engine: EngineProcess | None) -> str:
    """Why the jobs of a repository do not go on here; empty if they do."""
    if engine is None or engine.alive or engine.waits:
        return ""
    return engine.last_line or "the process that runs the jobs is being started"
