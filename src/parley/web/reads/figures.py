"""The server's figures, for a scraper: how many jobs there are, what they wait for, what they used. No job's words."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

from parley.base.json_codec import Unreadable
from parley.bus.rows import BusError, Spent, sum_of
from parley.engine.values.hold_causes import Budget, Cause, Pause, Stall, Stuck, Wait, cause_of
from parley.protocol.molecules import AskHuman, Hold
from parley.views.job_view import DAMAGE, TERMINAL, Present
from parley.views.questions.needs import UNREADABLE, of_present
from parley.views.repository_context import RepositoryContext

HUMAN = "human"
CAUSES: dict[type[Cause], str] = {Wait: "provider", Stall: "stall", Pause: "pause", Budget: "budget", Stuck: "stuck"}


@dataclass(frozen=True, slots=True)
class JobFigures:
    """What is counted of a job that has not ended."""

    working: int = 0
    waits: Counter[str] = field(default_factory=Counter)
    needs: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class RepositoryFigures:
    """What is counted of a repository."""

    states: Counter[str] = field(default_factory=Counter)
    working: int = 0
    waits: Counter[str] = field(default_factory=Counter)
    needs: Counter[str] = field(default_factory=Counter)
    spent: Spent = field(default_factory=Spent)
    bus_bytes: int | None = None  # None: there is none yet


class Figures:
    """The figures of all repositories. A job is read again only after it has changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[int, JobFigures]] = {}  # with the version that was read

    def read(self, key: str, context: RepositoryContext, versions: dict[str, int]) -> RepositoryFigures | None:
        """A repository as it is; `versions`: of its jobs that have not ended. None if it can't be read."""
        found = RepositoryFigures()
        try:
            if not context.there():
                return found
            glimpses = context.glance()
            found.spent = sum_of(spent for _, _, spent in context.store.spending(""))
            found.bus_bytes = context.store.size()
        except (BusError, Unreadable, OSError):
            return None
        live = {seen.job for seen in glimpses if seen.state not in TERMINAL}
        found.states = Counter(seen.state for seen in glimpses)
        with self._lock:
            for job in live:
                one = self._job(key, context, job, versions.get(job, 0))
                found.working += one.working
                found.waits += one.waits
                found.needs += one.needs
            for known in [known for known in self._known if known[0] == key and known[1] not in live]:
                del self._known[known]
        return found

    def _job(self, key: str, context: RepositoryContext, job: str, version: int) -> JobFigures:
        known = self._known.get((key, job))
        if known is not None and known[0] == version:
            return known[1]
        try:
            made = _figures_of(Present(context.store, job))
        except (*DAMAGE, BusError, OSError):  # one that can't be read hides no other
            made = JobFigures(needs=Counter([UNREADABLE]))
        self._known[key, job] = (version, made)
        return made


def _figures_of(present: Present) -> JobFigures:
    waits = Counter(CAUSES[type(cause_of(hold))] for hold in present.soup.of(Hold))
    waits[HUMAN] += len(present.soup.of(AskHuman))
    return JobFigures(
        working=len(present.loaded.turns) if present.owned else 0,
        waits=+waits,
        needs=Counter(need.kind for need in of_present(present)),
    )
