"""A harness for the page: a real Chromium, the real `parley serve`, and repositories with jobs for it to show."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, Request, ViewportSize

from tests.cli.home import LEADS, PARLEY, PATIENCE_SECONDS, Home, wait_for
from tests.workspaces.user_repository import git, write

ROOT = Path(__file__).resolve().parents[2]
AXE = Path(__file__).parent / "vendor/axe.min.js"
HELLO = ROOT / "examples/hello.yaml"
DEMO = ROOT / "src/parley/demo/playbook.yaml"
WORKFLOW = ROOT / "src/parley/demo/workflow.yaml"
# What the play of WORKFLOW needs: `home.settings(WORKFLOW_SETTINGS)`, then a job with `--workflow`.
WORKFLOW_SETTINGS = "[limits]\nfan_out = 6\n\n[workflow]\ncomplex_agents = 2\n"

DESKTOP = ViewportSize(width=1280, height=800)
PHONE = ViewportSize(width=390, height=844)

LOOPBACK = {"127.0.0.1", "localhost", "::1"}
# The policy that every answer of the page carries.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# How the page sets htmx up: no styles of its own, and a live fragment leaves open what the person has opened.
HTMX_CONFIG = '{"includeIndicatorCSS": false, "history": false, "morphIgnore": ["data-htmx-powered", "open"]}'
LINK = re.compile(r"http://127\.0\.0\.1:\d+/\?token=[\w.~-]+")

# Names below `.test` are this machine, for tests of DNS rebinding; no other name is looked up at all.
RESOLVER = "MAP *.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE ::1"
OPTIONS = [
    "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", f"--host-resolver-rules={RESOLVER}",
]  # fmt: skip
# The console tells of most violations; the event tells of all, whatever the console leaves out.
VIOLATIONS = """
document.addEventListener('securitypolicyviolation', (event) => console.error(
    `CSP violation: ${event.effectiveDirective} blocked ${event.blockedURI} of ${event.sourceFile}: ${event.sample}`));
"""


# ---- the browser -------------------------------------------------------------------------------------


def find_chromium() -> str | None:
    """Find the system's Chromium; Playwright's own is never fetched."""
    return shutil.which("chromium")


def launch(playwright: Playwright, program: str) -> Browser:
    """Start Chromium; its sandbox can't be made by root."""
    options = ["--no-sandbox", *OPTIONS] if os.geteuid() == 0 else OPTIONS
    return playwright.chromium.launch(executable_path=program, args=options)


@dataclass
class PageWatch:
    """What went wrong in pages while a test looked at them: errors, violations of the policy, requests to elsewhere."""

    found: list[str] = field(default_factory=list)
    allowed: list[re.Pattern[str]] = field(default_factory=list)

    def allow(self, pattern: str) -> None:
        """Expect a fault, as a test of a refusal does."""
        self.allowed.append(re.compile(pattern))

    def attach(self, context: BrowserContext) -> None:
        """Follow all pages of a context."""
        context.add_init_script(VIOLATIONS)
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self.found.append(f"uncaught: {error.error}"))
        context.on("request", self._on_request)

    def faults(self) -> list[str]:
        """Tell what was found and not expected."""
        return [line for line in self.found if not any(pattern.search(line) for pattern in self.allowed)]

    def assert_quiet(self) -> None:
        """No error on the console, no violation of the policy, no request that left the machine."""
        assert not self.faults(), "\n".join(self.faults())

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.found.append(f"console: {message.text} ({message.location['url']})")

    def _on_request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme in {"http", "https", "ws", "wss"} and address.hostname not in LOOPBACK:
            self.found.append(f"request: {request.method} {request.url}")


@contextmanager
def visit(
    browser: Browser, watch: PageWatch, size: ViewportSize = DESKTOP, *, dark: bool = False
) -> Iterator[BrowserContext]:
    """A person with a screen of this size and no cookie yet; a phone is touched."""
    phone = size["width"] < DESKTOP["width"]
    context = browser.new_context(
        viewport=size, has_touch=phone, is_mobile=phone, color_scheme="dark" if dark else "light", locale="en-GB",
        timezone_id="UTC",
    )  # fmt: skip
    context.set_default_timeout(PATIENCE_SECONDS * 1000)
    watch.attach(context)
    try:
        yield context
    finally:
        context.close()


# Axe sees only what scrolls now, with what a test has put into it. Diffs are left to it: a script looks how wide
# each is.
UNREACHED = """
[...document.querySelectorAll("body *")].filter((one) => {
  const style = getComputedStyle(one);
  const scrolls = [style.overflowX, style.overflowY].some((way) => way === "auto" || way === "scroll");
  const reached = "a[href], button, input, select, textarea, summary, [tabindex='0']";
  const skipped = !one.offsetParent || one.closest(".drawn-diff");
  return scrolls && !skipped && !one.matches(reached) && !one.querySelector(reached);
}).map((one) => one.outerHTML.slice(0, 200))
"""


def check_axe(page: Page) -> None:
    """Axe finds nothing in the page that is in the way of people with disabilities, minor or not."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    result: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    faults = [
        f"{rule['impact']}: {rule['id']}: {rule['help']}: {node['target']}: {node['failureSummary']}"
        for rule in result["violations"]
        for node in rule["nodes"]
    ]
    assert result["testEngine"]["name"] == "axe-core", result
    assert not faults, "\n".join(faults)
    unreached = page.evaluate(UNREACHED)
    assert not unreached, f"the keyboard does not reach what would scroll with more in it: {unreached}"


# ---- the server --------------------------------------------------------------------------------------


@dataclass
class Server:
    """A `parley serve` that runs as users run it, and the link that it has printed."""

    process: subprocess.Popen[bytes]
    output: Path
    errors: Path
    link: str = ""

    @property
    def address(self) -> str:
        """Where the page is, without the token and without a slash at the end."""
        return self.link.partition("/?")[0]

    @property
    def token(self) -> str:
        """The token of the link."""
        return self.link.partition("?token=")[2]

    @property
    def printed(self) -> str:
        """All that it has printed on both streams."""
        return self.output.read_text(encoding="utf-8") + self.errors.read_text(encoding="utf-8")

    def wait_for_link(self) -> None:
        """Wait until the link is printed; a server that ended instead has failed."""

        def look() -> str:
            ended = self.process.poll()
            found = LINK.search(self.output.read_text(encoding="utf-8"))
            assert ended is None, f"the server ended with {ended}: {self.printed}"
            return found[0] if found else ""

        self.link = str(wait_for(look))

    def stop(self) -> None:
        """Ask it to stop, as a service manager does: it ends well, and leaves no process behind."""
        children = descendants(self.process.pid)
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE_SECONDS)
        assert code == 0, f"the server ended with {code}: {self.printed}"
        assert "Traceback" not in self.printed, self.printed
        try:
            wait_for(lambda: not children & living().keys())  # one that was killed may take a moment to be gone
        except AssertionError as error:
            left = [f"{number}: {command_of(number)}" for number, _ in children & living().keys()]
            raise AssertionError(f"the server left these processes behind: {left}") from error

    def kill(self) -> None:
        """End it at once, with all that it started."""
        children = descendants(self.process.pid)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_SECONDS)
        for number, _ in children & living().keys():
            os.kill(number, signal.SIGKILL)


@contextmanager
def serve(home: Home, *words: str) -> Iterator[Server]:
    """Run `parley serve` in a home; at the end it has to stop cleanly, unless the test has stopped it or has failed.

    A page that is still open then loses its connection, which is an error on its console: close it first.
    """
    log = f"{home.folder}.serve-{time.monotonic_ns()}"
    output_file, error_file = Path(f"{log}.out"), Path(f"{log}.err")
    with output_file.open("wb") as output, error_file.open("wb") as errors:
        process = subprocess.Popen(
            [str(PARLEY), "serve", "--no-browser", "--port", "0", *words],
            cwd=home.folder, env=home.env(), stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
        )  # fmt: skip
    server = Server(process, output_file, error_file)
    try:
        server.wait_for_link()
        yield server
        if process.poll() is None:
            server.stop()
    finally:
        server.kill()


Process = tuple[int, str]  # its number, and when it started: numbers are used again


def living() -> dict[Process, int]:
    """Look which processes are alive, each with its parent's number; one that only waits to be reaped is not."""
    found: dict[Process, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # the name before the last parenthesis may contain anything
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        state, parent, started = fields[0], int(fields[1]), fields[19]
        if state != "Z":
            found[int(entry.name), started] = parent
    return found


def command_of(number: int) -> str:
    """The words that a process was started with; empty where it is gone."""
    try:
        return (Path("/proc") / str(number) / "cmdline").read_text(errors="replace").replace("\0", " ").strip()
    except OSError:
        return ""


def descendants(ancestor: int) -> set[Process]:
    """Look which processes a process has started, and those in turn."""
    alive = living()
    found: set[Process] = set()
    parents = {ancestor}
    while parents:
        children = {process for process, parent in alive.items() if parent in parents}
        found |= children
        parents = {number for number, _ in children}
    return found


# ---- repositories with jobs ----------------------------------------------------------------------------


def prepare_repository(folder: Path, files: dict[str, str] | None = None) -> Home:
    """A repository with one commit, in which jobs can be started."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q")
    git(folder, "config", "user.name", "Someone")
    git(folder, "config", "user.email", "someone@example.org")
    write(folder, {**({"README.md": "# A small project\n"} if files is None else files)})
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "Begin")
    return Home(folder)


def without_human(playbook: Path) -> str:
    """A playbook whose job waits at each gate, and whose agents lose no time."""

    def hasten(value: Any) -> Any:
        if isinstance(value, list):
            return [hasten(each) for each in value if not (isinstance(each, dict) and each.keys() == {"sleep"})]
        if isinstance(value, dict):
            return {key: hasten(each) for key, each in value.items()}
        return value

    document: dict[str, Any] = yaml.safe_load(playbook.read_text(encoding="utf-8"))
    document.pop("human", None)
    return yaml.safe_dump(hasten(document), sort_keys=False, allow_unicode=True)


def start_job(home: Home, playbook: str = LEADS, request: str = "a request", *words: str) -> str:
    """A job that has come as far as it does without the human: its id."""
    file = home.write(f"../{home.folder.name}.playbook.yaml", playbook)
    done = home.run("run", request, "--playbook", file, "--json", *words)
    assert done.code in (0, 4), done
    return str(done.document["id"])


def question_of(home: Home, job: str) -> str:
    """The question of a job that waits for the human, or nothing."""
    questions = home.here("inbox", "--json").document["questions"]
    return str(next((each["id"] for each in questions if each["job"] == job), ""))


def approve(home: Home, job: str) -> None:
    """Approve what a job that no process runs is waiting for, and play it up to its next question or its end."""
    answered = home.run("answer", question_of(home, job), "--approve", "yes")
    assert answered.code in (0, 4), answered
    resumed = home.run("resume", job)
    assert resumed.code in (0, 4), resumed
