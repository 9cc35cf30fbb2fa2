"""What can happen to a workflow: one value for each kind of event. `apply` refuses one that a rule forbids.

The rules are the table of statuses, and what each event says beside it.
"""

from __future__ import annotations

from abc import abstractmethod

from msgspec import Struct
from msgspec.structs import replace

from parley.workflow.files.plan import read_plan
from parley.workflow.model.flow import (
    EDGES,
    AskedQuestion,
    Entity,
    EntityKind,
    Flow,
    IllegalEvent,
    Member,
    Merging,
    NoteAskedFor,
    NoteName,
    OpenConversation,
    PendingQuestion,
    PlanReview,
    Review,
    RoutedNote,
    become,
    index,
)
from parley.workflow.model.grammar import VERDICTS
from parley.workflow.model.menus import menu_for
from parley.workflow.model.notes import of_status, put, refuse_ready
from parley.workflow.model.pending_notes import number_of, without
from parley.workflow.model.remedies import gravest
from parley.workflow.model.terms import (
    Joined,
    LivenessAction,
    Merged,
    Note,
    NoteStatus,
    PlanChange,
    Proof,
    RefusedNote,
    Rescope,
    RestingAnswer,
    Round,
    Session,
    Status,
    StrayWrite,
    Task,
    Worker,
    WorkerStanding,
    instructions_of,
)


class Event(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="event"):
    """Something that happens to a workflow."""

    @abstractmethod
    def happen(self, flow: Flow) -> set[Entity]:
        """Change the flow; returns the entities that it changed. IllegalEvent, and no change, where it can't happen."""
        raise NotImplementedError


def apply(flow: Flow, event: Event) -> set[Entity]:
    """Apply an event; returns the entities that it changed. IllegalEvent, and no change, where it can't happen."""
    try:
        changed = event.happen(flow)
    except IllegalEvent:
        raise
    except (KeyError, ValueError) as error:  # it names an agent, a conversation or a question that is not there
        raise IllegalEvent(f"{event!r:.80}: {error!r:.200}") from error
    flow.count += 1
    return changed | {Entity(EntityKind.FLOW)}


# ---- the plan ------------------------------------------------------------------------------------


class PlanInForce(Event, frozen=True, tag="plan"):
    """A plan comes into force: the first one, or a change of what is not done yet."""

    text: str
    time: int
    instructions: tuple[tuple[str, str], ...] = ()  # path and text
    run: int = 1  # which of the job's workflows it is

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        plan, findings = read_plan(self.text)
        if plan is None:
            raise IllegalEvent(f"the plan can't be read: {findings[0] if findings else 'it is empty'}")
        dropped = [name for name in flow.members if name not in plan.workers and name not in flow.added]
        for name in dropped:
            if flow.status(name) is not Status.PENDING:
                raise IllegalEvent(f"{name} is at work, or was, and can't be left out of the plan")
        flow.plan, flow.draft, flow.judging, flow.gaps, flow.refused = plan, "", None, 0, ""
        if not flow.started:
            flow.started, flow.run = self.time, self.run
        new = [worker.name for worker in plan.doers if worker.name not in flow.members]
        flow.members |= {name: Member(WorkerStanding(name)) for name in new}
        joined = [name for name, worker in flow.added.items() if worker.task is Task.DOER]
        flow.members = {name: flow.members[name] for name in [*(worker.name for worker in plan.doers), *joined]}
        places = set(map(instructions_of, plan.workers))
        told = {path: text for path, text in self.instructions if path in places}
        gone = flow.instructions.keys() - places
        flow.instructions = {path: text for path, text in flow.instructions.items() if path not in gone} | told
        index(flow)
        return {
            Entity(EntityKind.PLAN),
            Entity(EntityKind.JUDGING),
            *(Entity(EntityKind.AGENT, name) for name in (*dropped, *new)),
            *(Entity(EntityKind.TOLD, path) for path in (*told, *gone)),
        }


class DraftWaits(Event, frozen=True, tag="draft"):
    """A plan waits for the human, or does not any more."""

    text: str

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        flow.draft = self.text
        return {Entity(EntityKind.PLAN)}


class PlanSentBack(Event, frozen=True, tag="refuse"):
    """A changed plan has gaps, or must not come into force."""

    gaps: int
    refused: str  # what the plan is known by; empty: it may come again

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        flow.gaps, flow.refused = self.gaps, self.refused
        return set()


class AnswersRest(Event, frozen=True, tag="rest"):
    """Notes were answered in the turn that changed the plan: the answers hold when the plan does."""

    notes: tuple[NoteName, ...]

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        flow.resting += self.notes
        return set()


class PlanUnderReview(Event, frozen=True, tag="judge"):
    """A changed plan goes to the design verifier, or is taken from it."""

    judging: PlanReview | None

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        flow.judging = self.judging
        return {Entity(EntityKind.JUDGING)}


class PlanDecided(Event, frozen=True, tag="changed"):
    """A changed plan is decided. If it is refused, so are its answers: their notes are open again."""

    change: PlanChange

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        change = self.change
        if change.decision not in ("approved", "refused"):
            raise IllegalEvent(f"a changed plan can't be {change.decision!r:.20}")
        if any(NoteName(one.agent, one.note_id) not in flow.resting for one in change.answers):
            raise IllegalEvent("an answer that did not come with the change can't go with it")
        changed = {
            Entity(EntityKind.CHANGE, str(len(flow.changes) + 1)),
            Entity(EntityKind.JUDGING),
            Entity(EntityKind.PLAN),
        }
        flow.changes.append(change)
        flow.resting = []
        if change.decision == "refused":
            flow.draft, flow.judging, flow.gaps, flow.refused = "", None, 0, change.plan
            for one in change.answers:
                changed |= _reopen(flow, one)
        return changed


class AgentJoined(Event, frozen=True, tag="join"):
    """An agent that is not in the plan joins the workflow."""

    worker: Worker
    time: int
    why: str

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        worker = self.worker
        if worker.name in flow.workers and worker.name not in flow.added:
            raise IllegalEvent(f"{worker.name} is in the plan")
        flow.added[worker.name] = worker
        if worker.task is Task.DOER and worker.name not in flow.members:
            flow.members[worker.name] = Member(WorkerStanding(worker.name))
        index(flow)
        changed = {Entity(EntityKind.WORKER, worker.name), Entity(EntityKind.AGENT, worker.name)}
        if all(one.name != worker.name for one in flow.joins):
            flow.joins.append(Joined(worker.name, worker.role, self.time, self.why))
            changed |= {
                Entity(EntityKind.JOIN, str(len(flow.joins))),
                Entity(EntityKind.PLAN),  # its file lists it
            }
        return changed


# ---- doers ---------------------------------------------------------------------------------------


class StatusChanged(Event, frozen=True, tag="status"):
    """A doer's status changes."""

    agent: str
    to: Status
    time: int
    reason: str = ""
    stalled: bool = False  # it is blocked because it stalled

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        name, to = self.agent, self.to
        member = flow.members[name]
        standing = member.standing
        old = standing.status
        if to not in EDGES[old]:
            raise IllegalEvent(f"{name} is {old} and can't become {to}")
        if to is Status.WORKING and old is Status.PENDING and not flow.may_start(name):
            raise IllegalEvent(f"{name} can't start: what it depends on, or an earlier stage, is not verified")
        if to in (Status.READY, Status.VERIFIED, Status.COMPLETE) and refuse_ready(standing.session):
            raise IllegalEvent(f"{name} has a note that is not settled and can't become {to}")
        if to in (Status.VERIFIED, Status.COMPLETE) and refuse_ready(member.review.session):
            raise IllegalEvent(f"the verifier of {name} has a note that is not settled, so it can't become {to}")
        if to is Status.VERIFIED and (not standing.rounds or standing.rounds[-1].verdict != "verified"):
            raise IllegalEvent(f"{name} was not approved by its verifier")
        version = standing.version + (to is Status.VERIFIED)
        now = replace(
            standing,
            status=to,
            last_update=self.time,
            reason=self.reason,
            stalled=self.stalled,
            version=version,
        )
        checking = "" if to is not Status.READY else member.checking
        become(flow, replace(member, standing=now, since=flow.count, checking=checking, given_up=False, nudges=0))
        return {Entity(EntityKind.AGENT, name)}


class GivenUp(Event, frozen=True, tag="given up"):
    """The workflow goes on without a doer that has failed."""

    agent: str
    time: int
    reason: str

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        member = flow.members[self.agent]
        if member.standing.status is not Status.FAILED:
            raise IllegalEvent(f"{self.agent} has not failed")
        standing = replace(member.standing, reason=self.reason)
        become(flow, replace(member, standing=standing, given_up=True, gone=self.time, left=flow.count))
        return {Entity(EntityKind.AGENT, self.agent)}


class SessionBegun(Event, frozen=True, tag="session"):
    """A doer begins a task: its notes are counted anew."""

    agent: str
    task_id: str
    time: int

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        member = flow.members[self.agent]
        before = member.standing.session
        session = Session(self.task_id, self.time, pending=before.pending if before else ())
        past = (*member.past, replace(before, pending=())) if before is not None and before.notes else member.past
        review = replace(member.review, asked=())  # the notes of each session are counted anew
        become(flow, replace(member, standing=replace(member.standing, session=session), past=past, review=review))
        return {Entity(EntityKind.AGENT, self.agent)}


class ReviewBegun(Event, frozen=True, tag="review"):
    """A verifier begins to review a doer: from now on it may make notes, and has those of its predecessor."""

    agent: str
    verifier: str
    task_id: str
    time: int

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        member, verifier = flow.members[self.agent], self.verifier
        review = member.review
        if verifier in review.by[-1:] or verifier == self.agent:
            raise IllegalEvent(f"{verifier} does not begin to look at {self.agent}")
        session = review.session or Session(self.task_id, self.time)
        become(flow, replace(member, review=replace(review, session=session, by=(*review.by, verifier))))
        return {Entity(EntityKind.AGENT, self.agent)}


class VerifierNoteWentUp(Event, frozen=True, tag="ask for"):
    """A note that a verifier escalated goes up as a note of its doer's."""

    agent: str
    note_id: str
    asked_as: str

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        member = flow.members[self.agent]
        asked = NoteAskedFor(self.note_id, self.asked_as)
        for session, name in ((member.review.session, asked.note_id), (member.standing.session, asked.asked_as)):
            if name not in (note.note_id for note in of_status(session, NoteStatus.ESCALATED)):
                raise IllegalEvent(f"{name:.40} is not escalated")
        become(flow, replace(member, review=replace(member.review, asked=(*member.review.asked, asked))))
        return {Entity(EntityKind.AGENT, self.agent)}


# ---- notes ---------------------------------------------------------------------------------------


class _NoteEvent(Event, frozen=True, kw_only=True):
    """An event about a note of a doer, or of its verifier."""

    agent: str  # the doer
    of_verifier: bool = False

    def _notes_of(self, member: Member) -> tuple[Session, int]:
        """The session that it is about, and the number of the last note that was refused there."""
        session = member.review.session if self.of_verifier else member.standing.session
        if session is None:
            raise IllegalEvent(f"{'the verifier of ' if self.of_verifier else ''}{self.agent} has not begun")
        return session, member.review.refused if self.of_verifier else member.refused

    def _have(self, flow: Flow, member: Member, session: Session, refused: int) -> None:
        """Set the notes of the doer or its verifier."""
        if self.of_verifier:
            become(flow, replace(member, review=replace(member.review, session=session, refused=refused)))
            return
        now = replace(member, standing=replace(member.standing, session=session), refused=refused)
        become(flow, replace(now, review=_as_asked(now)))


class NoteTaken(_NoteEvent, frozen=True, tag="note"):
    """A note is made, or changed."""

    note: Note

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        member, note = flow.members[self.agent], self.note
        before, refused = self._notes_of(member)
        session = put(before, note)
        self._have(flow, member, session, refused)
        if self.of_verifier:
            return {Entity(EntityKind.AGENT, self.agent)}
        return {Entity(EntityKind.AGENT, self.agent), *_answered(flow, self.agent, session, note)}


class NoteRefused(_NoteEvent, frozen=True, tag="pend"):
    """A note was refused for its form, and waits for its maker to correct it."""

    pending: RefusedNote

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        member, unfit = flow.members[self.agent], self.pending
        session, refused = self._notes_of(member)
        number = number_of(unfit.pending_id)
        last = session.pending[-1].pending_id if session.pending else ""
        if number <= refused and unfit.pending_id != last:
            raise IllegalEvent(f"{unfit.pending_id} is not the next that {self.agent} has pending")
        others = tuple(one for one in session.pending if one.pending_id != unfit.pending_id)
        self._have(flow, member, replace(session, pending=(*others, unfit)), max(number, refused))
        return {Entity(EntityKind.AGENT, self.agent)}


class PendingSettled(_NoteEvent, frozen=True, tag="mend"):
    """A pending note was corrected by another note, or withdrawn."""

    pending_id: str
    reason: str

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        member = flow.members[self.agent]
        (session, refused), name = self._notes_of(member), self.pending_id
        if name not in [one.pending_id for one in session.pending]:
            raise IllegalEvent(f"{self.agent} has no {name:.40} pending")
        if not self.reason:
            raise IllegalEvent(f"{name} is neither mended nor withdrawn")
        self._have(flow, member, without(session, name), refused)
        return {Entity(EntityKind.AGENT, self.agent)}


# ---- outputs, and their verification -------------------------------------------------------------


class OutputsRead(Event, frozen=True, tag="read"):
    """The versions of others' outputs that a doer reads; it is not stale any more."""

    agent: str
    read: tuple[tuple[str, int], ...]  # whose, and which version

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        member = flow.members[self.agent]
        seen = dict(member.standing.read) | dict(self.read)
        standing = replace(member.standing, read=tuple(sorted(seen.items())))
        become(flow, replace(member, standing=standing, stale=()))
        return {Entity(EntityKind.AGENT, self.agent)}


class OutputStale(Event, frozen=True, tag="stale"):
    """Whose newer output a doer has not been told to read yet."""

    agent: str
    of: str

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        member = flow.members[self.agent]
        become(flow, replace(member, stale=(*member.stale, self.of)))
        return {Entity(EntityKind.AGENT, self.agent)}


class ProgressSeen(Event, frozen=True, tag="progress"):
    """A sign of life, and how often a turn was lost since the last one that ended."""

    agent: str
    time: int
    crashes: int = 0

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        member = flow.members[self.agent]
        standing = replace(member.standing, last_progress=self.time, crashes=self.crashes)
        become(flow, replace(member, standing=standing))
        return {Entity(EntityKind.AGENT, self.agent)}


class CheckMoved(Event, frozen=True, tag="check"):
    """The progress of the check of a doer's output."""

    agent: str
    step: str  # proving, judging, merging; empty: from the start
    proofs: tuple[Proof, ...] = ()
    tree: str | None = None  # None: the same as before

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        member = flow.members[self.agent]
        if member.standing.status is not Status.READY:
            raise IllegalEvent(f"{self.agent} is not ready for verification")
        if self.step == "judging" and not all(proof.holds for proof in self.proofs):
            raise IllegalEvent(f"a command of {self.agent} fails, so its verifier has nothing to judge")
        tree = member.tree if self.tree is None else self.tree
        become(flow, replace(member, checking=self.step, proofs=self.proofs or member.proofs, tree=tree))
        return {Entity(EntityKind.AGENT, self.agent)}


class TriesCounted(Event, frozen=True, tag="count"):
    """Count a try, so that nothing is tried for ever."""

    agent: str
    nudges: int | None = None  # None: as many as before, like the others
    rejections: int | None = None
    routed: tuple[RoutedNote, ...] | None = None

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        member = flow.members[self.agent]
        nudges = member.nudges if self.nudges is None else self.nudges
        rejections = member.rejections if self.rejections is None else self.rejections
        routed = member.routed if self.routed is None else self.routed
        become(flow, replace(member, nudges=nudges, rejections=rejections, routed=routed))
        return {Entity(EntityKind.AGENT, self.agent)}


class RoundEnded(Event, frozen=True, tag="round"):
    """A round of verification has ended."""

    agent: str
    round: Round

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        member, found = flow.members[self.agent], self.round
        standing = member.standing
        if standing.status is not Status.READY or found.number != len(standing.rounds) + 1:
            raise IllegalEvent(f"{self.agent} is not in round {found.number}")
        if found.verdict not in VERDICTS or found.verifier == self.agent:
            raise IllegalEvent(f"{found.verifier} can't say {found.verdict!r:.20} of {self.agent}")
        if found.verdict == "verified" and refuse_ready(member.review.session):
            raise IllegalEvent(f"{found.verifier} has a note that is not settled, so {self.agent} is not verified")
        points = flow.plan.checkpoints_of(self.agent) if flow.plan else ()
        if [(one.to, one.criteria) for one in found.criteria] != [(point.taker, point.criteria) for point in points]:
            raise IllegalEvent(f"round {found.number} of {self.agent} does not judge every checkpoint of the plan")
        failed = [point.remedy for point, one in zip(points, found.criteria, strict=True) if one.met is False]
        if found.verdict == "verified" and not all(one.met for one in found.criteria):
            raise IllegalEvent(f"a checkpoint of {self.agent} is not met, so it is not verified")
        if found.action != (gravest(failed) if failed and found.verdict == "rejected" else ""):
            raise IllegalEvent(f"{found.action or 'nothing'} is not what a checkpoint of {self.agent} leads to")
        if found.verdict == "verified" and not all(proof.holds for proof in found.proofs):
            raise IllegalEvent(f"a command of {self.agent} fails, so it is not verified")
        become(flow, replace(member, standing=replace(standing, rounds=(*standing.rounds, found)), proofs=()))
        return {Entity(EntityKind.AGENT, self.agent)}


# ---- conversations -------------------------------------------------------------------------------


class ConversationOpened(Event, frozen=True, tag="open"):
    """The executor opens a conversation."""

    talk: OpenConversation

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        talk = self.talk
        if talk.thread in flow.talks:
            raise IllegalEvent(f"{talk.thread} is open already")
        flow.talks[talk.thread] = talk
        changed = {Entity(EntityKind.TALK, talk.thread)}
        if talk.kind == "architect":
            flow.architect = talk.thread
        if talk.kind == "doer":
            member = flow.members[talk.agent]
            become(flow, replace(member, standing=replace(member.standing, thread=talk.thread), workspace=talk.thread))
            changed.add(Entity(EntityKind.AGENT, talk.agent))
        return changed


class ConversationClosed(Event, frozen=True, tag="close"):
    """The executor closes a conversation."""

    thread: str

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        talk = flow.talks.pop(self.thread)
        changed = {Entity(EntityKind.TALK, talk.thread)}
        if talk.kind == "architect":
            flow.architect = ""
        if talk.kind == "doer":
            member = flow.members.get(talk.agent)
            if member is not None and member.standing.thread == talk.thread:
                become(flow, replace(member, standing=replace(member.standing, thread="")))
                changed.add(Entity(EntityKind.AGENT, talk.agent))
        return changed


class ConversationTold(Event, frozen=True, tag="tell"):
    """A conversation is told something, or has answered."""

    thread: str
    busy: bool
    about: str | None = None  # None: as before

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        talk = flow.talks[self.thread]
        flow.talks[talk.thread] = replace(talk, busy=self.busy, about=talk.about if self.about is None else self.about)
        return {Entity(EntityKind.TALK, talk.thread)}


# ---- merges and paths ----------------------------------------------------------------------------


class MergeBegun(Event, frozen=True, tag="merge begins"):
    """A merge begins, or has come further."""

    merging: Merging

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        merging = self.merging
        if flow.merging is not None and flow.merging.agent != merging.agent:
            raise IllegalEvent(f"{flow.merging.agent} is being merged")
        flow.merging = merging
        return {Entity(EntityKind.MERGING)}


class MergeEnded(Event, frozen=True, tag="merge ends"):
    """A merge is taken, or is not."""

    merged: Merged

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        merged = self.merged
        if merged.number != len(flow.merges) + 1:
            raise IllegalEvent(f"merge {merged.number} is not the next")
        if merged.taken and not all(proof.holds for proof in merged.proofs):
            raise IllegalEvent(f"the proof of merge {merged.number} fails, so it can't be taken")
        flow.merges.append(merged)
        flow.merging = None
        return {Entity(EntityKind.MERGING), Entity(EntityKind.MERGE, str(merged.number))}


class Rescoped(Event, frozen=True, tag="rescope"):
    """What a worker owns has changed."""

    rescope: Rescope

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        flow.rescopes.append(self.rescope)
        return {Entity(EntityKind.RESCOPE, str(len(flow.rescopes)))}


# ---- agents that stall or stray ------------------------------------------------------------------


class StallHandled(Event, frozen=True, tag="action"):
    """Something is done about a doer that has stalled."""

    action: LivenessAction

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        flow.actions.append(self.action)
        return {Entity(EntityKind.ACTION, str(len(flow.actions)))}


class StrayFound(Event, frozen=True, tag="stray"):
    """A doer's turn wrote outside its paths; all of it was restored."""

    stray: StrayWrite

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        stray = self.stray
        if stray.agent not in flow.members or not stray.paths or len(stray.paths) != len(stray.owners):
            raise IllegalEvent(f"{stray.agent:.40} can't have written there")
        flow.strays.append(stray)
        return {Entity(EntityKind.STRAY, str(len(flow.strays)))}


class StallEnded(Event, frozen=True, tag="came of it"):
    """The outcome of the last action on a stalled doer."""

    agent: str
    outcome: str

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        at = max(number for number, one in enumerate(flow.actions) if one.agent == self.agent)
        done = flow.actions[at]
        flow.actions[at] = replace(done, outcome=f"{done.outcome}; {self.outcome}")
        return {Entity(EntityKind.ACTION, str(at + 1))}


# ---- questions -----------------------------------------------------------------------------------


class HumanAsked(Event, frozen=True, tag="ask"):
    """The executor asks the human."""

    question: str
    pending: PendingQuestion

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        flow.questions[self.question] = self.pending
        return {Entity(EntityKind.QUESTION, self.question)}


class HumanAnswered(Event, frozen=True, tag="answer"):
    """A question is answered, or obsolete; the choice must be one of its menu."""

    question: str
    choice: str = ""

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        if self.choice and menu_for(flow.questions[self.question]).get(self.choice) is None:
            raise IllegalEvent(f"{self.choice!r:.20} can't be chosen there")
        flow.questions.pop(self.question)
        return {Entity(EntityKind.QUESTION, self.question)}


class MessageWaits(Event, frozen=True, tag="wait"):
    """A doer has to wait for a free conversation, or does not any more."""

    agent: str  # empty: the architect
    body: str  # empty: it waits no more

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        if self.body:
            flow.waiting[self.agent] = self.body
        else:
            flow.waiting.pop(self.agent, None)
        return {Entity(EntityKind.WAITING, self.agent)}


class HeldBack(Event, frozen=True, tag="held back"):
    """The agents that could work and wait for a free slot of the fan-out."""

    agents: tuple[str, ...]
    at_work: tuple[str, ...]
    fan_out: int

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        flow.held = list(self.agents)
        flow.ever_held += [agent for agent in flow.held if agent not in flow.ever_held]
        return set()


class QuestionHandedUp(Event, frozen=True, tag="hand up"):
    """A task's question is escalated; all are kept, so that loops are noticed."""

    task: str
    asked: AskedQuestion

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        asked = self.asked
        flow.history[self.task] = (*flow.history.get(self.task, ()), asked)
        return {Entity(EntityKind.HISTORY, self.task)}


class SameQuestion(Event, frozen=True, tag="same"):
    """The architect says that a task's question was asked before."""

    task: str
    key: str
    same_as: str

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        history = flow.history[self.task]
        keys = [asked.key for asked in history]
        if self.key not in keys or self.same_as not in keys:
            raise IllegalEvent(f"{self.task} has not asked that")
        flow.history[self.task] = tuple(
            replace(asked, same_as=(*asked.same_as, self.same_as)) if asked.key == self.key else asked
            for asked in history
        )
        return {Entity(EntityKind.HISTORY, self.task)}


class SolverCommissioned(Event, frozen=True, tag="commission"):
    """The solution architect gets questions, or has answered them."""

    notes: tuple[NoteName, ...]

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        flow.commissioned = list(self.notes)
        return set()


# ---- the end -------------------------------------------------------------------------------------


class PhaseChanged(Event, frozen=True, tag="phase"):
    """The workflow runs, is complete, or is stopped."""

    phase: str
    time: int
    reason: str = ""

    def happen(self, flow: Flow) -> set[Entity]:
        """What it changes."""
        if self.phase not in ("running", "complete", "stopped"):
            raise IllegalEvent(f"{self.phase!r:.20} is no phase")
        if self.phase == "complete" and (flow.undone or flow.unsettled):
            raise IllegalEvent("a doer is not verified, or a note is not settled")
        flow.phase = self.phase
        flow.ended = 0 if flow.phase == "running" else self.time
        flow.why = self.reason
        return set()


# ---- what follows from them ----------------------------------------------------------------------


def _reopen(flow: Flow, answer: RestingAnswer) -> set[Entity]:
    """A note waits for an answer again, if its doer does; not one that was given up or sent on."""
    member = flow.members.get(answer.agent)
    session = member.standing.session if member is not None else None
    note = next((one for one in session.notes if one.note_id == answer.note_id), None) if session else None
    if member is not None and session is not None and note is not None and member.standing.status is Status.BLOCKED:
        left = replace(note, status=NoteStatus.ESCALATED, resolution=None, resolved_by=None, resolution_timestamp=None)
        now = replace(member, standing=replace(member.standing, session=put(session, left)), nudges=0)
        become(flow, replace(now, review=_as_asked(now)))
        return {Entity(EntityKind.AGENT, answer.agent), *_answered(flow, answer.agent, session, left)}
    return set()


def _as_asked(member: Member) -> Review:
    """The verifier's notes, with each escalated one linked to the doer's note as which it went up."""
    review, session = member.review, member.review.session
    theirs = {note.note_id: note for note in member.standing.session.notes} if member.standing.session else {}
    for pair in review.asked:
        note = next((one for one in session.notes if one.note_id == pair.note_id), None) if session else None
        asked = theirs.get(pair.asked_as)
        if session is not None and note is not None and asked is not None:
            session = put(
                session,
                replace(
                    note,
                    status=asked.status,
                    resolution=asked.resolution,
                    resolved_by=asked.resolved_by,
                    resolution_timestamp=asked.resolution_timestamp,
                ),
            )
    return replace(review, session=session)


def _answered(flow: Flow, by: str, session: Session, note: Note) -> set[Entity]:
    """An escalated question is answered, or its answer is revoked."""
    history = flow.history.get(session.task_id, ())
    key = AskedQuestion(note.note_id, "", 0, by=by, session=session.session_start).key
    answer = note.resolution or "" if note.status is NoteStatus.RESOLVED else ""
    if not any(asked.key == key and asked.answer != answer for asked in history):
        return set()
    flow.history[session.task_id] = tuple(
        replace(asked, answer=answer) if asked.key == key else asked for asked in history
    )
    return {Entity(EntityKind.HISTORY, session.task_id)}


# ---- all of them ---------------------------------------------------------------------------------

AnyEvent = (
    PlanInForce
    | DraftWaits
    | PlanSentBack
    | AnswersRest
    | PlanUnderReview
    | PlanDecided
    | AgentJoined
    | StatusChanged
    | GivenUp
    | SessionBegun
    | ReviewBegun
    | VerifierNoteWentUp
    | NoteTaken
    | NoteRefused
    | PendingSettled
    | OutputsRead
    | OutputStale
    | ProgressSeen
    | CheckMoved
    | TriesCounted
    | RoundEnded
    | ConversationOpened
    | ConversationClosed
    | ConversationTold
    | MergeBegun
    | MergeEnded
    | Rescoped
    | StallHandled
    | StrayFound
    | StallEnded
    | HumanAsked
    | HumanAnswered
    | MessageWaits
    | HeldBack
    | QuestionHandedUp
    | SameQuestion
    | SolverCommissioned
    | PhaseChanged
)
