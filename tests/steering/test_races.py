"""What people ask of a job in any order, while processes and agents die: each input is taken or noted, none is lost."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from parley.actions.leave import Closed, give_answer
from parley.bus.rows import Duplicate, InputRow
from parley.engine.inputs import answer_key
from parley.engine.values import human_inputs
from parley.engine.values.human_inputs import InterveneInput, WithdrawInput, Withdrawn, handled, is_in_vain
from parley.protocol.molecules import AskHuman, Surface, thread_kind
from parley.views.job_view import Present
from tests.engine.job_harness import INTENT, JOB, JobHarness, always, ask, asserts, book, on, say, send, sleep, write

PLAY = book(
    intent=[
        on(r"^\[INTENT\]", write("INTENT.md", "x"), send("writer", "look"), asserts("INTENT.md"), ask("which?")),
        always(r"^\[STALLED\]", say("I wait")),
        INTENT[1],
        always(".", sleep(2), write("INTENT.md", "y"), asserts("INTENT.md")),
    ],
    writer=[always(".", sleep(12), say("seen"))],
    coder=[always(".", say("done"))],
)
RULINGS = ["approve", "revise", "withdraw", None]

Deed = tuple[str, Any]
DEEDS = st.one_of(
    st.tuples(st.just("crank"), st.sampled_from([0.0, 1.0, 5.0])),
    st.tuples(st.just("answer"), st.tuples(st.integers(0, 3), st.sampled_from(RULINGS))),
    st.tuples(st.just("stale"), st.none()),
    st.tuples(st.just("intervene"), st.tuples(st.integers(0, 4), st.booleans(), st.booleans(), st.booleans())),
    st.tuples(st.just("withdraw"), st.integers(0, 4)),
    st.tuples(st.sampled_from(["pause", "resume", "kill", "lose"]), st.none()),
    st.tuples(st.just("die"), st.tuples(st.sampled_from(["commit", "submit", "cancel", "retire"]), st.booleans())),
)


class Schedule:
    """A job, and the deeds of people, agents and processes on it."""

    def __init__(self) -> None:
        self.stage = JobHarness(PLAY, stall_seconds=6, time_limit_seconds=60, retry_budget=2).start()
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def do(self, deed: Deed) -> None:
        name, how = deed
        acts: dict[str, Callable[[Any], object]] = {
            "crank": self.stage.crank,
            "answer": self.answer,
            "stale": self.stale,
            "intervene": self.intervene,
            "withdraw": lambda number: self.stage.withdraw(self.thread(number)),
            "pause": lambda _: self.stage.pause(),
            "resume": lambda _: self.stage.resume(),
            "kill": lambda _: self.stage.kill(),
            "lose": lambda _: self.stage.lose("intent-lead"),
            "die": lambda at: self.stage.die_at(at[0], when="after" if at[1] else "before"),
        }
        acts[name](how)

    def thread(self, number: int) -> str:
        """Some thread of the job, the job's own among them."""
        threads = ["", *sorted(s.thread for s in Present(self.stage.outside, JOB).soup.of(Surface))]
        return threads[number % len(threads)]

    def answer(self, what: tuple[int, str | None]) -> None:
        present = Present(self.stage.outside, JOB)
        for molecule in present.soup.of(AskHuman):
            body = {"question": molecule.id, "framing": molecule.framing, "ruling": "approve", "text": "late"}
            self.asked.append((answer_key(molecule), body))
        questions = present.questions()
        if questions:
            with contextlib.suppress(Closed):
                give_answer(self.stage.outside, questions[what[0] % len(questions)], what[1], "so", "ada")

    def stale(self, _: None) -> None:
        """An answer to what was asked long ago, or was answered by somebody else."""
        if self.asked:
            key, body = self.asked[0]
            with contextlib.suppress(Duplicate):
                self.stage.put("answer", key=key, **body)

    def intervene(self, how: tuple[int, bool, bool, bool]) -> None:
        thread, now, authoritative, mine = how
        named = self.thread(thread)
        if thread_kind(named) != "escalation":
            body: dict[str, Any] = {"text": "mind this", "thread": named, "now": now, "authoritative": authoritative}
            self.stage.put("intervene", by="ada" if mine else "eve", **body)


def of_all(row: InputRow) -> bool:
    """Whether it was the whole job that was given up."""
    given = human_inputs.read(row)
    return isinstance(given, WithdrawInput) and thread_kind(given.thread) in ("", "job", "state")


@settings(max_examples=80)
@given(st.lists(DEEDS, max_size=14))
@example([("lose", None), ("lose", None), ("lose", None)])  # the notice of a stall is an Interrupt of no human's
def test_no_order_of_deeds_loses_an_input_or_breaks_the_record(deeds: list[Deed]) -> None:
    schedule = Schedule()
    stage = schedule.stage
    for deed in deeds:
        schedule.do(deed)
    stage.resume().run()  # and here everything is checked: invariants, deliveries, records, the audit
    rows = stage.outside.inputs(JOB, waiting=False)
    assert all(row.taken and row.note for row in rows), rows
    for row in rows:
        given = human_inputs.read(row)
        if row.by == "eve" and isinstance(given, InterveneInput) and given.authoritative:
            assert is_in_vain(row)
    withdrawn = [row for row in rows if isinstance(handled(row), Withdrawn) and of_all(row)]
    if withdrawn:
        assert stage.state == "WITHDRAWN"
        last = max(step.transaction for step in stage.steps())
        assert [row.taken for row in withdrawn] == [last]  # once, and nothing came after it
        assert not stage.turns.running


@settings(max_examples=40)
@given(st.permutations(["answer", "withdraw", "now", "pause", "resume", "stall"]), st.integers(0, 3))
def test_all_at_once_in_any_order_comes_to_one_end(order: list[str], cranks: int) -> None:
    """All are left on the bus before anybody looks: the withdrawal is the end, whatever came before it or after."""
    stage = JobHarness(PLAY, stall_seconds=3, time_limit_seconds=60).start().until(lambda s: s.soup.of(AskHuman))
    for _ in range(cranks):
        stage.crank(1.0)
    for name in order:
        if name == "answer":
            for asked in Present(stage.outside, JOB).questions()[:1]:
                give_answer(stage.outside, asked, "approve", "yes", "ada")
        elif name == "now":
            stage.intervene("stop", now=True, authoritative=True)
        elif name == "stall":
            stage.clock.time += 4.0
        else:
            stage.put(name)
    stage.run()
    assert stage.state == "WITHDRAWN"
    notes = {row.kind: is_in_vain(row) for row in stage.outside.inputs(JOB, waiting=False)}
    before = order[: order.index("withdraw")]
    for kind, name in (("answer", "answer"), ("intervene", "now"), ("pause", "pause")):
        assert notes[kind] is (name not in before), notes
