"""What comes of a job, on the page: a workflow that is followed live to its end, and a pull request of its result."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.cli.home import APPROVES, Home
from tests.web.acting import address_of, open_page
from tests.web.page_harness import (
    HELLO,
    PHONE,
    WORKFLOW,
    WORKFLOW_SETTINGS,
    PageWatch,
    Server,
    check_axe,
    prepare_repository,
    serve,
    start_job,
    without_human,
)
from tests.workspaces.user_repository import git

# It waits until the test lets it go on: meanwhile a person presses the button again.
GH = """#!/bin/sh
echo called >> "$RECORD/calls"
read go < "$RECORD/go"
echo https://forge.example/ada/hello/pull/7
"""
ENDS = 60_000  # milliseconds that a workflow of six agents may take on a busy machine


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the stand-in of `gh` keeps how it was called."""
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def home(record: Path) -> Home:
    """A clone of a bare repository, and a `gh` of the test's own."""
    made = prepare_repository(record / "project")
    git(record, "init", "-q", "--bare", "hello.git")
    git(made.folder, "remote", "add", "origin", "../hello.git")
    git(made.folder, "push", "-q", "origin", "HEAD:main")
    (record / "bin").mkdir()
    (record / "bin/gh").write_text(GH, encoding="utf-8")
    (record / "bin/gh").chmod(0o755)
    made.environment |= {"PATH": f"{record / 'bin'}:{made.env()['PATH']}", "RECORD": str(record)}
    made.environment |= {"XDG_STATE_HOME": f"{record}/state", "XDG_CONFIG_HOME": f"{record}/config"}
    made.settings(WORKFLOW_SETTINGS)
    return made


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


def test_a_workflow_is_followed_to_its_merges(
    home: Home, server: Server, page: Page, browser: Browser, watch: PageWatch
) -> None:
    file = home.write("../workflow.yaml", WORKFLOW.read_text(encoding="utf-8"))
    job = home.run("run", "Keep notes", "--playbook", file, "--workflow", "--detach").out.split()[-1]
    page.goto(address_of(home, server, job))
    page.locator(".tabs").get_by_role("link", name="Workflow", exact=True).click(
        timeout=ENDS
    )  # the tab comes with the workflow

    expect(page.locator(".flow-table tbody tr").first).to_be_visible(timeout=ENDS)
    expect(page.locator("#workflow svg")).to_be_visible()
    expect(page.locator(".merges > li").first).to_be_visible(timeout=ENDS)  # the page was not loaded again
    expect(page.locator("#head")).to_contain_text("DONE", timeout=ENDS)
    rows = home.run("workflow", "status", job, "--json").document["agents"]
    expect(page.locator(".flow-table tbody > tr")).to_have_count(len(rows))
    rounds = page.locator(".flow-table details", has_text="round").first
    rounds.locator("summary").click()
    expect(rounds.locator("li").first).to_be_visible()
    check_axe(page)
    page.locator(".flow-table th a").first.click()
    expect(page.locator("#talk")).to_be_visible()

    with open_page(browser, watch, server, size=PHONE, dark=True) as phone:
        phone.goto(f"{address_of(home, server, job)}/workflow")
        expect(phone.locator(".flow-table")).to_be_visible()
        check_axe(phone)
        assert phone.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_a_pull_request_is_opened_once_however_often_the_button_is_pressed(
    home: Home, server: Server, page: Page, record: Path
) -> None:
    job = start_job(home, APPROVES + without_human(HELLO), "Say hello")
    page.goto(address_of(home, server, job))
    page.locator("#action-buttons a").first.wait_for()
    page.keyboard.press("P")
    plan = page.locator("#steering")
    expect(plan).to_contain_text("is pushed to origin")
    expect(plan).to_contain_text("main")
    check_axe(page)
    assert git(record / "hello.git", "branch", "--list").split() == ["*", "main"]

    os.mkfifo(record / "go")
    button = page.get_by_role("button", name="Push and open it")
    button.dblclick()
    expect(button).to_be_disabled()
    (record / "go").write_text("on\n", encoding="utf-8")

    expect(page.locator("#notes")).to_contain_text("https://forge.example/ada/hello/pull/7")
    assert (record / "calls").read_text(encoding="utf-8") == "called\n"
    assert job in git(record / "hello.git", "branch", "--list")
