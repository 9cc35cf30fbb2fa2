"""All that the pages share while the server runs: the repositories, the people, the templates, what is new."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from parley.engine.values.people import May
from parley.views.repository_context import RepositoryContext, repository_key
from parley.web.live.events import Hub, Watcher
from parley.web.reads.audit_runs import AUDIT, AuditRuns
from parley.web.reads.change_lists import ChangeLists
from parley.web.reads.job_board import JobBoard
from parley.web.reads.job_indexes import INDEX, JobIndexes
from parley.web.reads.page_commands import PageCommands
from parley.web.reads.part_cache import PartCache
from parley.web.reads.presents import Presents
from parley.web.safety.opening_token import OpeningToken
from parley.web.safety.people_book import Pass, PeopleBook
from parley.web.safety.sessions import ACCOUNT, Sessions
from parley.web.start_notes import StartNotes
from parley.web.steering_locks import SteeringLocks
from parley.web.templating import Templates


@dataclass
class PageSite:
    """The server's state. Pages run in several threads at once; each part guards itself."""

    contexts: Mapping[str, RepositoryContext]  # the repositories by their keys
    account: str  # the user who runs the server
    token: str  # of the link that is printed
    origin: str  # the address of the first page, without a path
    key: bytes  # signs cookies and links
    people: PeopleBook
    sessions: Sessions
    hub: Hub
    watcher: Watcher
    opening: OpeningToken  # of the link that the server opens itself
    engine_words: Callable[[str], str]  # why the engine of a repository does not run; empty: it does
    commands: PageCommands = field(default_factory=PageCommands)
    parts: PartCache = field(default_factory=PartCache)
    presents: Presents = field(default_factory=Presents)
    change_lists: ChangeLists = field(default_factory=ChangeLists)
    board: JobBoard = field(default_factory=JobBoard)
    steering: SteeringLocks = field(default_factory=SteeringLocks)
    start_notes: StartNotes = field(default_factory=StartNotes)
    indexes: JobIndexes = field(init=False)  # what was read of the past of the jobs that people look at
    audits: AuditRuns = field(init=False)  # that were run from the page

    @cached_property
    def templates(self) -> Templates:
        """The templates with their helpers."""
        return Templates()

    def __post_init__(self) -> None:
        """Make what tells the hub."""
        self.indexes = JobIndexes(lambda repository, job: self.hub.publish([(repository, job, INDEX)]))
        self.audits = AuditRuns(lambda repository, job: self.hub.publish([(repository, job, AUDIT)]), self.commands)

    @cached_property
    def account_pass(self) -> Pass:
        """What the user who runs the server may do: everything."""
        return Pass(id=ACCOUNT, person=self.account, may=May.DECIDE, digest="", made=0.0)

    def holder(self, person: str, repository: str, job: str) -> Pass | None:
        """The pass by which a person may open a job now; None: they have none."""
        return self.account_pass if person == self.account else self.people.of_person(person, repository, job)

    def render(self, template: str, **values: Any) -> str:
        """Make a page or a part of one."""
        return self.templates.render(template, site=self, **values)

    @staticmethod
    def now() -> float:
        """The time."""
        return time.time()

    def key_of(self, context: RepositoryContext) -> str:
        """The key of a repository, as addresses have it."""
        return repository_key(Path(context.home))

    def address(self, context: RepositoryContext, job: str, *more: str) -> str:
        """The address of a job's page, or of one below it."""
        return "/".join((f"/r/{self.key_of(context)}/{job}", *more))
