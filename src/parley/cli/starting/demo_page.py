"""The demo's page: a server beside the demo, what to look at on it, and its end."""

from __future__ import annotations

import argparse
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from parley.cli import FAILED, CommandError
from parley.cli.common import Workplace, on_terminal
from parley.cli.running.spawn import program_words
from parley.views.repository_context import repository_key

PATIENCE_SECONDS = 30.0
END_SECONDS = 10.0
TOUR = (
    ("the state machine, where it stands, and every way back", ""),
    ("who works for whom, and what each does right now", "#tree"),
    ("what was said, with the tool calls folded in between", "/conversation"),
    ("INTENT.md and PLAN.md with their verdicts", "/artifacts"),
    ("what it changed, line by line", "/changes"),
    ("who worked when", "/timeline"),
    ("every step with its rule, and the audit", "/record"),
)


class DemoPage:
    """The page while the demo runs; without one, all of this does nothing."""

    def __init__(self, process: subprocess.Popen[str] | None = None, link: str = "", key: str = "") -> None:
        self._process, self._link, self._key = process, link, key

    def tell_of(self, job: str, *, plays: bool) -> None:
        """Say where to look."""
        if self._process is None:
            return
        address, _, token = self._link.partition("/?")
        page = f"{address}/r/{self._key}/{job}"
        print(f"watch it on the page: {page}?{token}")
        print("open that, and answer there; then look at" if plays else "open that first; then look at")
        for what, where in TOUR:
            print(f"  {what}: {page}{where}", flush=True)

    def stay(self) -> None:
        """Keep the page up for who looks at it: until Ctrl-C, where there is a terminal to press it."""
        if self._process is not None and on_terminal():
            print("the page stays until you press Ctrl-C", flush=True)
            with suppress(KeyboardInterrupt):
                self._process.wait()


@contextmanager
def shown(place: Workplace, words: argparse.Namespace) -> Iterator[DemoPage]:
    """Serve the page of the demo's folder, if it was asked for. It runs no job: the demo does."""
    if not words.page:
        yield DemoPage()
        return
    quiet = [] if on_terminal() else ["--no-browser"]
    process = subprocess.Popen(
        program_words(place, ["serve", "--only-look", "--port", "0", *quiet]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C goes to the demo alone
        env={**os.environ, "PARLEY_HOME": str(place.home)},
    )
    try:
        yield DemoPage(process, _link(process), repository_key(Path(place.home)))
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _link(process: subprocess.Popen[str]) -> str:
    """The link that the server prints."""
    found: list[str] = []

    def read(output: IO[str]) -> None:
        found.extend(word for word in output.readline().split() if "/?token=" in word)

    if process.stdout is not None:
        reader = threading.Thread(target=read, args=(process.stdout,), daemon=True)
        reader.start()
        reader.join(PATIENCE_SECONDS)
    if not found:
        raise CommandError("the page did not start; `parley serve` in any repository says why", FAILED)
    return found[0]
