"""`parley demo`: a whole job, played by scripted agents, in a folder of its own."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from parley.adapters.playbook import HumanRule, Playbook, parse
from parley.adapters.sqlite import SqliteStore
from parley.config import Settings
from parley.core.terms import thread_kind
from parley.engine.audit import render
from parley.engine.projections import Asked, Present
from parley.engine.roster import charter_of
from parley.engine.session import Closed, give_answer, leave
from parley.faces.cli import FAILED, OK
from parley.faces.cli.audit import audited
from parley.faces.cli.desk import Place
from parley.faces.cli.start import new_row, snapshot_of
from parley.faces.cli.workshop import conduct, engine_of

REQUEST = "Make a small command that counts words, with tests"
WISH = "Let it take several files at once and print a total."
HUMAN = "human (demo)"
READING_SECONDS = 1.8  # how long a question stands before it is answered
FAST = 0.1
WORKERS = 3


def run(words: argparse.Namespace) -> int:
    """Play the demo; its folder stays."""
    pace = FAST if words.fast else 1.0
    playbook = parse(files("parley").joinpath("demo/playbook.yaml").read_text(encoding="utf-8"), "the demo's playbook")
    folder = Path(tempfile.mkdtemp(prefix="parley-demo-"))
    place = Place(folder, folder / ".parley")
    # the playbook's commands call python3: this one, if there is no other
    os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{Path(sys.executable).parent}"
    snapshot = paced(snapshot_of(folder, Settings(), playbook), pace)
    words.json, words.command = False, "run"
    with engine_of(place, Settings()) as engine:
        # who plays the human has also started the job: only they are heard
        row = new_row(engine.world.ids.new(), REQUEST, "scripted", snapshot)._replace(decider=HUMAN)
        engine.start(row, charter_of(row.job, snapshot))
        with Director(place.home, row.job, playbook, pace) as director:
            code = conduct(engine, place, [row.job], words, beside=director)
    if code != OK:
        return code
    store = SqliteStore(place.home)
    try:
        report = audited(store, place, row.job)
    finally:
        store.close()
    for line in render(report):
        print(line)
    print(f"look around: cd {folder} && parley show {row.job}")
    return OK if report.ok else FAILED


def paced(snapshot: dict[str, Any], pace: float) -> dict[str, Any]:
    """The job's settings with every pause of the play at this pace, and without its human: the director."""
    for rules in snapshot["agents"].values():
        for rule in rules:
            for action in rule["do"]:
                if "sleep" in action:
                    action["sleep"] *= pace
    return {**snapshot, "human": None}


class Director:
    """Plays the human: answers what is asked after a moment, and intervenes while three are at work."""

    def __init__(self, home: Path, job: str, playbook: Playbook, pace: float) -> None:
        self._store = SqliteStore(home)
        self._job = job
        self._playbook = playbook
        self._pause = READING_SECONDS * pace
        self._used: set[int] = set()
        self._seen: dict[str, float] = {}
        self._wished = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._store.close()

    def show(self) -> None:
        """Do what is due."""
        present = Present(self._store, self._job)
        for asked in present.questions():
            if self._is_due(asked.id):
                self._answer(asked)
        at_work = sum(thread_kind(thread.id) == "dispatch" for thread in present.threads())
        if at_work == WORKERS and not self._wished and self._is_due("wish"):
            self._wished = True
            body = {"thread": None, "text": WISH, "now": False, "authoritative": False}
            leave(self._store, self._job, "intervene", "intervene:demo", body=body, by=HUMAN)

    def _is_due(self, what: str) -> bool:
        """Whether people have had a moment to read."""
        return time.monotonic() - self._seen.setdefault(what, time.monotonic()) >= self._pause

    def _answer(self, asked: Asked) -> None:
        found = self._playbook.answer(asked.body, asked.state, 1, self._used)
        if found is None:
            return
        number, rule = found
        self._used.add(number)
        self._give(asked, rule)

    def _give(self, asked: Asked, rule: HumanRule) -> None:
        try:
            give_answer(self._store, asked, rule.verdict, rule.text, HUMAN)
        except Closed:
            return  # it was answered meanwhile
