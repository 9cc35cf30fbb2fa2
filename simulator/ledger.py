"""What must be true of a run's workflows: told from its steps, its messages and its files.

It keeps its own books of what happened, by the tables of the docs, and believes nothing that the executor says of
itself where somebody else's message, or a file, can be asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from parley.bus.rows import MessageRow, StepRow
from parley.bus.store import Store
from parley.engine.values import message_meta, step_extra
from parley.engine.values.message_meta import Answered
from parley.engine.values.step_names import NamedRun, all_named
from parley.protocol.codec import decode_as, decode_choice
from parley.protocol.molecules import Deliver
from parley.protocol.rule import Broadcast, Passage
from parley.workflow.files.structure import check_structure
from parley.workflow.host import worker_reports
from parley.workflow.model.code_steps import ExecutorStep
from parley.workflow.model.events import (
    AgentJoined,
    ConversationClosed,
    ConversationOpened,
    Event,
    GivenUp,
    HeldBack,
    HumanAsked,
    MergeBegun,
    MergeEnded,
    NoteRefused,
    NoteTaken,
    PendingSettled,
    PhaseChanged,
    PlanDecided,
    PlanInForce,
    RoundEnded,
    SessionBegun,
    StallHandled,
    StatusChanged,
    VerifierNoteWentUp,
)
from parley.workflow.model.flow import OpenConversation
from parley.workflow.model.terms import SHARED_STATUS, Merged, Note, NoteStatus, PlanChange, Round, Worker
from parley.workflow.model.worker_result import WorkerResult
from simulator.disk import SimDisk, digest
from simulator.workflows import OWN

EXECUTOR = "workflow-executor"
TABLE = {
    "pending": "working failed",
    "working": "completion_drive_review blocked failed stalled",
    "completion_drive_review": "ready_for_verification blocked working failed stalled",
    "ready_for_verification": "verified working blocked failed",
    "verified": "session_complete working",
    "blocked": "working failed",
    "session_complete": "working",
    "failed": "working",
    "stalled": "working blocked failed",
}
MET = ("verified", "session_complete")
AT_WORK = ("working", "completion_drive_review")
BEGINS = ("wake", "wake-int", "interrupt")


class Broken(Exception):
    """A law that was broken: the text says which, and where."""


GRAVITY = ("abandon", "escalate", "re-scope", "re-plan")  # what a failed checkpoint leads to, the gravest first


@dataclass
class Account:
    """What is known of one doer."""

    status: str = "pending"
    notes: dict[tuple[int, str], Note] = field(default_factory=dict)  # by session and name
    session: int = 0
    verdict: str = ""  # of the last round, unless it has been at work since
    seen: str = ""  # the thread of whoever gave it
    merged: bool = False  # since that round
    version: int = 0
    versions: int = 0  # merges of its that were taken
    given_up: bool = False
    pending: set[str] = field(default_factory=set)  # notes that were refused, and wait to be mended
    begun: bool = False
    wonders: dict[str, Note] = field(default_factory=dict)  # its verifier's notes about it, by name
    unfit: set[str] = field(default_factory=set)  # its verifier's, refused for their form
    asked: dict[str, tuple[int, str]] = field(default_factory=dict)  # those that went up, as which of its own notes

    @property
    def wondering(self) -> list[str]:
        """The notes of its verifier that keep it from being verified: one that went up stands as its own does."""
        own = {
            name: self.notes[self.asked[name]] if name in self.asked else note for name, note in self.wonders.items()
        }
        return [*(name for name, note in own.items() if note.status != "resolved"), *self.unfit]

    @property
    def unsettled(self) -> list[str]:
        """The notes of its present session that keep it from being ready."""
        left = [name for (at, name), note in self.notes.items() if at == self.session and note.status != "resolved"]
        return [*left, *self.pending]


@dataclass
class Book:
    """One workflow: what its plan says, and where everybody stands."""

    job: str
    thread: str
    visit: int
    fan_out: int
    trees: Mapping[str, Mapping[str, str]]  # what each workspace began as
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)  # the plan's, and those who joined
    stages: list[list[str]] = field(default_factory=list)
    doers: dict[str, Account] = field(default_factory=dict)
    talks: dict[str, OpenConversation] = field(default_factory=dict)
    talks_ever: dict[str, OpenConversation] = field(default_factory=dict)  # those that have ended as well
    merging: str = ""
    merges: int = 0
    phase: str = "running"
    held: Sequence[str] = ()  # who waits for a free slot
    checkpoints: Sequence[Mapping[str, str]] = ()

    # ---- what its steps say --------------------------------------------------------------------

    def take(self, listed: Sequence[Event], told: MessageRow) -> None:
        """One step of the executor's; `told` is the message that it dealt with."""
        talk = self.talks.get(told.sender_thread)
        for event in listed:
            self.happen(event, listed, told)
        if talk is not None and talk.kind in ("doer", "verifier"):
            self.heard(talk.agent, told, talk.kind)
        if self.held and self.phase == "running" and len(self.talks) < self.fan_out:
            raise Broken(f"{self.held[0]} is held back while {len(self.talks)} of {self.fan_out} slots are taken")

    def happen(self, event: Event, listed: Sequence[Event], told: MessageRow) -> None:
        """One event, among those of its step."""
        match event:
            case PlanInForce(text=text):
                self.plan(json.loads(text.split("---\n")[1]))
            case AgentJoined(worker=worker):
                self.join(worker)
            case StatusChanged(agent=agent, to=to):
                self.move(agent, to, listed)
            case SessionBegun(agent=agent):
                self.doers[agent].session += 1
            case NoteTaken() | NoteRefused() | PendingSettled():
                self.noted(event, told)
            case VerifierNoteWentUp(agent=agent, note_id=name, asked_as=asked_as):
                self.doers[agent].asked[name] = (self.doers[agent].session, asked_as)
            case PlanDecided(change=change):
                self.changed(change, listed)
            case RoundEnded(agent=agent, round=found):
                self.round(agent, found, told)
                self.remedied(agent, found, listed)
            case _:
                self.go_on(event)

    def go_on(self, event: Event) -> None:
        """An event that depends on no other of its step."""
        match event:
            case ConversationOpened(talk=talk):
                self.open(talk)
            case ConversationClosed(thread=thread):
                del self.talks[thread]
            case MergeBegun(merging=merging):
                self.begin_merge(merging.agent)
            case MergeEnded(merged=merged):
                self.end_merge(merged)
            case GivenUp(agent=agent):
                self.doers[agent].given_up = True
            case HeldBack(agents=agents):
                self.held = agents
            case PhaseChanged(phase=phase):
                self.phase = phase
            case _:
                pass

    def heard(self, agent: str, told: MessageRow, kind: str) -> None:
        """A doer or its verifier has answered: no note that it was told is taken is lost."""
        one = self.doers[agent]
        left = worker_reports.read(message_meta.read(told))
        if kind == "verifier":
            self.wondered(agent, left)
            return
        for note in left.notes:
            if (one.session, note.note_id) not in one.notes:
                raise Broken(f"{note.note_id} of {agent} was taken, and is lost")
        for unfit in left.pending:
            if unfit.pending_id not in one.pending:
                raise Broken(f"{unfit.pending_id} of {agent} was refused, and is lost")

    def wondered(self, agent: str, left: WorkerResult) -> None:
        """A doer's verifier has answered: what it noted is there, and what it escalated has gone up."""
        one = self.doers[agent]
        for note in left.notes:
            if note.note_id not in one.wonders:
                raise Broken(f"{note.note_id} of the verifier of {agent} was taken, and is lost")
            if note.status == "escalated" and note.note_id not in one.asked and not one.given_up:
                raise Broken(f"{note.note_id} of the verifier of {agent} is escalated, and reaches no agent above")

    def says(self, step: str) -> None:
        """What the executor sends when its turn ends: a doer is put to work only when it is to work."""
        chosen = decode_choice(step)
        for payload in chosen.payloads if isinstance(chosen, Broadcast) else ():
            talk = self.talks.get(payload.thread) if isinstance(payload, Deliver) else None
            if talk is not None and talk.kind == "doer" and self.doers[talk.agent].status not in AT_WORK:
                raise Broken(f"{talk.agent} is put to work while it is {self.doers[talk.agent].status}")

    def plan(self, said: Mapping[str, Any]) -> None:
        """A plan comes into force."""
        joined = {name: one for name, one in self.agents.items() if one.get("joined")}
        self.agents = {**said["agents"], **joined}
        self.stages = said["stages"]
        self.checkpoints = said.get("checkpoints", ())
        for name, one in said["agents"].items():
            if one.get("task") != "verifier":
                self.doers.setdefault(name, Account())

    def join(self, worker: Worker) -> None:
        """Somebody joins who is not in the plan."""
        self.agents[worker.name] = {**to_builtins(worker), "joined": True}
        if worker.task == "doer":
            self.doers.setdefault(worker.name, Account())

    def may_begin(self, agent: str) -> str:
        """Why a doer may not begin yet; empty: it may."""
        waits = [name for name in self.agents[agent].get("depends_on", ()) if self.doers[name].status not in MET]
        if waits:
            return f"{agent} begins before {waits[0]} is verified"
        at = next((number for number, stage in enumerate(self.stages) if agent in stage), 0)
        for name in (name for stage in self.stages[:at] for name in stage):
            one = self.doers[name]
            if one.status not in MET and not one.given_up:
                return f"{agent} begins before {name}, of an earlier stage, is done"
        return ""

    def move(self, agent: str, to: str, events: Iterable[Event]) -> None:
        """A status changes: along the table, and only if what it stands for is so."""
        one = self.doers[agent]
        if to not in TABLE[one.status].split():
            raise Broken(f"{agent} goes from {one.status} to {to}")
        if one.status == "pending" and to == "working" and (why := self.may_begin(agent)):
            raise Broken(why)
        if to in ("ready_for_verification", *MET) and one.unsettled:
            raise Broken(f"{agent} is {to} while {one.unsettled[0]} is not settled")
        asked = [name for (at, name), note in one.notes.items() if at == one.session and note.status == "escalated"]
        if (one.status, to) == ("blocked", "working") and asked:
            raise Broken(f"{agent} goes on while {asked[0]} has no answer that holds")
        if to in MET and one.wondering:
            raise Broken(f"{agent} is {to} while {one.wondering[0]} of its verifier's is not settled")
        if to == "verified":
            if one.verdict != "verified":
                raise Broken(f"{agent} is verified, and its verifier says {one.verdict or 'nothing'}")
            if not one.merged:
                raise Broken(f"{agent} is verified before its work is merged")
            one.version += 1
        if to == "stalled":
            meant = self.agents[agent].get("on_stall") or "escalate"
            done = [str(each.action.action) for each in events if isinstance(each, StallHandled)]
            if meant not in done:
                raise Broken(f"{agent} has stalled, and {meant} is not what was done: {done}")
        if to in AT_WORK:
            one.verdict, one.merged = "", False
        one.status = to
        one.given_up = False

    def note(self, agent: str, note: Note, told: MessageRow) -> None:
        """A note is made or changed: nobody settles what is not theirs to settle."""
        one, name = self.doers[agent], note.note_id
        before = one.notes.get((one.session, name))
        if before is not None and before.status == "resolved" and before != note:
            raise Broken(f"{name} of {agent} was resolved, and is changed")
        if note.status == "resolved" and (before is None or before.status != "resolved"):
            self.settled(agent, note, told)
        one.notes[one.session, name] = note

    def noted(self, event: NoteTaken | NoteRefused | PendingSettled, told: MessageRow) -> None:
        """A note of a doer, or of its verifier, is made or changed, or it is refused."""
        one = self.doers[event.agent]
        pending = one.unfit if event.of_verifier else one.pending
        match event:
            case NoteRefused(pending=unfit):
                pending.add(unfit.pending_id)
            case PendingSettled(pending_id=name):
                pending.remove(name)
            case NoteTaken(note=note) if event.of_verifier:
                self.wondered_at(event.agent, note, told)
            case NoteTaken(note=note):
                self.note(event.agent, note, told)

    def wondered_at(self, agent: str, note: Note, told: MessageRow) -> None:
        """A note of a doer's verifier is made or changed."""
        one = self.doers[agent]
        before = one.wonders.get(note.note_id)
        if before is not None and before.status == "resolved" and before != note:
            raise Broken(f"{note.note_id} of the verifier of {agent} was resolved, and is changed")
        if note.status == "resolved" and before != note:
            self.settled(agent, note, told, self.agents[agent]["verifier"])
        one.wonders[note.note_id] = note

    def changed(self, change: PlanChange, events: Iterable[Event]) -> None:
        """A changed plan is decided about: approved, it is in force; refused, its answers are gone with it."""
        in_force = any(isinstance(event, PlanInForce) for event in events)
        if in_force != (change.decision == "approved"):
            raise Broken(f"a changed plan is {change.decision}, and it {'is' if in_force else 'is not'} in force")
        for answer in change.answers if change.decision == "refused" else ():
            one = self.doers[answer.agent]
            if one.status == "blocked":
                note = one.notes[one.session, answer.note_id]
                one.notes[one.session, answer.note_id] = replace(note, status=NoteStatus.ESCALATED)

    def settled(self, agent: str, note: Note, told: MessageRow, maker: str = "") -> None:
        """A note is resolved: by whom is what the message says that led to it."""
        by, name = note.resolved_by, f"{note.note_id} of {agent}"
        about = message_meta.read(told)
        if by == "agent_self":
            if note.category not in OWN:
                raise Broken(f"{name} is of category {str(note.category)!r}, and its maker has settled it")
            if told.sender != (maker or agent):
                raise Broken(f"{name} is settled by its maker, and {told.sender} has written")
            return
        calls = [
            call for call in worker_reports.read(about).resolves if (call.agent, call.note_id) == (agent, note.note_id)
        ]
        heard = isinstance(about, Answered) and about.heard
        heard |= any(call.author == "human" for call in calls)
        if by == "user" and not heard:
            raise Broken(f"{name} is settled by the user, and the user has said nothing")
        sources = {call.source for call in calls if call.source is not None}
        if note.category == "requirements" and sources - {"user"}:
            raise Broken(f"{name} is about requirements, and comes from {sources}")

    def round(self, agent: str, found: Round, told: MessageRow) -> None:
        """A round of verification: the verdict is what somebody else said who was asked for it."""
        talk, verifier = self.talks_ever[told.sender_thread], self.agents[agent]["verifier"]
        said = worker_reports.read(message_meta.read(told)).judgement
        broken = [proof.command for proof in found.proofs if proof.code or proof.fault]
        if broken and talk.kind != "prover":
            raise Broken(f"{found.verifier} had a turn on {agent} while {broken[0]} fails")
        if found.verdict == "verified":
            by = (told.sender, talk.kind, talk.agent, said.verdict)
            if by != (found.verifier, "verifier", agent, "verified") or found.verifier == agent:
                raise Broken(f"{agent} is found good by {found.verifier}, and {by} was said")
            if told.sender != verifier:
                raise Broken(f"{agent} is found good by {told.sender}, and {verifier} verifies it")
            held = {proof.command for proof in found.proofs if not proof.code and not proof.fault}
            if self.doers[agent].wondering:
                raise Broken(
                    f"{agent} is found good, and {self.doers[agent].wondering[0]} of {verifier} is not settled"
                )
            wanted = set(self.agents[agent]["acceptance"].get("commands", ()))
            if wanted - held:
                raise Broken(f"{agent} is found good while {min(wanted - held)} fails")
        self.doers[agent].verdict = found.verdict
        self.doers[agent].seen = told.sender_thread
        self.doers[agent].merged = False

    def remedied(self, agent: str, found: Round, events: Iterable[Event]) -> None:
        """A round judges every checkpoint, and what follows a failed one is what the plan says."""
        results = {one.to: one.met for one in found.criteria}
        said = {one["to"]: one["on_failure"] for one in self.checkpoints if one["from"] == agent}
        if results.keys() != said.keys():
            raise Broken(f"round {found.number} of {agent} judges {sorted(results)}, and hands to {sorted(said)}")
        failed = [said[taker] for taker, met in results.items() if met is False]
        if found.verdict == "verified" and not all(results.values()):
            raise Broken(f"{agent} is found good, and a checkpoint is not met")
        if found.verdict != "rejected" or not failed:
            return
        wanted = next((word for word in GRAVITY if word in failed), "back")
        led_to = {str(event.to) for event in events if isinstance(event, StatusChanged) and event.agent == agent}
        given_up = any(isinstance(event, GivenUp) and event.agent == agent for event in events)
        asked = any(isinstance(event, HumanAsked) for event in events)
        fine = {
            "abandon": given_up,
            "escalate": "blocked" in led_to and asked,
            "re-scope": "blocked" in led_to,
            "re-plan": "blocked" in led_to,
            "back": bool({"working", "blocked"} & led_to),
        }[wanted]
        if not fine:
            raise Broken(f"a checkpoint of {agent} failed and says {wanted}, and what happened is {sorted(led_to)}")

    def open(self, talk: OpenConversation) -> None:
        """A conversation begins, under the fan-out."""
        self.talks[talk.thread] = self.talks_ever[talk.thread] = talk
        if len(self.talks) > self.fan_out:
            raise Broken(f"{len(self.talks)} conversations are open, of {self.fan_out}")
        if talk.kind == "verifier" and talk.name == talk.agent:
            raise Broken(f"{talk.name} is to verify itself")

    def begin_merge(self, agent: str) -> None:
        """Merges are serial."""
        if self.merging not in ("", agent):
            raise Broken(f"{agent} is merged while {self.merging} is")
        self.merging = agent

    def end_merge(self, merged: Merged) -> None:
        """A merge has ended: taken is what was found good, holds, and belongs to its maker."""
        self.merging, self.merges = "", self.merges + 1
        agent = merged.agent
        if merged.number != self.merges:
            raise Broken(f"merge {merged.number} is number {self.merges}")
        if not merged.taken:
            return
        if self.doers[agent].verdict != "verified":
            raise Broken(f"the work of {agent} is merged, and no verifier has found it good")
        failing = [proof.command for proof in merged.proofs if proof.code or proof.fault]
        missing = set(self.agents[agent]["acceptance"].get("commands", ())) - {proof.command for proof in merged.proofs}
        if failing or missing:
            raise Broken(f"merge {merged.number} is taken, and {(failing or sorted(missing))[0]} does not hold")
        settled = merged.conflicts if merged.resolved_by else ()
        if merged.conflicts and not settled:
            raise Broken(f"merge {merged.number} is taken with conflicts that no agent has settled")
        for path in merged.paths:
            if path not in settled and not owns(self.agents[agent], agent, path):
                raise Broken(f"{path} is merged from {agent}, which does not own it")
        tree = self.trees.get(f"{self.job}|{self.doers[agent].seen}", {})
        looked_at = digest({path: text for path, text in tree.items() if owns(self.agents[agent], agent, path)})
        if merged.commits and merged.commits[0] != looked_at:
            raise Broken(f"merge {merged.number} of {agent} is taken, and its verifier has seen something else")
        self.doers[agent].merged = True
        self.doers[agent].versions += 1

    # ---- what others do ------------------------------------------------------------------------

    def begins(self, agent: str, thread: str) -> None:
        """Somebody's turn begins: a doer's only when its time has come."""
        talk = self.talks.get(thread)
        if talk is None or talk.kind != "doer":
            return
        one = self.doers[agent]
        if not one.begun and (why := self.may_begin(agent)):
            raise Broken(why)
        one.begun = True

    def clear(self) -> str:
        """Why the gate is not clear; empty: it is."""
        if self.phase != "complete":
            return f"the workflow is {self.phase}"
        undone = [name for name, one in self.doers.items() if one.status != "session_complete" and not one.given_up]
        if undone:
            return f"{undone[0]} is {self.doers[undone[0]].status}"
        for name, one in self.doers.items():
            for (_, note), found in one.notes.items():
                if found.status != "resolved":
                    return f"{note} of {name} is {found.status}"
            if one.wondering:
                return f"{one.wondering[0]} of the verifier of {name} is not settled"
        return ""


def owns(worker: Mapping[str, Any], agent: str, path: str) -> bool:
    """Whether a path belongs to a doer, by the patterns that the simulator's plans have."""
    folders = (
        f"orchestration/agents/{agent}/task_output/",
        *(f"{one[:-2]}" for one in worker.get("owns", ()) if "*" in one),
    )
    return path in worker.get("owns", ()) or path.startswith(folders)


# ---- a run ---------------------------------------------------------------------------------------


def broken(store: Store, disk: SimDisk, job: str, fan_out: int) -> str:
    """Which law of workflows a run has broken; empty: none."""
    try:
        books = read(store, disk, job, fan_out)
        for book in books:
            _tree(disk, job, book)
        if store.load(job).row.state == "DONE" and books:
            _done(disk.work[job, f"job:{job}"], disk.work[job, books[-1].thread], books)
    except Broken as law:
        return str(law)
    return ""


def read(store: Store, disk: SimDisk, job: str, fan_out: int) -> list[Book]:
    """The books of a run's workflows, the oldest first."""
    messages = {f"m{row.number}": row for row in store.messages(job)}
    for row in messages.values():
        if row.sender == EXECUTOR and re.match(r"\[WORKFLOW stopped\] what (came|follows) does not fit", row.body):
            raise Broken(f"the executor did not know how to go on: {row.body[:200]}")
    books: dict[str, Book] = {}
    visit, bound = 0, False
    for step in store.steps(job):
        if step.rule == "transition" and step.at == job:
            visit += 1
            passage = decode_as(Passage, step.choice)
            if passage.action == "APPROVED_PLAN":
                bound = "+" in dict(passage.contents).get("PLAN.md", "")
            elif passage.action == "APPROVED_WORK" and bound:
                _passed(books, visit - 1)
        elif step.rule in BEGINS:
            run = next(all_named(NamedRun, step.produced))
            for book in books.values():
                book.begins(run.agent, run.thread)
        elif step.who == EXECUTOR and (happened := _events(step)):
            run = next(all_named(NamedRun, step.consumed))
            book = books.setdefault(
                run.thread, Book(job=job, thread=run.thread, visit=visit, fan_out=fan_out, trees=disk.trees)
            )
            book.take(happened, messages[run.message])
            if step.choice:
                book.says(step.choice)
    return list(books.values())


def events(store: Store, job: str) -> Iterator[Event]:
    """All that has happened to a run's workflows."""
    for step in store.steps(job):
        if step.who == EXECUTOR:
            yield from _events(step)


def _events(step: StepRow) -> Sequence[Event]:
    left = step_extra.read(step.extra).left(ExecutorStep)
    return left.events if left is not None else ()


def _passed(books: Mapping[str, Book], visit: int) -> None:
    """The job is done: the newest workflow of this visit has come to its end."""
    here = [book for book in books.values() if book.visit == visit]
    if not here:
        raise Broken("the job is done, and its workflow never began")
    if why := here[-1].clear():
        raise Broken(f"the job is done, and its gate is blocked: {why}")


def _tree(disk: SimDisk, job: str, book: Book) -> None:
    """In the job's tree and the executor's is nothing that somebody made who does not own it."""
    for place in (f"job:{job}", book.thread):
        for path, text in disk.work.get((job, place), {}).items():
            for name in book.doers:
                mine = path.startswith((f"src/{name}/", f"orchestration/agents/{name}/task_output/"))
                if mine and not text.startswith(f"by {name}"):
                    raise Broken(f"{path} of {name} says {text[:60]!r} in {place}")
            if path == "top.txt":
                raise Broken(f"{path} belongs to no agent, and is in {place}")


def _done(files: Mapping[str, str], merged: Mapping[str, str], books: list[Book]) -> None:
    """What people find when the job is done: what was merged, every assumption, and files that say what was."""
    for path in sorted({*files, *merged}):
        if (path.startswith("src/") or "/task_output/" in path) and files.get(path) != merged.get(path):
            raise Broken(f"{path} is {files.get(path)!r} when the job is done, and {merged.get(path)!r} was merged")
    here = [book for book in books if book.visit == books[-1].visit]
    summary = files["WORK_SUMMARY.md"]
    for agent, name, note in _noted(here):
        line = f"- `{agent}` {name}"
        told = [one for one in summary.split("\n") if one.startswith(line)]
        if not any(note.description.split("`")[0] in one for one in told):
            raise Broken(f"{name} of {agent} is not in WORK_SUMMARY.md")
    shared = json.loads(files.get(SHARED_STATUS) or '{"agents": {}, "overall_completion_drive_gate": "absent"}')
    if shared["overall_completion_drive_gate"] != "clear":
        raise Broken(f"the job is done, and its gate in {SHARED_STATUS} is {shared['overall_completion_drive_gate']}")
    for name, one in books[-1].doers.items():
        said = (shared["agents"].get(name) or {}).get("status")
        if said != one.status:
            raise Broken(f"{name} is {one.status}, and {SHARED_STATUS} says {said}")
    orchestration = {path: text for path, text in files.items() if path.startswith("orchestration/")}
    if found := check_structure(orchestration):
        raise Broken(f"the files of the workflow are not what they must be: {found[0]}")


def _noted(books: Iterable[Book]) -> Iterator[tuple[str, str, Note]]:
    for book in books:
        for agent, one in book.doers.items():
            for (_, name), note in one.notes.items():
                yield agent, name, note
            for name, note in one.wonders.items():
                yield book.agents[agent]["verifier"], name, note
