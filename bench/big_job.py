"""A job larger than any that people have: thousands of instances and a hundred thousand steps, made by the real engine.

`python -m bench.big_job DIR` makes DIR a git repository with a home, and in it one job in EXECUTE that no process owns:
two backtracks behind it, a gate and a question before the human, some hundred instances open, two dozen at work.
The rules, the store, the streams and the leads' worktrees are real; only the agents take no time. The times in its
rows are those of a working day that ends now.

`python -m bench.big_job DIR --attend` owns that job until it is ended by Ctrl-C: turns end at a rate, for ever.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from bench.big_cast import TEAMS, Cast, reporter
from bench.big_trees import FewTrees
from parley.assembly import make_engine
from parley.base.json_codec import encode
from parley.bus.rows import JobRow
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.cli.common import Workplace, account_name, make_home
from parley.cli.starting.job_snapshot import JobSnapshot
from parley.engine.inputs import answer_key
from parley.engine.loop import Engine, collect_seldom
from parley.engine.owned_job import OwnedJob
from parley.engine.values.human_inputs import AnswerInput, Input, InterveneInput, PauseInput, ResumeInput
from parley.engine.values.job_roles import charter_of
from parley.engine.world import World
from parley.features.proxy.remembering import MemorySettings
from parley.machine.clock import RandomIds, SystemClock
from parley.machine.job_files import JobFiles
from parley.machine.stop_signals import stop_like_ctrl_c
from parley.ports.machine import Clock
from parley.ports.turns import Called, Ended, Order, Progress, TurnEvent, Turns
from parley.protocol.molecules import PROXY, AskHuman, MessageKind, Ruling, Run, Surface
from parley.roles.role_snapshot import TOOLS, RoleSnapshot
from parley.settings.schema import BudgetSettings, SendingSettings, WorkflowSettings
from parley.workspaces import JobWorkspaces

INSTANCES, STEPS = 2_000, 100_000
AGENT = "bench"  # no runner has this name: no other process can go on with the job
LASTED_SECONDS = 8 * 3600.0  # what its rows say
PAUSE_SECONDS = 900.0
STEPS_A_ROUND = 5.7  # of a worker: its report, and the answer to it
SHARE_BEFORE = 0.7  # of the steps: those of conversations that end; the rest comes from those that stay open
CRANK_SECONDS = 0.2
SPOKEN_SECONDS = 1.5  # that a turn lasts which an intervention began
FILES = {
    "README.md": "# The shop\n\nA shop with a basket, orders and invoices.\n",
    "src/shop/basket.py": '"""The basket."""\n\n\ndef total(prices):\n    return sum(prices)\n',
    "tests/test_basket.py": "from shop.basket import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n",
}
REQUEST = "Rebuild the shop: the basket, the search, payments, invoices and the reports. Keep every page as it looks."


class WorkingDay:
    """A clock that the job's own steps move on, from the morning until now; between them it stands still."""

    def __init__(self, steps: int) -> None:
        self.job: OwnedJob | None = None
        self._begun = time.time() - LASTED_SECONDS
        self._paused = 0.0
        self._second = (LASTED_SECONDS - PAUSE_SECONDS) / steps / 1.02

    def now(self) -> float:
        """Since the epoch; never later than it is."""
        made = self.job.counters.step if self.job is not None else 0
        return min(time.time(), self._begun + self._paused + made * self._second)

    def monotonic(self) -> float:
        """The machine's own."""
        return time.monotonic()

    def pass_pause(self) -> None:
        """Let the time of a pause go by."""
        self._paused += PAUSE_SECONDS


# ---- the repository and the job's settings -----------------------------------------------------------


def make_repository(folder: Path) -> Workplace:
    """A git repository with a home of Parley's in it."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    who = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), (*who, "commit", "-q", "-m", "Begin the shop")):
        subprocess.run(["git", *words], cwd=folder, check=True)
    place = Workplace(folder, folder / ".parley")
    make_home(place)
    return place


def snapshot() -> JobSnapshot:
    """The settings of the job: the defaults, but for limits that such a job would meet."""
    teams = {**TEAMS, PROXY: ()}
    return JobSnapshot(
        roles=tuple(RoleSnapshot(name=name, team=team, tools=TOOLS) for name, team in sorted(teams.items())),
        policies=("always", "always", "always"),
        fan_out=200,
        exchanges=10**9,
        repeats=10**6,
        brief_human=True,
        sending=SendingSettings(),
        time_limit_seconds=1800.0,
        stall_seconds=1800.0,
        budget=BudgetSettings(job={"turns": 1e6, "money": 5000.0, "parallel": 48.0}),
        agents={},
        memory=MemorySettings(),
        workflow=WorkflowSettings(),
    )


# ---- the human ---------------------------------------------------------------------------------------


class Person:
    """The human of the job: answers what it asks, intervenes once, pauses once, until the job is full."""

    def __init__(self, store: SqliteStore, job: OwnedJob, clock: WorkingDay, steps: int) -> None:
        self._store, self._job, self._clock = store, job, clock
        self._answered: set[str] = set()
        self._resumed = False
        self._verdicts = {
            "PLAN.md": [(Ruling.REVISE, "Say who tests the payments.")],
            "WORK_SUMMARY.md": [
                (Ruling.BACKTRACK_PLAN, "The reports are missing: plan them too."),
                (Ruling.BACKTRACK_INTENT, "I want the search in two languages."),
            ],
        }
        self._due: list[tuple[float, Input]] = [
            (0.3 * steps, InterveneInput(text="Mind the tax table: it changes in January.")),
            (0.5 * steps, PauseInput()),
        ]
        self._left = 0

    def leave(self, given: Input, key: str = "") -> None:
        """Leave an input, as `parley answer` and the like do."""
        self._left += 1
        by = self._job.row.decider
        self._store.put(self._job.id, given.kind, key or f"person{self._left}", self._clock.now(), by, encode(given))

    def act(self) -> None:
        """Answer each question, and do what is due."""
        for asked in self._job.soup.of(AskHuman):
            if asked.framing not in self._answered:
                self._answered.add(asked.framing)
                self._answer(asked)
        if self._job.standing.held:
            if not self._resumed:
                self._resumed = True
                self._clock.pass_pause()
                self.leave(ResumeInput())
        elif self._due and self._job.counters.step >= self._due[0][0]:
            self.leave(self._due.pop(0)[1])

    def _answer(self, asked: AskHuman) -> None:
        ruling, text = Ruling.APPROVE, ""
        if verdicts := self._verdicts.get(asked.question.artifact):
            ruling, text = verdicts.pop(0)
        given = AnswerInput(question=asked.id, framing=asked.framing, ruling=ruling, text=text)
        self.leave(given, answer_key(asked))


# ---- making it ---------------------------------------------------------------------------------------


def engine_at(place: Workplace, turns: Turns, clock: Clock, has_tree: Callable[[str], bool]) -> Engine:
    """The real engine with its store, files and trees."""
    store = SqliteStore(place.home)
    trees = JobWorkspaces(place.home, place.root, title=lambda job: store.load(job).row.request)
    collect_seldom()  # as every process that runs jobs does
    return make_engine(
        World(
            store=store,
            turns=turns,
            workspace=FewTrees(trees, has_tree),
            files=JobFiles(place.home),
            clock=clock,
            ids=RandomIds(),
        )
    )


def make(folder: Path, instances: int, steps: int) -> dict[str, Any]:
    """Make the job in a new folder; what came of it."""
    begun = time.perf_counter()
    place = make_repository(folder)
    clock = WorkingDay(steps)
    cast = Cast(instances, SHARE_BEFORE * steps / instances / STEPS_A_ROUND, clock.now)
    engine = engine_at(place, cast, clock, cast.has_tree)
    row = JobRow(
        job=RandomIds().new(),
        request=REQUEST,
        decider=account_name(),
        created=clock.now(),
        updated=clock.now(),
        agent=AGENT,
        settings=encode(snapshot()),
    )
    job = clock.job = engine.start(row, charter_of(row))
    with closing(SqliteStore(place.home)) as another:  # the engine sees what is left there as another process's
        person = Person(another, job, clock, steps)
        while job.record.live and (job.counters.step < steps or cast.opened < cast.planned):
            engine.crank(0.0)
            person.act()
        cast.full = True
        person.leave(InterveneInput(text="Put forward what there is."))
        while engine.crank(0.0):
            pass
    found = {
        "job": job.id,
        "state": str(job.record.state),
        "instances": cast.opened,
        "open instances": len(job.soup.of(Surface)),
        "at work": len(job.soup.of(Run)),
        "questions": len(job.soup.of(AskHuman)),
        "steps": job.counters.step,
        "messages": job.counters.message,
        "transactions": job.counters.transaction,
        "turns": cast.turns,
    }
    engine.release(job.id)
    engine.world.store.close()
    megabytes = sum(path.stat().st_size for path in place.home.rglob("*") if path.is_file()) / 1e6
    return {**found, "seconds": time.perf_counter() - begun, "MB": megabytes}


# ---- owning it afterwards ----------------------------------------------------------------------------


class Attendant:
    """Turns of a job that was made before: each is over when its time has come, the one that began first first.

    A turn that an intervention began is over soon, whatever the rate.
    """

    def __init__(self, rate: float) -> None:
        """`rate`: turns that end in a second; 0: none ever does."""
        self._rate = rate
        self._out: dict[str, Order] = {}
        self._spoken: dict[str, float] = {}  # turns that interventions began, and when they are over
        self._events: list[TurnEvent] = []
        self._due = time.monotonic()
        self._said = 0

    def hosts(self) -> tuple[str, ...]:
        """Here."""
        return ("local",)

    def submit(self, order: Order) -> None:
        """Begin a turn, with a sign of life."""
        self._out[order.turn] = order
        if order.kind is MessageKind.INTERVENTION:
            self._spoken[order.turn] = time.monotonic() + SPOKEN_SECONDS
        about = f"src/shop/part{len(self._out)}.py"
        self._events.append(Progress(job=order.job, turn=order.turn, text=about, tool="Edit", use="one"))

    def events(self, timeout_seconds: float) -> list[TurnEvent]:
        """What has happened; a turn that is due is over."""
        if not self._events and self._rate:
            left = self._due - time.monotonic()
            time.sleep(max(0.0, min(timeout_seconds, left)))
            if time.monotonic() >= self._due:
                self._due = max(self._due + 1 / self._rate, time.monotonic() - 1.0)
                self._end_one()
        elif not self._events:
            time.sleep(timeout_seconds)
        for turn in [turn for turn, until in self._spoken.items() if time.monotonic() >= until]:
            self._end(self._out[turn])
        events, self._events = self._events, []
        return events

    def _end_one(self) -> None:
        waiting = (order for turn, order in self._out.items() if turn not in self._spoken)
        if (first := next(waiting, None)) is not None:
            self._end(first)

    def _end(self, order: Order) -> None:
        """A worker reports to its dispatcher, and a dispatcher sends the worker on."""
        self.cancel(order.job, order.turn)
        self._said += 1
        sender, text = reporter(order), ""
        if sender:
            self._call(order, "Send", thread=sender, text=f"Go on with part {self._said}.")
        elif order.agent == PROXY:
            answers = order.kind is not MessageKind.QUESTION
            self._call(order, "Answer" if answers else "AskHuman", text="" if answers else order.asked)
        else:
            text = f"Report {self._said}: it is done."
        self._events.append(Ended(order.job, order.turn, order.epoch, text, usage={"cost_usd": 0.01}))

    def _call(self, order: Order, tool: str, **said: str) -> None:
        self._events.append(
            Called(job=order.job, turn=order.turn, token=order.token, number=1, tool=tool, arguments=said)
        )

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """A call may be refused: the conversation has been closed meanwhile."""

    def cancel(self, job: str, turn: str) -> None:
        """The turn is not out any more."""
        self._out.pop(turn, None)
        self._spoken.pop(turn, None)

    def reclaim(self, job: str) -> None:
        """Nothing is ever left."""

    def rest(self, job: str) -> None:
        """Nothing is kept ready."""

    def close(self) -> None:
        """Nothing to close."""


def attend(folder: Path, rate: float) -> None:
    """Own the job until the process is told to end."""
    place = Workplace(folder, folder / ".parley")
    engine = engine_at(place, Attendant(rate), SystemClock(), lambda name: False)
    store = engine.world.store
    job = next(row.job for row in store.jobs() if row.agent == AGENT)
    with closing(store), stop_like_ctrl_c(), suppress(KeyboardInterrupt):
        try:
            engine.adopt(job)
            print(f"{job} has its owner", flush=True)
            while True:
                engine.crank(CRANK_SECONDS)
        finally:
            engine.release(job)


def main() -> int:
    """Make the job, or own it."""
    parser = argparse.ArgumentParser(prog="bench.big_job", description=__doc__)
    parser.add_argument("dir", type=Path, help="a new folder; with --attend one that was made before")
    parser.add_argument("--instances", type=int, default=INSTANCES)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--attend", action="store_true", help="own the job that is there, until Ctrl-C")
    parser.add_argument("--rate", type=float, default=5.0, help="turns that end in a second, of --attend; 5")
    options = parser.parse_args()
    folder: Path = options.dir.resolve()
    if options.attend:
        attend(folder, options.rate)
        return 0
    if folder.exists():
        print(f"{folder} is there already; name a new folder", file=sys.stderr)
        return 2
    print(json.dumps(make(folder, options.instances, options.steps), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
