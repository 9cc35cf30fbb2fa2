"""What agents, repositories and people wrote, on every page: text, whatever it tries to be."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import BrowserContext

from tests.cli.home import Home
from tests.web.crawling import crawl
from tests.web.page_harness import PageWatch, Server, question_of, serve, start_job
from tests.web.raw_http import Answer, Client, key_of, own_home, owner
from tests.workspaces.user_repository import git, write

PWN = "window.__pwned=1"
SHORT = f'"><script>{PWN}</script><img src=x onerror="{PWN}">'
HOSTILE = (
    f"{SHORT} '><svg onload={PWN}> [j](javascript:{PWN}) <javascript:{PWN}> [d](data:text/html,<script>{PWN}</script>) "
    f'![i](http://evil.test/x.png) <div hx-get="http://evil.test/" hx-trigger="load" data-hx-on:load="{PWN}"></div> '
    '<style>*{display:none}</style><base href="http://evil.test/"><meta http-equiv="refresh" content="0;url=//x.test">'
    f"<iframe srcdoc='<script>parent.{PWN}</script>'></iframe> {{{{7*7}}}} {{% x %}} &lt;b&gt; "
    "pay\u202egnp.exe \x1b[31mred\x1b[0m "
)
MARKDOWN = "\n\n".join(
    [f"# {HOSTILE}", f"- {HOSTILE}", f"| a |\n|---|\n| {HOSTILE} |", f"```html\n{HOSTILE}\n```", "> " * 50 + "deep",
     "[" * 3_000, "*a_" * 3_000, "y" * 200_000, f"<details><summary>{HOSTILE}</summary></details>"]
)  # fmt: skip
NAMES = [
    SHORT.replace("/", "_"),
    "a\nb.txt",
    "quo\"te'.txt",
    "pay\u202egnp.exe",
    "tab\there",
    "--option",
    " blank ",
    "é.md",
]
# What scripts have put into the page that could act: elements, handlers, styles of their own, addresses elsewhere.
LIVE = """[...document.querySelectorAll('main *:not([src^="/static/"], [href^="/static/"])')].flatMap((one) => [
    ...(one.matches('script, img, iframe, object, embed, base, meta, link, style') ? [one.outerHTML] : []),
    ...[...one.attributes].filter((it) => /^on|^(data-)?hx-on|^style$|^srcdoc$/.test(it.name)).map((it) => it.name),
    ...(one.href && !String(one.href.baseVal ?? one.href).startsWith(location.origin) ? [one.outerHTML] : []),
])"""
# Lines that look like the head of a diff or of a hunk once a sign stands before them; each ends in a number.
TRICKS = (
    "-- a/x", "++ b/x", "-- /dev/null", "++ /dev/null", "@@ -1,9 +1,9 @@", "diff --git a/x b/x", "index 0..1",
    "Binary files a/x and b/x differ", "rename from x", "rename to y", "deleted file mode 100644", "GIT binary patch",
    "\\ No newline at end of file", "similarity index 100%", "old mode 100644", "new mode 100755", "Index: x",
)  # fmt: skip
SLOW_SECONDS = 10.0  # of the processor, for one page: what grows with the square of such content takes minutes


def playbook() -> str:
    make = "".join(f"printf '%s' {shell_word(SHORT)} > {shell_word('./' + name)}; " for name in NAMES)
    line = "head -c 1000000 /dev/zero | tr '\\0' z > long.txt; printf 'a\\000b\\033[31m' > binary.bin; "
    return yaml.safe_dump(
        {
            "human": [
                {"match": "INTENT.md", "verdict": "approve", "text": HOSTILE},
                {"match": "PLAN.md", "verdict": "approve", "text": HOSTILE},
            ],
            "agents": {
                "intent-lead": [
                    {"match": r"\[INTENT\]", "do": [
                        {"write": {"path": "INTENT.md", "text": MARKDOWN}},
                        {"assert": {"artifact": "INTENT.md", "text": f"INTENT.md {HOSTILE}"}}]},
                    {"match": r"\[ANSWER approve\]", "do": [
                        {"outcome": {"outcome": "APPROVED_INTENT", "reason": HOSTILE}}]},
                ],
                "project-lead": [
                    {"match": r"\[PLAN\]", "do": [
                        {"write": {"path": "PLAN.md", "text": MARKDOWN}},
                        {"assert": {"artifact": "PLAN.md", "text": f"PLAN.md {HOSTILE}"}}]},
                    {"match": r"\[ANSWER approve\]", "state": "PLAN", "do": [
                        {"outcome": {"outcome": "APPROVED_PLAN", "reason": HOSTILE}}]},
                    {"match": r"\[EXECUTE\]", "do": [
                        {"say": HOSTILE}, {"send": {"to": "coder", "as": "c1", "text": HOSTILE}}]},
                    {"match": "written", "do": [
                        {"close": {"thread": "c1"}},
                        {"write": {"path": "WORK_SUMMARY.md", "text": MARKDOWN}},
                        {"assert": {"artifact": "WORK_SUMMARY.md", "text": HOSTILE}}]},
                ],
                "coder": [
                    {"match": ".", "do": [
                        {"write": {"path": "tricks.txt", "text": tricks("new")}},
                        {"shell": make + line}, {"write": {"path": "page.html", "text": f"{HOSTILE}\n" * 3}},
                        {"say": f"written {HOSTILE}"}]},
                ],
            },
        },
        allow_unicode=True,
    )  # fmt: skip


def tricks(which: str) -> str:
    """Lines that look like parts of a diff, in the order in which they do the most harm, and each once."""
    return "".join(f"{line} {which}{number}\n" for number, line in enumerate(TRICKS * 3))


def shell_word(text: str) -> str:
    quoted = text.replace("'", "'\\''")
    return f"'{quoted}'"


@dataclass
class Stage:
    """A server with a job in which everything is hostile."""

    home: Home
    server: Server
    user: Client
    job: str
    question: str


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The job waits for the verdict on its work."""
    home = own_home(tmp_path_factory.mktemp("hostile"))
    write(home.folder, {"tricks.txt": tricks("old")})
    git(home.folder, "add", "-A")
    git(home.folder, "commit", "-qm", "Add what looks like a diff")
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("PARLEY_HOME", raising=False)
        for name, value in home.environment.items():
            patched.setenv(name, value)
        job = start_job(home, playbook(), f"make this {HOSTILE.replace(chr(0x1B), '')}")
        question = question_of(home, job)
        assert question, home.run("log", job).out[-2000:]
        assert home.run("intervene", job, HOSTILE).code in (0, 4)
        with serve(home, "--only-look") as server:
            yield Stage(home, server, owner(server), job, question)


def all_pages(stage: Stage) -> dict[str, str]:
    """What every page and part shows, one of each kind; none takes long to make."""
    values = {"repository": key_of(stage.home), "job": stage.job, "question": stage.question, "what": "withdraw"}

    def look(address: str) -> Answer:
        began = processor_seconds(stage.server)
        answer = stage.user.get(address)
        assert processor_seconds(stage.server) - began < SLOW_SECONDS, address
        return answer

    found = crawl(look, values)
    return {at: one.text for at, one in found.items() if one.header("content-type").startswith("text/html")}


def processor_seconds(server: Server) -> float:
    """How much of the processor a server has had: a busy machine makes no difference to it."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def shown(stage: Stage) -> dict[str, str]:
    """All pages and parts."""
    return all_pages(stage)


class LiveParts(HTMLParser):
    """Finds elements and attributes that the page's own templates never make."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = [repr(char) for char in "\u202e\x1b\0" if char in text]
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        own = given.get("src", "").startswith("/static/")
        if tag in {"iframe", "base", "style", "object", "embed"} or (tag in {"script", "img"} and not own):
            self.found.append(f"<{tag} {given}>")
        if "http-equiv" in given or any(name.startswith(("on", "style", "data-hx", "hx-on")) for name in given):
            self.found.append(f"<{tag} {given}>")
        for name in ("href", "src", "action", "formaction", "hx-get", "hx-post", "data-src"):
            leads = given.get(name, "/")
            web = tag == "a" and name == "href" and leads.startswith(("http://", "https://", "mailto:"))
            if not web and not re.match(r"/(?![/\\])|#|\?|$", leads):
                self.found.append(f"<{tag} {name}={leads!r}>")


def test_nothing_hostile_is_live_in_any_page_or_part(stage: Stage, shown: dict[str, str]) -> None:
    live = {address: found for address, text in shown.items() if (found := LiveParts(text).found)}

    assert live == {}
    assert LiveParts(HOSTILE).found  # as it would be without a defence
    assert sum("window.__pwned" in text for text in shown.values()) >= 5  # they are shown
    assert "Traceback" not in stage.server.printed


def test_no_page_runs_or_fetches_what_was_written(
    stage: Stage, shown: dict[str, str], desktop: BrowserContext, watch: PageWatch
) -> None:
    watch.allow(r"status of (404|403|400|409)")
    page = desktop.new_page()
    page.goto(stage.server.link)
    opened = [address for address, text in shown.items() if text.startswith("<!doctype") and "That was not" not in text]
    assert len(opened) >= 5, opened
    for address in opened:
        page.goto(f"{stage.server.address}{address}", wait_until="load")
        assert page.evaluate("window.__pwned === undefined && document.baseURI.startsWith(location.origin)"), address
        assert page.url.startswith(stage.server.address)
        assert page.locator("main").is_visible()


def test_diffs_that_the_browser_draws_are_text(stage: Stage, desktop: BrowserContext, watch: PageWatch) -> None:
    """They are made by scripts, after the page: nothing that the server sends shows what becomes of them."""
    page = desktop.new_page()
    page.goto(stage.server.link)
    page.goto(f"{stage.server.address}/r/{key_of(stage.home)}/{stage.job}/changes")
    files = page.locator("details.file-diff")
    for number in range(files.count()):
        one = files.nth(number)
        one.evaluate("file => { file.open = true; file.scrollIntoView(); }")
        one.locator(".d2h-wrapper, .drawn-diff > p:not([role])").first.wait_for()
    drawn = page.locator("main").inner_html()
    rows = page.locator("[data-path='tricks.txt'] .d2h-code-line-ctn, [data-path='tricks.txt'] .d2h-info")
    shown = [text.rstrip().replace("\xa0", " ") for text in rows.all_text_contents()]

    assert files.count() > len(NAMES)
    for which in ("old", "new"):
        hidden = set(tricks(which).splitlines()) - set(shown)
        assert hidden == set(), shown
    assert drawn.count("window.__pwned") > len(NAMES)
    assert page.evaluate("window.__pwned === undefined")
    assert page.evaluate(LIVE) == []
    watch.assert_quiet()


@pytest.mark.soak
def test_pages_of_a_phone_do_not_grow_sideways(stage: Stage, phone: BrowserContext, watch: PageWatch) -> None:
    watch.allow(r"status of (404|403|400|409)")
    page = phone.new_page()
    page.goto(stage.server.link)
    wide = {}
    for address in (
        f"/r/{key_of(stage.home)}/{stage.job}",
        f"/r/{key_of(stage.home)}/{stage.job}/q/{stage.question}",
        "/",
    ):
        page.goto(f"{stage.server.address}{address}", wait_until="load")
        if (width := page.evaluate("document.documentElement.scrollWidth")) > 390:
            wide[address] = width

    assert wide == {}
