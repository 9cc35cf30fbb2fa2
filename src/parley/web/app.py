"""The application: every address with what answers it, and what stands before all of them."""

from __future__ import annotations

import asyncio
import secrets
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from starlette.applications import Starlette
from starlette.datastructures import UploadFile
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from parley.base.json_codec import Unreadable
from parley.base.text import mended
from parley.bus.rows import BusError
from parley.engine.values.people import May
from parley.ports.workspaces import WorkspaceError
from parley.views.job_view import DAMAGE
from parley.web.drawing.icon import draw as draw_icon
from parley.web.live.bundle import Bundle
from parley.web.live.events import LiveChange
from parley.web.live.shared_answers import SharedAnswers
from parley.web.pages import PAGES
from parley.web.pages.health import Health
from parley.web.pages.metrics import MetricsEndpoint
from parley.web.reads.part_cache import COMPRESSED_FROM, LEVEL, tag_of
from parley.web.safety.fair_share import FairShare, OpenCount, TooMany
from parley.web.safety.guard import SAFE_METHODS, BodyTooLarge, Guard, is_linked
from parley.web.safety.people_book import BookTrouble, Pass
from parley.web.safety.sessions import ACCOUNT, LASTS_SECONDS
from parley.web.site import PageSite
from parley.web.templating import STATIC, one_line
from parley.web.visit import LOOKS_ON, BadForm, NotHere, Upload, Visit, VisitRefused

Page = Callable[[Visit], Response]
FINE = 200  # the status of an answer that shows what was asked for
LONGEST_FIELD = 1 << 20  # characters
MOST_FIELDS, MOST_FILES = 2_000, 50
BODY_SECONDS = 120.0  # that a form, with its files, may take to come in
THREADS = 8  # pages that are made at once; each waits mostly for the disk
LOOKING = 6  # the same of pages that wait for git, or for another process: with thousands of files for seconds
ACTING = 32  # actions at once: they wait for processes, and hold up no page
PAGES_EACH, LOOKS_EACH, ACTIONS_EACH = 5, 3, 6  # of these that one visitor has at once
PAGES_WAITING, ACTIONS_WAITING = 250, 100  # that one visitor asks for while these are made
FORMS_EACH = 40  # forms of one visitor that come in at once: each may take 16 MB, and two minutes
STREAMS_EACH = 300  # streams of events that one visitor has open: a stream for each browser, not for each tab


def make_app(site: PageSite, hosts: Iterable[str]) -> ASGIApp:
    """The application of a server that is reached under these names, each with its port."""
    forms = OpenCount(FORMS_EACH, "forms of yours are being sent; wait for one of them")
    pages = Workers(ThreadPoolExecutor(THREADS, thread_name_prefix="page"), FairShare(PAGES_EACH, PAGES_WAITING), forms)
    acting = Workers(
        ThreadPoolExecutor(ACTING, thread_name_prefix="action"), FairShare(ACTIONS_EACH, ACTIONS_WAITING), forms
    )
    looking = Workers(
        ThreadPoolExecutor(LOOKING, thread_name_prefix="looking"), FairShare(LOOKS_EACH, PAGES_WAITING), forms
    )
    events, health = _Events(site), Health(site)
    metrics = MetricsEndpoint(site, partial(holder_of, site), looking.pool)
    routes = [
        Mount("/static", _Static(directory=STATIC)),
        Route("/events/since", events.since),
        Route("/healthz", health.lives),
        Route("/readyz", health.is_ready),
        Route("/metrics", metrics.answer),
        Route("/favicon.ico", lambda request: RedirectResponse("/static/icon.svg")),
        Route("/icon/{waiting:int}", _icon),
    ]
    for address, methods, page in PAGES:
        workers = acting if "POST" in methods else looking if getattr(page, "slow", False) else pages
        routes.append(Route(address, _Endpoint(site, page, workers), methods=list(methods)))
    routes.append(Route("/{rest:path}", _Endpoint(site, _nowhere, pages), methods=["GET", "POST"]))
    app = Starlette(
        routes=routes, middleware=[Middleware(GZipMiddleware, minimum_size=COMPRESSED_FROM, compresslevel=LEVEL)]
    )
    parts = _Parts(site, partial(_bundled, Bundle(PAGES, _made)), pages)
    return Guard(_First({"/events": events, "/parts": parts}, app), hosts, tls=site.origin.startswith("https:"))


class _First:
    """The addresses that every open page asks for all the time, before all others.

    The search through all addresses, and a look at what is compressed already, would cost more than the answer.
    """

    def __init__(self, first: Mapping[str, ASGIApp], others: ASGIApp) -> None:
        self._first, self._others = first, others

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer one request."""
        reads = scope["method"] in SAFE_METHODS
        await (self._first.get(scope["path"], self._others) if reads else self._others)(scope, receive, send)


def _bundled(bundle: Bundle, visit: Visit) -> Response:
    """The parts that have changed; pages that show the same get the same answer, made once."""
    return visit.kept(lambda: bundle(visit))


def _nowhere(visit: Visit) -> Response:
    raise NotHere("there is no such page")


def _icon(request: Request) -> Response:
    """The icon with a number that the address says: it tells nothing, so a stranger may have it."""
    headers = {"cache-control": "public, max-age=86400"}
    return Response(draw_icon(request.path_params["waiting"]), media_type="image/svg+xml", headers=headers)


# ---- who visits -----------------------------------------------------------------------------------


def holder_of(site: PageSite, request: Request) -> Pass | None:
    """Whose cookie a request carries; None: it carries none that counts."""
    name = site.sessions.read(request.cookies.get(site.sessions.cookie, ""))
    if name == ACCOUNT:
        return site.account_pass
    return site.people.get(name) if name else None


def _admitted(site: PageSite, request: Request) -> Response | None:
    """Exchange a token in the address for a cookie, and send the browser to the address without it."""
    if b"token=" not in request.scope["query_string"] or request.method != "GET":  # nearly all: none is read further
        return None
    token = request.query_params.get("token")
    if token is None:
        return None
    found = _token_holder(site, request, token)
    if found is None:
        return None
    before = holder_of(site, request)
    if before is not None and before.person and before.id != found.id and is_linked(request.headers):
        # another site's page, or another person's words on this one, could make a person act in another's name
        words = "this browser is here as {} already: to use the link all the same, paste it into the address line"
        return PlainTextResponse(f"{words.format(one_line(before.person))}\n", 409)
    rest = "&".join(
        f"{quote(key)}={quote(value)}" for key, value in request.query_params.multi_items() if key != "token"
    )
    path = quote(f"/{request.url.path.lstrip('/')}")  # never another host
    response = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
    response.set_cookie(
        site.sessions.cookie,
        site.sessions.make(found.id),
        max_age=LASTS_SECONDS,
        httponly=True,
        samesite="lax",  # so that a link in a message opens the page; whatever changes something checks its origin
        secure=urlsplit(site.origin).scheme == "https",
    )
    return response


def _token_holder(site: PageSite, request: Request, token: str) -> Pass | None:
    """Whom a token lets in."""
    port = request.client.port if request.client else 0
    if _same(token, site.token) or site.opening.takes(token, port):
        return site.account_pass
    return site.people.find(token)


def _same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode("utf-8", "replace"), other.encode())


# ---- pages ----------------------------------------------------------------------------------------


class Workers(NamedTuple):
    """Threads that make answers, and how many of them one visitor has at once."""

    pool: ThreadPoolExecutor
    share: FairShare
    forms: OpenCount


class _Endpoint:
    """Answers an address with a page's function, in a thread."""

    def __init__(self, site: PageSite, page: Page, workers: Workers) -> None:
        self._site, self._page, self._workers = site, page, workers

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        public: Callable[[Visit], str] | None = getattr(self._page, "public", None)
        try:
            if not public and (admitted := _admitted(self._site, request)) is not None:
                return admitted
            holder = holder_of(self._site, request)
        except BookTrouble as error:
            return _closed(error)
        if holder is None and not public:
            return self._stranger(request)
        unknown = Pass(id="", person="", may=May.SEE, digest="", made=0.0, job="-")
        visit = Visit(
            site=self._site,
            holder=holder or unknown,
            path=request.path_params,
            query=request.query_params,
            part=request.headers.get("hx-request") == "true",
            seen=request.headers.get("if-none-match", ""),
            mark=self._site.hub.mark,
            address=b"?".join((request.scope["raw_path"], request.scope["query_string"])).decode("latin-1"),
            compressed="gzip" in request.headers.get("accept-encoding", ""),
        )
        if not public and request.method not in SAFE_METHODS and not (visit.person and visit.may() > May.SEE):
            return _trouble(visit, LOOKS_ON, 403)  # whatever the page itself checks
        try:
            visitor = public(visit) if public else visit.holder.id
        except VisitRefused as refused:  # before anything is read of what a stranger sends
            return _trouble(visit, str(refused), refused.status)
        except BookTrouble as error:
            return _closed(error)
        try:
            return await self._answer_to(visitor, visit, request)
        except TooMany as error:
            return PlainTextResponse(f"{error}\n", 503)

    async def _answer_to(self, visitor: str, visit: Visit, request: Request) -> Response:
        """Read the form of a visitor who may send one, and make the answer."""
        try:
            form, many, uploads = await self._form_of(visitor, request)
        except BadForm as error:
            return PlainTextResponse(f"{error}\n", 400)
        except BodyTooLarge:
            return PlainTextResponse("the request is too large\n", 413)
        except TimeoutError:
            return PlainTextResponse("the request took too long to come in\n", 408)
        return await self._page_of(visitor, replace(visit, form=form, many=many, uploads=uploads))

    async def _page_of(self, visitor: str, visit: Visit) -> Response:
        return _versioned(visit, await self._made(visitor, visit))

    async def _made(self, visitor: str, visit: Visit) -> Response:
        """Make the page in a thread, when it is the visitor's turn."""
        async with self._workers.share.turn(visitor):
            return await asyncio.get_running_loop().run_in_executor(self._workers.pool, _made, self._page, visit)

    async def _form_of(
        self, visitor: str, request: Request
    ) -> tuple[Mapping[str, str], Mapping[str, list[str]], Mapping[str, list[Upload]]]:
        """The form of a request that has one, within the time for it."""
        if request.method in SAFE_METHODS:
            return {}, {}, {}
        with self._workers.forms.one_more(visitor):
            async with asyncio.timeout(BODY_SECONDS):
                return await _form(request)

    def _stranger(self, request: Request) -> Response:
        if request.headers.get("hx-request") == "true":  # by a page that is still open
            words = "this browser is not let in any more: open your link again"
            return Response(self._site.render("part_trouble.html", words=words), 401, media_type="text/html")
        return Response(
            self._site.render("stranger.html", wrong="token" in request.query_params), 401, media_type="text/html"
        )


def _closed(error: BookTrouble) -> Response:
    """No one is let in. The reason names a file of the user's: nothing for a stranger."""
    sys.stderr.write(f"{error}\n")
    return PlainTextResponse("no one can be let in: the server's own output says why\n", 500)


class _Parts(_Endpoint):
    """Answers with parts: pages that ask for the same at the same moment share one answer."""

    def __init__(self, site: PageSite, page: Page, workers: Workers) -> None:
        super().__init__(site, page, workers)
        self._shared = SharedAnswers(site.parts)

    async def _made(self, visitor: str, visit: Visit) -> Response:
        return await self._shared.get(
            visitor, visit.kept_as, visit.version, partial(super()._made, visitor, visit), compressed=visit.compressed
        )


def _made(page: Page, visit: Visit) -> Response:
    """Make a page; what goes wrong is a page too, in one line that says what to do."""
    try:
        return page(visit)
    except VisitRefused as refused:
        return _trouble(visit, str(refused), refused.status)
    except DAMAGE as error:
        return _trouble(visit, f"this job's record can't be read ({error}): `parley audit` names the row", 500)
    except (BusError, WorkspaceError, BookTrouble, Unreadable, OSError) as error:
        return _trouble(visit, visit.reason(str(error)), 500)
    except Exception:  # noqa: BLE001 - one page that fails is told, and takes no other with it
        traceback.print_exc(file=sys.stderr)
        return _trouble(visit, "the page failed; the server's own output says where", 500)


def _trouble(visit: Visit, words: str, status: int) -> Response:
    return visit.show(
        "part_trouble.html" if visit.part else "trouble.html", status, words=words, missing=status == NotHere.status
    )


def _versioned(visit: Visit, response: Response) -> Response:
    """Give a page its version, and send nothing where the browser has it."""
    if response.status_code != FINE or not isinstance(response.body, bytes):
        return response
    tag = response.headers.get("etag") or tag_of(response.body)
    if visit.seen == tag:
        return Response(status_code=304, headers={"etag": tag})
    response.headers["etag"] = tag
    return response


async def _form(request: Request) -> tuple[Mapping[str, str], Mapping[str, list[str]], Mapping[str, list[Upload]]]:
    """The fields of a form, and its files."""
    many: dict[str, list[str]] = {}
    uploads: dict[str, list[Upload]] = {}
    try:
        async with request.form(max_files=MOST_FILES, max_fields=MOST_FIELDS, max_part_size=LONGEST_FIELD) as form:
            for name, value in form.multi_items():
                if isinstance(value, UploadFile):
                    if value.filename:
                        uploads.setdefault(name, []).append(Upload(value.filename, await value.read()))
                else:
                    many.setdefault(name, []).append(mended(value.replace("\r\n", "\n")))
    except (ClientDisconnect, BodyTooLarge):
        raise
    except Exception as error:
        raise BadForm("the form can't be read; reload the page and try again") from error
    return {name: values[-1] for name, values in many.items()}, many, uploads


# ---- events ---------------------------------------------------------------------------------------


class _Events:
    """The stream of what is new, and what a page missed while it had none."""

    def __init__(self, site: PageSite) -> None:
        self._site = site
        self._open = OpenCount(STREAMS_EACH, "pages that were opened by this link are kept up to date; close some")

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer a request for the stream."""
        response = await self.stream(Request(scope, receive))
        await response(scope, receive, send)

    async def stream(self, request: Request) -> Response:
        """Server-sent events; a browser that comes back says how far it had come."""
        holder = self._holder(request)
        if holder is None:
            return PlainTextResponse("open the link again\n", 401)
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        mark = request.headers.get("last-event-id") or request.query_params.get("since", "")
        try:
            self._open.check(holder.id)
        except TooMany as error:
            return PlainTextResponse(f"{error}\n", 503)
        told = self._site.hub.stream(mark, _sees(holder), lambda: self._holder(request) is not None)
        events = self._counted(holder.id, told)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def _counted(self, visitor: str, told: AsyncIterator[str]) -> AsyncIterator[str]:
        with self._open.one_more(visitor):
            async for one in told:
                yield one

    async def since(self, request: Request) -> Response:
        """What a page missed between its making and its listening."""
        holder = self._holder(request)
        if holder is None:
            return PlainTextResponse("open the link again\n", 401)
        missed = self._site.hub.since(request.query_params.get("mark", ""))
        found = [[one.repository, one.job, one.what] for one in missed.changes if _sees(holder)(one)]
        return JSONResponse({"mark": missed.mark, "reset": missed.reset, "changes": found})

    def _holder(self, request: Request) -> Pass | None:
        """Whose cookie a request carries; no visitor is let in while the people's file can't be read."""
        try:
            return holder_of(self._site, request)
        except BookTrouble:
            return None


def _sees(holder: Pass) -> Callable[[LiveChange], bool]:
    return lambda change: holder.opens(change.repository, change.job)


class _Static(StaticFiles):
    """Files that come with the page. The browser keeps them: their address has their hash."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """One file."""
        response = await super().get_response(path, scope)
        if response.status_code == 200 and b"v=" in scope["query_string"]:  # noqa: PLR2004 - it is there
            response.headers["cache-control"] = "public, max-age=31536000, immutable"
        return response
