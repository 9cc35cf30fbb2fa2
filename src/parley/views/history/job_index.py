"""All that a job's rows tell of its past, read once and kept: a page goes on from there, and never begins anew.

The steps are read in slices, so that a long job can be taken in beside other work. Of each row only what its rule may
have to tell is decoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from parley.bus.rows import JobRow, MessageRow, StepRow
from parley.bus.store import Store
from parley.engine.values import step_extra
from parley.engine.values.step_extra import StepExtra
from parley.engine.values.step_names import (
    NamedParent,
    NamedRecord,
    NamedRun,
    NamedSurface,
    NamedTerminate,
    all_named,
    first_named,
    place_of,
)
from parley.engine.values.unfinished_work import End
from parley.protocol.codec import decode_as
from parley.protocol.molecules import HUMAN, PROXY, Origin
from parley.protocol.rule import Passage
from parley.views.costs import CostReader, TurnCost
from parley.views.history import artifact_history, held_times, turn_history
from parley.views.history.artifact_history import ArtifactHistory
from parley.views.history.held_times import HeldTime, HeldTimes
from parley.views.history.merge_history import MergeRecord, conflicted_merge, told_merges
from parley.views.history.turn_history import TurnHistory, TurnSpan
from parley.views.job_view import GAUGES, Abandoned, JobHistory, LeftOut, Thread, abandoned_by
from parley.views.turn_hosts import TurnHosts

_SPARKS = ("open", "spark", "ask", "send-ask")  # the rules that make threads
_PASSES = ("transition", "term-record")
_ENDINGS = {
    Origin.CLOSE: "closed",
    Origin.ACCEPT: "closed",
    Origin.PHASE: "ended with its phase",
    Origin.BACKTRACK: "ended by a backtrack",
    Origin.WITHDRAWAL: "withdrawn",
    Origin.END: "ended with the job",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PastThread:
    """A thread that is or was there."""

    id: str
    agent: str
    parent: str
    workspace: str
    begun: float
    ended: float = 0.0  # 0: it is still there
    how: str = ""  # it ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One transition of the job's record, or of a subteam's."""

    number: int  # of its step
    time: float
    record: str
    before: str
    after: str
    action: str
    actor: str
    reason: str
    visit: int  # how many states were entered with this one


class JobIndex:
    """A job's past, as far as it was read. `read` goes on from there."""

    def __init__(self, store: Store, row: JobRow) -> None:
        self.job = row.job
        self.step = 0  # the last that was read; likewise the message and the transaction
        self.message = 0
        self.transaction = 0
        self.complete = False  # whether the last read came to the end
        self.transitions: list[Transition] = []
        self.merges: list[MergeRecord] = []
        self.turns = TurnHistory()
        self.held = HeldTimes()
        self.artifacts = ArtifactHistory()
        self._store = store
        self._costs = CostReader(row)
        self._totals = JobHistory(ended=[], usage={"turns": 0}, lost=0, refused=0, answers={HUMAN: 0, PROXY: 0})
        self._threads: dict[str, PastThread] = {}
        self._why: dict[str, Origin] = {}
        self._records: dict[str, str] = {}  # subteams that ended with their threads: in which state, and why
        self._letters: dict[str, list[int]] = {}

    # ---- reading

    def read(self, limit_steps: int | None = None) -> bool:
        """Take in the next steps, all or so many, and their messages; whether there are more. DAMAGE may be raised."""
        count = 0
        for step in islice(self._store.steps(self.job, self.step), limit_steps):
            self._read(step)
            self.step, self.transaction = step.number, step.transaction
            count += 1
        for row in self._store.messages(self.job, self.message):
            if row.transaction > self.transaction:
                break
            self._hear(row)
            self.message = row.number
        self.complete = limit_steps is None or count < limit_steps
        return not self.complete

    def _read(self, step: StepRow) -> None:
        rule = step.rule
        if rule in turn_history.RULES:
            self.turns.read(step)
        if rule in held_times.RULES:
            self.held.read(step)
        if rule in artifact_history.RULES:
            self.artifacts.read(step)
        if rule in _SPARKS:
            self._spark(step)
        elif rule in _PASSES:
            self._pass(step)
        elif rule == "term-final":
            self._end(step)
        elif rule == "respond":
            self._totals.answers[step.who] = self._totals.answers.get(step.who, 0) + 1
        elif rule == "interrupt":
            self._totals.abandoned.append(abandoned_by(self._store, self.job, step))
        if step.extra:
            self._note(step, step_extra.read(step.extra))
        if "Terminate " in step.produced and not rule.startswith("term-"):  # those only pass on one that is known
            for end in all_named(NamedTerminate, step.produced):
                self._why.setdefault(end.thread, end.origin)

    def _spark(self, step: StepRow) -> None:
        above = {parent.child: parent.thread for parent in all_named(NamedParent, step.produced)}
        for surface in all_named(NamedSurface, step.produced):
            self._threads[surface.thread] = PastThread(
                id=surface.thread,
                agent=surface.agent,
                parent=above.get(surface.thread, ""),
                workspace=surface.workspace,
                begun=step.time,
            )

    def _end(self, step: StepRow) -> None:
        name = place_of(step).thread
        thread = self._threads.get(name)
        if thread is None or thread.ended:
            return
        origin = self._why.get(name)
        how = self._records.get(name) or (_ENDINGS[origin] if origin is not None else "ended")
        self._threads[name] = replace(thread, ended=step.time, how=how)

    def _pass(self, step: StepRow) -> None:
        passage = decode_as(Passage, step.choice)
        before, after = first_named(NamedRecord, step.consumed), first_named(NamedRecord, step.produced)
        if step.rule == "term-record" and after is not None:
            self._records[place_of(step).record] = f"{after.state}: {passage.reason}"
        self.transitions.append(
            Transition(
                number=step.number,
                time=step.time,
                record=place_of(step).record,
                before=str(before.state) if before is not None else "",
                after=str(after.state) if after is not None else "",
                action=str(passage.action),
                actor=passage.actor,
                reason=passage.reason,
                visit=after.visit if after is not None else 0,
            )
        )

    def _note(self, step: StepRow, left: StepExtra) -> None:
        """Take in what a step tells beside its rule."""
        self._costs.read(step, left)
        self.turns.note(step, left)
        if left.merged or left.feature:
            self.merges += told_merges(step, left)
        totals = self._totals
        totals.lost += bool(left.fault)
        totals.hosts.note(step, left)
        totals.unfinished += [LeftOut(step.time, one) for one in left.unfinished if one.end is not End.GOES_ON]
        totals.refused += len(left.refused) + len(left.left_out)
        if left.model:
            run = first_named(NamedRun, step.consumed)
            totals.models[run.agent if run is not None else ""] = left.model
        for name, value in left.usage.items():
            before = totals.usage.get(name, 0)
            totals.usage[name] = max(before, value) if name in GAUGES else before + value

    def _hear(self, row: MessageRow) -> None:
        self._letters.setdefault(row.thread, []).append(row.number)
        if row.sender_thread != row.thread:
            self._letters.setdefault(row.sender_thread, []).append(row.number)
        if row.kind in artifact_history.MAIL and row.meta:
            self.artifacts.hear(row)
        elif row.meta and (found := conflicted_merge(row)) is not None:
            self.merges.append(found)

    # ---- what it knows

    def threads(self) -> list[PastThread]:
        """Every thread that is or was there, in the order in which they were made."""
        return list(self._threads.values())

    def thread(self, name: str) -> PastThread | None:
        """One thread."""
        return self._threads.get(name)

    def letters(self, thread: str) -> Sequence[int]:
        """The numbers of the messages to and from a thread, in order."""
        return self._letters.get(thread, ())

    def turns_of(self, thread: str = "") -> list[TurnSpan]:
        """The turns on a thread, or all, in the order in which they began."""
        return self.turns.of(thread)

    @property
    def hosts(self) -> TurnHosts:
        """On which hosts turns ran that are over."""
        return self._totals.hosts

    def hosts_now(self) -> Mapping[str, str]:
        """Where turns run that are out on other hosts, by turn."""
        return self._store.hosts_of(self.job)

    def held_times(self) -> list[HeldTime]:
        """When threads could not go on, in the order in which that began."""
        return self.held.all()

    def costs(self) -> list[TurnCost]:
        """Every turn with what it cost, as `turn_costs` has it."""
        return self._costs.turns()

    def history(self) -> JobHistory:
        """What `past` has of the job."""
        totals = self._totals
        return JobHistory(
            ended=[_ended(thread) for thread in self._threads.values() if thread.ended],
            usage=dict(totals.usage),
            lost=totals.lost,
            refused=totals.refused,
            abandoned=list[Abandoned](totals.abandoned),
            answers=dict(totals.answers),
            models=dict(totals.models),
            unfinished=list(totals.unfinished),
            hosts=totals.hosts,
        )


def _ended(thread: PastThread) -> Thread:
    return Thread(
        id=thread.id,
        agent=thread.agent,
        parent=thread.parent,
        state="ended",
        doing=thread.how,
        since=thread.ended,
        workspace=thread.workspace,
    )
