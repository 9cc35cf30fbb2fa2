"""People and their links: made and taken back on the page and by `parley people`, and links that show one job."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.cli.home import APPROVES, LEADS, Home
from tests.web.page_harness import PHONE, PageWatch, Server, check_axe, prepare_repository, serve, start_job, visit


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A repository with a finished job and one that asks, and a state folder of its own."""
    folder = tmp_path_factory.mktemp("people")
    made = prepare_repository(folder / "project")
    made.environment = {"XDG_STATE_HOME": str(folder / "state")}
    start_job(made, LEADS + APPROVES, "the one that is shared")
    start_job(made, LEADS, "the one that is not")
    return made


@pytest.fixture(scope="module")
def page_server(home: Home, browser: Browser) -> Iterator[Server]:
    """The page; it stops before the browser does."""
    with serve(home, "--only-look") as made:
        yield made


def opened(context: BrowserContext, server: Server, path: str = "/") -> Page:
    page = context.new_page()
    page.goto(server.link)
    page.goto(f"{server.address}{path}")
    return page


def address_of(page: Page, request: str) -> str:
    return page.get_by_role("link", name=request).first.get_attribute("href") or ""


# ---- on the page -------------------------------------------------------------------------------------


def test_a_person_gets_a_link_comes_in_under_their_name_and_is_out_once_it_is_taken_back(
    page_server: Server, desktop: BrowserContext, browser: Browser, watch: PageWatch
) -> None:
    watch.allow("401")
    page = opened(desktop, page_server, "/people")
    check_axe(page)
    page.get_by_label("Name").fill("Bob Miller")
    page.get_by_label("Decide:").check()
    page.get_by_role("button", name="Make the link").click()
    link = page.get_by_role("textbox", name="The link").input_value()
    assert link.startswith(f"{page_server.address}/?token=")
    check_axe(page)
    page.goto(f"{page_server.address}/people")
    expect(page.get_by_text(link)).to_have_count(0)

    with visit(browser, watch, PHONE) as other:
        bob = other.new_page()
        bob.goto(link)
        assert "token" not in bob.url
        expect(bob.locator(".who")).to_contain_text("Bob Miller")
        expect(bob.get_by_role("navigation", name="Main")).to_have_text("Jobs Start", use_inner_text=True)

        page.get_by_role("button", name="Take back the link of Bob Miller").click()
        expect(page.get_by_role("dialog")).to_contain_text("Bob Miller is out at once")
        page.get_by_role("button", name="Take it back").click()
        expect(page.locator("#people-title ~ .quiet")).to_contain_text("No one but you")
        bob.reload()
        expect(bob.get_by_role("heading", name="Open the link first")).to_be_visible()


@pytest.mark.parametrize(
    "name, words",
    [
        ("proxy", "a part of every job is called so"),
        ("\u202ebob", "characters that can't be seen"),
        ("   ", "a person needs a name"),
    ],
)
def test_a_name_that_no_person_can_have_is_refused_in_a_line(
    page_server: Server, desktop: BrowserContext, watch: PageWatch, name: str, words: str
) -> None:
    watch.allow("400")
    page = opened(desktop, page_server, "/people")

    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Make the link").click()

    expect(page.get_by_role("alert")).to_contain_text(words)


def test_only_the_account_lets_people_in(
    home: Home, page_server: Server, desktop: BrowserContext, watch: PageWatch
) -> None:
    watch.allow("403")
    made = home.run("people", "add", "decider", "--may", "decide", "--json").document
    page = desktop.new_page()
    page.goto(made["link"])

    answer = page.goto(f"{page_server.address}/people")

    assert answer is not None
    assert answer.status == 403
    expect(page.get_by_role("alert")).to_contain_text("who runs this server, lets people in and out")
    posted = page.evaluate(
        "fetch('/people', {method: 'POST', body: new URLSearchParams({name: 'x', may: 'decide'})}).then(r => r.status)"
    )
    assert posted == 403
    assert home.run("people", "remove", "decider").code == 0


# ---- links that show one job -------------------------------------------------------------------------


def test_a_shared_link_shows_one_job_and_nothing_else(
    page_server: Server, desktop: BrowserContext, browser: Browser, watch: PageWatch
) -> None:
    watch.allow("40[134]")
    page = opened(desktop, page_server)
    shared, hidden = address_of(page, "the one that is shared"), address_of(page, "the one that is not")
    page.goto(f"{page_server.address}{shared}/share")
    check_axe(page)
    page.get_by_role("button", name="Make the link").click()
    link = page.get_by_role("textbox", name="The link").input_value()
    assert link.startswith(f"{page_server.address}{shared}?token=")

    with visit(browser, watch) as other:
        guest = other.new_page()
        guest.goto(link)
        assert guest.url == f"{page_server.address}{shared}"
        expect(guest.locator("main")).to_contain_text("the one that is shared")
        guest.goto(page_server.address)
        expect(guest.locator("article.job")).to_have_count(1)
        expect(guest.locator("main")).not_to_contain_text("the one that is not")
        expect(guest.get_by_role("navigation", name="Main")).to_have_text("Jobs", use_inner_text=True)
        for path, status in ((hidden, 404), ("/start", 403), ("/people", 403), (f"{shared}/share", 403)):
            answer = guest.goto(f"{page_server.address}{path}")
            assert answer is not None
            assert (path, answer.status) == (path, status)

        page.goto(f"{page_server.address}{shared}/share")
        page.get_by_role("button", name="Take back the link").click()
        expect(page.locator("main")).to_contain_text("None yet.")
        guest.goto(f"{page_server.address}{shared}")
        expect(guest.get_by_role("heading", name="Open the link first")).to_be_visible()


# ---- on the command line -----------------------------------------------------------------------------


def test_the_command_prints_a_link_of_the_server_that_runs(home: Home, page_server: Server) -> None:
    added = home.run("people", "add", "eve", "--for", "3")
    assert added.code == 0
    assert f"{page_server.address}/?token=" in added.out
    assert "eve answers, until " in added.out

    listed = home.run("people", "--json").document
    (eve,) = listed["people"]
    assert (eve["person"], eve["may"]) == ("eve", "answer")
    assert 2 * 86_400 < eve["seconds_left"] <= 3 * 86_400
    assert "token" not in eve
    assert "digest" not in eve

    assert "eve is out" in home.run("people", "remove", "eve").out
    assert "no one but you" in home.run("people").out


def test_the_command_says_where_the_link_goes_while_no_server_runs(repository: Home) -> None:
    added = repository.here("people", "add", "someone")

    assert added.code == 0
    assert "\n/?token=" in added.out
    assert "http" not in added.out
    assert repository.here("people", "remove", "someone").code == 0


@pytest.mark.parametrize(
    "words, line",
    [
        (("ad", "bob"), "there is no action 'ad'; use one of: list, add"),
        (("add",), "write `parley people add NAME`"),
        (("list", "bob"), "list takes no name"),
        (("remove", "no-such"), "there is no one called 'no-such'"),
        (("add", "bob", "--may", "all"), "--may all: "),
        (("add", "bob", "--for", "0"), "--for 0: write a number of days"),
        (("links", "--may", "see"), "--may and --for go with add"),
        (("add", "human"), "no person can be called 'human'"),
    ],
)
def test_the_command_refuses_what_it_cant_do_in_a_line(repository: Home, words: tuple[str, ...], line: str) -> None:
    assert line in repository.refuses("people", *words)
