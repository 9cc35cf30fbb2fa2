"""One request as a page's code sees it: who visits, what they ask for, and how to answer.

A page is a plain function from a Visit to a Response. It runs in a thread, since it reads files and asks git; what it
raises is turned into a page that says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.datastructures import QueryParams
from starlette.responses import HTMLResponse, RedirectResponse, Response

from parley.base.text import cut
from parley.engine.values.people import May, people_of
from parley.ports.workspaces import Change
from parley.views.job_diffs import DiffOf
from parley.views.job_view import Present
from parley.views.repository_context import JobContext, RepositoryContext
from parley.web.safety.people_book import Pass
from parley.web.site import PageSite

LOOKS_ON = "this link only shows; who made it can give you one with which you answer"
GUEST = " guest"  # in whose name a link without a name shows jobs: with the blank, no person can be called so

NAMED = 40  # characters of a name that does not fit
MOST_DIGITS = 12  # of a number in an address: times in seconds, and numbers that SQLite takes


class VisitRefused(Exception):
    """The visitor can't have this: the text says why, and what to do."""

    status = 403


class NotHere(VisitRefused):
    """There is no such thing, or none that this visitor may see: the two are not told apart."""

    status = 404


class BadForm(VisitRefused):
    """A form was filled in wrongly."""

    status = 400


def slow(page: Callable[[Visit], Response]) -> Callable[[Visit], Response]:
    """Mark a page that waits for a process, such as git: it takes no thread from pages that only read the bus."""
    page.slow = True  # type: ignore[attr-defined]  # functions take any attribute
    return page


class Upload:
    """A file that was sent with a form."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name, self.data = name, data


@dataclass(frozen=True)
class Visit:
    """One request."""

    site: PageSite
    holder: Pass  # whose cookie it is, and what they may do
    path: Mapping[str, str]
    query: QueryParams
    form: Mapping[str, str] = field(default_factory=dict)
    many: Mapping[str, list[str]] = field(default_factory=dict)  # the fields of the form that occur several times
    uploads: Mapping[str, list[Upload]] = field(default_factory=dict)
    part: bool = False  # whether a part of a page is wanted, by a page that is open
    seen: str = ""  # the version of it that the browser has
    mark: str = ""  # how far the changes had come before anything was read: the page has seen all up to this
    address: str = ""  # its path and query
    compressed: bool = False  # whether the browser takes compressed answers

    # ---- who -----------------------------------------------------------------------------

    @property
    def person(self) -> str:
        """The visitor's name; empty: a link without a name."""
        return self.holder.person

    def may(self, at: JobContext | None = None, present: Present | None = None) -> May:
        """What the visitor may do: on the server, or in a job.

        In a job that the server's user started, a pass is how that user has named its holder.
        """
        if not self.person:  # a link without a name only shows, whatever the people's file says
            return May.SEE
        if at is None or self.holder.may is May.SEE:
            return self.holder.may
        people = people_of(present.loaded if present else at.context.store.load(at.id))
        named = people.may(self.person)
        if people.decider == self.site.account and self.person not in people.named:
            named = max(named, self.holder.may)
        return min(self.holder.may, named)

    def require(self, needed: May, at: JobContext | None = None) -> None:
        """Refuse a visitor who may not do so much."""
        if self.may(at) >= needed:
            return
        if not self.person or self.holder.may is May.SEE:
            raise VisitRefused(LOOKS_ON)
        if at is not None:
            raise VisitRefused(f"{self.person} may not do this in {at.id}: who started it can name you (parley allow)")
        raise VisitRefused(f"{self.person} may not do this: who runs this server can give you more (parley people)")

    # ---- what ----------------------------------------------------------------------------

    def number(self, name: str) -> int:
        """A number of the address: from its path, or its query. 0 where it has none, or what can't be one."""
        text = self.path.get(name) or self.query.get(name, "")
        return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else 0

    def repository(self) -> RepositoryContext:
        """The repository that the address names."""
        key = self.path.get("repository", "")
        context = self.site.contexts.get(key)
        if context is None or not self.holder.opens(key, self.holder.job):
            raise NotHere("there is no such repository here; the first page lists what there is")
        return context

    def job(self) -> JobContext:
        """The job that the address names, in the visitor's name."""
        context, job = self.repository(), self.path.get("job", "")
        if not self.holder.opens(self.path["repository"], job):
            raise NotHere("there is no such job here; the first page lists what there is")
        if not context.there():
            raise NotHere(f"{context.title} has no jobs yet")
        if not context.store.has(job):
            raise NotHere(f"there is no job {cut(job, NAMED)!r} here; the first page lists what there is")
        return JobContext(context.in_name_of(self.person or GUEST), job)

    def present(self, at: JobContext) -> Present:
        """The job as it is now, to be shown: read once for all who look at the same moment."""
        version = self.site.hub.version(self.path["repository"], at.id)
        return self.site.presents.get(self.site.contexts[self.path["repository"]], at.id, version)

    def changes(self, at: JobContext, of: DiffOf) -> Sequence[Change]:
        """What was changed: read once for all who look at it. WorkspaceError if it can't be."""
        last = self.present(at).loaded.transaction
        version = (last.number if last else 0, self.site.hub.version(self.path["repository"], at.id))
        return self.site.change_lists.get(at.context, of, version)

    @property
    def place(self) -> str:
        """The key of the repository that the address names; empty: it names none that the visitor may see."""
        key = self.path.get("repository", "")
        return key if key in self.site.contexts and self.holder.opens(key, self.holder.job) else ""

    def place_words(self, repository: str) -> str:
        """Why a repository can't be read now; empty: it can. The reason may name a folder of the user's."""
        return self.reason(self.site.watcher.problem(repository))

    def reason(self, words: str) -> str:
        """Why something can't be read. The words may name folders of the user's: nothing for a link for one job."""
        return "its files can't be reached" if words and self.holder.job else words

    @property
    def sees_hosts(self) -> bool:
        """Whether the visitor may see the hosts: who may see all, where turns can run on other hosts."""
        return not self.holder.job and any(context.on_server() for context in self.site.contexts.values())

    def engine_words(self, repository: str) -> str:
        """Why a repository's engine does not run; empty: it does. Its own words may be about any job."""
        words = self.site.engine_words(repository)
        return "its process does not run just now" if words and self.holder.job else words

    # ---- the answer ----------------------------------------------------------------------

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page, or a part of one, made from a template."""
        return HTMLResponse(self.site.render(template, visit=self, mark=self.mark, **values), status)

    def kept(self, make: Callable[[], Response]) -> Response:
        """A part that is made once for all who may see the same, until something changes in what it shows."""
        return self.site.parts.get(self.kept_as, self.version, make, compressed=self.compressed)

    @property
    def kept_as(self) -> tuple[object, ...]:
        """What is asked for, and all of the visitor that the answer may depend on."""
        return (self.address, self.part, self.person, self.holder.may, self.holder.repository, self.holder.job)

    @property
    def version(self) -> int:
        """The number of the last change in what is asked for."""
        return self.site.hub.version(self.path.get("repository", ""), self.path.get("job", ""))

    def go(self, address: str) -> Response:
        """Send the browser to another page, after a form."""
        return RedirectResponse(address, 303)

    def asking(self, **path: str) -> Visit:
        """The same visitor, asking for something else."""
        return replace(self, path={**self.path, **path})
