"""One run of a seed, and what must be true of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from parley.assembly import make_engine
from parley.audit.audit import audit
from parley.base.json_codec import encode
from parley.bus.memory_store import MemoryBus, MemoryStore
from parley.bus.rows import Duplicate, JobRow, LostOwnership, Owned
from parley.engine.inputs import answer_key
from parley.engine.loop import Engine
from parley.engine.turn.start import day_of
from parley.engine.values import hold_causes, step_extra
from parley.engine.values.hold_causes import Stall, stalls, wait_of
from parley.engine.values.human_inputs import AnswerInput, Input, InterveneInput, PauseInput, ResumeInput, WithdrawInput
from parley.engine.values.job_roles import charter_of
from parley.engine.values.step_names import NamedRun, all_named, place_of
from parley.engine.world import World
from parley.protocol.codec import decode_molecule
from parley.protocol.molecules import AskHuman, Hold, Idle, Mailbox, Record, Ruling, Run, Surface, thread_kind
from parley.protocol.rule import RuleSet
from parley.protocol.rules import RULES
from parley.protocol.soup import Soup
from parley.roles.role_snapshot import RoleSnapshot
from parley.verify.invariants import check
from parley.views.job_view import Present, soup_of
from parley.views.questions.needs import needs
from simulator import budgets, ledger
from simulator.agents import SimTurns
from simulator.disk import SimDisk, SimFiles, SimPapers, SimWorkspace
from simulator.minds import fault, mind
from simulator.scenario import Scenario, scenario
from simulator.spoken import misreported
from simulator.survival import Rows, Settled, audit_append_only, bus_durability, rows_of, settled_in
from simulator.workflows import has_workflow, with_workflow
from simulator.world import BEGINNING, Crash, Fuse, Schedule, SimClock, SimIds, SimStore

T = TypeVar("T")

JOB = "sim"
CRANKS = 10_000
PATIENCE = 50_000.0  # virtual seconds
ANSWERS = 150  # then the human withdraws: one who goes on sending a job back would keep a run from its end
WEARY = CRANKS // 2  # then who pays withdraws it: each yes may buy a long round, and a playbook's yes never ends
STALL_SECONDS = 8.0
LOOKED_AT = 3  # of so many crashes of a workflow one is followed by an audit, files and all
SEEN = ('["AskHuman"', '["Hold"', '["Record"', '["Surface"')  # how those molecules begin that the human looks at


class Failed(Exception):
    """A run that broke a promise. The seed replays it."""

    def __init__(self, seed: int, why: str, which: str = "") -> None:
        super().__init__(f"seed {seed}: {why}\n  replay: python -m simulator {which}--seed {seed} --trace")
        self.seed = seed
        self.why = why


@dataclass
class Result:
    """What a run came to."""

    seed: int
    state: str
    head: str
    steps: int
    crashes: int
    time: float
    fired: Counter[str] = field(default_factory=Counter)


class Simulation:
    """One seed's world and everything that happens in it."""

    engine: Engine  # of the present process

    def __init__(self, seed: int, rules: RuleSet = RULES, trace: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.rules = rules
        self.trace = trace or (lambda text: None)
        self.rng = Random(seed)
        self.scenario: Scenario = scenario(self.rng)
        if has_workflow(seed):
            self.scenario = with_workflow(seed, self.scenario)
        self.mind = mind(seed)
        self.clock = SimClock()
        self.ids = SimIds()
        self.schedule = Schedule(self.clock)
        self.bus = MemoryBus(b"simulated")
        self.disk = SimDisk()
        self.fuses = list(self.scenario.crashes)
        self.processes = 0
        self.crashes = 0
        self.answered = self.cranks = self.heard = 0
        self.outside = MemoryStore(self.bus, "outside")
        self.turns: SimTurns | None = None
        self.settled: Settled | None = None
        self.rows: Rows | None = None
        self.prepare()

    # ---- processes -------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make what is there before the first process."""

    def within(self, act: Callable[[], T]) -> T:
        """Have the present process do something."""
        return act()

    def boot(self) -> Engine:
        """A new process."""
        if self.turns is not None:
            self.turns.close()
        self.processes += 1
        fuse = Fuse(self.fuses.pop(0) if self.fuses else None, self.rng)
        self.turns = SimTurns(
            self.schedule, self.disk, self.rng, fuse, faults=self.scenario.faults, outside=self.outside
        )
        world = World(
            store=SimStore(self.bus, f"process-{self.processes}", fuse, ahead=self.seed % 3),
            turns=self.turns,
            workspace=SimWorkspace(self.disk, fuse),
            files=SimFiles(self.disk, fuse),
            clock=self.clock,
            ids=self.ids,
            decisions=self.mind.decisions,
        )
        self.mind.decisions.fuse = fuse
        return make_engine(world, self.rules)

    def died(self, why: str) -> None:
        """The process is gone, and with it its locks and its turns."""
        self.trace(f"{self.clock.time:9.2f} process {self.processes} died: {why}")
        self.crashes += 1
        self.judge_survival()
        self.bus.kill(f"process-{self.processes}")
        self.judge_survival()
        if self.scenario.has_workflow and self.crashes % LOOKED_AT == 0 and self.outside.jobs():
            self.judge_record()
        self.engine = self.boot()

    def open(self) -> None:
        """Start the job, however often the process dies over it."""
        made = self.scenario
        roles = made.roles or [RoleSnapshot(name=name, team=tuple(made.teams.get(name, ()))) for name in made.agents]
        settings = {
            "roles": roles,
            "policies": self.mind.policies or list(made.policies),
            "fan_out": made.fan_out,
            "crash_budget": 3,
            "retry_budget": 2,
            "brief_human": self.seed % 5 != 0,
            "time_limit_seconds": 30,
            "stall_seconds": STALL_SECONDS,
            "budget": budgets.budget(self.seed),
            "agents": made.agents,
            "proxy": self.mind.proxy or made.proxy,
            "human": made.stand_in,
            "memory": self.mind.settings,
        }
        row = JobRow(
            job=JOB,
            request="do it",
            decider="me",
            created=BEGINNING,
            updated=BEGINNING,
            agent="scripted",
            settings=encode(settings),
        )
        try:
            self.within(lambda: self.engine.start(row, charter_of(row)))
        except Crash as crash:
            self.died(str(crash))

    def alive(self) -> Engine:
        """An engine that owns the job."""
        while JOB not in self.engine.jobs:
            try:
                if not any(row.job == JOB for row in self.outside.jobs()):
                    self.open()
                else:
                    self.within(lambda: self.engine.adopt(JOB))
            except Crash as crash:
                self.died(str(crash))
        return self.engine

    # ---- the run -----------------------------------------------------------------------------------

    def run(self) -> Result:
        """Run to the end, or to where only a silent human could go on."""
        self.engine = self.boot()
        self.schedule.after(1.0, self.human)
        self.schedule.after(1.0, self.patron)
        self.open()
        checked = 0
        for self.cranks in range(CRANKS):
            engine = self.alive()
            job = engine.jobs[JOB]
            if not job.record.live:
                break
            if self.clock.time > PATIENCE:
                break
            try:
                self.disturb()
                if engine is not self.engine:
                    continue  # it was deposed, and has stopped
                self.within(lambda engine=engine: engine.crank(5.0))  # type: ignore[misc] # mypy infers no lambda with a default
            except Crash as crash:
                self.died(str(crash))
                continue
            except LostOwnership as lost:
                self.died(f"lost ownership: {lost}")
                continue
            if job.counters.transaction != checked:
                checked = job.counters.transaction
                check(job.soup, self.rules)
                self.settled = None if job.dirty else Settled(checked, tuple(job.soup))
            elif self.given_up(job.soup):
                break
        self.finish()
        return self.judge()

    def given_up(self, soup: Soup) -> bool:
        """Whether only a human who stays silent could go on."""
        if self.scenario.human != "silent" or self.scenario.stand_in is not None:
            return False
        running = self.answers(soup) or (self.turns is not None and self.turns.running)
        return bool(soup.of(AskHuman)) and not running and not soup.of(Hold)

    def finish(self) -> None:
        """The last process ends in good order, or the one after it does."""
        while JOB in self.alive().jobs:
            try:
                self.within(lambda: self.engine.crank(0.0))
                self.within(lambda: self.engine.release(JOB))
                return
            except (Crash, LostOwnership) as crash:
                self.died(str(crash))

    def disturb(self) -> None:
        """A second owner, and a lock that gets lost."""
        if self.rng.random() < self.scenario.faults.get("two owners", 0.0):
            rival = MemoryStore(self.bus, "rival")
            try:
                rival.own(JOB)
            except Owned:
                pass
            else:
                raise Failed(self.seed, "a living owner was displaced")
        if self.rng.random() < self.scenario.faults.get("lost lock", 0.0):
            self.depose()

    def depose(self) -> None:
        """The process loses its lock and does not know it; another takes the job; both go on."""
        old, turns, fuses = self.engine, self.turns, self.fuses
        self.bus.steal(JOB)
        self.bus.kill("thief")
        self.turns, self.fuses = None, []
        self.engine = self.boot()
        self.alive()
        self.fuses = fuses
        before = self.outside.load(JOB).transaction
        try:
            for _ in range(3):
                old.crank(0.0)
        except (Crash, LostOwnership) as stopped:
            self.trace(f"{self.clock.time:9.2f} the deposed process stopped: {stopped}")
        if self.outside.load(JOB).transaction != before:
            raise Failed(self.seed, "a process that lost its lock has gone on writing")
        if turns is not None:
            turns.close()

    # ---- the human ---------------------------------------------------------------------------------

    def human(self) -> None:
        """Now and then the human looks at what there is."""
        made = self.scenario
        pause = {"prompt": 3.0, "late": 120.0, "silent": 1000.0}[made.human]
        self.schedule.after(self.rng.random() * pause, self.human)
        if not any(row.job == JOB for row in self.outside.jobs()):
            return
        loaded = self.outside.load(JOB)
        if not loaded.transaction:
            return
        soup = Soup(decode_molecule(body) for body in loaded.molecules.values() if body.startswith(SEEN))
        for asked in soup.of(AskHuman):
            if self.answers(soup):
                self.answer(asked)
        if self.rng.random() < made.meddling:
            self.meddle(soup)
        if self.rng.random() < made.faults.get("race", 0.0):
            self.race(soup)
        if soup.of(Hold) and self.rng.random() < 0.5:
            self.put(ResumeInput())

    def answers(self, soup: Soup) -> bool:
        """Whether the human answers; about a workflow nobody is silent before it begins."""
        if self.scenario.stand_in is not None:
            return False
        begins = self.scenario.has_workflow and soup.need(Record, JOB).state != "EXECUTE"
        return self.scenario.human != "silent" or begins

    def patron(self) -> None:
        """Whoever pays raises what is spent, also where nobody answers: so every run comes to its end."""
        self.schedule.after(20.0, self.patron)
        answers = sum(row.kind == "answer" for row in self.outside.inputs(JOB, waiting=False))
        self.heard = self.heard if self.cranks > WEARY else answers
        if answers > self.heard:  # without another yes it is stuck, or goes on by itself: both are to be found
            self.put(WithdrawInput(reason="it comes to nothing"), "withdraw:weary")
        if any(row.job == JOB and row.needs_human for row in self.outside.jobs()):
            present = Present(self.outside, JOB)
            if present.unpaid:
                raised = budgets.raises(self.rng, present)
                self.put(ResumeInput(raised=raised, day=day_of(self.clock.now())))

    def soup(self) -> Soup:
        """The soup as the bus has it."""
        return soup_of(self.outside.load(JOB))

    def answer(self, asked: AskHuman) -> None:
        """Say something, once or twice."""
        rulings = self.scenario.rulings
        ruling = self.rng.choices(list(rulings), list(rulings.values()))[0]
        self.answered += 1
        if self.answered > ANSWERS:
            ruling = "withdraw"
        text = self.rng.choice(("so be it", *self.scenario.says)) if self.scenario.says else "so be it"
        verdict = Ruling(ruling) if ruling else None
        given = AnswerInput(question=asked.id, framing=asked.framing, ruling=verdict, text=text)
        if not self.put(given, answer_key(asked)):
            return
        twice = self.rng.random() < self.scenario.faults.get("double answer", 0.0)
        if twice and self.put(given, answer_key(asked)):
            raise Failed(self.seed, "an answer was taken twice")

    def meddle(self, soup: Soup) -> None:
        """Intervene, pause or withdraw, anywhere."""
        threads = sorted(surface.thread for surface in soup.of(Surface))
        if not threads:
            return
        thread = self.rng.choice(threads)
        what = self.rng.choice(("intervene", "intervene", "intervene", "pause", "withdraw"))
        if what == "intervene":
            now, authoritative = self.rng.random() < 0.5, self.rng.random() < 0.3
            given = InterveneInput(thread=thread, text="mind this", now=now, authoritative=authoritative)
            self.put(given, by="me" if self.rng.random() < 0.9 else "another")
        elif what == "withdraw":
            self.put(WithdrawInput(thread=thread, reason="enough"))
        else:
            self.put(PauseInput())

    def race(self, soup: Soup) -> None:
        """Several people at once, in any order, before anybody looks: what came first counts, and nothing is lost."""
        deeds: list[Callable[[], object]] = [lambda: self.meddle(soup) for _ in range(self.rng.randrange(1, 4))]
        deeds += [lambda asked=asked: self.answer(asked) for asked in soup.of(AskHuman)]  # type: ignore[misc] # mypy infers no lambda with a default
        deeds += [lambda: self.put(ResumeInput()), lambda: self.put(PauseInput())]
        self.rng.shuffle(deeds)
        for deed in deeds:
            deed()

    def put(self, given: Input, key: str | None = None, by: str = "me") -> bool:
        """Leave an input on the bus; whether it was new."""
        try:
            name = key or f"{given.kind}:{self.ids.new()}"
            self.outside.put(JOB, given.kind, name, self.clock.now(), by, encode(given))
        except Duplicate:
            return False
        self.trace(f"{self.clock.time:9.2f} human: {given}")
        return True

    # ---- what must be true -------------------------------------------------------------------------

    def judge(self) -> Result:
        """Check everything that was promised."""
        store = self.outside
        soup = self.soup()
        record = soup.need(Record, JOB)
        check(soup, self.rules)
        self.judge_end(soup, record)
        self.judge_deliveries(soup)
        self.judge_turns(soup, record)
        broken = budgets.broken(store, SimFiles(self.disk, Fuse(None, self.rng)), JOB)
        if broken:
            raise Failed(self.seed, broken)
        if law := ledger.broken(store, self.disk, JOB, self.scenario.fan_out):
            raise Failed(self.seed, law)
        self.judge_inputs()
        if wrong := misreported(store, JOB, soup):
            raise Failed(self.seed, wrong)
        self.judge_stalls(soup)
        self.judge_waits(soup)
        state = json.loads(self.disk.records[JOB, "state.json"])
        self.judge_record()
        self.judge_survival()
        if wrong := fault(self.mind, JOB, store):
            raise Failed(self.seed, wrong)
        work = dict(record.approved).get("WORK_SUMMARY.md")
        there = SimWorkspace(self.disk, Fuse(None, self.rng)).snapshot(JOB, f"job:{JOB}", "").tree
        if record.state == "DONE" and work != there:
            raise Failed(self.seed, "what was approved is not what is there")
        if state["state"] != record.state or len(state["history"]) != len(record.history):
            raise Failed(self.seed, "state.json says something else than the bus")
        fired = Counter(step.rule for step in store.steps(JOB))
        last = store.load(JOB).transaction
        head = last.head if last else ""
        return Result(
            seed=self.seed,
            state=str(record.state),
            head=head,
            steps=sum(fired.values()),
            crashes=self.crashes,
            time=self.clock.time,
            fired=fired,
        )

    def judge_survival(self) -> None:
        """What was committed is there, and every row is as it was before a process died."""
        if not any(row.job == JOB for row in self.outside.jobs()):
            return
        settled, rows = settled_in(self.outside.load(JOB)), rows_of(self.outside, JOB)
        lost = bus_durability(self.settled, settled) or audit_append_only(self.rows, rows)
        if lost:
            raise Failed(self.seed, lost)
        self.settled, self.rows = settled, rows

    def judge_record(self) -> None:
        """The record holds, and the files say what it says; also where a process has just died."""
        state = self.disk.records.get((JOB, "state.json"))
        anchor = json.loads(state)["head"] if state is not None else None
        report = audit(self.outside, JOB, anchor, self.rules, papers=SimPapers(self.disk, JOB))
        if not report.ok:
            odd = report.files.odd if report.files is not None else ()
            raise Failed(self.seed, f"the audit found: {[*report.findings, *map(str, odd)]}")

    def judge_end(self, soup: Soup, record: Record) -> None:
        """A terminal, or a human who is awaited."""
        if not record.live:
            left = [m for m in soup if isinstance(m, Run | Idle | Mailbox | AskHuman | Surface)]
            if left:
                raise Failed(self.seed, f"the job has ended and left {left[0]}")
        elif not soup.of(AskHuman) and not soup.of(Hold):
            raise Failed(self.seed, f"it ended in {record.state} while no one was awaited")
        elif self.scenario.human != "silent" or self.scenario.stand_in is not None:
            raise Failed(self.seed, f"it did not end although the human answers: {record.state}")
        else:
            files = SimFiles(self.disk, Fuse(None, self.rng))
            shown = needs(self.outside, files, [self.outside.load(JOB).row])
            if not shown or not all(need.exits for need in shown):
                raise Failed(self.seed, f"the human is awaited, and is not shown what to do: {shown}")

    def judge_deliveries(self, soup: Soup) -> None:
        """Every message is begun once for each time it was not given back."""
        begun: Counter[str] = Counter()
        for step in self.outside.steps(JOB):
            if step.rule == "wake":
                begun[next(all_named(NamedRun, step.produced)).message] += 1
            elif step.rule in ("wake-int", "interrupt"):
                begun[place_of(step).message] += 1
            elif step.rule == "recover" or (step.rule == "give-up" and thread_kind(place_of(step).thread) == "state"):
                begun[next(all_named(NamedRun, step.consumed)).message] -= 1
        twice = [message for message, count in begun.items() if count > 1 or count < 0]
        if twice:
            raise Failed(self.seed, f"{twice[0]} was delivered {begun[twice[0]]} times")

    def judge_turns(self, soup: Soup, record: Record) -> None:
        """No work after the end, and no call from beyond a turn."""
        if self.turns is None:
            return
        if self.turns.running:
            raise Failed(self.seed, f"still running after the end: {list(self.turns.running)}")
        if self.turns.unrecorded:
            raise Failed(self.seed, f"a turn was run before it was committed: {self.turns.unrecorded[0]}")
        if self.turns.late_calls_accepted:
            raise Failed(self.seed, f"a late call was accepted: {self.turns.late_calls_accepted[0]}")
        self.judge_record_of_turns(record)

    def judge_record_of_turns(self, record: Record) -> None:
        """No turn is out after the end, and nothing comes after a withdrawal."""
        submitted = [turn for turn in self.outside.turns(JOB) if turn.status == "submitted"]
        if submitted and not record.live:
            raise Failed(self.seed, f"a turn is still out: {submitted[0].turn}")
        ended = [
            step.transaction
            for step in self.outside.steps(JOB)
            if step.rule == "transition" and "WITHDRAW" in step.choice
        ]
        after = [s for s in self.outside.steps(JOB) if ended and not record.live and s.transaction > ended[-1]]
        if after and record.state == "WITHDRAWN":
            raise Failed(self.seed, f"step {after[0].number} ({after[0].rule}) came after the withdrawal")

    def judge_inputs(self) -> None:
        """Whatever was asked was taken, and what became of it is noted."""
        lost = [row for row in self.outside.inputs(JOB, waiting=False) if not row.taken or not row.note]
        if lost:
            raise Failed(self.seed, f"input {lost[0].number} ({lost[0].kind}) was lost")

    def judge_waits(self, soup: Soup) -> None:
        """Nobody is said to wait for a provider within a turn that is over."""
        for hold in soup.of(Hold):
            wait, run = wait_of(hold.cause), soup.get(Run, hold.thread)
            if wait is not None and wait.turn and (run is None or run.turn != wait.turn):
                raise Failed(self.seed, f"{hold.thread} is said to wait in turn {wait.turn}, which is over")

    def judge_stalls(self, soup: Soup) -> None:
        """Nobody is called stalled who is not at work, or who was silent for less than the limit."""
        idle = [hold for hold in stalls(soup) if soup.get(Run, hold.thread) is None]
        if idle:
            raise Failed(self.seed, f"{idle[0].thread} is called stalled, and is not at work")
        held = (step for step in self.outside.steps(JOB) if step.rule == "hold")
        steps = [step for step in held if isinstance(hold_causes.read(json.loads(step.choice)), Stall)]
        hasty = [step for step in steps if step_extra.read(step.extra).silent < STALL_SECONDS]
        if hasty:
            raise Failed(self.seed, f"step {hasty[0].number} calls one stalled that was not silent for long")
        told = sum(row.key.startswith("stalled:") for row in self.outside.messages(JOB))
        if told > len(steps):
            raise Failed(self.seed, f"{told} were told of {len(steps)} stalls")


def simulate(seed: int, rules: RuleSet = RULES, trace: Callable[[str], None] | None = None) -> Result:
    """Run a seed and judge it. Raises Failed, with the seed."""
    try:
        return Simulation(seed, rules, trace).run()
    except Failed:
        raise
    except Exception as error:
        raise Failed(seed, f"{type(error).__name__}: {error}") from error
