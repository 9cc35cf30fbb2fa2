"""The agents of a huge job: turns that take no time, over three visits of EXECUTE and four levels of agents.

Leads put their artifacts forward, dispatch areas, and go back twice. An area has groups, and a group has workers that
report round after round. What is random comes from one seed. Once the job is full, what is open stays as it is: some
workers remain at work, one of them waits for its provider, one group asks, and the lead puts its work forward.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from parley.ports.turns import Called, Ended, Order, Progress, TurnEvent, Waiting
from parley.protocol.molecules import PROXY, MessageKind
from parley.runners.scripted.scripted_agent import OUTCOME_PATH

INTENT_LEAD, PROJECT_LEAD, AREA, GROUP, SURVEYOR = "intent-lead", "project-lead", "area-lead", "group-lead", "surveyor"
WORKERS = ("coder", "tester", "reviewer", "writer", "researcher")
TEAMS: Mapping[str, tuple[str, ...]] = {
    INTENT_LEAD: (),
    PROJECT_LEAD: (AREA, SURVEYOR),
    AREA: (GROUP,),
    GROUP: WORKERS,
    SURVEYOR: (),
    **dict.fromkeys(WORKERS, ()),
}
LEFT_AT_WORK = 24  # turns that are never over
CHATTY = 8  # every so many instances report what tools they use
LOST, WAITED, REFUSED = 400, 300, 500  # one of so many turns of workers is lost, waits, or makes a call that is refused
GROUPS_AN_AREA, WORKERS_A_GROUP = 7, 6
SHARES = (0.25, 0.3, 0.45)  # of the instances, in each visit of EXECUTE
SURVEYORS = 3  # of each visit: the instances that have files of their own
_REPORT = re.compile(r"\[REPORT\] \S+ on (dispatch:\w+)")
DEEDS = (
    ("Read", "src/shop/basket.py", "120 lines"),
    ("Edit", "src/shop/basket.py", "the file was changed"),
    ("Bash", "python -m pytest tests -q", "212 passed in 4.1 s"),
    ("Grep", "def total", "7 matches in 3 files"),
    ("Write", "tests/test_basket.py", "48 lines"),
)
WORDS = (
    "the price of a basket", "the search index", "the login form", "the nightly export", "the tax table",
    "the invoice layout", "the stock report", "the retry of payments", "the page of an order",
    "the import of customers",
)  # fmt: skip


def reporter(order: Order) -> str:
    """The thread whose report woke a turn; empty where none did."""
    found = _REPORT.match(order.message)
    return found.group(1) if found else ""


@dataclass(slots=True)
class Desk:
    """What an instance has to do: how often it reports, and whom it dispatches."""

    agent: str
    rounds: int  # reports until its dispatcher closes the conversation; 0: it stays open
    below: list[Desk] = field(default_factory=list)
    open: dict[str, Desk] = field(default_factory=dict)  # by their threads
    reported: int = 0
    heard: int = 0  # of its reports, by its dispatcher
    chatty: bool = False

    @property
    def size(self) -> int:
        """How many instances there are with it and below it."""
        return 1 + sum(desk.size for desk in self.below)


class Cast:
    """Carries out the turns of all agents of the job, in this process."""

    def __init__(self, instances: int, rounds: float, now: Callable[[], float], seed: int = 16) -> None:
        """`rounds`: how often a worker reports, on average."""
        self.rng = Random(seed)
        self.now = now
        self.full = False  # whether the job has all its steps: nothing is begun any more
        self.at_work: list[Order] = []
        self.turns = 0
        self.opened = 0  # instances that were dispatched
        self.planned = 0
        self._rounds = rounds
        parts = [round(instances * share) for share in SHARES]
        self._visits = [self._areas(part, stays=number == len(parts)) for number, part in enumerate(parts, 1)]
        self._desks: dict[str, Desk] = {}
        self._opening: dict[tuple[str, int], Desk] = {}
        self._doomed: set[tuple[str, int]] = set()  # calls that are meant to be refused
        self._visit = 0  # of EXECUTE
        self._asked = False
        self._events: list[TurnEvent] = []
        self._later: list[TurnEvent] = []

    # ---- the tree ------------------------------------------------------------------------------

    def _areas(self, instances: int, *, stays: bool) -> list[Desk]:
        """The areas of one visit of EXECUTE, with about so many instances in all."""
        surveyors = [self._desk(SURVEYOR, 1) for _ in range(SURVEYORS)]
        areas: list[Desk] = []
        left = instances - len(surveyors)
        while left > 0:
            area = self._desk(AREA, 0 if stays else self.rng.randint(1, 2))
            for _ in range(GROUPS_AN_AREA):
                if area.size >= left:
                    break
                group = self._desk(GROUP, self.rng.randint(1, 2))
                for number in range(min(WORKERS_A_GROUP, left - area.size - 1)):
                    group.below.append(self._desk(WORKERS[number % len(WORKERS)], self._some_rounds()))
                area.below.append(group)
            if stays:
                for group in area.below[len(area.below) // 2 :]:
                    self._keep_open(group)
            areas.append(area)
            left -= area.size
        return [*surveyors, *areas]

    def _desk(self, agent: str, rounds: int) -> Desk:
        self.planned += 1
        return Desk(agent, rounds, chatty=self.planned % CHATTY == 0)

    def _some_rounds(self) -> int:
        return max(1, round(self._rounds * self.rng.uniform(0.5, 1.5)))

    @staticmethod
    def _keep_open(group: Desk) -> None:
        group.rounds = 0
        for worker in group.below:
            worker.rounds = 0

    def has_tree(self, thread: str) -> bool:
        """Whether an instance has files of its own."""
        desk = self._desks.get(thread)
        return desk is not None and desk.agent == SURVEYOR

    # ---- the port ------------------------------------------------------------------------------

    def hosts(self) -> tuple[str, ...]:
        """Here."""
        return ("local",)

    def submit(self, order: Order) -> None:
        """Play the turn."""
        self.turns += 1
        if order.agent == PROXY:
            self._proxy(order)
        elif order.agent in (INTENT_LEAD, PROJECT_LEAD):
            self._lead(order)
        else:
            self._instance(order, self._desks[order.thread])

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """What a call was told: an instance that was dispatched gets its desk."""
        if not ok and (turn, number) not in self._doomed:
            raise RuntimeError(text)
        desk = self._opening.pop((turn, number), None)
        if desk is not None:
            self.opened += 1
            self._desks[data["thread"]] = desk
            self._desks[turn].open[data["thread"]] = desk

    def events(self, timeout_seconds: float) -> list[TurnEvent]:
        """All that has happened."""
        events, self._events, self._later = self._events, self._later, []
        return events

    def cancel(self, job: str, turn: str) -> None:
        """What stays at work is never over."""

    def reclaim(self, job: str) -> None:
        """Nothing is ever left."""

    def rest(self, job: str) -> None:
        """Nothing is kept ready."""

    def close(self) -> None:
        """Nothing to close."""

    # ---- what a turn does ----------------------------------------------------------------------

    def _call(self, order: Order, number: int, tool: str, **arguments: Any) -> None:
        self._events.append(
            Called(job=order.job, turn=order.turn, token=order.token, number=number, tool=tool, arguments=arguments)
        )

    def _end(self, order: Order, text: str = "", *, fault: str = "", later: bool = False) -> None:
        read, written = self.rng.randint(2_000, 60_000), self.rng.randint(50, 3_000)
        usage = {
            "input_tokens": float(read // 10),
            "cache_read_tokens": float(read),
            "output_tokens": float(written),
            "cost_usd": round(read * 3e-7 + written * 1.5e-5, 6),
            "turns": 1.0,
            "context_used": round(read / 200_000, 3),
        }
        model = "large" if order.agent.endswith("lead") or order.agent == PROXY else "small"
        ended = Ended(order.job, order.turn, order.epoch, text, usage=usage, fault=fault, model=f"bench-{model}")
        (self._later if later else self._events).append(ended)

    def _proxy(self, order: Order) -> None:
        if order.kind is MessageKind.QUESTION:
            self._call(order, 1, "Predict", verdict="approve", confidence=0.7)
            found = "it covers what was asked, and two risks are named"
            self._call(order, 2, "AskHuman", text=order.asked, found=found, would="approve", confidence=0.8)
        else:
            self._call(order, 1, "Answer", text="")
        self._end(order)

    # ---- the leads -----------------------------------------------------------------------------

    def _lead(self, order: Order) -> None:
        """A lead puts its artifact forward, dispatches, takes reports, and writes its outcome."""
        desk = self._desks.setdefault(order.thread, Desk(order.agent, 0))
        if order.message.startswith("[ANSWER approve]"):
            self._outcome(order, f"APPROVED_{order.state}", "approved")
        elif order.message.startswith("[ANSWER backtrack"):
            back = "REPLAN" if order.message.startswith("[ANSWER backtrack plan") else "REALIGN"
            self._outcome(order, back, f"attempt {self._visit} has shown that something else is needed")
        elif order.state in ("INTENT", "PLAN") and order.message.startswith(("[INTENT]", "[PLAN]", "[ANSWER revise]")):
            self._put_forward(order, f"{order.state}.md", f"Is this {order.state.lower()} right?")
        elif order.message.startswith("[EXECUTE]"):
            self._visit += 1
            self._dispatch(order, desk, self._visits[self._visit - 1])
        elif order.kind is MessageKind.INTERVENTION and self.full:
            self._put_forward(order, "WORK_SUMMARY.md", "This is what there is so far. Does it do?")
        elif order.kind is MessageKind.REPORT and not self.full:
            self._hear(order, desk)
            if not desk.open and not desk.reported:
                desk.reported = 1
                self._put_forward(order, "WORK_SUMMARY.md", "All areas are through. Is this what you wanted?")
        self._end(order)

    def _put_forward(self, order: Order, artifact: str, text: str) -> None:
        again = self.rng.randint(1000, 9999)
        parts = "\n".join(f"- {word}: part {number} of {again}" for number, word in enumerate(WORDS, start=1))
        self._write(order, artifact, f"# {order.state} of visit {order.visit}\n\nThe shop is rebuilt:\n\n{parts}\n")
        self._call(order, 1, "AskQuestion", kind="assert", artifact=artifact, text=text)

    def _outcome(self, order: Order, outcome: str, reason: str) -> None:
        self._write(order, OUTCOME_PATH, json.dumps({"outcome": outcome, "reason": reason}))

    @staticmethod
    def _write(order: Order, path: str, text: str) -> None:
        place = Path(order.site.workspace) / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")

    # ---- those who are dispatched ----------------------------------------------------------------

    def _instance(self, order: Order, desk: Desk) -> None:
        if desk.below and not desk.open and not desk.reported and order.kind is MessageKind.TASK:
            self._dispatch(order, desk, desk.below)
            self._end(order)
        elif order.kind is MessageKind.REPORT:
            self._group_hears(order, desk)
        elif order.kind in (MessageKind.TASK, MessageKind.MESSAGE):
            self._work(order, desk)
        else:
            self._end(order)  # a notice, or the answer to its question

    def _dispatch(self, order: Order, desk: Desk, whom: list[Desk]) -> None:
        self._desks[order.turn] = desk  # for the replies, which name the turn
        for number, one in enumerate(whom, start=1):
            self._opening[order.turn, number] = one
            about = WORDS[(number + self.planned) % len(WORDS)]
            self._call(order, number, "Send", to=one.agent, text=f"Please see to {about}. Part {number}/{len(whom)}.")

    def _group_hears(self, order: Order, desk: Desk) -> None:
        if self.full and not self._asked and desk.agent == GROUP:
            self._asked = True
            self._call(order, 1, "AskQuestion", kind="question", text="Which tax table is right, the old or the new?")
            self._end(order)
            return
        if not self.full or len(self.at_work) < LEFT_AT_WORK:
            self._hear(order, desk)
        done = not desk.open and not self.full
        desk.reported += done
        self._end(order, "All of the group is through: see the files" if done else "")

    def _hear(self, order: Order, desk: Desk) -> None:
        """Take a report: ask for more, or close the conversation."""
        thread = reporter(order)
        child = desk.open.get(thread)
        if child is None or child.heard == child.reported:
            return  # it tells of a merge, and of nothing else
        child.heard = child.reported
        if child.rounds and child.reported >= child.rounds:
            del desk.open[thread]
            self._call(order, 1, "CloseConversation", thread=thread)
        else:
            about = self.rng.choice(WORDS)
            self._call(order, 1, "Send", thread=thread, text=f"Good. Next: {about}, step {child.reported + 1}.")

    def _work(self, order: Order, desk: Desk) -> None:
        """A worker's turn: it reports, now or after some uses of tools."""
        if self.full and len(self.at_work) < LEFT_AT_WORK and not desk.below:
            self._stay(order)
            return
        if desk.agent in WORKERS and self.rng.randrange(LOST) == 0:
            self._end(order, fault="it was killed by signal 9")
            return
        if self.rng.randrange(REFUSED) == 0:
            self._doomed.add((order.turn, 1))
            self._call(order, 1, "CloseConversation", thread="dispatch:another")
        waits = self.rng.randrange(WAITED) == 0
        if waits:
            self._events.append(Waiting(order.job, order.turn, "the API is overloaded (529)", self.now() + 60.0))
            self._later.append(Waiting(order.job, order.turn))
        if desk.agent == SURVEYOR:
            self._write(order, f"docs/survey-{order.thread.rpartition(':')[2]}.md", f"# Survey\n\n{order.body}\n")
        desk.reported += 1
        about = self.rng.choice(WORDS)
        text = f"Report {desk.reported}: {about} is done. {'It works and has tests. ' * 8}"
        if desk.chatty:
            self._use_tools(order)
        self._end(order, text, later=waits or desk.chatty)

    def _use_tools(self, order: Order) -> None:
        say = Progress(job=order.job, turn=order.turn, text=f"I look at {self.rng.choice(WORDS)} first.")
        self._events.append(say)
        for number, (tool, about, result) in enumerate(self.rng.sample(DEEDS, 3)):
            use = f"use{number}"
            self._events.append(Progress(job=order.job, turn=order.turn, text=about, tool=tool, use=use))
            over = Progress(job=order.job, turn=order.turn, text="", tool=tool, use=use, over=True, result=result)
            self._later.append(over)

    def _stay(self, order: Order) -> None:
        """The turn is not over when the job is left."""
        self.at_work.append(order)
        tool, about, _ = self.rng.choice(DEEDS)
        if len(self.at_work) == 1:
            self._events.append(Waiting(order.job, order.turn, "the API is overloaded (529)", self.now() + 900.0))
        else:
            self._events.append(Progress(job=order.job, turn=order.turn, text=about, tool=tool, use="last"))
