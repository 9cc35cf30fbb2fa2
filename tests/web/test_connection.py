"""The connection of open pages: cut, hung, shared by tabs, ended. A page says so, comes back, and misses nothing."""

import re
import signal
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, Route, expect

from tests.cli.home import LEADS, Home
from tests.web.acting import address_of, question_in, started
from tests.web.page_harness import PageWatch, Server, prepare_repository, serve, visit

CUT = "(?i)failed to (load|fetch)"  # how Chromium's console tells of it
# Keep what the leading tab tells the others.
LISTEN = "() => { new BroadcastChannel('parley-events').onmessage = (told) => (window.told ??= []).push(told.data); }"


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


def test_what_was_asked_for_when_the_connection_broke_is_asked_for_again(
    home: Home, server: Server, desktop: BrowserContext, watch: PageWatch
) -> None:
    watch.allow(CUT)
    page, talk, job = desktop.new_page(), desktop.new_page(), started(home, LEADS)
    broken: list[str] = []

    def fail(route: Route) -> None:
        # each part once: the connection breaks, and the server can't make it
        asked = parse_qs(urlsplit(route.request.url).query).get("part", [])
        new = [one for one in asked if one not in broken]
        broken.extend(new)
        if "/talk/new" in route.request.url and "talk" not in broken:
            broken.append("talk")
            route.abort()
        elif new:
            route.fulfill(json=[[one, "", ""] for one in new])
        else:
            route.continue_()

    page.goto(server.link)
    page.goto(address_of(home, server, job))
    expect(page.locator("#action-tell")).to_be_visible()
    talk.goto(address_of(home, server, job, "conversation"))
    desktop.route(re.compile("/parts|/talk/new"), fail)
    assert home.run("answer", question_in(home, job), "--approve", "what was said meanwhile").code in (0, 4)

    expect(talk.locator("#talk")).to_contain_text("what was said meanwhile")
    page.bring_to_front()
    expect(page.locator("#latest")).to_contain_text("what was said meanwhile")
    assert "talk" in broken
    assert any(one.endswith("/part/latest") for one in broken)
    desktop.unroute_all()


def test_what_a_tab_missed_before_it_listened_is_not_lost_to_what_other_tabs_tell(
    home: Home, job: str, server: Server, desktop: BrowserContext, watch: PageWatch
) -> None:
    watch.allow(CUT)
    leader, tab, other = desktop.new_page(), desktop.new_page(), started(home, LEADS, request="another one")
    leader.goto(server.link)
    leader.goto(address_of(home, server, job))
    expect(leader.locator("#action-pause")).to_be_visible()
    cut: list[str] = []
    mended: list[str] = []

    def late(route: Route) -> None:
        made = route.fetch()  # as it is before the job is paused
        assert home.run("pause", job).code in (0, 4)
        expect(leader.locator("#action-go-on")).to_be_visible()
        route.fulfill(response=made)

    def broken(route: Route) -> None:
        if mended:
            route.continue_()
        else:
            cut.append(route.request.url)
            route.abort()

    tab.route(address_of(home, server, job), late)
    tab.route("**/events/since?*", broken)
    tab.goto(address_of(home, server, job))
    tab.evaluate(LISTEN)
    assert home.run("pause", other).code in (0, 4)
    tab.wait_for_function("(job) => JSON.stringify(window.told ?? []).includes(job)", arg=other)
    assert cut
    mended.append("now")
    expect(tab.locator("#head")).to_contain_text("paused")
    tab.unroute_all()
    assert home.run("resume", job).code in (0, 4)


def test_a_part_that_is_fetched_seldom_holds_up_no_other(
    home: Home, job: str, server: Server, desktop: BrowserContext
) -> None:
    page = desktop.new_page()
    page.clock.install(time=0)
    page.goto(server.link)
    expect(page.locator("#costs")).to_be_visible()
    page.evaluate(LISTEN)
    page.clock.pause_at(3_600_000)
    for number in range(3):  # within the seconds in which the costs are not fetched again
        told = started(home, LEADS, request=f"one of several: {number}")
        page.wait_for_function("(job) => JSON.stringify(window.told ?? []).includes(job)", arg=told)
        page.clock.run_for(800)
        expect(page.locator("article.job", has_text=f"one of several: {number}")).to_be_visible()


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
