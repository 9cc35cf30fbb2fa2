"""What stands above every tab of a job: what it is, where it stands, what it needs, what it has used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct
from starlette.responses import Response

from parley.bus.attendant import read_problems
from parley.bus.rows import Spent, sum_of
from parley.engine.values import job_settings
from parley.engine.values.people import DOES
from parley.features.budgets.arithmetic import PARALLEL, BudgetLine, standing
from parley.features.former_job import FormerJob
from parley.views.history.state_machine import state_machine
from parley.views.job_list import end_words
from parley.views.job_view import TERMINAL, Present, lasted
from parley.views.questions.needs import BUDGET, FAILURE, GATE, QUESTION, UNATTENDED, Need, of_present, words_of
from parley.views.questions.next_actions import Situation, situations
from parley.views.repository_context import JobContext
from parley.web.drawing.state_machine import draw
from parley.web.offers import offers
from parley.web.reads.job_indexes import JobReading
from parley.web.visit import Visit
from parley.workflow.model.flow_slots import CURRENT

ANSWERED_HERE = (QUESTION, GATE, FAILURE)  # kinds of needs that have a page of their own
SHOWN = 6  # situations that are told
# What every running job is in, told by the tree; and what a need tells already.
_PLAIN = ("running", "asking", "mail", "waiting", "idle", QUESTION, GATE, FAILURE, BUDGET, UNATTENDED)
TABS = (
    ("overview", "Overview", "o"),
    ("conversation", "Conversation", "c"),
    ("artifacts", "Artifacts", "f"),
    ("changes", "Changes", "d"),
    ("workflow", "Workflow", "w"),
    ("timeline", "Timeline", "t"),
    ("record", "Record", "e"),
)


class JobFacts(Struct, frozen=True, kw_only=True):
    """What of a job's settings its page shows."""

    policies: tuple[str, ...] = ()
    model: str = ""
    usual_model: str = ""
    continues: FormerJob | None = None


@dataclass(frozen=True)
class JobPage:
    """A job as one request sees it."""

    visit: Visit
    at: JobContext
    present: Present
    key: str

    @property
    def base(self) -> str:
        """Its address."""
        return f"/r/{self.key}/{self.at.id}"

    def reading(self) -> JobReading:
        """What is read of its past."""
        return self.visit.site.indexes.of(self.key, self.at, self.present)

    def show(self, template: str, **values: Any) -> Response:
        """Render a whole tab: its own values, and the head's."""
        return self.visit.show(template, **self.common(), **head_values(self), **values)

    def part(self, template: str, **values: Any) -> Response:
        """Render one part of a tab."""
        return self.visit.show(template, **self.common(), **values)

    def common(self) -> dict[str, Any]:
        """What every part of the page uses."""
        return {
            "at": self.at,
            "base": self.base,
            "live": f"job:{self.key}:{self.at.id}",
            "row": self.present.row,
            "present": self.present,
            "ended": self.present.row.state in TERMINAL,
        }


def job_page(visit: Visit) -> JobPage:
    """The job that the address names, as it is now."""
    at = visit.job()
    return JobPage(visit, at, visit.present(at), visit.path["repository"])


def head(visit: Visit) -> Response:
    """The head alone, as it is now."""

    def make() -> Response:
        page = job_page(visit)
        return page.part("part_job_head.html", **head_values(page))

    return visit.kept(make)


def place(visit: Visit) -> Response:
    """Whether the repository can be read now. It stands above every page of a repository, and asks no bus."""
    visit.repository()
    return visit.show("part_place.html")


def head_values(page: JobPage) -> dict[str, Any]:
    """All that the head shows."""
    visit, at, present = page.visit, page.at, page.present
    row, now = present.row, visit.site.now()
    ended, files = row.state in TERMINAL, at.context.files
    facts = job_settings.read(row, JobFacts)
    machine = state_machine(present.record, row.created, row.updated if ended else now)
    trouble = list(_trouble(page))
    found = of_present(present)
    if trouble:  # which says more
        found = [need for need in found if need.kind != UNATTENDED]
    return {
        "waiting": sum(need.kind in ANSWERED_HERE for need in found),
        "machine": machine,
        "drawn": draw(machine),
        "tabs": TABS,
        "workflow": has_workflow(present),
        "needs": [(need, _need_words(need), need.kind in ANSWERED_HERE) for need in found],
        "situations": _told(present, found),
        "trouble": trouble,
        "seconds": lasted(present, files, now),
        "runs": present.owned and not ended,
        "cost": cost_words(present),
        "budgets": [
            _bar(line)
            for line in standing(at.context.store, present.loaded, now)
            if not (ended and line.what == PARALLEL)
        ],
        "people": [
            (name, DOES[present.people.may(name)])
            for name in {row.decider: None, **dict.fromkeys(present.people.named)}
        ],
        "facts": facts,
        "policies": list(zip(("intent", "plan", "execute"), facts.policies, strict=False)),
        "model": _model(page, facts),
        "merged": row.state == "DONE" and at.context.merged(at.id),
        "end_words": end_words(present) if ended else "",
        "may": visit.may(at, present),
        "offered": offers(visit, at, present),
        "mine": visit.person == visit.site.account,
    }


def _need_words(need: Need) -> str:
    """What is needed, in the words of who asks; the ways to answer stand on the question's page."""
    return words_of(need.asked) if need.asked else need.headline


def has_workflow(present: Present) -> bool:
    """Whether the job executes a plan of several agents."""
    return CURRENT in present.loaded.molecules


def _told(present: Present, found: list[Need]) -> tuple[list[Situation], int]:
    """The situations that are told in the head, and how many more there are."""
    threads = {need.thread for need in found if need.kind == "stall"}
    told = [
        one
        for one in situations(present)
        if one.kind not in _PLAIN and not (one.kind == "stalled" and one.thread in threads)
    ]
    return told[:SHOWN], max(0, len(told) - SHOWN)


def _trouble(page: JobPage) -> Iterator[str]:
    """Why the job does not go on by itself."""
    if page.present.row.state in TERMINAL:
        return
    if (words := read_problems(Path(page.at.context.home)).get(page.at.id)) is not None:
        yield f"the engine can't go on with it: {words}"
    elif not page.present.owned and (words := page.visit.engine_words(page.key)):
        yield f"the engine of this repository does not run: {words}"


@dataclass(frozen=True)
class Bar:
    """How much of a budget is used."""

    words: str
    percent: int  # at most 100
    level: str  # good, warn, bad
    option: str


def _bar(line: BudgetLine) -> Bar:
    share = line.used / line.limit if line.limit else 1.0
    level = "bad" if line.spent else "warn" if share >= 0.8 else "good"  # noqa: PLR2004 - when people are told
    return Bar(line.words(), min(100, int(100 * share)), level, line.option)


def cost_words(present: Present) -> str:
    """What a job has used, in a few words."""
    used: Spent = sum_of((present.loaded.spent or {}).values())
    turns = f"{used.turns:,} {'turn' if used.turns == 1 else 'turns'}"
    if used.micros:
        return f"{turns}, ${used.micros / 1e6:,.2f}"
    return f"{turns}, {used.tokens:,} tokens" if used.tokens else turns


def _model(page: JobPage, facts: JobFacts) -> str:
    """The model that answered most of its agents, or else was asked for."""
    with page.reading().held() as index:
        known = list(index.history().models.values()) if index is not None else []
    return max(known, key=known.count) if known else facts.model or facts.usual_model


PAGES = (
    ("/r/{repository}/part/place", ("GET",), place),
    ("/r/{repository}/{job}/part/head", ("GET",), head),
)
