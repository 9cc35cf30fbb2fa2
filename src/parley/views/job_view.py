"""What the faces show of a job: pure reads of the bus. Nothing here changes anything.

A listing reads the jobs' rows alone; a job's present is read from its current molecules; only its past, the
threads that have ended and the conversation, is read from steps and messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from parley.base.json_codec import Unreadable
from parley.base.options import NO_MENU, Menu, command
from parley.base.wording import count
from parley.bus.rows import BusError, JobRow, Loaded, NoMessage, StepRow
from parley.bus.slots import holds_molecule, number_of
from parley.bus.store import Store
from parley.engine.files.streams import heard, stream_of
from parley.engine.protocol_messages import excerpt
from parley.engine.values import message_meta, step_extra
from parley.engine.values.change_stat import Stat
from parley.engine.values.hold_causes import PAUSE, Stall, Stuck, Wait, budgets, cause_of, stall_of, wait_of, wait_on
from parley.engine.values.human_inputs import AnswerInput, read_or_none
from parley.engine.values.job_roles import code_of
from parley.engine.values.message_meta import Posed, Put
from parley.engine.values.people import People, people_of
from parley.engine.values.permissions import QuestionKind, objection
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
from parley.engine.values.unfinished_work import End, Unfinished
from parley.features.budgets.arithmetic import BudgetLine, standing
from parley.ports.machine import Files
from parley.protocol.codec import decode_as, decode_molecule
from parley.protocol.conversation import enclosing
from parley.protocol.errors import ProtocolError
from parley.protocol.molecules import (
    HUMAN,
    ORCHESTRATOR,
    PROXY,
    AskHuman,
    AskQuestion,
    Assertion,
    Hold,
    Idle,
    Interrupt,
    Kind,
    Mailbox,
    Origin,
    Proxy,
    Record,
    Run,
    Send,
    Surface,
    job_thread,
    thread_kind,
    thread_name,
)
from parley.protocol.rule import Passage
from parley.protocol.soup import Soup
from parley.protocol.states import BACKTRACK, State, skill_outcomes
from parley.roles.phases import PHASES, phase_of
from parley.views.turn_hosts import TurnHosts

WORK = PHASES[State.EXECUTE].artifact
DAMAGE = (Unreadable, ProtocolError, NoMessage)  # what reading a job raises whose rows another program has changed
TERMINAL = ("DONE", "WITHDRAWN", "FAILURE")
BEGIN_SECONDS = 30.0  # how long the first process may take to open a job that was put on the bus
GAUGES = ("context_used",)  # of what a turn reports: how full something was, which does not add up


# ---- the present ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Thread:
    """One instance of the dispatch tree, at work or ended."""

    id: str
    agent: str
    parent: str
    state: str  # running, stalled, idle, asking, waiting, ended
    doing: str
    since: float = 0.0
    turn: str = ""
    mail: int = 0
    workspace: str = ""
    last_progress: float = 0.0  # where it is at work: its last sign of life
    waits: Wait | None = None  # for its provider, and until when
    host: str = ""  # where its turn runs, or its last one ran, if that is another host

    def document(self) -> dict[str, Any]:
        """The thread as `--json` gives it."""
        return {
            "id": self.id,
            "agent": self.agent,
            "parent": self.parent or None,
            "state": self.state,
            "doing": self.doing,
            "since": self.since or None,
            "last_progress": self.last_progress or None,
            "waits": self.waits.document() if self.waits else None,
            "mail": self.mail,
            "workspace": self.workspace,
            "host": self.host or None,
        }


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that waits for the human."""

    id: str
    job: str
    framing: str
    time: float
    state: str
    kind: str
    artifact: str
    asker: str
    thread: str
    workspace: str
    subject: str  # what it is about: the body's first line
    text: str
    body: str
    digest: str = ""  # what the artifact contained
    stat: Stat | None = None  # what the job has changed, where the work is put forward
    superseded: str = ""  # the newer question about the same artifact, whose verdict is the one that counts
    unfinished: tuple[Unfinished, ...] = ()  # the work that is left out of what is put forward
    menu: Menu = NO_MENU  # what can be chosen by its command, beside the verdicts
    at_work: int = 0  # agents of the job whose turns are out

    @property
    def stake(self) -> str:
        """What a withdrawal on any question gives up."""
        at_work = f" ({count(self.at_work, 'agent')} at work)" if self.at_work else ""
        return f"the whole job {self.job}{at_work}"

    @property
    def backtracks(self) -> tuple[str, ...]:
        """Where a verdict may lead back to from here: `intent`, `plan`."""
        outcomes = skill_outcomes(State(self.state)) if self.state in PHASES else ()
        return tuple(state.lower() for state, action in BACKTRACK.items() if action in outcomes)

    @property
    def put_as(self) -> QuestionKind:
        """What it is, for who may answer it."""
        return QuestionKind(Kind(self.kind), bool(self.menu.options))

    def document(self) -> dict[str, Any]:
        """The question as `--json` gives it."""
        return {
            "id": self.id,
            "job": self.job,
            "state": self.state,
            "kind": self.kind,
            "artifact": self.artifact or None,
            "asker": self.asker,
            "thread": self.thread,
            "workspace": self.workspace,
            "time": self.time,
            "text": self.text,
            "body": self.body,
            "backtracks": list(self.backtracks),
            "choices": [
                {**option.document(), "command": command(self.id, option.name)} for option in self.menu.options
            ],
            "words": self.menu.words or None,
            "gives_up": self.stake,
            "unfinished": [one.document() for one in self.unfinished],
            "stat": self.stat.document() if self.stat else None,
            "diff": f"parley diff {self.job}" if self.stat else None,
        }


def begins(loaded: Loaded) -> bool:
    """Whether a job was put on the bus a moment ago, and its first process has not opened it yet."""
    return loaded.epoch == 0 and time.time() - loaded.row.created < BEGIN_SECONDS


def damage_words(job: str) -> str:
    """What is said of a job that can't be read."""
    return f"its record can't be read: parley audit {job}"


def lasted(present: Present, files: Files, now: float) -> float:
    """How many seconds a job has lasted: to its end, to this moment, or to when its last owner left it."""
    row, last = present.row, present.loaded.transaction
    if row.state in TERMINAL:
        end = row.updated
    elif present.owned:
        end = now
    else:
        end = max(row.updated, last.time if last else 0.0, files.last_write(present.job))
    return max(0.0, end - row.created)


def is_seen_owned(store: Store, job: str) -> bool:
    """Whether a living process is seen to own a job. Of a lock that can't be read, none is.

    Only what is shown asks so: the process that takes the job over is told what is wrong with its lock.
    """
    try:
        return store.owner_lives(job)
    except BusError:
        return False


class Present:
    """A job as its current molecules have it."""

    def __init__(self, store: Store, job: str) -> None:
        self.store = store
        self.job = job
        self.loaded: Loaded = store.load(job)
        self.row: JobRow = self.loaded.row
        self.soup = soup_of(self.loaded)
        self.owned = is_seen_owned(store, job)
        self.stopped = store.owner_stopped(job) if self.owned else 0  # its owner, if that was stopped
        self._turns = {turn.turn: turn for turn in self.loaded.turns}
        self._spent: list[BudgetLine] | None = None

    @property
    def record(self) -> Record | None:
        """The job's state record; None before its first step."""
        return self.soup.get(Record, self.job)

    @property
    def phase(self) -> str:
        """The phase it is in, or ended in."""
        return phase_of(self.record) if self.record else PHASES[State.INTENT].name

    @property
    def paused(self) -> bool:
        """Whether the human has paused it."""
        return Hold(job_thread(self.job), PAUSE.text) in self.soup

    @property
    def begins(self) -> bool:
        """Whether it was put on the bus a moment ago, and its first process has not opened it yet."""
        return begins(self.loaded)

    @property
    def unpaid(self) -> list[Hold]:
        """The holds on it for budgets that are spent."""
        return [hold for hold, _ in budgets(self.soup, job_thread(self.job))]

    def spent(self) -> list[BudgetLine]:
        """The budgets that hold it. Of yesterday's nothing is left: the next owner releases that hold."""
        if self._spent is None:  # once: the exits of every instance of a held job name it
            causes = {cause for _, cause in budgets(self.soup, job_thread(self.job))}
            lines = standing(self.store, self.loaded, time.time()) if causes else []
            self._spent = [line for line in lines if line.spent and line.cause in causes]
        return self._spent

    @property
    def code(self) -> frozenset[str]:
        """Its agents whose turns are code."""
        return code_of(self.row)

    def started(self, turn: str) -> float:
        """When a turn that is out was put out."""
        row = self._turns.get(turn)
        return row.started if row else 0.0

    @cached_property
    def hosts(self) -> Mapping[str, str]:
        """Where its turns run that are out on other hosts, by turn, whether or not a process owns the job."""
        return self.store.hosts_of(self.job) if self._turns else {}

    def questions(self) -> list[Asked]:
        """What waits for the human, oldest first; not what has its answer waiting for the job's owner."""
        waiting = self.store.inputs(self.job) if self.soup.of(AskHuman) else []
        left = [(row, read_or_none(row)) for row in waiting if self.store.authentic(row) is not False]
        given = [(row.by, one) for row, one in left if isinstance(one, AnswerInput)]
        found = (self._asked(asked) for asked in self.soup.of(AskHuman))
        return sorted((asked for asked in found if not self._is_answered(asked, given)), key=lambda asked: asked.time)

    def _is_answered(self, asked: Asked, given: list[tuple[str, AnswerInput]]) -> bool:
        """Whether an answer to a question, of a person who may give it, waits for the job's owner."""
        own = [(by, one) for by, one in given if (one.question, one.framing) == (asked.id, asked.framing)]
        return any(not objection(self.people, by, one, asked.put_as) for by, one in own)

    @cached_property
    def people(self) -> People:
        """Who may do what in it."""
        return people_of(self.loaded)

    def _asked(self, asked: AskHuman) -> Asked:
        row = self.store.message(self.job, number_of(asked.framing))
        put = message_meta.read_as(Put, row)
        surface = self.soup.get(Surface, asked.thread)
        return Asked(
            id=asked.id,
            job=self.job,
            framing=asked.framing,
            time=row.time,
            state=put.state,
            kind=str(asked.question.kind),
            artifact=asked.question.artifact,
            asker=asked.agent,
            thread=asked.thread,
            workspace=surface.workspace if surface else job_thread(self.job),
            subject=put.subject,
            text=put.text,
            body=row.body,
            digest=asked.question.digest,
            stat=self._stat(put),
            superseded=self._newer(asked),
            unfinished=put.unfinished,
            menu=put.menu,
            at_work=len(self.soup.of(Run)) if self.owned else 0,
        )

    def _stat(self, put: Put) -> Stat | None:
        """What the job has changed, as it was counted when its work was put forward."""
        if put.artifact != WORK:
            return None
        return message_meta.read_as(Posed, self.store.message(self.job, number_of(put.asked))).stat

    def _newer(self, asked: AskHuman) -> str:
        """The question that has put the same artifact forward since."""
        if not asked.question.artifact or self.record is None:
            return ""
        record = enclosing(self.soup, asked.thread)
        found = [made for made in self.soup.all(Assertion, record.id) if made.artifact == asked.question.artifact]
        return found[0].question if found and found[0].question != asked.id else ""

    def threads(self) -> list[Thread]:
        """The instances that are there now, each after its parent."""
        return list(self._threads)

    @cached_property
    def _threads(self) -> list[Thread]:
        found: list[Thread] = []
        waiting = [(job_thread(self.job), "")]
        while waiting:
            here, above = waiting.pop()
            surface = self.soup.get(Surface, here)
            if surface is not None and not self.soup.dying(here):
                found.append(self._thread(surface, above))
            below = sorted(self.soup.children(here), key=self._order, reverse=True)
            waiting.extend((child, here) for child in below)
        return found

    def _order(self, thread: str) -> tuple[str, str]:
        """An order that does not change while people look."""
        surface = self.soup.get(Surface, thread)
        return surface.agent if surface else "", thread

    def _thread(self, surface: Surface, above: str) -> Thread:
        soup, thread, agent = self.soup, surface.thread, surface.agent
        mailbox = soup.get(Mailbox, thread, agent)
        mail = len(mailbox.queue) if mailbox else 0
        base = Thread(
            id=thread, agent=agent, parent=above, state="idle", doing="", mail=mail, workspace=surface.workspace
        )
        run = soup.get(Run, thread, agent)
        if run is not None:
            return self._at_work(base, run)
        held = soup.get(Hold, thread) if thread_kind(thread) != "job" else None
        if held is not None and not isinstance(cause_of(held), Stall):
            return replace(base, state="waiting", doing=_held_words(held), waits=wait_of(held.cause))
        if soup.get(Send, thread, agent) or soup.get(AskQuestion, thread, agent):
            return replace(base, state="running", doing="sending")
        if thread_kind(thread) == "escalation":
            waits = any(asked.id == thread_name(thread) for asked in soup.all(AskHuman, thread))
            return replace(base, state="asking", doing="waits for you") if waits else replace(base, doing="has mail")
        asked = [*soup.all(Proxy, thread), *soup.all(AskHuman, thread)]
        if asked and agent != PROXY:
            words = "waits for an answer" if len(asked) == 1 else f"waits for {count(len(asked), 'answer')}"
            return replace(base, state="asking", doing=words)
        below = [child for child in soup.children(thread) if soup.get(Surface, child) and not soup.dying(child)]
        if below and agent != ORCHESTRATOR:
            return replace(
                base,
                state="waiting",
                doing=f"waits for {count(len(below), 'agent')}",
            )
        if mail or soup.all(Interrupt, thread):
            return replace(base, doing="has mail")
        return replace(base, doing="waits for mail" if soup.get(Idle, thread, agent) else "")

    def _at_work(self, base: Thread, run: Run) -> Thread:
        """One whose turn is out: it works, or is stalled, or is lost with the process that ran it."""
        base = replace(base, since=self.started(run.turn), turn=run.turn, host=self.hosts.get(run.turn, ""))
        if not self.owned:
            return replace(base, state="waiting", doing="no process works on it", turn="")
        wait = wait_on(self.soup, base.id)
        if wait is not None:
            return replace(base, state="waiting", doing=wait.words(time.time()), waits=wait)
        stall = stall_of(self.soup, base.id)
        if stall is None:
            return replace(base, state="running", doing="at work")
        doing = f"stalled since {moment(stall.since)}"
        return replace(base, state="stalled", doing=doing, last_progress=stall.since)


def _held_words(hold: Hold) -> str:
    """What an instance waits for that is held."""
    cause = cause_of(hold)
    if isinstance(cause, Wait):
        return cause.words(time.time())
    return "waits for your word: it is stuck" if isinstance(cause, Stuck) else "is held"


def moment(time_: float) -> str:
    """A time of day, as people here tell it."""
    return time.strftime("%H:%M:%S", time.localtime(time_))


def with_progress(present: Present, thread: Thread, files: Files, redact: Callable[[str], str] = str) -> Thread:
    """The thread with what it last said it was doing, where it is at work."""
    if not thread.turn or present.record is None:
        return thread
    told = heard(files.tail(present.job, stream_of(present.record, thread.id)), thread.turn)
    last, said = told.last or thread.since, redact(told.said)
    if thread.waits is not None:
        return replace(thread, doing=thread.waits.words(time.time()), last_progress=last)
    if thread.state == "stalled":
        did = f"; the last thing it did: {excerpt(said)}" if said else ""
        return replace(thread, doing=f"{thread.doing}{did}")
    doing = redact(told.waits) or said
    return replace(thread, doing=excerpt(doing) if doing else thread.doing, last_progress=last)


def soup_of(loaded: Loaded) -> Soup:
    """The soup that a job's current molecules make."""
    bodies = (body for slot, body in loaded.molecules.items() if holds_molecule(slot))
    return Soup(decode_molecule(body) for body in bodies)


def inbox(store: Store, rows: list[JobRow] | None = None) -> list[Asked]:
    """What waits for the human in all jobs that can be read, oldest first. Only jobs whose rows say so are read."""
    found: list[Asked] = []
    for row in store.jobs() if rows is None else rows:
        if row.needs_human and row.state not in TERMINAL:
            with suppress(*DAMAGE):
                found.extend(Present(store, row.job).questions())
    return sorted(found, key=lambda asked: asked.time)


# ---- the past ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A turn that an intervention cut short. What it had written is kept under a ref that has its name."""

    turn: str
    agent: str
    thread: str
    message: str
    time: float

    def document(self) -> dict[str, Any]:
        """The turn as `--json` gives it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Work that was ended before it was through, and when."""

    time: float
    work: Unfinished

    def document(self) -> dict[str, Any]:
        """The work as `--json` gives it."""
        return {"time": self.time, **self.work.document()}


@dataclass(slots=True)
class JobHistory:
    """What a job's steps tell of it: threads that have ended, what its turns used, and what they were refused."""

    ended: list[Thread]
    usage: dict[str, float]
    lost: int
    refused: int
    abandoned: list[Abandoned] = field(default_factory=list)
    answers: dict[str, int] = field(default_factory=dict)  # in whose name questions were answered, and how many
    models: dict[str, str] = field(default_factory=dict)  # which model last answered each agent, where that is told
    unfinished: list[LeftOut] = field(default_factory=list)  # work that was ended before it was through
    hosts: TurnHosts = field(default_factory=TurnHosts)


def located(thread: Thread, hosts: TurnHosts) -> Thread:
    """A thread with its host, also where it is not at work."""
    host = thread.host or hosts.last.get(thread.id, "")
    return replace(thread, host=host) if host else thread


def past(store: Store, job: str) -> JobHistory:
    """Read a job's steps once."""
    made: dict[str, Thread] = {}
    gone: dict[str, float] = {}
    why: dict[str, Origin] = {}
    records: dict[str, str] = {}  # subteams that ended with their threads: in which state, and why
    usage: dict[str, float] = {"turns": 0}
    lost = refused = 0
    abandoned: list[Abandoned] = []
    answers = {HUMAN: 0, PROXY: 0}
    models: dict[str, str] = {}
    unfinished: list[LeftOut] = []
    hosts = TurnHosts()
    for step in store.steps(job):
        if step.rule in ("open", "spark", "ask", "send-ask"):
            for thread in _made(step):
                made[thread.id] = thread
        elif step.rule == "term-record":
            records[place_of(step).record] = _end_of_record(step)
        elif step.rule == "term-final":
            gone.setdefault(place_of(step).thread, step.time)
        elif step.rule == "respond":
            answers[step.who] = answers.get(step.who, 0) + 1
        elif step.rule == "interrupt":
            abandoned.append(abandoned_by(store, job, step))
        if step.extra:
            left = step_extra.read(step.extra)
            lost += bool(left.fault)
            hosts.note(step, left)
            unfinished += [LeftOut(step.time, one) for one in left.unfinished if one.end is not End.GOES_ON]
            if left.model:
                models[_who_ran(step)] = left.model
            refused += len(left.refused) + len(left.left_out)
            for name, value in left.usage.items():
                usage[name] = max(usage.get(name, 0), value) if name in GAUGES else usage.get(name, 0) + value
        for end in all_named(NamedTerminate, step.produced):
            why.setdefault(end.thread, end.origin)
    ended = [
        replace(thread, state="ended", doing=records.get(name) or _end_words(why.get(name)), since=gone[name])
        for name, thread in made.items()
        if name in gone
    ]
    return JobHistory(
        ended=ended,
        usage=usage,
        lost=lost,
        refused=refused,
        abandoned=abandoned,
        answers=answers,
        models=models,
        unfinished=unfinished,
        hosts=hosts,
    )


def _who_ran(step: StepRow) -> str:
    """The agent whose turn a step ended, from how its row names what it consumed."""
    run = first_named(NamedRun, step.consumed)
    return run.agent if run is not None else ""


def abandoned_by(store: Store, job: str, step: StepRow) -> Abandoned:
    """What an [interrupt] has cut short, from how its row names what it consumed."""
    run = next(all_named(NamedRun, step.consumed))
    body = store.message(job, number_of(run.message)).body
    return Abandoned(turn=run.turn, agent=run.agent, thread=run.thread, message=excerpt(body), time=step.time)


_ENDINGS = {
    Origin.CLOSE: "closed",
    Origin.ACCEPT: "closed",
    Origin.PHASE: "ended with its phase",
    Origin.BACKTRACK: "ended by a backtrack",
    Origin.WITHDRAWAL: "withdrawn",
    Origin.END: "ended with the job",
}


def _end_words(origin: Origin | None) -> str:
    return _ENDINGS[origin] if origin is not None else "ended"


def _end_of_record(step: StepRow) -> str:
    """How a subteam's record ended with its thread, from its step's row."""
    state = next(all_named(NamedRecord, step.produced)).state
    return f"{state}: {decode_as(Passage, step.choice).reason}"


def _made(step: StepRow) -> Iterator[Thread]:
    """The threads that a step made, from how its row names what it produced."""
    parents = {parent.child: parent.thread for parent in all_named(NamedParent, step.produced)}
    for surface in all_named(NamedSurface, step.produced):
        above = parents.get(surface.thread, "")
        yield Thread(
            id=surface.thread, agent=surface.agent, parent=above, state="idle", doing="", workspace=surface.workspace
        )


def tree(now: list[Thread], ended: list[Thread]) -> list[tuple[int, Thread]]:
    """All threads in the order of the dispatch tree, each with its depth."""
    everyone = {thread.id: thread for thread in (*ended, *now)}
    below: dict[str, list[Thread]] = {}
    for thread in everyone.values():
        above = thread.parent if thread.parent in everyone else ""
        below.setdefault(above, []).append(thread)
    ordered: list[tuple[int, Thread]] = []
    waiting = [(0, thread) for thread in reversed(below.get("", []))]
    while waiting:
        depth, thread = waiting.pop()
        ordered.append((depth, thread))
        waiting.extend((depth + 1, child) for child in reversed(below.get(thread.id, [])))
    return ordered
