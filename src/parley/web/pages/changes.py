"""What a job, or one instance of it, has changed: the files, each with its diff, and comments on lines."""

from __future__ import annotations

from typing import Any

from starlette.responses import PlainTextResponse, Response

from parley.base.text import safe_lines
from parley.engine.values.people import May
from parley.ports.workspaces import WorkspaceError
from parley.protocol.molecules import job_thread
from parley.views.job_diffs import DiffOf
from parley.views.job_view import TERMINAL
from parley.web.file_rows import file_page, path_of
from parley.web.pages.job_head import JobPage, job_page
from parley.web.visit import NotHere, Visit, slow

INSTANCES = 200  # that can be chosen from, of those at work and of those that have ended
MERGES = 200  # that are shown


def changes(visit: Visit) -> Response:
    """The whole tab."""
    page = job_page(visit)
    return page.show("job_changes.html", tab="changes", **_shown(page), **_merged(page))


def files(visit: Visit) -> Response:
    """More files of the list."""
    page = job_page(visit)
    return page.part("part_files.html", **_shown(page))


def file(visit: Visit) -> Response:
    """The diff of one file, as text in which nothing is hidden."""
    page = job_page(visit)
    of, _ = _wanted(page)
    try:
        path, spaces = path_of(visit.query.get("path", "")), visit.query.get("w") != "1"
        text = page.at.context.diffs.file_diff(of, path, spaces=spaces)
    except WorkspaceError as error:
        raise NotHere(str(error)) from error
    return PlainTextResponse(safe_lines(text))


def _shown(page: JobPage) -> dict[str, Any]:
    visit, at = page.visit, page.at
    of, agent = _wanted(page)
    thread = visit.query.get("thread", "") if of.workspace else ""
    number = visit.number("first")
    question = at.context.diffs.question(at.id) if not thread else ""
    open_ = page.present.row.state not in TERMINAL and visit.may(at, page.present) >= May.ANSWER
    there = not thread or any(one.id == thread for one in page.present.threads())
    return {
        "files": file_page(visit.changes(at, of), of, page.base, thread, number),
        "thread": thread,
        "agent": agent,
        "version": of.version,
        "versions": at.context.diffs.versions(of) if of.workspace else [],
        "instances": _instances(page),
        **_former(page),
        "question": question,
        "draft": f"{page.key}:{at.id}:{question or thread or 'changes'}",
        "tells": open_ and there and not question,
    }


def _wanted(page: JobPage) -> tuple[DiffOf, str]:
    """Whose changes the address asks for, and whose they are in words."""
    thread = page.visit.query.get("thread", "")
    if not thread or thread == job_thread(page.at.id):
        return DiffOf(page.at.id), ""
    workspace, agent = _workspace(page, thread)
    return DiffOf(page.at.id, workspace, page.visit.query.get("version", "")), agent


def _workspace(page: JobPage, thread: str) -> tuple[str, str]:
    """The workspace of an instance that is there, or was."""
    for one in page.present.threads():
        if one.id == thread:
            return one.workspace, one.agent
    with page.reading().held() as index:
        past = index.thread(thread) if index is not None else None
        if past is not None:
            return past.workspace, past.agent
        if index is None:
            raise NotHere("this job's record is still being read; try again in a moment")
    raise NotHere("there was no such instance in this job")


def _instances(page: JobPage) -> list[tuple[str, str]]:
    """The instances at work that have a workspace of their own, to choose from."""
    own = [one for one in page.present.threads() if one.workspace not in ("", job_thread(page.at.id))]
    return [(one.id, one.agent) for one in own[:INSTANCES]]


def _former(page: JobPage) -> dict[str, Any]:
    """The instances that have ended and had a workspace of their own, the last first, and how many are not listed."""
    with page.reading().held() as index:
        past = index.threads() if index is not None else []
        own = [one for one in past if one.ended and one.workspace not in ("", job_thread(page.at.id))]
    listed = [(one.id, one.agent) for one in reversed(own[-INSTANCES:])]
    return {"former": listed, "unlisted": len(own) - len(listed)}


def merges(visit: Visit) -> Response:
    """Every merge of the job so far."""

    def make() -> Response:
        page = job_page(visit)
        return page.part("part_merges.html", **_merged(page))

    return visit.kept(make)


def _merged(page: JobPage) -> dict[str, Any]:
    reading = page.reading()
    with reading.held() as index:
        found = list(index.merges) if index is not None else []
        names = {one.id: one.agent for one in index.threads()} if index is not None else {}
    shown = [(one, names.get(one.into, one.into)) for one in reversed(found[-MERGES:])]
    return {"merges": shown, "earlier": max(0, len(found) - MERGES), "reading": reading}


PAGES = (
    ("/r/{repository}/{job}/changes", ("GET",), slow(changes)),
    ("/r/{repository}/{job}/changes/files", ("GET",), slow(files)),
    ("/r/{repository}/{job}/changes/file", ("GET",), slow(file)),
    ("/r/{repository}/{job}/part/merges", ("GET",), merges),
)
