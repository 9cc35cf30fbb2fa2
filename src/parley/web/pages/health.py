"""`/healthz` and `/readyz`: for what watches the server from outside. They need no token, and tell nothing of a job."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from parley.web.site import PageSite

OK = "ok\n"
NO_BUS = "not ready: a repository's bus can't be read\n"
NO_ENGINE = "not ready: a repository's engine does not run\n"
_UNCACHED = {"cache-control": "no-store"}


class Health:
    """Answers whether the server lives, and whether it can do its work."""

    def __init__(self, site: PageSite) -> None:
        self._site = site

    async def lives(self, request: Request) -> Response:
        """The process answers."""
        return PlainTextResponse(OK, headers=_UNCACHED)

    async def is_ready(self, request: Request) -> Response:
        """Every bus can be read, and every engine runs: as was found a moment ago, so that asking costs nothing."""
        site = self._site
        words = NO_BUS if any(site.watcher.problem(key) for key in site.contexts) else ""
        words += NO_ENGINE if any(site.engine_words(key) for key in site.contexts) else ""
        return PlainTextResponse(words or OK, 503 if words else 200, headers=_UNCACHED)
