"""`make record`: plays a session of the real `parley watch` and keeps it for the docs: docs/watch.cast and its frames.

All of it is real, jobs, agents and keys; only the folder is a fresh one, and the account is called `you`.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.cli.terminal import Terminal, terminal

DOCS = Path(__file__).parent.parent / "docs"
COLUMNS, ROWS = 80, 24
READING_SECONDS = 1.6  # how long each screen stands in the recording
KEY_SECONDS = 0.07
PATIENCE_SECONDS = 60.0
# `parley`, for an account that has no name of its own here
PARLEY = "import pwd, sys, types; pwd.getpwuid = lambda _: types.SimpleNamespace(pw_name='you'); \
from parley.cli.main import main; sys.exit(main())"

COUNTER = r"""
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do:
        - write:
            path: INTENT.md
            text: |
              # Intent
              A command that counts the lines, words and characters of text files.
        - {assert: {artifact: INTENT.md, text: "One command, three counts."}}
    - {match: '\[ANSWER approve\]', do: [{outcome: {outcome: APPROVED_INTENT, reason: "the intent is clear"}}]}
  project-lead:
    - match: '\[PLAN\]'
      do:
        - write:
            path: PLAN.md
            text: |
              # Plan
              1. coder: `count.py`
              2. tester: `test_count.py`
        - {assert: {artifact: PLAN.md, text: "Two small pieces of work, one after the other."}}
    - match: '\[ANSWER revise\]'
      do:
        - write:
            path: PLAN.md
            text: |
              # Plan
              1. coder: `count.py`; a file that is not there is one line on standard error
              2. tester: `test_count.py`, which tries that, too
        - {assert: {artifact: PLAN.md, text: "The missing file is planned and tested now."}}
    - {match: '\[ANSWER approve\]', state: PLAN, do: [{outcome: {outcome: APPROVED_PLAN, reason: "approved"}}]}
    - {match: '\[EXECUTE\]', do: [{send: {to: coder, as: code, text: "Write count.py as PLAN.md says."}}]}
    - match: 'count.py is written'
      do:
        - {close: {thread: code}}
        - {write: {path: WORK_SUMMARY.md, text: "# Work\ncount.py counts lines, words and characters.\n"}}
        - {assert: {artifact: WORK_SUMMARY.md, text: "count.py does what the plan says."}}
    - {match: '\[ANSWER approve\]', state: EXECUTE, do: [{outcome: {outcome: APPROVED_WORK, reason: "approved"}}]}
  coder:
    - match: 'Write count'
      do:
        - sleep: 1
        - write:
            path: count.py
            text: |
              import sys

              for name in sys.argv[1:]:
                  text = open(name, encoding="utf-8").read()
                  print(text.count("\n"), len(text.split()), len(text), name)
        - {send: {thread: dispatcher, text: "count.py is written."}}
"""
GUIDE = r"""
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do:
        - {send: {to: researcher, as: one, text: "Read the code, and list what a new user has to know."}}
        - {send: {to: writer, as: two, text: "Draft the guide's first chapter."}}
    - {match: '.', repeat: true, do: []}
  researcher:
    - match: 'Read'
      do: [{write: {path: notes.md, text: "notes"}}, {sleep: 600}]
  writer:
    - match: 'Draft'
      do: [{write: {path: guide.md, text: "guide"}}, {sleep: 600}]
"""
DEAD_END = "agents:\n  intent-lead:\n    - {match: '.', repeat: true, do: []}\n"
YES = "human:\n  - {match: '.', repeat: true, verdict: approve, text: 'yes'}\n"


EMPTY = (("see", "no jobs yet"), ("keep", "empty"), ("press", "q"))
RUN = (
    ("see", "intent-lead asks"),
    ("keep", "run"),
    ("press", "x\ryes\r"),
)
SESSION = (
    ("see", "approve INTENT.md?"),
    ("see", "(and 1 more at work)"),
    ("press", "g"),
    ("keep", "list"),
    ("press", "?"),
    ("see", "the keys"),
    ("keep", "keys"),
    ("press", "q/guide\r"),
    ("see", "1 of 4 with"),
    ("keep", "find"),
    ("press", "\x1b"),
    ("see", "Rename"),
    ("press", "g"),
    ("see", "a answer"),
    ("press", "\r"),
    ("see", "intent-lead asks"),
    ("keep", "job"),
    ("press", "aThat is what I want.\r"),
    ("see", "project-lead asks (PLAN"),
    ("press", "rWhat about a file that is not there?"),
    ("keep", "answer"),
    ("press", "\r"),
    ("see", "The missing file is planned"),
    ("press", "v"),
    ("see", "since you saw it"),
    ("keep", "since"),
    ("press", "q"),
    ("see", "[PLAN]"),
    ("press", "a\r"),
    ("see", "WORK_SUMMARY.md)"),
    ("press", "c"),
    ("see", "work of"),
    ("keep", "work"),
    ("press", "q"),
    ("see", "[EXECUTE]"),
    ("press", "d"),
    ("see", "+++ b/count.py"),
    ("keep", "diff"),
    ("press", "q"),
    ("see", "[EXECUTE]"),
    ("press", "a\r"),
    ("see", "[DONE]"),
    ("keep", "done"),
    ("press", "v"),
    ("see", "has agreed on"),
    ("keep", "artifacts"),
    ("press", "qm"),
    ("see", "type yes"),
    ("keep", "merge"),
    ("press", "\x1bq"),
    ("see", "done (2)"),
    ("press", "n"),
    ("see", "what is to be done>"),
    ("press", "Let it count the bytes, too."),
    ("keep", "new"),
    ("press", "\x1b"),
    ("see", "nothing was started"),
    ("press", "g\x1b[B"),
    ("see", "s tell"),
    ("press", "s\tKeep it under two pages."),
    ("keep", "tell"),
    ("press", "\r"),
    ("see", ": delivered to "),
    ("press", "z"),
    ("see", "is paused"),
    ("keep", "paused"),
    ("press", "xnot now\ryes\r"),
    ("see", "is withdrawn"),
    ("see", "done (3)"),
    ("press", "q"),
)


class Recording:
    """What a terminal was sent, and when; and its screens at the moments that the docs show."""

    def __init__(self, screen: Terminal) -> None:
        self._screen = screen
        self._events: list[tuple[float, str]] = []
        self._time = 0.0
        self.frames: dict[str, list[str]] = {}

    def see(self, text: str) -> None:
        """Wait until a text is on the screen, and let people read it."""
        before = len(self._screen.everything)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self._screen.screen() and time.monotonic() < deadline:
            self._screen.read(0.05)
        if text not in self._screen.screen():
            raise SystemExit(f"{text!r} did not come:\n{self._screen.screen()}")
        self._settle()
        self._note(before, 0.2)

    def _settle(self) -> None:
        """Read on until the screen stands still."""
        length = -1
        while length != len(self._screen.everything):
            length = len(self._screen.everything)
            self._screen.read(0.15)

    def _note(self, before: int, seconds: float) -> None:
        new = self._screen.everything[before:]
        if new:
            self._time += seconds
            self._events.append((self._time, new))

    def keep(self, name: str) -> None:
        """Keep the screen for the docs."""
        before = len(self._screen.everything)
        self._settle()
        self._note(before, 0.2)
        self._time += READING_SECONDS
        self.frames[name] = rows_of(self._screen.everything)

    def press(self, keys: str) -> None:
        """Type, as fast as people do."""
        for key in re.findall(r"\x1b\[\w|\x1b|.", keys, re.DOTALL):
            before = len(self._screen.everything)
            self._screen.type(key)
            self._screen.read(0.3)
            self._note(before, KEY_SECONDS)

    def cast(self) -> str:
        """The recording as asciicast, version 2."""
        head = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "parley watch"}
        lines = [
            json.dumps(head),
            *(json.dumps([round(at, 2), "o", text], ensure_ascii=False) for at, text in self._events),
        ]
        return "\n".join(lines) + "\n"


PAINTED = re.compile(r"\x1b\[(\d+);1H\x1b\[2K(.*?)(?=\x1b\[\d+;1H|\x1b\[H|\x1b\[\?|\Z)|\x1b\[2J", re.DOTALL)


def rows_of(sent: str) -> list[str]:
    """The screen's lines with their styles, from how the watch paints: whole lines, each at its place."""
    rows = [""] * ROWS
    for found in PAINTED.finditer(sent):
        if found[1] is None:
            rows = [""] * ROWS
        else:
            rows[int(found[1]) - 1] = found[2]
    return rows


SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 {width} {height}">
<style>
text {{ font: {char_height}px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; white-space: pre }}
{styles}
</style>
<rect width="{width}" height="{height}" rx="8" fill="#0c0c0c"/>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def picture(rows: list[str], name: str) -> str:
    """A screen as an image."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for row in rows:
        console.print(Text.from_ansi(row), soft_wrap=True)
    return console.export_svg(title="", code_format=SVG, unique_id=f"watch-{name}")


def play(folder: Path, environment: dict[str, str]) -> list[Recording]:
    """The sessions; the last is the long one."""
    words = [sys.executable, "-P", "-c", PARLEY]

    def run(request: str, playbook: str, *more: str) -> None:
        (folder.parent / "play.yaml").write_text(playbook, encoding="utf-8")
        call = [*words, "run", request, "--playbook", str(folder.parent / "play.yaml"), *more]
        with terminal(call, folder, {**environment, "TERM": "dumb"}, COLUMNS, ROWS) as screen:
            screen.end()

    def session(call: list[str], deeds: Sequence[tuple[str, str]]) -> Recording:
        with terminal([*words, *call], folder, environment, COLUMNS, ROWS) as screen:
            recording = Recording(screen)
            for deed, given in deeds:
                {"see": recording.see, "press": recording.press, "keep": recording.keep}[deed](given)
            screen.end()
        return recording

    empty = session(["watch"], EMPTY)
    (folder.parent / "play.yaml").write_text(COUNTER, encoding="utf-8")
    live = session(["run", "Count the words", "--playbook", str(folder.parent / "play.yaml")], RUN)
    shutil.rmtree(folder / ".parley")
    run("Rename the settings file", COUNTER + YES)
    run("Port the tests to another system", DEAD_END, "--policy", "never")
    run("Write a guide for new users", GUIDE, "--detach")
    run("Count the words of text files", COUNTER, "--detach")
    return [empty, live, session(["watch"], SESSION)]


def _end(folder: Path) -> None:
    """Leave no job at work in a folder that goes."""
    for job in (folder / ".parley" / "jobs").glob("*"):
        subprocess.run([sys.executable, "-P", "-m", "parley", "withdraw", job.name], cwd=folder, check=False)


def main() -> None:
    """Record it anew."""
    above = Path(tempfile.mkdtemp(prefix="parley-record-"))
    folder = above / "words"
    folder.mkdir()
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    try:
        recordings = play(folder, {**kept, "LANG": "C.UTF-8", "COLORTERM": "truecolor"})
    finally:
        _end(folder)
        shutil.rmtree(above, ignore_errors=True)
    (DOCS / "watch.cast").write_text(recordings[-1].cast(), encoding="utf-8")
    shutil.rmtree(DOCS / "watch", ignore_errors=True)
    (DOCS / "watch").mkdir()
    for name, rows in [frame for recording in recordings for frame in recording.frames.items()]:
        (DOCS / "watch" / f"{name}.svg").write_text(picture(rows, name), encoding="utf-8")
        print("\n".join([f"--- {name}", *(Text.from_ansi(row).plain.rstrip() for row in rows)]))


if __name__ == "__main__":
    main()
