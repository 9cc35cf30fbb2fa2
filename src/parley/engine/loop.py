"""The engine: events in, one transaction, then effects. It may die at any moment and lose at most a turn."""

from __future__ import annotations

import gc
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

from parley.base.json_codec import encode
from parley.base.text import BadText, cut, fit
from parley.bus.hash_chain import origin
from parley.bus.rows import BusError, Commit, JobRow
from parley.bus.slots import number_of
from parley.bus.store import Store
from parley.engine import effects, giving_up, inputs, quiescence, recovery
from parley.engine.agents.code_agent import CodeAgent
from parley.engine.agents.orchestrator import Orchestrator
from parley.engine.compartments import Broken, Compartments, is_contained
from parley.engine.files.streams import LINES_A_STREAM, LINES_BUFFERED, Line, Lines, are_late, write
from parley.engine.hooks import Feature, Features, Reply
from parley.engine.outbox import Effect, Perform, RetireWorkspace, StartTurn, in_order
from parley.engine.owned_job import Instance, OwnedJob
from parley.engine.protocol_messages import TEXT_LIMIT
from parley.engine.reduction import terminate
from parley.engine.turn import lost, progress
from parley.engine.turn.calls import call
from parley.engine.turn.finish import finish
from parley.engine.turn.running_turn import Turn
from parley.engine.turn.start import put_out, wake
from parley.engine.values.job_roles import charter_of
from parley.engine.values.message_meta import Requested
from parley.engine.values.step_extra import StepExtra
from parley.engine.world import World
from parley.ports.turns import RESULT_LIMIT, Called, Ended, TurnEvent
from parley.ports.workspaces import SetUpFailed
from parley.protocol.errors import Refused
from parley.protocol.gates import given_up
from parley.protocol.molecules import (
    HUMAN,
    ORCHESTRATOR,
    Charter,
    Hold,
    Idle,
    Interrupt,
    Mailbox,
    MessageKind,
    Run,
    Verdict,
)
from parley.protocol.rule import Opening, RuleSet
from parley.protocol.rules import RULES

LISTEN_SECONDS = 0.005  # between two looks for inputs while turns end one after the other
TICK_SECONDS = 0.5  # between two ticks of a job that nothing waits in
ABSENCE_SECONDS = 10.0  # what one crank counts for at most, in the engine's pulse
ANCHOR_EVERY = 256  # transactions; besides every transition, and whenever there is nothing else to do
TURN_IS_OVER = Reply("this turn is over")
MAX_TOOL_NAME = 200  # characters
MAX_RECORDED_REFUSALS = 20  # of a turn's calls, with its end; its stream has all


def collect_seldom() -> None:
    """Let Python look for garbage in cycles seldom: for a process that runs jobs, before it does.

    The engine makes hundreds of small objects in a turn and no cycles among them. With Python's own settings
    the collector goes through what has yet to be committed again and again, and through every job's soup.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)


def _opened(row: JobRow) -> StepExtra:
    """What the first step of a job says beside its rule."""
    return StepExtra(opened=origin(row))


def _refuse_changed(store: Store, row: JobRow) -> None:
    """Go on with no job whose decider or settings are others than it was opened with: they say who may decide."""
    first = next(store.steps(row.job), None)
    if first is not None and first.extra != encode(_opened(row)):
        raise BusError(
            f"job {row.job}: its row on the bus is not the one that it was opened with: another program changed who "
            f"decides, or the job's settings; see `parley audit {row.job}`"
        )


class Engine:
    """Runs the jobs that this process owns."""

    def __init__(self, world: World, rules: RuleSet = RULES, features: Iterable[Feature] = ()) -> None:
        self.world = world
        self.rules = rules
        self.jobs: dict[str, OwnedJob] = {}
        self._features = Features(features)
        self._agents: dict[str, type[CodeAgent]] = {ORCHESTRATOR: Orchestrator, **self._features.agents}
        self._perform: dict[type[Effect], Perform] = {**effects.PERFORM, **self._features.effects}
        self._perform[StartTurn] = self._start_turn
        self._lines: Lines = defaultdict(list)
        self._logged = 0  # how many lines wait to be written
        self._room = LINES_BUFFERED  # how many may
        self._written = world.clock.monotonic()  # when streams were last written
        self._apart = Compartments(world, self._own)
        self._blamed = defaultdict[str, set[str]](set)  # by job, the turns that were dealt with since the last commit
        self._stillborn: list[TurnEvent] = []  # the ends of turns that could not begin
        self._begun = False  # whether the store has begun a commit that nothing has waited for
        self._look = True  # whether inputs may be waiting
        self._listened = 0.0  # when it was last looked whether another process has written
        self._ticked = 0.0  # by the pulse

    # ---- taking a job on -----------------------------------------------------------------------

    def _own(self, job: str, epoch: int) -> OwnedJob:
        """A job as the bus has it, with this process as its owner."""
        loaded = self.world.store.load(job)
        _refuse_changed(self.world.store, loaded.row)
        return OwnedJob(loaded.row, epoch, self.rules, self._features, loaded=loaded)

    def start(self, row: JobRow, charter: Charter) -> OwnedJob:
        """Open a new job. It has begun when this returns, and will go on after a crash."""
        self.world.store.create(row)
        job = self.jobs[row.job] = OwnedJob(row, self.world.store.own(row.job), self.rules, self._features)
        self._open(job, charter)
        self._advance()
        return job

    def _open(self, job: OwnedJob, charter: Charter) -> None:
        """Fire [open]: the request is the job's first message, and its first transaction is committed."""
        now, row = self.world.clock.now(), job.row
        request = job.write(
            (HUMAN, job.thread),
            (ORCHESTRATOR, job.thread),
            row.request,
            kind=MessageKind.REQUEST,
            key="request",
            time=now,
            meta=Requested(),
        )
        opening, who = Opening(charter, request), row.decider or HUMAN
        job.fire("open", row.job, choice=opening, who=who, time=now, extra=_opened(row))

    def adopt(self, job: str, *, asleep: bool = False, untouched: bool = False) -> OwnedJob:
        """Take over a job whose owner is gone, and go on from its last commit; asleep: without any turn of an agent.

        `untouched`: workspaces stay as the last owner left them, for want of room to put them back.
        Broken where Parley itself fails in that: then the job has no owner again.
        """
        epoch = self.world.store.own(job)
        try:
            owned = self._take_over(job, epoch, asleep=asleep, untouched=untouched)
        except BaseException as error:
            self.jobs.pop(job, None)
            self.world.store.disown(job)
            if self.world.faults is not None and isinstance(error, Exception) and is_contained(error):
                raise Broken(self._apart.write_down(job, error)) from error
            raise
        self._advance()
        return owned

    def _take_over(self, name: str, epoch: int, *, asleep: bool, untouched: bool) -> OwnedJob:
        job = self.jobs[name] = self._own(name, epoch)
        self._look = True
        if not job.counters.transaction:  # the job was made known and nothing more
            self._open(job, charter_of(job.row))
            self.world.store.commit([job.flush(self.world.clock.now())])  # its files name what is committed, not less
        if asleep:
            job.fall_asleep()
        self.world.turns.reclaim(name)
        self.world.workspace.reclaim(name)
        recovery.ask_again(job, self.world, untouched=untouched)
        self._perform_all(job)  # before the next commit: a crash after it would find only that one
        recovery.give_back(job, self.world)
        for row in self.world.store.inputs(name):  # before any turn starts: a withdrawal or a pause may be waiting
            inputs.take(job, self.world, row)
        return job

    def make_good(self, name: str) -> None:
        """Do again what follows from a job's end: a crash may have come between its last commit and that."""
        job = self.jobs[name] = self._own(name, self.world.store.own(name))
        self.world.turns.reclaim(name)
        self.world.workspace.reclaim(name)
        recovery.ask_again(job, self.world)
        job.ask(RetireWorkspace(job.thread))
        self._perform_all(job)
        effects.write_anchor(job, self.world)
        self.release(name)

    def release(self, name: str) -> None:
        """Let go of a job that has ended, or that another process is to go on with."""
        job = self.jobs[name]
        if not job.record.live:  # what was asked of it meanwhile is answered: it has ended
            for row in self.world.store.inputs(name):
                inputs.take(job, self.world, row)
            if job.dirty:
                self.world.store.commit([job.flush(self.world.clock.now())])
        del self.jobs[name]
        for turn in list(job.running):
            self.world.turns.cancel(name, turn)
        self._perform_all(job)
        self._write_lines()
        self._anchor(job)
        for hook in job.guests.job_released:
            hook(job)
        self._perform_all(job)  # what these have asked for
        self.world.store.disown(name)

    # ---- the crank -----------------------------------------------------------------------------

    def crank(self, timeout_seconds: float) -> bool:
        """Take what has happened, reduce, commit, act. Whether anything happened."""
        self._tick()
        stillborn, self._stillborn = self._stillborn, []
        events = [*stillborn, *self.world.turns.events(0.0 if self._look or stillborn else timeout_seconds)]
        self._beat()
        last = 0
        if len(events) > 1 and (size := self._part()):
            for last in range(size, len(events), size):
                self._take_all(events[last - size : last])
                self._commit_ahead()
        self._take_all(events[last:])
        taken = self._take_inputs(busy=bool(events))
        if not events and not taken:
            self._write_lines()
            for job in self.jobs.values():
                self._enter(job.id, "", self._anchor, job)
        advanced = self._advance()
        return bool(events) or taken or advanced

    def _part(self) -> int:
        """After how many events a commit is begun while there are more; 0: after all of them."""
        return 0 if any(job.guests.alone for job in self.jobs.values()) else self.world.store.ahead

    def _take_all(self, events: Iterable[TurnEvent]) -> None:
        for event in events:
            self._enter(event.job, event.turn, self._take, event)

    def _beat(self) -> None:
        pulse, now = self.world.pulse, self.world.clock.monotonic()
        if pulse.last is not None:
            pulse.time += max(0.0, min(now - pulse.last, ABSENCE_SECONDS))
        pulse.last = now

    def _tick(self) -> None:
        """Let the guests look after their jobs: now, while all that the soups hold is committed."""
        pulse = self.world.pulse.time
        due = pulse - self._ticked >= TICK_SECONDS
        if due:
            self._ticked = pulse
        for job in self.jobs.values():
            standing = job.standing
            if due or standing.asking or standing.held or standing.parked:
                self._enter(job.id, "", self._tick_job, job)

    def _tick_job(self, job: OwnedJob) -> None:
        for hook in job.guests.tick:
            self._look |= hook(job)

    def _enter(self, job: str, turn: str, act: Callable[..., object], *given: Any) -> None:
        """Do something for a job, and for a turn of it where one is named, which is to blame until the next commit."""
        if job in self._apart.broken:
            return
        if turn:
            self._blamed[job].add(turn)
        try:
            act(*given)
        except Exception as error:
            if self.world.faults is None or not is_contained(error):
                raise
            self._apart.broken[job] = self._apart.write_down(job, error)

    def put_aside(self) -> dict[str, str]:
        """The jobs that were let go of since the last call because Parley itself failed in them, and why."""
        aside, self._apart.aside = self._apart.aside, {}
        return aside

    def _restore_broken(self) -> None:
        """Take back what is not committed of each broken job, or let go of it."""
        for name, why in list(self._apart.broken.items()):
            job = self.jobs.pop(name, None)
            del self._apart.broken[name]
            if job is None:
                continue
            again = self._apart.reload(job, self._blamed.pop(name, set()), why)
            if again is not None:
                self.jobs[name] = again
            else:
                self._apart.aside[name] = why
                self.world.store.disown(name)

    # ---- events of turns -----------------------------------------------------------------------

    def _take(self, event: TurnEvent) -> None:
        """Take what a turn's runner tells."""
        job = self.jobs.get(event.job)
        turn = job.running.get(event.turn) if job is not None else None
        if isinstance(event, Called):
            self._called(job, turn, event)
        elif job is None or turn is None:
            return
        elif isinstance(event, Ended):
            self._ended(job, event)
        else:
            self._log(job, turn, progress.hear(job, self.world, turn, event))

    def _called(self, job: OwnedJob | None, turn: Turn | None, event: Called) -> None:
        """A tool call in mid-turn: it is taken into the turn or refused, and its agent hears which at once."""
        ok, reply = False, TURN_IS_OVER
        if job is not None and turn is not None and event.token == turn.token:
            now = self.world.clock.now()
            turn.heard, turn.pulse, turn.last = now, self.world.pulse.time, str(event.tool)[:MAX_TOOL_NAME]
            if job.standing.parked:
                progress.show_life(job, turn, event)
            try:
                reply = call(job, self.world, turn, event)
                ok = True
                said = {"tool": event.tool, "result": cut(reply.text, RESULT_LIMIT)}
                self._log(job, turn, Line(now, turn.turn, "call", said, call=turn.calls[-1]))
            except (Refused, BadText) as refused:
                reply = Reply(f"{refused}; {refused.remedy}" if isinstance(refused, BadText) else str(refused))
                self._refused(job, turn, event, reply.text, now)
            for hook in job.guests.call_answered:
                hook(job, turn, event, ok)
        self.world.turns.reply(event.job, event.turn, event.number, ok=ok, text=reply.text, data=reply.data)

    def _refused(self, job: OwnedJob, turn: Turn, event: Called, why: str, now: float) -> None:
        tool = fit(str(event.tool), MAX_TOOL_NAME)
        if len(turn.refused) < MAX_RECORDED_REFUSALS:
            turn.refused.append(fit(f"{tool}: {self.world.secrets.redact(why)}", TEXT_LIMIT))
        self._log(job, turn, Line(now, turn.turn, "refused", {"tool": tool, "why": why}))

    def _ended(self, job: OwnedJob, told: Ended) -> None:
        """A turn is over: its end is put into the next transaction."""
        finished = finish(job, self.world, told)
        if finished is None:
            return
        (turn, event), now = finished, self.world.clock.now()
        if event.fault:
            line = Line(now, turn.turn, "lost", {"fault": event.fault})
        else:
            line = Line(now, turn.turn, "end", {"text": event.text, "usage": dict(event.usage)}, cut=True)
        self._log(job, turn, line)

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
        for row in self.world.store.waiting(self.jobs):
            self._enter(row.job, "", inputs.take, self.jobs[row.job], self.world, row)
            taken = True
        return taken

    # ---- reduction -----------------------------------------------------------------------------

    def _advance(self) -> bool:
        """Reduce every job as far as it goes, commit all of it at once, then perform the effects."""
        if any(job.guests.alone and self._may_wake(job) for job in self.jobs.values()):
            with self.world.store.alone():  # processes share what a guest counts: none writes in between
                done = self._reduce()
        else:
            done = self._reduce()
        for job in list(self.jobs.values()):
            self._act(job)
        if self._logged > self._room or (self._logged and self._are_lines_late()):
            self._write_lines()
        self._restore_broken()
        self._blamed.clear()
        return done

    @staticmethod
    def _may_wake(job: OwnedJob) -> bool:
        agenda = job.agenda
        stirs = agenda.ready or agenda.queued or agenda.dying
        return bool(stirs) or not (job.standing.held or job.soup.stirring)

    def _reduce(self) -> bool:
        """Let all follow that follows by itself, and commit it; whether anything was committed."""
        commits = self._flush()
        if commits or self._begun:
            self.world.store.commit(commits)
        self._begun = False
        self._blamed.clear()
        return bool(commits)

    def _flush(self) -> list[Commit]:
        """Let all follow that follows by itself: what is to be committed."""
        for job in self.jobs.values():  # all of them before any is flushed: what guests count together is seen by all
            self._enter(job.id, "", self._settle, job)
        self._restore_broken()
        return [job.flush(self.world.clock.now()) for job in self.jobs.values() if job.dirty]

    def _commit_ahead(self) -> None:
        """Begin to commit what has happened so far: the store writes it while the crank goes on.

        Turns start when the crank has committed all: then all that they are told is on the bus. Any other effect comes
        right after its own commit, since another owner does again what the last commit has asked for, and no more.
        """
        commits = self._flush()
        if all(type(effect) is StartTurn for job in self.jobs.values() for effect in job.outbox):
            self.world.store.begin_commit(commits)
            self._begun = True
        else:
            self.world.store.commit(commits)
            self._begun = False
            for job in list(self.jobs.values()):
                self._act(job)
            self._restore_broken()
        self._blamed.clear()

    def _settle(self, job: OwnedJob) -> None:
        """Reduce one job as far as it goes."""
        while self._step(job):
            pass
        for hook in job.guests.before_commit:
            hook(job)

    def _step(self, job: OwnedJob) -> bool:
        """One thing that follows by itself; False: nothing does. The order says what goes before what."""
        agenda = job.agenda
        while agenda.dying:
            terminate(job, self.world, next(iter(agenda.dying)))
        if job.standing.parked:
            for hook in job.guests.release_holds:
                hook(job)
        own = (ORCHESTRATOR, job.thread)
        if job.take_ready(own):  # an outcome is weighed before its lead is woken for anything else
            self._rouse(job, own)
        elif job.soup.get(Verdict, job.id) is not None and self._gives_up(job):
            pass
        elif agenda.queued and all(hook(job) for hook in job.guests.has_room):
            self._rouse(job, job.next_queued())  # an instance that has waited goes before one that has just come
        elif (first := job.next_ready()) is not None:
            self._rouse(job, first)
        else:
            return not job.soup.stirring and quiescence.judge(job, self.world)
        return True

    def _gives_up(self, job: OwnedJob) -> bool:
        """The human has given the job up: its lead writes that, if it can be woken for it; else it is done here."""
        word = given_up(job.soup)
        if word is None or giving_up.is_awaited(job, self.world, word):
            return False
        if giving_up.may_write(job, word):
            self._rouse(job, (job.record.actor, job.record.thread))
        if not giving_up.is_awaited(job, self.world, word):
            giving_up.carry_out(job, self.world, word)
        return True

    def _rouse(self, job: OwnedJob, instance: Instance) -> None:
        """Start the instance's next turn, if it has one: an interrupt goes before its mail."""
        soup, (agent, thread) = job.soup, instance
        if job.agenda.asleep and agent != ORCHESTRATOR:
            return
        if job.standing.parked and soup.get(Hold, thread) is not None and soup.get(Run, thread, agent) is None:
            return
        if interrupts := soup.all(Interrupt, thread):
            self._redirect(job, instance, interrupts)
        elif not job.standing.held and soup.get(Idle, thread, agent) is not None:
            mailbox = soup.get(Mailbox, thread, agent)
            if mailbox is not None and mailbox.queue:
                self._begin(job, "wake", instance, mailbox.queue[0])

    def _redirect(self, job: OwnedJob, instance: Instance, interrupts: Iterable[Interrupt]) -> None:
        """A hold keeps from waking, not from redirecting what is at work."""
        agent, thread = instance
        waiting = sorted(interrupts, key=lambda interrupt: number_of(interrupt.message))
        if job.soup.get(Run, thread, agent) is not None:
            urgent = next((interrupt for interrupt in waiting if interrupt.now), None)
            if urgent is not None:
                self._begin(job, "interrupt", (agent, thread, urgent.message), urgent.message)
        elif not job.standing.held and job.soup.get(Idle, thread, agent) is not None:
            first = waiting[0].message
            self._begin(job, "wake-int", (agent, thread, first), first)

    def _begin(self, job: OwnedJob, rule: str, at: tuple[str, ...], name: str) -> None:
        """Begin a turn by a rule: an agent's is put out after the commit, one of our own code is run here and now."""
        agent, thread = at[0], at[1]
        if agent not in job.roles.code:
            wake(job, self.world, rule, at, name)
            return
        job.guests.wake_agent(job, agent)
        turn, now = f"t{job.counters.step + 1}", self.world.clock.now()
        job.fire(rule, *at, choice=turn, who=agent, time=now)
        self._agents[agent](job, self.world, turn, name, agent, thread).run()

    # ---- effects: only after their commit, and harmless when done again --------------------------

    def _act(self, job: OwnedJob) -> None:
        """Perform what is in a job's outbox; what can't be performed yet stays there."""
        if job.outbox:
            self._perform_outbox(job, self._enter)
        if job.counters.transaction - job.counters.anchored >= ANCHOR_EVERY:
            self._enter(job.id, "", self._anchor, job)

    def _perform_all(self, job: OwnedJob) -> None:
        """The same while a job is taken over or let go of: a fault is the caller's to hear of."""
        self._perform_outbox(job, lambda name, turn, act, *given: act(*given))

    def _perform_outbox(self, job: OwnedJob, enter: Callable[..., object]) -> None:
        """Perform all effects, and those that performing them asks for: what is tidied goes before what starts."""
        unperformed: list[Effect] = []
        asked = job.take_effects()
        waiting = deque(asked if len(asked) == 1 else in_order(asked))
        while waiting:
            effect = waiting.popleft()
            turn = effect.turn if isinstance(effect, StartTurn) else ""
            enter(job.id, turn, self._perform_one, job, effect, unperformed)
            if job.outbox:
                waiting = deque(in_order({**dict.fromkeys(waiting), **job.take_effects()}))
        for effect in unperformed:
            job.ask(effect)

    def _perform_one(self, job: OwnedJob, effect: Effect, unperformed: list[Effect]) -> None:
        """Perform an effect; what can't be performed yet is tried again later."""
        if not self._perform[type(effect)](job, self.world, effect):
            unperformed.append(effect)

    def _start_turn(self, job: OwnedJob, world: World, effect: StartTurn) -> bool:
        """Put a turn out, unless it is over by now."""
        turn = job.running.get(effect.turn)
        if turn is None:
            return True  # it was ended by what came after
        try:
            put_out(job, world, turn)
        except SetUpFailed as failed:
            self._stillborn.append(lost.stillborn(job, turn, failed))
        else:
            said = {"agent": turn.agent, "thread": turn.thread, "message": turn.message}
            self._log(job, turn, Line(turn.heard, turn.turn, "start", said))
        return True

    # ---- streams -------------------------------------------------------------------------------

    def _log(self, job: OwnedJob, turn: Turn, line: Line) -> None:
        """Add a line to a turn's stream."""
        self._lines[job.id, turn.stream].append(line)
        self._logged += 1

    def _are_lines_late(self) -> bool:
        return are_late(self._lines, self.world.clock.monotonic() - self._written)

    def _write_lines(self) -> None:
        """Streams are written when there is nothing else to do, so that a busy engine writes them in bulk."""
        lines, self._lines, self._logged = self._lines, defaultdict(list), 0
        self._written = self.world.clock.monotonic()
        self._room = max(LINES_BUFFERED, LINES_A_STREAM * len(lines))
        write(self.world, lines)

    def _anchor(self, job: OwnedJob) -> None:
        """Write where the bus stands, unless that is written."""
        if job.counters.anchored != job.counters.transaction:
            effects.write_anchor(job, self.world)
