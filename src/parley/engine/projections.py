"""What the faces show of a job: pure reads of the bus. Nothing here changes anything.

A listing reads the jobs' rows alone; a job's present is read from its current molecules; only its past, the
threads that have ended and the conversation, is read from steps and messages.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from parley.core.conversation import enclosing
from parley.core.soup import Soup
from parley.core.states import BACKTRACK, PHASES, Record, State, skill_outcomes
from parley.core.terms import (
    HUMAN,
    ORCHESTRATOR,
    PROXY,
    AskHuman,
    AskQuestion,
    Assertion,
    Hold,
    Idle,
    Interrupt,
    Mailbox,
    Proxy,
    Run,
    Send,
    Surface,
    job_thread,
    thread_kind,
)
from parley.core.wire import decode
from parley.engine.budgets import Line, is_spent, standing
from parley.engine.changed import Stat, stat_from
from parley.engine.holds import STUCK, Wait, kind_of, wait_of, wait_on
from parley.engine.names import BESIDE, number_of
from parley.engine.records import stream_of
from parley.engine.signs import heard, is_stall, since, stall_of
from parley.engine.stand_in import STAND_INS, answer_key, plain_key
from parley.engine.texts import excerpt
from parley.engine.unfinished import KEY, End
from parley.options import NO_MENU, Menu, command, menu_of
from parley.ports import Files, JobRow, Loaded, StepRow, Store
from parley.wording import count

WORK = PHASES[State.EXECUTE].artifact
TERMINAL = ("DONE", "WITHDRAWN", "FAILURE")
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
    text: str
    body: str
    digest: str = ""  # what the artifact contained
    stat: Stat | None = None  # what the job has changed, where the work is put forward
    superseded: str = ""  # the newer question about the same artifact, whose verdict is the one that counts
    unfinished: tuple[Mapping[str, Any], ...] = ()  # the work that is left out of what is put forward
    menu: Menu = NO_MENU  # what can be chosen by its command, beside the verdicts
    at_work: int = 0  # agents of the job whose turns are out

    @property
    def stake(self) -> str:
        """What a withdrawal gives up, whoever has asked."""
        at_work = f" ({count(self.at_work, 'agent')} at work)" if self.at_work else ""
        return f"the whole job {self.job}{at_work}"

    @property
    def backtracks(self) -> tuple[str, ...]:
        """Where a verdict may lead back to from here: `intent`, `plan`."""
        outcomes = skill_outcomes(State(self.state)) if self.state in PHASES else ()
        return tuple(state.lower() for state, action in BACKTRACK.items() if action in outcomes)

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
            "unfinished": [dict(one) for one in self.unfinished],
            "stat": self.stat.document() if self.stat else None,
            "diff": f"parley diff {self.job}" if self.stat else None,
        }


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


class Present:
    """A job as its current molecules have it."""

    def __init__(self, store: Store, job: str) -> None:
        self.store = store
        self.job = job
        self.loaded: Loaded = store.load(job)
        self.row: JobRow = self.loaded.row
        self.soup = soup_of(self.loaded)
        self.owned = store.owner_lives(job)
        self.stopped = store.owner_stopped(job) if self.owned else 0  # its owner, where somebody has stopped that
        self._turns = {turn.turn: turn for turn in self.loaded.turns}

    @property
    def record(self) -> Record | None:
        """The job's state record; None before its first step."""
        return self.soup.get(Record, self.job)

    @property
    def phase(self) -> str:
        """The phase it is in, or ended in."""
        return self.record.phase if self.record else PHASES[State.INTENT].name

    @property
    def paused(self) -> bool:
        """Whether somebody has paused it."""
        return any(not is_spent(hold) for hold in self.soup.all(Hold, job_thread(self.job)))

    @property
    def unpaid(self) -> list[Hold]:
        """The holds on it for budgets that are spent."""
        return [hold for hold in self.soup.all(Hold, job_thread(self.job)) if is_spent(hold)]

    def spent(self) -> list[Line]:
        """The budgets that hold it. Of yesterday's nothing is left: whoever goes on releases that hold."""
        causes = {hold.cause for hold in self.unpaid}
        lines = standing(self.store, self.loaded, time.time()) if causes else []
        return [line for line in lines if line.spent and line.cause in causes]

    def started(self, turn: str) -> float:
        """When a turn that is out was put out."""
        row = self._turns.get(turn)
        return row.started if row else 0.0

    def questions(self) -> list[Asked]:
        """What waits for the human, oldest first; not what has its answer waiting for the job's owner."""
        waiting = self.store.inputs(self.job) if self.soup.of(AskHuman) else []
        may = (self.row.decider, *STAND_INS)
        given = {plain_key(row.key) for row in waiting if row.by in may and self.store.authentic(row) is not False}
        found = [self._asked(asked) for asked in self.soup.of(AskHuman) if answer_key(asked) not in given]
        return sorted(found, key=lambda asked: asked.time)

    def _asked(self, asked: AskHuman) -> Asked:
        row = self.store.message(self.job, number_of(asked.framing))
        about: dict[str, Any] = json.loads(row.meta) if row.meta else {}
        surface = self.soup.get(Surface, asked.thread)
        return Asked(
            asked.id,
            self.job,
            asked.framing,
            row.time,
            str(about.get("state", "")),
            str(asked.question.kind),
            asked.question.artifact,
            asked.agent,
            asked.thread,
            surface.workspace if surface else job_thread(self.job),
            str(about.get("text", "")),
            row.body,
            asked.question.digest,
            self._stat(about),
            self._newer(asked),
            tuple(about.get(KEY, ())),
            menu_of(about),
            len(self.soup.of(Run)) if self.owned else 0,
        )

    def _stat(self, about: Mapping[str, Any]) -> Stat | None:
        """What the job has changed, as it was counted when its work was put forward."""
        if about.get("artifact") != WORK or not about.get("asked"):
            return None
        row = self.store.message(self.job, number_of(about["asked"]))
        return stat_from(json.loads(row.meta or "{}").get("stat"))

    def _newer(self, asked: AskHuman) -> str:
        """The question that has put the same artifact forward since."""
        if not asked.question.artifact or self.record is None:
            return ""
        record = enclosing(self.soup, asked.thread)
        found = [made for made in self.soup.all(Assertion, record.id) if made.artifact == asked.question.artifact]
        return found[0].question if found and found[0].question != asked.id else ""

    def threads(self) -> list[Thread]:
        """The instances that are there now, each after its parent."""
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
        base = Thread(thread, agent, above, "idle", "", mail=mail, workspace=surface.workspace)
        run = soup.get(Run, thread, agent)
        if run is not None:
            return self._at_work(base, run)
        held = soup.get(Hold, thread) if thread_kind(thread) != "job" else None
        if held is not None and not is_stall(held):
            return replace(base, state="waiting", doing=_held_words(held), waits=wait_of(held.cause))
        if soup.get(Send, thread, agent) or soup.get(AskQuestion, thread, agent):
            return replace(base, state="running", doing="sending")
        if thread_kind(thread) == "escalation":
            waits = any(asked.id == thread.partition(":")[2] for asked in soup.of(AskHuman))
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
                doing=f"waits for {count(len(below), 'thread')}",
            )
        if mail or soup.all(Interrupt, thread):
            return replace(base, doing="has mail")
        return replace(base, doing="waits for mail" if soup.get(Idle, thread, agent) else "")

    def _at_work(self, base: Thread, run: Run) -> Thread:
        """One whose turn is out: it works, or is stalled, or is lost with the process that ran it."""
        base = replace(base, since=self.started(run.turn), turn=run.turn)
        if not self.owned:
            return replace(base, state="waiting", doing="nobody works on it", turn="")
        wait = wait_on(self.soup, base.id)
        if wait is not None:
            return replace(base, state="waiting", doing=wait.words(time.time()), waits=wait)
        hold = stall_of(self.soup, base.id)
        if hold is None:
            return replace(base, state="running", doing="at work")
        return replace(base, state="stalled", doing=f"stalled since {moment(since(hold))}", last_progress=since(hold))


def _held_words(hold: Hold) -> str:
    """What an instance waits for that is held."""
    if (wait := wait_of(hold.cause)) is not None:
        return wait.words(time.time())
    return "waits for your word: it is stuck" if kind_of(hold) == STUCK else f"is held: {hold.cause}"


def moment(time_: float) -> str:
    """A time of day, as people here tell it."""
    return time.strftime("%H:%M:%S", time.localtime(time_))


def with_progress(present: Present, thread: Thread, files: Files) -> Thread:
    """The thread with what it last said it was doing, where it is at work."""
    if not thread.turn or present.record is None:
        return thread
    told = heard(files.tail(present.job, stream_of(present.record, thread.id)), thread.turn)
    last = told.last or thread.since
    if thread.waits is not None:
        return replace(thread, doing=thread.waits.words(time.time()), last_progress=last)
    if thread.state == "stalled":
        did = f"; the last thing it did: {excerpt(told.said)}" if told.said else ""
        return replace(thread, doing=f"{thread.doing}{did}")
    return replace(thread, doing=excerpt(told.said) if told.said else thread.doing, last_progress=last)


def soup_of(loaded: Loaded) -> Soup:
    """The soup that a job's current molecules make."""
    bodies = (body for slot, body in loaded.molecules.items() if not slot.startswith(BESIDE))
    return Soup(decode(json.loads(body)) for body in bodies)


def inbox(store: Store, rows: list[JobRow] | None = None) -> list[Asked]:
    """What waits for the human in all jobs, oldest first. Only jobs whose rows say so are looked into."""
    found: list[Asked] = []
    for row in store.jobs() if rows is None else rows:
        if row.needs_human and row.state not in TERMINAL:
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


@dataclass(slots=True)
class Past:
    """What a job's steps tell of it: threads that have ended, what its turns used, and what they were refused."""

    ended: list[Thread]
    usage: dict[str, float]
    lost: int
    refused: int
    abandoned: list[Abandoned] = field(default_factory=list)
    answers: dict[str, int] = field(default_factory=dict)  # in whose name questions were answered, and how many
    models: dict[str, str] = field(default_factory=dict)  # which model last answered each agent, where that is told
    unfinished: list[dict[str, Any]] = field(default_factory=list)  # work that was ended before it was through


def past(store: Store, job: str) -> Past:
    """Read a job's steps once."""
    made: dict[str, Thread] = {}
    gone: dict[str, float] = {}
    why: dict[str, str] = {}
    records: dict[str, str] = {}  # subteams that ended with their threads: in which state, and why
    usage: dict[str, float] = {"turns": 0}
    lost = refused = 0
    abandoned: list[Abandoned] = []
    answers = {HUMAN: 0, PROXY: 0}
    models: dict[str, str] = {}
    unfinished: list[dict[str, Any]] = []
    for step in store.steps(job):
        if step.rule in ("open", "spark", "ask", "send-ask"):
            for thread in _made(step):
                made[thread.id] = thread
        elif step.rule == "term-record":
            records[step.at] = _end_of_record(step)
        elif step.rule == "term-final":
            gone.setdefault(step.at, step.time)
        elif step.rule == "respond":
            answers[step.who] = answers.get(step.who, 0) + 1
        elif step.rule == "interrupt":
            abandoned.append(abandoned_by(store, job, step))
        if step.extra:
            left = json.loads(step.extra)
            lost += "fault" in left
            unfinished += [{"time": step.time, **one} for one in left.get(KEY, ()) if one["end"] != End.GOES_ON]
            if "model" in left:
                models[_who_ran(step)] = str(left["model"])
            refused += len(left.get("refused", ())) + len(left.get("left_out", ()))
            for name, value in left.get("usage", {}).items():
                usage[name] = max(usage.get(name, 0), value) if name in GAUGES else usage.get(name, 0) + value
        for line in step.produced.splitlines() if "Terminate " in step.produced else ():
            kind, _, rest = line.partition(" ")
            if kind == "Terminate":
                thread_id, _, origin = rest.partition(" ")
                why.setdefault(thread_id, origin)
    ended = [
        replace(thread, state="ended", doing=records.get(name) or _end_words(why.get(name, "")), since=gone[name])
        for name, thread in made.items()
        if name in gone
    ]
    return Past(ended, usage, lost, refused, abandoned, answers, models, unfinished)


def _who_ran(step: StepRow) -> str:
    """The agent whose turn a step ended, from how its row names what it consumed."""
    return next((line.split(" ")[1] for line in step.consumed.splitlines() if line.startswith("Run ")), "")


def abandoned_by(store: Store, job: str, step: StepRow) -> Abandoned:
    """What an [interrupt] has cut short, from how its row names what it consumed."""
    _, agent, thread, message, turn, *_ = next(
        line.split(" ") for line in step.consumed.splitlines() if line.startswith("Run ")
    )
    body = store.message(job, number_of(message)).body
    return Abandoned(turn, agent, thread, excerpt(body), step.time)


_ENDINGS = {
    "close": "closed",
    "accept": "closed",
    "phase": "ended with its phase",
    "backtrack": "ended by a backtrack",
    "withdrawal": "withdrawn",
    "end": "ended with the job",
}


def _end_words(origin: str) -> str:
    return _ENDINGS.get(origin, "ended")


def _end_of_record(step: StepRow) -> str:
    """How a subteam's record ended with its thread, from its step's row."""
    state = next(line.split(" ")[2] for line in step.produced.splitlines() if line.startswith("Record "))
    reason = json.loads(step.choice)["Passage"][3]
    return f"{state}: {reason}"


def _made(step: StepRow) -> Iterator[Thread]:
    """The threads that a step made, from how its row names what it produced."""
    parents: dict[str, str] = {}
    surfaces: list[list[str]] = []
    for line in step.produced.splitlines():
        words = line.split(" ")
        if words[0] == "Parent":
            parents[words[1]] = words[2]
        elif words[0] == "Surface":
            surfaces.append(words)
    for _, agent, thread, workspace in surfaces:
        yield Thread(thread, agent, parents.get(thread, ""), "idle", "", workspace=workspace)


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
