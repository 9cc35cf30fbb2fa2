"""The workflow of a job: its agents with status, notes, rounds and versions, and who waits for whom."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from parley.views.vitals import vitals
from parley.views.workflow_view import workflow_page
from parley.web.drawing.graph import draw
from parley.web.pages.job_head import JobPage, job_page
from parley.web.visit import NotHere, Visit
from parley.workflow.model.terms import Status

# Which colour each status has.
LEVELS = {
    str(Status.WORKING): "busy",
    str(Status.REVIEW): "busy",
    str(Status.READY): "warn",
    str(Status.VERIFIED): "good",
    str(Status.COMPLETE): "good",
    str(Status.BLOCKED): "bad",
    str(Status.FAILED): "bad",
    str(Status.STALLED): "bad",
}


def workflow(visit: Visit) -> Response:
    """The tab."""
    page = job_page(visit)
    return page.show("job_workflow.html", tab="workflow", **_values(page))


def workflow_part(visit: Visit) -> Response:
    """The same without the head, as it is now."""

    def make() -> Response:
        page = job_page(visit)
        return page.part("part_workflow.html", **_values(page))

    return visit.kept(make)


def _values(page: JobPage) -> dict[str, Any]:
    present, context = page.present, page.at.context
    heard = {one.thread: int(one.last) for one in vitals(present, context.files, page.visit.site.now()).values()}
    flow = workflow_page(present.loaded.molecules, context.redact, heard)
    if flow is None:
        raise NotHere(f"{page.at.id} has no workflow: its lead does the work with the agents that it dispatches")
    return {"flow": flow, "graph": draw(flow.graph, LEVELS), "levels": LEVELS}


_BASE = "/r/{repository}/{job}"
PAGES = (
    (f"{_BASE}/workflow", ("GET",), workflow),
    (f"{_BASE}/part/workflow", ("GET",), workflow_part),
)
