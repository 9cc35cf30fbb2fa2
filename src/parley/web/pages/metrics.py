"""`/metrics`: the server's figures in Prometheus' text format, for who has a token that reads them.

A scraper has no cookie: it sends its token in the header Authorization. None of the figures holds a word of a job's,
and no series is named after a job, an agent or a person.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from parley.machine.prometheus import PROCESS, TYPE, Family, Figure, exposition
from parley.protocol.states import State
from parley.views.questions import needs
from parley.web.reads.figures import CAUSES, HUMAN, Figures, RepositoryFigures
from parley.web.safety.people_book import BookTrouble, Pass
from parley.web.site import PageSite

NEEDS = (
    needs.QUESTION, needs.GATE, needs.FAILURE, needs.BUDGET, needs.STALL, needs.UNATTENDED, needs.STOPPED,
    needs.UNDELIVERED, needs.UNREADABLE,
)  # fmt: skip
WAITS = (*CAUSES.values(), HUMAN)
MICROS, MILLIS = 1_000_000, 1_000
STRANGER = "send a token that reads the figures: `parley people add NAME --may metrics` makes one\n"


FAMILIES: Mapping[str, Family] = {
    "parley_bus_up": Family("gauge", "Whether the repository's bus can be read", ("repository",)),
    "parley_engine_up": Family("gauge", "Whether the process runs that owns the repository's jobs", ("repository",)),
    "parley_bus_bytes": Family("gauge", "What the bus takes of the disk", ("repository",)),
    "parley_jobs": Family("gauge", "Jobs by state", ("repository", "state")),
    "parley_needs": Family("gauge", "What needs the human, by kind", ("repository", "kind")),
    "parley_waits": Family("gauge", "What waits now, by cause", ("repository", "cause")),
    "parley_agents_working": Family("gauge", "Agents at work", ("repository",)),
    "parley_turns_total": Family("counter", "Turns that were started", ("repository",)),
    "parley_tokens_total": Family("counter", "Tokens that count against budgets", ("repository",)),
    "parley_cost_usd_total": Family("counter", "What turns cost in US dollars, as providers say", ("repository",)),
    "parley_working_seconds_total": Family("counter", "How long agents were at work", ("repository",)),
    "parley_event_streams": Family("gauge", "Streams of events that pages have open"),
    **PROCESS,
}


class MetricsEndpoint:
    """Answers a scraper."""

    def __init__(self, site: PageSite, holder_of: Callable[[Request], Pass | None], pool: Executor) -> None:
        """`holder_of`: whose cookie a request carries, for a person who looks at the figures in a browser."""
        self._site, self._holder_of, self._pool = site, holder_of, pool
        self._figures = Figures()
        self._one = asyncio.Lock()  # scrapers wait for one another, and no page waits for them

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        try:
            admitted = self._admits(request)
        except BookTrouble as error:
            sys.stderr.write(f"{error}\n")
            return PlainTextResponse("no one can be let in: the server's own output says why\n", 500)
        if not admitted:
            return PlainTextResponse(STRANGER, 401, {"www-authenticate": "Bearer"})
        async with self._one:
            text = await asyncio.get_running_loop().run_in_executor(self._pool, self.text)
        return Response(text, media_type=TYPE, headers={"cache-control": "no-store"})

    def _admits(self, request: Request) -> bool:
        given = request.headers.getlist("authorization")
        if not given:
            holder = self._holder_of(request)
            return holder is not None and holder.reads_figures
        scheme, _, token = given[0].partition(" ")
        if len(given) > 1 or scheme.lower() != "bearer":
            return False
        token = token.strip()
        if secrets.compare_digest(token.encode("utf-8", "replace"), self._site.token.encode()):
            return True
        return any(one.reads_figures for one in self._site.people.holders(token))

    def text(self) -> str:
        """All figures."""
        return exposition(FAMILIES, self._all())

    def _all(self) -> Iterator[Figure]:
        site, hub = self._site, self._site.hub
        for key, context in site.contexts.items():
            found = self._figures.read(key, context, hub.versions(key))
            yield "parley_bus_up", found is not None, key
            yield "parley_engine_up", not site.engine_words(key), key
            for figure in _of_repository(found) if found is not None else ():
                yield (figure[0], figure[1], key, *figure[2:])
        yield "parley_event_streams", hub.listening


def _of_repository(found: RepositoryFigures) -> Iterator[Figure]:
    """The series of one repository: every label's value that there can be, so that none comes and goes."""
    if found.bus_bytes is not None:
        yield "parley_bus_bytes", found.bus_bytes
    for state in State:
        yield "parley_jobs", found.states[str(state)], str(state)
    for kind in NEEDS:
        yield "parley_needs", found.needs[kind], kind
    for cause in WAITS:
        yield "parley_waits", found.waits[cause], cause
    yield "parley_agents_working", found.working
    yield "parley_turns_total", found.spent.turns
    yield "parley_tokens_total", found.spent.tokens
    yield "parley_cost_usd_total", found.spent.micros / MICROS
    yield "parley_working_seconds_total", found.spent.millis / MILLIS
