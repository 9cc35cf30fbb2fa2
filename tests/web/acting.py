"""What the tests of answering and steering share: one server for a module, persons with passes, and jobs that ask."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Browser, Page, expect

from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.views.repository_context import repository_key
from tests.cli.home import PATIENCE_SECONDS, Home, wait_for
from tests.web.page_harness import DESKTOP, PageWatch, Server, start_job, visit

expect.set_options(timeout=PATIENCE_SECONDS * 1000)  # as patient as all other tests
SCRIPT = "<script>document.title = 'alive'</script>"
IMAGE = "<img src=x onerror=\"document.title = 'alive'\">"
BIDI = "\u202ereversed\u202c"


def address_of(home: Home, server: Server, job: str, *more: str) -> str:
    """Where a job's page is, or one below it."""
    key = repository_key(home.folder / ".parley")
    return "/".join((f"{server.address}/r/{key}/{job}", *more))


def question_in(home: Home, job: str) -> str:
    """The first open question of a job, as its own bus has it; waits until there is one."""

    def look() -> str:
        found = home.here("inbox", "--json").document["questions"]
        return next((str(one["id"]) for one in found if one["job"] == job), "")

    return str(wait_for(look))


def state_of(home: Home, job: str) -> str:
    """The state that a job is in."""
    return next(str(one["state"]) for one in home.jobs() if one["id"] == job)


def inputs_of(home: Home, job: str, kind: str) -> list[tuple[str, dict[str, Any]]]:
    """What was asked of a job: by whom, and what."""
    store = SqliteStore(home.folder / ".parley")
    try:
        return [(row.by, json.loads(row.body)) for row in store.inputs(job, waiting=False) if row.kind == kind]
    finally:
        store.close()


@contextmanager
def person(browser: Browser, watch: PageWatch, home: Home, server: Server, name: str, may: str) -> Iterator[Page]:
    """Another person's browser, let in by a pass of their own."""
    added = home.run("people", "add", name, "--may", may)
    assert added.code == 0, added
    token = added.out.split("token=")[1].split()[0]
    with visit(browser, watch, DESKTOP) as context:
        page = context.new_page()
        page.goto(f"{server.address}/?token={quote(token)}")
        yield page


def open_page(browser: Browser, watch: PageWatch, server: Server, **options: Any) -> Any:
    """The browser of the account that runs the server, let in."""

    @contextmanager
    def opened() -> Iterator[Page]:
        with visit(browser, watch, **options) as context:
            page = context.new_page()
            page.goto(server.link)
            yield page

    return opened()


def started(home: Home, playbook: str, *words: str, request: str = "a request") -> str:
    """A job that waits for people, or has ended."""
    return start_job(home, playbook, request, *words)
