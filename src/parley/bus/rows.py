"""The rows of a bus, as plain frozen values, and what a row can hold, whichever store keeps it.

The engine decides what a row means, a store how it is kept. A row is built by keyword only. Its fields are the columns
of its table, in this order; `hash_chain` writes a row as a JSON array of its table's name and these columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

# What a job may be called: its id names files and folders, whatever the filesystem.
JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# How identifiers are made, what molecules hold, states and actions: a bus written with others can't be gone on with.
PROTOCOL = (
    "ids 1; rules 3; states INTENT PLAN EXECUTE DONE WITHDRAWN FAILURE; "
    "actions APPROVED_INTENT APPROVED_PLAN APPROVED_WORK REALIGN REPLAN WITHDRAW FAILURE"
)
REACH = 1 << 39  # how far from zero a row's number may lie; one that is not positive is kept too, for the audit to find


class BusError(Exception):
    """The bus can't be used: the text says why and what to do."""


class NoMessage(BusError):
    """A job has no such message."""


class LostOwnership(BusError):
    """Another process has become the job's owner: this one must stop acting for the job."""


class Owned(BusError):
    """The job has a living owner."""


class Duplicate(BusError):
    """The bus has this already: a job's id, a message's key or number, or an input's key."""


class _Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A row holds nothing but texts and numbers, so that the garbage collector need not look into it."""


class StepRow(_Row, frozen=True, kw_only=True, tag="steps"):
    """One firing. `at`, `choice`, `consumed` and `produced` are JSON texts or briefs, kept to the letter."""

    number: int
    transaction: int
    rule: str
    who: str
    time: float
    at: str
    choice: str
    consumed: str
    produced: str
    extra: str = ""  # what the turn that this step ended left behind: handle, tree, usage (JSON)


class MessageRow(_Row, frozen=True, kw_only=True, tag="messages"):
    """One message. `seq` counts up per recipient, `key` makes it unique: none lost, none twice, none reordered."""

    number: int
    transaction: int
    sender: str
    sender_thread: str
    agent: str
    thread: str
    seq: int
    key: str
    time: float
    body: str
    meta: str = ""  # what the protocol itself knows about it (JSON); agents never write it
    kind: str = ""  # what it is to its recipient: a task, a report, …


class TurnRow(_Row, frozen=True, kw_only=True, tag="turns"):
    """A turn that [wake] has put out to be run: the outbox."""

    turn: str  # t and a number, which is the order of turns
    agent: str
    thread: str
    message: str
    epoch: int
    host: str
    status: str  # submitted, ended, lost
    started: float


class TransactionRow(_Row, frozen=True, kw_only=True, tag="transactions"):
    """One commit: how far its steps and messages go, and the head of the hash chain after it."""

    number: int
    time: float
    epoch: int
    steps: int
    messages: int
    head: str
    digests: str = ""  # of its steps, its messages and the inputs it took, eight digits each: to name a changed row


class JobRow(_Row, frozen=True, kw_only=True, tag="jobs"):
    """What a listing shows of a job. Derived: the record, the charter and the steps say the same."""

    job: str
    request: str
    decider: str
    created: float
    updated: float
    state: str = "INTENT"
    visit: int = 1
    backtracks: int = 0
    needs_human: int = 0
    held: int = 0
    agent: str
    settings: str  # the job's snapshot: roles, playbook, policies, limits (JSON)


class JobProgress(_Row, frozen=True, kw_only=True):
    """What a transaction changes of its job's row; the rest stays as it was created."""

    updated: float
    state: str
    visit: int
    backtracks: int
    needs_human: int
    held: int


MERGE = "merge"  # the kind of an input that asks for nothing: it says why a result was not merged


class InputRow(_Row, frozen=True, kw_only=True, tag="inputs"):
    """What a person asks of a job: an answer, an intervention, a withdrawal, a pause."""

    number: int
    job: str
    kind: str
    key: str
    time: float
    by: str
    body: str  # JSON
    taken: int = 0  # the transaction that took it, or 0
    note: str = ""  # what became of it
    signature: str = ""  # with the key of the bus: no owner takes an input that was signed with another


class Spent(_Row, frozen=True, kw_only=True, tag="spending"):
    """What turns have used up on one day: those of one job, or of all. Whole numbers, so that sums are exact."""

    turns: int = 0
    tokens: int = 0
    micros: int = 0  # money, in millionths of a dollar
    millis: int = 0  # time at work, in thousandths of a second

    def plus(self, more: Spent) -> Spent:
        """Both together."""
        return Spent(
            turns=self.turns + more.turns,
            tokens=self.tokens + more.tokens,
            micros=self.micros + more.micros,
            millis=self.millis + more.millis,
        )


def sum_of(spent: Iterable[Spent]) -> Spent:
    """All of them together."""
    found = Spent()
    for each in spent:
        found = found.plus(each)
    return found


class EndedTurn(_Row, frozen=True, kw_only=True):
    """A turn that a transaction ends. The store compares the epoch and that the turn is still out, then sets."""

    turn: str
    epoch: int
    status: str  # ended, lost


class TakenInput(_Row, frozen=True, kw_only=True):
    """An input that a transaction takes, and what became of it."""

    number: int
    note: str


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """All that one transaction writes for one job."""

    job: str
    epoch: int
    transaction: TransactionRow
    steps: Sequence[StepRow] = ()
    messages: Sequence[MessageRow] = ()
    molecules: Mapping[str, str | None] = {}  # slot -> the molecule that is there now (JSON), None: it is gone
    started: Sequence[TurnRow] = ()
    ended: Sequence[EndedTurn] = ()
    taken: Sequence[TakenInput] = ()
    progress: JobProgress | None = None  # where it has changed
    spent: Mapping[str, Spent] = {}  # by day, what the transaction adds to what was used up


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A job as the bus has it: an owner goes on from this."""

    row: JobRow
    molecules: Mapping[str, str] = {}
    transaction: TransactionRow | None = None  # the last
    sequences: Mapping[tuple[str, str], int] = {}  # (agent, thread) -> the seq of the last message delivered there
    turns: Sequence[TurnRow] = ()  # those still submitted
    epoch: int = 0  # the last owner's; 0 if no process ever owned the job
    spent: Mapping[str, Spent] = {}  # by day


# ---- what a row can hold -------------------------------------------------------------------------


def check_job(job: str) -> None:
    """Refuse an id that a job can't have."""
    if not JOB_ID.fullmatch(job):
        raise BusError(f"{job[:100]!r} can't be a job's id; use letters, digits, dots, dashes and underscores")


def no_job(job: str) -> BusError:
    """That there is no such job."""
    return BusError(f"there is no job {job[:100]!r} on this bus; `parley ls` lists those it has")
