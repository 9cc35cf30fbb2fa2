"""`parley demo`: plays a whole job with scripted agents, in a folder of its own."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple, Self

from msgspec import structs
from msgspec.structs import replace

from parley.actions.leave import Closed, give_answer, leave
from parley.audit.audit import render
from parley.bus.rows import JobRow
from parley.cli import FAILED, OK, CommandError, home_bus
from parley.cli.common import Workplace, on_terminal, one_line
from parley.cli.looking.audit_command import audited
from parley.cli.machine.boundary_trial import preflight
from parley.cli.machine.wider_settings import of_notices, tell
from parley.cli.running.bootstrap import engine_of, run_jobs
from parley.cli.starting.demo_page import shown
from parley.cli.starting.job_snapshot import JobSnapshot
from parley.cli.starting.run import new_row, snapshot_of
from parley.cli.typed_commands import typed
from parley.cli.workflow import workflow_command
from parley.engine.loop import Engine
from parley.engine.values.human_inputs import InterveneInput
from parley.engine.values.job_roles import charter_of
from parley.ports.turns import SCRIPTED
from parley.protocol.molecules import thread_kind
from parley.runners.scripted.playbook import HumanRule, Playbook, parse
from parley.settings.schema import Settings, WorkflowSettings
from parley.views.job_view import Asked, Present
from parley.workflow.model.flow_slots import current
from parley.workflow.model.terms import Status

WISH = "Let it take several files at once and print a total."
HUMAN = "human (demo)"
READING_SECONDS = 1.8  # how long a question is shown before it is answered
FAST = 0.1
PATIENCE_SECONDS = 120.0  # how long an answer may wait for an agent's progress
LONGEST_QUESTION = 400
WORKERS = 3


class AwaitedStatus(NamedTuple):
    """The status that an agent has to reach before a question that matches a pattern is answered."""

    pattern: str
    agent: str
    status: Status


@dataclass(frozen=True)
class Play:
    """What is played: the request, the playbook, the human's intervention while three agents work, and the waits."""

    request: str
    book: str
    wish: str = ""
    waits: tuple[AwaitedStatus, ...] = ()
    fan_out: int = 3


COUNTER = Play("Make a small command that counts words, with tests", "demo/playbook.yaml", WISH)
SERVICE = Play(
    "Build a small service that keeps notes, with a database, an HTTP interface and a page",
    "demo/workflow.yaml",
    waits=(
        AwaitedStatus(r"\+.*tests/test_page.py, service/routes.py", "api_agent", Status.BLOCKED),
        AwaitedStatus(r"\+.*service/__main__.py, service/routes.py", "frontend_agent", Status.VERIFIED),
    ),
    fan_out=6,
)


class DemoStuck(Exception):
    """The demo waits for something that its playbook does not give."""


def run(words: argparse.Namespace) -> int:
    """Play the demo; its folder stays."""
    pace = FAST if words.fast else 1.0
    play = SERVICE if words.workflow else COUNTER
    if words.play:
        check_player(words)
    # three doers count as complex here, so that people see an architect delegate
    settings = Settings(fan_out=play.fan_out, workflow=WorkflowSettings(complex_agents=2))
    preflight(settings.boundary)
    playbook = parse(files("parley").joinpath(play.book).read_text(encoding="utf-8"), "the demo's playbook")
    folder = Path(tempfile.mkdtemp(prefix="parley-demo-"))
    place = Workplace(folder, folder / ".parley")
    snapshot = paced(snapshot_of(folder, settings, playbook), pace)
    words.json, words.command = False, "run"
    tell(of_notices(place, settings))
    with engine_of(place, settings) as engine, shown(place, words) as page:
        row = new_row(engine.world.ids.new(), play.request, SCRIPTED, snapshot)
        page.tell_of(row.job, plays=words.play)
        if words.play:
            engine.start(row, charter_of(row))
            code = run_jobs(engine, place, [row.job], words, stay=words.page)
        else:
            code = directed(engine, place, replace(row, decider=HUMAN), Direction(playbook, play, pace), words)
        code = code or (OK if proven(place, row.job, words) else FAILED)
        print(f"look around: {typed(f'parley show {row.job}', place)}")
        page.stay()
    return code


def proven(place: Workplace, job: str, words: argparse.Namespace) -> bool:
    """Audit the demo's job, and check the files of its workflow, if it has one."""
    store = home_bus.open_store(place.home)
    try:
        report = audited(store, place, job)
    finally:
        store.close()
    for line in render(report):
        print(line)
    return report.ok and (not words.workflow or examined(place, job))


def check_player(words: argparse.Namespace) -> None:
    """Refuse `--play` where the user can't answer."""
    if words.workflow:
        raise CommandError(
            "--play goes with the plain demo only: the workflow's play depends on the order of the answers"
        )
    if not on_terminal() and not words.page:
        raise CommandError(
            "--play asks you, and there is no terminal to ask on; leave --play out, or run it in a terminal"
        )


class Direction(NamedTuple):
    """What the director needs."""

    playbook: Playbook
    play: Play
    pace: float


def directed(engine: Engine, place: Workplace, row: JobRow, direction: Direction, words: argparse.Namespace) -> int:
    """Run the job with the director as the human who started it: only they may decide."""
    engine.start(row, charter_of(row))
    try:
        with Director(place.home, row.job, direction) as director:
            return run_jobs(engine, place, [row.job], words, beside=director)
    except DemoStuck as stuck:
        print(f"parley: the demo can't go on: {stuck}", file=sys.stderr)
        return FAILED


def examined(place: Workplace, job: str) -> bool:
    """Check the files of the job's workflow and show its agents' statuses, by the user's own commands."""
    ends = []
    for action in ("check", "status"):
        print(f"$ {typed(f'parley workflow {action} {job}', place)}")
        asked = argparse.Namespace(action=action, what=[job], repo=str(place.root), dir=None, replace=False, json=False)
        ends.append(workflow_command.run(asked))
    return ends == [OK, OK]


def paced(snapshot: JobSnapshot, pace: float) -> JobSnapshot:
    """The job's settings with pauses at this pace, and without a scripted human: the director answers."""
    for rules in snapshot.agents.values():
        for rule in rules:
            for action in rule["do"]:
                if "sleep" in action:
                    action["sleep"] *= pace
    return structs.replace(snapshot, human=None)


class Director:
    """Plays the human: answers questions after a moment, and intervenes while three agents work."""

    def __init__(self, home: Path, job: str, direction: Direction) -> None:
        self._store = home_bus.open_store(home)
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
        """Answer and intervene where due; Stuck if the playbook has no answer."""
        present = Present(self._store, self._job)
        for line in present.spent():
            raise DemoStuck(f"a budget is spent: {line.words()}")
        for asked in present.questions():
            if self._is_due(asked.id) and self._knows_enough(asked):
                self._answer(asked)
            elif time.monotonic() - self._seen[asked.id] > PATIENCE_SECONDS:
                raise DemoStuck(f"what the answer to {asked.id} depends on did not happen in {PATIENCE_SECONDS:g} s")
        at_work = sum(thread_kind(thread.id) == "dispatch" for thread in present.threads())
        if at_work == WORKERS and self._wish and self._is_due("wish"):
            given = InterveneInput(text=self._wish)
            self._wish = ""
            leave(self._store, self._job, "intervene:demo", given, by=HUMAN)

    def _is_due(self, what: str) -> bool:
        """Whether people have had time to read."""
        return time.monotonic() - self._seen.setdefault(what, time.monotonic()) >= self._pause

    def _knows_enough(self, asked: Asked) -> bool:
        """Whether the agent that the answer waits for has reached its status."""
        wanted = {wait.agent: wait.status for wait in self._waits if re.search(wait.pattern, asked.body)}
        flow = current(self._store.load(self._job).molecules) if wanted else None
        return flow is None or all(flow.status(agent) is status for agent, status in wanted.items())

    def _answer(self, asked: Asked) -> None:
        found = self._playbook.answer(asked.body, asked.state, 1, self._used)
        if found is None:
            said = one_line(asked.body, LONGEST_QUESTION)
            raise DemoStuck(f"its playbook has no answer for {asked.asker}, who asks in {asked.state}: {said}")
        number, rule = found
        self._used.add(number)
        self._give(asked, rule)

    def _give(self, asked: Asked, rule: HumanRule) -> None:
        try:
            give_answer(self._store, asked, rule.verdict, rule.text, HUMAN)
        except Closed:
            return  # it was answered meanwhile
