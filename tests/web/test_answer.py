"""Answering a question on the page, with the keyboard alone, by several people, and with hostile content."""

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.cli.home import Home, wait_for
from tests.web.acting import (
    BIDI,
    IMAGE,
    SCRIPT,
    address_of,
    inputs_of,
    open_page,
    person,
    question_in,
    started,
    state_of,
)
from tests.web.page_harness import PHONE, PageWatch, Server, check_axe, prepare_repository, serve

INTENT = (
    f"# What it is\n\nIt says **hello** {SCRIPT}\n\n- [a link](javascript:alert(1)) {IMAGE}\n- {BIDI}\n- \x1b[31mred\n"
)
AGAIN = INTENT.replace("hello", "hello twice")
GATES = rf"""
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do:
        - write: {{path: INTENT.md, text: {json.dumps(INTENT)}}}
        - assert: {{artifact: INTENT.md, text: {json.dumps("Is this it? " + IMAGE)}}}
    - match: '\[ANSWER revise\]'
      repeat: true
      do:
        - write: {{path: INTENT.md, text: {json.dumps(AGAIN)}}}
        - assert: {{artifact: INTENT.md, text: "And now?"}}
    - {{match: '\[ANSWER approve\]', do: [{{outcome: {{outcome: APPROVED_INTENT, reason: "clear"}}}}]}}
    - {{match: '\[WITHDRAW\]', do: [{{outcome: {{outcome: WITHDRAW, reason: "the human gave it up"}}}}]}}
  project-lead:
    - match: '\[PLAN\]'
      repeat: true
      do: [{{write: {{path: PLAN.md, text: "plan"}}}}, {{assert: {{artifact: PLAN.md, text: "sound?"}}}}]
"""
ASKS = r"""
agents:
  intent-lead:
    - {match: '\[INTENT\]', do: [{ask: {text: "Which colour?"}}]}
    - match: '\[ANSWER'
      do: [{write: {path: INTENT.md, text: "blue"}}, {assert: {artifact: INTENT.md, text: "right?"}}]
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A repository of this module's own."""
    return prepare_repository(tmp_path_factory.mktemp("answer") / "project")


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
def waiting(home: Home, server: Server) -> str:
    """A job at its first gate, for tests that send no answer."""
    return started(home, GATES)


def go_to_question(page: Page, home: Home, server: Server, job: str) -> str:
    """Open the question of a job; returns its address."""
    address = address_of(home, server, job, "q", question_in(home, job))
    page.goto(address)
    expect(page.locator("#answer")).to_be_visible()
    return address


def test_the_keyboard_alone_reviews_comments_revises_and_approves(home: Home, server: Server, page: Page) -> None:
    job = started(home, GATES, request=f"say hello {SCRIPT}")
    go_to_question(page, home, server, job)
    check_axe(page)

    for key in "jjj":
        page.keyboard.press(key)
    page.keyboard.press("c")
    page.keyboard.type("louder")
    page.keyboard.press("Control+Enter")
    page.keyboard.press("r")
    page.keyboard.type("not quite")
    page.reload()
    expect(page.locator("#answer-text")).to_have_value("not quite")
    expect(page.locator(".comment-list")).to_contain_text("INTENT.md:3")
    expect(page.locator(".send")).to_have_text("Send: revise")
    check_axe(page)
    page.locator("#answer-text").focus()
    page.keyboard.press("Control+Enter")

    expect(page.locator("#outcome")).to_have_text("It is answered")
    page.get_by_role("link", name="Review INTENT.md").wait_for()
    ((by, said),) = inputs_of(home, job, "answer")
    shown = INTENT.splitlines()[2]
    assert (by, said["ruling"]) == (page.locator(".who").inner_text().split()[0], "revise")
    assert said["text"] == f'not quite\n\nINTENT.md:3: "{shown}" — louder'
    assert page.evaluate("localStorage.length") == 0

    page.keyboard.press("a")  # the next question
    page.locator("#answer-form").wait_for()
    page.keyboard.press("d")
    expect(page.locator("[data-shows=changed]")).to_contain_text("hello twice")
    page.keyboard.press("a")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Review PLAN.md").wait_for()
    assert state_of(home, job) == "PLAN"


def test_hostile_words_are_text(home: Home, server: Server, page: Page) -> None:
    job = started(home, GATES, request=f"say {IMAGE}")
    go_to_question(page, home, server, job)
    page.keyboard.press("l")

    lines = page.locator(".numbered")
    expect(lines).to_contain_text(SCRIPT)
    expect(lines).to_contain_text("\\u202e")
    expect(lines).to_contain_text("\\x1b[31mred")
    expect(page.locator(".words")).to_contain_text(IMAGE)
    assert page.locator("main img, main script:not([src]), a[href^=javascript]").count() == 0
    assert page.title() != "alive"


def test_what_ends_the_job_is_asked_again(home: Home, server: Server, page: Page) -> None:
    job = started(home, GATES)
    go_to_question(page, home, server, job)

    page.keyboard.press("w")
    page.keyboard.press("Enter")
    sure = page.locator("#sure")
    expect(sure).to_contain_text(f"give up the whole job {job} for good")
    check_axe(page)
    page.keyboard.press("Enter")  # the first button keeps it
    expect(sure).to_be_hidden()
    assert inputs_of(home, job, "answer") == []

    page.locator(".send").click()
    page.locator("#sure-yes").click()
    expect(page.locator("#outcome")).to_have_text("It is answered")
    wait_for(lambda: state_of(home, job) == "WITHDRAWN")


def test_of_two_who_answer_the_second_is_told_who_was_first(
    home: Home, server: Server, page: Page, browser: Browser, watch: PageWatch
) -> None:
    job = started(home, GATES)
    address = go_to_question(page, home, server, job)
    with person(browser, watch, home, server, "bea", "decide") as other:
        other.goto(address)
        other.keyboard.press("r")
        other.keyboard.type("my words")
        late = other.locator("#answer-form").evaluate("form => Object.fromEntries(new FormData(form))")
        page.keyboard.press("a")
        page.keyboard.press("Enter")
        expect(page.locator("#outcome")).to_have_text("It is answered")

        expect(other.locator("#question-state")).to_contain_text("approve, by")
        expect(other.locator("#answer-text")).to_have_value("my words")
        expect(other.locator(".send")).to_be_disabled()
        said = other.evaluate(
            """async ([address, fields]) => (await fetch(address, {method: 'POST', body: new URLSearchParams(fields),
                headers: {'HX-Request': 'true'}})).text()""",
            [address, {**late, "choice": "r"}],
        )
        assert "too late" in said
        assert "approve, by" in said
        other.get_by_role("link", name="See what became of it").click()
        expect(other.locator(".unsent pre")).to_have_text("my words")


def test_arrow_keys_go_through_the_choices_and_letters_still_act(
    home: Home, server: Server, page: Page, waiting: str
) -> None:
    go_to_question(page, home, server, waiting)
    page.get_by_role("radio", name="Approve").focus()
    for name in ("Revise", "Answer in words"):
        page.keyboard.press("ArrowDown")
        expect(page.get_by_role("radio", name=name)).to_be_focused()
        expect(page.get_by_role("radio", name=name)).to_be_checked()

    page.keyboard.press("r")  # while a choice has the focus
    expect(page.locator("#answer-text")).to_be_focused()
    page.locator("#answer-form").get_by_text("Approve", exact=True).click()
    expect(page.locator(".send")).to_be_focused()


def test_the_list_of_keys_is_whole_and_single_letters_can_be_turned_off(
    home: Home, server: Server, page: Page, waiting: str
) -> None:
    go_to_question(page, home, server, waiting)
    page.get_by_role("button", name="Keys").click()
    expect(page.locator("#keys")).to_be_visible()
    assert {"a", "r", "w", "j k", "c", "Ctrl Enter", "?"} <= set(page.locator("#keys dt").all_inner_texts())
    check_axe(page)
    page.get_by_label("Single letters act").uncheck()
    page.get_by_role("button", name="Close").click()

    for key in "ar?j":
        page.keyboard.press(key)
    expect(page.locator("#keys")).to_be_hidden()
    expect(page.locator("[name=choice]:checked")).to_have_count(0)
    expect(page.locator(".line.current")).to_have_count(0)
    page.reload()
    page.get_by_role("button", name="Keys").click()
    page.get_by_label("Single letters act").check()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("a")
    expect(page.get_by_role("radio", name="Approve")).to_be_checked()


def test_a_comment_on_what_changed_says_which_file_it_is_about(home: Home, server: Server, page: Page) -> None:
    job = started(home, GATES)
    go_to_question(page, home, server, job)
    page.keyboard.press("r")
    page.keyboard.type("again")
    page.keyboard.press("Control+Enter")
    page.locator(f"#next a.primary[href*='/{job}/']").click()
    page.locator("#answer-form").wait_for()
    page.keyboard.press("d")
    page.locator("[data-shows=changed] .line[data-line]").last.locator(".d2h-code-side-linenumber").click()
    page.keyboard.type("why?")
    page.keyboard.press("Control+Enter")

    expect(page.locator(".comment-list li label")).to_contain_text("INTENT.md:")
    expect(page.locator(".comment-list .preview")).to_have_text(re.compile(r"^INTENT\.md:\d+"))


def test_without_scripts_the_page_says_so_and_an_answer_is_still_given(
    home: Home, server: Server, browser: Browser, watch: PageWatch
) -> None:
    job = started(home, GATES)
    wait_for(
        lambda: next(row["owned"] for row in home.jobs() if row["id"] == job)
    )  # no script brings the page up to date
    context = browser.new_context(java_script_enabled=False)
    watch.attach(context)
    try:
        page = context.new_page()
        page.goto(server.link)
        expect(page.locator("noscript .banner")).to_contain_text("JavaScript is off")
        page.goto(address_of(home, server, job))
        expect(page.locator("#action-pause")).to_be_visible()
        page.goto(address_of(home, server, job, "q", question_in(home, job)))
        page.get_by_role("radio", name="Give up").check()
        watch.allow("400")
        page.get_by_role("button", name="Send the answer").click()
        expect(page.locator("main")).to_contain_text("confirm it first")
        page.go_back()
        page.get_by_role("radio", name="Give up").check()
        page.get_by_role("checkbox", name="I am sure").check()
        page.get_by_role("button", name="Send the answer").click()
        expect(page.locator("#outcome")).to_have_text("It is answered")
    finally:
        context.close()
    wait_for(lambda: state_of(home, job) == "WITHDRAWN")


def test_another_person_decides_under_their_own_name(
    home: Home, server: Server, browser: Browser, watch: PageWatch
) -> None:
    job = started(home, GATES)
    with person(browser, watch, home, server, "carl", "decide") as other:
        go_to_question(other, home, server, job)
        other.keyboard.press("a")
        other.keyboard.press("Enter")
        expect(other.locator("#outcome")).to_have_text("It is answered")

    assert [(by, said["ruling"]) for by, said in inputs_of(home, job, "answer")] == [("carl", "approve")]
    assert [said["person"] for _, said in inputs_of(home, job, "name")] == ["carl"]
    assert home.run("audit", job).code == 0


def test_who_may_only_answer_sees_a_gate_and_answers_a_plain_question(
    home: Home, server: Server, browser: Browser, watch: PageWatch
) -> None:
    job = started(home, ASKS)
    with person(browser, watch, home, server, "dora", "answer") as other:
        go_to_question(other, home, server, job)
        expect(other.get_by_text("Give up the job")).to_have_count(0)
        other.keyboard.press("t")
        other.keyboard.type("blue")
        other.keyboard.press("Control+Enter")
        other.get_by_role("link", name="Review INTENT.md").click()

        expect(other.locator("#answer")).to_contain_text("Only")
        expect(other.locator("#answer")).to_contain_text("who started the job")
        expect(other.locator(".artifact")).to_contain_text("blue")
        assert other.locator("#answer-form").count() == 0
    assert [(by, said["text"]) for by, said in inputs_of(home, job, "answer")] == [("dora", "blue")]


def test_a_phone_shows_all_of_it(home: Home, server: Server, browser: Browser, watch: PageWatch) -> None:
    job = started(home, GATES)
    with open_page(browser, watch, server, size=PHONE, dark=True) as page:
        go_to_question(page, home, server, job)
        check_axe(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        page.locator(".verdict-bar").get_by_role("button", name="Approve").tap()
        expect(page.locator(".verdict-bar")).to_be_hidden()  # the form is in sight, with the choice made
        expect(page.get_by_role("radio", name="Approve")).to_be_checked()
        page.locator(".send").tap()
        expect(page.locator("#outcome")).to_have_text("It is answered")
