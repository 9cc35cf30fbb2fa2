"""The life of an intervention: asked for, put, delivered; or refused, cut short, left undelivered. From the bus alone.

Every face tells of an intervention by this module, so that all say the same. The words may change hands: what is meant
for the job goes from the orchestrator to a state's lead, and on to the next state's where that one is left first. Each
letter names the message that it comes from, and the last letter's life is the intervention's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from parley.bus.rows import InputRow, MessageRow, StepRow
from parley.bus.slots import number_of
from parley.bus.store import Store
from parley.engine.protocol_messages import excerpt
from parley.engine.values import human_inputs, message_meta
from parley.engine.values.human_inputs import InterveneInput, input_of, is_in_vain, note_words
from parley.engine.values.message_meta import Intervened, PassedOn
from parley.engine.values.step_names import NamedInterrupt, NamedRun, NamedTerminate, all_named, first_named, place_of
from parley.protocol.molecules import ORCHESTRATOR, Origin, thread_kind
from parley.views.job_view import moment

ASKED, REFUSED, WAITING = "asked", "refused", "waiting"
DELIVERED, CUT_SHORT, UNDELIVERED = "delivered", "cut short", "undelivered"
WORDS = 120  # characters of an intervention where it is only named
_ENDS = {
    Origin.CLOSE: "its conversation was closed",
    Origin.ACCEPT: "its conversation was closed",
    Origin.PHASE: "its state was left",
    Origin.BACKTRACK: "its state was left by a backtrack",
    Origin.WITHDRAWAL: "it was withdrawn",
    Origin.END: "the job ended",
}


@dataclass(frozen=True, slots=True)
class Intervention:
    """What a human said to a job while it worked, and what has become of it."""

    by: str
    time: float
    text: str
    now: bool
    authoritative: bool
    status: str  # asked, refused, waiting, delivered, cut short, undelivered
    agent: str = ""  # whom it waits for, or was meant for in the end
    thread: str = ""
    since: float = 0.0  # when that came about
    reason: str = ""  # why it is undelivered, cut short or refused
    number: int = 0  # of its input; 0 where only its letters are known
    message: str = ""  # the message that it is, once the job's owner has taken it

    @property
    def who(self) -> str:
        """Whom it is for, by name and thread."""
        return f"{self.agent} on {self.thread}" if self.agent else self.thread

    def words(self, clock: Callable[[float], str]) -> str:
        """What has become of it, in one line."""
        match self.status:
            case "asked":
                return "left for the job; no process has taken it yet"
            case "refused":
                return self.reason
            case "waiting":
                return f"left for {self.who}; not delivered yet"
            case "delivered":
                return f"delivered to {self.who} at {clock(self.since)}"
            case "cut short":
                return f"{self.who} had taken it up, but {self.reason} at {clock(self.since)}, before its turn was over"
            case _:
                return f"not delivered: {self.reason} at {clock(self.since)}, before {self.who} had taken it up"

    def document(self) -> dict[str, Any]:
        """The intervention as `--json` gives it."""
        return {
            "by": self.by,
            "time": self.time,
            "text": self.text,
            "now": self.now,
            "authoritative": self.authoritative,
            "status": self.status,
            "agent": self.agent or None,
            "thread": self.thread or None,
            "since": self.since or None,
            "reason": self.reason or None,
        }


def interventions(store: Store, job: str) -> list[Intervention]:
    """All that people have said to a job while it worked, in the order in which they said it."""
    lives = Lives(store, job)
    if any(row.taken and not is_in_vain(row) for row in _inputs(store, job)):
        for step in store.steps(job):
            lives.read(step)
    return with_lives(store, job, lives)


def with_lives(store: Store, job: str, lives: Lives) -> list[Intervention]:
    """The same, by what the job's steps have told of them so far."""
    put = {life.number: life for life in lives.all()}
    return [put.get(row.number) or _not_put(row) for row in _inputs(store, job)]


def _inputs(store: Store, job: str) -> list[InputRow]:
    return [row for row in store.inputs(job, waiting=False) if row.kind == InterveneInput.kind]


def undelivered(store: Store, job: str) -> list[Intervention]:
    """What was left undelivered, and the human has not spoken to the job since."""
    found = interventions(store, job)
    last = max((one.time for one in found if one.status != REFUSED), default=0.0)
    return [one for one in found if one.status == UNDELIVERED and one.since >= last]


def said_of(store: Store, job: str, taken: InputRow) -> str:
    """What is true now of an intervention that the job's owner has taken: what was noted then, unless more is known."""
    one = next((one for one in interventions(store, job) if one.number == taken.number), None)
    return note_words(taken) if one is None or one.status == WAITING else one.words(moment)


def _not_put(row: InputRow) -> Intervention:
    given = human_inputs.read_or_none(row)  # another program may have left it
    said = given if isinstance(given, InterveneInput) else InterveneInput(text="")
    status, reason = (REFUSED, note_words(row)) if row.taken else (ASKED, "")
    return Intervention(
        by=row.by,
        time=row.time,
        text=said.text,
        now=said.now,
        authoritative=said.authoritative,
        status=status,
        thread=said.thread,
        reason=reason,
        number=row.number,
    )


_RULES = ("intervene", "wake-int", "interrupt", "term-interrupt", "term-run", "recover", "give-up")


def matters(step: StepRow) -> bool:
    """Whether a step can change what becomes of an intervention, or says why a thread ends."""
    return step.rule in _RULES or first_named(NamedTerminate, step.produced) is not None


class Lives:
    """Follows a job's interventions from step to step; what is not about one is passed over."""

    def __init__(self, store: Store, job: str) -> None:
        self._store = store
        self._job = job
        self._found: dict[str, Intervention] = {}  # by the message that each began as
        self._letters: dict[str, str] = {}  # each letter's name, and the message that it comes from
        self._ends: dict[str, Origin] = {}  # why threads end

    def all(self) -> Iterable[Intervention]:
        """Every one that was put, as it stands now."""
        return self._found.values()

    def read(self, step: StepRow) -> Intervention | None:
        """Take in one step; the intervention that it has changed, if there is one."""
        for end in all_named(NamedTerminate, step.produced):
            self._ends.setdefault(end.thread, end.origin)
        match step.rule:
            case "intervene":
                return self._put(step)
            case "wake-int" | "interrupt":
                return self._taken_up(step)
            case "term-interrupt":
                return self._left(step)
            case "term-run":
                return self._cut(step, self._why(place_of(step).thread))
            case "recover" | "give-up":
                return self._lost(step)
            case _:
                return None

    def news(self, steps: Iterable[StepRow]) -> Iterator[tuple[StepRow, str]]:
        """What a log says of some steps: of each transaction what has become of an intervention in the end."""
        for _, group in groupby(steps, key=lambda step: step.transaction):
            before = dict(self._found)
            changed: dict[str, StepRow] = {}
            for step in group:
                if (one := self.read(step)) is not None:
                    changed[one.message] = step
            for name, step in changed.items():
                if words := _news(before.get(name), self._found[name]):
                    yield step, words

    def _put(self, step: StepRow) -> Intervention | None:
        """[intervene]: the words wait for an instance."""
        put = first_named(NamedInterrupt, step.produced)
        if put is None:
            return None
        row = self._store.message(self._job, number_of(put.message))
        return self._change(put.message, WAITING, row.agent, put.thread, step.time)

    def _taken_up(self, step: StepRow) -> Intervention | None:
        """[wake-int], [interrupt]: a turn begins with the words. What that cuts short may be another's."""
        cut = self._cut(step, "another intervention cut that turn short") if step.rule == "interrupt" else None
        at = place_of(step)
        if at.agent == ORCHESTRATOR:  # it passes them on in this very turn
            return None
        return self._change(at.message, DELIVERED, at.agent, at.thread, step.time) or cut

    def _left(self, step: StepRow) -> Intervention | None:
        """[term-interrupt]: the thread ends, and the words have reached no turn of it."""
        at = place_of(step)
        return self._change(at.message, UNDELIVERED, "", at.thread, step.time, self._why(at.thread))

    def _why(self, thread: str) -> str:
        origin = self._ends.get(thread)
        return _ENDS[origin] if origin is not None else "its thread ended"

    def _lost(self, step: StepRow) -> Intervention | None:
        """[recover] gives the words back, and so does [give-up] to a state's lead, which keeps its message."""
        name, at = _run(step.consumed), place_of(step)
        if name not in self._letters:
            return None
        if step.rule == "recover" or thread_kind(at.thread) == "state":
            return self._change(name, WAITING, at.agent, at.thread, step.time)
        return self._change(name, UNDELIVERED, at.agent, at.thread, step.time, "its turn was lost for the last time")

    def _cut(self, step: StepRow, why: str) -> Intervention | None:
        name = _run(step.consumed)
        if name not in self._letters or self._current(name).status != DELIVERED:
            return None
        return self._change(name, CUT_SHORT, "", "", step.time, why)

    def _current(self, letter: str) -> Intervention:
        return self._found[self._letters[letter]]

    def _change(
        self, letter: str, status: str, agent: str, thread: str, time: float, reason: str = ""
    ) -> Intervention | None:
        if letter not in self._letters and not self._know(letter):
            return None
        before = self._current(letter)
        agent, thread = agent or before.agent, thread or before.thread
        made = replace(before, status=status, agent=agent, thread=thread, since=time, reason=reason)
        self._found[self._letters[letter]] = made
        return made

    def _know(self, letter: str) -> bool:
        """Learn what a letter is; not every Interrupt is a human's word."""
        row = self._store.message(self._job, number_of(letter))
        match message_meta.read(row):
            case Intervened():
                origin = letter
            case PassedOn(origin=origin) if origin:
                pass
            case _:
                return False
        self._letters[letter] = origin
        if origin not in self._found:
            first = row if origin == letter else self._store.message(self._job, number_of(origin))
            self._found[origin] = _begun(first, origin)
        return True


def _begun(row: MessageRow, name: str) -> Intervention:
    how = message_meta.read_as(Intervened, row)
    return Intervention(
        by=how.by,
        time=row.time,
        text=how.text,
        now=how.now,
        authoritative=how.authoritative,
        status=WAITING,
        agent=row.agent,
        thread=row.thread,
        since=row.time,
        number=input_of(row.key) or 0,
        message=name,
    )


def _run(consumed: str) -> str:
    """The message of the Run that a step has taken away."""
    run = first_named(NamedRun, consumed)
    return run.message if run is not None else ""


# ---- in words --------------------------------------------------------------------------------------


def named(one: Intervention) -> str:
    """An intervention by its maker and its first words."""
    return f"{one.by}'s intervention {excerpt(one.text, WORDS)!r}"


def _news(before: Intervention | None, one: Intervention) -> str:
    """What a log says of a change; empty where there is nothing to tell."""
    if one.status == DELIVERED:
        return f"{named(one)} is delivered to {one.who}"
    if one.status == UNDELIVERED:
        return f"{named(one)} was left undelivered: {one.reason} before {one.who} had taken it up"
    if one.status == CUT_SHORT:
        return f"{named(one)}: {one.reason}, before {one.who} was through with it"
    if before is None:
        return ""  # its words stand in the log
    if before.status == DELIVERED:
        return f"{named(one)} waits again for {one.who}, whose turn was lost"
    if thread_kind(before.thread) == "state" and before.thread != one.thread:
        return f"{named(one)} goes on to {one.who}: {before.who} was left before it had taken it up"
    return ""
