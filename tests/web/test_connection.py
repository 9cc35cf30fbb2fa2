"""The connection of open pages: cut, hung, shared by tabs, ended. A page says so, comes back, and misses nothing."""

import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect

from tests.cli.home import LEADS, Home
from tests.web.acting import address_of, question_in, started
from tests.web.page_harness import PageWatch, Server, prepare_repository, serve, visit

CUT = "(?i)failed to (load|fetch)"  # how Chromium's console tells of it


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A repository of this module's own."""
    return prepare_repository(tmp_path_factory.mktemp("connection") / "project")


@pytest.fixture(scope="module")
def job(home: Home) -> str:
    """A job that waits at its first gate."""
    return started(home, LEADS)


@pytest.fixture(scope="module")
def server(home: Home, job: str) -> Iterator[Server]:
    """One server for most tests of this module."""
    with serve(home) as made:
        yield made


@pytest.fixture
def streams(browser: Browser, watch: PageWatch) -> Iterator[tuple[BrowserContext, list[Request]]]:
    """A browser, and the streams of events that it has opened."""
    opened: list[Request] = []
    with visit(browser, watch) as context:
        context.on("request", lambda one: opened.append(one) if "/events?" in one.url else None)
        yield context, opened


def offline(page: Page) -> None:
    """The page says that it is not connected."""
    expect(page.locator("#connection")).to_be_visible()
    expect(page.locator("#connection")).to_contain_text("tries again by itself")


def online(page: Page) -> None:
    """The page is connected again."""
    expect(page.locator("#connection")).to_be_hidden()


def test_a_server_that_hangs_is_noticed_and_the_page_comes_back(
    home: Home, job: str, server: Server, desktop: BrowserContext
) -> None:
    page = desktop.new_page()
    page.clock.install()
    page.goto(server.link)
    page.goto(address_of(home, server, job))
    expect(page.locator("#action-tell")).to_be_visible()
    server.process.send_signal(signal.SIGSTOP)
    try:
        page.clock.fast_forward(20_000)
        offline(page)
    finally:
        server.process.send_signal(signal.SIGCONT)
    online(page)


def test_what_can_not_be_sent_says_so_and_stays(
    home: Home, job: str, server: Server, desktop: BrowserContext, watch: PageWatch
) -> None:
    watch.allow(CUT)
    watch.allow("htmx:error")
    page = desktop.new_page()
    page.goto(server.link)
    page.goto(address_of(home, server, job, "q", question_in(home, job)))
    page.keyboard.press("r")
    page.keyboard.type("say more")
    desktop.set_offline(True)
    offline(page)
    page.keyboard.press("Control+Enter")
    expect(page.locator(".told")).to_contain_text("no connection to the server")
    desktop.set_offline(False)
    online(page)
    expect(page.locator("#answer-text")).to_have_value("say more")
    expect(page.locator(".send")).to_be_enabled()


def test_many_tabs_share_one_stream_and_another_takes_over(
    home: Home, job: str, server: Server, streams: tuple[BrowserContext, list[Request]]
) -> None:
    context, opened = streams
    first = context.new_page()
    first.goto(server.link)
    first.goto(address_of(home, server, job))
    expect(first.locator("#action-tell")).to_be_visible()
    before = len(opened)
    tabs = [context.new_page() for _ in range(6)]
    for tab in tabs:
        tab.goto(address_of(home, server, job))
        expect(tab.locator("#action-tell")).to_be_visible()
    assert len(opened) == before

    first.close()
    assert home.run("pause", job).code in (0, 4)
    for tab in tabs:
        expect(tab.locator("#action-go-on")).to_be_visible()
    assert len(opened) == before + 1
    assert home.run("resume", job).code in (0, 4)


def test_who_is_put_out_is_told_on_the_open_page(
    home: Home, job: str, server: Server, streams: tuple[BrowserContext, list[Request]], watch: PageWatch
) -> None:
    watch.allow("401")
    context, opened = streams
    added = home.run("people", "add", "ann", "--may", "decide")
    page = context.new_page()
    page.goto(f"{server.address}/?token={added.out.split('token=')[1].split()[0]}")
    page.goto(address_of(home, server, job))
    expect(page.locator("#action-tell")).to_be_visible()
    assert home.run("people", "remove", "ann").code == 0

    expect(page.locator("#connection")).to_contain_text("not let in any more")
    tried = len(opened)
    page.locator("#action-tell").click()
    expect(page.locator("#steering")).to_contain_text("open your link again")
    assert len(opened) == tried


def test_a_server_that_is_killed_and_started_again_is_found_and_nothing_is_missed(
    home: Home, job: str, desktop: BrowserContext, watch: PageWatch
) -> None:
    watch.allow(CUT)
    page, asked = desktop.new_page(), question_in(home, job)
    with serve(home) as first:
        page.goto(first.link)
        page.goto(address_of(home, first, job, "q", asked))
        page.locator("#answer-text").fill("half a sentence")
        other = desktop.new_page()
        other.goto(address_of(home, first, job))
        first.kill()
        offline(other)
    assert home.run("answer", asked, "--approve", "yes").code in (0, 4)
    with serve(home, "--port", first.address.rpartition(":")[2]):
        online(other)
        expect(other.locator("#head .state-node.here")).to_contain_text("PLAN")
        page.bring_to_front()
        expect(page.locator("#question-state")).to_contain_text("approve, by")
        expect(page.locator("#answer-text")).to_have_value("half a sentence")
        page.close()
        other.close()
