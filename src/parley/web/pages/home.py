"""The first page: every job at a glance, those that need the visitor first, and what jobs cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from parley.base.text import cut
from parley.engine.values.people import May
from parley.views.job_cards import card_of
from parley.web.pages.costs import charted, contexts_of
from parley.web.reads.job_board import FINISHED, GROUPS, NEEDS, PROBLEMS, BoardEntry, in_order
from parley.web.visit import Visit

PAGE_SIZE = 40
LONGEST_WORDS = 200  # characters of a search
DAY_SECONDS = 86_400
STATES = {
    **{group.replace(" ", "-"): group for group in GROUPS},
    "done": "done",
    "withdrawn": "withdrawn",
    "failed": "failed",
}
ENDED = {"done": "DONE", "withdrawn": "WITHDRAWN", "failed": "FAILURE"}
WHENS = {
    "newer-1d": ("changed within a day", 1, True),
    "newer-7d": ("changed within 7 days", 7, True),
    "newer-30d": ("changed within 30 days", 30, True),
    "older-7d": ("not changed for 7 days", 7, False),
    "older-30d": ("not changed for 30 days", 30, False),
}


@dataclass(frozen=True, slots=True)
class Filters:
    """Which jobs are listed, as the address says it."""

    words: str = ""
    state: str = ""
    repository: str = ""
    starter: str = ""
    when: str = ""
    page: int = 1

    @classmethod
    def of(cls, visit: Visit) -> Filters:
        """The filters of an address. What it can't mean is left out."""
        query = visit.query
        return cls(
            words=cut(" ".join(query.get("q", "").split()), LONGEST_WORDS),
            state=state if (state := query.get("state", "")) in STATES else "",
            repository=key if (key := query.get("in", "")) in visit.site.contexts else "",
            starter=cut(query.get("by", ""), LONGEST_WORDS),
            when=when if (when := query.get("when", "")) in WHENS else "",
            page=max(1, visit.number("page")),
        )

    @property
    def any(self) -> bool:
        """Whether some jobs may be left out."""
        return self.query(1) != ""

    def query(self, page: int = 0) -> str:
        """The filters as an address has them; of this page, or another."""
        found = {
            "q": self.words,
            "state": self.state,
            "in": self.repository,
            "by": self.starter,
            "when": self.when,
            "page": str(page or self.page) if (page or self.page) > 1 else "",
        }
        return urlencode({name: value for name, value in found.items() if value})

    def address(self, page: int = 0) -> str:
        """Where a page of this list is."""
        query = self.query(page)
        return f"/?{query}" if query else "/"

    def take(self, one: BoardEntry, now: float) -> bool:
        """Whether a job is listed."""
        entry = one.entry
        if self.state and not (
            entry.state == ENDED[self.state] if self.state in ENDED else one.group == STATES[self.state]
        ):
            return False
        if self.repository not in ("", one.repository) or self.starter not in ("", entry.decider):
            return False
        if self.when:
            _, days, newer = WHENS[self.when]
            if (now - entry.updated < days * DAY_SECONDS) is not newer:
                return False
        return not self.words or entry.has(self.words)


def home(visit: Visit) -> Response:
    """The whole page."""
    return visit.show("home.html", **_listed(visit), **charted(visit))


def jobs(visit: Visit) -> Response:
    """The list alone, as it is now."""
    return visit.kept(lambda: visit.show("part_jobs.html", **_listed(visit)))


def _listed(visit: Visit) -> dict[str, Any]:
    site, now, filters = visit.site, time.time(), Filters.of(visit)
    contexts, every = contexts_of(visit), list[BoardEntry]()
    problems: list[tuple[str, str, str]] = []  # of repositories: which, what kind, what is wrong
    for key, context in contexts.items():
        entries, problem = site.board.read(key, context, site.hub.version(key))
        every += [one for one in entries if visit.holder.opens(key, one.entry.job)]
        if problem := visit.reason(problem) or visit.place_words(key):
            problems.append((context.title, "unreadable", problem))
        elif words := visit.engine_words(key):
            problems.append((context.title, "engine", words))
    shown = in_order([one for one in every if filters.take(one, now)])
    pages = max(1, -(-len(shown) // PAGE_SIZE))
    filters = replace(filters, page=min(filters.page, pages))
    first = (filters.page - 1) * PAGE_SIZE
    return {
        "waiting": sum(one.group == NEEDS for one in every),
        "groups": _groups(visit, shown, shown[first : first + PAGE_SIZE], now),
        "filters": filters,
        "every": len(every),
        "found": len(shown),
        "pages": pages,
        "several": len(contexts) > 1,
        "problems": problems,
        "starters": sorted({one.entry.decider for one in every if one.entry.decider} | ({filters.starter} - {""})),
        "repositories": {key: context.title for key, context in contexts.items()},
        "states": STATES,
        "whens": {name: words for name, (words, _, _) in WHENS.items()},
        "may_start": may_start(visit),
    }


def _groups(visit: Visit, shown: Sequence[BoardEntry], page: Sequence[BoardEntry], now: float) -> list[dict[str, Any]]:
    """The groups on this page, each with its jobs' cards. Only these are read further."""
    names = {NEEDS: "Waits for an answer" if visit.holder.may is May.SEE else "Needs you", PROBLEMS: "Problems"}
    return [
        {
            "name": name,
            "title": names.get(name, name.capitalize()),
            "count": sum(one.group == name for one in shown),
            "cards": [(one, card_of(one.entry, now)) for one in page if one.group == name],
            "small": name == FINISHED,
        }
        for name in GROUPS
        if any(one.group == name for one in page)
    ]


def may_start(visit: Visit) -> bool:
    """Whether the visitor may start jobs: it takes `decide`, and a pass for more than one job."""
    return visit.holder.may is May.DECIDE and not visit.holder.job


PAGES = (
    ("/", ("GET",), home),
    ("/part/jobs", ("GET",), jobs),
)
