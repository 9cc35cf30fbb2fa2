"""Steering a job from the page: each dialog says what it does and what stops, and does it in the visitor's name."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.cli.home import APPROVES, BUSY, LEADS, Home, wait_for
from tests.web.acting import address_of, inputs_of, open_page, person, started, state_of
from tests.web.page_harness import HELLO, PHONE, PageWatch, Server, check_axe, prepare_repository, serve, without_human
from tests.workspaces.user_repository import git


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A repository of this module's own."""
    return prepare_repository(tmp_path_factory.mktemp("steer") / "project")


@pytest.fixture(scope="module")
def server(home: Home) -> Iterator[Server]:
    """One server for all tests of this module."""
    with serve(home) as made:
        yield made


@pytest.fixture
def page(server: Server, browser: Browser, watch: PageWatch) -> Iterator[Page]:
    """The page of the account that runs the server."""
    with open_page(browser, watch, server) as opened:
        yield opened


@pytest.fixture(scope="module")
def busy(home: Home, server: Server) -> str:
    """A job with two agents at work."""
    file = home.write("../busy.yaml", BUSY)
    job = home.run("run", "keep busy", "--playbook", file, "--detach").out.split()[-1]
    wait_for(lambda: home.here("show", job, "--json").out.count('"running"') >= 2)
    return job


def ask(page: Page, home: Home, server: Server, job: str, key: str) -> None:
    """Open a dialog of a job's page by its key."""
    page.goto(address_of(home, server, job))
    page.locator("#action-buttons a").first.wait_for()
    page.keyboard.press(key)
    expect(page.locator("#steering")).to_be_visible()
    check_axe(page)


def done(page: Page, words: str) -> None:
    """The dialog is closed, and a note says what became of it."""
    expect(page.locator("#steering")).to_be_hidden()
    expect(page.locator("#notes")).to_contain_text(words)


def test_words_reach_an_instance_at_once(home: Home, server: Server, page: Page, busy: str) -> None:
    page.goto(address_of(home, server, busy))
    page.locator("#tree li", has_text="writer").get_by_text("tell").click()
    expect(page.locator("#tell-thread option:checked")).to_contain_text("writer")
    check_axe(page)
    thread = page.locator("#tell-thread").input_value()
    page.locator("#tell-text").fill("<b>faster</b>")
    page.keyboard.press("Escape")
    page.locator("#tree li", has_text="writer").get_by_text("tell").click()
    expect(page.locator("#tell-text")).to_have_value("<b>faster</b>")
    page.get_by_label("At once").check()
    page.get_by_label("It must be obeyed").check()
    page.locator("#tell-text").press("Control+Enter")

    done(page, busy)
    ((_, said),) = inputs_of(home, busy, "intervene")
    assert said == {"text": "<b>faster</b>", "thread": thread, "now": True, "authoritative": True}


def test_a_job_is_paused_and_goes_on(home: Home, server: Server, page: Page, busy: str) -> None:
    ask(page, home, server, busy, "z")
    expect(page.locator("#steering")).to_contain_text("at work end")
    page.keyboard.press("Enter")
    done(page, "is paused")

    expect(page.locator("#action-go-on")).to_be_visible()
    page.keyboard.press("z")
    page.locator("#steering").get_by_role("button", name="Go on").click()
    done(page, "goes on")
    expect(page.locator("#action-pause")).to_be_visible()


def test_a_person_is_named(home: Home, server: Server, page: Page, busy: str) -> None:
    ask(page, home, server, busy, "g")
    page.get_by_label("Name").fill("proxy")
    page.get_by_role("button", name="Name this person").click()
    expect(page.locator("#steering .trouble")).to_contain_text("proxy")
    page.get_by_label("Name").fill("erin")
    page.get_by_role("radio", name="decides").check()
    page.get_by_role("button", name="Name this person").click()

    done(page, "erin decides")
    assert home.run("show", busy, "--json").document["people"]["erin"] == "decide"


def test_an_instance_is_withdrawn_after_its_dialog_says_what_stops(
    home: Home, server: Server, page: Page, busy: str
) -> None:
    threads = home.run("show", busy, "--json").document["threads"]
    thread = next(str(one["id"]) for one in threads if one["agent"] == "researcher")
    page.goto(address_of(home, server, busy, f"do/withdraw?thread={thread}"))
    expect(page.locator("main")).to_contain_text("1 agent at work is stopped at once")
    expect(page.locator("main")).to_contain_text("researcher")
    expect(page.locator("main")).to_contain_text(f"refs/parley/retired/{busy}")
    check_axe(page)
    page.get_by_label("Why").fill("not needed")
    page.get_by_role("button", name="Withdraw it").click()

    wait_for(lambda: inputs_of(home, busy, "withdraw"))
    ((_, said),) = inputs_of(home, busy, "withdraw")
    assert said == {"thread": thread, "reason": "not needed"}


def test_another_person_withdraws_the_job_under_their_own_name(
    home: Home, server: Server, browser: Browser, watch: PageWatch, busy: str
) -> None:
    with person(browser, watch, home, server, "fred", "answer") as page:
        page.goto(address_of(home, server, busy))
        expect(page.locator("#action-tell")).to_be_visible()
        expect(page.locator("#action-withdraw")).to_have_count(0)
        watch.allow("403")
        page.goto(address_of(home, server, busy, "do/withdraw"))
        expect(page.locator("main")).to_contain_text("fred may not do this")
    with person(browser, watch, home, server, "gina", "decide") as page:
        ask(page, home, server, busy, "x")
        expect(page.locator("#steering")).to_contain_text("The job ends as WITHDRAWN for good")
        page.get_by_role("button", name="Withdraw the job").click()
        done(page, "is withdrawn")

    assert state_of(home, busy) == "WITHDRAWN"
    assert [by for by, _ in inputs_of(home, busy, "withdraw")][-1] == "gina"
    with open_page(browser, watch, server, size=PHONE) as page:
        page.goto(address_of(home, server, busy))
        end = page.locator(".state-node.over")
        expect(end).to_contain_text("WITHDRAWN")
        room = "node => node.querySelector('rect').getBBox().width - node.querySelector('text').getBBox().width"
        assert end.evaluate(room) > 0, "the state's name does not fit its box"


def test_only_what_makes_sense_is_offered(home: Home, server: Server, page: Page) -> None:
    job = started(home, APPROVES + LEADS)
    page.goto(address_of(home, server, job))
    page.locator("#action-follow-up").wait_for()

    assert page.locator("#action-withdraw, #action-pause, #action-tell, #action-raise").count() == 0


def test_a_spent_budget_is_raised(home: Home, server: Server, page: Page) -> None:
    job = started(home, LEADS, "--budget", "turns=1")
    ask(page, home, server, job, "b")
    expect(page.locator("#budget-1")).to_have_value("turns=+40")
    page.locator("#budget-1").fill("turns=1")
    page.get_by_role("button", name="Raise it").click()
    expect(page.locator("#steering .trouble")).to_contain_text("name more than that")
    page.locator("#budget-1").fill("turns=+40")
    page.get_by_role("button", name="Raise it").click()

    expect(page.locator("#steering")).to_be_hidden()
    wait_for(lambda: [said for _, said in inputs_of(home, job, "resume") if said.get("raised") == {"turns": "+40"}])
    expect(page.locator("#action-raise.primary")).to_have_count(0)


def test_a_budget_is_raised_before_it_is_spent(home: Home, server: Server, page: Page) -> None:
    job = started(home, LEADS, "--budget", "turns=50")
    ask(page, home, server, job, "b")
    expect(page.locator("#steering")).to_contain_text("of 50 turns are used")
    expect(page.locator("#budget-1")).to_have_value("")
    page.locator("#budget-1").fill("tokens=9")
    page.get_by_role("button", name="Raise it").click()
    expect(page.locator("#steering .trouble")).to_contain_text("tokens is none of the budgets")
    page.locator("#budget-1").fill("turns=+25")
    page.get_by_role("button", name="Raise it").click()

    done(page, "75 turns")
    expect(page.locator(".budgets")).to_contain_text("of 75 turns")


def test_a_result_is_merged_after_a_dry_run(home: Home, server: Server, page: Page) -> None:
    job = started(home, APPROVES + without_human(HELLO))
    ask(page, home, server, job, "P")
    expect(page.locator("#steering .trouble")).to_contain_text("remote")
    page.get_by_role("button", name="Close").click()

    page.keyboard.press("m")
    expect(page.locator("#steering .paths")).to_contain_text("hello.sh")
    assert not (home.folder / "hello.sh").exists()
    page.get_by_role("button", name="Merge", exact=True).click()
    done(page, "is merged")
    expect(page.locator("#head .badge", has_text="merged into your checkout")).to_be_visible()
    expect(page.locator("#action-merge")).to_have_count(0)
    assert (home.folder / "hello.sh").read_text(encoding="utf-8") == "echo hello\n"

    # what is done in a terminal is seen too, and no row of the bus tells of it
    page.goto(address_of(home, server, job))
    expect(page.locator("#delivery .badge", has_text="merged")).to_be_visible()
    git(home.folder, "reset", "-q", "--hard", "HEAD~1")
    expect(page.locator("#head .badge", has_text="not merged")).to_be_visible()
    expect(page.locator("#delivery .badge", has_text="merged")).to_have_count(0)
    expect(page.locator("#action-merge")).to_be_visible()
    assert home.run("merge", job).code == 0
    expect(page.locator("#head .badge", has_text="merged into your checkout")).to_be_visible()
    expect(page.locator("#delivery .badge", has_text="merged")).to_be_visible()
    expect(page.locator("#action-merge")).to_have_count(0)
