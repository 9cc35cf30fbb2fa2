"""A job replayed from its rows by the rules, with all that the derived tables should hold of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NoReturn, TypeVar, cast

from msgspec.structs import replace

from parley.audit.confinement import Confinement
from parley.audit.escalation_texts import ESCALATION, Chosen, Questions
from parley.audit.refusals import Refusals
from parley.audit.row_checks import (
    ODD,
    AuditFinding,
    Found,
    Letter,
    Part,
    Who,
    authors_of,
    check_inputs,
    in_vain,
    letters_of,
    meta_as,
    meta_of,
    typed,
    wrong,
)
from parley.base.json_codec import Unreadable, decode, encode
from parley.base.options import ABANDON, STOP
from parley.bus.hash_chain import JobOrigin, Link, RedactedRows, link, split_digests
from parley.bus.rows import BusError, InputRow, MessageRow, Spent, StepRow, TransactionRow, TurnRow
from parley.bus.slots import (
    advice_slot,
    clone_slot,
    handle_after,
    handle_slot,
    riders_slot,
    role_slot,
    sent_slot,
    tree_slot,
)
from parley.engine import protocol_messages
from parley.engine.turn import merge_riders
from parley.engine.turn.question_clone import clone_text
from parley.engine.values import human_inputs, step_extra, unfinished_work
from parley.engine.values.human_inputs import AnswerInput, NameInput, ResumeInput
from parley.engine.values.job_roles import role_of
from parley.engine.values.job_settings import StandIns
from parley.engine.values.message_meta import Observed, SentFiles, ToProxy
from parley.engine.values.people import SLOT as PEOPLE
from parley.engine.values.people import NamedPeople, read_people, with_naming
from parley.engine.values.permissions import QuestionKind, objection
from parley.engine.values.step_extra import StepExtra, Told
from parley.engine.values.step_names import place_of
from parley.engine.values.unfinished_work import Unfinished
from parley.features.budgets import arithmetic, spending
from parley.protocol.codec import decode_as, decode_choice
from parley.protocol.errors import Violated
from parley.protocol.gates import BLOCKED, standing
from parley.protocol.molecules import (
    HUMAN,
    ORCHESTRATOR,
    AskHuman,
    Hold,
    Kind,
    MessageKind,
    Proxy,
    Record,
    Ruling,
    Run,
    Surface,
    Terminate,
    escalation_thread,
    job_thread,
)
from parley.protocol.rule import Answer, Asking, Broadcast, Enrolment, Firing, Passage, Reaction, RuleSet
from parley.protocol.rules import react
from parley.protocol.soup import Soup
from parley.protocol.states import Action, State, is_backtrack
from parley.roles.phases import PHASES
from parley.verify.invariants import check
from parley.verify.laws import judge
from parley.verify.step import Step
from parley.workflow.host.design_gates import VERIFIED, design_slot
from parley.workflow.host.files_audit import Batch, Drafted
from parley.workflow.model import ending
from parley.workflow.model.code_steps import ExecutorStep, GroupStep
from parley.workflow.model.events import Event, GivenUp, HumanAnswered, PhaseChanged, apply
from parley.workflow.model.flow import Entity, Flow
from parley.workflow.model.flow_slots import CURRENT, slot, text
from parley.workflow.model.terms import EXECUTOR, GROUP

# The invariants look at the whole soup. A small one is looked at after each transaction; a large one when as
# many steps have gone by as a share of its size, so that the time of an audit grows with the steps alone.
SMALL_SOUP = 100
SHARE_OF_SOUP = 4

Row = TypeVar("Row", StepRow, MessageRow)


class Rows(Generic[Row]):
    """The rows of a table in the order of their numbers, which have no gap, part by part."""

    def __init__(self, table: str, rows: Iterator[Row]) -> None:
        self.table = table
        self.at = 0  # the number of the last row that was given out
        self._rows: Iterator[Row] = rows
        self._next: Row | None = None
        self._advance()

    def _advance(self) -> None:
        try:
            self._next = next(self._rows, None)
        except BusError as error:
            wrong(self.table, self.at + 1, f"this row, or one soon after it, can't be read: {error}")

    def of(self, transaction: int) -> list[Row]:
        """The rows of a transaction."""
        found: list[Row] = []
        while (row := self._next) is not None:
            typed(self.table, row)
            if row.number > self.at + 1:
                wrong(self.table, self.at + 1, f"the row is missing; the next is {row.number}")
            if row.number < self.at + 1:
                wrong(self.table, row.number, "the row is one too many: rows are numbered from 1, each once")
            if row.transaction < transaction:
                wrong(self.table, row.number, f"it says transaction {row.transaction}, which ended before it")
            if row.transaction > transaction:
                break
            found.append(row)
            self.at = row.number
            self._advance()
        return found

    def rest(self) -> Row | None:
        """What is left over."""
        return self._next


_LOST = ("recover", "give-up")
_ENDED = ("send-step", "ask-step", "nosend-step")  # the turn's own ends; in any other way it is lost


@dataclass(slots=True)
class Replay:
    """A job as its steps make it, and what the derived tables should hold."""

    job: str
    rules: RuleSet
    soup: Soup = field(default_factory=Soup)
    step: int = 0
    message: int = 0
    transaction: int = 0
    transitions: int = 0
    epoch: int = 0
    head: str = ""
    request: str = ""
    origin: JobOrigin | None = None  # what the job was opened with
    listed: float = 0.0  # when the job's row was last written
    sequences: dict[Who, int] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)
    kept: dict[str, str] = field(default_factory=dict)
    turns: dict[str, TurnRow] = field(default_factory=dict)
    purse: arithmetic.Purse = field(default_factory=lambda: arithmetic.Purse({}))
    named: NamedPeople = field(default_factory=NamedPeople)  # as the job's settings name them
    stand_ins: StandIns = field(default_factory=StandIns)  # the same
    days: dict[str, str] = field(default_factory=dict)  # turn -> the day that it counts for
    cut_off: set[str] = field(default_factory=set)  # workspaces whose last turn was ended from above
    spent: dict[str, Spent] = field(default_factory=dict)
    code: frozenset[str] = frozenset()  # the agents whose turns are code
    questions: Questions = field(default_factory=Questions)
    size: int = 0
    unseen: int = 0  # steps since the invariants were last looked at
    confinement: Confinement = field(default_factory=Confinement)
    outcomes: dict[str, Observed | None] = field(default_factory=dict)  # a lead's newest; None: its row is redacted
    refusals: Refusals = field(default_factory=Refusals)
    flows: dict[str, Flow] = field(default_factory=dict)
    batches: list[Batch] = field(default_factory=list)  # what the executors let happen, for the comparison of files
    drafts: list[Drafted] = field(default_factory=list)  # the changed plans that they assert, for the same
    redacted: RedactedRows = field(default_factory=dict)  # rows that an export shows without their secrets

    def take(self, part: Part) -> None:
        """Replay a transaction, or tell its first row that does not fit.

        Rows that don't fit together don't say which of them was changed. The digests do, where there are any.
        """
        try:
            self._take(part)
        except Found as found:
            changed = self._changed(part)
            if changed is None or (changed.table, changed.number) == (found.finding.table, found.finding.number):
                raise
            raise Found(changed) from found
        if self.size <= SMALL_SOUP or self.unseen * SHARE_OF_SOUP >= self.size:
            self.look()

    def _take(self, part: Part) -> None:
        commit = part.commit
        self._count(part)
        letters = {f"m{row.number}": row for row in part.messages}
        for row in part.messages:
            self._number(row)
        check_inputs(self.job, part)
        for given in part.inputs:
            self._lift(given)
        answered = {row.number: self._question(row) for row in part.inputs if row.kind == AnswerInput.kind}
        undelivered = dict(letters)
        transitions = 0
        for step in part.steps:
            reaction = self._fire(step, undelivered)
            self._follow(step, reaction, commit)
            self._keep(step, reaction, letters)
            transitions += step.rule in ("transition", "term-record")
        for row in undelivered.values():
            wrong("messages", row.number, "no step of its transaction delivers it")
        for asked in part.inputs:
            self._permit(asked, answered.get(asked.number))
        chained = self._link(part)
        if chained.head != commit.head:
            uncovered = f"its head does not cover its rows as they are: {_rows(part)}"
            raise Found(self._changed(part) or AuditFinding("transactions", commit.number, uncovered))
        if chained.digests != commit.digests:
            wrong("transactions", commit.number, "its digests are not those of its rows")
        self.step, self.message, self.transaction = commit.steps, commit.messages, commit.number
        self.epoch, self.head = commit.epoch, chained.head
        self.transitions += transitions

    def look(self) -> None:
        """See that every invariant holds."""
        if not self.unseen:
            return
        self.unseen = 0
        try:
            check(self.soup, self.rules)
        except ODD as error:
            wrong("transactions", self.transaction, f"after it an invariant does not hold: {error}")

    # ---- rows and their numbers

    def _link(self, part: Part) -> Link:
        return link(
            self.head,
            number=part.commit.number,
            time=part.commit.time,
            epoch=part.commit.epoch,
            steps=part.steps,
            messages=part.messages,
            taken=part.inputs,
            redacted=self.redacted,
        )

    def _changed(self, part: Part) -> AuditFinding | None:
        """The row that the digests name, if the transaction's rows are not those that it wrote."""
        commit = part.commit
        chained = self._link(part)
        there, made = split_digests(commit.digests), split_digests(chained.digests)
        if not there or chained.head == commit.head:
            return None
        steps, messages = commit.steps - self.step, commit.messages - self.message
        inputs = len(there) - 1 - steps - messages
        if len(part.steps) > steps or len(part.messages) > messages or inputs < 0:
            return None  # one that it did not write stands among them, or it counts other rows than it has digests
        own = [("transactions", commit.number)]
        own += [("steps", self.step + number) for number in range(1, steps + 1)]
        own += [("messages", self.message + number) for number in range(1, messages + 1)]
        own += [("inputs", row.number) for row in part.inputs] if len(part.inputs) >= inputs else []
        pairs = list(zip(there, made, strict=False))
        first = next((at for at, (one, other) in enumerate(pairs) if one != other), len(pairs))
        if first < len(own):
            table, number = own[first]
            return AuditFinding(
                table, number, f"it is not as transaction {commit.number} wrote it: its digest is another"
            )
        if len(part.inputs) < inputs:
            return AuditFinding("transactions", commit.number, "an input that it took is missing, or says another")
        return AuditFinding(
            "transactions", commit.number, "its head is not that of its rows, which are as its digests say"
        )

    def expect(self, commit: TransactionRow) -> None:
        """The next transaction must be the next by its number too."""
        due = self.transaction + 1
        if commit.number > due:
            wrong("transactions", due, f"the row is missing; the next is {commit.number}")
        if commit.number < due:
            wrong("transactions", commit.number, "the row is one too many: the numbers begin with 1")

    def _count(self, part: Part) -> None:
        commit, due = part.commit, self.transaction + 1
        if commit.epoch < max(self.epoch, 1):
            wrong("transactions", due, f"its epoch is {commit.epoch}, and the one before it had {self.epoch}")
        ends = (self.step + len(part.steps), self.message + len(part.messages))
        if (commit.steps, commit.messages) != ends:
            self._miscounted(part, ends)
        if not part.steps and not part.messages and not part.inputs:
            wrong("transactions", due, "it wrote nothing, or what it wrote is gone")

    def _miscounted(self, part: Part, ends: tuple[int, int]) -> NoReturn:
        """A transaction has other rows than it counts: whose fault it is, its head tells."""
        commit, number = part.commit, part.commit.number
        said = f"step {commit.steps} and message {commit.messages}"
        says = f"it says that it ends at {said}, and it ends at {ends[0]} and {ends[1]}"
        if self._link(part).head == commit.head:
            wrong("transactions", number, says)
        steps, messages = commit.steps - ends[0], commit.messages - ends[1]

        def with_steps(rows: Sequence[StepRow]) -> bool:
            return self._link(dataclasses.replace(part, steps=rows)).head == commit.head

        def with_messages(rows: Sequence[MessageRow]) -> bool:
            return self._link(dataclasses.replace(part, messages=rows)).head == commit.head

        if steps > 0 and part.next_step is None:
            wrong("steps", ends[0] + 1, f"the row is missing in transaction {number}")
        if messages > 0 and part.next_message is None:
            wrong("messages", ends[1] + 1, f"the row is missing in transaction {number}")
        _misplaced("steps", number, part.steps, part.next_step, steps, with_steps)
        _misplaced("messages", number, part.messages, part.next_message, messages, with_messages)
        wrong("transactions", number, f"{says}; nor does its head cover its rows")

    def _number(self, row: MessageRow) -> None:
        who = (row.agent, row.thread)
        due = self.sequences.get(who, 0) + 1
        if row.seq != due:
            wrong("messages", row.number, f"it is number {row.seq} for {' on '.join(who)}, and {due} was due")
        if row.key in self.keys:
            wrong("messages", row.number, f"another message has its key {row.key!r}")
        self.sequences[who] = due
        self.keys.add(row.key)
        self.refusals.message(row)

    # ---- firing

    def _fire(self, row: StepRow, undelivered: dict[str, MessageRow]) -> Reaction:
        """Fire the step again: the rule must be enabled, do what the row says, and keep every law."""
        if row.rule not in self.rules:
            wrong("steps", row.number, f"there is no rule {row.rule!r:.80}")
        try:
            choice = decode_choice(row.choice) if row.choice else None
            firing = Firing(row.rule, tuple(row.at.split(" ")) if row.at else (), choice)
            reaction = react(self.soup, firing, self.rules)
            judge(Step(self.soup, firing, reaction))
            authors, letters = authors_of(firing), letters_of(self.soup, firing)
        except Violated as error:
            wrong("steps", row.number, f"[{row.rule}] breaks a law: {error}")
        except ODD as error:
            wrong("steps", row.number, f"[{row.rule}] can't fire there: {error}")
        for name, written, molecules in (
            ("consumed", row.consumed, reaction.consumed),
            ("produced", row.produced, reaction.produced),
        ):
            # in any order: an owner that has loaded its soup may have it in another one
            if sorted(written.split("\n")) != sorted([molecule.brief() for molecule in molecules] or [""]):
                wrong("steps", row.number, f"[{row.rule}] {name} something else than the row says")
        if authors is not None and row.who not in authors:
            wrong(
                "steps",
                row.number,
                f"[{row.rule}] is said to be by {row.who!r:.80}, and is by {authors[0]!r}",
            )
        self._left_out(row, firing, undelivered)
        for letter in letters:
            self._deliver(row, undelivered.pop(letter.name, None), letter, alone=_alone(firing))
        self.soup.react(reaction.consumed, reaction.produced)
        self.size += len(reaction.produced) - len(reaction.consumed)
        self.unseen += 1
        return reaction

    def _left_out(self, row: StepRow, firing: Firing, letters: Mapping[str, MessageRow]) -> None:
        """The unfinished work that a step leaves out stands in the step, and in what it asserts."""
        if ("steps", row.number) in self.redacted:
            return
        due = unfinished_work.left_by(self.soup, self.kept, self._begun, self.code, row.rule, firing.at, firing.choice)
        if _extra(row).unfinished != due:
            wrong("steps", row.number, f"it tells of other unfinished work than {_listed(due)}")
        agent = firing.at[0] if firing.at else ""
        asked = (
            firing.choice.questions if isinstance(firing.choice, Broadcast | Asking) and agent not in self.code else ()
        )
        for question in asked:
            letter = letters.get(question.message)
            if question.kind is not Kind.ASSERT or letter is None or ("messages", letter.number) in self.redacted:
                continue
            out = protocol_messages.not_in_this(unfinished_work.lines(due)) if due else ""
            if meta_as(ToProxy, letter).unfinished != due or out not in letter.body.partition("\n")[0]:
                wrong("messages", letter.number, f"it does not tell that {_listed(due)} is left out")

    def _begun(self, turn: str) -> float:
        return self.turns[turn].started if turn in self.turns else 0.0

    def _deliver(self, step: StepRow, row: MessageRow | None, letter: Letter, *, alone: bool) -> None:
        to = letter.to
        if row is None:
            wrong("steps", step.number, f"it delivers {letter.name}, which its transaction did not write, or did twice")
        if (row.sender, row.sender_thread) not in letter.senders:
            wrong(
                "messages",
                row.number,
                f"step {step.number} sends it, and not {row.sender} on {row.sender_thread}",
            )
        if (row.agent, row.thread) != to:
            wrong("messages", row.number, f"step {step.number} does not send it to {row.agent} on {row.thread}")
        if row.kind != letter.kind:
            wrong(
                "messages",
                row.number,
                f"it says that it is a {row.kind!r:.40}, and step {step.number} sends a {letter.kind}",
            )
        if letter.kind is MessageKind.TASK:
            self._send_along(row)
        self._ride(row, to, alone=alone)
        if step.rule == "open":
            self.request = row.body

    def _send_along(self, row: MessageRow) -> None:
        """The files that came along with a task are kept for its worker's workspace, and the task names each."""
        task = meta_of(row)
        if not isinstance(task, SentFiles):
            return
        if ("messages", row.number) not in self.redacted and not all(one.path in row.body for one in task.files):
            wrong("messages", row.number, "a file went along that its text does not name")
        self.kept[sent_slot(row.thread)] = encode(task.files)

    def _ride(self, row: MessageRow, to: Who, *, alone: bool) -> None:
        """The clean merges that waited for an instance are told with its next message, and no others."""
        meta = meta_of(row)
        told = meta.riders if meta is not None else ()
        waiting = () if alone else decode(self.kept.pop(riders_slot(*to), "[]"), tuple[Told, ...])
        if told != waiting:
            there = f"those that waited are {_listed(waiting)}"
            wrong("messages", row.number, f"it tells that {_listed(told)} was merged, and {there}")
        if told and not row.body.endswith(merge_riders.told(told)):
            wrong("messages", row.number, "it does not say what it tells of merges")

    # ---- what follows from a step in the derived tables

    def _follow(self, row: StepRow, reaction: Reaction, commit: TransactionRow) -> None:
        if row.rule == "transition":
            self._pass(row, reaction)
        if row.rule == "open":
            self.origin = _extra(row).opened
            if self.origin is None:
                wrong("steps", row.number, "it does not say what the job was opened with")
            if row.who != (self.origin.decider or HUMAN):
                wrong("steps", row.number, f"the job was not opened by {row.who!r:.80}")
        for molecule in reaction.consumed:
            if isinstance(molecule, Run) and molecule.turn in self.turns:
                status = "ended" if row.rule in _ENDED else "lost"
                self.turns[molecule.turn] = replace(self.turns[molecule.turn], status=status)
                if status == "ended" and _extra(row).turn != molecule.turn:
                    wrong("steps", row.number, f"it ends turn {molecule.turn}, and its extra says another")
                if row.rule in _ENDED or row.rule in _LOST:
                    day = self.days[molecule.turn]
                    self.spent[day] = self.spent[day].plus(spending.of_step(_extra(row)))
                if row.rule == "term-run":
                    self.cut_off.add(self._workspace(molecule))
        for molecule in reaction.produced:
            if isinstance(molecule, Run) and molecule.agent not in self.code:
                if molecule.turn in self.turns:
                    wrong("steps", row.number, f"turn {molecule.turn} starts a second time")
                self.turns[molecule.turn] = TurnRow(
                    turn=molecule.turn,
                    agent=molecule.agent,
                    thread=molecule.thread,
                    message=molecule.message,
                    epoch=commit.epoch,
                    host=_extra(row).host,
                    status="submitted",
                    started=row.time,
                )
                self._count_turn(row, molecule.turn)
                self.cut_off.discard(self._workspace(molecule))
        if any(isinstance(m, Record | Hold | AskHuman) for m in (*reaction.consumed, *reaction.produced)):
            self.listed = commit.time

    def _workspace(self, run: Run) -> str:
        surface = self.soup.get(Surface, run.thread, run.agent)
        return surface.workspace if surface is not None else ""

    def _count_turn(self, row: StepRow, turn: str) -> None:
        left = _extra(row)
        day = self.days[turn] = left.day
        self.spent[day] = self.spent.get(day, Spent()).plus(Spent(turns=1))
        try:
            for line in left.nearly:
                self.purse.tell(line.what, line.scope, line.limit, day)
                self.kept[arithmetic.SLOT] = self.purse.text()
        except ODD as error:
            wrong("steps", row.number, f"what it tells of budgets can't be read: {error}")

    def _lift(self, row: InputRow) -> None:
        """A budget that the human has raised is kept as it is now."""
        given = human_inputs.read_or_none(row) if not in_vain(row) else None
        if not isinstance(given, ResumeInput) or not given.raised:
            return
        try:
            self.purse.lift(given.raised, given.day)
        except ODD as error:
            wrong("inputs", row.number, f"it was taken, and raises nothing: {error}")
        self.kept[arithmetic.SLOT] = self.purse.text()

    def _question(self, row: InputRow) -> QuestionKind | None:
        """What the question is that an answer is for, as it stands before the answer's transaction."""
        given = human_inputs.read_or_none(row)
        thread = escalation_thread(given.question) if isinstance(given, AnswerInput) else ""
        asked, posed = self.soup.get(AskHuman, thread), self.questions.asked.get(thread)
        return QuestionKind(asked.question.kind, bool(posed and posed.menu.options)) if asked is not None else None

    def _permit(self, row: InputRow, question: QuestionKind | None) -> None:
        """An input that had an effect was left by a person who might ask for that then; a naming counts from here."""
        given = human_inputs.read_or_none(row) if not in_vain(row) else None
        if given is None:
            return
        decider = self.origin.decider if self.origin is not None else ""
        try:
            people = read_people(decider, self.named, self.stand_ins, self.kept.get(PEOPLE, ""))
            why = objection(people, row.by, given, question)
        except ODD as error:
            wrong("inputs", row.number, f"who might leave it can't be told: {error}")
        if why:
            wrong("inputs", row.number, f"it was taken, and {row.by!r:.80} might not leave it: {why:.200}")
        if isinstance(given, NameInput):
            self.kept[PEOPLE] = with_naming(self.kept.get(PEOPLE, ""), given.person, given.may)

    def _keep(self, row: StepRow, reaction: Reaction, letters: Mapping[str, MessageRow]) -> None:
        """Sessions, trees and words that are kept beside the molecules: each comes and goes with a step."""
        at = place_of(row)
        over = row.rule in _LOST or row.rule in _ENDED
        if over:
            self._confine(row, at.agent)
        if row.rule in _ENDED or row.rule == "give-up":
            self.kept.pop(advice_slot(at.agent, at.thread), None)
        if over and row.extra:
            heard = next((m.message for m in reaction.consumed if isinstance(m, Run)), "")
            self._leave(row, at.agent, at.thread, self.questions.chosen.pop(heard, None))
        elif row.rule in ESCALATION:
            self._converse(row, reaction, letters)
        elif row.rule == "release" and (advice := _extra(row).advice):
            self.kept[advice_slot(self.soup.need(Surface, at.thread).agent, at.thread)] = advice
        elif row.rule == "enrol":
            self._enrol(row)
        elif row.rule == "observe":
            letter = letters[decode_as(str, row.choice)]
            known = ("messages", letter.number) not in self.redacted
            self.outcomes[at.record] = meta_as(Observed, letter) if known else None
        elif row.rule == "term-final":
            for surface in reaction.consumed:
                if isinstance(surface, Surface):
                    self.kept.pop(handle_slot(surface.agent, surface.thread), None)
                    self.kept.pop(advice_slot(surface.agent, surface.thread), None)
                    self.kept.pop(riders_slot(surface.agent, surface.thread), None)
                    if surface.agent == EXECUTOR:
                        self._over(row, reaction, surface.thread)
                    self.kept.pop(clone_slot(surface.thread), None)
            self.questions.forget(at.thread)

    def _converse(self, row: StepRow, reaction: Reaction, letters: Mapping[str, MessageRow]) -> None:
        """What was asked, put to the human, said and answered: each text is made of those before it."""
        try:
            self.questions.take(row, reaction, letters, self.soup, self.redacted)
        except ODD as error:
            wrong("steps", row.number, f"its texts can't be read: {error!r}")
        if row.rule in ("ask", "send-ask"):
            at = place_of(row)
            for proxy in (m for m in reaction.produced if isinstance(m, Proxy)):
                clone = clone_text(self.soup, self.kept, self.code, at.agent, at.thread)
                self.kept.setdefault(clone_slot(escalation_thread(proxy.id)), clone)

    def _confine(self, row: StepRow, agent: str) -> None:
        left = _extra(row)
        if left.boundary is not None:
            self.confinement.take(left.boundary)
        if row.rule in _ENDED and agent not in self.code:
            self.confinement.counts(row.number, left.boundary)
        self.refusals.step(row, left)

    def _pass(self, row: StepRow, reaction: Reaction) -> None:
        """A workflow's gate was what an outcome says of it; the workflow of a void plan has no executor."""
        passage = decode_as(Passage, row.choice)
        claimed = dict(passage.contents).get(standing(PHASES[State.PLAN].artifact))
        if claimed is not None:
            flow = self.flows.get(self.kept.get(CURRENT, ""))
            gate = flow.gate if flow is not None else BLOCKED
            if claimed != gate:
                said = f"it says that its overall_completion_drive_gate is {claimed!r:.40}"
                wrong("steps", row.number, f"{said}, and it is {gate}")
        left = next(m for m in reaction.consumed if isinstance(m, Record))
        self._goes_by(row, left, passage)
        if not left.depth and left.live and is_backtrack(left.state, passage.action):
            self.kept.pop(CURRENT, None)

    def _goes_by(self, row: StepRow, record: Record, passage: Passage) -> None:
        """A lead moves its record by the outcome record that it left last; a subteam sets to work without one."""
        hidden = ("steps", row.number) in self.redacted or self.outcomes.get(record.id, False) is None
        seen = self.outcomes.pop(record.id, None)
        begins = bool(record.depth) and passage.action is Action.APPROVED_INTENT
        if passage.actor in (HUMAN, ORCHESTRATOR) or begins or hidden:
            return
        said = (seen.outcome, seen.actor, seen.reason) if seen is not None else None
        if said != (passage.action, passage.actor, passage.reason):
            wrong("steps", row.number, f"no outcome record of {passage.actor} on the bus says {passage.action} so")

    def _enrol(self, row: StepRow) -> None:
        """The roles in full are kept beside the soup: those that were chosen, and no others."""
        try:
            roles = _extra(row).roles
            said = [role_of(role) for role in roles]
        except ODD as error:
            wrong("steps", row.number, f"the roles that it enrols can't be read: {error!r}")
        if said != list(decode_as(Enrolment, row.choice).roles):
            wrong("steps", row.number, "it enrols others than it tells of")
        for role in roles:
            self.kept[role_slot(role.name)] = encode(role)

    def _leave(self, row: StepRow, agent: str, thread: str, given: Chosen | None) -> None:
        left = _extra(row)
        if row.rule in ("send-step", "ask-step") and agent not in self.code:
            self._progress(row, thread, left.tree)
        try:
            if left.handle:
                where, handle = handle_after(self.kept, agent, thread, left.handle)
                self.kept[where] = handle
            if left.tree:
                self.kept[tree_slot(self.soup.need(Surface, thread, agent).workspace)] = left.tree
            if agent == EXECUTOR:
                self._executor(row, thread, left.left(ExecutorStep) or ExecutorStep(), given)
            elif agent == GROUP:
                self._group(thread, left.left(GroupStep))
            if left.merged:
                where = riders_slot(agent, thread)
                self.kept[where] = encode([*decode(self.kept.get(where, "[]"), list[Told]), *left.merged])
        except ODD as error:
            wrong("steps", row.number, f"what its turn left behind can't be read: {error}")

    def _executor(self, row: StepRow, thread: str, step: ExecutorStep, given: Chosen | None) -> None:
        """What happened to a workflow happens again; each event must be one that could."""
        self._draft(row, thread, step.drafts)
        if not step.events:
            return
        self.kept[CURRENT] = thread
        self._happen(row, thread, step.events)
        if given is not None and not _as_chosen(step.events, given):
            wrong("steps", row.number, f"it does something else than was chosen: {given.choice or 'nothing'}")

    def _group(self, thread: str, step: GroupStep | None) -> None:
        """Where a design stands is kept, and which one was found good."""
        if step is None:
            return
        self.kept[design_slot(thread)] = encode(step.design)
        if step.verified:
            self.kept[VERIFIED] = step.verified

    def _draft(self, row: StepRow, thread: str, drafts: Mapping[str, str]) -> None:
        """A changed plan lies in no workspace before it is approved: the step that asserts it names a tree with it."""
        choice = decode_choice(row.choice) if row.choice else None
        questions = choice.questions if isinstance(choice, Broadcast | Asking) else ()
        asked = {one.id: one.digest for one in questions if one.kind is Kind.ASSERT}
        if asked.keys() != drafts.keys() or not all(drafts.values()):
            wrong("steps", row.number, "it does not name the tree of each changed plan that it asserts, and no other")
        for question, tree in drafts.items():
            slot = clone_slot(escalation_thread(question))
            self.kept[slot] = clone_text(self.soup, self.kept, self.code, EXECUTOR, thread, tree)
            self.drafts.append(Drafted(row.number, tree, asked[question]))

    def _over(self, row: StepRow, reaction: Reaction, thread: str) -> None:
        """A workflow whose executor is gone is stopped, if it had not come to its end."""
        flow = self.flows.get(thread)
        origin = next(molecule.origin for molecule in reaction.consumed if isinstance(molecule, Terminate))
        events = ending.over(flow, int(row.time), origin) if flow is not None else []
        if events:
            self._happen(row, thread, events)

    def _progress(self, row: StepRow, thread: str, tree: str) -> None:
        """Whether the turn changed its files is what its tree says: the bounds of a job go by that."""
        before = self.kept.get(tree_slot(self.soup.need(Surface, thread).workspace))
        choice = decode_choice(row.choice)
        told = isinstance(choice, Broadcast | Asking) and choice.progress
        if told != (bool(tree) and tree != before):
            wrong(
                "steps",
                row.number,
                "it says of its files that they changed, or that they did not, and its tree another",
            )

    def _happen(self, row: StepRow, thread: str, events: Sequence[Event]) -> None:
        tree = self.kept.get(tree_slot(job_thread(self.soup.charter.job)), "")
        self.batches.append(Batch(row.transaction, thread, events, tree))
        flow = self.flows.setdefault(thread, Flow(thread))
        changed: set[Entity] = set()
        for event in events:
            changed |= apply(flow, event)
        for entity in changed:
            body = text(flow, entity)
            if body is None:
                self.kept.pop(slot(flow, entity), None)
            else:
                self.kept[slot(flow, entity)] = body


def _misplaced(
    table: str,
    number: int,
    own: Sequence[Row],
    after: Row | None,
    due: int,
    fits: Callable[[Sequence[Row]], bool],
) -> None:
    """Tell the row that says another transaction than the one that wrote it, if one does."""
    if due == 1 and after is not None:
        typed(table, after)
        with_it: list[Row] = list(own)
        with_it.append(replace(after, transaction=number))
        if fits(with_it):
            wrong(table, after.number, f"it says transaction {after.transaction}, and {number} wrote it")
    if due == -1 and fits(own[:-1]):
        wrong(table, own[-1].number, f"it says transaction {number}, which did not write it")


def _rows(part: Part) -> str:
    """Which rows a transaction has, in words: one of them, or its own, was changed."""
    names = [("step", part.steps), ("message", part.messages), ("input", part.inputs)]
    parts = []
    for name, rows in cast("list[tuple[str, Sequence[StepRow]]]", names):
        if len(rows) == 1:
            parts.append(f"{name} {rows[0].number}")
        elif rows:
            parts.append(f"{name}s {rows[0].number} to {rows[-1].number}")
    return f"one of {', '.join(parts)}, or this row, was changed"


def _extra(row: StepRow) -> StepExtra:
    try:
        return step_extra.read(row.extra)
    except Unreadable as error:
        wrong("steps", row.number, f"what its turn left behind can't be read: {error}")


def _listed(told: Iterable[Told | Unfinished]) -> str:
    """The conversations that a list of notes is about."""
    return ", ".join(one.thread for one in told) or "none"


def _alone(firing: Firing) -> bool:
    """Whether what a firing delivers takes no merges along: an interrupt's message, and a withdrawal's marker."""
    withdraws = isinstance(firing.choice, Answer) and firing.choice.ruling is Ruling.WITHDRAW
    return firing.rule == "intervene" or (firing.rule == "respond" and withdraws)


def _as_chosen(events: Sequence[Event], given: Chosen) -> bool:
    """Whether a turn of the executor's that hears an answer takes for chosen what was, and does that alone."""
    chosen = given.choice
    heard = [event for event in events if isinstance(event, HumanAnswered) and event.question == given.question]
    stops = any(isinstance(event, PhaseChanged) and event.phase == "stopped" for event in events)
    abandons = any(isinstance(event, GivenUp) for event in events)
    return all(event.choice == chosen for event in heard) and (
        not heard or ((stops or chosen != STOP) and (not abandons or chosen == ABANDON))
    )
