"""What a job changed, on the page: hostile names and contents, comments that become part of an answer, huge diffs."""

import json
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.cli.home import Home
from tests.web.acting import BIDI, IMAGE, SCRIPT, address_of, inputs_of, open_page, question_in, started
from tests.web.page_harness import PHONE, PageWatch, Server, check_axe, prepare_repository, serve

CODE = f"def greet(name):\n    # {SCRIPT} {BIDI}\n    return f'hello {{name}}'\n{'x' * 5000}\n"
ODD = "<img src=x onerror=alert(1)> \u202e.py"
MANY = """i=0; while [ $i -lt 250 ]; do i=$((i+1)); mkdir -p many; echo $i > many/file$i.txt; done
i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo "line $i"; done > long.txt"""


def work(extra: str = "") -> str:
    """A job whose lead puts its work forward."""
    return rf"""
human:
  - {{match: 'INTENT', verdict: approve, text: 'yes'}}
  - {{match: 'PLAN', verdict: approve, text: 'yes'}}
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do: [{{write: {{path: INTENT.md, text: "intent"}}}}, {{assert: {{artifact: INTENT.md, text: "right?"}}}}]
    - {{match: '\[ANSWER approve\]', do: [{{outcome: {{outcome: APPROVED_INTENT, reason: "clear"}}}}]}}
  project-lead:
    - match: '\[PLAN\]'
      do: [{{write: {{path: PLAN.md, text: "plan"}}}}, {{assert: {{artifact: PLAN.md, text: "sound?"}}}}]
    - {{match: '\[ANSWER approve\]', state: PLAN, do: [{{outcome: {{outcome: APPROVED_PLAN, reason: ok}}}}]}}
    - {{match: '\[EXECUTE\]', do: [{{send: {{to: coder, as: c1, text: "Write it."}}}}]}}
    - {{match: 'is written', do: [{{close: {{thread: c1}}}}]}}
    - match: '\[MERGE clean\]'
      do: [{{write: {{path: WORK_SUMMARY.md, text: "work"}}}}, {{assert: {{artifact: WORK_SUMMARY.md, text: "done?"}}}}]
    - match: '\[ANSWER revise\]'
      repeat: true
      do: [{{write: {{path: WORK_SUMMARY.md, text: "more"}}}}, {{assert: {{artifact: WORK_SUMMARY.md, text: "now?"}}}}]
  coder:
    - match: 'Write'
      do:
        - write: {{path: app.py, text: {json.dumps(CODE)}}}
        - write: {{path: {json.dumps(ODD)}, text: "print(1)\n"}}
        - write: {{path: .vscode/tasks.json, text: "{{}}\n"}}
        - write: {{path: notes.md, text: "#  A  note\n"}}
{extra}
        - {{say: "it is written"}}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A repository of this module's own."""
    files = {"README.md": "# A project\n", "notes.md": "# A note\n", "app.py": "def greet():\n    return 'hello'\n"}
    return prepare_repository(tmp_path_factory.mktemp("changes") / "project", files)


@pytest.fixture(scope="module")
def server(home: Home) -> Iterator[Server]:
    """One server for all tests of this module."""
    with serve(home) as made:
        yield made


@pytest.fixture(scope="module")
def job(home: Home, server: Server) -> str:
    """A job that puts its work forward."""
    return started(home, work())


@pytest.fixture
def page(server: Server, browser: Browser, watch: PageWatch) -> Iterator[Page]:
    """The page of the account that runs the server."""
    with open_page(browser, watch, server) as opened:
        yield opened


def test_an_instance_that_has_ended_can_be_chosen_and_its_merge_is_recorded(
    home: Home, server: Server, page: Page, job: str
) -> None:
    page.goto(address_of(home, server, job, "changes"))
    expect(page.locator("#merges li")).to_contain_text("coder → project-lead")
    expect(page.locator("#merges .badge")).to_have_text("clean")
    check_axe(page)

    ended = page.locator("#whose optgroup[label=Ended] option", has_text="coder").get_attribute("value")
    page.locator("#whose").select_option(ended)
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("#changes-title")).to_have_text("What coder changed")
    expect(page.locator(".file-diff", has_text="app.py")).to_be_visible()
    expect(page.locator("#whose option:checked")).to_contain_text("coder")


def test_a_hostile_diff_is_text_and_its_layout_is_remembered(home: Home, server: Server, page: Page, job: str) -> None:
    page.goto(address_of(home, server, job, "changes"))
    app = page.locator(".file-diff", has_text="app.py").first
    expect(app.locator(".hljs-keyword").first).to_have_text("def")

    drawn = page.locator(".changes")
    expect(drawn).to_contain_text(SCRIPT)
    expect(drawn).to_contain_text("\\u202ereversed")
    expect(drawn).to_contain_text("<img src=x onerror=alert(1)> \\u202e.py")
    expect(drawn).to_contain_text("5001 characters")
    expect(drawn.locator(".badge", has_text="editors")).to_have_count(1)
    assert drawn.locator("img, script, [onerror], [style]").count() == 0
    assert app.locator(".d2h-file-side-diff").count() == 2
    new = page.locator(".file-diff[data-path='.vscode/tasks.json']")
    expect(new.locator("tr.line")).to_have_count(1)
    assert new.locator(".d2h-file-side-diff").count() == 0, "one side of a new file would be empty"
    check_axe(page)

    notes = page.locator(".file-diff[data-path='notes.md']")
    expect(notes).to_contain_text("#  A  note")
    page.get_by_label("Hide changes of white space").check()
    expect(notes).to_contain_text("Only white space has changed")
    expect(app.locator(".hljs-keyword").first).to_have_text("def")
    page.get_by_label("Hide changes of white space").uncheck()
    expect(notes).to_contain_text("#  A  note")

    page.get_by_role("button", name="Unified").click()
    expect(app.locator(".d2h-file-side-diff")).to_have_count(0)
    page.reload()
    expect(app.locator(".d2h-code-linenumber").first).to_be_visible()
    check_axe(page)
    page.get_by_role("button", name="Side by side").click()


def test_comments_on_lines_of_the_work_become_part_of_the_answer(
    home: Home, server: Server, page: Page, job: str
) -> None:
    page.goto(address_of(home, server, job, "changes"))
    line = page.locator(".file-diff[data-path='app.py'] tr.line:not([data-removed])", has_text="return")
    line.locator(".d2h-code-side-linenumber").click()
    page.keyboard.type(f"greet louder {IMAGE}")
    page.keyboard.press("Control+Enter")
    gone = page.locator(".file-diff[data-path='app.py'] tr.line[data-removed]", has_text="return")
    gone.locator(".d2h-code-side-linenumber").click()
    page.keyboard.type("why?")
    page.get_by_role("button", name="Keep the comment").click()
    expect(page.locator(".comment", has_text="greet louder")).to_be_visible()
    check_axe(page)
    page.get_by_role("link", name="To the answer").click()

    expect(page.locator(".comment-list li")).to_have_count(2)
    page.keyboard.press("r")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#outcome")).to_have_text("It is answered")
    said = inputs_of(home, job, "answer")[-1][1]
    assert said["ruling"] == "revise"
    assert said["text"] == (
        f"app.py:3: \"return f'hello {{name}}'\" — greet louder {IMAGE}\n\n"
        "app.py:2 (removed): \"return 'hello'\" — why?"
    )
    question_in(home, job)


def test_an_ended_instance_shows_what_it_changed(home: Home, server: Server, page: Page, job: str) -> None:
    threads = home.run("tree", job, "--json").document
    thread = next(str(one["id"]) for one in threads["threads"] if one["agent"] == "coder")
    page.goto(address_of(home, server, job, f"changes?thread={thread}"))

    expect(page.locator("#changes-title")).to_have_text("What coder changed")
    expect(page.locator(".file-diff[data-path='app.py']")).to_contain_text("greet(name)")


def test_a_path_that_was_not_changed_is_refused(
    home: Home, server: Server, page: Page, job: str, watch: PageWatch
) -> None:
    watch.allow("404")
    for path in ("../../etc/passwd", "README.md", ".git/config", "%00", ":(top)app.py", ""):
        answer = page.request.get(address_of(home, server, job, f"changes/file?path={path}"))
        assert answer.status in (400, 404), path
        assert "Traceback" not in answer.text()


@pytest.mark.soak
def test_a_huge_change_stays_usable(home: Home, server: Server, page: Page, browser: Browser, watch: PageWatch) -> None:
    job = started(home, work(f"        - shell: {json.dumps(MANY)}"))
    began = time.monotonic()
    page.goto(address_of(home, server, job, "changes"))
    expect(page.locator(".file-diff")).to_have_count(100)
    assert time.monotonic() - began < 10
    page.get_by_role("button", name="Show 100 more").click()
    expect(page.locator(".file-diff")).to_have_count(200)

    long = page.locator(".file-diff[data-path='long.txt']")
    long.locator("summary").click()
    expect(long).to_contain_text("line 1000")
    assert long.locator("tr").count() < 3000
    long.get_by_role("button", name="Show the next lines").click()
    expect(long).to_contain_text("line 2000")
    row = long.locator("tr.line", has_text="line 2000").last
    assert row.get_attribute("data-line") == "2000"

    with open_page(browser, watch, server, size=PHONE) as phone:
        phone.goto(address_of(home, server, job, "changes"))
        first = phone.locator(".file-diff[data-path='app.py']")
        first.locator("summary").tap()
        expect(first.locator(".d2h-code-linenumber").first).to_be_visible()
        assert phone.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
