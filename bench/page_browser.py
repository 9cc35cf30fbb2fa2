"""What a real browser sees of the page: when it paints first, and when an update is on its screen."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

PAINTS = 5
UPDATES = 10
UPDATE_SECONDS = 10.0  # until an update counts as lost
REST_SECONDS = 4.0  # between two updates, so that each is by itself
VIEWPORT: ViewportSize = {"width": 1280, "height": 900}
_PAINT = """() => new Promise((resolve) => {
  const found = performance.getEntriesByName("first-contentful-paint")[0];
  if (found) return resolve(found.startTime);
  new PerformanceObserver((list) => resolve(list.getEntries()[0].startTime)).observe({type: "paint", buffered: true});
})"""
_WATCH = """() => {
  window.benchSeen = [];
  const told = (one) => !(one.target.closest || one.target.parentElement?.closest
    ? (one.target.closest ? one.target : one.target.parentElement).closest("time") : null);
  new MutationObserver((all) => {
    if (all.some(told)) requestAnimationFrame(() => window.benchSeen.push(Date.now()));
  }).observe(document.body, {subtree: true, childList: true, characterData: true, attributes: false});
}"""


@dataclass(frozen=True)
class Paints:
    """When a page painted first, in milliseconds after its address was asked for."""

    first: float  # of the first visit after the server began
    median: float
    slowest: float


@contextmanager
def chromium() -> Iterator[Browser | None]:
    """The machine's Chromium; None where there is none."""
    program = shutil.which("chromium")
    if program is None:
        yield None
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def paint(browser: Browser, admit: str, address: str) -> float:
    """One visit by a browser that has never been here; `admit` is the link that lets it in."""
    context = browser.new_context(viewport=VIEWPORT)
    try:
        page = context.new_page()
        if admit:
            context.request.get(admit)
        page.goto(address)
        return float(page.evaluate(_PAINT))
    finally:
        context.close()


def paints(browser: Browser, admit: str, address: str) -> Paints:
    """Several visits."""
    found = [paint(browser, admit, address) for _ in range(PAINTS)]
    return Paints(found[0], statistics.median(found), max(found))


def updates(browser: Browser, admit: str, address: str, change: Callable[[], float]) -> list[float]:
    """How many milliseconds after each change something else is on the screen. `change` says when it happened."""
    context = browser.new_context(viewport=VIEWPORT)
    try:
        context.request.get(admit)
        page = context.new_page()
        page.goto(address)
        time.sleep(REST_SECONDS)
        page.evaluate(_WATCH)
        return [_update(page, change) for _ in range(UPDATES)]
    finally:
        context.close()


def _update(page: Page, change: Callable[[], float]) -> float:
    page.evaluate("() => { window.benchSeen = []; }")
    changed = change()
    page.wait_for_function(
        "(since) => window.benchSeen.some((at) => at >= since)", arg=changed * 1e3, timeout=UPDATE_SECONDS * 1e3
    )
    seen = page.evaluate("(since) => window.benchSeen.find((at) => at >= since)", changed * 1e3)
    time.sleep(REST_SECONDS)
    return float(seen) - changed * 1e3
