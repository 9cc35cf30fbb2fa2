"""What the human asks of jobs from here, and what has become of it. All goes through the bus, as from everywhere."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from parley.engine.fate import answered, fate
from parley.engine.interventions import said_of
from parley.engine.projections import TERMINAL, Asked, moment
from parley.engine.records import LATE, REFUSED
from parley.engine.session import Closed, NotDecider, Unchosen, Wordless, find_input, give_answer, leave
from parley.faces.terminal.questions import Choice
from parley.faces.terminal.sight import Sight
from parley.ports import InputRow

BUSY_SECONDS = 5.0


@dataclass(slots=True)
class Left:
    """An input that nobody has taken yet."""

    job: str
    key: str
    done: str  # what to say when it was taken
    since: float
    asked: Asked | None = None  # the question, where it is an answer
    told: bool = False
    note: str = ""  # what is said of it until it was taken


@dataclass(slots=True)
class Running:
    """A command that is under way."""

    job: str
    process: subprocess.Popen[str]
    note: str


@dataclass(slots=True)
class Starting:
    """A process that is to work on a job from now on."""

    job: str
    process: subprocess.Popen[bytes]
    note: str


class Deeds:
    """Leaves inputs, and follows them."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._open: list[Left | Running | Starting] = []
        self._count = 0

    @property
    def pending(self) -> list[str]:
        """What is said of each that has not come to its end."""
        return [deed.note for deed in self._open]

    # ---- what can be asked -------------------------------------------------------------------

    def answer(self, asked: Asked, choice: Choice, text: str) -> str:
        """The human's word on a question."""
        if choice.ruling is None and choice.option is None and not text:
            return "an answer needs words"
        try:
            key = give_answer(self._sight.store, asked, choice.ruling, text, self._sight.by, choice.option)
        except (NotDecider, Unchosen, Wordless) as refused:
            return str(refused)
        except Closed as closed:
            return self._became(asked, closed.earlier)
        chosen = choice.ruling or choice.option or asked.menu.words
        said = f"{asked.job}: answered{f', {chosen}' if chosen else ''}"
        note = f"{asked.job}: answering"
        self._open.append(Left(asked.job, key, said, time.monotonic(), asked, note=note))
        return note

    def _became(self, asked: Asked, earlier: InputRow | None = None) -> str:
        """Why a question that was open a moment ago is not any more."""
        found = answered(asked.job, asked.id, earlier) if earlier else fate(self._sight.store, asked.job, asked.id)
        return f"too late: {found.words(moment)}" if found else "too late: the question was put anew meanwhile"

    def tell(self, job: str, thread: str, text: str, *, now: bool, authoritative: bool) -> str:
        """An intervention."""
        if not text:
            return "there is nothing to say"
        body = {"thread": thread or None, "text": text, "now": now, "authoritative": authoritative}
        return self._leave(job, "intervene", body, "", f"{job}: telling")

    def pause(self, job: str) -> str:
        """Let turns under way end, and start no others."""
        if not self._sight.store.owner_lives(job):
            return self._run(job, ["pause", job], f"{job}: pausing")
        return self._leave(job, "pause", {}, f"{job} is paused: z goes on", f"{job}: pausing")

    def go_on(self, job: str, *, paused: bool) -> str:
        """End a pause; where nobody works on the job, have somebody do so."""
        if paused and self._sight.store.owner_lives(job):
            return self._leave(job, "resume", {}, f"{job} goes on", f"{job}: going on")
        return self._start(job)

    def raise_budget(self, job: str, words: str) -> str:
        """Allow more, as `--budget` says it, and go on."""
        if not words:
            return "nothing was raised"
        if self._sight.store.owner_lives(job):
            return self._run(job, ["resume", f"--budget={words}", "--", job], f"{job}: raising its budget")
        return self._start(job, f"--budget={words}")

    def withdraw(self, job: str, thread: str, reason: str) -> str:
        """Give a job up, or a part of it: told when every process of it is dead."""
        which = ["--thread", thread] if thread else []
        return self._run(job, ["withdraw", *which, "--", job, reason], f"{thread or job}: withdrawing")

    def _leave(self, job: str, kind: str, body: Mapping[str, object], done: str, note: str) -> str:
        self._count += 1
        key = f"{kind}:{self._sight.by}:{time.time_ns()}:{self._count}"
        leave(self._sight.store, job, kind, key, body=body, by=self._sight.by)
        self._open.append(Left(job, key, done, time.monotonic(), note=note))
        return note

    def _run(self, job: str, words: list[str], note: str) -> str:
        self._open.append(Running(job, self._sight.command(words), note))
        return note

    def _start(self, job: str, *more: str) -> str:
        note = f"{job}: starting a process that works on it"
        self._open.append(Starting(job, self._sight.go_on(job, more), note))
        return note

    # ---- what has become of it ---------------------------------------------------------------

    def news(self) -> list[str]:
        """What has come to its end since the last call, or is said of it from now on."""
        found, still = list[str](), list[Left | Running | Starting]()
        for deed in self._open:
            note, over = self._look(deed)
            found += [note] if note else []
            deed.note = note or deed.note
            still += [] if over else [deed]
        self._open = still
        return found

    def _look(self, deed: Left | Running | Starting) -> tuple[str, bool]:
        match deed:
            case Left():
                return self._left(deed)
            case Running():
                return _ended(deed)
            case Starting():
                return self._started(deed)

    def _left(self, deed: Left) -> tuple[str, bool]:
        store, job = self._sight.store, deed.job
        lives = store.owner_lives(job)  # before the input is looked at: taking it may be its last deed
        row = find_input(store, job, deed.key)
        if row is not None and row.taken:
            if deed.asked is not None and row.note.startswith(LATE):
                return self._became(deed.asked), True
            if row.note.startswith((LATE, REFUSED)):
                return f"{job}: {row.note}", True
            return deed.done or f"{job}: {said_of(store, job, row)}", True
        if not lives:
            return f"kept for {job}, but nobody works on it: z goes on", True
        if not deed.told and time.monotonic() - deed.since > BUSY_SECONDS:
            deed.told = True
            return f"left for {job}; whoever works on it is busy and will take it", False
        return "", False

    def _started(self, deed: Starting) -> tuple[str, bool]:
        process = deed.process
        if process.poll() is not None:
            if self._sight.store.load(deed.job).row.state in TERMINAL:
                return f"{deed.job} has ended", True
            return f"{deed.job} could not go on: {_last_line(self._sight.files.home(deed.job) / 'run.log')}", True
        if self._sight.store.owner_lives(deed.job):
            process.returncode = 0  # it goes on by itself: nobody here waits for it
            return f"{deed.job} goes on in the background", True
        return "", False


def _last_line(log: Path) -> str:
    """What a process that is gone has said last."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            said = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        said = []
    return next((line.removeprefix("parley: ") for line in reversed(said) if line.strip()), f"see {log}")


def _ended(deed: Running) -> tuple[str, bool]:
    if deed.process.poll() is None:
        return "", False
    out, err = deed.process.communicate()
    said = [line for line in (out if deed.process.returncode == 0 else err or out).splitlines() if line.strip()]
    return (said[-1].removeprefix("parley: ") if said else f"{deed.job}: it ended without a word"), True
