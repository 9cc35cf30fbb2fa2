"""`parley demo`: a whole job, played by scripted agents, in a folder of its own."""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, Self

from parley.adapters.playbook import HumanRule, Playbook, parse
from parley.adapters.sqlite import SqliteStore
from parley.config import Settings, WorkflowSettings
from parley.core.terms import thread_kind
from parley.engine.audit import render
from parley.engine.engine import Engine
from parley.engine.projections import Asked, Present
from parley.engine.roster import charter_of
from parley.engine.session import Closed, give_answer, leave
from parley.faces.cli import FAILED, OK, Trouble, workflow
from parley.faces.cli.audit import audited
from parley.faces.cli.desk import Place, one_line
from parley.faces.cli.in_force import of_notices, tell
from parley.faces.cli.start import new_row, snapshot_of
from parley.faces.cli.trial import preflight
from parley.faces.cli.typed import typed
from parley.faces.cli.workshop import conduct, engine_of, on_terminal
from parley.ports import JobRow
from parley.workflow.slots import current
from parley.workflow.terms import Status

WISH = "Let it take several files at once and print a total."
HUMAN = "human (demo)"
READING_SECONDS = 1.8  # how long a question stands before it is answered
FAST = 0.1
PATIENCE_SECONDS = 120.0  # how long an answer may depend on what an agent has yet to do
LONGEST_QUESTION = 400
WORKERS = 3


@dataclass(frozen=True)
class Play:
    """What is played: the request, the playbook, what the human says while three are at work, and what it waits for.

    A question with certain words in it is answered when an agent of the workflow has come so far.
    """

    request: str
    book: str
    wish: str = ""
    waits: tuple[tuple[str, str, Status], ...] = ()
    fan_out: int = 3


COUNTER = Play("Make a small command that counts words, with tests", "demo/playbook.yaml", WISH)
SERVICE = Play(
    "Build a small service that keeps notes, with a database, an HTTP interface and a page",
    "demo/workflow.yaml",
    waits=(
        (r"\+.*tests/test_page.py, service/routes.py", "api_agent", Status.BLOCKED),
        (r"\+.*service/__main__.py, service/routes.py", "frontend_agent", Status.VERIFIED),
    ),
    fan_out=6,
)


class Stuck(Exception):
    """The demo waits for something that its playbook does not give."""


def run(words: argparse.Namespace) -> int:
    """Play the demo; its folder stays."""
    pace = FAST if words.fast else 1.0
    play = SERVICE if words.workflow else COUNTER
    if words.play:
        check_player(words)
    # three doers are complex here: people are to see an architect that delegates
    settings = Settings(fan_out=play.fan_out, workflow=WorkflowSettings(complex_agents=2))
    preflight(settings.boundary)
    playbook = parse(files("parley").joinpath(play.book).read_text(encoding="utf-8"), "the demo's playbook")
    folder = Path(tempfile.mkdtemp(prefix="parley-demo-"))
    place = Place(folder, folder / ".parley")
    snapshot = paced(snapshot_of(folder, settings, playbook), pace)
    words.json, words.command = False, "run"
    tell(of_notices(place, settings))
    with engine_of(place, settings) as engine:
        row = new_row(engine.world.ids.new(), play.request, "scripted", snapshot)
        if words.play:
            engine.start(row, charter_of(row.job, snapshot))
            code = conduct(engine, place, [row.job], words)
        else:
            code = directed(engine, place, row._replace(decider=HUMAN), Direction(playbook, play, pace), words)
    look = typed(f"parley show {row.job}", place)
    if code != OK:
        print(f"look around: {look}")
        return code
    store = SqliteStore(place.home)
    try:
        report = audited(store, place, row.job)
    finally:
        store.close()
    for line in render(report):
        print(line)
    sound = report.ok and (not words.workflow or examined(place, row.job))
    print(f"look around: {look}")
    return OK if sound else FAILED


def check_player(words: argparse.Namespace) -> None:
    """Refuse to let the user answer where that is not possible."""
    if words.workflow:
        raise Trouble("--play goes with the plain demo only: the workflow's play depends on the order of the answers")
    if not on_terminal():
        raise Trouble("--play asks you, and there is no terminal to ask on; leave --play out, or run it in a terminal")


class Direction(NamedTuple):
    """What the director goes by."""

    playbook: Playbook
    play: Play
    pace: float


def directed(engine: Engine, place: Place, row: JobRow, direction: Direction, words: argparse.Namespace) -> int:
    """Run the job with the director as its human, who has also started it: only they are heard."""
    engine.start(row, charter_of(row.job, json.loads(row.settings)))
    try:
        with Director(place.home, row.job, direction) as director:
            return conduct(engine, place, [row.job], words, beside=director)
    except Stuck as stuck:
        print(f"parley: the demo can't go on: {stuck}", file=sys.stderr)
        return FAILED


def examined(place: Place, job: str) -> bool:
    """Check the files of the job's workflow, and show where its agents stand, as anybody can."""
    ends = []
    for action in ("check", "status"):
        print(f"$ {typed(f'parley workflow {action} {job}', place)}")
        asked = argparse.Namespace(action=action, what=[job], repo=str(place.root), dir=None, replace=False, json=False)
        ends.append(workflow.run(asked))
    return ends == [OK, OK]


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

    def __init__(self, home: Path, job: str, direction: Direction) -> None:
        self._store = SqliteStore(home)
        self._job = job
        self._playbook = direction.playbook
        self._pause = READING_SECONDS * direction.pace
        self._used: set[int] = set()
        self._seen: dict[str, float] = {}
        self._wish = direction.play.wish
        self._waits = direction.play.waits

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._store.close()

    def show(self) -> None:
        """Do what is due; Stuck if the job waits for what the playbook does not give."""
        present = Present(self._store, self._job)
        for line in present.spent():
            raise Stuck(f"a budget is spent: {line.words()}")
        for asked in present.questions():
            if self._is_due(asked.id) and self._knows_enough(asked):
                self._answer(asked)
            elif time.monotonic() - self._seen[asked.id] > PATIENCE_SECONDS:
                raise Stuck(f"what the answer to {asked.id} depends on did not happen in {PATIENCE_SECONDS:g} s")
        at_work = sum(thread_kind(thread.id) == "dispatch" for thread in present.threads())
        if at_work == WORKERS and self._wish and self._is_due("wish"):
            body = {"thread": None, "text": self._wish, "now": False, "authoritative": False}
            self._wish = ""
            leave(self._store, self._job, "intervene", "intervene:demo", body=body, by=HUMAN)

    def _is_due(self, what: str) -> bool:
        """Whether people have had a moment to read."""
        return time.monotonic() - self._seen.setdefault(what, time.monotonic()) >= self._pause

    def _knows_enough(self, asked: Asked) -> bool:
        """Whether the agent that the answer depends on has come far enough."""
        wanted = {agent: status for words, agent, status in self._waits if re.search(words, asked.body)}
        flow = current(self._store.load(self._job).molecules) if wanted else None
        return flow is None or all(flow.status(agent) is status for agent, status in wanted.items())

    def _answer(self, asked: Asked) -> None:
        found = self._playbook.answer(asked.body, asked.state, 1, self._used)
        if found is None:
            said = one_line(asked.body, LONGEST_QUESTION)
            raise Stuck(f"its playbook has no answer for {asked.asker}, who asks in {asked.state}: {said}")
        number, rule = found
        self._used.add(number)
        self._give(asked, rule)

    def _give(self, asked: Asked, rule: HumanRule) -> None:
        try:
            give_answer(self._store, asked, rule.verdict, rule.text, HUMAN)
        except Closed:
            return  # it was answered meanwhile
