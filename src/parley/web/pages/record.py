"""The record of a job: its steps with the rule of each, the audit's verdict, and the record as a file."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from starlette.responses import Response

from parley.base.json_codec import Unreadable
from parley.base.text import cut
from parley.bus.rows import StepRow
from parley.engine.protocol_messages import excerpt
from parley.engine.values import step_extra
from parley.engine.values.people import May
from parley.engine.values.step_names import place_of
from parley.protocol.rules import RULES
from parley.web.pages.job_head import JobPage, job_page
from parley.web.reads.audit_runs import MOST_AUDITS
from parley.web.rule_words import explained
from parley.web.visit import Visit, VisitRefused, slow

PAGE_STEPS = 100
LOOKED_AT = 8_000  # steps that one request looks through for a filter
SLICE = 1_000  # of these that are read together
LONGEST = 4_000  # characters of what a step chose, consumed or produced
EXPORT_SECONDS = 300
MOST_EXPORTS = 2  # at once: each reads a whole job, and is a process
_EXPORTS = threading.BoundedSemaphore(MOST_EXPORTS)


@dataclass(frozen=True, slots=True)
class StepLine:
    """A step as the page shows it."""

    step: StepRow
    thread: str
    where: str
    choice: str
    consumed: str
    produced: str
    host: str  # where the turn ran that it ended, if that was another host


def record(visit: Visit) -> Response:
    """The tab."""
    page = job_page(visit)
    return page.show("job_record.html", tab="record", **_steps(page), **_audited(page))


def steps_part(visit: Visit) -> Response:
    """Earlier steps."""
    page = job_page(visit)
    return page.part("part_steps.html", **_steps(page))


def audit_part(visit: Visit) -> Response:
    """How the audit stands."""
    page = job_page(visit)
    return page.part("part_audit.html", **_audited(page))


def run_audit(visit: Visit) -> Response:
    """Begin an audit; its verdict comes when it is over."""
    page = job_page(visit)
    visit.require(May.ANSWER, page.at)
    if not visit.site.audits.start(page.key, page.at):
        raise VisitRefused(f"{MOST_AUDITS} audits of other jobs are under way; run this one when one of them is over")
    if not visit.part:
        return visit.go(f"{page.base}/record")
    return page.part("part_audit.html", **_audited(page))


def export(visit: Visit) -> Response:
    """The whole record as one file, as `parley export` writes it: without secrets."""
    page = job_page(visit)
    if not _EXPORTS.acquire(blocking=False):
        raise VisitRefused(f"{MOST_EXPORTS} exports are under way already; try again when one of them is over")
    try:
        return _exported(page)
    finally:
        _EXPORTS.release()


def _exported(page: JobPage) -> Response:
    with tempfile.TemporaryDirectory(prefix="parley-export-") as folder:
        file = Path(folder) / f"{page.at.id}.jsonl.gz"
        words = ["export", page.at.id, "-o", str(file)]
        ended = page.visit.site.commands.run(page.at.context, words, EXPORT_SECONDS)
        if ended is None:
            raise VisitRefused(f"the export takes too long here; run: parley export {page.at.id} -o FILE")
        if ended.code != 0 or not file.is_file():
            raise VisitRefused(f"the export failed: {page.visit.reason(excerpt(ended.err, 300))}")
        content = file.read_bytes()
    headers = {"content-disposition": f'attachment; filename="{page.at.id}.jsonl.gz"'}
    return Response(content, 200, headers, "application/gzip")


# ---- steps -------------------------------------------------------------------------------------------


def _steps(page: JobPage) -> dict[str, Any]:
    """The last steps before a number that fit the filter, newest first."""
    query, last = page.visit.query, page.present.loaded.transaction
    total = last.steps if last else 0
    before = page.visit.number("before") or total + 1
    rule, thread = cut(query.get("rule", ""), 60), cut(query.get("thread", ""), 300)
    upper = min(before, total + 1)
    lowest = max(0, upper - 1 - LOOKED_AT)
    width = SLICE if rule or thread else PAGE_STEPS
    found: list[StepRow] = []
    while upper - 1 > lowest and len(found) < PAGE_STEPS:
        lower = max(lowest, upper - 1 - width)
        found = [step for step in _between(page, lower, upper) if _fits(step, rule, thread)] + found
        upper = lower + 1
    shown = found[-PAGE_STEPS:]
    earlier = shown[0].number if len(found) > PAGE_STEPS else upper
    return {
        "steps": [_line(step) for step in reversed(shown)],
        "total": total,
        "rule": rule,
        "thread": thread,
        "before": before if before <= total else 0,
        "earlier": earlier if earlier > 1 else 0,
        "rules": sorted(RULES),
        "about": explained(rule) if rule else None,
    }


def _between(page: JobPage, after: int, end: int) -> Iterator[StepRow]:
    """The steps after a number and before another."""
    return takewhile(lambda step: step.number < end, page.at.context.store.steps(page.at.id, after))


def _fits(step: StepRow, rule: str, thread: str) -> bool:
    if rule and step.rule != rule:
        return False
    named = f"{step.at} {step.consumed} {step.produced}".replace("\n", " ")
    return not thread or thread in named.split(" ")


def _line(step: StepRow) -> StepLine:
    at = place_of(step)
    return StepLine(
        step=step,
        thread=at.thread,
        where=step.at,
        choice=cut(step.choice, LONGEST),
        consumed=cut(step.consumed, LONGEST),
        produced=cut(step.produced, LONGEST),
        host=_host(step),
    )


def _host(step: StepRow) -> str:
    try:
        return step_extra.read(step.extra).ran_on(step.rule)
    except Unreadable:  # another program changed the row: the audit says so
        return ""


# ---- the audit ---------------------------------------------------------------------------------------


def _audited(page: JobPage) -> dict[str, Any]:
    last = page.present.loaded.transaction
    return {
        "audit": page.visit.site.audits.state(page.key, page.at.id),
        "transactions": last.number if last else 0,
        "may_audit": page.visit.may(page.at, page.present) >= May.ANSWER,
    }


_BASE = "/r/{repository}/{job}"
PAGES = (
    (f"{_BASE}/record", ("GET",), record),
    (f"{_BASE}/part/steps", ("GET",), steps_part),
    (f"{_BASE}/part/audit", ("GET",), audit_part),
    (f"{_BASE}/record/audit", ("POST",), run_audit),
    (f"{_BASE}/record/export", ("GET",), slow(export)),
)
