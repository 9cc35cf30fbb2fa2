"""The timeline of a job: who worked when, and which times were lost to waits, stalls, pauses and questions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from starlette.responses import Response

from parley.views.history.timeline import Timeline, TimelineView, timeline
from parley.views.job_view import TERMINAL
from parley.web.drawing.timeline import KINDS, clock, draw
from parley.web.pages.job_head import JobPage, job_page
from parley.web.visit import Visit

ROWS = 50
PIXELS = 1000
RANGES = (
    ("all", "everything", 0),
    ("day", "last day", 86_400),
    ("hour", "last hour", 3_600),
    ("ten", "last 10 minutes", 600),
)
PARTS = 4  # into which what is seen can be cut to look closer


def whole(visit: Visit) -> Response:
    """The tab."""
    page = job_page(visit)
    return page.show("job_timeline.html", tab="timeline", **_values(page))


def timeline_part(visit: Visit) -> Response:
    """The same without the head, as it is now."""

    def make() -> Response:
        page = job_page(visit)
        return page.part("part_timeline.html", **_values(page))

    return visit.kept(make)


def _values(page: JobPage) -> dict[str, Any]:
    visit, row = page.visit, page.present.row
    now = row.updated if row.state in TERMINAL else visit.site.now()
    seen = visit.query.get("range", "all")
    seconds = next((length for name, _, length in RANGES if name == seen), 0)
    began, ended = (now - seconds, 0.0) if seconds else (float(visit.number("from")), float(visit.number("to")))
    began = max(began, row.created) if began else 0.0
    first = visit.number("first")
    view = TimelineView(first=first, rows=ROWS, width=PIXELS, began=began, ended=ended, code=page.present.code)
    reading = page.reading()
    with reading.held() as index:
        found = timeline(index, now, view) if index is not None else None
    asked = f"from={began:.0f}&to={ended:.0f}" if ended else f"range={seen}" if seconds else ""
    return {
        "found": found,
        "drawing": draw(found, page.base) if found is not None else "",
        "kinds": KINDS,
        "ranges": [(name, label) for name, label, length in RANGES if length < now - row.created],
        "seen": "" if ended else seen,
        "asked": asked,
        "first": first,
        "page_rows": ROWS,
        "closer": _closer(found) if found is not None else [],
        "elsewhere": found is not None and any(row.hosts for row in found.rows),
        "reading": reading,
    }


def _closer(found: Timeline) -> list[tuple[int, int, str]]:
    """Parts of what is seen, to look at alone."""
    span = found.ended - found.began
    if span < 8:  # noqa: PLR2004 - seconds
        return []
    edges = [found.began + span * number / PARTS for number in range(PARTS + 1)]
    return [(int(begin), int(end) + 1, f"{clock(begin, span)} to {clock(end, span)}") for begin, end in pairwise(edges)]


_BASE = "/r/{repository}/{job}"
PAGES = (
    (f"{_BASE}/timeline", ("GET",), whole),
    (f"{_BASE}/part/timeline", ("GET",), timeline_part),
)
