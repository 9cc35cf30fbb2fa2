"""The artifacts of a job: each as it is now, the versions that were put forward, and the verdict that each got."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from parley.base.text import cut
from parley.ports.workspaces import WorkspaceError
from parley.views.history.artifact_history import APPROVED, OPEN, SENT_BACK, VOID, QuestionVersion
from parley.views.job_view import WORK
from parley.views.workflow_view import workflow_page
from parley.web.pages.job_head import JobPage, job_page
from parley.web.visit import NotHere, Visit

LONGEST = 200_000  # characters of a text or a diff that is shown
VERSIONS = 100  # that are listed
WORKFLOW = "workflow plan"
_LEVELS = {APPROVED: "good", SENT_BACK: "warn", VOID: "warn", OPEN: "warn"}


@dataclass(frozen=True, slots=True)
class VersionLine:
    """A version of an artifact."""

    number: int
    asked: QuestionVersion

    @property
    def level(self) -> str:
        """How its standing is coloured."""
        return _LEVELS.get(self.asked.standing, "")


def artifacts(visit: Visit) -> Response:
    """The tab."""
    page = job_page(visit)
    return page.show("job_artifacts.html", tab="artifacts", **_values(page))


def artifacts_part(visit: Visit) -> Response:
    """The versions alone, as they are now."""

    def make() -> Response:
        page = job_page(visit)
        return page.part("part_versions.html", **_values(page))

    return visit.kept(make)


def version(visit: Visit) -> Response:
    """One version, or what changed from another version to it."""
    page = job_page(visit)
    name = visit.query.get("name", "")
    lines = {line.asked.question: line for line in _versions(page, name)}
    line = lines.get(visit.query.get("question", ""))
    if line is None:
        raise NotHere(f"there is no such version of {cut(name, 60)}; reload the page")
    other = lines.get(visit.query.get("from", ""))
    return page.part("part_version.html", artifact=name, line=line, other=other, **_compared(page, name, line, other))


def _compared(page: JobPage, name: str, line: VersionLine, other: VersionLine | None) -> dict[str, Any]:
    context, asked = page.at.context, line.asked
    try:
        if other is None:
            text = context.artifact_text(page.at.id, asked.question, name, asked.digest)
            return {"text": _bounded(text), "diff": None}
        diff = context.artifact_diff(page.at.id, name, other.asked.digest, asked.digest)
    except WorkspaceError:  # its files are deleted
        return {"text": None, "diff": None}
    shown = _bounded(diff)
    return {"text": None, "diff": list(diff_lines(shown)) if shown is not None else None}


def _bounded(text: str | None) -> str | None:
    if text is None or len(text) <= LONGEST:
        return text
    return f"{cut(text, LONGEST)}\n… the rest is left out"


def diff_lines(diff: str) -> Iterator[tuple[str, str]]:
    """The lines of a diff, and what each is. Below a hunk's head, a changed line may look like a file's head."""
    inside = False
    for line in diff.split("\n"):
        if line.startswith("diff "):
            inside = False
        kind = {"+": "plus", "-": "minus", "@": "hunk", " ": "same", "\\": "same"}.get(line[:1], "head")
        inside = inside or kind == "hunk"
        yield kind if inside else "head", line


def _versions(page: JobPage, name: str) -> list[VersionLine]:
    """The versions of an artifact of the job's own, oldest first."""
    with page.reading().held() as index:
        found = index.artifacts.versions(name) if index is not None else []
    own = [one for one in found if one.record in ("", page.at.id)]
    return [VersionLine(number, one) for number, one in enumerate(own, 1)]


def _values(page: JobPage) -> dict[str, Any]:
    texts = dict(page.at.context.artifacts(page.at.id))
    reading = page.reading()
    with reading.held() as index:
        asserted = {one.artifact for one in index.artifacts.versions()} if index is not None else set()
    plan = _workflow_plan(page)
    names = [*texts, *sorted(asserted - set(texts) - {""}), *([WORKFLOW] if plan else [])]
    wanted = page.visit.query.get("name", "")
    name = wanted if wanted in names else names[0] if names else ""
    lines = _versions(page, name) if name and name != WORKFLOW else []
    text = plan if name == WORKFLOW else texts.get(name, "")
    return {
        "names": names,
        "artifact": name,
        "text": _bounded(text) or "",
        "versions": list(reversed(lines[-VERSIONS:])),
        "whole_tree": name == WORK,
        "reading": reading,
    }


def _workflow_plan(page: JobPage) -> str:
    """The plan of the job's workflow, as it executes it."""
    flow = workflow_page(page.present.loaded.molecules, page.at.context.redact)
    return flow.plan if flow is not None else ""


_BASE = "/r/{repository}/{job}"
PAGES = (
    (f"{_BASE}/artifacts", ("GET",), artifacts),
    (f"{_BASE}/part/versions", ("GET",), artifacts_part),
    (f"{_BASE}/part/version", ("GET",), version),
)
