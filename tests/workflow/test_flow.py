"""The pure executor: whatever its workers report, the table holds, nobody starts too early, nothing ends too early."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.base.json_codec import Unreadable, decode, encode
from parley.workflow.execution import escalate, executor, verification
from parley.workflow.execution.executor_turn import (
    AskTheHuman,
    CloseConversation,
    ExecutorTurn,
    MergeWorkspace,
    SendMessage,
    WorkflowLimits,
)
from parley.workflow.model.code_steps import ExecutorStep
from parley.workflow.model.events import (
    CheckMoved,
    ConversationClosed,
    Event,
    GivenUp,
    HumanAnswered,
    MergeEnded,
    PhaseChanged,
    PlanInForce,
    RoundEnded,
    StallEnded,
    StatusChanged,
    apply,
)
from parley.workflow.model.flow import EDGES, MET, Flow, IllegalEvent
from parley.workflow.model.flow_slots import CURRENT, current, entities, load, slot, text
from parley.workflow.model.menus import menu_for
from parley.workflow.model.notes import called, read_call, unsettled
from parley.workflow.model.terms import Merged, Round, Status
from parley.workflow.model.worker_result import Judgement, Resolve, WorkerResult
from tests.workflow.workflow_harness import plan

GRAPHS = st.lists(st.sets(st.integers(0, 5)), min_size=1, max_size=6)
"""Whom each doer depends on; only earlier ones count."""


def drawn_plan(graph: list[set[int]], stages: int) -> str:
    agents = [
        {"name": f"a{n}", "depends_on": [f"a{d}" for d in sorted(above) if d < n], "on_stall": REMEDIES[n % 4]}
        for n, above in enumerate(graph)
    ]
    names = [str(agent["name"]) for agent in agents]
    size = -(-len(names) // stages)
    return plan(*agents, stages=[names[at : at + size] for at in range(0, len(names), size)])


REMEDIES = ("escalate", "re-plan", "re-scope", "abandon")
SAID = ("verified", "rejected", "blocked", "")
KINDS = ("open", "escalated", "resolved")


class Play:
    """A workflow whose every report is drawn. Whoever is spoken to answers, in any order, with anything."""

    def __init__(self, text: str, data: st.DataObject, fan_out: int) -> None:
        self.data, self.limits, self.number = data, WorkflowLimits(fan_out), 0
        self.flow = Flow("dispatch:w")
        self.kept: dict[str, str] = {CURRENT: self.flow.thread}
        self.log: list[Event] = []
        self.asked: list[str] = []
        self.carry(lambda act: executor.begin(act, text))

    def new(self) -> str:
        self.number += 1
        return f"dispatch:n{self.number}"

    def draw(self, strategy: st.SearchStrategy[Any]) -> Any:
        return self.data.draw(strategy)

    def carry(self, decide: Any) -> None:
        """One turn of the executor: what it decides, what follows, and what is kept of it."""
        act = ExecutorTurn(
            flow=self.flow, limits=self.limits, now=1_800_000_000 + self.number, new=self.new, tree="tree"
        )
        decide(act)
        executor.advance(act)
        while act.works:
            work = act.works.pop(0)
            if isinstance(work, MergeWorkspace) and work.agent == "integrator":
                still = ("x",) if self.draw(st.booleans()) else ()
                verification.settled(act, self.flow.talks[work.workspace], ("x",), still)
            elif isinstance(work, MergeWorkspace):
                conflicts = ("x",) if self.draw(st.integers(0, 4)) == 0 else ()
                number = len(self.flow.merges) + 1
                verification.brought(act, "t", Merged(number, work.agent, act.now, taken=False, conflicts=conflicts))
            if not act.works:
                executor.advance(act)
        self.asked += [action.question for action in act.actions if isinstance(action, AskTheHuman)]
        self.watch(act)
        for entity in act.changed:
            body = text(self.flow, entity)
            if body is None:
                self.kept.pop(slot(self.flow, entity), None)
            else:
                self.kept[slot(self.flow, entity)] = body
        self.log += act.events

    def watch(self, act: ExecutorTurn) -> None:
        """What must hold after every turn."""
        assert len(self.flow.talks) <= self.limits.fan_out
        for action in act.actions:
            if isinstance(action, SendMessage) and action.thread in self.flow.talks:
                talk = self.flow.talks[action.thread]
                if talk.kind == "doer" and "[TASK]" in action.body[:7] and talk.agent in self.flow.dependents:
                    above = self.flow.workers[talk.agent].depends_on
                    assert all(self.flow.status(name) in MET for name in above)
            assert not isinstance(action, CloseConversation) or action.thread not in self.flow.talks
        if self.flow.phase == "complete":
            assert self.flow.gate == "clear"
            assert all(not unsettled(m.standing.session) for m in self.flow.members.values())
            assert all(m.standing.status is Status.COMPLETE or m.given_up for m in self.flow.members.values())

    def step(self) -> bool:
        """Something comes from outside; whether anything could."""
        busy = sorted(thread for thread, talk in self.flow.talks.items() if talk.busy)
        if self.asked and (not busy or self.draw(st.booleans())):
            question = self.asked.pop(0)
            listed = [option.name for option in menu_for(self.flow.questions[question]).options]
            choice = self.draw(st.sampled_from(("", *(name for name in listed if name != "stop"))))
            ruling = "" if choice else self.draw(st.sampled_from(("", "approve", "revise")))
            self.carry(lambda act: escalate.answered(act, question, escalate.HumanAnswer(choice, ruling, "abandon")))
            return True
        if not busy:
            return False
        thread = self.draw(st.sampled_from(busy))
        fate = self.draw(st.integers(0, 25))
        if fate == 0:
            self.carry(lambda act: escalate.lost(act, thread, "it crashed"))
        elif fate == 1:
            self.carry(lambda act: escalate.stalled(act, thread))
        else:
            said, left = self.report(thread)
            self.carry(lambda act: executor.hear(act, thread, said, left))
        return True

    def report(self, thread: str) -> tuple[str, WorkerResult]:
        talk, left, body = self.flow.talks[thread], WorkerResult(), ""
        if talk.kind == "doer":
            session = self.flow.members[talk.agent].standing.session
            assert session is not None
            if self.draw(st.integers(0, 3)) == 0:
                status = self.draw(st.sampled_from(KINDS))
                call = read_call(
                    {"description": f"q{self.number}", "context": "c", "category": "implementation_detail",
                     "status": status, "resolution": "r", "escalation_reason": "e"}
                )  # fmt: skip
                made, _ = called(session, call, 1_800_000_000)
                left = WorkerResult(notes=(made,) if made else ())
        elif talk.kind == "prover":
            code = self.draw(st.sampled_from((0, 0, 0, 1)))
            listed = [f"test -f a{n}" for n in range(6)]
            body = json.dumps({"proofs": [{"command": one, "code": code, "output": ""} for one in listed]})
        elif talk.kind == "verifier":
            left = WorkerResult(judgement=Judgement(self.draw(st.sampled_from(SAID)), ("f",)))
        elif talk.kind == "architect" and talk.agent:
            notes = [n for n in unsettled(self.flow.members[talk.agent].standing.session) if n.status == "escalated"]
            answered = [n for n in notes if self.draw(st.booleans())]
            may = talk.agent != "solution_architect"
            left = WorkerResult(resolves=tuple(self.resolve(talk.agent, n.note_id, may=may) for n in answered))
        return body, left

    def resolve(self, agent: str, note: str, *, may: bool) -> Resolve:
        if may and self.draw(st.integers(0, 3)) == 0:
            return Resolve(agent=agent, note_id=note, route="solution_architect", task="t")
        return Resolve(agent=agent, note_id=note, answer="a", source="planning")


@settings(max_examples=25, deadline=None)
@given(GRAPHS, st.integers(1, 3), st.integers(1, 4), st.data())
def test_whatever_is_reported_the_table_holds_and_the_flow_is_made_again_from_its_slots(
    graph: list[set[int]], stages: int, fan_out: int, data: st.DataObject
) -> None:
    play = Play(drawn_plan(graph, stages), data, fan_out)
    for _ in range(80):
        if play.flow.phase != "running" or not play.step():
            break

    assert play.flow.phase == "complete" or play.flow.talks or play.flow.questions, "it rests, and is not done"
    again = load(play.flow.thread, play.kept)
    assert again is not None
    assert {e: text(again, e) for e in entities(again)} == {e: text(play.flow, e) for e in entities(play.flow)}
    for name in ("unmet", "left", "stage", "startable", "unchecked", "mergeable", "failed", "undone", "unsettled"):
        assert getattr(again, name) == getattr(play.flow, name), name
    assert list(again.blocked) == list(play.flow.blocked)
    replayed = Flow(play.flow.thread)
    for event in play.log:
        apply(replayed, event)
    assert {e: text(replayed, e) for e in entities(replayed)} == {e: text(again, e) for e in entities(again)}
    assert current(play.kept) is not None


@given(st.sampled_from(Status), st.sampled_from(Status))
def test_no_status_follows_that_the_table_does_not_name(old: Status, new: Status) -> None:
    ways = {(one, other) for one, others in EDGES.items() for other in others}
    assert ((old, new) in ways) == (new in EDGES[old])
    if old is not Status.WORKING and old is not Status.PENDING:
        assert Status.WORKING in EDGES[old]  # from any status back to work


def begun() -> ExecutorTurn:
    numbers = iter(range(1000))
    act = ExecutorTurn(
        flow=Flow("dispatch:w"),
        limits=WorkflowLimits(),
        now=1_800_000_000,
        new=lambda: f"dispatch:n{next(numbers)}",
        tree="tree",
    )
    executor.begin(act, plan({"name": "one"}, {"name": "two", "depends_on": ["one"]}))
    executor.advance(act)
    return act


@pytest.mark.parametrize(
    "event",
    [
        StatusChanged("two", Status.WORKING, 1),
        StatusChanged("one", Status.READY, 1),
        StatusChanged("one", Status.VERIFIED, 1),
        StatusChanged("nobody", Status.WORKING, 1),
        PhaseChanged("complete", 2),
        PhaseChanged("nothing that is known", 2),
        CheckMoved("one", "judging"),
        RoundEnded("one", Round(1, "judge", "verified")),
        GivenUp("one", 1, "so"),
        PlanInForce("no plan", 1),
        MergeEnded(Merged(7, "one", 1, taken=True)),
        ConversationClosed("dispatch:none"),
        HumanAnswered("n0"),
        StallEnded("one", "so"),
    ],
    ids=lambda event: f"{event!r:.40}",
)
def test_an_event_that_can_not_be_changes_nothing(event: Event) -> None:
    act = begun()
    before = {entity: text(act.flow, entity) for entity in entities(act.flow)}

    with pytest.raises(IllegalEvent):
        apply(act.flow, event)

    assert {entity: text(act.flow, entity) for entity in entities(act.flow)} == before


@pytest.mark.parametrize(
    "odd",
    ['{"event":"nothing that is known"}', '{"event":"note","agent":"one","note":{"note_id":5}}', "{}", "[]",
     '{"event":"status","agent":"one","to":"asleep","time":1}', '{"event":"close","thread":"t","more":1}'],
)  # fmt: skip
def test_what_no_event_is_can_not_be_read(odd: str) -> None:
    with pytest.raises(Unreadable):
        decode(f'{{"events":[{odd}]}}', ExecutorStep)


def test_what_an_executors_step_carries_is_read_as_it_was_written() -> None:
    step = ExecutorStep(events=tuple(begun().events), drafts={"q1": "tree"})
    assert step.events
    assert decode(encode(step), ExecutorStep) == step
