"""Jobs for the audit, run by the real engine, stores and workspaces, with agents played in this process."""

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parley.assembly import make_engine, roles
from parley.audit.audit import AuditReport, audit, read_anchor
from parley.base.json_codec import encode
from parley.base.options import NAMES
from parley.bus.memory_store import MemoryBus, MemoryStore
from parley.bus.rows import JobRow
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.bus.store import Store
from parley.engine.owned_job import OwnedJob
from parley.engine.values.job_roles import charter_of
from parley.engine.world import World
from parley.machine.job_files import JobFiles
from parley.ports.turns import Called, Ended, Order, TurnEvent
from parley.protocol.molecules import AskHuman, Surface
from parley.roles import shipped, snapshot_of
from parley.runners.scripted.playbook import parse
from parley.runners.scripted.scripted_agent import Call, CallReply, Crash, Effect, PlayEnding, Sleep, Write, play
from parley.runners.scripted.scripted_agent import PlayOrder as ScriptedOrder
from parley.workspaces import JobWorkspaces

SHIPPED = {name: snapshot_of(role) for name, role in shipped().items()}

Turn = Generator[Effect, CallReply, PlayEnding]


class Ticks:
    """A clock that goes on by a little at each look, so that no two moments are the same."""

    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def now(self) -> float:
        self.time += 0.25
        return self.time

    def monotonic(self) -> float:
        return self.now()


class Names:
    """Names in a row."""

    def __init__(self) -> None:
        self.given = 0

    def new(self) -> str:
        self.given += 1
        return f"n{self.given}"


class InProcessTurns:
    """Turns played in this process. An agent that is `frozen` stops where its playbook sleeps."""

    def __init__(self) -> None:
        self.frozen: set[str] = set()
        self._playing: dict[tuple[str, str], tuple[Order, Turn]] = {}
        self._calls: dict[tuple[str, str], int] = {}
        self._asleep: list[tuple[str, str]] = []
        self._events: list[TurnEvent] = []

    def hosts(self) -> tuple[str, ...]:
        return ("stage",)

    def submit(self, order: Order) -> None:
        rules = json.loads(order.rules)
        handle = json.loads(order.handle) if order.handle else {}
        turn = play(
            ScriptedOrder(
                agent=order.agent,
                rules=None if rules is None else tuple(rules),
                message=order.message,
                state=order.state,
                visit=order.visit,
                handle=handle,
                may_ask=order.may_ask,
                kind=order.kind,
                asked=order.asked,
            )
        )
        self._playing[order.job, order.turn] = (order, turn)
        self._go_on((order.job, order.turn), lambda: next(turn))

    def _go_on(self, key: tuple[str, str], step: Callable[[], Effect]) -> None:
        order, turn = self._playing[key]
        try:
            while True:
                effect = step()
                if isinstance(effect, Call):
                    number = self._calls[key] = self._calls.get(key, 0) + 1
                    call = Called(
                        job=order.job,
                        turn=order.turn,
                        token=order.token,
                        number=number,
                        tool=effect.tool,
                        arguments=effect.args,
                    )
                    self._events.append(call)
                    return
                if isinstance(effect, Sleep) and order.agent in self.frozen:
                    self._asleep.append(key)
                    return
                if isinstance(effect, Crash):
                    self._end(key, fault=f"it was killed by signal {effect.signal}")
                    return
                if isinstance(effect, Write):
                    self.write(Path(order.site.workspace), effect.path, effect.text)
                step = lambda: turn.send(CallReply(ok=True, text="", data={}))  # noqa: E731
        except StopIteration as stop:
            ending: PlayEnding = stop.value
            self._end(key, text=ending.text, handle=json.dumps(ending.handle, sort_keys=True))

    def write(self, workspace: Path, path: str, text: str) -> None:
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text(text)

    def _end(self, key: tuple[str, str], text: str = "", handle: str = "", fault: str = "") -> None:
        order, _ = self._playing.pop(key)
        usage = {"turns": 1.0} if not fault else {}
        self._events.append(
            Ended(job=order.job, turn=order.turn, epoch=order.epoch, text=text, handle=handle, usage=usage, fault=fault)
        )

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        key = (job, turn)
        if key in self._playing:
            playing = self._playing[key][1]
            self._go_on(key, lambda: playing.send(CallReply(ok, text, dict(data))))

    def thaw(self, agent: str) -> None:
        """Let the agent's turns go on."""
        self.frozen.discard(agent)
        asleep, self._asleep = self._asleep, []
        for key in asleep:
            if key in self._playing:
                playing = self._playing[key][1]
                self._go_on(key, lambda playing=playing: playing.send(CallReply(True, "", {})))  # type: ignore[misc]  # a lambda with a default

    def events(self, timeout_seconds: float) -> list[TurnEvent]:
        events, self._events = self._events, []
        return events

    def cancel(self, job: str, turn: str) -> None:
        self._playing.pop((job, turn), None)

    def reclaim(self, job: str) -> None:
        for key in [key for key in self._playing if key[0] == job]:
            del self._playing[key]

    def rest(self, job: str) -> None:
        """Nothing is kept ready."""

    def close(self) -> None:
        self._playing.clear()


@dataclass
class RecordedHome:
    """A home with a bus, and an engine that runs jobs in it."""

    home: Path
    kind: str
    bus: MemoryBus = field(default_factory=MemoryBus)
    clock: Ticks = field(default_factory=Ticks)
    names: Names = field(default_factory=Names)
    watch: Callable[[str], object] = str  # called after every transaction

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        self.begin()

    def begin(self) -> None:
        """A new process, as it were."""
        self.store, self.outside = self.open()
        self.stage = InProcessTurns()
        files, folder = JobFiles(self.home), JobWorkspaces(self.home)
        self.engine = make_engine(
            World(store=self.store, turns=self.stage, workspace=folder, files=files, clock=self.clock, ids=self.names)
        )

    def open(self) -> tuple[Store, Store]:
        """The engine's store, and another process's."""
        if self.kind == "sqlite":
            return SqliteStore(self.home, durability="normal"), SqliteStore(self.home)
        return MemoryStore(self.bus), MemoryStore(self.bus, "somebody else")

    def die(self) -> None:
        """Lose the process with all that it had not committed, and start another."""
        self.close()
        self.begin()

    def close(self) -> None:
        """End the process."""
        self.store.close()
        self.outside.close()

    def start(self, job: str, playbook: str, **limits: Any) -> OwnedJob:
        """Open a job that plays a playbook."""
        book = parse(playbook, "playbook")
        data = book.to_json()
        settings = {
            "roles": roles(
                {name: snapshot_of(role) for name, role in shipped().items()},
                {agent: book.recipients(agent) for agent in book.agents},
            ),
            "policies": ["always"] * 3,
            "fan_out": 3,
            "crash_budget": 3,
            "retry_budget": 3,
            "human": data.get("human"),
            "proxy": data.get("proxy"),
            "agents": data.get("agents", {}),
            **limits,
        }
        now = self.clock.now()
        row = JobRow(
            job=job,
            request="do it — ü",
            decider="ada",
            created=now,
            updated=now,
            agent="scripted",
            settings=encode(settings),
        )
        return self.engine.start(row, charter_of(row))

    def go_on(self, job: str) -> OwnedJob:
        """Crank until nothing happens any more."""
        live = self.engine.jobs[job]
        for _ in range(2000):
            before = live.counters.transaction
            happened = self.engine.crank(0.0)
            if live.counters.transaction != before:
                self.watch(job)
            if not happened:
                return live
        message = f"{job} does not come to rest"
        raise AssertionError(message)

    def ask(self, job: str, kind: str, by: str = "ada", **body: Any) -> None:
        """Leave an input, as a person would from another process."""
        key = f"{kind}:{self.names.new()}"
        self.outside.put(job, kind, key, self.clock.now(), by, json.dumps(body))

    def answer(self, job: str, ruling: str | None, text: str, by: str = "ada") -> None:
        """Answer the one question that waits."""
        (asked,) = self.engine.jobs[job].soup.of(AskHuman)
        said: dict[str, Any] = {"ruling": None, "choice": ruling} if ruling in NAMES else {"ruling": ruling}
        self.ask(job, "answer", by, question=asked.id, framing=asked.framing, text=text, **said)

    def thread_of(self, job: str, agent: str) -> str:
        """Where an agent works now."""
        return next(s.thread for s in self.engine.jobs[job].soup.of(Surface) if s.agent == agent)

    def state(self, job: str) -> str | None:
        """The text of a job's state.json."""
        path = self.home / "jobs" / job / "state.json"
        return path.read_text() if path.exists() else None

    def audit(self, job: str) -> AuditReport:
        """Audit a job as it is now."""
        return audit(self.store, job, read_anchor(self.state(job)))


# ---- plays ---------------------------------------------------------------------------------------

FINISHED = r"""
human:
  - {match: "INTENT", verdict: approve, text: "yes"}
  - {match: "PLAN", verdict: revise, text: "add tests"}
  - {match: "PLAN", verdict: approve, text: "good", repeat: true}
  - {match: "EXECUTE", state: EXECUTE, visit: 1, verdict: backtrack plan, text: "wrong"}
  - {match: "EXECUTE", verdict: approve, text: "ship"}
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do:
        - {write: {path: INTENT.md, text: "intent"}}
        - {assert: {artifact: INTENT.md, text: "ok?"}}
    - {match: '\[ANSWER approve\]', do: [{outcome: {outcome: APPROVED_INTENT, reason: "ok"}}]}
  project-lead:
    - match: '\[PLAN\]'
      repeat: true
      do:
        - {write: {path: PLAN.md, text: "plan"}}
        - {note: {text: "a note"}}
        - {assert: {artifact: PLAN.md, text: "ok?"}}
    - match: '\[ANSWER revise\]'
      repeat: true
      do:
        - {write: {path: PLAN.md, text: "plan 2"}}
        - {assert: {artifact: PLAN.md, text: "ok now?"}}
    - match: '\[ANSWER approve\]'
      state: PLAN
      repeat: true
      do: [{outcome: {outcome: APPROVED_PLAN, reason: "ok"}}]
    - match: '\[EXECUTE\]'
      repeat: true
      do: [{send: {to: coder, as: c1, text: "write a"}}]
    - match: 'done a'
      repeat: true
      do: [{close: {thread: c1}}, {send: {to: squad, as: c2, text: "write b"}}]
    - match: 'done b'
      repeat: true
      do:
        - {close: {thread: c2}}
        - {write: {path: WORK_SUMMARY.md, text: "summary"}}
        - {assert: {artifact: WORK_SUMMARY.md, text: "ok?"}}
    - {match: 'backtrack plan', do: [{outcome: {outcome: REPLAN, reason: "the human says so"}}]}
    - match: '\[ANSWER approve\]'
      state: EXECUTE
      do: [{outcome: {outcome: APPROVED_WORK, reason: "ok"}}]
  coder:
    - match: RECOVERED
      do: [{sleep: 1}, {write: {path: a.txt, text: a}}, {say: "done a"}]
    - {match: write, do: [{send: {thread: dispatcher, text: "lost"}}, {crash: 9}]}
  squad:
    - {match: write, repeat: true, do: [{send: {to: helper, as: h, text: "half of b"}}]}
    - match: half
      repeat: true
      do: [{close: {thread: h}}, {write: {path: b.txt, text: b}}, {send: {thread: dispatcher, text: done b}}]
  helper:
    - {match: half, do: [{say: "the half"}]}
"""

FAILING = r"""
agents:
  intent-lead:
    - {match: '\[INTENT\]', do: [{crash: 9}]}
"""

IDLE = r"""
agents:
  intent-lead:
    - {match: '.', repeat: true, do: [{say: "I do not know"}]}
"""

TALKING = r"""
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do:
        - {write: {path: INTENT.md, text: "intent"}}
        - {send: {to: researcher, as: r1, text: "look"}}
        - {send: {to: writer, as: w1, text: "write"}}
        - {ask: {text: "which way?"}}
    - match: 'found'
      do: [{send: {thread: w1, text: "go on"}}, {sleep: 1}, {send: {thread: r1, text: "more"}}]
    - {match: '\[INTERVENE', repeat: true, do: [{say: "I see"}]}
  researcher:
    - {match: '\[INTERVENE', repeat: true, do: [{say: "found"}]}
    - {match: look, do: [{sleep: 1}, {say: "found"}]}
    - {match: more, do: [{sleep: 2}]}
  writer:
    - {match: '.', repeat: true, do: [{say: "written"}]}
"""


GATES = r"""
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do:
        - {write: {path: INTENT.md, text: "intent"}}
        - {assert: {artifact: INTENT.md, text: "ok?"}}
    - {match: '\[ANSWER approve\]', do: [{outcome: {outcome: APPROVED_INTENT, reason: "ok"}}]}
  project-lead:
    - match: '\[PLAN\]'
      do:
        - {write: {path: PLAN.md, text: "plan"}}
        - {assert: {artifact: PLAN.md, text: "ok?"}}
    - match: '\[ANSWER approve\]'
      state: PLAN
      do: [{outcome: {outcome: APPROVED_PLAN, reason: "ok"}}]
    - {match: '\[EXECUTE\]', do: [{write: {path: WORK_SUMMARY.md, text: "done"}}, {ask: {text: "which way?"}}]}
"""


def play_finished(theatre: RecordedHome, job: str = "done-1") -> str:
    """A job with all that a good one may have: a crash, a subteam, a backtrack, a pause, an intervention."""
    theatre.stage.frozen.add("coder")
    theatre.start(job, FINISHED)
    theatre.go_on(job)
    theatre.ask(job, "pause")
    theatre.ask(job, "intervene", text="mind the tests", authoritative=True)
    theatre.go_on(job)
    theatre.ask(job, "resume")
    theatre.ask(job, "withdraw", thread="dispatch:nobody")
    theatre.ask(job, "resume")
    theatre.go_on(job)
    theatre.stage.thaw("coder")
    live = theatre.go_on(job)
    assert str(live.record.state) == "DONE"
    theatre.engine.release(job)
    return job


def play_failing(theatre: RecordedHome, job: str = "fail-1") -> str:
    """A job whose lead always dies: the human is asked, has it tried again, and it fails."""
    theatre.start(job, FAILING, retry_budget=1)
    theatre.go_on(job)
    theatre.answer(job, "revise", "once more")
    live = theatre.go_on(job)
    assert str(live.record.state) == "FAILURE"
    theatre.engine.release(job)
    return job


def play_idle(theatre: RecordedHome, job: str = "idle-1") -> str:
    """A job that gets nowhere, and the human lets it fail."""
    theatre.start(job, IDLE, retry_budget=1)
    theatre.go_on(job)
    theatre.answer(job, "fail", "")
    live = theatre.go_on(job)
    assert str(live.record.state) == "FAILURE"
    theatre.engine.release(job)
    return job


def play_running(theatre: RecordedHome, job: str = "runs-1") -> str:
    """A job in the middle: questions open, turns out, sessions and trees kept, an owner lost on the way."""
    theatre.stage.frozen.add("researcher")
    theatre.start(job, TALKING)
    theatre.go_on(job)
    theatre.die()
    theatre.stage.frozen.add("researcher")
    theatre.engine.adopt(job)
    theatre.go_on(job)
    theatre.ask(job, "pause")
    theatre.go_on(job)
    theatre.answer(job, None, "that way")  # the proxy sleeps while the job is held: the words are kept
    theatre.go_on(job)
    theatre.ask(job, "resume")
    theatre.ask(job, "answer", question="n0", framing="m0", ruling=None, text="to nobody")
    theatre.go_on(job)
    theatre.ask(job, "pause")
    theatre.go_on(job)
    theatre.ask(job, "intervene", text="careful", thread=theatre.thread_of(job, "researcher"))
    theatre.go_on(job)
    return job


def play_withdrawn(theatre: RecordedHome, job: str = "gone-1") -> str:
    """A job that the human redirects and abandons: a conversation, with a letter under way, then all."""
    theatre.stage.frozen |= {"intent-lead", "researcher"}
    theatre.start(job, TALKING)
    theatre.go_on(job)
    researcher = theatre.thread_of(job, "researcher")
    theatre.ask(job, "intervene", text="found is found", now=True, thread=researcher)
    theatre.go_on(job)
    writer = theatre.thread_of(job, "writer")
    theatre.ask(job, "withdraw", thread=writer, reason="not needed")
    theatre.go_on(job)
    theatre.ask(job, "withdraw", thread=writer, reason="again")
    theatre.stage.thaw("intent-lead")
    theatre.go_on(job)
    theatre.ask(job, "withdraw", reason="enough")
    live = theatre.go_on(job)
    assert str(live.record.state) == "WITHDRAWN"
    theatre.engine.release(job)
    return job


def play_shared(theatre: RecordedHome, job: str = "many-1") -> str:
    """A job that several answer for: one by its settings, one who is named, takes part, and is taken back."""
    theatre.start(job, GATES, people={"eve": "answer"})
    theatre.go_on(job)
    theatre.answer(job, "approve", "too early", "bob")
    theatre.go_on(job)
    theatre.ask(job, "name", person="bob", may="decide")
    theatre.go_on(job)
    theatre.answer(job, "approve", "yes", "bob")
    theatre.go_on(job)
    theatre.ask(job, "pause", "eve")
    theatre.go_on(job)
    theatre.ask(job, "resume", "bob")
    theatre.ask(job, "name", "bob", person="carl", may="decide")
    theatre.go_on(job)
    theatre.ask(job, "name", person="bob", may="see")
    theatre.go_on(job)
    theatre.answer(job, "approve", "too late", "bob")
    theatre.go_on(job)
    theatre.answer(job, "approve", "mine", "ada")
    live = theatre.go_on(job)
    assert str(live.record.state) == "EXECUTE"
    return job


PLAYS = {
    "finished": play_finished,
    "failing": play_failing,
    "idle": play_idle,
    "running": play_running,
    "withdrawn": play_withdrawn,
    "shared": play_shared,
}
