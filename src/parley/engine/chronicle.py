"""The log of a job: its messages, and what the protocol did, in the order in which it happened."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from parley.core.terms import HUMAN, ORCHESTRATOR, PROXY, Hold, thread_kind
from parley.engine import unfinished
from parley.engine.budgets import Line, is_spent, name_of
from parley.engine.holds import Wait, wait_of
from parley.engine.interventions import Lives, matters
from parley.engine.projections import TERMINAL, Abandoned, abandoned_by, moment
from parley.engine.signs import is_stall, since
from parley.engine.texts import excerpt
from parley.ports import MessageRow, StepRow, Store
from parley.workflow.terms import EXECUTOR
from parley.workflow.words import held_back


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a job's log: a message, or something that the protocol did."""

    time: float
    kind: str  # `message`, or the name of a rule: transition, hold, recover, …
    who: str
    to: str
    thread: str
    sender_thread: str
    text: str
    number: int
    about: dict[str, Any]

    @property
    def by(self) -> str:
        """Who it was where the human spoke: an account, or whoever stood in."""
        said = self.about if "ruling" in self.about else self.about.get("intervene", {})
        return str(said.get("by", "")) if self.who == HUMAN and isinstance(said, dict) else ""

    def document(self) -> dict[str, Any]:
        """The event as `--json` gives it."""
        return {
            "time": self.time,
            "kind": self.kind,
            "from": self.who,
            "by": self.by or None,
            "to": self.to or None,
            "thread": self.thread,
            "number": self.number,
            "text": self.text,
            "message": self.about.get("message_kind"),
            "files": [one[0] for one in self.about.get("files", ())] or None,
            "waits": self.about.get("waits"),
            "unfinished": self.about.get(unfinished.KEY) if self.kind != "message" else None,
        }


_GIVEN_UP = {  # what comes of an instance that lost its turn for the last time
    "state": "the orchestrator decides whether it is tried again",
    "dispatch": "it is given up, and its dispatcher is told",
    "escalation": "it is given up, and the question goes on without it",
}
_TOLD = ("transition", "term-record", "hold", "release", "recover", "give-up", "withdraw", "interrupt", "dead-letter")


class Follower:
    """Reads a job's log on and on: each call gives what was added since the last."""

    def __init__(self, store: Store, job: str, *, step: int = 0, message: int = 0) -> None:
        self.store = store
        self.job = job
        self.step = step
        self.message = message
        self._lives = Lives(store, job)

    def read(self) -> list[Event]:
        """What is new, in the order in which it happened."""
        found: list[tuple[int, float, int, Event]] = []
        # Steps first: a message that is committed between the two reads is then simply read, never missed.
        lived: list[StepRow] = []
        for step in self.store.steps(self.job, self.step):
            self.step = step.number
            if matters(step):
                lived.append(step)
            if step.rule in _TOLD and not _is_errand(step):
                event = _step_event(step)
                if step.rule == "interrupt":
                    event = _interrupted(event, abandoned_by(self.store, self.job, step))
                found.append((step.transaction, step.time, 0, event))
            beside = (*_refusals(step), *_notices(step), *_held_back(step), *_left(step))
            found.extend((step.transaction, step.time, 0, event) for event in beside)
        for step, words in self._lives.news(lived):
            found.append((step.transaction, step.time, 2, _news_event(step, words)))
        for row in self.store.messages(self.job, self.message):
            self.message = row.number
            found.append((row.transaction, row.time, 1, _message_event(row)))
        found.sort(key=lambda entry: entry[:3])
        return [event for *_, event in found]


def _is_errand(step: StepRow) -> bool:
    """Whether a step of a kind that is told says nothing new."""
    if step.rule == "term-record":
        return _states(step)[1] not in TERMINAL  # one of several on the way to its end
    return (step.rule == "withdraw" and step.who != HUMAN) or _waits_on(step)


def _message_event(row: MessageRow) -> Event:
    about: dict[str, Any] = json.loads(row.meta) if row.meta else {}
    about["message_kind"] = row.kind
    return Event(row.time, "message", row.sender, row.agent, row.thread, row.sender_thread, row.body, row.number, about)


def _step_event(step: StepRow) -> Event:
    thread = step.at.rpartition(" ")[2]
    text, who, about = step.rule, step.who, dict[str, Any]()
    if step.rule in ("transition", "term-record"):
        action, actor, _, reason, *_ = json.loads(step.choice)["Passage"]
        before, after = _states(step)
        whose = f"{step.at}: " if thread_kind(step.at) == "dispatch" else ""  # a subteam's record, not the job's
        text, who = f"{whose}{before} -> {after} ({action}){f': {reason}' if reason else ''}", actor
        about = {"action": action, "from": before, "to": after, "reason": reason, "record": step.at}
        thread = step.at
    elif step.rule in ("hold", "release"):
        cause = json.loads(step.choice) if step.choice else ""
        if is_stall(Hold(thread, cause)):
            return _stall_event(step, thread, since(Hold(thread, cause)))
        if (wait := wait_of(cause)) is not None:
            return _wait_event(step, thread, wait)
        whose = f"{thread} " if thread_kind(thread) != "job" else ""
        waits = "waits for your word" if whose else "paused"
        text = f"{whose}goes on" if step.rule == "release" else f"{whose}{waits}"
        if is_spent(Hold(thread, cause)):
            text, about = _budget_words(Hold(thread, cause), released=step.rule == "release"), {"budget": cause}
    elif step.rule in ("recover", "give-up"):
        fault = json.loads(step.extra).get("fault", "") if step.extra else "the process that ran it is gone"
        agent = step.at.partition(" ")[0]
        thread = step.at.split(" ")[1]
        next_ = "it is tried again" if step.rule == "recover" else _GIVEN_UP.get(thread_kind(thread), "it is given up")
        text = f"{agent} lost its turn ({fault}); {next_}"
    elif step.rule == "withdraw":
        text = f"{thread} is withdrawn"
    elif step.rule == "interrupt":
        text = f"{step.at.partition(' ')[0]} is interrupted"
        thread = step.at.split(" ")[1]
    return Event(step.time, step.rule, who, "", thread, thread, text, step.number, about)


def _news_event(step: StepRow, words: str) -> Event:
    """What has become of an intervention, told where it happened."""
    thread = step.at.split(" ")[0 if step.rule == "term-interrupt" else -1 if step.rule == "intervene" else 1]
    return Event(step.time, "intervention", step.who, "", thread, thread, words, step.number, {"intervention": words})


def _interrupted(event: Event, cut: Abandoned) -> Event:
    text = f"{event.text}; turn {cut.turn} is abandoned, which was about: {cut.message}"
    return replace(event, text=text, about={"abandoned": cut.turn})


def _waits_on(step: StepRow) -> bool:
    """Whether a release says nothing new: what waited within its turn waits again, or its turn is over."""
    wait = wait_of(json.loads(step.choice)) if step.rule == "release" and step.choice else None
    return wait is not None and bool(wait.turn) and not step.extra


def _wait_event(step: StepRow, thread: str, wait: Wait) -> Event:
    """That an instance waits for its provider, or goes on."""
    held = step.rule == "hold"
    text = f"{wait.agent} {wait.words(step.time)}" if held else f"{wait.agent} goes on"
    about = {"waits": wait.document() if held else None, "agent": wait.agent}
    return Event(step.time, step.rule, step.who, "", thread, thread, text, step.number, about)


def _stall_event(step: StepRow, thread: str, last: float) -> Event:
    """That an instance is stalled, or no more."""
    left: dict[str, Any] = json.loads(step.extra) if step.extra else {}
    text = f"{thread} is not stalled any more: {left.get('text', '')}"
    if step.rule == "hold":
        did = f"; the last thing it did: {left['text']}" if left.get("text") else ""
        text = f"{left.get('agent', '')} on {thread} is stalled: no sign of life since {moment(last)}{did}"
    return Event(step.time, step.rule, step.who, "", thread, thread, text, step.number, {"stall": thread})


def _refusals(step: StepRow) -> Iterator[Event]:
    """What the turn that a step ends was refused, and what of its files was not kept."""
    if '"refused"' not in step.extra and '"left_out"' not in step.extra:
        return
    left, (agent, thread, *_) = json.loads(step.extra), step.at.split(" ")
    for kind, words in (("refused", "was refused"), ("left_out", "left what is not kept")):
        for text in left.get(kind, ()):
            said = f"{agent} {words}: {text}"
            yield Event(step.time, kind.replace("_", "-"), agent, "", thread, thread, said, step.number, {})


def _left(step: StepRow) -> Iterator[Event]:
    """The unfinished work that a step leaves out."""
    if f'"{unfinished.KEY}"' not in step.extra:
        return
    for one in json.loads(step.extra).get(unfinished.KEY, ()):
        said, thread = f"left out: {one['text']}", str(one["thread"])
        yield Event(step.time, "unfinished", step.who, "", thread, thread, said, step.number, {unfinished.KEY: one})


def _notices(step: StepRow) -> Iterator[Event]:
    """The budgets that are nearly spent, as the step that starts a turn tells."""
    if '"nearly":' not in step.extra:
        return
    thread = step.at.split(" ")[1]
    for what, scope, used, limit in json.loads(step.extra)["nearly"]:
        line = Line(what, scope, used, limit)
        said = f"the budget is nearly spent: {line.words()}, with this turn"
        yield Event(step.time, "budget", ORCHESTRATOR, "", thread, thread, said, step.number, {"budget": line.cause})


def _held_back(step: StepRow) -> Iterator[Event]:
    """Agents of a workflow that could work, and wait for a free slot."""
    if '"held back"' not in step.extra:
        return
    thread = step.at.split(" ")[1]
    for event in json.loads(step.extra).get("flow", ()):
        if event["event"] == "held back" and event["agents"]:
            said, held = held_back(event["agents"], event["at_work"], event["fan_out"]), {"held": event["agents"]}
            yield Event(step.time, "fan-out", EXECUTOR, "", thread, thread, said, step.number, held)


def _budget_words(hold: Hold, *, released: bool) -> str:
    what, scope = name_of(hold)
    whose = "today's budget of" if scope == "day" else "the budget of"
    return f"{whose} {what} allows it to go on" if released else f"{whose} {what} is spent: it waits for you"


def _states(step: StepRow) -> tuple[str, str]:
    def state(briefs: str) -> str:
        lines = (line.split(" ") for line in briefs.splitlines())
        return next((words[2] for words in lines if words[0] == "Record"), "?")

    return state(step.consumed), state(step.produced)


def concerns(event: Event) -> bool:
    """Whether people who watch want to see it: not the protocol's own errands around a question."""
    if event.kind != "message":
        return True
    if event.to == PROXY:
        return event.who == HUMAN
    if event.to == ORCHESTRATOR:
        return "request" in event.about or "intervene" in event.about
    if "intervened" in event.about:
        return False  # the same words, passed on
    return not (event.who == PROXY and event.to != HUMAN and event.about.get("author") == HUMAN)


def headline(event: Event, width: int = 200) -> str:
    """An event on one line, without its time."""
    if event.kind != "message":
        return excerpt(event.text, width)
    if event.to == HUMAN:
        return excerpt(f"{event.about.get('asker', event.who)} asks you: {event.text}", width)
    if "request" in event.about:
        return excerpt(f"the request: {event.text}", width)
    if "intervene" in event.about:
        by = event.about["intervene"].get("by", HUMAN)
        return excerpt(f"{by} intervenes: {event.text.partition('] ')[2]}", width)
    if event.who == HUMAN and event.to == PROXY:
        by, ruling, text = (event.about.get(name) for name in ("by", "ruling", "text"))
        return excerpt(f"{by}: {f'{ruling}. ' if ruling else ''}{text}", width)
    return excerpt(f"{event.who} → {event.to}: {event.text}", width)
