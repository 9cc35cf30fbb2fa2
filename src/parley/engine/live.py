"""A job in the hands of its owner: its soup, and what the next transaction will write of it.

Every change goes through `fire`. Nothing here touches the world: the engine commits what `flush` gives,
and only then acts. What goes into a row has only characters in it, whoever made it: a commit is for all jobs at once.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from parley.core.rule import Choice, Enrolment, Firing, Reaction, RuleSet
from parley.core.rules import RULES
from parley.core.soup import Soup
from parley.core.states import Record
from parley.core.terms import (
    ORCHESTRATOR,
    PROXY,
    AskHuman,
    Close,
    Deliver,
    Hold,
    Idle,
    Interrupt,
    Mailbox,
    MessageKind,
    Molecule,
    Payload,
    Role,
    Run,
    Surface,
    Terminate,
    job_thread,
)
from parley.core.wire import decode, text
from parley.decisions import Decided
from parley.engine import budgets, riders, unfinished
from parley.engine.chain import link
from parley.engine.names import BESIDE, ROLE, slot
from parley.engine.records import dumps
from parley.engine.roster import messages_of
from parley.engine.signs import alarms, is_alarm
from parley.engine.turn import Turn
from parley.ports import Commit, InputRow, JobRow, Loaded, MessageRow, Spent, StepRow, TransactionRow, TurnRow
from parley.text import mended
from parley.workflow.flow import Flow

ONE_TURN = Spent(turns=1)
BODIES = 4096  # messages that are remembered beside the bus
_LISTED = frozenset((AskHuman, Hold, Record))  # what the listing's row depends on
_WATCHED = frozenset((Interrupt, Terminate, AskHuman, Hold, Record))


@dataclass(slots=True)
class _Pending:
    steps: list[StepRow] = field(default_factory=list)
    messages: list[MessageRow] = field(default_factory=list)
    before: dict[str, Molecule | None] = field(default_factory=dict)
    after: dict[str, Molecule | None] = field(default_factory=dict)
    kept: dict[str, str | None] = field(default_factory=dict)
    started: list[TurnRow] = field(default_factory=list)
    ended: list[tuple[str, int, str]] = field(default_factory=list)
    taken: list[InputRow] = field(default_factory=list)
    spent: dict[str, budgets.Tally] = field(default_factory=dict)


class LiveJob:
    """One job, owned."""

    def __init__(self, row: JobRow, epoch: int, rules: RuleSet = RULES) -> None:
        self.row = row
        self.job = row.job
        self.thread = job_thread(row.job)  # which spans the job's states
        self.epoch = epoch
        self.rules = rules
        self.settings: dict[str, Any] = json.loads(row.settings)
        self.soup = Soup()
        self.step = self.message_count = self.transaction = 0
        self.head = ""
        self.sequences: dict[tuple[str, str], int] = {}
        self.kept: dict[str, str] = {}  # handles and trees, by slot
        self.running: dict[str, Turn] = {}
        self.bodies: dict[str, MessageRow] = {}  # of messages that are not read yet
        self.ready: OrderedDict[tuple[str, str], None] = OrderedDict()  # instances that something has happened to
        self.dying: list[str] = []  # threads to be terminated
        self.stopped: list[str] = []  # turns whose Run was consumed: to be cancelled
        self.lost: dict[tuple[str, str], list[str]] = {}  # calls that a lost turn had made
        self.overran: dict[tuple[str, str], str] = {}  # whose last turn reached its time limit, and how it was lost
        self.remarks: dict[tuple[str, str], str] = {}  # what an instance is told with its next message
        self.spoilt: list[tuple[str, str]] = []  # workspaces that a lost turn may have written to, with that turn
        self.retired: list[str] = []  # workspaces that nobody works in any more
        self.unparking: dict[str, float] = {}  # when whoever is parked may go on, by a clock that nobody sets
        self.unconfined = ""  # why an agent could not be confined: the job is to be let go of
        self.asleep = False  # whether it was taken over only to be asked something: no agent is woken
        self.told = False  # whether somebody outside waits to read that all of this was carried out
        self.abandoned: list[tuple[str, str]] = []  # workspaces of turns that were cut short, with that turn
        self.changed: dict[str, Record] = {}  # records that are not in their files yet
        self.outcomes: list[tuple[str, str, str]] = []  # to be kept as files: name, text, whose workspace
        self.decided: list[Decided] = []  # what the human, or the proxy for them, has said: to be remembered
        self.forgetful = ""  # why the memory can't be used, if it can't
        self.asking = 0  # how many questions wait for the human
        self.held = self.parked = 0  # how many holds there are on the whole job, and on single instances
        self.answers: list[InputRow] = []  # what the human has answered, for the state record
        self.alarms = 0  # how many of these only the human can act on
        self.unpaid = 0  # how many of them are for a budget that is spent
        self.purse = budgets.Purse.of(self.settings)
        self.used = budgets.Tally()
        self.queued: OrderedDict[tuple[str, str], None] = OrderedDict()  # instances that wait for others to end a turn
        self.busy_since: float | None = None  # since when somebody is at work and it was not counted yet
        self.worked_seconds = 0.0  # at work, and not counted yet
        self.homes = ""  # where its instances have their homes, once a turn was submitted
        self.flows: dict[str, Flow] = {}  # its workflows, by their executors' threads
        self.unwritten: dict[str, set[str]] = {}  # of its workflows: the entities that their files do not tell yet
        self.riders: dict[tuple[str, str], list[riders.Rider]] = {}  # clean merges that an instance is yet to be told
        self._rules: dict[str, str] = {}
        self._role_texts: dict[tuple[str, bool], str] = {}
        self._roles: dict[str, dict[str, Any]] = {}
        self._enrolled: dict[str, dict[str, Any]] = {}
        self._pending = _Pending()
        self._listed = True  # whether the listing's row may have changed

    @classmethod
    def resume(cls, loaded: Loaded, epoch: int, rules: RuleSet = RULES) -> LiveJob:
        """The job as the bus has it."""
        live = cls(loaded.row, epoch, rules)
        live._listed = False
        if loaded.transaction is not None:
            live.step = loaded.transaction.steps
            live.message_count = loaded.transaction.messages
            live.transaction = loaded.transaction.number
            live.head = loaded.transaction.head
        live.sequences = dict(loaded.sequences)
        for where, body in loaded.molecules.items():
            if where.startswith(BESIDE):
                live.kept[where] = body
            else:
                live.soup.react((), (decode(json.loads(body)),))
        live.riders = riders.waiting(live.kept)
        live.changed = {record.id: record for record in live.soup.of(Record)}
        live.asking, live.held = len(live.soup.of(AskHuman)), len(live.soup.all(Hold, live.thread))
        live.parked = len(live.soup.of(Hold)) - live.held
        live.alarms = alarms(live.soup)
        live.unpaid = budgets.unpaid(live.soup)
        live.purse = budgets.Purse.of(live.settings, live.kept.get(budgets.SLOT, ""))
        live.used = budgets.total(loaded.spent)
        live.rouse()
        return live

    # ---- reading -----------------------------------------------------------------------------

    @property
    def record(self) -> Record:
        """The job's own state record."""
        return self.soup.need(Record, self.job)

    @property
    def dirty(self) -> bool:
        """Whether there is something to commit."""
        return bool(self._pending.steps or self._pending.taken)

    def anchor(self) -> dict[str, Any]:
        """Where the bus stands, without what waits to be committed: one that ends before it has lost its tail."""
        return {
            "transaction": self.transaction,
            "step": self.step - len(self._pending.steps),
            "message": self.message_count - len(self._pending.messages),
            "hash": self.head,
        }

    def witness(self) -> str:
        """The same as every turn's snapshot says it (JSON)."""
        step, message = self.step - len(self._pending.steps), self.message_count - len(self._pending.messages)
        return f'{{"head":{{"transaction":{self.transaction},"step":{step},"message":{message},"hash":"{self.head}"}}}}'

    def rules_for(self, agent: str) -> str:
        """The scripted agent's rules, as its orders carry them; `null` for a proxy that has none."""
        text = self._rules.get(agent)
        if text is None:
            rules = self.settings.get("proxy") if agent == PROXY else self.settings.get("agents", {}).get(agent, [])
            text = self._rules[agent] = dumps(rules)
        return text

    def role(self, agent: str, thread: str = "") -> dict[str, Any]:
        """A role as it was enrolled for whoever works on the thread, or as the job's snapshot has it."""
        enrolled = self.kept.get(f"{ROLE}{agent}") if thread else None
        if enrolled is not None and self._joined(agent, thread):
            if agent not in self._enrolled:
                self._enrolled[agent] = json.loads(enrolled)
            return self._enrolled[agent]
        if not self._roles:
            self._roles = {role["name"]: role for role in self.settings["roles"]}
        return self._roles.get(agent, {"name": agent})

    def _joined(self, agent: str, thread: str) -> bool:
        """Whether an instance was dispatched by somebody whose team it has joined since the job was opened."""
        parent = self.soup.parent(thread)
        above = self.soup.get(Surface, parent) if parent else None
        own = self.soup.charter.role(above.agent) if above else None
        return above is not None and own is not None and agent in above.team and agent not in own.team

    def tools(self, surface: Surface) -> tuple[str, ...]:
        """The tools of the protocol that an instance has."""
        bus = self.role(surface.agent, surface.thread).get("bus")
        return tuple(bus) if bus is not None else surface.tools

    def enrol(self, agent: str, thread: str, roles: Sequence[Mapping[str, Any]], time: float) -> None:
        """[enrol]: roles in full join an instance's team; what is known of each is kept beside the soup."""
        joining = tuple(
            Role(role["name"], frozenset(role["team"]), tuple(role["bus"]), messages_of(role["name"], role["bus"]))
            for role in roles
        )
        extra = dumps({"roles": list(roles)})
        self.fire("enrol", agent, thread, choice=Enrolment(joining), who=ORCHESTRATOR, time=time, extra=extra)
        for role in roles:
            self.keep(f"{ROLE}{role['name']}", dumps(role))
            self._enrolled.pop(role["name"], None)
            self._role_texts.pop((role["name"], True), None)

    def role_text(self, agent: str, thread: str) -> str:
        """The same, as its orders carry it."""
        role = self.role(agent, thread)
        key = (agent, "bus" in role)
        text = self._role_texts.get(key)
        if text is None:
            notes, wanted = self.settings.get("notes", ""), self.settings.get("model") or ""
            if wanted and not role.get("model") and (role.get("runner") or self.row.agent) == self.row.agent:
                role = {**role, "model": wanted}
            text = self._role_texts[key] = dumps({**role, "notes": notes})
        return text

    def rouse(self) -> None:
        """Look at every instance again: after a load, and when a hold is released."""
        for idle in self.soup.of(Idle):
            self.ready[idle.agent, idle.thread] = None
        for run in self.soup.of(Run):
            self.ready[run.agent, run.thread] = None

    # ---- changing ----------------------------------------------------------------------------

    def fire(self, rule: str, *at: str, choice: Choice = None, who: str, time: float, extra: str = "") -> Reaction:
        """Fire a rule, or raise what the rule raises and change nothing."""
        soup = self.soup
        reaction = self.rules[rule].react(soup, Firing(rule, at, choice))
        if left := self.leaves(rule, *at, choice=choice):
            extra = json.dumps({**(json.loads(extra) if extra else {}), unfinished.KEY: left})
        consumed, produced = reaction.consumed, reaction.produced
        soup.react(consumed, produced)
        self.step += 1
        self._pending.steps.append(
            StepRow(
                self.step,
                self.transaction + 1,
                rule,
                who,
                time,
                " ".join(at),
                "" if choice is None else text(choice),
                "\n".join([molecule.brief() for molecule in consumed]),
                "\n".join([molecule.brief() for molecule in produced]),
                mended(extra),
            )
        )
        self._track(consumed, produced)
        return reaction

    def leaves(self, rule: str, *at: str, choice: Choice = None) -> list[dict[str, Any]]:
        """The unfinished work that a firing would leave out: its step says so, whoever fires it."""
        return unfinished.left_by(self.soup, self.kept, self.begun, rule, at, choice)

    def begun(self, turn: str) -> float:
        """When a turn under way has begun."""
        return self.running[turn].begun if turn in self.running else 0.0

    def _track(self, consumed: tuple[Any, ...], produced: tuple[Any, ...]) -> None:
        before, after = self._pending.before, self._pending.after
        for molecule in consumed:
            where, kind = slot(molecule), type(molecule)
            before.setdefault(where, molecule)
            after[where] = None
            if kind is Run:
                self._ended(molecule)
            elif kind in _LISTED:
                self._count(molecule, -1)
        for molecule in produced:
            where, kind = slot(molecule), type(molecule)
            before.setdefault(where, None)
            after[where] = molecule
            if kind is Idle or (kind is Mailbox and molecule.queue):
                self.ready[molecule.agent, molecule.thread] = None
            elif kind in _WATCHED:
                self._watch(molecule)

    def _watch(self, molecule: Molecule) -> None:
        """What else follows from a molecule that has come about."""
        if isinstance(molecule, Interrupt):
            self._rouse_thread(molecule.thread)
        elif isinstance(molecule, Terminate):
            if molecule.thread not in self.dying:
                self.dying.append(molecule.thread)
        else:
            self._count(molecule, 1)
            if isinstance(molecule, Record):
                self.changed[molecule.id] = molecule

    def _count(self, molecule: Molecule, change: int) -> None:
        self._listed = True
        if isinstance(molecule, AskHuman):
            self.asking += change
        elif isinstance(molecule, Hold):
            if molecule.thread == self.thread:
                self.held += change
                self.unpaid += change if budgets.is_spent(molecule) else 0
            else:
                self.parked += change
            self.alarms += change * is_alarm(molecule)

    def _rouse_thread(self, thread: str) -> None:
        surface = self.soup.get(Surface, thread)
        if surface is not None:
            self.ready[surface.agent, thread] = None

    def _ended(self, run: Run) -> None:
        """A Run is gone. If its turn was not finished before, it was ended from outside: cancel it."""
        if run.turn in self.running:
            self.finish(run.turn, "lost")
            self.stopped.append(run.turn)

    def finish(self, turn: str, status: str) -> Turn:
        """The turn is over: compare and set its row."""
        self._pending.ended.append((turn, self.epoch, status))
        return self.running.pop(turn)

    def put_back(self, turn: Turn) -> None:
        """What a lost turn has written is not what the instance goes on from."""
        surface = self.soup.get(Surface, turn.thread, turn.agent)
        if surface is not None and turn.agent != PROXY:
            self.spoilt.append((surface.workspace, turn.turn))

    def forget(self, turn: TurnRow) -> None:
        """A turn of an earlier owner is lost."""
        self._pending.ended.append((turn.turn, turn.epoch, "lost"))

    def begin(self, turn: Turn, host: str, time: float) -> None:
        """Put a turn out to be run."""
        self.running[turn.turn] = turn
        self.spend(turn.day, ONE_TURN)
        self._pending.started.append(
            TurnRow(turn.turn, turn.agent, turn.thread, turn.message, self.epoch, host, "submitted", time)
        )

    def spend(self, day: str, more: Spent) -> None:
        """Count what a turn uses up, in the transaction that says so."""
        self.used.add(more)
        self._pending.spent.setdefault(day, budgets.Tally()).add(more)

    def spending(self, day: str) -> budgets.Tally | None:
        """What waits to be committed of a day's spending."""
        return self._pending.spent.get(day)

    def write(
        self,
        sender: tuple[str, str],
        to: tuple[str, str],
        body: str,
        *,
        kind: MessageKind,
        key: str,
        time: float,
        meta: dict[str, Any] | None = None,
        alone: bool = False,
    ) -> str:
        """Put a message on the bus; its id. A rule delivers it, as the kind that it says.

        Clean merges that its recipient is yet to be told ride on it, unless it is to go `alone`: what an interrupt
        brings may never be delivered.
        """
        if self.riders and not alone and (riding := self.riders.pop(to, None)):
            self.drop(riders.slot(*to))
            body, meta = riders.carrying(body, riding), {**(meta or {}), "riders": riding}
        self.message_count += 1
        seq = self.sequences.get(to, 0) + 1
        self.sequences[to] = seq
        row = MessageRow(
            self.message_count,
            self.transaction + 1,
            *sender,
            *to,
            seq,
            key,
            time,
            mended(body),
            mended(dumps(meta)) if meta else "",
            kind.value,
        )
        self._pending.messages.append(row)
        name = f"m{self.message_count}"
        self.bodies[name] = row
        return name

    def keep(self, where: str, text: str) -> None:
        """Remember a handle or a tree with the bus's derived state."""
        text = mended(text)
        if self.kept.get(where) != text:
            self.kept[where] = text
            self._pending.kept[where] = text

    def drop(self, where: str) -> None:
        """Forget a handle or a tree."""
        if self.kept.pop(where, None) is not None:
            self._pending.kept[where] = None

    def let_ride(self, agent: str, thread: str, merged: list[riders.Rider]) -> None:
        """Tell an instance of clean merges with its next message."""
        waiting = self.riders[agent, thread] = [*self.riders.get((agent, thread), ()), *merged]
        self.keep(riders.slot(agent, thread), dumps(waiting))

    def forget_riders(self, agent: str, thread: str) -> None:
        """The instance is gone, and what it was yet to be told with it."""
        if self.riders.pop((agent, thread), None) is not None:
            self.drop(riders.slot(agent, thread))

    def take(self, row: InputRow, note: str) -> None:
        """An input was dealt with."""
        self._pending.taken.append(row._replace(taken=self.transaction + 1, note=mended(note)))

    # ---- committing --------------------------------------------------------------------------

    def flush(self, time: float) -> Commit:
        """What the next transaction writes. The job goes on as if it were written."""
        pending, self._pending = self._pending, _Pending()
        for _ in range(len(self.bodies) - max(BODIES, len(pending.messages))):
            del self.bodies[next(iter(self.bodies))]  # it is on the bus, should somebody ask for it
        self.transaction += 1
        self.head, digests = link(
            self.head, self.transaction, time, self.epoch, pending.steps, pending.messages, pending.taken
        )
        molecules: dict[str, str | None] = dict(pending.kept)
        for where, molecule in pending.after.items():
            before = pending.before[where]
            if molecule is None:
                if before is not None:
                    molecules[where] = None
            elif type(molecule) is not type(before) or molecule != before:
                molecules[where] = text(molecule)
        row = self._row(time) if self._listed else None
        return Commit(
            self.job,
            self.epoch,
            TransactionRow(self.transaction, time, self.epoch, self.step, self.message_count, self.head, digests),
            pending.steps,
            pending.messages,
            molecules,
            pending.started,
            pending.ended,
            [(taken.number, taken.note) for taken in pending.taken],
            row,
            [(day, tally.spent()) for day, tally in pending.spent.items()],
        )

    def _row(self, time: float) -> JobRow:
        self._listed = False
        record = self.record
        self.row = self.row._replace(
            updated=time,
            state=str(record.state),
            visit=record.visit,
            backtracks=record.backtrack_count,
            needs_human=self.asking + self.alarms + self.unpaid,
            held=self.held,
        )
        return self.row


def payload_message(payload: Payload, message: str) -> Payload:
    """The payload with its message's real id."""
    if isinstance(payload, Close):
        return payload
    return Deliver(payload.agent, payload.thread, message)
