"""What the tests of the page share: a browser, and people who look at the page with it."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.cli.home import Home
from tests.web.page_harness import (
    DESKTOP,
    PHONE,
    PageWatch,
    Server,
    find_chromium,
    launch,
    prepare_repository,
    serve,
    visit,
)

FOLDER = Path(__file__).parent


# One Chromium for all tests of the page that a worker runs one after the other: it is closed before the first of
# another suite. While it runs, Playwright has an event loop in this thread, and other suites' tests start their own.
_OPEN = ExitStack()
_BROWSERS: list[Browser] = []


@pytest.fixture(scope="module")
def browser() -> Browser:
    """A Chromium that other modules' tests may have used; each person has a context of their own in it."""
    program = find_chromium()
    if program is None:
        assert os.environ.get("CI") != "true", "chromium is missing: run `make system`"
        pytest.skip("chromium is missing: run `make system`")
    if not _BROWSERS:
        made = launch(_OPEN.enter_context(sync_playwright()), program)
        _OPEN.callback(_BROWSERS.clear)
        _OPEN.callback(made.close)
        _BROWSERS.append(made)
    assert _BROWSERS[0].contexts == [], "a person of another module is still here"
    return _BROWSERS[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Close the browser after the last test of the page, once all that used it has ended."""
    try:
        yield
    finally:
        if nextitem is None or not nextitem.path.is_relative_to(FOLDER):
            _OPEN.close()


@pytest.fixture
def watch() -> Iterator[PageWatch]:
    """What goes wrong in the test's pages; at the end nothing may have that was not expected."""
    made = PageWatch()
    yield made
    made.assert_quiet()


@pytest.fixture
def desktop(browser: Browser, watch: PageWatch) -> Iterator[BrowserContext]:
    """A person at a desk."""
    with visit(browser, watch, DESKTOP) as context:
        yield context


@pytest.fixture
def phone(browser: Browser, watch: PageWatch) -> Iterator[BrowserContext]:
    """A person with a phone."""
    with visit(browser, watch, PHONE) as context:
        yield context


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A repository of its own, with one commit and no job yet."""
    monkeypatch.delenv("PARLEY_HOME", raising=False)
    return prepare_repository(tmp_path / "project")


@pytest.fixture
def server(repository: Home) -> Iterator[Server]:
    """The page of `repository`; a test names it before `desktop` or `phone`, so that it stops after they have left."""
    with serve(repository) as made:
        yield made
