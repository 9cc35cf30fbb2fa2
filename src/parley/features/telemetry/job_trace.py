"""A job's rows as spans and measurements. It reads committed rows alone: what it makes of them is always the same.

A span is made when the row comes that ends it. Of the rows' texts only names and numbers are taken: no message, no
reason, no fault, no path.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import MsgspecError, Struct

from parley.base.json_codec import Unreadable
from parley.bus.rows import JobRow, StepRow
from parley.engine.values import hold_causes, job_settings, step_extra
from parley.engine.values.hold_causes import Budget, Cause, Pause, Stall, Stuck, Wait
from parley.engine.values.step_extra import NOTHING, StepExtra
from parley.engine.values.step_names import (
    NamedParent,
    NamedRecord,
    NamedRun,
    all_named,
    first_named,
    place_of,
)
from parley.features.telemetry import vocabulary
from parley.features.telemetry.span_values import Measurement, SpanValue, Value, span_of, trace_of
from parley.features.telemetry.vocabulary import Names
from parley.ports.telemetry import SLOT, MidTurn
from parley.ports.turns import CLAUDE
from parley.protocol.codec import decode_as
from parley.protocol.molecules import job_thread
from parley.protocol.rule import Answer, Passage
from parley.protocol.states import LIVE, Action, State, is_backtrack
from parley.roles.role_snapshot import RoleSnapshot

ENDED, LOST, ABANDONED, TERMINATED = "ended", "lost", "abandoned", "terminated"
_HOW: Mapping[str, str] = MappingProxyType(
    {"recover": LOST, "give-up": LOST, "interrupt": ABANDONED, "term-run": TERMINATED}
)
_CAUSES: Mapping[type[Cause], str] = MappingProxyType(
    {
        Wait: vocabulary.PROVIDER,
        Stall: vocabulary.STALL,
        Pause: vocabulary.PAUSE,
        Budget: vocabulary.BUDGET,
        Stuck: vocabulary.STUCK,
    }
)
_DEEPEST = 1000  # threads above one another
_CACHED = (("cache_read_tokens", "cache_read"), ("cache_creation_tokens", "cache_creation"))


class _Crew(Struct, frozen=True):
    """What a job's settings say of who answers."""

    roles: tuple[RoleSnapshot, ...] = ()
    model: str = ""


class _Visit(Struct, frozen=True):
    """A state that a record is in."""

    state: State
    visit: int
    began: float
    epoch: int


class _OpenTurn(Struct, frozen=True):
    """An agent's turn that is under way."""

    agent: str
    thread: str
    began: float
    host: str
    epoch: int
    parent: int
    state: str
    visit: int


class _OpenWait(Struct, frozen=True):
    """A wait that lasts."""

    number: int  # of the step that it began with
    cause: str
    thread: str
    turn: str
    began: float
    parent: int


class JobTrace:
    """Follows one job from row to row. `spans` and `measured` are for the caller to take."""

    def __init__(self, row: JobRow, names: Names) -> None:
        """Unreadable if the job's settings can't be read."""
        self.job = row.job
        self.trace = trace_of(row)
        self.root = span_of(self.trace, "job")
        self.spans: list[SpanValue] = []
        self.measured: list[Measurement] = []
        self.state = ""  # of the job; empty: it has ended, or not begun
        self._created = row.created
        self._names = names
        self._runner = row.agent
        crew = job_settings.read(row, _Crew)
        self._model = crew.model
        self._roles = {role.name: role for role in crew.roles}
        self._visits: dict[str, _Visit] = {}  # by the record
        self._above: dict[str, str] = {}  # the thread that each was sparked from
        self._turns: dict[str, _OpenTurn] = {}
        self._waits: dict[tuple[str, str], _OpenWait] = {}  # by the thread and the cause, or by the question
        self._counts = {"visits": 0, "turns": 0, "backtracks": 0}
        self._micros = 0

    @property
    def working(self) -> int:
        """How many agents are at work."""
        return len(self._turns)

    # ---- reading -------------------------------------------------------------------------------

    def read(self, step: StepRow, epoch: int) -> None:
        """Take in the next step, which an owner of this epoch committed. Unreadable if it is not as rows are."""
        extra = step_extra.read(step.extra) if step.extra else NOTHING
        for role in extra.roles:
            self._roles[role.name] = role
        if "Parent " in step.produced:
            for parent in all_named(NamedParent, step.produced):
                self._above[parent.child] = parent.thread
        if "Record " in step.produced:
            self._pass(step, epoch)
        if "Run " in step.consumed or "Run " in step.produced:
            self._turn(step, extra, epoch)
        self._wait(step)
        if step.rule == "term-final":
            self._above.pop(place_of(step).thread, None)

    # ---- states --------------------------------------------------------------------------------

    def _pass(self, step: StepRow, epoch: int) -> None:
        for record in all_named(NamedRecord, step.produced):
            before = self._visits.get(record.id)
            if before is not None and (before.visit, before.state) == (record.visit, record.state):
                continue
            passes = step.rule in ("transition", "term-record")
            action = decode_as(Passage, step.choice).action if passes else None
            if before is not None:
                self._leave(record.id, before, step.time, action)
            if record.state in LIVE:
                self._visits[record.id] = _Visit(record.state, record.visit, step.time, epoch)
            if record.id == self.job:
                self._move(record, before, action, step.time)

    def _leave(self, record: str, before: _Visit, time: float, action: Action | None) -> None:
        del self._visits[record]
        own = record == self.job
        self._add(
            f"{vocabulary.STATE} {before.state}",
            ("visit", record, str(before.visit)),
            self.root if own else self._visit_span(self._above.get(record, "")),
            (before.began, time),
            {
                "parley.state": str(before.state),
                "parley.visit": before.visit,
                "parley.outcome": str(action or ""),
                "parley.subteam": not own,
                "parley.epoch": before.epoch,
            },
        )

    def _move(self, record: NamedRecord, before: _Visit | None, action: Action | None, time: float) -> None:
        """The job itself has come to another state."""
        live = record.state in LIVE
        self.state = str(record.state) if live else ""
        self._counts["visits"] += live
        if before is not None and action is not None and is_backtrack(before.state, action):
            self._counts["backtracks"] += 1
            self.measured.append(Measurement(vocabulary.BACKTRACKS, 1, {"parley.state": str(before.state)}))
        if live:
            return
        failed = record.state is State.FAILURE
        self._add(
            f"{vocabulary.JOB} job",
            ("job",),
            0,
            (self._created, time),
            {
                "gen_ai.operation.name": vocabulary.JOB,
                "gen_ai.workflow.name": "job",
                "parley.outcome": str(record.state),
                **{f"parley.{name}": count for name, count in self._counts.items()},
                "parley.cost_usd": self._micros / 1_000_000,
                **({"error.type": "FAILURE"} if failed else {}),
            },
            failed=failed,
        )

    # ---- turns ---------------------------------------------------------------------------------

    def _turn(self, step: StepRow, extra: StepExtra, epoch: int) -> None:
        """A turn begins, ends or is lost. Turns of our own code take no time and are left out: no host runs them."""
        for run in all_named(NamedRun, step.consumed):
            open_turn = self._turns.pop(run.turn, None)
            if open_turn is not None:
                self._end(step, run.turn, open_turn, extra if step.rule != "interrupt" else NOTHING)
        begun = first_named(NamedRun, step.produced) if extra.host else None
        if begun is not None:
            visit = self._enclosing(begun.thread)
            here = self._visits.get(visit)
            self._counts["turns"] += 1
            self._turns[begun.turn] = _OpenTurn(
                agent=begun.agent,
                thread=begun.thread,
                began=step.time,
                host=extra.host,
                epoch=epoch,
                parent=self._visit_span(begun.thread),
                state=str(here.state) if here is not None else "",
                visit=here.visit if here is not None else 0,
            )

    def _end(self, step: StepRow, turn: str, begun: _OpenTurn, extra: StepExtra) -> None:
        how, role = _HOW.get(step.rule, ENDED), self._roles.get(begun.agent)
        runner = role.runner if role is not None and role.runner else self._runner
        asked = role.model if role is not None and role.model not in ("", "inherit") else self._model
        agent, name = self._names, self._names.name(begun.agent)
        usage = {key: _whole(value) for key, value in extra.usage.items() if key != "cost_usd"}
        cost = max(0.0, extra.usage.get("cost_usd", 0.0))
        common: dict[str, Value] = {
            "gen_ai.operation.name": vocabulary.TURN,
            "gen_ai.provider.name": "anthropic" if runner == CLAUDE else agent.name(runner),
            "gen_ai.agent.name": name,
        }
        attributes: dict[str, Value] = {
            **common,
            "gen_ai.agent.id": f"{name}@{self.job}/{begun.thread}",
            "gen_ai.conversation.id": f"{self.job}/{begun.thread}",
            "parley.turn.id": turn,
            "parley.thread": begun.thread,
            "parley.parent_thread": self._above.get(begun.thread, ""),
            "parley.state": begun.state,
            "parley.visit": begun.visit,
            "parley.host": agent.name(begun.host),
            "parley.epoch": begun.epoch,
            "parley.outcome": how,
            "parley.refused_calls": len(extra.refused),
        }
        if asked:
            attributes["gen_ai.request.model"] = agent.model(asked)
        if extra.model:
            attributes["gen_ai.response.model"] = common["gen_ai.response.model"] = agent.model(extra.model)
        tokens = _tokens(usage)
        attributes |= {f"gen_ai.usage.{key}_tokens": amount for key, amount in tokens.items()}
        for key, said in _CACHED:
            if key in usage:
                attributes[f"gen_ai.usage.{said}.input_tokens"] = usage[key]
        if "cost_usd" in extra.usage:
            attributes["parley.cost_usd"] = cost
            self._micros += int(cost * 1_000_000 + 0.5)
            self.measured.append(Measurement(vocabulary.COST, cost, {"gen_ai.agent.name": name}))
        if how == LOST:
            attributes["error.type"] = _lost_by(step, extra)
            self.measured.append(Measurement(vocabulary.CRASHES, 1, {"parley.crash.cause": _lost_by(step, extra)}))
        times = (begun.began, step.time)
        self._add(f"{vocabulary.TURN} {name}", ("turn", turn), begun.parent, times, attributes, failed=how == LOST)
        self.measured += [
            Measurement(vocabulary.TOKENS, amount, {**common, "gen_ai.token.type": key})
            for key, amount in tokens.items()
        ]
        self.measured.append(Measurement(vocabulary.DURATION, max(0.0, step.time - begun.began), common))
        self.measured.append(Measurement(vocabulary.TURNS, 1, {"gen_ai.agent.name": name, "parley.outcome": how}))

    # ---- within a turn -------------------------------------------------------------------------

    def take(self, event: MidTurn) -> None:
        """Take in something within a turn, of which there is no row."""
        parent = span_of(self.trace, "turn", event.turn)
        key = ("mid-turn", str(event.epoch), event.turn, str(event.number))
        times = (event.began, event.ended)
        if event.kind == SLOT:
            self._waited(vocabulary.SLOT, key, parent, times, {"parley.turn.id": event.turn})
            return
        tool, bad = self._names.name(event.name), event.outcome in ("failed", "refused")
        common: dict[str, Value] = {
            "gen_ai.operation.name": vocabulary.TOOL_USE,
            "gen_ai.tool.name": tool,
            "gen_ai.agent.name": self._names.name(event.agent),
        }
        attributes: dict[str, Value] = {
            **common,
            "gen_ai.tool.type": "function" if event.own else "extension",
            "parley.turn.id": event.turn,
            "parley.outcome": event.outcome,
            **({"error.type": event.outcome} if bad else {}),
        }
        self._add(f"{vocabulary.TOOL_USE} {tool}", key, parent, times, attributes, failed=event.outcome == "failed")
        self.measured.append(Measurement(vocabulary.DURATION, max(0.0, event.ended - event.began), common))

    # ---- waits ---------------------------------------------------------------------------------

    def _wait(self, step: StepRow) -> None:
        match step.rule:
            case "hold":
                self._hold(step, place_of(step).thread, decode_as(str, step.choice))
            case "release":
                self._go_on((place_of(step).thread, decode_as(str, step.choice)), step.time)
            case "give-up":
                for words in _briefs("Hold", step.produced):
                    self._hold(step, words[1], hold_causes.Stuck().text)
            case "escalate":
                for words in _briefs("AskHuman", step.produced):
                    self.measured.append(Measurement(vocabulary.QUESTIONS, 1))
                    self._begin_wait(step, vocabulary.HUMAN, ("", words[1]), thread=words[2])
            case "human-reply":
                ruling = decode_as(Answer, step.choice).ruling
                self._go_on(("", place_of(step).question), step.time, str(ruling) if ruling is not None else "answer")
            case "term-human":
                self._go_on(("", place_of(step).question), step.time)
            case "term-final":
                gone = place_of(step).thread
                for key in [key for key in self._waits if key[0] == gone]:
                    self._go_on(key, step.time)
            case _:
                pass

    def _hold(self, step: StepRow, thread: str, text: str) -> None:
        try:
            cause = hold_causes.read(text)
        except MsgspecError as error:
            raise Unreadable(f"a hold of step {step.number} has no cause that is known") from error
        turn = cause.turn if isinstance(cause, Wait | Stall) else ""
        self._begin_wait(step, _CAUSES[type(cause)], (thread, text), thread=thread, turn=turn)

    def _begin_wait(self, step: StepRow, cause: str, key: tuple[str, str], *, thread: str, turn: str = "") -> None:
        if turn:
            parent = span_of(self.trace, "turn", turn)
        else:
            parent = self.root if thread == job_thread(self.job) else self._visit_span(thread)
        self._waits[key] = _OpenWait(
            number=step.number, cause=cause, thread=thread, turn=turn, began=step.time, parent=parent
        )

    def _go_on(self, key: tuple[str, str], time: float, verdict: str = "") -> None:
        one = self._waits.pop(key, None)
        if one is None:
            return
        attributes: dict[str, Value] = {"parley.thread": one.thread}
        if one.turn:
            attributes["parley.turn.id"] = one.turn
        if verdict:
            attributes["parley.verdict"] = verdict
        self._waited(one.cause, ("wait", str(one.number), key[1]), one.parent, (one.began, time), attributes)

    def _waited(
        self,
        cause: str,
        key: tuple[str, ...],
        parent: int,
        times: tuple[float, float],
        attributes: Mapping[str, Value],
    ) -> None:
        said = {"parley.wait.cause": cause}
        self._add(f"{vocabulary.WAIT} {cause}", key, parent, times, {**attributes, **said})
        self.measured.append(Measurement(vocabulary.WAITED, max(0.0, times[1] - times[0]), said))

    # ---- where things belong -------------------------------------------------------------------

    def _enclosing(self, thread: str) -> str:
        """The record whose state a thread works for: the nearest subteam's above it, else the job's."""
        for _ in range(_DEEPEST):
            if thread in self._visits or not thread:
                break
            thread = self._above.get(thread, "")
        return thread or self.job

    def _visit_span(self, thread: str) -> int:
        """The span of the state that a thread works for; the job's where there is none."""
        record = self._enclosing(thread)
        here = self._visits.get(record)
        return span_of(self.trace, "visit", record, str(here.visit)) if here is not None else self.root

    def _add(
        self,
        name: str,
        key: tuple[str, ...],
        parent: int,
        times: tuple[float, float],
        attributes: Mapping[str, Value],
        *,
        failed: bool = False,
    ) -> None:
        began, ended = times
        self.spans.append(
            SpanValue(
                trace=self.trace,
                id=self.root if key == ("job",) else span_of(self.trace, *key),
                parent=parent,
                name=name,
                began=began,
                ended=max(began, ended),  # a clock may be set back
                attributes={"parley.job.id": self.job, **attributes},
                failed=failed,
            )
        )


def _tokens(usage: Mapping[str, int]) -> dict[str, int]:
    """Tokens by what they are: by the conventions those that came from a cache are input too."""
    found: dict[str, int] = {}
    if "input_tokens" in usage:
        found["input"] = usage["input_tokens"] + sum(usage.get(key, 0) for key, _ in _CACHED)
    if "output_tokens" in usage:
        found["output"] = usage["output_tokens"]
    return found


def _whole(amount: float) -> int:
    """An amount that fits into what OTLP has for whole numbers."""
    return max(0, min(int(amount), 1 << 53))


def _lost_by(step: StepRow, extra: StepExtra) -> str:
    """What a turn was lost to: its agent; its owner, which died; else its provider's limit, or a missing boundary."""
    if step.rule == "give-up" or decode_as(str, step.choice) != "engine":
        return "agent"
    return "runner" if extra.turn else "owner"


def _briefs(kind: str, briefs: str) -> list[list[str]]:
    """The words of the molecules of a kind that a row names."""
    found = (brief.split(" ") for brief in briefs.split("\n"))
    return [words for words in found if words[0] == kind and len(words) > 2]  # noqa: PLR2004 - a kind and two names
