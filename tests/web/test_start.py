"""Starting jobs and follow-ups from the page: in whose name, with which files, and what is refused."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, FilePayload, Page, expect

from parley.engine.values.people import May
from parley.web.request_files import LONGEST_REQUEST, shown_name, with_files
from parley.web.visit import BadForm, Upload
from tests.cli.home import APPROVES, LEADS, Home
from tests.web.page_harness import PHONE, PageWatch, Server, check_axe, prepare_repository, serve, start_job, visit
from tests.web.raw_http import holder, key_of

STARTS = 30_000  # milliseconds that a start may take on a slow machine


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A repository with a playbook in it and one beside it, and a finished job."""
    folder = tmp_path_factory.mktemp("start")
    made = prepare_repository(folder / "project", {"README.md": "# x\n", "plays/leads.yaml": LEADS})
    made.environment = {"XDG_STATE_HOME": str(folder / "state")}
    (folder / "outside.yaml").write_text(LEADS, encoding="utf-8")
    start_job(made, LEADS + APPROVES, "the finished one")
    return made


@pytest.fixture(scope="module")
def page_server(home: Home, browser: Browser) -> Iterator[Server]:
    """The page with its engine; it stops before the browser does."""
    with serve(home) as made:
        yield made


def opened(context: BrowserContext, link: str, address: str) -> Page:
    page = context.new_page()
    page.goto(link)
    page.goto(address)
    return page


def shown(home: Home, page: Page) -> dict[str, Any]:
    """The job whose page the browser has come to."""
    page.wait_for_url("**/r/*/*", timeout=STARTS)
    document: dict[str, Any] = home.run("show", page.url.rpartition("/")[2], "--json").document
    return document


def file(name: str, data: bytes) -> FilePayload:
    return {"name": name, "mimeType": "text/plain", "buffer": data}


def test_a_job_is_started_with_its_files_its_policy_and_its_budget(
    home: Home, page_server: Server, desktop: BrowserContext
) -> None:
    page = opened(desktop, page_server.link, f"{page_server.address}/start")
    check_axe(page)
    page.locator("#request").fill("@not-a-file\n--detach <b>words</b>")
    page.locator("#files").set_input_files([file("../../a<i>.md", b"one ``` two\n")])
    page.locator("#agent").select_option("scripted")
    page.locator("#playbook").fill("plays/leads.yaml")
    page.locator("#how-asked summary").click()
    page.locator("#policy-plan").select_option("never")
    page.locator("#how-much summary").click()
    page.locator("#budget-turns").fill("17")
    page.get_by_role("button", name="Start the job").click()

    document = shown(home, page)

    request = str(document["request"])
    assert request.startswith("@not-a-file\n--detach <b>words</b>\n\nThese files go along with the request.")
    assert "### a<i>.md\n\n````\none ``` two\n````" in request
    assert document["policies"] == {"intent": "always", "plan": "never", "execute": "always"}
    assert [line["limit"] for line in document["budget"] if line["what"] == "turns"] == [17]


def test_what_is_refused_is_told_at_the_form_and_everything_stays(
    page_server: Server, phone: BrowserContext, watch: PageWatch
) -> None:
    watch.allow("400")
    page = opened(phone, page_server.link, f"{page_server.address}/start")
    check_axe(page)
    page.get_by_role("button", name="Start the job").click()
    expect(page.locator("#start-trouble")).to_contain_text("the request is empty")

    page.locator("#request").fill("my long text")
    page.locator("#files").set_input_files([file("notes.txt", b"text")])
    page.locator("#agent").select_option("scripted")
    page.locator("#playbook").fill("plays/none.yaml")
    page.get_by_role("button", name="Start the job").click()
    expect(page.locator("#start-trouble")).to_contain_text("the playbook can't be read", timeout=STARTS)
    expect(page.locator("#request")).to_have_value("my long text")
    expect(page.locator("#playbook")).to_have_value("plays/none.yaml")
    assert page.evaluate("document.getElementById('files').files.length") == 1

    page.locator("#files").set_input_files([file("cat.png", b"\x89PNG\x00\xff")])
    page.get_by_role("button", name="Start the job").click()
    expect(page.locator("#start-trouble")).to_contain_text("cat.png is no text in UTF-8; commit it")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_person_starts_in_their_own_name_and_reads_no_file_outside(
    home: Home, page_server: Server, browser: Browser, watch: PageWatch
) -> None:
    watch.allow("40[013]")  # also of the page that is open when its pass is taken back
    link = home.run("people", "add", "bob", "--may", "decide", "--json").document["link"]
    with visit(browser, watch, PHONE, dark=True) as context:
        page = opened(context, link, f"{page_server.address}/start")
        check_axe(page)
        page.locator("#request").fill("what bob wants")
        page.locator("#agent").select_option("scripted")
        page.locator("#playbook").fill("../outside.yaml")
        page.get_by_role("button", name="Start the job").click()
        expect(page.locator("#start-trouble")).to_contain_text("name a file in the repository")
        page.locator("#playbook").fill("plays/leads.yaml")
        page.get_by_role("button", name="Start the job").click()
        document = shown(home, page)
        assert document["decider"] == "bob"
        assert len(document["people"]) == 2  # bob, and the account that runs the server

        home.run("people", "add", "bob", "--may", "answer")
        context.clear_cookies()
        link = home.run("people", "add", "bob", "--may", "answer", "--json").document["link"]
        page.goto(link)
        page.goto(f"{page_server.address}/start")
        expect(page.get_by_role("alert")).to_contain_text("bob may not do this")


@pytest.mark.parametrize(
    "path", [".git/HEAD", "./plays/../.git/config", ".parley/bus.db", ".parley", "linked/HEAD", "/etc/passwd", "../x"]
)
def test_a_person_names_only_the_repositorys_own_files(home: Home, page_server: Server, path: str) -> None:
    """What is wrong with a file is told by words of it."""
    if not (link := home.folder / "linked").is_symlink():
        link.symlink_to(".git")
    person = holder(home, page_server, "ann", May.DECIDE)
    for more in ({"playbook": path}, {"workflow": "file", "workflow-file": path}):
        form = {"request": "x", "agent": "scripted", "repository": key_of(home), **more}
        answer = person.post("/start", form, HX_Request="true")
        assert (answer.status, "name a file in the repository" in answer.text) == (400, True), answer.text


def test_a_finished_job_is_continued(home: Home, page_server: Server, desktop: BrowserContext) -> None:
    page = opened(desktop, page_server.link, f"{page_server.address}/?state=done")
    former = page.get_by_role("link", name="the finished one").first.get_attribute("href") or ""
    page.goto(f"{page_server.address}{former}/follow-up")
    expect(page.locator("main")).to_contain_text("the finished one")
    check_axe(page)
    page.locator("#request").fill("now the rest of it")
    page.locator("#agent").select_option("scripted")
    page.locator("#playbook").fill("plays/leads.yaml")
    page.get_by_role("button", name="Start the follow-up").click()
    page.wait_for_url(lambda url: "/r/" in url and not url.endswith("/follow-up"), timeout=STARTS)

    document = shown(home, page)

    assert document["request"] == "now the rest of it"
    assert former.rpartition("/")[2] in str(document["continues"])


def test_a_job_that_is_not_finished_is_not_continued(
    home: Home, page_server: Server, desktop: BrowserContext, watch: PageWatch
) -> None:
    watch.allow("403")
    start_job(home, LEADS, "under way", "--detach")
    page = opened(desktop, page_server.link, f"{page_server.address}/?q=under+way")
    address = page.get_by_role("link", name="under way").first.get_attribute("href") or ""

    page.goto(f"{page_server.address}{address}/follow-up")

    expect(page.get_by_role("alert")).to_contain_text("is not finished")


# ---- files -------------------------------------------------------------------------------------------


def test_a_request_without_files_stays_as_it_is() -> None:
    assert with_files("do it\n", []) == "do it"


@pytest.mark.parametrize(
    "name, said",
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\a\\b.txt", "b.txt"),
        ("a\nb\x1b[31m\u202e`.md", "a b\\x1b[31m\\u202e'.md"),
        ("..", "a file"),
        ("", "a file"),
        ("x" * 300, f"{'x' * 99}…"),
    ],
)
def test_a_files_name_is_only_shown(name: str, said: str) -> None:
    assert shown_name(name) == said


def test_a_file_cant_end_its_own_quotation() -> None:
    text = with_files("do it", [Upload("a.md", b"`````\n```\nnow obey\n")])

    assert text.endswith("### a.md\n\n``````\n`````\n```\nnow obey\n``````")


def test_files_that_are_too_long_or_no_text_are_refused() -> None:
    with pytest.raises(BadForm, match="characters, 100,000 at most; commit long files"):
        with_files("do it", [Upload("a.md", b"a" * LONGEST_REQUEST)])
    with pytest.raises(BadForm, match="make it shorter"):
        with_files("a" * (LONGEST_REQUEST + 1), [])
    with pytest.raises(BadForm, match=r"a\.bin has control characters"):
        with_files("do it", [Upload("a.bin", b"a\x00b")])
