"""A job in the hands of its owner: its soup, and all that the owner knows beside it.

Every change goes through a method here. Nothing touches the world: the engine commits what `flush` gives, and only
then performs what is in the outbox.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from parley.base.json_codec import JSON, encode
from parley.base.text import mended
from parley.bus.hash_chain import link
from parley.bus.rows import (
    Commit,
    EndedTurn,
    InputRow,
    JobProgress,
    JobRow,
    Loaded,
    MessageRow,
    Spent,
    StepRow,
    TakenInput,
    TransactionRow,
    TurnRow,
    sum_of,
)
from parley.bus.slots import holds_molecule, riders_slot, role_slot, slot
from parley.engine.hooks import Features, Guests
from parley.engine.outbox import CancelTurn, Effect, Outbox, RestoreWorkspace, StartTurn, WriteRecord
from parley.engine.turn import merge_riders
from parley.engine.turn.running_turn import Turn
from parley.engine.values import hold_causes, unfinished_work
from parley.engine.values.human_inputs import Handled
from parley.engine.values.job_roles import JobRoles, role_of
from parley.engine.values.job_settings import JobSettings
from parley.engine.values.message_meta import Meta, Plain
from parley.engine.values.step_extra import NOTHING, StepExtra, Told
from parley.engine.values.unfinished_work import Unfinished
from parley.protocol.codec import ENCODER, decode_molecule
from parley.protocol.molecules import (
    ORCHESTRATOR,
    PROXY,
    AskHuman,
    Deliver,
    Hold,
    Idle,
    Interrupt,
    Mailbox,
    MessageKind,
    Molecule,
    Record,
    Run,
    Surface,
    Terminate,
    job_thread,
)
from parley.protocol.rule import Broadcast, Choice, Enrolment, Firing, Reaction, RuleSet
from parley.protocol.rules import RULES
from parley.protocol.soup import Soup
from parley.roles.role_snapshot import RoleSnapshot

Instance = tuple[str, str]
"""An agent and its thread."""

BODIES = 4096  # messages that are remembered beside the bus
_LISTED = frozenset((AskHuman, Hold, Record))  # what the listing's row depends on
_WATCHED = _LISTED | {Interrupt, Terminate}


class Counters(Struct):
    """How far the job's rows have come: the last transaction is committed, steps and messages may not be yet."""

    transaction: int = 0
    step: int = 0
    message: int = 0
    head: str = ""  # of the hash chain
    sequences: dict[Instance, int] = {}  # by recipient, of the last message
    used: Spent = Spent()  # by all turns; those that began since the job was loaded are not in it
    turns: int = 0  # that began since
    anchored: int = -1  # the transaction that the job's state record names

    @classmethod
    def of(cls, loaded: Loaded) -> Counters:
        """As the bus has it."""
        last, used = loaded.transaction, sum_of((loaded.spent or {}).values())
        if last is None:
            return cls(sequences=dict(loaded.sequences), used=used)
        return cls(last.number, last.steps, last.messages, last.head, dict(loaded.sequences), used)


class Draft(Struct):
    """What the next transaction writes."""

    steps: list[StepRow] = []
    messages: list[MessageRow] = []
    before: dict[str, Molecule | None] = {}  # what each slot held that a step has changed
    after: dict[str, Molecule | None] = {}
    kept: dict[str, str | None] = {}
    started: list[TurnRow] = []
    ended: list[EndedTurn] = []
    taken: list[InputRow] = []
    turns: dict[str, int] = {}  # by day, how many began
    spent: dict[str, Spent] = {}  # by day, what turns used up besides


class Agenda(Struct):
    """What the owner has to look at next."""

    ready: dict[Instance, None] = {}  # instances that something has happened to
    queued: dict[Instance, None] = {}  # instances that wait for others to end a turn
    dying: dict[str, None] = {}  # threads that are to be terminated
    parked: dict[str, float] = {}  # by thread, when it may go on, by a clock that is never set
    asleep: bool = False  # no agent is woken: the job was taken over only to be asked something, or is to be let go of
    unconfined: str = ""  # why an agent could not be confined


class Standing(Struct):
    """What the listing's row depends on, counted as the soup changes."""

    asking: int = 0  # questions that wait for the human
    held: int = 0  # holds on the whole job
    parked: int = 0  # holds on single instances
    alarms: int = 0  # of all these holds, those that only the human can act on
    changed: bool = True  # whether the row has to be written

    def count(self, molecule: Molecule, change: int, job: str) -> None:
        """A molecule has come or gone."""
        self.changed = True
        if isinstance(molecule, AskHuman):
            self.asking += change
        elif isinstance(molecule, Hold):
            if molecule.thread == job:
                self.held += change
            else:
                self.parked += change
            self.alarms += change * hold_causes.needs_human(molecule)


class Aftermath(Struct):
    """What an instance is told with its next turn about its last one."""

    calls: list[str] = []  # of a turn that was lost: none of them has happened
    overran: str = ""  # it reached its time limit: how it was lost
    remark: str = ""


class Mail(Struct):
    """Messages as the owner has them beside the bus."""

    rows: dict[str, MessageRow] = {}  # by id, those that are not read yet, and the last ones
    riders: dict[Instance, list[Told]] = {}  # what rides on an instance's next message


S = TypeVar("S", bound=Struct)


class OwnedJob:
    """One job, owned."""

    __slots__ = (
        "aftermath",
        "agenda",
        "counters",
        "draft",
        "epoch",
        "guests",
        "kept",
        "mail",
        "outbox",
        "roles",
        "row",
        "rules",
        "running",
        "soup",
        "standing",
    )  # fmt: skip

    def __init__(
        self,
        row: JobRow,
        epoch: int,
        rules: RuleSet = RULES,
        features: Features | None = None,
        loaded: Loaded | None = None,
    ) -> None:
        self.row = row
        self.epoch = epoch
        self.rules = rules
        self.roles = JobRoles(row)
        self.soup = Soup()
        self.counters = Counters.of(loaded) if loaded is not None else Counters()
        self.draft = Draft()
        self.kept: dict[str, str] = {}  # what the bus keeps beside the soup, by slot
        self.running: dict[str, Turn] = {}
        self.agenda = Agenda()
        self.mail = Mail()
        self.aftermath: dict[Instance, Aftermath] = {}
        self.standing = Standing()
        self.outbox: Outbox = {}
        self.guests = Guests(features)
        if loaded is not None:
            self._load(loaded)
        self.guests.begin(self)

    def _load(self, loaded: Loaded) -> None:
        for where, body in loaded.molecules.items():
            if not holds_molecule(where):
                self.kept[where] = body
            else:
                self._put(decode_molecule(body))
        self.standing.changed = False
        self.mail.riders = merge_riders.waiting(self.kept)
        self.rouse_all()

    def _put(self, molecule: Molecule) -> None:
        self.soup.react((), (molecule,))
        if isinstance(molecule, AskHuman | Hold):
            self.standing.count(molecule, 1, self.thread)
        elif isinstance(molecule, Record):
            self.ask(WriteRecord(molecule.id))

    # ---- reading -----------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The job's id."""
        return self.row.job

    @property
    def thread(self) -> str:
        """The thread that spans the job's states."""
        return job_thread(self.row.job)

    @property
    def settings(self) -> JobSettings:
        """What the engine reads of the job's settings: roles, playbook, policies, limits."""
        return self.roles.settings

    def settings_of(self, part: type[S]) -> S:
        """What a feature reads of the job's settings, by a type of its own whose fields are their keys."""
        return self.roles.part(part)

    @property
    def record(self) -> Record:
        """The job's own state record."""
        return self.soup.need(Record, self.row.job)

    @property
    def used(self) -> Spent:
        """What all its turns have used up."""
        return self.counters.used.plus(Spent(turns=self.counters.turns))

    def anchor(self) -> dict[str, int | str]:
        """Where the bus stands, without what waits to be committed: a bus that ends before it has lost its tail."""
        return {
            "transaction": self.counters.transaction,
            "step": self.counters.step - len(self.draft.steps),
            "message": self.counters.message - len(self.draft.messages),
            "hash": self.counters.head,
        }

    def witness(self) -> str:
        """The same as every turn's commit says it (JSON)."""
        return _json({"head": self.anchor()})

    def role(self, agent: str, thread: str = "") -> RoleSnapshot:
        """A role as it joined the team of the instance on the thread, or as the snapshot has it."""
        enrolled = self.kept.get(role_slot(agent)) if thread else None
        if enrolled is not None and self._joined(agent, thread):
            return self.roles.enrolled(agent, enrolled)
        return self.roles.given(agent)

    def _joined(self, agent: str, thread: str) -> bool:
        """Whether an instance's agent has joined its dispatcher's team since the job was opened."""
        above = self.above(thread)
        own = self.soup.charter.role(above.agent) if above else None
        return above is not None and own is not None and agent in above.team and agent not in own.team

    def above(self, thread: str) -> Surface | None:
        """Who dispatched the instance on a thread."""
        parent = self.soup.parent(thread)
        return self.soup.get(Surface, parent) if parent else None

    def tools(self, surface: Surface) -> tuple[str, ...]:
        """The tools of the protocol that an instance has."""
        if role_slot(surface.agent) not in self.kept:
            return surface.tools
        bus = self.role(surface.agent, surface.thread).bus
        return bus if bus is not None else surface.tools

    def leaves(self, rule: str, *at: str, choice: Choice = None) -> tuple[Unfinished, ...]:
        """The unfinished work that a firing would leave out."""
        return unfinished_work.left_by(self.soup, self.kept, self.begun, self.roles.code, rule, at, choice)

    def begun(self, turn: str) -> float:
        """When a turn under way has begun."""
        return self.running[turn].begun if turn in self.running else 0.0

    # ---- firing ------------------------------------------------------------------------------

    def fire(
        self, rule: str, *at: str, choice: Choice = None, who: str, time: float, extra: StepExtra | None = None
    ) -> Reaction:
        """Fire a rule, or raise what the rule raises and change nothing."""
        reaction = self.rules[rule].react(self.soup, Firing(rule, at, choice))
        if rule in unfinished_work.TELLING and not _sends_only(choice):
            left = self.leaves(rule, *at, choice=choice)
            extra = replace(extra or NOTHING, unfinished=left) if left else extra
        consumed, produced = reaction.consumed, reaction.produced
        self.soup.react(consumed, produced)
        counters, draft = self.counters, self.draft
        counters.step += 1
        draft.steps.append(
            StepRow(
                number=counters.step,
                transaction=counters.transaction + 1,
                rule=rule,
                who=who,
                time=time,
                at=" ".join(at),
                choice="" if choice is None else ENCODER.encode(choice).decode(),
                consumed="\n".join([molecule.brief() for molecule in consumed]),
                produced="\n".join([molecule.brief() for molecule in produced]),
                extra="" if extra is None else _json(extra),
            )
        )
        before, after = draft.before, draft.after
        for molecule in consumed:
            where = slot(molecule)
            if where not in after:
                before[where] = molecule
            after[where] = None
            if type(molecule) is Run:
                self._run_ended(molecule)
            elif type(molecule) in _LISTED:
                self.standing.count(molecule, -1, self.thread)
        for molecule in produced:
            where = slot(molecule)
            if where not in after:
                before[where] = None
            after[where] = molecule
            if type(molecule) is Idle or (type(molecule) is Mailbox and molecule.queue):
                self.agenda.ready[molecule.agent, molecule.thread] = None
            elif type(molecule) in _WATCHED:
                self._watch(molecule)
        return reaction

    def _watch(self, molecule: Molecule) -> None:
        """What else follows from a molecule that has come about."""
        if isinstance(molecule, Interrupt):
            surface = self.soup.get(Surface, molecule.thread)
            if surface is not None:
                self.rouse(surface.agent, molecule.thread)
        elif isinstance(molecule, Terminate):
            self.agenda.dying[molecule.thread] = None
        else:
            self.standing.count(molecule, 1, self.thread)
            if isinstance(molecule, Record):
                self.ask(WriteRecord(molecule.id))

    def _run_ended(self, run: Run) -> None:
        """A Run is gone. If its turn was not finished before, it was ended from outside: cancel it."""
        if run.turn in self.running:
            self.finish(run.turn, "lost")
            self.ask(CancelTurn(run.turn))

    # ---- the agenda --------------------------------------------------------------------------

    def rouse(self, agent: str, thread: str) -> None:
        """Something has happened to an instance: look at it again."""
        self.agenda.ready[agent, thread] = None

    def rouse_all(self) -> None:
        """Look at every instance again: after a load, and when a hold on the job is released."""
        for idle in self.soup.of(Idle):
            self.agenda.ready[idle.agent, idle.thread] = None
        for run in self.soup.of(Run):
            self.agenda.ready[run.agent, run.thread] = None

    def take_ready(self, instance: Instance) -> bool:
        """Whether something has happened to an instance, which is looked at now."""
        if instance not in self.agenda.ready:
            return False
        del self.agenda.ready[instance]
        return True

    def next_ready(self) -> Instance | None:
        """The instance that is looked at next; None: nothing has happened to any."""
        first = next(iter(self.agenda.ready), None)
        if first is not None:
            del self.agenda.ready[first]
        return first

    def queue(self, agent: str, thread: str) -> None:
        """An instance waits for others to end a turn."""
        self.agenda.queued[agent, thread] = None

    def park(self, thread: str, wait: hold_causes.Wait, time: float, due: float) -> None:
        """Hold an instance that lost its turn to its provider; `due`: until when, by a clock that is never set."""
        self.hold(thread, wait, time)
        self.agenda.parked[thread] = due

    def unpark(self, hold: Hold, time: float) -> None:
        """Release the hold of an instance that was parked."""
        self.agenda.parked.pop(hold.thread, None)
        self.release(hold, ORCHESTRATOR, time)

    def forget_dying(self, thread: str) -> None:
        """A thread is being terminated: it is not to be looked at for that again."""
        self.agenda.dying.pop(thread, None)

    def fall_asleep(self, unconfined: str = "") -> None:
        """Wake no agent any more; `unconfined` says why one could not be confined."""
        self.agenda.asleep = True
        self.agenda.unconfined = unconfined

    def next_queued(self) -> Instance:
        """The instance that has waited longest for a turn; the proxy first, since an agent waits for its answer."""
        agenda = self.agenda
        waiting = (*agenda.ready, *agenda.queued)
        first = next((who for who in waiting if who[0] == PROXY), next(iter(agenda.queued)))
        agenda.queued.pop(first, None)
        agenda.ready.pop(first, None)
        return first

    # ---- holds and roles ---------------------------------------------------------------------

    def hold(self, thread: str, cause: hold_causes.Cause, time: float, extra: StepExtra | None = None) -> None:
        """[hold]: by the orchestrator, unless there is one for the same cause."""
        if Hold(thread, cause.text) not in self.soup:
            self.fire("hold", thread, choice=cause.text, who=ORCHESTRATOR, time=time, extra=extra)

    def release(self, hold: Hold, who: str, time: float, extra: StepExtra | None = None) -> None:
        """[release]: a hold is over, and its instance may have mail by now."""
        self.fire("release", hold.thread, choice=hold.cause, who=who, time=time, extra=extra)
        if hold.thread == self.thread:
            self.rouse_all()
        elif (surface := self.soup.get(Surface, hold.thread)) is not None:
            self.rouse(surface.agent, hold.thread)

    def enrol(self, agent: str, thread: str, roles: Sequence[RoleSnapshot], time: float) -> None:
        """[enrol]: roles in full join an instance's team; what is known of each is kept beside the soup."""
        joining = Enrolment(tuple(role_of(role) for role in roles))
        extra = StepExtra(roles=tuple(roles))
        self.fire("enrol", agent, thread, choice=joining, who=ORCHESTRATOR, time=time, extra=extra)
        for role in roles:
            self.keep(role_slot(role.name), encode(role))
            self.roles.forget(role.name)

    # ---- turns -------------------------------------------------------------------------------

    def begin(self, turn: Turn, host: str, time: float) -> None:
        """Put a turn out to be run."""
        self.running[turn.turn] = turn
        self.counters.turns += 1
        self.draft.turns[turn.day] = self.draft.turns.get(turn.day, 0) + 1
        self.ask(StartTurn(turn.turn))
        self.draft.started.append(
            TurnRow(
                turn=turn.turn,
                agent=turn.agent,
                thread=turn.thread,
                message=turn.message,
                epoch=self.epoch,
                host=host,
                status="submitted",
                started=time,
            )
        )

    def finish(self, turn: str, status: str) -> Turn:
        """The turn is over: compare and set its row."""
        self.draft.ended.append(EndedTurn(turn=turn, epoch=self.epoch, status=status))
        return self.running.pop(turn)

    def forget(self, turn: TurnRow) -> None:
        """A turn of an earlier owner is lost."""
        self.draft.ended.append(EndedTurn(turn=turn.turn, epoch=turn.epoch, status="lost"))

    def put_back(self, turn: Turn) -> None:
        """What a lost turn has written is not what its instance goes on from."""
        surface = self.soup.get(Surface, turn.thread, turn.agent)
        if surface is not None and turn.agent != PROXY:
            self.ask(RestoreWorkspace(surface.workspace, turn.turn))

    def after(self, agent: str, thread: str) -> Aftermath:
        """What an instance is told with its next turn about its last one: to be added to."""
        return self.aftermath.setdefault((agent, thread), Aftermath())

    def take_aftermath(self, agent: str, thread: str) -> Aftermath | None:
        """The same, which is told now."""
        return self.aftermath.pop((agent, thread), None)

    def spent(self, day: str) -> Spent:
        """What waits to be committed of a day's spending."""
        return _spent(self.draft).get(day) or Spent()

    def spend(self, day: str, more: Spent) -> None:
        """Count what a turn uses up, in the transaction that says so."""
        self.counters.used = self.counters.used.plus(more)
        before = self.draft.spent.get(day)
        self.draft.spent[day] = more if before is None else before.plus(more)

    # ---- messages ----------------------------------------------------------------------------

    def keep_row(self, name: str, row: MessageRow) -> None:
        """A message was read from the bus, and may be read again."""
        self.mail.rows[name] = row

    def take_row(self, name: str) -> MessageRow | None:
        """A message that is at hand, and read for the last time."""
        return self.mail.rows.pop(name, None)

    def write(
        self,
        sender: Instance,
        to: Instance,
        body: str,
        *,
        kind: MessageKind,
        key: str,
        time: float,
        meta: Meta | None = None,
        alone: bool = False,
    ) -> str:
        """Put a message on the bus; its id. A rule delivers it, as the kind that it says.

        Clean merges that its recipient has not heard of ride on it, unless it is to go `alone`: what an interrupt
        brings may never be delivered.
        """
        if self.mail.riders and not alone and (riding := self.mail.riders.pop(to, None)):
            self.drop(riders_slot(*to))
            body, meta = merge_riders.carrying(body, riding), replace(meta or Plain(), riders=tuple(riding))
        counters = self.counters
        counters.message += 1
        counters.sequences[to] = seq = counters.sequences.get(to, 0) + 1
        row = MessageRow(
            number=counters.message,
            transaction=counters.transaction + 1,
            sender=sender[0],
            sender_thread=sender[1],
            agent=to[0],
            thread=to[1],
            seq=seq,
            key=key,
            time=time,
            body=mended(body),
            meta="" if meta is None else _json(meta),
            kind=kind.value,
        )
        self.draft.messages.append(row)
        name = f"m{counters.message}"
        self.mail.rows[name] = row
        return name

    def tell_later(self, agent: str, thread: str, told: Sequence[Told]) -> None:
        """Tell an instance something with its next message."""
        waiting = self.mail.riders[agent, thread] = [*self.mail.riders.get((agent, thread), ()), *told]
        self.keep(riders_slot(agent, thread), encode(waiting))

    def forget_told(self, agent: str, thread: str) -> None:
        """The instance is gone, and what it was yet to be told with it."""
        if self.mail.riders.pop((agent, thread), None) is not None:
            self.drop(riders_slot(agent, thread))

    # ---- beside the soup ---------------------------------------------------------------------

    def keep(self, where: str, said: str) -> None:
        """Remember something with the bus's derived state."""
        said = mended(said)
        if self.kept.get(where) != said:
            self.kept[where] = said
            self.draft.kept[where] = said

    def drop(self, where: str) -> None:
        """Forget it."""
        if self.kept.pop(where, None) is not None:
            self.draft.kept[where] = None

    def take(self, row: InputRow, became: Handled) -> None:
        """An input was dealt with."""
        self.draft.taken.append(replace(row, taken=self.counters.transaction + 1, note=encode(became)))

    def ask(self, effect: Effect) -> None:
        """Ask for an effect, which is performed after the commit. Asking twice is asking once."""
        self.outbox[effect] = None

    def take_effects(self) -> Outbox:
        """The effects that were asked for. Those that can't be performed yet are asked for again."""
        effects, self.outbox = self.outbox, {}
        return effects

    def anchored(self) -> None:
        """The job's state record names the last commit."""
        self.counters.anchored = self.counters.transaction

    # ---- committing --------------------------------------------------------------------------

    @property
    def dirty(self) -> bool:
        """Whether there is something to commit."""
        return bool(self.draft.steps or self.draft.taken)

    def flush(self, time: float) -> Commit:
        """What the next transaction writes. The job goes on as if it were written."""
        rows = self.mail.rows
        for _ in range(len(rows) - BODIES):
            del rows[next(iter(rows))]  # it is on the bus, should it be asked for
        draft, self.draft, counters = self.draft, Draft(), self.counters
        counters.transaction += 1
        chained = link(
            counters.head,
            number=counters.transaction,
            time=time,
            epoch=self.epoch,
            steps=draft.steps,
            messages=draft.messages,
            taken=draft.taken,
        )
        counters.head = chained.head
        return Commit(
            job=self.row.job,
            epoch=self.epoch,
            transaction=TransactionRow(
                number=counters.transaction,
                time=time,
                epoch=self.epoch,
                steps=counters.step,
                messages=counters.message,
                head=counters.head,
                digests=chained.digests,
            ),
            steps=draft.steps,
            messages=draft.messages,
            molecules=_changed(draft),
            started=draft.started,
            ended=draft.ended,
            taken=[TakenInput(number=taken.number, note=taken.note) for taken in draft.taken],
            progress=self._progress(time),
            spent=_spent(draft),
        )

    def _progress(self, time: float) -> JobProgress | None:
        """What a listing shows of the job, where it has changed."""
        standing, record = self.standing, self.soup.get(Record, self.row.job)
        if not standing.changed or record is None:
            return None
        standing.changed = False
        progress = JobProgress(
            updated=time,
            state=str(record.state),
            visit=record.visit,
            backtracks=record.backtrack_count,
            needs_human=standing.asking + standing.alarms,
            held=standing.held,
        )
        self.row = replace(self.row, **asdict(progress))
        return progress


def _json(value: Any) -> str:
    """A value as a row holds it."""
    try:
        return JSON.encode(value).decode()
    except UnicodeEncodeError:  # a name of a file may hold half of a surrogate pair
        return encode(value)


def _spent(draft: Draft) -> dict[str, Spent]:
    """What a transaction adds to what was used up, by day."""
    found = {day: Spent(turns=turns) for day, turns in draft.turns.items()}
    for day, more in draft.spent.items():
        found[day] = more.plus(found[day]) if day in found else more
    return found


def _sends_only(choice: Choice) -> bool:
    """Whether a turn ends with letters and nothing else: such a step leaves nothing out."""
    return (
        isinstance(choice, Broadcast) and not choice.questions and all(type(one) is Deliver for one in choice.payloads)
    )


def _changed(draft: Draft) -> dict[str, str | None]:
    """The slots that a transaction changes: of molecules that came and went again, nothing is written."""
    found = draft.kept
    for where, molecule in draft.after.items():
        before = draft.before[where]
        if molecule is None:
            if before is not None:
                found[where] = None
        elif type(molecule) is not type(before) or molecule != before:
            found[where] = ENCODER.encode(molecule).decode()
    return found
