"""The harness of the page's tests, and the vendored files under the page's policy, tried on small pages."""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.cli.home import Home, wait_for
from tests.web.page_harness import (
    HELLO,
    HTMX_CONFIG,
    PHONE,
    POLICY,
    ROOT,
    PageWatch,
    approve,
    check_axe,
    descendants,
    living,
    question_of,
    serve,
    start_job,
    without_human,
)

VENDOR = ROOT / "src/parley/web/static/vendor"
KINDS = {".js": "text/javascript", ".css": "text/css", ".html": "text/html; charset=utf-8"}
HTMX = f"""<meta name="htmx-config" content='{HTMX_CONFIG}'>
<script src="/vendor/htmx.min.js" defer></script>"""
DIFF = """<link rel="stylesheet" href="/vendor/diff2html.min.css">
<script src="/vendor/highlight.min.js" defer></script>
<script src="/vendor/diff2html-ui-base.min.js" defer></script>
<script src="/draw.js" defer></script>"""
ALIVE = "document.title = 'alive'"
# An agent's own: names, words, context and code that try to become elements or attributes of the page.
HOSTILE = f"""diff --git a/<img src=x onerror="{ALIVE}">.py b/<img src=x onerror="{ALIVE}">.py
--- a/<img src=x onerror="{ALIVE}">.py
+++ b/<img src=x onerror="{ALIVE}">.py
@@ -1,3 +1,3 @@ <script>{ALIVE}</script>
 def greet():
-    return "<b style='color:red' onclick='{ALIVE}'>hello</b>"
+    return "</td></tr></table><script>{ALIVE}</script><style>*{{display:none}}</style>"
 # <iframe srcdoc="<script>{ALIVE}</script>"></iframe> &lt;script&gt; <svg onload="{ALIVE}">
diff --git "a/x\\" onmouseover=\\"{ALIVE}" "b/x\\" onmouseover=\\"{ALIVE}"
new file mode 100644
--- /dev/null
+++ "b/x\\" onmouseover=\\"{ALIVE}"
@@ -0,0 +1 @@
+<a href="javascript:{ALIVE}">click</a>
"""
DRAW = """
fetch('/diff.txt').then((answer) => answer.text()).then((diff) => {
    const drawn = new Diff2HtmlUI(document.getElementById('diff'), diff, {
        outputFormat: document.body.dataset.format, drawFileList: false, matching: 'lines', colorScheme: 'auto',
        fileListToggle: false, fileContentToggle: false, stickyFileHeaders: false,
    }, hljs);
    drawn.draw();
    document.body.dataset.drawn = 'yes';
});
"""

Site = Callable[..., str]


@pytest.fixture
def site() -> Iterator[Site]:
    """Serve these files, and the vendored ones, with the page's policy or another; return the address.

    An icon may be empty: a browser fetches one at any time, also when the server has ended.
    """
    servers: list[ThreadingHTTPServer] = []

    def site(files: dict[str, str], policy: str = POLICY) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content = content_of(files, self.path.partition("?")[0])
                self.send_response(404 if content is None else 200)
                self.send_header("Content-Type", KINDS.get(Path(self.path).suffix, KINDS[".html"]))
                self.send_header("Content-Length", str(len(content or b"")))
                self.send_header("Content-Security-Policy", policy.replace("img-src 'self'", "img-src 'self' data:"))
                self.end_headers()
                self.wfile.write(content or b"")

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Print nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield site
    for server in servers:
        server.shutdown()
        server.server_close()


def content_of(files: dict[str, str], path: str) -> bytes | None:
    if path.startswith("/vendor/"):
        return (VENDOR / Path(path).name).read_bytes()
    return files[path].encode() if path in files else None


def page_of(body: str, head: str = "", attributes: str = "") -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A page</title>'
        f'<link rel="icon" href="data:,"><meta name="viewport" content="width=device-width">{head}</head>'
        f"<body {attributes}><main><h1>A page</h1>{body}</main></body></html>"
    )


def opened(context: BrowserContext, address: str) -> Page:
    page = context.new_page()
    page.goto(address)
    return page


# ---- the browser -------------------------------------------------------------------------------------


def test_a_quiet_page_has_no_fault(desktop: BrowserContext, watch: PageWatch, site: Site) -> None:
    page = opened(desktop, site({"/": page_of("<p>Hello</p>")}))

    check_axe(page)
    assert page.evaluate("[innerWidth, navigator.maxTouchPoints]") == [1280, 0]
    watch.assert_quiet()


def test_a_phone_is_narrow_and_is_touched(phone: BrowserContext, site: Site) -> None:
    page = opened(phone, site({"/": page_of("<p>Hello</p>")}))

    assert page.evaluate("innerWidth") == PHONE["width"]
    assert page.evaluate("navigator.maxTouchPoints") > 0


@pytest.mark.parametrize(
    "body, policy, fault",
    [
        ("<script>console.error('ouch')</script>", "", "console: ouch"),
        ("<script>nothing.there</script>", "", "uncaught: .*nothing is not defined"),
        ("<script>document.title = 'run'</script>", POLICY, "CSP violation: script-src-elem blocked inline"),
        ("<p style='color: red'>red</p>", POLICY, "CSP violation: style-src-attr blocked inline"),
        (
            "<img alt='' src='http://elsewhere.example/x.png'>",
            POLICY,
            "CSP violation: img-src blocked http://elsewhere",
        ),
        ("<img alt='' src='http://elsewhere.example/x.png'>", "", "request: GET http://elsewhere.example/x.png"),
        ("<img alt='' src='/missing.png'>", "", "console: .*404"),
    ],
    ids=["error", "uncaught", "script", "style", "blocked", "elsewhere", "missing"],
)
def test_a_fault_of_a_page_is_found(
    desktop: BrowserContext, watch: PageWatch, site: Site, body: str, policy: str, fault: str
) -> None:
    page = opened(desktop, site({"/": page_of(body)}, policy))
    page.wait_for_load_state("networkidle")

    assert watch.faults()
    with pytest.raises(AssertionError):
        watch.assert_quiet()
    watch.allow(fault)
    assert len(watch.faults()) < len(watch.found)
    watch.allow(".")  # the console's own words for the same fault


def test_a_name_below_test_is_this_machine(desktop: BrowserContext, watch: PageWatch, site: Site) -> None:
    watch.allow("request: GET http://rebound.test")

    page = opened(desktop, site({"/": page_of("<p>Hello</p>")}).replace("127.0.0.1", "rebound.test"))

    expect(page.locator("p")).to_have_text("Hello")


def test_axe_runs_under_the_policy_and_finds_what_is_serious(desktop: BrowserContext, site: Site) -> None:
    page = opened(desktop, site({"/": page_of("<button></button>")}))

    with pytest.raises(AssertionError, match="button-name"):
        check_axe(page)


# ---- the vendored files under the policy ----------------------------------------------------------------


def test_htmx_morphs_under_the_policy_and_keeps_focus_and_what_is_open(desktop: BrowserContext, site: Site) -> None:
    fragment = """<div id="live"><p id="count">{}</p><input id="word" aria-label="word">
        <details id="more"><summary>More</summary>much</details></div>"""
    first = fragment.format("one") + '<button hx-get="/next" hx-target="#live" hx-swap="outerMorph">Next</button>'
    page = opened(desktop, site({"/": page_of(first, HTMX), "/next": fragment.format("two")}))

    page.locator("summary").click()
    page.locator("#word").fill("half a wor")
    page.evaluate("document.querySelector('button').click()")

    expect(page.locator("#count")).to_have_text("two")
    expect(page.locator("#word")).to_be_focused()
    expect(page.locator("#word")).to_have_value("half a wor")
    expect(page.locator("#more")).to_have_attribute("open", "")


def test_htmx_evaluates_nothing_of_a_fragment_under_the_policy(
    desktop: BrowserContext, watch: PageWatch, site: Site
) -> None:
    fragment = f"""<p id="new">new</p><script>{ALIVE}</script><img alt="" src="x" onerror="{ALIVE}">
        <button hx-on:click="{ALIVE}">Try</button>"""
    watch.allow("CSP|Content Security Policy|unsafe-eval|404")
    first = '<div id="live"></div><button hx-get="/next" hx-target="#live">Next</button>'
    page = opened(desktop, site({"/": page_of(first, HTMX), "/next": fragment}))

    page.get_by_role("button", name="Next").click()
    expect(page.locator("#new")).to_have_text("new")
    page.get_by_role("button", name="Try").click()

    wait_for(lambda: page.evaluate("1") and len(watch.found) > 2)
    assert page.title() == "A page"


@pytest.mark.parametrize("layout", ["side-by-side", "line-by-line"])
def test_a_hostile_diff_is_drawn_as_text_under_the_policy(desktop: BrowserContext, site: Site, layout: str) -> None:
    body = page_of('<div id="diff"></div>', DIFF, f'data-format="{layout}"')
    page = opened(desktop, site({"/": body, "/draw.js": DRAW, "/diff.txt": HOSTILE}))

    page.locator("body[data-drawn]").wait_for()

    drawn = page.locator("#diff")
    expect(drawn).to_contain_text("</td></tr></table><script>")
    expect(drawn).to_contain_text('<img src=x onerror="document.title')
    expect(drawn.locator(".hljs-keyword").first).to_have_text("def")
    assert drawn.locator("script, style, img, iframe, b, [style], [onclick], [onmouseover], [onerror]").count() == 0
    assert drawn.locator("a[href^='javascript']").count() == 0
    assert page.title() == "A page"


# ---- processes and jobs --------------------------------------------------------------------------------


def test_what_a_process_started_is_found_until_it_has_ended() -> None:
    words = [sys.executable, "-c", "import subprocess; subprocess.run(['cat'])"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        (child,) = wait_for(lambda: descendants(process.pid))
        assert child in living()
        assert process.stdin is not None
        process.stdin.close()
        process.wait()

    assert child not in living()


@pytest.mark.soak
def test_a_job_without_a_human_waits_at_each_gate(repository: Home) -> None:
    job = start_job(repository, without_human(HELLO))
    states = []
    while question_of(repository, job):
        states.append(repository.jobs()[0]["state"])
        approve(repository, job)

    assert states == ["INTENT", "PLAN", "EXECUTE"]
    assert repository.jobs()[0]["state"] == "DONE"


def test_a_server_prints_its_link_and_stops_cleanly(repository: Home, desktop: BrowserContext) -> None:
    with serve(repository) as server:
        answer = desktop.request.get(server.link)

        assert answer.ok
        assert answer.headers["content-security-policy"] == POLICY
        assert server.token not in answer.url
        half_sent = f"POST /nothing HTTP/1.1\r\nHost: {urlsplit(server.link).netloc}\r\nOrigin: {server.address}\r\n"
        cookies = "; ".join(f"{one['name']}={one['value']}" for one in desktop.cookies())
        raw = socket.create_connection(("127.0.0.1", urlsplit(server.link).port or 0), 20)
        raw.sendall(f"{half_sent}Cookie: {cookies}\r\nContent-Length: 9\r\n\r\n".encode())  # is under way at the end

    raw.close()
    assert server.process.returncode == 0
    assert server.errors.read_text(encoding="utf-8") == ""


def test_a_server_that_does_not_start_fails_the_test_with_its_words(repository: Home) -> None:
    with (
        pytest.raises(AssertionError, match=r"the server ended with 2: parley: .*--nonsense"),
        serve(repository, "--nonsense"),
    ):
        pass


def test_a_server_that_was_killed_does_not_count_as_stopped(repository: Home) -> None:
    with serve(repository) as server:
        server.process.kill()
        with pytest.raises(AssertionError, match="the server ended with -9"):
            server.stop()
