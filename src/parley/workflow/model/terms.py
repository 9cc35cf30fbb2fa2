"""The vocabulary of a workflow: the plan, its workers, notes, rounds of verification, merges, statuses.

They are plain values; other modules read and write them.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from parley.workflow.model.remedies import OnFailure, meant

FOLDER = "orchestration"
PLAN = f"{FOLDER}/workflow_coordination_plan.md"
SHARED_STATUS = f"{FOLDER}/shared_status.json"
TASK_ORCHESTRATION = f"{FOLDER}/task-orchestration.md"
DESIGN_REPORT = f"{FOLDER}/design_verification_report.md"
ROLES = f"{FOLDER}/roles"  # drafts of agent types that do not exist yet: <name>.md

GROUP = "architecture-group"  # code, and an agent of the soup under the PLAN lead: it has a design made
EXECUTOR = "workflow-executor"  # code, and an agent of the soup under the EXECUTE lead: it has the design carried out
ARCHITECT = "workflow-architect"
SOLUTION = "solution-architect"
DESIGN_VERIFIER = "design-verifier"
INTEGRATOR = "integrator"  # settles the conflicts of a merge
PROVER = "prover"  # code: runs acceptance commands behind the boundary, and reports their results


def home_of(agent: str) -> str:
    """A worker's own folder."""
    return f"{FOLDER}/agents/{agent}"


def agent_at(path: str) -> str:
    """The agent whose folder holds a file; empty if none does."""
    above, _, inside = path.partition(f"{FOLDER}/agents/")
    name, slash, _ = inside.partition("/")
    return name if slash and not above else ""


def instructions_of(agent: str) -> str:
    """The file with a worker's instructions."""
    return f"{home_of(agent)}/agent_instructions.md"


def session_of(agent: str) -> str:
    """The file with a worker's current session of notes."""
    return f"{home_of(agent)}/completion_drive/session_current.json"


def output_of(agent: str) -> str:
    """The folder for a worker's outputs, which others read."""
    return f"{home_of(agent)}/task_output"


def task_base_of(agent: str) -> str:
    """The file with a worker's task, which begins with its contract."""
    return f"{home_of(agent)}/task-base.md"


def round_of(agent: str, number: int) -> str:
    """The file with the verdict of one round of verification."""
    return f"{home_of(agent)}/verification/round_{number}.json"


# ---- statuses ------------------------------------------------------------------------------------


class Status(StrEnum):
    """A worker's status."""

    PENDING = "pending"
    WORKING = "working"
    REVIEW = "completion_drive_review"
    READY = "ready_for_verification"
    VERIFIED = "verified"
    BLOCKED = "blocked"
    COMPLETE = "session_complete"
    FAILED = "failed"  # it crashed too often, or was abandoned
    STALLED = "stalled"  # it shows no sign of life


# ---- the plan ------------------------------------------------------------------------------------


class Task(StrEnum):
    """Whether a worker does or verifies."""

    DOER = "doer"
    VERIFIER = "verifier"


class Remedy(StrEnum):
    """What is done about a worker that has stalled."""

    REPLAN = "re-plan"
    RESCOPE = "re-scope"
    ESCALATE = "escalate"
    ABANDON = "abandon"


class Acceptance(Struct, frozen=True, omit_defaults=True):
    """The bar that a deliverable must clear: in words, and as commands that must end with 0."""

    text: str = ""
    commands: tuple[str, ...] = ()


class Worker(Struct, frozen=True, omit_defaults=True):
    """One agent of the plan, with its contract. `line` is where the plan's file names it."""

    name: str
    task: Task
    role: str  # which role it works as; its own name if the plan gives none
    task_id: str = ""
    depends_on: tuple[str, ...] = ()
    verifier: str = ""  # of a doer
    inputs: tuple[str, ...] = ()  # paths that it reads, from the root of the tree
    outputs: tuple[str, ...] = ()  # paths that it makes for others
    owns: tuple[str, ...] = ()  # patterns
    forbids: tuple[str, ...] = ()  # patterns
    objective: str = ""
    boundaries: str = ""
    deliverable: str = ""
    acceptance: Acceptance = Acceptance()
    time_limit_seconds: float = 0.0  # 0: the job's
    stall_seconds: float = 0.0  # 0: the job's
    on_stall: Remedy = Remedy.ESCALATE
    line: int = 0


class Checkpoint(Struct, frozen=True, omit_defaults=True):
    """A hand-over of one worker's output to another: who verifies it, by which criteria, and what if it fails."""

    giver: str
    taker: str
    by: str
    criteria: str
    on_failure: str = ""
    line: int = 0

    @property
    def remedy(self) -> OnFailure:
        """What is done when it fails."""
        return meant(self.on_failure)


class Plan(Struct, frozen=True, omit_defaults=True):
    """A workflow coordination plan, as far as the executor needs it. `stages` is the order that the plan decides."""

    task: str  # a slug: it names archives
    goal: str
    workers: dict[str, Worker]  # in the file's order
    stages: tuple[tuple[str, ...], ...]  # one after another; the doers of one stage in parallel
    checkpoints: tuple[Checkpoint, ...] = ()
    escalation: str = ""  # how blocked workers are helped, and where the user comes in
    text: str = ""  # the file, whole
    user_point: str = ""  # where the user comes in, if the plan says so in a field of its own

    @property
    def doers(self) -> tuple[Worker, ...]:
        """Those who make something."""
        return tuple(worker for worker in self.workers.values() if worker.task is Task.DOER)

    def checkpoints_of(self, agent: str) -> tuple[Checkpoint, ...]:
        """Where an agent's output is handed over."""
        return tuple(point for point in self.checkpoints if point.giver == agent)


class Finding(Struct, frozen=True, omit_defaults=True):
    """One thing that is wrong with a design or a file: where, who, what, and what to do about it."""

    file: str
    line: int  # 0: the file as a whole
    agent: str  # empty: the workflow as a whole
    rule: str  # a short name that stays: missing-instructions, cycle, overlap, …
    text: str
    remedy: str

    def __str__(self) -> str:
        """The finding in one line."""
        where = f"{self.file}:{self.line}" if self.line else self.file
        who = f" {self.agent}:" if self.agent else ""
        return f"{where}:{who} {self.text}; {self.remedy} [{self.rule}]"


# ---- notes ---------------------------------------------------------------------------------------


class NoteStatus(StrEnum):
    """Where a note stands."""

    OPEN = "open"
    RESOLVED = "resolved"
    ESCALATED = "escalated"


class Category(StrEnum):
    """What a note is about. The first seven must be escalated, the others a doer may resolve itself."""

    TECHNOLOGY = "technology"
    ARCHITECTURE = "architecture"
    SECURITY = "security"
    REQUIREMENTS = "requirements"
    CONFLICT = "conflicting_guidance"
    SCOPE = "scope"  # it needs a path that it does not own
    UNKNOWN = ""  # none was given: when in doubt, escalate
    CONSISTENCY = "code_consistency"
    BUG = "obvious_bug"
    DETAIL = "implementation_detail"
    DOCUMENTATION = "documentation"


MAY_SELF_RESOLVE = frozenset({Category.CONSISTENCY, Category.BUG, Category.DETAIL, Category.DOCUMENTATION})


class Note(Struct, frozen=True, omit_defaults=True):
    """One assumption or uncertainty, in the fields of its file."""

    note_id: str  # note_001, note_002, …
    timestamp: int
    description: str
    context: str
    status: NoteStatus = NoteStatus.OPEN
    category: Category = Category.UNKNOWN
    resolution: str | None = None
    resolved_by: str | None = None  # agent_self, workflow_executor, user
    resolution_timestamp: int | None = None
    escalation_reason: str | None = None


class RefusedNote(Struct, frozen=True, omit_defaults=True):
    """A note that was refused for its form, as its maker wrote it."""

    pending_id: str  # pending_001, pending_002, …
    timestamp: int
    written: str
    problems: tuple[str, ...] = ()  # what is wrong with it, and what to do


class Session(Struct, frozen=True, omit_defaults=True):
    """A worker's notes of one session, and those that wait for their maker to mend them."""

    task_id: str
    session_start: int
    notes: tuple[Note, ...] = ()
    pending: tuple[RefusedNote, ...] = ()


class StrayWrite(Struct, frozen=True, omit_defaults=True):
    """What a worker's turn wrote outside its paths: it was put back, and what was there is kept."""

    time: int
    agent: str
    paths: tuple[str, ...]
    owners: tuple[str, ...]  # whose each of them is
    ref: str  # what holds what was there


# ---- what happens --------------------------------------------------------------------------------


class Proof(Struct, frozen=True, omit_defaults=True):
    """One command that was run on a tree, and what it did."""

    command: str
    code: int  # its exit code; negative: the signal that ended it
    output: str  # its last characters
    seconds: float = 0.0
    fault: str = ""  # why it could not be run, or was ended

    @property
    def holds(self) -> bool:
        """Whether it did what it should."""
        return self.code == 0 and not self.fault


class JudgedCheckpoint(Struct, frozen=True, omit_defaults=True):
    """A checkpoint's criterion as a round judged it: what is handed to whom, and whether it may be."""

    to: str
    criteria: str
    met: bool | None = None  # None: it was not judged
    evidence: str = ""

    @property
    def result(self) -> str:
        """How it ended, in words."""
        return "not judged" if self.met is None else "met" if self.met else "failed"


class Round(Struct, frozen=True, omit_defaults=True):
    """One round of verification of a worker's output."""

    number: int
    verifier: str
    verdict: str  # verified, rejected, blocked
    findings: tuple[str, ...] = ()
    proofs: tuple[Proof, ...] = ()
    time: int = 0
    criteria: tuple[JudgedCheckpoint, ...] = ()  # of every checkpoint of the worker's, in the plan's order
    action: str = ""  # what a failed checkpoint has led to


class Merged(Struct, frozen=True, omit_defaults=True):
    """One merge, as the log has it: taken or not, and why."""

    number: int
    agent: str
    time: int
    taken: bool
    commits: tuple[str, ...] = ()  # the worker's tip, the result
    paths: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    resolved_by: str = ""
    trivial: bool = True  # whether there was nothing to settle
    kept_out: tuple[str, ...] = ()  # paths of others, with the owner
    proofs: tuple[Proof, ...] = ()  # the acceptance commands of both sides, run on the result
    reason: str = ""  # why it was not taken


class Rescope(Struct, frozen=True, omit_defaults=True):
    """One change of what a worker owns: given by whom, and why. Changes of one moment are one change."""

    time: int
    agent: str
    by: str
    before: tuple[str, ...]  # patterns
    after: tuple[str, ...]
    reason: str


class RestingAnswer(Struct, frozen=True, omit_defaults=True):
    """An answer to a note that came with a changed plan: it holds when the plan does."""

    agent: str
    note_id: str
    session: int  # when the session began that the note is in
    answer: str
    by: str


class PlanChange(Struct, frozen=True, omit_defaults=True):
    """A change of the plan that was decided about in mid-work, with the answers that came with it."""

    time: int
    plan: str  # what the changed plan is known by; empty: it was taken back
    decision: str  # approved or refused
    by: str
    reason: str = ""
    judged: str = ""  # what became of it at the design verifier
    author: str = ""  # the human or the proxy, where one of them decided
    answers: tuple[RestingAnswer, ...] = ()


class Joined(Struct, frozen=True, omit_defaults=True):
    """An agent that joined a workflow after its plan was approved: since when, and what for."""

    name: str
    role: str
    time: int
    why: str


class LivenessAction(Struct, frozen=True, omit_defaults=True):
    """What was done about a worker that had stalled, and what came of it."""

    time: int
    agent: str
    action: Remedy
    by: str
    outcome: str = ""


class WorkerStanding(Struct, frozen=True, omit_defaults=True):
    """Where one worker stands: all that shared_status.json and the tracker show of it."""

    name: str
    status: Status = Status.PENDING
    last_update: int | None = None
    last_progress: int | None = None
    session: Session | None = None
    thread: str = ""  # its open conversation
    version: int = 0  # of its verified output
    read: tuple[tuple[str, int], ...] = ()  # whose output it started from, and which version
    rounds: tuple[Round, ...] = ()
    crashes: int = 0
    reason: str = ""  # why it is blocked, stalled or failed
    stalled: bool = False  # it is blocked because it stalled
