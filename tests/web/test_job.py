"""The job's page: each tab shows the job as it is, follows it, and lets no text of an agent do anything."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.cli.home import BUSY, Home, wait_for
from tests.web.acting import BIDI, IMAGE, SCRIPT, address_of, open_page, person, question_in, started
from tests.web.page_harness import PHONE, PageWatch, Server, check_axe, prepare_repository, serve

LINK = "[press](javascript:document.title='alive')"
LONG = "W" * 400
HOSTILE = f"{SCRIPT} {IMAGE} {LINK} {BIDI} {LONG} &lt;b&gt;"
REQUEST = f"Build it {SCRIPT} {IMAGE} {BIDI}"
SUMMARY = f"# Done\n\n## Assumptions\n\n- {SCRIPT} nobody minds\n"


def put_forward(artifact: str, text: str, words: str) -> list[dict[str, Any]]:
    """Write an artifact, and ask about it."""
    return [{"write": {"path": artifact, "text": text}}, {"assert": {"artifact": artifact, "text": words}}]


def leave(outcome: str, reason: str) -> list[dict[str, Any]]:
    """Leave an outcome."""
    return [{"outcome": {"outcome": outcome, "reason": reason}}]


# A job with a revision, a way back, and a worker, that waits at its last gate; whatever it says is hostile.
STORY: dict[str, Any] = {
    "human": [
        {"match": "INTENT.md", "verdict": "revise", "text": f"say it again {SCRIPT}"},
        {"match": "INTENT.md", "verdict": "approve", "text": "good"},
        {"match": "PLAN.md", "repeat": True, "verdict": "approve", "text": "good"},
        {"match": "WORK_SUMMARY.md", "verdict": "backtrack plan", "text": "plan anew"},
    ],
    "agents": {
        "intent-lead": [
            {"match": r"\[INTENT\]", "do": put_forward("INTENT.md", HOSTILE, HOSTILE)},
            {"match": r"\[ANSWER revise\]", "do": put_forward("INTENT.md", "# Intent\n\nthe second one\n", "better?")},
            {"match": r"\[ANSWER approve\]", "do": leave("APPROVED_INTENT", HOSTILE)},
        ],
        "project-lead": [
            {"match": r"\[PLAN\]", "repeat": True, "do": put_forward("PLAN.md", "# Plan", "sound?")},
            {
                "match": r"\[ANSWER approve\]",
                "state": "PLAN",
                "repeat": True,
                "do": leave("APPROVED_PLAN", "ok"),
            },
            {
                "match": r"\[EXECUTE\]",
                "repeat": True,
                "do": [{"send": {"to": "writer", "as": "guide", "text": HOSTILE}}],
            },
            {
                "match": "written",
                "repeat": True,
                "do": [{"close": {"thread": "guide"}}, *put_forward("WORK_SUMMARY.md", SUMMARY, "done?")],
            },
            {"match": r"\[ANSWER backtrack plan\]", "do": leave("REPLAN", HOSTILE)},
            {"match": r"\[ANSWER approve\]", "state": "EXECUTE", "do": leave("APPROVED_WORK", "all good")},
        ],
        "writer": [
            {
                "match": ".",
                "repeat": True,
                "do": [{"write": {"path": "guide <img src=x>.md", "text": "hello"}}, {"say": "it is written"}],
            }
        ],
    },
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A repository of this module's own."""
    return prepare_repository(tmp_path_factory.mktemp("job") / "project")


@pytest.fixture(scope="module")
def job(home: Home) -> str:
    """The job of STORY, at its last gate."""
    return started(home, json.dumps(STORY), request=REQUEST)


@pytest.fixture(scope="module")
def server(home: Home, job: str) -> Iterator[Server]:
    """One server for all tests of this module."""
    with serve(home) as made:
        yield made


@pytest.fixture
def page(server: Server, browser: Browser, watch: PageWatch) -> Iterator[Page]:
    """The page of the account that runs the server."""
    with open_page(browser, watch, server) as opened:
        yield opened


def assert_harmless(page: Page) -> None:
    """No text of an agent became an element, a link into a script, or ran."""
    assert page.title() != "alive"
    assert page.locator("main script:not([src]), main img, main [onerror], main a[href^='javascript:']").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")
    check_axe(page)


def test_the_head_says_where_the_job_stands_and_what_it_needs(home: Home, server: Server, page: Page, job: str) -> None:
    page.goto(address_of(home, server, job))

    expect(page.locator("#head .state-node.here")).to_contain_text("EXECUTE")
    expect(page.locator("#head .back title")).to_have_text("REPLAN: back from EXECUTE to PLAN, 1 time")
    question = question_in(home, job)
    answering = address_of(home, server, job, "q", question).removeprefix(server.address)
    expect(page.locator(f"#need-{question} a")).to_have_attribute("href", answering)
    page.locator("#head-more summary").click()
    expect(page.locator("#head .walked .backtrack")).to_contain_text("EXECUTE → PLAN")
    assert_harmless(page)


def test_every_tab_has_a_title_of_its_own_and_tells_how_much_waits(
    home: Home, server: Server, page: Page, job: str
) -> None:
    found = {}
    for tab in ("", "conversation", "artifacts", "changes", "timeline", "record"):
        page.goto(address_of(home, server, job, *([tab] if tab else [])))
        found[tab] = page.title()

    assert len(set(found.values())) == len(found), found
    assert found[""].startswith("(1) Build it")
    assert found["changes"].startswith("(1) Changes: Build it")


def test_the_tree_links_each_instance_to_its_conversation(home: Home, server: Server, page: Page, job: str) -> None:
    page.goto(address_of(home, server, job))
    page.locator("#tree-show-ended").click()
    writers = page.locator("#tree li", has_text="writer")
    expect(writers).to_have_count(2)
    writers.first.locator(".name a").click()

    expect(page.locator("#talk-title")).to_contain_text("writer")
    expect(page.locator("#talk .bubble").first).to_contain_text("reversed")
    assert_harmless(page)


def test_a_turn_unfolds_into_what_its_agent_did(home: Home, server: Server, page: Page, job: str) -> None:
    page.goto(address_of(home, server, job, "conversation"))
    turn = page.locator("#talk .turn", has_text="writer").first
    turn.locator("summary").first.click()

    expect(turn.locator(".deed", has_text="guide").first).to_be_visible()
    assert_harmless(page)


def test_a_message_is_shown_as_it_was_written_when_asked(home: Home, server: Server, page: Page, job: str) -> None:
    page.goto(address_of(home, server, job, "conversation"))
    bubble = page.locator("#talk .bubble", has_text="press").first
    name = bubble.get_attribute("id")
    bubble.get_by_role("button", name="as written").click()

    expect(page.locator(f"#{name} pre")).to_contain_text("[press](javascript:")
    assert_harmless(page)


def test_threads_are_found_by_the_words_of_a_search(home: Home, server: Server, page: Page, job: str) -> None:
    page.goto(address_of(home, server, job, "conversation"))
    page.locator("#thread-search").fill("writer closed")

    expect(page.locator("#threads a", has_text="intent-lead")).to_have_count(0)
    expect(page.locator("#threads a", has_text="writer")).to_have_count(2)
    page.locator("#thread-search").fill("nothing has these")
    expect(page.locator("#threads")).to_contain_text("No thread has these words")


def test_each_version_of_an_artifact_has_its_verdict_and_can_be_compared(
    home: Home, server: Server, page: Page, job: str
) -> None:
    page.goto(address_of(home, server, job, "artifacts?name=INTENT.md"))
    versions = page.locator(".versions > li")
    expect(versions).to_have_count(2)
    expect(versions.nth(0)).to_contain_text("approved")
    expect(versions.nth(1)).to_contain_text("sent back")
    expect(versions.nth(1).locator(".verdict")).to_contain_text("say it again")

    versions.nth(0).locator("select").select_option(label="version 1")
    expect(page.locator("#version-shown .plus", has_text="the second one")).to_be_visible()
    page.locator("#version-shown pre").evaluate("one => one.append('wide'.repeat(400))")
    assert_harmless(page)
    versions.nth(1).get_by_role("button", name="Read").click()
    expect(page.locator("#version-shown h2")).to_contain_text("version 1")
    assert_harmless(page)


def test_an_approval_that_a_backtrack_took_away_is_void(home: Home, server: Server, page: Page, job: str) -> None:
    page.goto(address_of(home, server, job, "artifacts?name=PLAN.md"))

    expect(page.locator(".versions .badge")).to_have_text(["approved", "void"])


def test_the_timeline_has_a_row_for_each_thread_and_the_same_as_a_table(
    home: Home, server: Server, page: Page, job: str
) -> None:
    page.goto(address_of(home, server, job, "timeline"))
    expect(page.locator(".timeline a text", has_text="writer")).to_have_count(2)
    expect(page.locator(".timeline .passing.backtrack")).to_have_count(1)
    page.locator("#timeline-table summary").click()
    expect(page.locator("#timeline-table tr", has_text="writer")).to_have_count(2)
    assert_harmless(page)


def test_the_record_explains_the_rule_of_each_step(home: Home, server: Server, page: Page, job: str) -> None:
    page.goto(address_of(home, server, job, "record"))
    page.locator("#step-rows a", has_text="transition").first.click()

    expect(page.locator(".rule-about")).to_contain_text("moves to another state")
    expect(page.locator("#step-rows tr[id^=step-]")).to_have_count(4)
    page.locator("#step-rows summary").first.click()
    expect(page.locator("#step-rows dd").first).to_be_visible()
    assert_harmless(page)


def test_the_audit_runs_from_the_page_and_its_verdict_stays(home: Home, server: Server, page: Page, job: str) -> None:
    page.goto(address_of(home, server, job, "record"))
    page.locator("#run-audit").click()
    expect(page.locator("#audit .badge.good")).to_have_text("the record is sound")

    page.reload()
    expect(page.locator("#audit")).to_contain_text("It covers the whole record as it is now")
    check_axe(page)


def test_the_record_is_downloaded_as_a_file_that_the_audit_takes(
    home: Home, server: Server, page: Page, job: str
) -> None:
    page.goto(address_of(home, server, job, "record"))
    with page.expect_download() as coming:
        page.get_by_role("link", name="Export the record").click()
    file = home.folder.parent / "exported.jsonl.gz"
    coming.value.save_as(file)

    assert home.run("audit", str(file)).code == 0


def test_a_reader_sees_every_tab_and_can_run_no_audit(
    home: Home, server: Server, browser: Browser, watch: PageWatch, job: str
) -> None:
    watch.allow("403")
    with person(browser, watch, home, server, "reader", "see") as page:
        for tab in ("conversation", "artifacts", "timeline", "record"):
            page.goto(address_of(home, server, job, tab))
            expect(page.locator(".tabs [aria-current]")).to_be_visible()
        assert page.locator("#run-audit").count() == 0
        refused = page.request.post(address_of(home, server, job, "record/audit"), headers={"origin": server.address})
        assert refused.status == 403


def test_every_tab_fits_a_phone_in_the_dark(
    home: Home, server: Server, browser: Browser, watch: PageWatch, job: str
) -> None:
    with open_page(browser, watch, server, size=PHONE, dark=True) as page:
        for tab in ("", "conversation", "artifacts?name=INTENT.md", "timeline", "record"):
            page.goto(address_of(home, server, job, tab).rstrip("/"))
            place = page.locator(".tabs [aria-current]").bounding_box()
            assert place is not None
            assert 0 <= place["x"] <= place["x"] + place["width"] <= PHONE["width"], "the tab that one is on is hidden"
            cut_off = (
                "[...document.querySelectorAll('.tabs a')].filter((one) => one.scrollWidth > one.clientWidth).length"
            )
            assert page.evaluate(cut_off) == 0, "a tab's words run into the next"
            assert_harmless(page)


@pytest.mark.parametrize("what", ["conversation?thread=dispatch:nowhere", "workflow", "part/message/99999", "nothing"])
def test_what_is_not_there_is_told_in_one_line(
    home: Home, server: Server, page: Page, watch: PageWatch, job: str, what: str
) -> None:
    watch.allow("404")
    answered = page.goto(address_of(home, server, job, what))

    assert answered is not None
    assert answered.status == 404
    expect(page.locator("main p").first).not_to_be_empty()


def test_the_page_follows_the_job_to_its_end(home: Home, server: Server, page: Page, job: str) -> None:
    talk = page.context.new_page()
    talk.goto(address_of(home, server, job, "conversation"))
    page.goto(address_of(home, server, job))
    assert home.run("answer", question_in(home, job), "--approve", "yes").code in (0, 4)

    expect(page.locator("#head .state-node.here")).to_contain_text("DONE")
    expect(talk.locator("#talk .bubble").last).to_contain_text("all good")
    expect(page.locator("#delivery")).to_contain_text("nobody minds")
    expect(page.locator("#tree-show-ended")).to_have_attribute("aria-current", "true")
    assert_harmless(page)


def test_the_tree_shows_what_agents_do_right_now(home: Home, server: Server, page: Page) -> None:
    file = home.write("../busy-tree.yaml", BUSY)
    job = home.run("run", "keep busy", "--playbook", file, "--detach").out.split()[-1]
    wait_for(lambda: home.here("show", job, "--json").out.count('"running"') >= 2)
    page.goto(address_of(home, server, job))

    expect(page.locator("#tree li.running")).to_have_count(2)
    expect(page.locator("#tree li.running", has_text="writer").locator("time")).to_be_visible()
    check_axe(page)
    assert home.run("withdraw", job).code in (0, 4)
    expect(page.locator("#head .badge").first).to_have_text("WITHDRAWN")
