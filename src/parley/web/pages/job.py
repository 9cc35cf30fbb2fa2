"""The overview of a job: who does what right now, what was said last, what was left out, what is delivered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from parley.engine.values.people import May
from parley.features.budgets.arithmetic import micros_of, tokens_of
from parley.ports.workspaces import Change, WorkspaceError
from parley.protocol.molecules import PROXY, thread_kind
from parley.views.history.chronicle import Follower, LogEvent, concerns, headline
from parley.views.history.job_index import JobIndex, PastThread
from parley.views.job_diffs import DiffOf
from parley.views.job_list import team
from parley.views.job_result import SUMMARY, assumptions
from parley.views.job_view import TERMINAL, Thread, located, moment, tree, with_progress
from parley.views.turn_hosts import lost_hosts
from parley.web.pages import job_head
from parley.web.pages.job_head import JobPage, job_page
from parley.web.visit import Visit, slow

PAGE_ROWS = 100  # instances that are shown at once
FEW = 60  # open instances that are all shown without being asked for
LATEST = 8  # lines of the log
LATEST_STEPS, LATEST_MESSAGES = 120, 30  # rows that these are looked for in
LEFT = 12  # pieces of unfinished work, and interventions
FILES = 50  # changed files that are listed
NOW, OPEN, ENDED = "now", "open", "ended"
DONE = "DONE"  # the state of a job that hands something over
BUSY = ("running", "stalled", "asking")


def overview(visit: Visit) -> Response:
    """The job at a glance."""
    page = job_page(visit)
    values = tree_values(page) | _latest(page) | _story(page)
    return page.show("job_overview.html", tab="overview", **values)


def tree_part(visit: Visit) -> Response:
    """The dispatch tree alone."""

    def make() -> Response:
        page = job_page(visit)
        return page.part("part_tree.html", **tree_values(page))

    return visit.kept(make)


def latest_part(visit: Visit) -> Response:
    """What happened last."""

    def make() -> Response:
        page = job_page(visit)
        return page.part("part_latest.html", **_latest(page))

    return visit.kept(make)


def story_part(visit: Visit) -> Response:
    """What people have said to it, and what was left out."""

    def make() -> Response:
        page = job_page(visit)
        return page.part("part_story.html", **_story(page))

    return visit.kept(make)


def delivery_part(visit: Visit) -> Response:
    """What a job that is done hands over: git is asked, so it comes after the page. Of another, its place."""
    page = job_page(visit)
    done = page.present.row.state == DONE
    return page.part("part_delivery.html", **(_delivered(page) if done else {}))


# ---- the dispatch tree -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TreeRow:
    """An instance in the tree."""

    depth: int
    thread: Thread
    turns: int = 0
    micros: int = 0
    tokens: int = 0
    changes: bool = False  # whether it works on files
    tells: bool = False  # whether the visitor may tell it something
    withdraws: bool = False  # whether they may give up it alone, and not the whole job with it


def tree_values(page: JobPage) -> dict[str, Any]:
    """The instances to show: those at work and above them, all that are open, or those that have ended."""
    query, present = page.visit.query, page.present
    everyone = team(present)
    counts = Counter(thread.state for thread in everyone)
    chosen = asked if (asked := query.get("show", "")) in (NOW, OPEN, ENDED) else ""
    shown = chosen
    if not chosen:  # it follows the job: when that ends, those are shown who worked on it
        shown = ENDED if present.row.state in TERMINAL else NOW if len(everyone) > FEW else OPEN
    reading = page.reading()
    with reading.held() as index:
        past = index.threads() if index is not None else []
        ended = [one for one in past if one.ended]
        first = page.visit.number("from")
        if shown == ENDED:
            listed = [(0, _ended_thread(one)) for one in reversed(ended)]
        else:
            listed = _busy(everyone) if shown == NOW else tree(everyone, [])
        may = page.visit.may(page.at, present)
        rows = [_row(page, may, depth, thread, index) for depth, thread in listed[first : first + PAGE_ROWS]]
    return {
        "rows": rows,
        "shown": shown,
        "chosen": chosen,
        "first": first,
        "more": max(0, len(listed) - first - PAGE_ROWS),
        "page_rows": PAGE_ROWS,
        "counts": {"now": sum(counts[state] for state in BUSY), "open": len(everyone), "ended": len(ended)},
        "reading": reading,
    }


def _busy(everyone: Sequence[Thread]) -> list[tuple[int, Thread]]:
    """Those at work, those that ask and those that are stalled, each below the ones that have dispatched it."""
    by_name = {thread.id: thread for thread in everyone}
    kept: set[str] = set()
    for thread in everyone:
        here = thread.id if thread.state in BUSY else ""
        while here and here not in kept:
            kept.add(here)
            here = by_name[here].parent if here in by_name else ""
    return tree([thread for thread in everyone if thread.id in kept], [])


def _row(page: JobPage, may: May, depth: int, thread: Thread, index: JobIndex | None) -> TreeRow:
    context = page.at.context
    told = with_progress(page.present, thread, context.files, context.redact)
    turns = index.turns_of(thread.id) if index is not None else []
    told = located(told, index.hosts) if index is not None else told
    works = thread_kind(thread.id) in ("state", "dispatch")
    there = works and thread.state != "ended"
    return TreeRow(
        depth,
        told,
        changes=works and bool(thread.workspace),
        tells=there and may >= May.ANSWER,
        withdraws=there and thread_kind(thread.id) == "dispatch" and may >= May.DECIDE,
        turns=len(turns),
        micros=sum(micros_of(turn.usage) for turn in turns),
        tokens=sum(tokens_of(turn.usage) for turn in turns),
    )


# ---- what happened -----------------------------------------------------------------------------------


def _latest(page: JobPage) -> dict[str, Any]:
    """The last lines of the log."""
    last = page.present.loaded.transaction
    steps, messages = (last.steps, last.messages) if last else (0, 0)
    follower = Follower(
        page.at.context.store,
        page.at.id,
        step=max(0, steps - LATEST_STEPS),
        message=max(0, messages - LATEST_MESSAGES),
    )
    events = [event for event in follower.read() if concerns(event)][-LATEST:]
    return {"latest": [(event, headline(event, 240), _conversation(event)) for event in reversed(events)]}


def _conversation(event: LogEvent) -> str:
    """The thread to read on."""
    return event.sender_thread if event.who != PROXY else event.thread


def _story(page: JobPage) -> dict[str, Any]:
    """What people have said to it, what was cut short, and what was left out, the newest first."""
    reading = page.reading()
    with reading.held() as index:
        past = index.history() if index is not None else None
    return {
        "interventions": [(one, one.words(moment)) for one in reversed(reading.interventions()[-LEFT:])],
        "unfinished": list(reversed(past.unfinished[-LEFT:])) if past else [],
        "abandoned": list(reversed(past.abandoned[-LEFT:])) if past else [],
        "lost": past.lost if past else 0,
        "hosts": past.hosts.words() if past else "",
        "lost_hosts": list(reversed(lost_hosts(page.at.context.store, page.at.id)[-LEFT:])),
        "refused": past.refused if past else 0,
        "reading": reading,
    }


# ---- what it hands over ------------------------------------------------------------------------------


def _changes(page: JobPage) -> Sequence[Change]:
    try:
        return page.visit.changes(page.at, DiffOf(page.at.id))
    except WorkspaceError:  # its files are deleted
        return []


def _delivered(page: JobPage) -> dict[str, Any]:
    changes = _changes(page)
    summary = next((text for name, text in page.at.context.artifacts(page.at.id) if name == SUMMARY), "")
    return {
        "changes": changes[:FILES],
        "files": len(changes),
        "added": sum(one.added or 0 for one in changes),
        "removed": sum(one.removed or 0 for one in changes),
        "obeyed": [one for one in changes if one.obeyed][:FILES],
        "assumed": list(assumptions(summary))[:FILES],
        "merged": page.at.context.merged(page.at.id),
        "cost": job_head.cost_words(page.present),
    }


def _ended_thread(one: PastThread) -> Thread:
    """An instance that has ended, as the tree shows it."""
    return Thread(
        id=one.id,
        agent=one.agent,
        parent=one.parent,
        state="ended",
        doing=one.how,
        since=one.ended,
        workspace=one.workspace,
    )


PAGES = (
    ("/r/{repository}/{job}", ("GET",), overview),
    ("/r/{repository}/{job}/part/tree", ("GET",), tree_part),
    ("/r/{repository}/{job}/part/latest", ("GET",), latest_part),
    ("/r/{repository}/{job}/part/story", ("GET",), story_part),
    ("/r/{repository}/{job}/part/delivery", ("GET",), slow(delivery_part)),
)
