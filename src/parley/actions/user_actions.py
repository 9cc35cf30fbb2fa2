"""The user's actions on jobs from the terminal or the page, sent through the bus or by a command, and their results."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from parley.actions.leave import Closed, NotDecider, NoWords, Unchosen, find_input, give_answer, leave
from parley.bus.rows import InputRow
from parley.engine.values.human_inputs import Input, InterveneInput, Late, NameInput, PauseInput, ResumeInput, handled
from parley.engine.values.people import DOES, May
from parley.engine.values.permissions import objection
from parley.views.history.interventions import said_of
from parley.views.job_view import TERMINAL, Asked, moment
from parley.views.questions.question_outcome import answered, fate
from parley.views.repository_context import JobContext, RepositoryContext

BUSY_SECONDS = 5.0
# A command is another process: all that it leaves is what it prints, or its log. These two are read back from there.
PREFIX = "parley: "  # before what a command says of itself
NO_PULL_REQUEST = "no pull request was opened"  # how `parley pr` begins the line that says why
READ_SECONDS = 0.01  # that one look at a command's output takes at most


class NotDone(str):
    """A note that says why something was not done."""

    __slots__ = ()


@dataclass(slots=True)
class PendingInput:
    """An input that no owner has taken yet."""

    job: JobContext
    key: str
    done: str  # the note when it was taken
    since: float
    asked: Asked | None = None  # the question, where it is an answer
    told: bool = False
    note: str = ""  # the note until it is taken
    owner: subprocess.Popen[bytes] | None = None  # started for it, where no process worked on the job


@dataclass(slots=True)
class RunningCommand:
    """A command that runs."""

    job: JobContext
    process: subprocess.Popen[str]
    note: str
    done: str = "{}"  # the note when it has ended well, around its last line
    half: tuple[str, str] = ("", "")  # how a line begins that says what was left undone, and the note around that line
    starts: bool = False  # whether its last line is the id of a job that it has started


@dataclass(slots=True)
class StartingOwner:
    """A process that was started to own a job."""

    job: JobContext
    process: subprocess.Popen[bytes]
    note: str


class UserActions:
    """Leaves inputs, starts processes, and reports their results."""

    def __init__(self, going_on: str) -> None:
        """`going_on`: how the user ends a pause on this face, in words."""
        self._going_on = going_on
        self.begun: JobContext | None = None  # the job that was started last
        self.ended = 0  # commands that have ended
        self._open: list[PendingInput | RunningCommand | StartingOwner] = []
        self._count = 0

    @property
    def pending(self) -> list[str]:
        """The note of each action that has not ended."""
        return [action.note for action in self._open]

    # ---- the actions -------------------------------------------------------------------

    def answer(self, at: JobContext, asked: Asked, ruling: str | None, option: str | None, text: str) -> str:
        """Answer a question: by a verdict or an option of its menu, with words, or by words alone."""
        if ruling is None and option is None and not text:
            return NotDone("an answer needs words")
        try:
            key = give_answer(at.context.store, asked, ruling, text, at.context.by, option)
        except (NotDecider, Unchosen, NoWords) as refused:
            return NotDone(refused)
        except Closed as closed:
            return NotDone(_became(at, asked, closed.earlier))
        chosen = ruling or option or asked.menu.words
        said = f"{at.id}: answered{f', {chosen}' if chosen else ''}"
        note = f"{at.id}: answering"
        self._open.append(PendingInput(job=at, key=key, done=said, since=time.monotonic(), asked=asked, note=note))
        return note

    def tell(self, at: JobContext, thread: str, text: str, *, now: bool, authoritative: bool) -> str:
        """Leave an intervention."""
        if not text:
            return NotDone("there is nothing to say")
        given = InterveneInput(thread=thread, text=text, now=now, authoritative=authoritative)
        return self._leave(at, given, "", f"{at.id}: telling")

    def pause(self, at: JobContext) -> str:
        """Let turns under way end, and start no others."""
        if not at.owned:
            return self._run(at, ["pause", *_in_name(at), at.id], f"{at.id}: pausing")
        return self._leave(at, PauseInput(), f"{at.id} is paused: {self._going_on}", f"{at.id}: pausing")

    def go_on(self, at: JobContext, *, paused: bool) -> str:
        """End a pause; where no process works on the job, start one."""
        if paused and at.owned:
            return self._leave(at, ResumeInput(), f"{at.id} goes on", f"{at.id}: going on")
        return self._start(at, *_in_name(at))

    def raise_budget(self, at: JobContext, words: str) -> str:
        """Raise a budget, as `--budget` does, and go on."""
        if not words:
            return NotDone("nothing was raised")
        more = [*_in_name(at), f"--budget={words}"]
        if at.owned:
            return self._run(at, ["resume", *more, "--", at.id], f"{at.id}: raising its budget")
        return self._start(at, *more)

    def withdraw(self, at: JobContext, thread: str, name: str, reason: str) -> str:
        """Give a job up, or one agent of it with all below: reported when all its processes are dead."""
        if not thread:
            return self._run(at, ["withdraw", *_in_name(at), "--", at.id, reason], f"{at.id}: withdrawing")
        words = ["withdraw", *_in_name(at), "--thread", thread, "--", at.id, reason]
        return self._run(at, words, f"{at.id}: withdrawing {name}", f"{at.id}: {name} is withdrawn")

    def name(self, at: JobContext, person: str, may: May) -> str:
        """Say what a person may do in a job from now on."""
        given = NameInput(person=person, may=may)
        if why := objection(at.present().people, at.context.by, given):
            return NotDone(f"{at.id}: {why}")
        return self._leave(at, given, f"{at.id}: {person} {DOES[may]} from now on", f"{at.id}: naming {person}")

    def merge(self, at: JobContext) -> str:
        """Bring a job's result into the user's checkout."""
        return self._run(at, ["merge", at.id], f"{at.id}: merging")

    def pull_request(self, at: JobContext) -> str:
        """Push a job's result, and open a pull request."""
        how = f"{at.id} is pushed, and {{}}; `parley pr {at.id}` shows how to open it"
        return self._run(at, ["pr", at.id], f"{at.id}: opening a pull request", half=(NO_PULL_REQUEST, how))

    def begin(self, context: RepositoryContext, request: str) -> str:
        """Start a job that goes on in the background."""
        if not request:
            return NotDone("nothing was started: say what is to be done")
        at = JobContext(context, "a new job")
        note = f"starting a job in {context.title}"
        return self._run(at, ["run", "--detach", "--", request], note, "started: {}", starts=True)

    def follow_up(self, at: JobContext, request: str) -> str:
        """Start a job that goes on from another one's result."""
        if not request:
            return NotDone("nothing was started: say what is to be done next")
        words = ["continue", "--detach", *_in_name(at), "--", at.id, request]
        return self._run(at, words, f"{at.id}: starting a job that goes on from it", "started: {}", starts=True)

    def _leave(self, at: JobContext, given: Input, done: str, note: str) -> str:
        self._count += 1
        key = f"{given.kind}:{at.context.by}:{time.time_ns()}:{self._count}"
        leave(at.context.store, at.id, key, given, by=at.context.by)
        self._open.append(PendingInput(job=at, key=key, done=done, since=time.monotonic(), note=note))
        return note

    def _run(
        self,
        at: JobContext,
        words: list[str],
        note: str,
        done: str = "{}",
        half: tuple[str, str] = ("", ""),
        *,
        starts: bool = False,
    ) -> str:
        process = at.context.command(words)
        self._open.append(RunningCommand(job=at, process=process, note=note, done=done, half=half, starts=starts))
        return note

    def _start(self, at: JobContext, *more: str) -> str:
        note = f"{at.id}: starting a process that works on it"
        if more or not any(isinstance(one, StartingOwner) and one.job == at for one in self._open):
            self._open.append(StartingOwner(at, at.context.go_on(at.id, more), note))
        return note

    # ---- their results ---------------------------------------------------------------

    def news(self) -> list[str]:
        """Notes on what has ended or changed since the last call."""
        found, still = list[str](), list[PendingInput | RunningCommand | StartingOwner]()
        for action in self._open:
            note, over = self._look(action)
            found += [note] if note else []
            action.note = note or action.note
            still += [] if over else [action]
        self._open = still
        return found

    def _look(self, action: PendingInput | RunningCommand | StartingOwner) -> tuple[str, bool]:
        match action:
            case PendingInput():
                return self._left(action)
            case RunningCommand():
                return self._ended(action)
            case StartingOwner():
                return self._started(action)

    def _left(self, action: PendingInput) -> tuple[str, bool]:
        at = action.job
        lives = at.owned  # before the input is read: the owner may take it and end
        gone = action.owner is not None and action.owner.poll() is not None
        row = find_input(at.context.store, at.id, action.key)
        if row is not None and row.taken:
            if action.owner is not None:
                action.owner.returncode = action.owner.poll() or 0  # it goes on by itself
            became = handled(row)
            if action.asked is not None and isinstance(became, Late):
                return NotDone(_became(at, action.asked)), True
            if became is not None and became.in_vain:
                return NotDone(f"{at.id}: {became.words}"), True
            return action.done or f"{at.id}: {said_of(at.context.store, at.id, row)}", True
        if not lives:
            return (NotDone(f"kept, but {_failed_to_go_on(at)}"), True) if gone else self._unowned(action)
        if not action.told and time.monotonic() - action.since > BUSY_SECONDS:
            action.told = True
            return f"left for {at.id}; its owner is busy and will take it", False
        return "", False

    def _unowned(self, action: PendingInput) -> tuple[str, bool]:
        """What becomes of an input that no process takes: one is started for it, unless the user has paused the job."""
        at = action.job
        if action.owner is not None:
            return "", False
        if at.row.state in TERMINAL:
            return NotDone(f"{at.id} has ended"), True
        if at.present().paused:
            return f"kept for {at.id}, which is paused: {self._going_on}", True
        action.owner = at.context.go_on(at.id, ())
        return f"{at.id}: no process works on it; starting one", False

    def _ended(self, action: RunningCommand) -> tuple[str, bool]:
        try:  # it is read as it comes: a process whose output is not read would wait for ever
            out, err = action.process.communicate(timeout=READ_SECONDS)
        except subprocess.TimeoutExpired:
            return "", False
        self.ended += 1
        failed = action.process.returncode != 0
        said = [line for line in (err or out if failed else out).splitlines() if line.strip()]
        if not said:
            return NotDone(f"{action.job.id}: it ended without output"), True
        start, note = action.half
        undone = next((line for line in said if start and line.startswith(start)), "")
        if undone and not failed:
            return note.replace("{}", undone), True
        last = said[-1].removeprefix(PREFIX)
        if failed:
            return NotDone(last), True
        if action.starts:
            self.begun = JobContext(action.job.context, last)
        return action.done.replace("{}", last), True

    @staticmethod
    def _started(action: StartingOwner) -> tuple[str, bool]:
        process, at = action.process, action.job
        if at.owned:  # by that process, or by the attendant that it has given the job to
            process.returncode = process.poll() or 0  # it goes on by itself: this process does not wait for it
            return f"{at.id} goes on in the background", True
        if process.poll() is not None:
            return NotDone(f"{at.id} has ended" if at.row.state in TERMINAL else _failed_to_go_on(at)), True
        return "", False


def _in_name(at: JobContext) -> list[str]:
    """The option by which a command acts in the name of a person who is not the account that runs it."""
    return [f"--by={at.context.by}"] if at.context.guest else []


def _failed_to_go_on(at: JobContext) -> str:
    return f"{at.id} could not go on: {_last_line(at.context.files.home(at.id) / 'run.log')}"


def _became(at: JobContext, asked: Asked, earlier: InputRow | None = None) -> str:
    """Why a question was closed a moment ago."""
    found = answered(asked.job, asked.id, earlier) if earlier else fate(at.context.store, asked.job, asked.id)
    return f"too late: {found.words(moment)}" if found else "too late: the question was asked again meanwhile"


def _last_line(log: Path) -> str:
    """The last line of an ended process's log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            said = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        said = []
    return next((line.removeprefix(PREFIX) for line in reversed(said) if line.strip()), f"see {log}")
