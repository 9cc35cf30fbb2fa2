"""A harness in which a hostile job runs beside an innocent one, in the real engine with its bus and worktrees.

Agents are played in this process and without a cage: what is tried here is not whether they get out, but whether
anything that they make, call or say stops the engine, another job, or a command that reads.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from io import StringIO
from itertools import cycle, islice
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from msgspec.structs import replace

from parley.assembly import make_engine, roles
from parley.base.json_codec import encode
from parley.bus.rows import JobRow
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.cli.main import main
from parley.engine.values.job_roles import charter_of
from parley.engine.world import World
from parley.machine.clock import RandomIds, SystemClock
from parley.machine.faults import FaultLog
from parley.machine.job_files import JobFiles
from parley.ports.turns import Called, Ended, Order, Progress, Waiting
from parley.runners.scripted.scripted_agent import Effect
from parley.views.job_view import TERMINAL
from parley.workspaces import JobWorkspaces
from tests.audit.played_jobs import SHIPPED, InProcessTurns
from tests.engine.job_harness import EXECUTE, INTENT, PLAN, YES, Rule, always, asserts, outcome, say, send, write
from tests.fuzz.hostile_strategies import PLAN_TEXT, WORKERS, Made, Turn, folder
from tests.workflow.workflow_harness import doer, played_by, proved

Found = TypeVar("Found")

HOSTILE, INNOCENT = "hostile", "innocent"
CRANKS = 400
MOST_TURNS = 24  # that misbehave: whatever they do, the job ends after them
CODES = {0, 1, 2, 3, 4}
SURPRISES = ("Traceback", "should not have happened", "Parley itself failed")

WORK = [
    always(r"^\[EXECUTE\]", send("coder", "do it"), state="EXECUTE"),
    always(r"^\[ANSWER approve\]", outcome("APPROVED_WORK"), state="EXECUTE"),
    always(".", write("WORK_SUMMARY.md", "the work"), asserts("WORK_SUMMARY.md"), state="EXECUTE"),
]
CODER = [always(".", write("made.txt", "made"), say("it is made"))]
FLOW = played_by(
    PLAN_TEXT,
    {"one": doer("one"), "two": doer("two"), "workflow-architect": [always(".", say("so be it"))],
     "prover": [always(".", proved(0, *WORKERS))]},
)["agents"]  # fmt: skip
PLAYS = {
    HOSTILE: {"intent-lead": INTENT, "project-lead": [*PLAN, *WORK], "coder": CODER},
    INNOCENT: {"intent-lead": INTENT, "project-lead": [*PLAN, *EXECUTE]},
}


def recipients(rules: Sequence[Rule]) -> frozenset[str]:
    """To whom a playbook's rules send."""
    sends = [action["send"] for rule in rules for action in rule["do"] if "send" in action]
    return frozenset(one["to"] for one in sends if "to" in one)


class HostileTurns(InProcessTurns):
    """Turns in this process; each of the hostile job's does what the test has drawn for it, then its work."""

    def __init__(self, script: Sequence[Turn], spared: Collection[str] = ()) -> None:
        super().__init__()
        self._spared = spared  # states in which all work as they should
        most = MOST_TURNS // 2 if spared else MOST_TURNS
        self._script = islice(cycle(script), most)  # again and again: each agent's turn comes
        self._drawn: dict[tuple[str, str], Turn] = {}

    def submit(self, order: Order) -> None:
        hostile = order.job == HOSTILE and order.state not in self._spared
        turn = next(self._script, None) if hostile else None
        if turn is not None:
            self._drawn[order.job, order.turn] = turn
            make(Path(order.site.workspace), turn.made)
            for text in turn.said:
                self._events.append(Progress(job=order.job, turn=order.turn, text=text, tool=text, use=text))
                self._events.append(Waiting(order.job, order.turn, text, float("inf")))
                self._events.append(Waiting(order.job, order.turn))
            for number, (tool, arguments) in enumerate(turn.calls, 900):
                self._events.append(
                    Called(
                        job=order.job, turn=order.turn, token=order.token, number=number, tool=tool, arguments=arguments
                    )
                )
        super().submit(replace_handle(order))

    def _go_on(self, key: tuple[str, str], step: Callable[[], Effect]) -> None:
        with suppress(OSError):  # its own mischief is in its way: it works on without that file
            super()._go_on(key, step)
            return
        self._end(key, text="it could not write")

    def write(self, workspace: Path, path: str, text: str) -> None:
        put(workspace, path, text.encode())

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Any) -> None:
        json.dumps(text).encode("ascii")
        text.encode("utf-8")
        if number < 900:
            super().reply(job, turn, number, ok, text, data)

    def _end(self, key: tuple[str, str], text: str = "", handle: str = "", fault: str = "") -> None:
        order, _ = self._playing.pop(key)
        drawn = self._drawn.pop(key, None)
        ended = Ended(
            job=order.job,
            turn=order.turn,
            epoch=order.epoch,
            text=text,
            handle=handle,
            usage={"turns": 1.0},
            fault=fault,
        )
        if drawn is not None:
            handle = drawn.handle if drawn.handle is not None else handle
            ended = replace(
                ended,
                text=drawn.text or text,
                handle=handle,
                usage=drawn.usage,
                model=drawn.model,
                refusals=tuple(drawn.refusals),
                fault=drawn.fault,
            )
        self._events.append(ended)

    def cancel(self, job: str, turn: str) -> None:
        super().cancel(job, turn)
        self._events = [event for event in self._events if (event.job, event.turn) != (job, turn)]


def replace_handle(order: Order) -> Order:
    """The order with a handle that the player can read: what a hostile turn left as its own need not be one."""
    try:
        handle = json.loads(order.handle or "{}")
    except ValueError:
        handle = None
    fine = isinstance(handle, dict) and all(key in ("used", "names", "opened", "fatal") for key in handle)
    return order if fine else replace(order, handle="")


def make(workspace: Path, things: Sequence[Made]) -> None:
    """Make what a turn leaves in its workspace; what the system refuses is not made."""
    for thing in things:
        with suppress(OSError, ValueError):
            path = workspace / os.fsdecode(thing.name)
            if thing.kind == "file":
                put(workspace, path.name, thing.what)
            elif thing.kind == "link":
                path.symlink_to(os.fsdecode(thing.what))
            elif thing.kind == "folder":
                path.mkdir()
                (path / "x").write_text("x")
                path.chmod(thing.what)
            elif thing.kind == "fifo":
                os.mkfifo(path)
            elif thing.kind == "deep":
                dig(workspace, thing.name, thing.what)
            elif thing.kind == "flow":
                put(workspace, os.fsdecode(thing.name), thing.what)
            else:
                put(workspace, ".parley/outcome.json", thing.what)


def put(workspace: Path, name: str, data: bytes) -> None:
    """Write a file. What an earlier turn has left there is no way out, and no pipe at which the test would wait."""
    path = workspace / name
    if not path.parent.resolve().is_relative_to(workspace.resolve()):
        raise PermissionError(errno.EACCES, "an agent in its cage could not do this either", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o644), "wb") as file:
        file.write(data)


def dig(workspace: Path, name: bytes, depth: int) -> None:
    """Folders in folders, deeper than any path may be long."""
    here = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for _ in range(depth):
            os.mkdir(name, dir_fd=here)
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        os.close(os.open(b"leaf", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    finally:
        os.close(here)


class HostileHarness:
    """A repository with a home in it, and an engine that runs both jobs."""

    def __init__(self, folder: Path, script: Sequence[Turn], *, contained: bool = True, flow: bool = False) -> None:
        self.plays = PLAYS | {HOSTILE: FLOW} if flow else PLAYS
        self.folder, self.home = folder / "repo", folder / "repo" / ".parley"
        subprocess.run(["git", "init", "-q", str(self.folder)], check=True)
        # a merge is committed in the user's name, and a machine's git may know none
        for words in ("config user.name a", "config user.email a@example.invalid", "commit -q --allow-empty -m x"):
            subprocess.run(["git", *words.split()], cwd=self.folder, check=True)
        self.home.mkdir(mode=0o700)
        self.store = SqliteStore(self.home, durability="normal")
        self.actors, files = HostileTurns(script, ("INTENT", "PLAN") if flow else ()), JobFiles(self.home)
        trees = JobWorkspaces(self.home, self.folder)
        faults = FaultLog(files.home("")) if contained else None
        self.world = World(
            store=self.store,
            turns=self.actors,
            workspace=trees,
            files=files,
            clock=SystemClock(),
            ids=RandomIds(),
            faults=faults,
        )
        self.engine = make_engine(self.world)

    def start(self, job: str) -> None:
        """Hand a request in."""
        played = self.plays[job]
        teams = {name: recipients(rules) for name, rules in played.items()}
        settings = {
            "roles": roles(SHIPPED, teams),
            "policies": ["always"] * 3,
            "fan_out": 3,
            "crash_budget": 3,
            "retry_budget": 3,
            "human": [*YES, {"match": ".", "choice": "retry", "repeat": True}][:1],
            "proxy": None,
            "agents": played,
        }
        now = self.world.clock.now()
        row = JobRow(
            job=job,
            request="do it",
            decider="ada",
            created=now,
            updated=now,
            agent="scripted",
            settings=encode(settings),
        )
        self.engine.start(row, charter_of(row))

    def play(self) -> None:
        """Run both jobs until the innocent one has ended and the other rests."""
        for job in (HOSTILE, INNOCENT):
            self.start(job)
        for _ in range(CRANKS):
            happened = self.engine.crank(0.0)
            ended = [job for job, live in self.engine.jobs.items() if not live.record.live]
            for job in ended:
                self.engine.release(job)
            if not happened and INNOCENT not in self.engine.jobs:
                break

    def state(self, job: str) -> str:
        """How a job stands."""
        return self.store.load(job).row.state

    def ended(self, job: str) -> bool:
        """Whether a job has ended, as a later process sees it."""
        return self.later(lambda store: store.load(job).row.state) in TERMINAL

    def later(self, read: Callable[[SqliteStore], Found]) -> Found:
        """What another process reads of the bus."""
        with closing(SqliteStore(self.home)) as store:
            return read(store)

    @property
    def faults(self) -> str:
        """What went wrong in Parley itself."""
        return "".join(path.read_text(errors="replace") for path in self.home.glob("jobs/*/faults.log"))

    def close(self) -> None:
        """Let the jobs go, as a process does that ends."""
        for job in list(self.engine.jobs):
            self.engine.release(job)
        self.store.close()

    def run(self, *words: str) -> tuple[int, str]:
        """Run a command in this process: its code, and all that it printed."""
        out, err = StringIO(), StringIO()
        with patch("sys.stdout", out), patch("sys.stderr", err):
            code = main([*words, "--repo", str(self.folder)])
        return code, out.getvalue() + err.getvalue()

    def reading(self) -> Iterator[tuple[str, int, str]]:
        """Every command that reads or tidies up, with what came of it."""
        package = str(self.folder.parent / "record.jsonl")
        commands = [
            ["ls"], ["ls", "--json"], ["inbox"], ["inbox", "--json"],
            *[[name, job] for name in ("show", "log", "tree", "audit", "diff") for job in (HOSTILE, INNOCENT)],
            *[[name, HOSTILE, "--json"] for name in ("show", "log", "tree", "audit", "diff")],
            ["workflow", "status", HOSTILE], ["export", HOSTILE, "--output", package], ["watch"],
            ["merge", HOSTILE, "--dry-run"], ["merge", HOSTILE, "--all"], ["merge", INNOCENT], ["diff", INNOCENT],
            ["withdraw", HOSTILE], ["gc", "--older", "0d", "--unmerged"], ["ls"],
        ]  # fmt: skip
        for words in commands:
            code, said = self.run(*words)
            yield " ".join(words), code, said


@contextmanager
def hostile_harness(script: Sequence[Turn], *, contained: bool = True, flow: bool = False) -> Iterator[HostileHarness]:
    """An arena in a folder of its own, which goes with it, whatever was made in it."""
    with folder() as place:
        made = HostileHarness(place, script, contained=contained, flow=flow)
        try:
            yield made
        finally:
            made.close()
