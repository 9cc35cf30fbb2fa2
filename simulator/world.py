"""The simulated world: time that jumps from event to event, agents in process, and a fuse for crashes."""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from random import Random
from typing import Any

from parley.adapters import player as scripted
from parley.adapters.memory import MemoryBus, MemoryStore
from parley.decisions import Decided, MemoryTrouble, Recalled
from parley.ports import Called, Change, Commit, Ended, Kept, Merge, Order, Outcome, Progress, Scope, Site, TurnEvent
from parley.workflow.claims import refuse_at

BEGINNING = 1_800_000_000.0
OUTCOME = ".parley/outcome.json"


class Crash(BaseException):
    """The simulated process dies here. Not an Exception: nothing may catch it on the way out."""


@dataclass
class Fuse:
    """Counts down over everything that the process does to the world; at zero the process dies."""

    left: int | None
    torn: Random
    log: list[str] = field(default_factory=list)

    def burn(self, what: str, act: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        """Do something to the world, unless the process dies before it, in the middle, or right after."""
        if self.left is None:
            return act()
        self.left -= 1
        if self.left > 0:
            return act()
        self.left = None
        when = self.torn.choice(("before", "after", "torn") if half else ("before", "after"))
        self.log.append(f"crash {when} {what}")
        if when == "after":
            act()
        elif when == "torn" and half is not None:
            half()
        raise Crash(what)


class SimClock:
    """Time that only moves when somebody waits."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        """Wall-clock time."""
        return BEGINNING + self.time

    def monotonic(self) -> float:
        """The same without its origin."""
        return self.time


class SimIds:
    """Names in a row. They go on after a crash: no process gives a name that another gave."""

    def __init__(self) -> None:
        self.given = 0

    def new(self) -> str:
        """A name."""
        self.given += 1
        return f"n{self.given}"


class Schedule:
    """What will happen, in order of time, and among equals in order of being planned."""

    def __init__(self, clock: SimClock) -> None:
        self.clock = clock
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Plan something."""
        self._count += 1
        heapq.heappush(self._heap, (self.clock.time + seconds, self._count, act))

    def step(self, until: float) -> bool:
        """Do the next thing that is due by then; whether there was one."""
        if not self._heap or self._heap[0][0] > until:
            self.clock.time = max(self.clock.time, until)
            return False
        due, _, act = heapq.heappop(self._heap)
        self.clock.time = max(self.clock.time, due)
        act()
        return True


class SimStore(MemoryStore):
    """The memory store, in a process that may die at a commit."""

    def __init__(self, bus: MemoryBus, owner: str, fuse: Fuse) -> None:
        super().__init__(bus, owner)
        self._fuse = fuse

    def commit(self, commits: Sequence[Commit]) -> None:
        """All or nothing, also when the process dies."""
        self._fuse.burn("commit", lambda: super(SimStore, self).commit(commits))

    def put(self, job: str, kind: str, key: str, time: float, by: str, body: str) -> int:
        """An answer is given only to what was asked for good, not to what a crash may take back."""
        if kind == "answer" and f"question {json.loads(body)['question']}" not in self.load(job).molecules:
            raise AssertionError(f"{by} answers a question that is not on the bus: {key}")
        return super().put(job, kind, key, time, by, body)


@dataclass(frozen=True)
class Shared:
    """What a workspace and its parent came to have in common, when, and by a merge into whom."""

    moment: int
    parent: str  # empty: by a beginning, or a refresh
    files: dict[str, str]


class SimDisk:
    """The files of all processes: workspaces, snapshots, records. It outlives every process."""

    def __init__(self) -> None:
        self.work: dict[tuple[str, str], dict[str, str]] = {}
        self.trees: dict[str, dict[str, str]] = {}
        self.tips: dict[tuple[str, str], dict[str, str]] = {}  # what each workspace has committed
        self.shared: dict[tuple[str, str], list[Shared]] = {}  # what each came to have in common with its parent
        self.moments: dict[tuple[str, str, str], int] = {}  # when each workspace last had each tree
        self.moment = 0
        self.lost: dict[str, str] = {}
        self.records: dict[tuple[str, str], str] = {}
        self.streams: dict[tuple[str, str], list[str]] = {}

    def share(self, job: str, name: str, parent: str, files: Mapping[str, str]) -> None:
        """A workspace and its parent have these files in common now; `parent`: it was merged into that one."""
        self.moment += 1
        self.shared.setdefault((job, name), []).append(Shared(self.moment, parent, dict(files)))

    def base(self, job: str, name: str) -> dict[str, str]:
        """What a workspace has in common with its parent."""
        found = self.shared.get((job, name), [])
        return found[-1].files if found else {}

    def take_back(self, job: str, parent: str, tree: str) -> None:
        """A workspace goes back to a tree: what was merged into it since then is not there any more."""
        since = self.moments.get((job, parent, tree), 0)
        for (its_job, _), events in self.shared.items():
            if its_job == job:
                events[:] = [one for one in events if one.parent != parent or one.moment <= since]

    def write(self, place: str, path: str, text: str) -> bool:
        """What an agent writes; whether it may."""
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts:
            return False
        job, _, name = place.partition("|")
        self.work.setdefault((job, name), {})[path] = text
        return True


def _put(files: dict[str, str], path: str, text: str | None) -> None:
    if text is None:
        files.pop(path, None)
    else:
        files[path] = text


def _own(path: str, scope: Scope | None) -> bool:
    """Whether a file is the protocol's own, so that no merge takes it."""
    if path in ("INTENT.md", "PLAN.md", "WORK_SUMMARY.md", OUTCOME):
        return True
    return path.startswith("orchestration/") and not (scope is not None and (scope.design or "/task_output/" in path))


def _digest(files: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:16]


class SimWorkspace:
    """Workspaces on the simulated disk."""

    def __init__(self, disk: SimDisk, fuse: Fuse) -> None:
        self.disk = disk
        self._fuse = fuse

    def reclaim(self, job: str) -> None:
        """Nothing is ever locked."""

    def prepare(self, job: str, name: str, parent: str, sealed: Iterable[str] = (), *, reader: bool = False) -> Site:
        """Make a workspace ready."""
        seed = dict(self.disk.work.get((job, parent), {})) if name.startswith("dispatch:") else {}

        def act() -> None:
            if (job, name) not in self.disk.work:
                self.disk.work[job, name] = seed
                self.disk.trees[f"{job}|{name}"] = dict(seed)
                self.disk.tips[job, name] = dict(seed)
                self.disk.share(job, name, "", seed)

        self._fuse.burn("prepare", act)
        return Site(f"{job}|{name}")

    def clear_outcome(self, job: str, name: str) -> None:
        """No outcome record is there."""
        self._fuse.burn("clear outcome", lambda: self.disk.work.get((job, name), {}).pop(OUTCOME, None))

    def read_outcome(self, job: str, name: str) -> Outcome | None:
        """The outcome record."""
        text = self.disk.work.get((job, name), {}).get(OUTCOME)
        if text is None:
            return None
        try:
            said = json.loads(text)
        except ValueError:
            return Outcome(problem="the outcome record is not JSON")
        if not isinstance(said, dict) or not isinstance(said.get("outcome"), str):
            return Outcome(problem="the outcome record names no outcome")
        return Outcome(said["outcome"], str(said.get("reason", "")))

    def snapshot(self, job: str, name: str, text: str, scope: Scope | None = None) -> Kept:
        """Keep what is there."""
        files = {path: text for path, text in self.disk.work.get((job, name), {}).items() if path != OUTCOME}
        left = self._keep_out(job, name, files, scope) if scope is not None else ()
        tree = _digest(files)

        def act() -> None:
            self.disk.trees[tree] = files
            self.disk.tips[job, name] = files
            self.disk.moments[job, name, tree] = self.disk.moment

        self._fuse.burn("snapshot", act)
        return Kept(tree, left)

    def _keep_out(self, job: str, name: str, files: dict[str, str], scope: Scope) -> tuple[str, ...]:
        """Put back what is not allowed."""
        before = self.disk.tips.get((job, name), {})
        paths = sorted({*files, *before})
        found = {path: scope.allowed(path) for path in paths if files.get(path) != before.get(path)}
        refused = {path: why for path, why in found.items() if why}
        there = self.disk.work.get((job, name), {})

        def act() -> None:
            self.disk.lost.setdefault(f"{job}|{name}|left", json.dumps(there, sort_keys=True))
            for path in refused:
                _put(there, path, before.get(path))

        if refused:
            self._fuse.burn("keep out", act)
            for path in refused:
                _put(files, path, before.get(path))
        return tuple(f"{path}: {why}" for path, why in refused.items())

    def read(self, job: str, name: str, path: str, most: int = 1_000_000) -> str | None:
        """A file."""
        text = self.disk.work.get((job, name), {}).get(path)
        return text if text is not None and len(text.encode("utf-8", "replace")) <= most else None

    def write(self, job: str, name: str, files: Mapping[str, str | None]) -> None:
        """The protocol's own files."""
        if (job, name) not in self.disk.work:
            return
        there = self.disk.work[job, name]
        if all(there.get(path) == text for path, text in files.items()):
            return
        tip = dict(self.disk.tips.get((job, name), {}))

        def put(some: Iterable[str]) -> None:
            for path in some:
                _put(there, path, files[path])
                _put(tip, path, files[path])
            self.disk.tips[job, name] = tip

        self._fuse.burn("write files", lambda: put(files), lambda: put(list(files)[: len(files) // 2]))

    def listing(self, job: str, name: str, folder: str) -> tuple[str, ...]:
        """The files below a folder."""
        prefix = f"{folder}/" if folder else ""
        return tuple(sorted(path for path in self.disk.work.get((job, name), {}) if path.startswith(prefix)))

    def contents(self, job: str, name: str, artifacts: Iterable[str]) -> dict[str, str]:
        """Digests of the artifacts."""
        files = self.disk.work.get((job, name), {})
        return {a: hashlib.sha256(files[a].encode()).hexdigest()[:16] for a in artifacts if a in files}

    def restore(self, job: str, name: str, tree: str, lost: str) -> None:
        """Put a tree back."""

        def act() -> None:
            if (job, name) not in self.disk.work:
                return
            self.disk.lost[f"{job}|{name}|{lost}"] = json.dumps(self.disk.work.get((job, name), {}), sort_keys=True)
            self.disk.work[job, name] = dict(self.disk.trees[tree or f"{job}|{name}"])
            self.disk.tips[job, name] = dict(self.disk.work[job, name])
            self.disk.take_back(job, name, tree)

        self._fuse.burn("restore", act)

    def abandon(self, job: str, name: str, lost: str) -> None:
        """Keep what is there."""
        files = json.dumps(self.disk.work.get((job, name), {}), sort_keys=True)
        self._fuse.burn("abandon", lambda: self.disk.lost.__setitem__(f"{job}|{name}|{lost}", files))

    def merge(self, job: str, name: str, parent: str, scope: Scope | None = None) -> Merge:
        """Bring a subteam's files up."""
        files = self.disk.work.get((job, name), {})
        above = self.disk.work.setdefault((job, parent), {})
        base = self.disk.base(job, name)
        changed = [
            path
            for path in files
            if not _own(path, scope) and above.get(path) != files[path] and (not scope or base.get(path) != files[path])
        ]
        refused = {path: why for path in changed if scope is not None and (why := scope.allowed(path))}
        brought = {path: files[path] for path in changed if path not in refused}

        def act() -> None:
            above.update(brought)
            self.disk.share(job, name, parent, files)

        self._fuse.burn("merge", act)
        commits = (_digest(files), _digest(above)) if brought else ()
        return Merge(tuple(brought), (), (), commits, tuple(f"{path}: {why}" for path, why in refused.items()))

    def refresh(self, job: str, name: str, parent: str, *, clean: bool = False) -> Merge:
        """Bring a parent's files down, where the child has not changed them."""
        above = self.disk.work.get((job, parent), {})
        files = self.disk.work.setdefault((job, name), {})
        base = self.disk.base(job, name)
        newer = {
            path: text
            for path, text in above.items()
            if files.get(path) != text and files.get(path) == base.get(path) and path != OUTCOME
        }

        def act() -> None:
            files.update(newer)
            self.disk.share(job, name, "", base | newer)
            self.disk.tips[job, name] = self.disk.tips.get((job, name), {}) | newer

        self._fuse.burn("refresh", act)
        return Merge(tuple(newer), commits=(_digest(above), _digest(files)) if newer else ())

    def beginning(self, job: str, name: str, artifact: str, length: int) -> str:
        """How an artifact begins."""
        return self.disk.work.get((job, name), {}).get(artifact, "")[:length]

    def unresolved(self, job: str, name: str) -> list[str]:
        """No conflict is left: whoever merges last wins."""
        return []

    def retire(self, job: str, name: str) -> None:
        """Keep what is there under what it was."""
        files = self.disk.work.get((job, name), {})
        self._fuse.burn("retire", lambda: self.disk.lost.__setitem__(f"{job}|{name}", json.dumps(files)))

    def changes(self, job: str) -> list[Change]:
        """Nobody asks."""
        return []


class SimDecisions:
    """What is remembered of the human, in a memory that may fail: it outlives every process."""

    def __init__(self, rng: Random, failing: float = 0.0) -> None:
        self.kept: dict[tuple[str, str, str], Decided] = {}
        self.failures = 0
        self.fuse = Fuse(None, rng)
        self._rng = rng
        self._failing = failing

    def remember(self, decided: Sequence[Decided]) -> None:
        """All or nothing; what is there stays."""
        self._may_fail()

        def act() -> None:
            for one in decided:
                key = one.job, one.question, one.framing
                self.kept.setdefault(key, replace(one, id="/".join(key)))

        self.fuse.burn("remember", act)

    def recall(self, human: str, state: str, kind: str, text: str, limit: int) -> list[Recalled]:
        """Those that share most words with the text."""
        found = self.past(human, state, kind, text)
        return sorted(found, key=lambda one: (-one.likeness, -one.decided.time))[:limit]

    def past(self, human: str, state: str, kind: str, text: str) -> list[Recalled]:
        """All, oldest first."""
        self._may_fail()
        wanted = set(text.split())
        heard = [one for one in self.kept.values() if one.human == human and one.verdict is not None]
        shared = ((one, len(wanted & set(f"{one.asked} {one.excerpt}".split()))) for one in heard)
        return [Recalled(one, count / max(1, len(wanted))) for one, count in shared]

    def _may_fail(self) -> None:
        if self._failing and self._rng.random() < self._failing:
            self.failures += 1
            raise MemoryTrouble("the memory is damaged; put a copy back")


class SimFiles:
    """Records and streams on the simulated disk."""

    def __init__(self, disk: SimDisk, fuse: Fuse) -> None:
        self.disk = disk
        self._fuse = fuse

    def home(self, job: str) -> Path:
        """Nowhere real."""
        return Path("/nowhere") / job

    def write_state(self, job: str, name: str, text: str) -> None:
        """Whole or not at all."""
        self._fuse.burn(f"write {name}", lambda: self.disk.records.__setitem__((job, name), text))

    def append(self, job: str, stream: str, lines: Sequence[str]) -> None:
        """Lines, of which a crash may cut off the end."""
        there = self.disk.streams.setdefault((job, stream), [])

        def half() -> None:
            there.extend(lines[:-1])
            there.append(lines[-1][: len(lines[-1]) // 2])

        self._fuse.burn("append", lambda: there.extend(lines), half)

    def tail(self, job: str, stream: str) -> list[str]:
        """The last lines."""
        return self.disk.streams.get((job, stream), [])[-200:]

    def write_outcome(self, job: str, name: str, text: str) -> None:
        """Keep an outcome record."""
        self.write_state(job, f"outcomes/{name}", text)


@dataclass
class Actor:
    """An agent's turn under way."""

    order: Order
    script: Generator[scripted.Effect, scripted.Reply, scripted.Ending]
    dies_at: int | None  # after how many steps it is lost
    stalls: bool
    steps: int = 0
    calls: int = 0
    alive: bool = True


class SimTurns:
    """Turns in process: the scripted agent's own player, stepped by the schedule, with faults."""

    def __init__(
        self,
        schedule: Schedule,
        disk: SimDisk,
        rng: Random,
        fuse: Fuse,
        faults: Mapping[str, float],
        outside: MemoryStore,
    ) -> None:
        self.schedule = schedule
        self.outside = outside  # the bus as somebody else sees it
        self.disk = disk
        self.rng = rng
        self.faults = faults
        self.running: dict[tuple[str, str], Actor] = {}
        self.over = False  # the process that this belongs to has died
        self.late_calls_accepted: list[str] = []
        self.unrecorded: list[str] = []  # turns that were submitted before the bus knew of them
        self._fuse = fuse
        self._events: list[TurnEvent] = []
        self._ghosts: set[tuple[str, str]] = set()

    def hosts(self) -> tuple[str, ...]:
        """Here."""
        return ("here",)

    def reclaim(self, job: str) -> None:
        """What an earlier process left running died with it in this world."""

    def rest(self, job: str) -> None:
        """Nothing is kept ready."""

    def chance(self, fault: str) -> bool:
        """Whether a fault strikes now."""
        return self.rng.random() < self.faults.get(fault, 0.0)

    def submit(self, order: Order) -> None:
        """Start a turn."""
        self._fuse.burn("submit", lambda: self._start(order))

    def _start(self, order: Order) -> None:
        if (order.job, order.turn) in self.running:
            return
        if not any(row.turn == order.turn and row.epoch == order.epoch for row in self.outside.load(order.job).turns):
            self.unrecorded.append(order.turn)
        script = scripted.play(
            scripted.Order(
                order.agent,
                None if order.rules == "null" else tuple(json.loads(order.rules)),
                order.message,
                order.state,
                order.visit,
                json.loads(order.handle) if order.handle else {},
                order.may_ask,
                "",
            )
        )
        dies = self.rng.randrange(4) if self.chance("agent dies") else None
        actor = Actor(order, script, dies, self.chance("agent stalls"))
        self.running[order.job, order.turn] = actor
        self.schedule.after(order.time_limit_seconds, lambda: self._expire(actor))
        self.schedule.after(self.rng.random(), lambda: self._step(actor, None))

    def _step(self, actor: Actor, reply: scripted.Reply | None) -> None:
        if self.over or not actor.alive:
            return
        actor.steps += 1
        if actor.stalls:
            return
        if actor.dies_at is not None and actor.steps > actor.dies_at:
            self._end(actor, fault="it was killed by signal 9")
            return
        try:
            effect = next(actor.script) if reply is None else actor.script.send(reply)
        except StopIteration as stop:
            self._end(actor, stop.value)
            return
        self._carry_out(actor, effect)

    def _carry_out(self, actor: Actor, effect: scripted.Effect) -> None:
        order = actor.order
        delay = self.rng.random() * 0.5
        if isinstance(effect, scripted.Crash):
            self._end(actor, fault=f"it was killed by signal {effect.signal}")
        elif isinstance(effect, scripted.Call):
            actor.calls += 1
            self._events.append(Called(order.job, order.turn, order.token, actor.calls, effect.tool, dict(effect.args)))
        else:
            ok, text = True, ""
            if isinstance(effect, scripted.Sleep):
                delay = effect.seconds
            elif isinstance(effect, scripted.Write):
                text = refuse_at(order.site, effect.path)
                ok = not text and self.disk.write(order.site.workspace, effect.path, effect.text)
            name = type(effect).__name__.lower()
            tool = name if isinstance(effect, scripted.Shell) else ""
            self._events.append(Progress(order.job, order.turn, name, tool, tool))
            self.schedule.after(delay, lambda: self._go_on(actor, scripted.Reply(ok, text, {}), tool))

    def _go_on(self, actor: Actor, reply: scripted.Reply, tool: str) -> None:
        if tool and actor.alive and not self.over:
            self._events.append(Progress(actor.order.job, actor.order.turn, "", tool, tool, over=True))
        self._step(actor, reply)

    def _end(self, actor: Actor, ending: scripted.Ending | None = None, fault: str = "") -> None:
        actor.alive = False
        order = actor.order
        self.running.pop((order.job, order.turn), None)
        ended = Ended(
            order.job,
            order.turn,
            order.epoch,
            ending.text if ending else "",
            json.dumps(ending.handle, sort_keys=True) if ending else "",
            {"turns": 1.0, **(ending.usage if ending else {})},
            fault,
        )
        self._events.append(ended)
        if self.chance("doubled end"):
            self._events.append(ended)
        self._haunt(actor)

    def _haunt(self, actor: Actor) -> None:
        """A process that outlived its turn makes one more call."""
        if not self.chance("late call"):
            return
        order = actor.order
        self._ghosts.add((order.job, order.turn))

        def late() -> None:
            self._events.append(
                Called(order.job, order.turn, order.token, 99, "Send", {"thread": "dispatcher", "text": "late"})
            )

        self.schedule.after(self.rng.random() * 3, late)

    def _expire(self, actor: Actor) -> None:
        if actor.alive and not self.over:
            self._end(actor, fault="it took too long")

    def cancel(self, job: str, turn: str) -> None:
        """End a turn: nothing of it happens after this."""

        def act() -> None:
            actor = self.running.pop((job, turn), None)
            if actor is not None:
                actor.alive = False
                self._haunt(actor)
            self._events = [e for e in self._events if (e.job, e.turn) != (job, turn) or isinstance(e, Called)]

        self._fuse.burn("cancel", act)

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Answer a call; a call from beyond its turn must be refused."""
        actor = self.running.get((job, turn))
        if actor is None or number != actor.calls:
            if ok:
                self.late_calls_accepted.append(f"{job}/{turn}: {text}")
            return
        self.schedule.after(self.rng.random() * 0.2, lambda: self._step(actor, scripted.Reply(ok, text, dict(data))))

    def events(self, timeout_seconds: float) -> list[TurnEvent]:
        """What happens next, in this world's time."""
        until = self.schedule.clock.time + timeout_seconds
        while not self._events and self.schedule.step(until):
            pass
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        """All turns end with their process."""
        self.over = True
        self.running.clear()
