"""The job harness: one job in the simulated world, where a test says what happens, when, and what dies.

The real engine and the scripted agent's own player play a playbook; the clock, the disk and the processes are the
simulator's. Whenever the job rests, invariants, deliveries, records and the audit are checked.
"""

from __future__ import annotations

import inspect
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from msgspec.structs import replace

from parley.assembly import features, roles
from parley.audit.audit import audit
from parley.base.json_codec import encode
from parley.base.options import NAMES
from parley.bus.memory_store import MemoryBus, MemoryStore
from parley.bus.rows import JobRow, MessageRow, StepRow
from parley.engine.files.job_records import state_document
from parley.engine.hooks import Feature
from parley.engine.inputs import answer_key
from parley.engine.loop import Engine
from parley.engine.owned_job import OwnedJob
from parley.engine.values.human_inputs import answered, note_words
from parley.engine.values.job_roles import charter_of, code_of
from parley.engine.values.step_names import NamedRun, all_named
from parley.engine.world import NoNotices, World
from parley.ports.notices import Notices
from parley.ports.turns import Called, Confined, Ended, Order, TurnEvent, Waiting
from parley.ports.workspaces import Kept, OverQuota, Scope
from parley.protocol.molecules import AskHuman, Record, Surface, Verdict
from parley.protocol.soup import Soup
from parley.roles import shipped, snapshot_of
from parley.runners.scripted.playbook import Playbook
from parley.verify.invariants import check
from parley.views.history.interventions import interventions
from simulator.agents import SimTurns
from simulator.disk import SimDisk, SimFiles, SimPapers, SimWorkspace
from simulator.minds import SimDecisions
from simulator.spoken import misreported
from simulator.world import BEGINNING, Crash, Fuse, Schedule, SimClock, SimIds, SimStore

SHIPPED = {name: snapshot_of(role) for name, role in shipped().items()}

JOB = "j1"
ROOT = f"job:{JOB}"
CRANKS = 3000

Rule = dict[str, Any]
Action = dict[str, Any]

# ---- playbooks, in few words -----------------------------------------------------------------------


def on(match: str, *do: Action, **narrow: Any) -> Rule:
    """A rule that acts once on a message that fits; `repeat`, `state` and `visit` as in a playbook."""
    return {"match": match, "do": list(do), **narrow}


def always(match: str, *do: Action, **narrow: Any) -> Rule:
    """A rule that acts each time."""
    return on(match, *do, repeat=True, **narrow)


def write(path: str, text: str) -> Action:
    return {"write": {"path": path, "text": text}}


def send(to: str, text: str, name: str | None = None) -> Action:
    """Open a conversation."""
    named = {"as": name} if name else {}
    return {"send": {"to": to, "text": text, **named}}


def tell(thread: str, text: str) -> Action:
    """Go on with a conversation; `dispatcher` is whoever dispatched this one."""
    return {"send": {"thread": thread, "text": text}}


def close(thread: str) -> Action:
    return {"close": {"thread": thread}}


def ask(text: str) -> Action:
    return {"ask": {"text": text}}


def asserts(artifact: str, text: str = "right?") -> Action:
    return {"assert": {"artifact": artifact, "text": text}}


def outcome(name: str, reason: str = "so it is") -> Action:
    return {"outcome": {"outcome": name, "reason": reason}}


def say(text: str) -> Action:
    return {"say": text}


def sleep(seconds: float) -> Action:
    return {"sleep": seconds}


CRASH: Action = {"crash": 9}
YES: list[Rule] = [{"match": ".", "verdict": "approve", "text": "yes", "repeat": True}]

INTENT: list[Rule] = [
    always(r"^\[INTENT\]", write("INTENT.md", "the intent"), asserts("INTENT.md")),
    always(r"^\[ANSWER approve\]", outcome("APPROVED_INTENT")),
]
PLAN: list[Rule] = [
    always(r"^\[PLAN\]", write("PLAN.md", "the plan"), asserts("PLAN.md"), state="PLAN"),
    always(r"^\[ANSWER approve\]", outcome("APPROVED_PLAN"), state="PLAN"),
]
EXECUTE: list[Rule] = [
    always(r"^\[EXECUTE\]", write("WORK_SUMMARY.md", "the work"), asserts("WORK_SUMMARY.md"), state="EXECUTE"),
    always(r"^\[ANSWER approve\]", outcome("APPROVED_WORK"), state="EXECUTE"),
]


def book(
    *,
    intent: Sequence[Rule] = INTENT,
    plan: Sequence[Rule] = PLAN,
    execute: Sequence[Rule] = EXECUTE,
    proxy: Sequence[Rule] | None = None,
    human: Sequence[Rule] | None = None,
    **agents: Sequence[Rule],
) -> dict[str, Any]:
    """A playbook whose phases, unless they are given, go straight through their gates."""
    played = {"intent-lead": list(intent), "project-lead": [*plan, *execute]}
    others = {name.replace("_", "-"): list(rules) for name, rules in agents.items()}
    return {
        "agents": {**played, **others},
        **({"proxy": list(proxy)} if proxy is not None else {}),
        **({"human": list(human)} if human is not None else {}),
    }


# ---- a process that dies where it is told to -------------------------------------------------------


@dataclass
class Trip(Fuse):
    """Lets the process die at the n-th act of a name, before it or right after it."""

    left: int | None = None
    torn: Random = field(default_factory=lambda: Random(0))
    what: str = ""
    when: str = "before"
    seen: list[str] = field(default_factory=list)

    def burn(self, what: str, act: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        """Do it, unless this is where the process dies."""
        self.seen.append(what)
        if self.left is None or (self.what and what != self.what):
            return act()
        self.left -= 1
        if self.left > 0:
            return act()
        self.left = None
        if self.when == "after":
            act()
        raise Crash(what)


class HarnessTurns(SimTurns):
    """The simulator's turns, which also remember what every call was told, and let events in from outside."""

    def __init__(self, schedule: Schedule, disk: SimDisk, fuse: Fuse, outside: MemoryStore) -> None:
        super().__init__(schedule, disk, Random(1), fuse, {}, outside)
        self.orders: list[Order] = []
        self.replies: list[tuple[bool, str]] = []
        self.deaths: Counter[str] = Counter()  # how many of an agent's next turns are lost
        self.eager: Callable[[Order], object] = str  # what an agent does the moment it is started
        self.injected: list[TurnEvent] = []

    def submit(self, order: Order) -> None:
        self.orders.append(order)
        super().submit(order)
        self.eager(order)
        if self.deaths[order.agent]:
            self.deaths[order.agent] -= 1
            self.running[order.job, order.turn].dies_at = 0

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        self.replies.append((ok, text))
        super().reply(job, turn, number, ok, text, data)

    def events(self, timeout_seconds: float) -> list[TurnEvent]:
        injected, self.injected = self.injected, []
        return injected or super().events(timeout_seconds)


class HarnessWorkspace(SimWorkspace):
    """The simulator's workspaces, of which one may grow too large."""

    most_files = 10

    def snapshot(self, job: str, name: str, text: str, scope: Scope | None = None) -> Kept:
        if len(self.disk.work.get((job, name), {})) > self.most_files:
            raise OverQuota(f"there are more than {self.most_files} files in {name}; remove some")
        return super().snapshot(job, name, text, scope)


# ---- the harness -------------------------------------------------------------------------------------


class JobHarness:
    """One job, from its request on."""

    def __init__(
        self,
        play: Mapping[str, Any],
        policies: str | Sequence[str] = "always",
        decisions: SimDecisions | None = None,
        *,
        notices: Notices | None = None,
        more_features: Sequence[Callable[[World], Feature]] = (),
        ahead: int = 0,
        **limits: Any,
    ) -> None:
        self.decisions = decisions
        self.notices: Notices = notices or NoNotices()
        self.more_features = more_features  # of a test's own, in every process
        self.ahead = ahead  # after how many events a commit is begun while more are dealt with
        self.clock = SimClock()
        self.schedule = Schedule(self.clock)
        self.ids = SimIds()
        self.bus = MemoryBus()
        self.disk = SimDisk()
        self.outside = MemoryStore(self.bus, "outside")
        self.processes = 0
        self.orders: list[Order] = []  # of every process, in the order of their submission
        self.replies: list[tuple[bool, str]] = []
        self.deaths: Counter[str] = Counter()
        self.boot()
        read = Playbook.from_json({name: rules for name, rules in play.items() if rules is not None})
        self.settings: dict[str, Any] = {
            "roles": roles(
                SHIPPED,
                {name: read.recipients(name) for name in read.agents},
            ),
            "policies": [policies] * 3 if isinstance(policies, str) else list(policies),
            "fan_out": 3,
            "crash_budget": 3,
            "retry_budget": 3,
            "time_limit_seconds": 60,
            "agents": play["agents"],
            "proxy": play.get("proxy"),
            "human": play.get("human"),
            **limits,
        }
        self.row = JobRow(
            job=JOB,
            request="do it",
            decider="ada",
            created=BEGINNING,
            updated=BEGINNING,
            agent="scripted",
            settings=encode(self.settings),
        )

    # ---- processes -----------------------------------------------------------------------------

    def boot(self, fuse: Trip | None = None) -> None:
        """A new process, with its own view of the bus and none of the last one's memory."""
        self.processes += 1
        self.fuse = fuse or Trip()
        self.turns = HarnessTurns(self.schedule, self.disk, self.fuse, self.outside)
        self.turns.orders, self.turns.replies, self.turns.deaths = self.orders, self.replies, self.deaths
        world = World(
            store=SimStore(self.bus, f"process-{self.processes}", self.fuse, self.ahead),
            turns=self.turns,
            workspace=HarnessWorkspace(self.disk, self.fuse),
            files=SimFiles(self.disk, self.fuse),
            clock=self.clock,
            ids=self.ids,
            decisions=self.decisions,
            notices=self.notices,
        )
        if self.decisions is not None:
            self.decisions.fuse = self.fuse
        self.engine = Engine(world, features=(*features(world), *(make(world) for make in self.more_features)))

    def start(self) -> JobHarness:
        """Hand in the request, with the settings as they are by now."""
        self.row = replace(self.row, settings=encode(self.settings))
        try:
            self.engine.start(self.row, charter_of(self.row))
        except Crash:
            self.kill()
        return self

    def kill(self) -> None:
        """The process dies, and nobody goes on with the job yet."""
        self.bus.kill(f"process-{self.processes}")
        self.turns.close()
        self.boot()

    def adopt(self) -> JobHarness:
        """The next process takes the job over."""
        self.engine.adopt(JOB)
        return self

    def die_at(self, what: str, number: int = 1, when: str = "before") -> JobHarness:
        """Let the process die at the n-th act of that name from now on; any act where there is no name."""
        self.fuse.left, self.fuse.what, self.fuse.when = number, what, when
        return self

    def lose(self, agent: str, turns: int = 1) -> JobHarness:
        """Let an agent die in each of its next turns."""
        self.deaths[agent] += turns
        return self

    # ---- the play ------------------------------------------------------------------------------

    @property
    def live(self) -> OwnedJob:
        """The job in its owner's hands."""
        return self.engine.jobs[JOB]

    def crank(self, seconds: float = 5.0) -> bool:
        """Let something happen; a process that dies of it is followed by another, which takes the job over."""
        try:
            if JOB not in self.engine.jobs:
                self.adopt()
                return True
            return self.engine.crank(seconds)
        except Crash:
            self.kill()
            return True

    def until(self, reached: Callable[[JobHarness], object]) -> JobHarness:
        """Go on to the first moment at which that holds."""
        if not self.begun:
            self.start()
        for _ in range(CRANKS):
            if JOB in self.engine.jobs and reached(self):
                return self
            happened = self.crank()
            if not happened and not self.turns.running and not reached(self):
                raise AssertionError(f"the play rests in {self.state}, and it never came to that")
        raise AssertionError(f"it never came to that: {self.state}")

    def run(self) -> JobHarness:
        """Go on until the job has ended, or rests until somebody outside does something; check everything."""
        if not self.begun:
            self.start()
        for _ in range(CRANKS):
            happened = self.crank()
            if not happened and not self.turns.running:
                self.check()
                return self
        raise AssertionError(f"the play does not come to rest: {self.state}")

    def running(self, agent: str, times: int = 1) -> JobHarness:
        """Go on until an agent is at work for the n-th time."""
        return self.until(lambda s: s.started(agent) >= times and s.busy(agent))

    def sleeping(self, agent: str) -> JobHarness:
        """Go on until an agent is in the middle of its turn: it has done what stands before its sleep."""
        self.running(agent)
        return self.until(lambda s: s.slept(agent))

    # ---- what people do ------------------------------------------------------------------------

    def put(self, kind: str, *, by: str = "ada", key: str = "", **body: Any) -> JobHarness:
        """Leave an input on the bus, as another process would."""
        self.outside.put(JOB, kind, key or f"{kind}:{self.ids.new()}", self.clock.now(), by, json.dumps(body))
        return self

    def answer(self, ruling: str | None, text: str = "said", about: str = "") -> JobHarness:
        """Answer what waits for the human; where several do, the one that is about that."""
        waiting = [a for a in self.soup.of(AskHuman) if about in self.body(a.framing)]
        assert len(waiting) == 1, f"{len(waiting)} questions wait"
        asked = waiting[0]
        said: dict[str, Any] = {"ruling": None, "choice": ruling} if ruling in NAMES else {"ruling": ruling}
        return self.put("answer", key=answer_key(asked), question=asked.id, framing=asked.framing, text=text, **said)

    def approve(self, about: str = "") -> JobHarness:
        """Answer with approval, and go on."""
        return self.answer("approve", "yes", about).run()

    def intervene(self, text: str, thread: str = "", *, now: bool = False, authoritative: bool = False) -> JobHarness:
        return self.put("intervene", text=text, thread=thread, now=now, authoritative=authoritative)

    def withdraw(self, thread: str = "", reason: str = "enough") -> JobHarness:
        return self.put("withdraw", thread=thread, reason=reason)

    def pause(self) -> JobHarness:
        return self.put("pause")

    def resume(self) -> JobHarness:
        return self.put("resume")

    def call(self, order: Order, tool: str, **args: Any) -> JobHarness:
        """A call that bears an order's token, from whatever process."""
        return self.call_in(0, order, tool, args)

    def call_in(self, batch: int, order: Order, tool: str, args: Mapping[str, Any]) -> JobHarness:
        """The same, in the agent's message of that number."""
        self.turns.injected.append(
            Called(job=JOB, turn=order.turn, token=order.token, number=99, tool=tool, arguments=args, batch=batch)
        )
        return self

    def end(self, order: Order, text: str = "late", epoch: int | None = None) -> JobHarness:
        """A result of a turn, from whatever process."""
        behind = Confined(ok=True, held=1, tried=1)
        own = order.epoch if epoch is None else epoch
        self.turns.injected.append(Ended(JOB, order.turn, own, text, boundary=behind))
        return self

    def waits(self, agent: str, reason: str, seconds: float = 0.0) -> JobHarness:
        """An agent's present turn waits for its provider, or goes on, as its runner tells."""
        until = self.clock.now() + seconds if reason else 0.0
        self.turns.injected.append(Waiting(JOB, self.order(agent).turn, reason, until))
        self.crank()
        return self

    def fail(self, agent: str, fault: str, **more: Any) -> JobHarness:
        """End an agent's present turn as lost, as its runner would."""
        order = self.order(agent)
        self.turns.running.pop((JOB, order.turn)).alive = False
        self.turns.injected.append(Ended(JOB, order.turn, order.epoch, fault=fault, **more))
        self.crank()
        return self

    def lost(self, order: Order, usage: Mapping[str, float]) -> JobHarness:
        """A turn is lost, and its runner knows what it used."""
        self.turns.injected.append(Ended(JOB, order.turn, order.epoch, usage=usage, fault="it was lost"))
        return self

    def wait(self, seconds: float) -> JobHarness:
        """Let time pass."""
        until = self.clock.time + seconds
        while self.clock.time < until:
            self.crank(min(5.0, until - self.clock.time))
        self.crank(0.0)
        return self

    # ---- what there is to see ------------------------------------------------------------------

    @property
    def begun(self) -> bool:
        return any(row.job == JOB for row in self.outside.jobs())

    @property
    def soup(self) -> Soup:
        """The soup as its owner has it."""
        return self.live.soup

    @property
    def record(self) -> Record:
        return self.live.record

    @property
    def state(self) -> str:
        row = self.outside.load(JOB).row
        return row.state

    @property
    def subteams(self) -> list[Record]:
        """The nested records, oldest first."""
        return [record for record in self.soup.of(Record) if record.depth]

    def steps(self, *names: str) -> list[StepRow]:
        """The steps of these rules, or all."""
        return [step for step in self.outside.steps(JOB) if not names or step.rule in names]

    def fired(self, rule: str) -> int:
        return len(self.steps(rule))

    def messages(self, to: str = "", sender: str = "") -> list[MessageRow]:
        """The messages to an agent, in order."""
        rows = self.outside.messages(JOB)
        return [row for row in rows if to in ("", row.agent) and sender in ("", row.sender)]

    def bodies(self, to: str = "", sender: str = "") -> list[str]:
        return [row.body for row in self.messages(to, sender)]

    def body(self, name: str) -> str:
        return self.outside.message(JOB, int(name[1:])).body

    def reports(self, to: str, sender: str) -> list[str]:
        """What an agent reported to another, each without its first line, which is the protocol's."""
        return [words_of(body) for body in self.bodies(to, sender)]

    def told(self, agent: str) -> list[str]:
        """What an agent was given to read, turn by turn."""
        return [order.message for order in self.orders if order.agent == agent]

    def started(self, agent: str) -> int:
        return len(self.told(agent))

    def order(self, agent: str) -> Order:
        """An agent's last order."""
        return [order for order in self.orders if order.agent == agent][-1]

    def busy(self, agent: str) -> bool:
        return any(actor.order.agent == agent for actor in self.turns.running.values())

    def slept(self, agent: str) -> bool:
        """Whether the agent's present turn has come to a sleep."""
        turn = self.order(agent).turn
        actor = self.turns.running.get((JOB, turn))
        inner = inspect.getgeneratorlocals(actor.script) if actor else {}
        return inner.get("name") == "sleep"

    def thread(self, agent: str) -> str:
        """Where an agent works, or worked last."""
        alive = [surface.thread for surface in self.soup.of(Surface) if surface.agent == agent]
        return alive[-1] if alive else self.order(agent).thread

    def verdicts(self) -> list[Verdict]:
        return list(self.soup.of(Verdict))

    @property
    def refusals(self) -> list[str]:
        """What the agents' calls were refused with."""
        return [text for ok, text in self.replies if not ok]

    @property
    def actions(self) -> list[str]:
        """The actions that moved the job."""
        return [str(entry.action) for entry in self.record.history]

    def files(self, workspace: str = ROOT) -> dict[str, str]:
        return self.disk.work.get((JOB, workspace), {})

    def document(self, name: str = "state.json") -> dict[str, Any]:
        """A record as it lies on the disk."""
        document: dict[str, Any] = json.loads(self.disk.records[JOB, name])
        return document

    def kept(self, folder: str) -> list[str]:
        """The names of the files in a folder of the job's records."""
        return sorted(name for job, name in self.disk.records if job == JOB and name.startswith(f"{folder}/"))

    def stream(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.disk.streams.get((JOB, name), [])]

    def notes(self) -> list[str]:
        """What became of each input."""
        return [note_words(row) for row in self.outside.inputs(JOB, waiting=False)]

    # ---- what must be true whenever it rests ---------------------------------------------------

    def check(self) -> None:
        """Invariants, deliveries, records, and the audit."""
        job = self.live
        check(job.soup)
        assert not self.turns.unrecorded
        assert not self.turns.late_calls_accepted
        state = self.document()
        anchor = state.pop("head")
        taken = answered(self.outside.inputs(JOB, waiting=False))
        assert [answer["by"] for answer in state.pop("answers")] == [row.by for row in taken]
        assert state == state_document(job.record)
        for record in self.subteams:
            name = record.id.partition(":")[2]
            assert self.document(f"records/{name}.json") == state_document(record)
        report = audit(self.outside, JOB, anchor, papers=SimPapers(self.disk, JOB))
        assert report.ok, [*report.findings, *(map(str, report.files.odd) if report.files else ())]
        self.check_interventions()
        begun = Counter(deliveries(self.steps()))
        assert all(count in (0, 1) for count in begun.values()), begun
        if not job.record.live:
            left = [m for m in job.soup if type(m).__name__ in ENDED]
            assert not left, f"the job has ended and left {left}"
            assert not self.turns.running

    def check_interventions(self) -> None:
        """What is told of each intervention is so: it waits while its Interrupt does; what was delivered was read."""
        assert not misreported(self.outside, JOB, self.soup)
        for one in interventions(self.outside, JOB):
            read = any(one.text in order.message for order in self.orders if order.agent == one.agent)
            assert read or one.status != "delivered" or one.agent in code_of(self.row), one


ENDED = {"Run", "Idle", "Mailbox", "Send", "AskQuestion", "Proxy", "AskHuman", "Surface", "Interrupt", "Terminate"}


def words_of(report: str) -> str:
    """An agent's own words in a report; any other message as it is."""
    return re.sub(r"\A\[REPORT\] [^\n]*\n", "", report)


def deliveries(steps: Sequence[StepRow]) -> dict[str, int]:
    """How often each message was begun and not given back."""
    begun: Counter[str] = Counter()
    for step in steps:
        if step.rule in ("wake", "wake-int", "interrupt"):
            begun[run_of(step.produced)] += 1
        elif step.rule == "recover" or (step.rule == "give-up" and " state:" in step.at):  # a lead keeps its message
            begun[run_of(step.consumed)] -= 1
    return begun


def run_of(briefs: str) -> str:
    """The message of the Run that a step's row names."""
    return next(all_named(NamedRun, briefs)).message
