"""Several parts of an open page in one answer: those that have changed since the page got them, and no others.

A part that can't be made now comes without a version: the page keeps what it shows, and asks again.

A change concerns most parts of a page at once. One request for each of them, from hundreds of pages, would keep the
server busy with nothing but requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.routing import Match, Route

from parley.web.reads.part_cache import FINE, tag_of
from parley.web.visit import BadForm, Visit

MOST = 24  # parts of one page
LONGEST = 2_000  # characters of an address
TROUBLE = 500  # from this status on, it is the server that could not answer
Page = Callable[[Visit], Response]


class Bundle:
    """Finds the parts by their addresses, and makes them as if each were asked for."""

    def __init__(
        self, pages: Iterable[tuple[str, Sequence[str], Page]], make: Callable[[Page, Visit], Response]
    ) -> None:
        self._routes = [(Route(address, page), page) for address, methods, page in pages if _is_part(address, methods)]
        self._make = make

    def __call__(self, visit: Visit) -> Response:
        """The parts that have changed: address, version and text of each; no version: it can't be made now."""
        addresses, tags = visit.query.getlist("part"), visit.query.getlist("tag")
        if not len(addresses) == len(tags) <= MOST or any(len(one) > LONGEST for one in addresses):
            raise BadForm(f"a page asks for {MOST} parts at most, with the version of each that it has")
        found = [self._changed(visit, *one) for one in zip(addresses, tags, strict=True)]
        return Response(json.dumps([one for one in found if one is not None]), media_type="application/json")

    def _changed(self, visit: Visit, address: str, tag: str) -> tuple[str, str, str] | None:
        """One part, unless it is what the page has, or is not there: then the page keeps what it shows."""
        try:
            where = urlsplit(address)
        except ValueError:  # no address of the page's
            return None
        if where.scheme or where.netloc:
            return None
        for route, page in self._routes:
            match, scope = route.matches({"type": "http", "method": "GET", "path": where.path})
            if match is Match.FULL:
                asked = replace(
                    visit,
                    path=scope["path_params"],
                    query=QueryParams(where.query),
                    part=True,
                    seen="",
                    compressed=False,
                    address=f"{where.path}?{where.query}",
                )
                made = self._make(page, asked)
                if made.status_code >= TROUBLE:
                    return address, "", ""
                found = made.headers.get("etag") or tag_of(bytes(made.body))
                return None if made.status_code != FINE or found == tag else (address, found, bytes(made.body).decode())
        return None


def _is_part(address: str, methods: Sequence[str]) -> bool:
    """Whether an address is a part that pages keep up to date: no whole page, no dry run and no file comes so."""
    return "GET" in methods and ("/part/" in address or address.endswith(("/state", "/next")))
