"""When a job's threads could not go on, and why: waits for a provider, stalls, pauses, spent budgets, the human."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from msgspec import MsgspecError

from parley.base.json_codec import Unreadable
from parley.bus.rows import StepRow
from parley.engine.values import hold_causes
from parley.engine.values.hold_causes import Budget, Cause, Pause, Stall, Stuck, Wait
from parley.engine.values.step_names import place_of
from parley.protocol.bounds import STUCK
from parley.protocol.codec import decode_as
from parley.protocol.molecules import thread_kind

WAITS, STALLED, PAUSED, BUDGET, STUCK_KIND, ASKS = "waits", "stalled", "paused", "budget", "stuck", "asks"
RULES = frozenset(("hold", "release", "give-up", "escalate", "human-reply", "term-human", "term-final"))
_KINDS: Mapping[type[Cause], str] = MappingProxyType(
    {Wait: WAITS, Stall: STALLED, Pause: PAUSED, Budget: BUDGET, Stuck: STUCK_KIND}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTime:
    """A time in which a thread, or with the job's own thread the whole job, could not go on."""

    thread: str
    kind: str  # waits, stalled, paused, budget, stuck, asks
    began: float
    ended: float = 0.0  # 0: it still lasts
    words: str = ""
    question: str = ""  # that the human is asked


class HeldTimes:
    """Follows holds and questions to the human from step to step."""

    def __init__(self) -> None:
        self._over: list[HeldTime] = []
        self._open: dict[tuple[str, str], HeldTime] = {}  # by the thread, and the cause or the question

    def all(self) -> list[HeldTime]:
        """All of them, in the order in which they began."""
        return sorted((*self._over, *self._open.values()), key=lambda one: one.began)

    def read(self, step: StepRow) -> None:
        """Take in a step of one of RULES."""
        at = place_of(step)
        match step.rule:
            case "hold":
                self._begin(at.thread, decode_as(str, step.choice), step.time)
            case "release":
                self._end((at.thread, decode_as(str, step.choice)), step.time)
            case "give-up":
                for words in _briefs("Hold", step.produced):
                    self._begin(words[1], STUCK, step.time)
            case "escalate":
                for words in _briefs("AskHuman", step.produced):
                    asked = HeldTime(thread=words[2], kind=ASKS, began=step.time, question=words[1])
                    self._open["", words[1]] = asked
            case "human-reply" | "term-human":
                self._end(("", at.question), step.time)
            case _:  # the thread is gone, and its holds with it
                for key in [key for key in self._open if key[0] == at.thread]:
                    self._end(key, step.time)

    def _begin(self, thread: str, text: str, time: float) -> None:
        cause = _cause(text)
        kind = _KINDS[type(cause)]
        began = cause.since if isinstance(cause, Stall) and 0 < cause.since < time else time
        self._open[thread, text] = HeldTime(thread=thread, kind=kind, began=began, words=_words(cause, thread))

    def _end(self, key: tuple[str, str], time: float) -> None:
        if (one := self._open.pop(key, None)) is not None:
            self._over.append(replace(one, ended=time))


def _cause(text: str) -> Cause:
    """The cause that a hold's text says. Unreadable where another program has changed it."""
    try:
        return hold_causes.read(text)
    except MsgspecError as error:
        raise Unreadable(f"{text!a:.80} is no cause of a hold: {error}") from error


def _words(cause: Cause, thread: str) -> str:
    match cause:
        case Wait(reason=reason):
            return f"waits for its provider: {reason}" if reason else "waits for its provider"
        case Stall():
            return "showed no sign of life"
        case Budget(what=what, scope=scope):
            return f"{'the day' if scope == 'day' else 'the job'}'s budget of {what} was spent"
        case Stuck():
            return "lost its turn too often, and waited for the human's word"
        case _:
            return "was paused" if thread_kind(thread) == "job" else "was held"


def _briefs(kind: str, briefs: str) -> Iterator[list[str]]:
    """The words of the molecules of a kind that a row names."""
    for brief in briefs.split("\n"):
        words = brief.split(" ")
        if words[0] == kind and len(words) > 2:  # noqa: PLR2004 - a kind, and what it is found by
            yield words
