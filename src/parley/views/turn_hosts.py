"""On which hosts a job's turns ran that are over, and which of these hosts were lost, as the record has it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from parley.bus.rows import InputRow, StepRow
from parley.bus.store import Store
from parley.engine.values.human_inputs import HostLostInput, read_or_none
from parley.engine.values.step_extra import StepExtra
from parley.engine.values.step_names import NamedRun, first_named, place_of


@dataclass(frozen=True, slots=True)
class TurnHosts:
    """Follows a job's steps. A turn that ran on the machine of the job's owner counts on no host."""

    turns: dict[str, int] = field(default_factory=dict)  # how many ran on each host
    last: dict[str, str] = field(default_factory=dict)  # where the last of them ran, by thread

    def note(self, step: StepRow, left: StepExtra) -> None:
        """Take in what a step says of the turn that it ended."""
        host = left.ran_on(step.rule)
        if not host:
            return
        run = first_named(NamedRun, step.consumed)
        self.turns[host] = self.turns.get(host, 0) + 1
        self.last[run.thread if run is not None else place_of(step).thread] = host

    def words(self) -> str:
        """How many turns ran on each, the host of most first."""
        ordered = sorted(self.turns.items(), key=lambda one: (-one[1], one[0]))
        return ", ".join(f"{host} {count}" for host, count in ordered)


@dataclass(frozen=True, slots=True)
class LostHost:
    """A host that was lost before a turn could be ended there."""

    number: int  # of the input that says so
    time: float
    given: HostLostInput

    @property
    def words(self) -> str:
        """The same in one line."""
        return self.given.words

    def document(self) -> dict[str, Any]:
        """The same as `--json` gives it."""
        given = self.given
        return {
            "time": self.time,
            "host": given.host,
            "turn": given.turn,
            "agent": given.agent,
            "thread": given.thread,
            "why": given.why,
        }


def lost_hosts(store: Store, job: str, after: int = 0) -> list[LostHost]:
    """The hosts that were lost before turns of a job could be ended there, told by inputs after a number."""
    return [
        found for row in store.inputs(job, waiting=False) if row.number > after and (found := lost_host(store, row))
    ]


def lost_host(store: Store, row: InputRow) -> LostHost | None:
    """What an input says of a lost host; None: nothing, or another program wrote it."""
    given = read_or_none(row) if row.kind == HostLostInput.kind else None
    if not isinstance(given, HostLostInput) or store.authentic(row) is False:
        return None
    return LostHost(row.number, row.time, given)
