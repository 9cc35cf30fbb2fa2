"""The engine: events in, one transaction, then effects. It may die at any moment and lose at most a turn."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from parley.core.conversation import enclosing
from parley.core.errors import Refused
from parley.core.gates import given_up
from parley.core.rule import Opening, RuleSet
from parley.core.rules import RULES
from parley.core.states import LIVE, PHASES, Record
from parley.core.terms import (
    HUMAN,
    ORCHESTRATOR,
    PROXY,
    Charter,
    Hold,
    Idle,
    Interrupt,
    Mailbox,
    MessageKind,
    Run,
    Surface,
    Verdict,
)
from parley.engine import (
    designs,
    giving_up,
    inputs,
    intake,
    liveness,
    orchestration,
    records,
    recovery,
    remembering,
    rest,
    spending,
    stand_in,
    texts,
    waits,
)
from parley.engine.budgets import Line, Tally, day_of
from parley.engine.calls import call, may_ask
from parley.engine.chain import origin
from parley.engine.clones import site_of
from parley.engine.code_agent import CodeAgent
from parley.engine.compartment import Broken, Compartments, answers_of, is_contained
from parley.engine.designing import Group
from parley.engine.endings import discarded, end_turn, led_by
from parley.engine.executing import Executor
from parley.engine.flows import at_work
from parley.engine.given import shown_to, skills_of
from parley.engine.herald import Herald
from parley.engine.live import LiveJob
from parley.engine.losing import stillborn, unpark
from parley.engine.names import advice_slot, handle_of, number_of, tree_slot
from parley.engine.orchestrator import Orchestrator
from parley.engine.proxying import briefing
from parley.engine.records import quote
from parley.engine.recovery import ANCHOR_EVERY
from parley.engine.reduce import acknowledge, message, terminate
from parley.engine.reports import owned, scope_of
from parley.engine.roster import CODE, charter_of, offered, time_limit
from parley.engine.sending import sent_to
from parley.engine.turn import Turn
from parley.engine.world import World
from parley.ports import (
    BusError,
    Called,
    Ended,
    JobRow,
    Order,
    Progress,
    SetUpFailed,
    Store,
    TurnEvent,
    Waiting,
)
from parley.text import BadText
from parley.workflow.terms import EXECUTOR, GROUP

LINES_BUFFERED = 4096
LINES_A_STREAM = 16  # more where there are many streams, so that each is not opened for a line or two
LISTEN_SECONDS = 0.005  # between two looks for inputs while turns end one after the other
REFUSALS = 20  # of a turn's calls that are kept with its end; its stream has all
SEALED = {state: tuple(PHASES[earlier].artifact for earlier in LIVE[:number]) for number, state in enumerate(LIVE)}
AGENTS: dict[str, type[CodeAgent]] = {ORCHESTRATOR: Orchestrator, EXECUTOR: Executor, GROUP: Group}


def collect_seldom() -> None:
    """Let Python look for garbage in cycles seldom: for a process that runs jobs, before it does.

    The engine makes hundreds of small objects in a turn and no cycles among them. With Python's own settings
    the collector goes through what has yet to be committed again and again, and through every job's soup.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)


def _refuse_changed(store: Store, row: JobRow) -> None:
    """Go on with no job whose decider or settings are others than it was opened with: they say who may decide."""
    first = next(store.steps(row.job), None)
    if first is not None and first.extra != origin(row):
        raise BusError(
            f"job {row.job}: its row on the bus is not the one that it was opened with: another program changed who "
            f"decides, or the job's settings; see `parley audit {row.job}`"
        )


def _begun_as(live: LiveJob, turn: Turn, above: Surface | None) -> str:
    """The workspace that a new one begins as: its dispatcher's, or what a workflow says."""
    found = at_work(live, turn.thread)
    if found is not None and found[1].base and found[1].kind != "doer":
        return found[1].base
    return above.workspace if above else ""


class Engine:
    """Runs the jobs that this process owns."""

    def __init__(self, world: World, rules: RuleSet = RULES) -> None:
        self.world = world
        self.rules = rules
        self.jobs: dict[str, LiveJob] = {}
        self._anchored: dict[str, int] = {}
        self._recorded: dict[str, dict[str, Record]] = {}
        self._lines = defaultdict[tuple[str, str], list[str]](list)
        self._logged = 0  # how many lines wait to be written
        self._room = LINES_BUFFERED  # how many may
        self._started: list[tuple[LiveJob, Turn]] = []
        self._look = True  # whether inputs may be waiting
        self._herald = Herald(world)
        self._stillborn: list[TurnEvent] = []  # the ends of turns that could not begin
        self._clean = world.secrets.redact
        self._pulse = liveness.Pulse(world.clock)
        self._listened = 0.0  # when it was last looked whether another process has written
        self._apart = Compartments(world)
        self._days: dict[str, Tally] = {}  # what all jobs have used up, while nobody else can add to it
        self._nearly: list[tuple[LiveJob, Line]] = []  # budgets that the human is to hear of, once that is committed

    # ---- taking a job on -----------------------------------------------------------------------

    def start(self, row: JobRow, charter: Charter) -> LiveJob:
        """Open a new job. It has begun when this returns, and will go on after a crash."""
        store, now = self.world.store, self.world.clock.now()
        store.create(row)
        live = LiveJob(row, store.own(row.job), self.rules)
        request = live.write(
            (HUMAN, live.thread),
            (ORCHESTRATOR, live.thread),
            row.request,
            kind=MessageKind.REQUEST,
            key="request",
            time=now,
            meta={"request": True},
        )
        opening = Opening(charter, request)
        live.fire("open", row.job, choice=opening, who=row.decider or HUMAN, time=now, extra=origin(row))
        self.jobs[row.job] = live
        self._advance()
        return live

    def adopt(self, job: str, *, asleep: bool = False, untouched: bool = False) -> LiveJob:
        """Take over a job whose owner is gone, and go on from its last commit; asleep: without any turn of an agent.

        `untouched`: workspaces stay as the last owner left them, for want of room to put them back.
        Broken where Parley itself fails in that: then the job has no owner again.
        """
        epoch = self.world.store.own(job)
        try:
            live = self._take_over(job, epoch, asleep=asleep, untouched=untouched)
        except BaseException as error:
            self.jobs.pop(job, None)
            self.world.store.disown(job)
            if self.world.faults is not None and isinstance(error, Exception) and is_contained(error):
                raise Broken(self._apart.write_down(job, error)) from error
            raise
        self._advance()
        return live

    def _take_over(self, job: str, epoch: int, *, asleep: bool, untouched: bool) -> LiveJob:
        store = self.world.store
        loaded = store.load(job)
        _refuse_changed(store, loaded.row)
        live = LiveJob.resume(loaded, epoch, self.rules)
        live.answers = answers_of(store, job)
        live.asleep = asleep
        self.jobs[job] = live
        self._look = True
        if loaded.transaction is None:
            self._reopen(live)
        now = self.world.clock.now()
        self.world.turns.reclaim(job)
        self.world.workspace.reclaim(job)
        if not untouched:
            recovery.restore(live, self.world)
        orchestration.all_again(live)
        recovery.keep_outcomes(live, self.world)
        remembering.again(live, self.world)
        remembering.keep(live, self.world)  # before the next commit: a crash after it would find only that one
        for turn in loaded.turns:
            live.forget(turn)
        for run in recovery.orphans(live):
            live.lost[run.agent, run.thread] = recovery.logged_calls(live, self.world, run)
            live.fire("recover", run.agent, run.thread, choice="engine", who=ORCHESTRATOR, time=now)
        for row in store.inputs(job):  # before any turn starts: a withdrawal or a pause may be waiting
            inputs.take(live, self.world, row)
        return live

    def make_good(self, job: str) -> None:
        """Do again what follows from a job's end: a crash may have come between its last commit and that."""
        store = self.world.store
        epoch = store.own(job)
        live = self.jobs[job] = LiveJob.resume(store.load(job), epoch, self.rules)
        live.answers = answers_of(store, job)
        self.world.turns.reclaim(job)
        self.world.workspace.reclaim(job)
        recovery.restore(live, self.world)
        self.world.workspace.retire(job, live.thread)
        recovery.keep_outcomes(live, self.world)
        remembering.again(live, self.world)
        self._act()
        self._anchor(live, force=True)
        self.release(job)

    def _reopen(self, live: LiveJob) -> None:
        """The job was made known and nothing more: open it now, from its own row."""
        now = self.world.clock.now()
        charter = charter_of(live.job, live.settings)
        request = live.write(
            (HUMAN, live.thread),
            (ORCHESTRATOR, live.thread),
            live.row.request,
            kind=MessageKind.REQUEST,
            key="request",
            time=now,
            meta={"request": True},
        )
        opening, who = Opening(charter, request), live.row.decider or HUMAN
        live.fire("open", live.job, choice=opening, who=who, time=now, extra=origin(live.row))

    def release(self, job: str) -> None:
        """Let go of a job that has ended, or that somebody else is to go on with."""
        live = self.jobs[job]
        if not live.record.live:  # whoever asked something of it meanwhile is told that it has ended
            for row in self.world.store.inputs(job):
                inputs.take(live, self.world, row)
            if live.dirty:
                self.world.store.commit([live.flush(self.world.clock.now())])
        del self.jobs[job]
        remembering.keep(live, self.world)
        for turn in list(live.running):
            self.world.turns.cancel(job, turn)
        self._write_lines()
        self._anchor(live)
        if not live.record.live:
            self._herald.ended(live)
        self.world.store.disown(job)

    # ---- the crank -----------------------------------------------------------------------------

    def crank(self, timeout_seconds: float) -> bool:
        """Take what has happened, reduce, commit, act. Whether anything happened."""
        for live in self.jobs.values():
            self._apart.enter(live.job, "", self._look_after, live)
        stillborn, self._stillborn = self._stillborn, []
        events = [*stillborn, *self.world.turns.events(0.0 if self._look or stillborn else timeout_seconds)]
        self._pulse.beat()
        for event in events:
            self._apart.enter(event.job, event.turn, self._take, event)
        taken = self._take_inputs(busy=bool(events))
        if self._pulse.due():
            for live in self.jobs.values():
                self._apart.enter(live.job, "", liveness.look, live, self.world, self._pulse)
        if not events and not taken:
            self._write_lines()
            for live in self.jobs.values():
                self._apart.enter(live.job, "", self._anchor, live)
        advanced = self._advance()
        return bool(events) or taken or advanced

    def _look_after(self, live: LiveJob) -> None:
        # now, while all that the soup holds is committed: nobody answers what a crash may take back
        self._look |= stand_in.speak(live, self.world)
        if live.asking or live.held or live.parked:
            self._herald.look(live)
        if live.parked:
            unpark(live, self.world)
        if live.unpaid:
            spending.review(live, self.world)

    def put_aside(self) -> dict[str, str]:
        """The jobs that were let go of since the last call because Parley itself failed in them, and why."""
        aside, self._apart.aside = self._apart.aside, {}
        return aside

    def _restore_broken(self) -> None:
        """Take back what is not committed of each broken job, or let go of it."""
        for job, why in list(self._apart.broken.items()):
            live = self.jobs.pop(job, None)
            if live is None:
                del self._apart.broken[job]
                continue
            self._started = [(of, turn) for of, turn in self._started if of is not live]
            self._nearly = [(of, line) for of, line in self._nearly if of is not live]
            again = self._apart.reload(live, why)
            del self._apart.broken[job]
            if again is not None:
                self.jobs[job] = again
            else:
                self._apart.aside[job] = why
                self.world.store.disown(job)

    def _take(self, told: TurnEvent) -> None:
        event = intake.heard(told)
        live = self.jobs.get(event.job)
        turn = live.running.get(event.turn) if live else None
        if isinstance(event, Called):
            self._called(live, turn, event)
        elif live is None or turn is None:
            return
        elif isinstance(event, Progress):
            liveness.hear(live, self.world, turn, event, self._pulse)
            over = ',"over":true' if event.over else ""
            used = f',"tool":{quote(event.tool)},"use":{quote(event.use)}{over}' if event.tool else ""
            self._log(live, turn, "progress", self._clean(f'"text":{quote(event.text)}{used}'))
        elif isinstance(event, Waiting):
            liveness.hear(live, self.world, turn, event, self._pulse)
            self._log(live, turn, *waits.hear(live, self.world, turn, event))
        else:
            self._ended(live, event)

    def _called(self, live: LiveJob | None, turn: Turn | None, event: Called) -> None:
        ok, text = False, "this turn is over"
        data: dict[str, Any] = {}
        if live is not None and turn is not None and event.token == turn.token:
            liveness.hear(live, self.world, turn, event, self._pulse)
            try:
                arguments = intake.arguments_of(event)
                text, data = call(live, self.world, turn, event.tool, arguments, event.batch)
                ok = True
                said = f'"tool":{quote(event.tool)},"call":{quote(turn.calls[-1])}'
                self._log(live, turn, "call", self._clean(said))
            except (Refused, BadText) as refused:
                text = f"{refused}; {refused.remedy}" if isinstance(refused, BadText) else str(refused)
                if len(turn.refused) < REFUSALS:
                    turn.refused.append(texts.fit(f"{event.tool}: {self._clean(text)}"))
                self._log(live, turn, "refused", self._clean(f'"tool":{quote(event.tool)},"why":{quote(text)}'))
        self.world.turns.reply(event.job, event.turn, event.number, ok, text, data)

    def _ended(self, live: LiveJob, event: Ended) -> None:
        turn = end_turn(live, self.world, event)
        if turn is None:
            return
        if event.fault:
            self._log(live, turn, "lost", self._clean(f'"fault":{quote(event.fault)}'))
        else:
            usage = records.dumps(dict(event.usage)) if event.usage else "{}"
            said = texts.excerpt(self._clean(event.text))  # in this order: half a secret is one too
            self._log(live, turn, "end", f'"text":{quote(said)},"usage":{self._clean(usage)}')

    def _take_inputs(self, *, busy: bool) -> bool:
        """Take what other processes have left, at once where there is nothing else to do."""
        taken = False
        if not self._look:
            # by the clock: a turn's end may just have taken long, and have been cut short because the job is given up
            if busy and self.world.clock.monotonic() - self._listened < LISTEN_SECONDS:
                return False
            self._listened = self.world.clock.monotonic()
            if not self.world.store.changed():
                return False
        self._look = False
        for live in self.jobs.values():
            for row in self.world.store.inputs(live.job):
                self._apart.enter(live.job, "", inputs.take, live, self.world, row)
                taken = True
        return taken

    # ---- reduction -----------------------------------------------------------------------------

    def _advance(self) -> bool:
        """Reduce every job as far as it goes, commit all of it at once, then carry out the effects."""
        if any(live.purse.shared and self._may_wake(live) for live in self.jobs.values()):
            with self.world.store.alone():  # what a day has left is not given out twice, whoever else works here
                done = self._reduce()
        else:
            done = self._reduce()
        self._act()
        return done

    @staticmethod
    def _may_wake(live: LiveJob) -> bool:
        return bool(live.ready or live.queued or live.dying) or not (live.held or live.soup.stirring)

    def _reduce(self) -> bool:
        self._days = {}
        for live in self.jobs.values():  # all of them before any is flushed: what each adds to the day is seen by all
            self._apart.enter(live.job, "", self._settle, live)
            if live.busy_since is not None and not live.running:
                spending.clock(live, self.world)
        self._restore_broken()
        commits = [live.flush(self.world.clock.now()) for live in self.jobs.values() if live.dirty]
        if commits:
            self.world.store.commit(commits)
        self._apart.committed()
        return bool(commits)

    def _today(self, day: str) -> Tally:
        """What all jobs have used up on a day, with what this reduction adds."""
        if day not in self._days:
            self._days[day] = spending.today_of(self.world, list(self.jobs.values()), day)
        return self._days[day]

    def _settle(self, live: LiveJob) -> None:
        own, ready = (ORCHESTRATOR, live.thread), live.ready
        while True:
            while live.dying:
                terminate(live, self.world, live.dying[0])
            if live.parked:
                liveness.relieve(live, self.world)
                waits.relieve(live, self.world)
            if own in ready:  # it goes first: an outcome is weighed before its lead is woken for anything else
                del ready[own]
                self._rouse(live, *own)
            elif (word := given_up(live.soup)) is not None and not giving_up.is_awaited(live, self.world, word):
                self._give_up(live, word)
            elif live.queued and len(live.running) < live.purse.parallel:
                self._rouse(live, *self._next(live))  # who has waited goes before who has just come
            elif ready:
                (agent, thread), _ = ready.popitem(last=False)
                self._rouse(live, agent, thread)
            elif not self._judge_pending(live):
                return

    def _give_up(self, live: LiveJob, word: Verdict) -> None:
        """The human has given the job up: its lead writes that, if it can be woken for it; else it is done here."""
        if giving_up.may_write(live, word):
            self._rouse(live, live.record.actor, live.record.thread)
        if not giving_up.is_awaited(live, self.world, word):
            giving_up.carry_out(live, self.world, word)

    @staticmethod
    def _next(live: LiveJob) -> tuple[str, str]:
        """Whoever has waited longest for a turn; the proxy first: somebody waits for its answer."""
        first = next((who for who in (*live.ready, *live.queued) if who[0] == PROXY), next(iter(live.queued)))
        live.queued.pop(first, None)
        live.ready.pop(first, None)
        return first

    def _rouse(self, live: LiveJob, agent: str, thread: str) -> None:
        """Start the instance's next turn, if it has one: an interrupt goes before its mail."""
        soup = live.soup
        if live.asleep and agent != ORCHESTRATOR:
            return
        if live.parked and soup.get(Hold, thread) is not None and soup.get(Run, thread, agent) is None:
            return
        if interrupts := soup.all(Interrupt, thread):
            self._redirect(live, agent, thread, interrupts)
        elif not live.held and soup.get(Idle, thread, agent) is not None:
            mailbox = soup.get(Mailbox, thread, agent)
            if mailbox is not None and mailbox.queue:
                self._begin(live, "wake", (agent, thread), mailbox.queue[0])

    def _redirect(self, live: LiveJob, agent: str, thread: str, interrupts: Iterable[Interrupt]) -> None:
        """A hold keeps from waking, not from redirecting what is at work."""
        waiting = sorted(interrupts, key=lambda interrupt: number_of(interrupt.message))
        if live.soup.get(Run, thread, agent) is not None:
            urgent = next((interrupt for interrupt in waiting if interrupt.now), None)
            if urgent is not None:
                self._begin(live, "interrupt", (agent, thread, urgent.message), urgent.message)
        elif not live.held and live.soup.get(Idle, thread, agent) is not None:
            first = waiting[0].message
            self._begin(live, "wake-int", (agent, thread, first), first)

    def _begin(self, live: LiveJob, rule: str, at: tuple[str, ...], name: str) -> None:
        """Fire what starts a turn. The step says all that the turn's row will: an audit compares them."""
        agent, thread, now = at[0], at[1], self.world.clock.now()
        if agent in CODE:
            turn = f"t{live.step + 1}"
            live.fire(rule, *at, choice=turn, who=agent, time=now)
            AGENTS[agent](live, self.world, turn, name, agent, thread).run()
            return
        day, told = day_of(now), ""
        if rule != "interrupt" and len(live.running) >= live.purse.parallel:
            live.queued[agent, thread] = None
            return
        if live.purse.capped:
            if not spending.allows(live, self.world, self._today):
                return
            if lines := spending.news(live, day, self._today):
                self._nearly += [(live, line) for line in lines]
                told = f',"nearly":{records.dumps([[line.what, line.scope, line.used, line.limit] for line in lines])}'
        if rule == "interrupt" and agent != PROXY:
            live.abandoned.append((live.soup.need(Surface, thread, agent).workspace, live.soup.need(Run, thread).turn))
        turn, host = f"t{live.step + 1}", self.world.turns.hosts()[0]
        extra = f'{{"host":{quote(host)},"day":"{day}"{told}}}'
        live.fire(rule, *at, choice=turn, who=agent, time=now, extra=extra)
        if live.soup.get(Record, thread) is not None:
            acknowledge(live, self.world, thread)
        token = f"{turn}.{live.epoch}.{self.world.ids.new()}"
        begun = Turn(turn, agent, thread, name, token, day=day, begun=now)
        live.begin(begun, host, now)
        if (today := self._days.get(day)) is not None:
            today.turns += 1
        if live.purse.timed and live.busy_since is None:
            spending.clock(live, self.world)
        self._started.append((live, begun))

    def _judge_pending(self, live: LiveJob) -> bool:
        """Wake the lead of a job that has come to rest; whether anything was done."""
        return rest.judge(live, self.world, self._today)

    # ---- effects: only after their commit, and harmless when done again --------------------------

    def _act(self) -> None:
        started, self._started = self._started, []
        nearly, self._nearly = self._nearly, []
        for live, line in nearly:
            self._herald.nearly(live, line)
        for live in self.jobs.values():  # before any turn starts: it may write an outcome in the same place
            self._apart.enter(live.job, "", self._tidy, live)
        for live, turn in started:
            if turn.turn in live.running:
                self._apart.enter(live.job, turn.turn, self._put_out, live, turn)
        if self._logged > self._room:
            self._write_lines()
        for live in self.jobs.values():
            self._apart.enter(live.job, "", self._write_records, live)
        self._restore_broken()
        self._apart.committed()

    def _tidy(self, live: LiveJob) -> None:
        stopped, live.stopped = live.stopped, []
        for name in stopped:
            self.world.turns.cancel(live.job, name)
        self._tidy_workspaces(live)
        remembering.keep(live, self.world)
        if live.unwritten:
            orchestration.write(live, self.world)
        outcomes, live.outcomes = live.outcomes, []
        for name, text, workspace in outcomes:
            self.world.files.write_outcome(live.job, name, text)
            self.world.workspace.clear_outcome(live.job, workspace)

    def _put_out(self, live: LiveJob, turn: Turn) -> None:
        try:
            self._submit(live, turn)
        except SetUpFailed as failed:
            self._stillborn.append(stillborn(live, turn, failed))

    def _tidy_workspaces(self, live: LiveJob) -> None:
        spoilt, live.spoilt = live.spoilt, []
        for workspace, turn in spoilt:
            self.world.workspace.restore(live.job, workspace, live.kept.get(tree_slot(workspace), ""), turn)
            if workspace == live.thread:  # with what the lost turn wrote went all that was told there meanwhile
                orchestration.all_again(live)
        abandoned, live.abandoned = live.abandoned, []
        for workspace, turn in abandoned:
            self.world.workspace.abandon(live.job, workspace, turn)
        retired, live.retired = live.retired, []
        if retired:
            self.world.turns.rest(live.job)  # what was kept ready for whoever is gone goes too
        for workspace in retired:
            self.world.workspace.retire(live.job, workspace)

    def _submit(self, live: LiveJob, turn: Turn) -> None:
        turn.stream = records.stream_of(live.record, turn.thread)
        surface = live.soup.need(Surface, turn.thread, turn.agent)
        record, role = enclosing(live.soup, turn.thread), live.role(turn.agent, turn.thread)
        parent = live.soup.parent(turn.thread)
        above = live.soup.get(Surface, parent) if parent else None
        reader = turn.agent == PROXY
        if reader:
            site = site_of(live, self.world, turn.thread)
        else:
            begun, sealed = _begun_as(live, turn, above), SEALED.get(record.state, ())
            below, sent = shown_to(live, surface), sent_to(live, surface.workspace)
            site = self.world.workspace.prepare(live.job, surface.workspace, begun, sealed, children=below, sent=sent)
        brought = self._refreshed(live, turn, above)
        orchestration.give(live, self.world, turn)
        site = owned(live, turn.thread, site)
        led = led_by(live.soup, turn.thread)
        if led is not None:
            self.world.workspace.clear_outcome(live.job, surface.workspace)
            turn.design = designs.in_force(live, self.world, record, turn.thread)
            designs.put_back(live, self.world, turn.design)
        row = message(live, self.world, turn.message)
        live.bodies.pop(turn.message, None)
        told = f"\n\n{told}" if reader and (told := briefing(live, self.world, turn)) else ""
        overran = live.overran.pop((turn.agent, turn.thread), "")
        advice = live.kept.get(advice_slot(turn.agent, turn.thread), "")
        given = texts.advised(f"{row.body}{told}", advice)
        text = texts.recovered(given, discarded(live, turn.agent, turn.thread), overran)
        why = texts.called_for(record, live.row.request) if led is not None else ""
        calls = texts.take_up(why) if why and row.body.startswith(f"[{record.state}]") else ""
        for remark in (live.remarks.pop((turn.agent, turn.thread), ""), brought, calls):
            text = f"{text}\n\n{remark}" if remark else text
        if not live.homes:
            live.homes = str(self.world.files.home(live.job) / "homes")
        liveness.begin(turn, self._pulse, self.world.clock.now())
        self._log(live, turn, "start", f'"agent":{quote(turn.agent)},"message":"{turn.message}"')
        self.world.turns.submit(
            Order(
                turn.turn,
                live.job,
                live.epoch,
                turn.token,
                turn.agent,
                turn.thread,
                text,
                row.sender,
                str(record.state),
                record.visits(record.state),
                site,
                f"{live.homes}/{records.home_of(turn.agent, turn.thread)}",
                handle_of(live.kept, turn.agent, turn.thread),
                may_ask(live.soup, turn.thread) if turn.agent == PROXY else False,
                time_limit(live.settings, role),
                offered(live.tools(surface), surface.team),
                live.rules_for(turn.agent),
                role.get("runner") or live.row.agent,
                live.role_text(turn.agent, turn.thread),
                skills_of(live, self.world, turn, record, why) if record.live and led else "",
            )
        )

    def _refreshed(self, live: LiveJob, turn: Turn, above: Surface | None) -> str:
        """Bring a doer's earlier work, and what is merged by now, into its tree; what it is told of that."""
        found = at_work(live, turn.thread)
        if found is None or found[1].kind != "doer" or above is None:
            return ""
        base, behind = found[1].base, ""
        if base != above.workspace and tree_slot(turn.thread) not in live.kept:  # its last conversation had to end
            moved = self.world.workspace.merge(live.job, base, turn.thread, scope_of(live, turn.thread))
            behind = f"{texts.left_out(moved.kept_out)}\n" if moved.kept_out else ""
        flow, talk = found
        # a conflict is settled where both sides are proved: at the merge, unless that could not do it
        clean = not flow.was_refused(talk.agent)
        merged = self.world.workspace.refresh(live.job, turn.thread, above.workspace, clean=clean)
        if not merged.conflicts:
            return behind.rstrip()
        return behind + (texts.apart(merged) if clean else texts.merged(above.agent, above.thread, merged))

    def _log(self, live: LiveJob, turn: Turn, event: str, rest: str) -> None:
        """Put an event into the turn's stream; `rest` has no secret in it."""
        self._lines[live.job, turn.stream].append(records.line(self.world.clock.now(), turn.turn, event, rest))
        self._logged += 1

    def _write_lines(self) -> None:
        """Streams are written whenever there is nothing else to do, so that a busy engine writes them in bulk."""
        lines, self._lines, self._logged = self._lines, defaultdict(list), 0
        self._room = max(LINES_BUFFERED, LINES_A_STREAM * len(lines))
        for (job, stream), texts_ in lines.items():
            self.world.files.append(job, stream, texts_)

    def _write_records(self, live: LiveJob) -> None:
        known = self._recorded.setdefault(live.job, {})
        if live.transaction - self._anchored.get(live.job, -ANCHOR_EVERY) >= ANCHOR_EVERY:
            self._anchor(live)
        changed, live.changed = live.changed, {}
        for record in changed.values():
            if known.get(record.id) == record:
                continue
            if record.depth:
                name = record.id.partition(":")[2]
                text = records.render(records.state_document(record))
                self.world.files.write_state(live.job, f"records/{name}.json", text)
            else:
                self.world.turns.rest(live.job)  # a state's agents end with it
                self._anchor(live, force=True)
            known[record.id] = record
        if live.told:  # the anchor names a transaction whose effects are there to be seen
            live.told = False
            self._anchor(live)

    def _anchor(self, live: LiveJob, *, force: bool = False) -> None:
        if not force and self._anchored.get(live.job) == live.transaction:
            return
        document = records.state_document(live.record, live.anchor(), live.answers)
        self.world.files.write_state(live.job, "state.json", records.render(document))
        self._anchored[live.job] = live.transaction
