"""`make screenshots`: plays jobs on the real page and keeps pictures of its main views: docs/page/*.png.

All of it is real, jobs, agents and browser; only the folder is a fresh one, and the account is called `you`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

from tests.cli.home import PATIENCE_SECONDS, Home
from tests.web.page_harness import (
    DEMO,
    DESKTOP,
    HELLO,
    LINK,
    PHONE,
    WORKFLOW,
    WORKFLOW_SETTINGS,
    PageWatch,
    find_chromium,
    launch,
    prepare_repository,
    visit,
)
from tools.record import PARLEY

DOCS = Path(__file__).parent.parent / "docs" / "page"
COUNT_REQUEST = "Make a small command that counts words, with tests"
NOTES_REQUEST = "Build a small service that keeps notes, with a database, an HTTP interface and a page"
GUIDE = r"""
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do:
        - {send: {to: researcher, as: one, text: "Read the code, and list what a new user has to know."}}
        - {send: {to: writer, as: two, text: "Draft the guide's first chapter."}}
    - {match: '.', repeat: true, do: []}
  researcher:
    - {match: 'Read', do: [{write: {path: notes.md, text: "notes"}}, {sleep: 600}]}
  writer:
    - {match: 'Draft', do: [{write: {path: guide.md, text: "guide"}}, {sleep: 600}]}
"""
SETTLE_MS = 1200  # for what is fetched after the first paint, and its fonts


class Scene(NamedTuple):
    """One view: what it is called, where it is, and what has to be seen before it is kept."""

    name: str
    address: str
    shows: str  # a selector
    everywhere: bool = False  # also in the dark and on a phone


class Stage:
    """A repository with jobs in all situations, and its page."""

    def __init__(self, home: Home, link: str) -> None:
        self.home = home
        self.link = link
        self.address = link.partition("/?")[0]

    def start(self, request: str, playbook: str, *words: str) -> str:
        """Start a job: its id."""
        file = self.home.write(f"../{abs(hash(request))}.yaml", playbook)
        return self.parley("run", "--detach", request, "--playbook", file, *words).strip()

    def parley(self, *words: str) -> str:
        """Run a command as `you`."""
        done = subprocess.run(
            [sys.executable, "-P", "-c", PARLEY, *words],
            cwd=self.home.folder,
            env=self.home.env(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, 4):
            raise SystemExit(f"parley {' '.join(words)}: {done.stderr}")
        return done.stdout

    def wait_for(self, what: str, found: Callable[[], str]) -> str:
        """Wait until something is there."""
        deadline = time.monotonic() + 4 * PATIENCE_SECONDS
        while time.monotonic() < deadline:
            if seen := found():
                return seen
            time.sleep(0.2)
        raise SystemExit(f"{what} did not come")


@contextmanager
def stage() -> Iterator[Stage]:
    """Serve the page of a fresh repository."""
    with tempfile.TemporaryDirectory(prefix="parley-screenshots-") as folder:
        home = prepare_repository(Path(folder) / "wordcount")
        home.environment["XDG_STATE_HOME"] = f"{folder}/state"
        home.environment["XDG_CONFIG_HOME"] = f"{folder}/config"
        home.settings(WORKFLOW_SETTINGS)
        output = Path(folder) / "link"
        with output.open("wb") as printed:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", PARLEY, "serve", "--no-browser", "--port", "0"],
                cwd=home.folder,
                env=home.env(),
                stdin=subprocess.DEVNULL,
                stdout=printed,
            )
        try:
            made = Stage(home, "")
            link = made.wait_for("the link", lambda: ((found := LINK.search(output.read_text())) and found[0]) or "")
            yield Stage(home, link)
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)


def scenes(browser: Browser, on: Stage) -> list[Scene]:
    """Bring jobs into the situations that are shown."""
    without_last = DEMO.read_text(encoding="utf-8").replace('match: "WORK_SUMMARY.md"', 'match: "no question has this"')
    counter = on.start(COUNT_REQUEST, without_last)
    notes = on.start(NOTES_REQUEST, WORKFLOW.read_text(encoding="utf-8"), "--workflow")
    on.start("Say hello", HELLO.read_text(encoding="utf-8"))
    on.start("Write a guide for new users", GUIDE)
    with visit(browser, PageWatch()) as context:
        page = context.new_page()
        page.goto(on.link)
        key = str(page.locator('a[href^="/r/"]').first.get_attribute("href")).split("/")[2]
        base = f"{on.address}/r/{key}"

        def question() -> str:
            page.goto(f"{base}/{counter}")
            found = page.locator(f'a[href*="/{counter}/q/"]').first
            state = page.locator("main").inner_text()
            return str(found.get_attribute("href")) if found.count() and "WORK_SUMMARY.md" in state else ""

        asked = on.wait_for("the question about the work", question)
        on.wait_for("the end of the workflow", lambda: "DONE" if '"DONE"' in on.parley("show", notes, "--json") else "")
    return [
        Scene("home", f"{on.address}/", "article", everywhere=True),
        Scene("job", f"{base}/{counter}", "#tree", everywhere=True),
        Scene("answer", f"{on.address}{asked}", "form", everywhere=True),
        Scene("changes", f"{base}/{counter}/changes", ".d2h-wrapper", everywhere=True),
        Scene("conversation", f"{base}/{counter}/conversation", "main"),
        Scene("artifacts", f"{base}/{counter}/artifacts", "main"),
        Scene("timeline", f"{base}/{notes}/timeline", "svg"),
        Scene("workflow", f"{base}/{notes}/workflow", "svg"),
        Scene("record", f"{base}/{counter}/record", "table"),
        Scene("start", f"{on.address}/start", "form"),
    ]


def keep(page: Page, scene: Scene, name: str) -> None:
    """Take one picture."""
    page.goto(scene.address)
    page.locator(scene.shows).first.wait_for()
    page.wait_for_timeout(SETTLE_MS)  # the stream of changes never ends, so that no network is ever idle
    page.screenshot(path=DOCS / f"{name}.png")


def main() -> None:
    """Take them all."""
    program = find_chromium()
    if program is None:
        raise SystemExit("chromium is missing: run `make system`")
    DOCS.mkdir(exist_ok=True)
    with sync_playwright() as playwright, stage() as on:
        browser = launch(playwright, program)
        found = scenes(browser, on)
        for size, dark, ending in (
            (DESKTOP, False, ""),
            (DESKTOP, True, "-dark"),
            (PHONE, False, "-phone"),
            (PHONE, True, "-phone-dark"),
        ):
            with visit(browser, PageWatch(), size, dark=dark) as context:
                page = context.new_page()
                page.goto(on.link)
                for scene in found:
                    if not ending or scene.everywhere:
                        keep(page, scene, f"{scene.name}{ending}")
        browser.close()


if __name__ == "__main__":
    main()
