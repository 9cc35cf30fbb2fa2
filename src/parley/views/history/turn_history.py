"""Every turn that a job has had: who worked when, what woke it, how it ended, and what it used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from parley.bus.rows import StepRow, TurnRow
from parley.engine.values.step_extra import StepExtra
from parley.engine.values.step_names import NamedRun, first_named

OUT, ENDED, LOST, ABANDONED, TERMINATED = "", "ended", "lost", "abandoned", "terminated"
STARTS = ("wake", "wake-int", "interrupt")  # the rules that put a turn out
_ENDS: Mapping[str, str] = MappingProxyType(
    {
        "send-step": ENDED,
        "nosend-step": ENDED,
        "ask-step": ENDED,
        "recover": LOST,
        "give-up": LOST,
        "interrupt": ABANDONED,
        "term-run": TERMINATED,
    }
)
RULES = frozenset((*STARTS, *_ENDS))


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSpan:
    """One turn. `ended` is 0 while it is out; where only its outbox row was read, also once it is over."""

    turn: str
    agent: str
    thread: str
    message: str  # that woke it
    began: float
    ended: float = 0.0
    how: str = OUT  # ended, lost, abandoned (an intervention cut it short), terminated (its thread ended); empty: out
    fault: str = ""  # of a lost one: why
    usage: Mapping[str, float] = field(default_factory=dict)
    model: str = ""  # that answered, where that is told
    host: str = ""  # where it ran, if that was another host


class TurnHistory:
    """Follows a job's turns from step to step."""

    def __init__(self) -> None:
        self._spans: dict[str, TurnSpan] = {}
        self._threads: dict[str, list[str]] = {}

    def read(self, step: StepRow) -> None:
        """Take in a step of one of RULES."""
        how = _ENDS.get(step.rule)
        run = first_named(NamedRun, step.consumed) if how is not None else None
        if run is not None and how is not None and (span := self._spans.get(run.turn)) is not None:
            self._spans[run.turn] = replace(span, ended=step.time, how=how)
        begun = first_named(NamedRun, step.produced) if step.rule in STARTS else None
        if begun is not None:
            self._spans[begun.turn] = TurnSpan(
                turn=begun.turn, agent=begun.agent, thread=begun.thread, message=begun.message, began=step.time
            )
            self._threads.setdefault(begun.thread, []).append(begun.turn)

    def note(self, step: StepRow, left: StepExtra) -> None:
        """Take in what a step says of the turn that it ended."""
        host = left.ran_on(step.rule)
        if not (left.usage or left.model or left.fault or host):
            return
        run = None if left.turn else first_named(NamedRun, step.consumed)
        span = self._spans.get(left.turn or (run.turn if run is not None else ""))
        if span is not None:
            usage = left.usage or span.usage
            self._spans[span.turn] = replace(
                span,
                usage=usage,
                model=left.model or span.model,
                fault=left.fault or span.fault,
                host=host or span.host,
            )

    def get(self, turn: str) -> TurnSpan | None:
        """One turn."""
        return self._spans.get(turn)

    def of(self, thread: str = "") -> list[TurnSpan]:
        """The turns on a thread, or all, in the order in which they began."""
        if not thread:
            return list(self._spans.values())
        return [self._spans[turn] for turn in self._threads.get(thread, ())]


def from_outbox(rows: Iterable[TurnRow], thread: str = "") -> list[TurnSpan]:
    """The turns on a thread, or all, from the outbox alone: quick, but when they ended is not known."""
    how = {"submitted": OUT, "lost": LOST}
    return [
        TurnSpan(
            turn=row.turn,
            agent=row.agent,
            thread=row.thread,
            message=row.message,
            began=row.started,
            how=how.get(row.status, ENDED),
        )
        for row in rows
        if thread in ("", row.thread)
    ]
