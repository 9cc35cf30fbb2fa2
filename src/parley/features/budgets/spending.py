"""Spending: where budgets hang on the engine. What turns use up is counted, told of, and ends in a hold that asks."""

from __future__ import annotations

from collections.abc import Iterable

from parley.base.text import inert
from parley.bus.rows import InputRow, Spent, sum_of
from parley.engine.hooks import Feature, Guest
from parley.engine.outbox import Notify
from parley.engine.owned_job import OwnedJob
from parley.engine.turn.running_turn import Turn
from parley.engine.turn.stages import Waking
from parley.engine.turn.start import day_of
from parley.engine.values.hold_causes import budgets
from parley.engine.values.human_inputs import ResumeInput
from parley.engine.values.step_extra import Nearly, StepExtra
from parley.engine.world import World
from parley.features.budgets import arithmetic
from parley.features.budgets.arithmetic import DAY, BudgetLine, BudgetPart, Purse
from parley.ports.notices import NEEDS
from parley.ports.turns import Called, Ended, Progress, Sign, Waiting
from parley.protocol.errors import Disabled, Refused
from parley.protocol.molecules import HUMAN, ORCHESTRATOR

ONE_TURN = Spent(turns=1)


class Budgets(Feature):
    """What a job may use up by itself, and all jobs together on one day, before the human is asked."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.jobs: dict[str, OwnedJob] = {}  # of this engine

    def guests(self, job: OwnedJob) -> Iterable[Guest]:
        """Every job counts; those with a limit are watched, those with minutes have a clock."""
        self.jobs[job.id] = job
        counter = Counter(self, job)
        return (counter, *watchers(counter))

    def today(self, day: str) -> Spent:
        """What all jobs have used up on a day, with what waits to be committed."""
        return sum_of((self.world.store.spent(day), *(job.spent(day) for job in self.jobs.values())))


class Counter(Guest):
    """Counts what a job's turns use up, and raises its budgets."""

    def __init__(self, feature: Budgets, job: OwnedJob) -> None:
        self.feature = feature
        self.world = feature.world
        self.purse = Purse.of(job.settings_of(BudgetPart), job.kept.get(arithmetic.SLOT, ""))

    def usage_reported(self, job: OwnedJob, turn: Turn, event: Ended) -> None:
        """Count what a turn used that is over: a lost one is paid for too."""
        turn.usage = arithmetic.plain(event.usage)
        tokens, micros = arithmetic.tokens_of(turn.usage), arithmetic.micros_of(turn.usage)
        if tokens or micros:
            job.spend(turn.day, Spent(tokens=tokens, micros=micros))

    def lines(self, job: OwnedJob, day: str, more: Spent = Spent()) -> list[BudgetLine]:  # noqa: B008 - it never changes
        """How each budget stands, with `more` besides."""
        today = self.feature.today(day) if self.purse.shared else Spent()
        return self.purse.lines(job.used.plus(more), today.plus(more), day)

    def human_resumed(self, job: OwnedJob, row: InputRow, given: ResumeInput) -> str:
        """Raise budgets as the human says; what became of it."""
        words, day = given.raised, given.day
        if not words:
            return ""
        before = (self.purse.limited, self.purse.timed)
        try:
            self.purse.lift(words, day)
        except ValueError as error:
            raise Disabled(str(error)) from error
        job.keep(arithmetic.SLOT, self.purse.text())
        for guest in watchers(self, *before):
            job.guests.add(guest)
        left = self.release(job, HUMAN)
        if left:
            return f"raised; still spent: {'; '.join(line.words() for line in left)}"
        lines = self.lines(job, day)
        said = [line.words() for line in lines if line.option in words]
        said += [f"{option} without a limit" for option in words if option not in {line.option for line in lines}]
        return f"the budget is now {', '.join(said)}"

    def release(self, job: OwnedJob, who: str) -> list[BudgetLine]:
        """End the holds for budgets that are not spent any more; those that still are."""
        now = self.world.clock.now()
        spent = {line.cause: line for line in self.lines(job, day_of(now)) if line.spent}
        left: list[BudgetLine] = []
        for hold, cause in budgets(job.soup, job.thread):
            if cause in spent:
                left.append(spent[cause])
            else:
                job.release(hold, who, now)
        return left

    def job_released(self, job: OwnedJob) -> None:
        """The job is let go of: it counts for the day by the bus alone."""
        self.feature.jobs.pop(job.id, None)


def watchers(counter: Counter, limited: bool = False, timed: bool = False) -> Iterable[Guest]:
    """The guests that a purse calls for and that the job has not yet."""
    if counter.purse.limited and not limited:
        yield Limits(counter)
    if counter.purse.timed and not timed:
        yield WorkClock(counter)


class Limits(Guest):
    """Lets no turn start that a budget does not allow."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._purse = counter.purse
        self.alone = counter.purse.shared  # processes share the day's budget: one at a time takes of it

    def before_start(self, job: OwnedJob, waking: Waking) -> bool:
        """Hold the job where a budget is spent; let an instance wait where enough agents are at work."""
        if waking.rule != "interrupt" and not self.has_room(job):
            job.queue(waking.agent, waking.thread)
            return False
        if not self._purse.capped:
            return True
        if not self._allows(job, waking.now, waking.day):
            return False
        if lines := self._purse.news(self._counter.lines(job, waking.day, ONE_TURN), waking.day):
            job.keep(arithmetic.SLOT, self._purse.text())
            waking.nearly = tuple(Nearly(line.what, line.scope, line.used, line.limit) for line in lines)
            for line in lines:
                job.ask(self._notice(job, line))
        return True

    def _notice(self, job: OwnedJob, line: BudgetLine) -> Notify:
        name = f"{job.id}.nearly.{line.scope}.{line.what}.{line.limit:g}"
        request = inert(self._counter.world.secrets.redact(job.row.request))
        text = f"job {job.id}: {request}\n{line.words()}\nparley show {job.id}"
        return Notify(name, NEEDS, "a budget is nearly spent", text)

    def has_room(self, job: OwnedJob) -> bool:
        """Whether one more agent may be at work."""
        return len(job.running) < self._purse.parallel

    def at_rest(self, job: OwnedJob) -> bool:
        """No lead is woken where no turn may start: whether the job was held for that."""
        now = self._counter.world.clock.now()
        return self._purse.capped and not self._allows(job, now, day_of(now))

    def _allows(self, job: OwnedJob, now: float, day: str) -> bool:
        """Whether one more turn may start; where it may not, the job is held, and the human asked."""
        spent = [line for line in self._counter.lines(job, day) if line.spent]
        for line in spent:
            job.hold(job.thread, line.cause, now)
        return not spent

    def before_spark(self, job: OwnedJob, turn: Turn) -> None:
        """Refuse to dispatch where no turn is left for it: what is used, at work and planned by turns counts."""
        if not self._purse.capped:
            return
        day = day_of(self._counter.world.clock.now())
        planned = sum(len(each.admission.sparked) for each in job.running.values()) + len(job.agenda.queued)
        for line in self._counter.lines(job, day):
            if line.what == "turns" and line.used + planned >= line.limit:
                soon = f", {planned} more are planned" if planned else ""
                raise Refused(
                    f"no turn is left for it: {line.words()} are used{soon}; "
                    "do it yourself, close what is open, or say what is missing"
                )
            if line.spent:
                raise Refused(f"the budget is spent: {line.words()}; do what you can yourself, and say what is missing")

    def tick(self, job: OwnedJob) -> bool:
        """Release what was held for a day's budget and is not spent any more: it is another day."""
        if any(cause.scope == DAY for _, cause in budgets(job.soup, job.thread)):
            self._counter.release(job, ORCHESTRATOR)
        return False


class WorkClock(Guest):
    """Counts time at work: while any turn is out that waits neither for its provider nor for a slot.

    No time is counted twice.
    """

    def __init__(self, counter: Counter) -> None:
        self._clock = counter.world.clock
        self._busy_since: float | None = None
        self._seconds = 0.0  # at work, and not counted yet

    def _look(self, job: OwnedJob) -> None:
        now = self._clock.monotonic()
        if self._busy_since is not None:
            self._seconds += max(0.0, now - self._busy_since)
        self._busy_since = now if any(map(_works, job.running.values())) else None

    def turn_started(self, job: OwnedJob, turn: Turn) -> None:
        """A turn starts: the clock runs."""
        if self._busy_since is None:
            self._look(job)

    def turn_heard(self, job: OwnedJob, turn: Turn, event: Called | Progress | Waiting) -> None:
        """A turn that waits for its provider, or for a slot, is not at work."""
        if isinstance(event, Waiting) or (isinstance(event, Progress) and event.sign is Sign.QUEUE):
            self._look(job)

    def turn_over(self, job: OwnedJob, turn: Turn, event: Ended) -> None:
        """A turn is over: what was worked so far is counted with it."""
        self._look(job)
        turn.worked, self._seconds = int(self._seconds * 1000), 0.0
        if turn.worked:
            job.spend(turn.day, Spent(millis=turn.worked))

    def before_commit(self, job: OwnedJob) -> None:
        """The clock stands still while no turn is out."""
        if self._busy_since is not None and not job.running:
            self._look(job)


def _works(turn: Turn) -> bool:
    return not (turn.waiting or turn.queued)


def of_step(left: StepExtra) -> Spent:
    """What a step that ends a turn says was used: the audit's own reading of the same."""
    return Spent(
        tokens=arithmetic.tokens_of(left.usage),
        micros=arithmetic.micros_of(left.usage),
        millis=max(0, left.worked),
    )
