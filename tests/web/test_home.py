"""The first page: all jobs in groups, search and filters in the address, costs over days, and what is wrong."""

import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from parley.bus.attendant import attend, write_problems
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.cli.common import place_of
from parley.cli.looking.repository_contexts import context_of
from parley.views.job_cards import card_of
from parley.web.drawing.chart import Chart, ChartPart, draw, with_few_parts
from parley.web.live.events import Hub, Watcher
from parley.web.reads.job_board import FINISHED, PROBLEMS, JobBoard
from tests.cli.home import APPROVES, LEADS, Home, wait_for
from tests.stores.rows import job
from tests.web.acting import address_of
from tests.web.page_harness import PHONE, PageWatch, Server, check_axe, prepare_repository, serve, start_job, visit

HOSTILE = "<script>document.title='run'</script><img src=x onerror=alert(1)> \u202eevil\u202c \x1b[31mred " + "w" * 300
CROWD = 3_000


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, Home]:
    """Two repositories: one with a question and a finished job, one with a job of its own."""
    folder = tmp_path_factory.mktemp("first-page")
    state = {"XDG_STATE_HOME": str(folder / "state")}
    till, parser = prepare_repository(folder / "till"), prepare_repository(folder / "parser")
    till.environment, parser.environment = state, state
    start_job(till, LEADS, HOSTILE)
    start_job(till, LEADS + APPROVES, "add a discount code")
    start_job(parser, LEADS, "let the parser accept comments")
    return till, parser


@pytest.fixture(scope="module")
def page_server(homes: tuple[Home, Home], browser: Browser) -> Iterator[Server]:
    """One page over both; it stops before the browser does."""
    till, parser = homes
    with serve(till, str(till.folder), str(parser.folder)) as made:
        yield made


def opened(context: BrowserContext, server: Server, path: str = "/") -> Page:
    page = context.new_page()
    page.goto(server.link)
    if path != "/":
        page.goto(f"{server.address}{path}")
    return page


def titles(page: Page) -> list[str]:
    return [text.split()[0].lower() for text in page.locator("h2.group").all_inner_texts()]


# ---- the list ----------------------------------------------------------------------------------------


def test_jobs_stand_in_groups_and_a_question_has_its_button(page_server: Server, desktop: BrowserContext) -> None:
    page = opened(desktop, page_server)

    assert titles(page) == ["needs", "finished"]
    expect(page.locator("article.needs-you")).to_have_count(2)
    card = page.locator("article", has_text="let the parser accept comments")
    expect(card).to_contain_text("approve INTENT.md?")
    expect(card.locator(".phases .now")).to_contain_text("INTENT")
    assert page.locator("#jobs time:not([title])").count() == 0
    assert page.title() == "(2) Jobs · Parley"
    icon = page.locator("link[rel=icon]").get_attribute("href") or ""
    drawn = page.request.get(f"{page_server.address}{icon}")
    assert (icon, drawn.headers["content-type"], ">2<" in drawn.text()) == ("/icon/2", "image/svg+xml", True)
    button = card.get_by_role("link", name="Review INTENT.md")
    assert re.fullmatch(r"/r/[0-9a-f]{8}/\w+/q/\S+", button.get_attribute("href") or "")
    expect(page.locator("article.finished")).to_contain_text("add a discount code")
    expect(page.locator("article.finished .badge.good")).to_have_text("done")
    check_axe(page)


def test_a_hostile_request_is_text_on_cards_and_in_the_chart(page_server: Server, phone: BrowserContext) -> None:
    page = opened(phone, page_server)

    assert page.title().endswith("Jobs · Parley")
    card = page.locator("article", has_text="<script>document.title")
    expect(card).to_contain_text("<img src=x onerror=alert(1)>")
    expect(card).to_contain_text("\\u202eevil")
    expect(card).to_contain_text("\\x1b[31mred")
    assert page.locator("main script, main img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    check_axe(page)


def test_a_job_that_is_started_elsewhere_appears_by_itself(
    page_server: Server, homes: tuple[Home, Home], desktop: BrowserContext
) -> None:
    page = opened(desktop, page_server)
    page.evaluate("window.still = 'the same page'")

    start_job(homes[0], LEADS, "a job from another terminal", "--detach")

    expect(page.locator("article.needs-you", has_text="a job from another terminal")).to_contain_text("INTENT.md")
    assert page.evaluate("window.still") == "the same page"


def test_searching_narrows_the_list_as_one_types_and_stands_in_the_address(
    page_server: Server, desktop: BrowserContext
) -> None:
    page = opened(desktop, page_server)

    page.get_by_label("Search jobs").press_sequentially("parser comm")
    expect(page.locator("article.job")).to_have_count(1)
    expect(page.get_by_label("Search jobs")).to_be_focused()
    assert urlsplit(page.url).query == "q=parser+comm"
    page.reload()
    expect(page.locator("article.job")).to_have_count(1)
    expect(page.get_by_label("Search jobs")).to_have_value("parser comm")

    page.get_by_label("State").select_option("finished")
    expect(page.get_by_role("heading", name="No job matches")).to_be_visible()
    assert urlsplit(page.url).query == "q=parser+comm&state=finished"
    page.get_by_role("link", name="see all jobs").click()
    expect(page.locator("article.finished")).to_have_count(1)


def test_the_filters_of_an_address_choose_and_what_means_nothing_is_left_out(
    page_server: Server, desktop: BrowserContext
) -> None:
    page = opened(desktop, page_server, "/?state=done")
    expect(page.locator("article.job")).to_have_count(1)
    page.goto(f"{page_server.address}/?when=older-7d")
    expect(page.get_by_role("heading", name="No job matches")).to_be_visible()
    page.goto(f"{page_server.address}/?state=%3Cb%3E&in=..%2F..&when=x&page=99999&by=")
    assert titles(page) == ["needs", "finished"]
    parser = page.get_by_label("Repository").locator("option", has_text="parser").get_attribute("value")
    page.goto(f"{page_server.address}/?in={parser}")
    expect(page.locator("article.job")).to_have_count(1)


def test_what_jobs_cost_is_drawn_and_the_table_says_the_same(page_server: Server, desktop: BrowserContext) -> None:
    page = opened(desktop, page_server)
    costs = page.locator("#costs")

    expect(costs.get_by_role("button", name="Turns")).to_have_attribute("aria-pressed", "true")
    drawn = costs.get_by_role("img", name="Turns a day over the last 30 days, by job")
    assert drawn.locator("rect").count() >= 3
    costs.locator("summary").click()
    today = costs.locator("tbody tr").first.locator("td").inner_text()
    assert today == costs.locator(".totals dd").first.inner_text()
    costs.get_by_role("button", name="By repository").click()
    expect(costs.locator(".legend li")).to_have_count(2)
    costs.get_by_role("button", name="Money").click()
    expect(costs).to_contain_text("No agent has reported money")
    check_axe(page)


# ---- many, none, and what is wrong -------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Thousands of jobs, as their rows alone."""
    home = prepare_repository(tmp_path_factory.mktemp("crowded-page") / "project")
    (home.folder / ".parley").mkdir(mode=0o700)
    now, store = time.time(), SqliteStore(home.folder / ".parley", durability="normal")
    for number in range(CROWD):
        state, when = ("DONE", "WITHDRAWN", "FAILURE")[number % 3], now - 200_000 - number * 60
        starter = "eve" if number % 10 == 0 else "me"
        times = {"created": when, "updated": when}
        store.create(job(f"f{number:04}", request=f"mend till {number}", state=state, decider=starter, **times))
    store.close()
    return home


def test_thousands_of_jobs_are_paged(crowded: Home, browser: Browser, watch: PageWatch) -> None:
    with serve(crowded, "--only-look") as server, visit(browser, watch) as desktop:
        page = opened(desktop, server)
        expect(page.locator("article.job")).to_have_count(40)
        expect(page.locator("nav.pages")).to_contain_text("page 1 of 75, 3,000 jobs")
        page.get_by_role("link", name="Further down the list").click()
        expect(page.locator("nav.pages")).to_contain_text("page 2 of 75")
        page.goto(f"{server.address}/?page=75")
        expect(page.locator("article.job").last).to_contain_text("mend till 2999")
        page.get_by_label("Who started it").select_option("eve")
        expect(page.locator("article.job").first).to_contain_text("by eve")
        expect(page.locator("nav.pages")).to_contain_text("300 jobs")
        page.close()


def put_row(home: Home, name: str, **fields: Any) -> None:
    """A job, finished unless it is said otherwise, as its row alone."""
    (home.folder / ".parley").mkdir(mode=0o700, exist_ok=True)
    store = SqliteStore(home.folder / ".parley")
    now = time.time()
    store.create(job(name, **{"state": "DONE", "created": now - 5, "updated": now, **fields}))
    store.close()


def test_a_newcomer_is_told_how_to_begin_and_damage_what_to_do(
    repository: Home, browser: Browser, watch: PageWatch, tmp_path: Path
) -> None:
    other = prepare_repository(tmp_path / "other")
    with (
        serve(repository, str(repository.folder), str(other.folder), "--only-look") as server,
        visit(browser, watch, PHONE, dark=True) as phone,
    ):
        page = opened(phone, server)
        expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()
        assert page.get_by_role("link", name="Start the first job").get_attribute("href") == "/start"
        check_axe(page)

        put_row(repository, "first", request="the first one")
        expect(page.locator("article.job")).to_contain_text("the first one")

        put_row(other, "other", request="one in the other")
        expect(page.locator("article.job")).to_have_count(2)
        bus = other.folder / ".parley/bus.db"
        for path in (bus, bus.with_name("bus.db-wal")):
            path.write_bytes(os.urandom(20_000))
        expect(page.get_by_role("alert")).to_contain_text("other: its jobs can't be read", timeout=30_000)
        expect(page.locator("article.job", has_text="the first one")).to_be_visible()

        job_page = phone.new_page()
        job_page.goto(address_of(repository, server, "first"))
        expect(job_page.locator("#head-title")).to_contain_text("the first one")
        expect(job_page.locator("#place")).not_to_contain_text("can't be read")
        away = repository.folder.rename(tmp_path / "away")
        expect(job_page.get_by_role("alert")).to_contain_text("project can't be read now")
        expect(job_page.locator("#head-title")).to_contain_text("the first one")
        check_axe(job_page)
        away.rename(repository.folder)
        expect(job_page.locator("#place")).not_to_contain_text("can't be read")

        kept = (repository.folder / ".parley").rename(tmp_path / "kept")
        expect(job_page.get_by_role("alert")).to_contain_text("is gone: it was deleted or moved")
        shutil.copytree(kept, repository.folder / ".parley")
        expect(job_page.get_by_role("alert")).to_contain_text("take it in with `parley bus adopt`")
        shutil.rmtree(repository.folder / ".parley")
        kept.rename(repository.folder / ".parley")
        expect(job_page.locator("#place")).not_to_contain_text("can't be read")
        put_row(repository, "second", request="one more")
        expect(page.locator("article.job", has_text="one more")).to_be_visible()
        job_page.close()

        shutil.rmtree(repository.folder / ".parley")
        expect(page.get_by_role("alert").first).to_contain_text("is gone: it was deleted or moved")
        page.close()


def test_a_job_that_the_engine_cant_go_on_with_is_among_the_problems(repository: Home) -> None:
    place = place_of(str(repository.folder))
    place.home.mkdir(mode=0o700)
    store = SqliteStore(place.home)
    store.create(job("stuck", updated=1.0, settings="{}"))
    store.create(job("ended", state="DONE", updated=1.0, settings="{}"))
    store.close()
    context = context_of(place)
    with attend(place.home):
        write_problems(place.home, {"stuck": "there is no runner 'bench'", "ended": "never shown"})
        entries, problem = JobBoard().read("key", context, 1)
    context.close()

    assert not problem
    assert {one.entry.job: (one.group, one.problem) for one in entries}["stuck"] == (
        PROBLEMS,
        "there is no runner 'bench'",
    )
    assert {one.entry.job: one.group for one in entries}["ended"] == FINISHED


def test_open_pages_hear_what_the_engine_cant_go_on_with(repository: Home) -> None:
    place = place_of(str(repository.folder))
    place.home.mkdir(mode=0o700)
    SqliteStore(place.home).close()
    hub, context = Hub(), context_of(place)
    watcher = Watcher(hub, {"key": context})
    watcher.start()
    try:
        with attend(place.home):
            write_problems(place.home, {"stuck": "no agent"})
            wait_for(lambda: ("key", "stuck", "owner") in [one[1:] for one in hub.since(f"{hub.boot}.0").changes])
    finally:
        watcher.stop()
        context.close()


def test_a_lock_that_is_a_link_hides_no_job_and_no_change(repository: Home) -> None:
    for name in ("bad", "good"):
        put_row(repository, name, state="INTENT", settings="{}", updated=1.0)
    place = place_of(str(repository.folder))
    (place.home / "locks" / "bad.lock").symlink_to("/nowhere")
    hub, context = Hub(), context_of(place)
    watcher = Watcher(hub, {"key": context})
    watcher.start()
    try:
        with attend(place.home):
            write_problems(place.home, {"good": "told in a look that has come to the end"})
            wait_for(lambda: ("key", "good", "owner") in [one[1:] for one in hub.since(f"{hub.boot}.0").changes])
        entries, problem = JobBoard().read("key", context, 1)
        cards = [card_of(one.entry, 0.0) for one in entries]
    finally:
        watcher.stop()
        context.close()

    assert (watcher.problem("key"), problem) == ("", "")
    assert "place" not in [one.what for one in hub.since(f"{hub.boot}.0").changes]
    assert sorted(one.entry.job for one in entries) == ["bad", "good"]
    assert all(card.words for card in cards)
    assert "bad" in repository.here("ls").out
    assert {one["id"] for one in repository.jobs()} == {"bad", "good"}


def test_a_watch_that_fails_says_so_and_goes_on(repository: Home, capsys: pytest.CaptureFixture[str]) -> None:
    put_row(repository, "first")
    fails = threading.Event()

    def version() -> int:
        if fails.is_set():
            raise RuntimeError("unforeseen")
        return 1

    hub, context = Hub(), replace(context_of(place_of(str(repository.folder))), checkout_version=version)
    watcher = Watcher(hub, {"key": context})
    fails.set()
    watcher.start()
    try:
        wait_for(lambda: "unforeseen" in watcher.problem("key"))
        fails.clear()
        wait_for(lambda: not watcher.problem("key"))
        put_row(repository, "second")
        wait_for(lambda: ("key", "second", "record") in [one[1:] for one in hub.since(f"{hub.boot}.0").changes])
    finally:
        watcher.stop()
        context.close()

    assert "RuntimeError: unforeseen" in capsys.readouterr().err


# ---- the chart ---------------------------------------------------------------------------------------


def test_a_chart_keeps_the_largest_parts_and_loses_nothing() -> None:
    parts = [ChartPart(f"job {number}", {"2026-01-01": number, "2026-01-02": 1}) for number in range(20)]

    few = with_few_parts(parts)

    assert [part.name for part in few[:2]] == ["job 19", "job 18"]
    assert few[-1].name == "14 others"
    assert sum(part.total for part in few) == sum(part.total for part in parts)


def test_a_charts_names_are_escaped_and_its_bars_stay_inside() -> None:
    days = [f"2026-01-{day:02}" for day in range(1, 31)]
    parts = [ChartPart('</title><script>"', dict.fromkeys(days, 7)), ChartPart("b", {days[3]: 993})]

    drawn = str(draw(Chart("a <chart>", days, parts, str)))

    assert "<script>" not in drawn
    assert "a &lt;chart&gt;" in drawn
    tops = [float(y) for y in re.findall(r'<rect [^>]* y="([\d.]+)"', drawn)]
    assert len(tops) == 31
    assert min(tops) >= 0


def test_an_empty_chart_can_be_drawn() -> None:
    assert "<rect" not in str(draw(Chart("nothing", ["2026-01-01"], [], str)))
