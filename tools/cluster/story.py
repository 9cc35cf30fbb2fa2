"""What a user sees of a job on hosts while it runs, and what is told of it afterwards: all of it from its record."""

from __future__ import annotations

import textwrap
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from parley.base.text import printable
from parley.base.wording import count
from parley.bus.store import Store
from parley.engine.values import step_extra
from parley.hosts.board import HostRow
from parley.protocol.molecules import HUMAN
from parley.views.history.chronicle import Follower, headline
from parley.views.history.turn_history import ENDED, LOST, RULES, TERMINATED, TurnHistory, TurnSpan

WIDTH = 80
TEXT_WIDTH = WIDTH - len("00:00:00  ")
ENDS = {ENDED: "", LOST: "lost", TERMINATED: "ended: it showed no sign of life"}


@dataclass(frozen=True)
class Ran:
    """A turn that is over, and the host that it ran on."""

    span: TurnSpan
    host: str


class Story:
    """A view of a job: prints each turn when it is over, what the human answers, and each change of state."""

    def __init__(self, store: Store, job: str) -> None:
        self._store, self._job = store, job
        self._follower = Follower(store, job)
        self._history = TurnHistory()
        self._step = 0
        self.ran: list[Ran] = []

    def show(self) -> None:
        """Print what is new."""
        lines = [(event.time, headline(event, TEXT_WIDTH)) for event in self._follower.read()
                 if event.kind == "transition" or event.who == HUMAN]  # fmt: skip
        for ran in self._turns():
            how = ENDS.get(ran.span.how, ran.span.how)
            lines.append((ran.span.ended, f"{ran.host:<4} {ran.span.agent}{f', {how}' if how else ''}"))
            self.ran.append(ran)
        for moment, line in sorted(lines, key=lambda one: one[0]):
            say(line, moment)

    def _turns(self) -> list[Ran]:
        """The turns that are over since the last look."""
        found: list[Ran] = []
        for step in self._store.steps(self._job, self._step):
            self._step = step.number
            if step.rule not in RULES:
                continue
            left = step_extra.read(step.extra)
            self._history.read(step)
            self._history.note(step, left)
            span = self._history.get(left.turn) if left.turn else None
            if span is not None and left.host and span.ended:
                found.append(Ran(span, left.host))
        return found

    def last_lost(self, host: str) -> Ran | None:
        """The turn that was lost with a host."""
        return next((ran for ran in reversed(self.ran) if ran.host == host and ran.span.how == LOST), None)

    def taken_over(self, lost: Ran) -> Ran | None:
        """The turn that did what a lost one had to."""
        later = (ran for ran in self.ran if ran.span.began >= lost.span.ended)
        same = (lost.span.agent, lost.span.thread)
        return next((ran for ran in later if (ran.span.agent, ran.span.thread) == same), None)


def say(text: str, moment: float | None = None) -> None:
    """Print a line of what happens, with its time."""
    at = time.strftime("%H:%M:%S", time.localtime(moment))
    print(f"{at}  {printable(text)[:TEXT_WIDTH]}", flush=True)


def by_host(ran: Sequence[Ran]) -> list[str]:
    """How many turns of whom ran where."""
    lines: list[str] = []
    for host in sorted({one.host for one in ran}):
        done = [one.span.agent for one in ran if one.host == host and one.span.how != LOST]
        lost = [one.span.agent for one in ran if one.host == host and one.span.how == LOST]
        said = ", ".join(f"{agent} {number}" if number > 1 else agent for agent, number in Counter(done).most_common())
        more = f"; lost: {', '.join(lost)}" if lost else ""
        lines += wrapped(f"{host:<5}{count(len(done), 'turn')}: {said}{more}", "       ")
    return lines


def host_line(host: HostRow) -> str:
    """How a host stands."""
    state = "alive" if host.lives else f"lost: no sign of life for {host.seen_seconds:.0f} s"
    return f"{host.name:<5}{state}; {count(host.slots, 'slot')}; boundary: {host.boundary.split(',')[0]}"


def wrapped(text: str, indent: str = "  ") -> list[str]:
    """A paragraph below a heading; `indent`: of all its lines but the first."""
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent=indent, break_long_words=False)
