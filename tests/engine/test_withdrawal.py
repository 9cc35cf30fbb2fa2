"""Withdrawals and pauses: what they end, whom they tell, and what they leave alone."""

from __future__ import annotations

from typing import Any

import pytest

from parley.engine.values.hold_causes import PAUSE
from parley.protocol.molecules import AskHuman, Hold, Parent, Surface
from tests.engine.job_harness import (
    JOB,
    ROOT,
    YES,
    JobHarness,
    always,
    ask,
    asserts,
    book,
    close,
    on,
    say,
    send,
    sleep,
    words_of,
    write,
)

LEAD = "intent-lead"
ASSERT = [write("INTENT.md", "x"), asserts("INTENT.md")]
BUSY = [always("look", sleep(40), say("seen"))]


def team(**agents: Any) -> JobHarness:
    """A job in EXECUTE: a squad with a helper, and a coder, all at work."""
    given: dict[str, Any] = {
        "execute": [on(r"^\[EXECUTE\]", send("squad", "go", "s"), send("coder", "look")), on("WITHDRAW", ask("now?"))],
        "squad": [on("go", send("helper", "look"))],
        "helper": BUSY,
        "coder": BUSY,
        **agents,
    }
    return JobHarness(book(human=YES, **given))


def nothing_after(stage: JobHarness) -> None:
    """The withdrawal was one transaction, and the last one."""
    (step,) = [s for s in stage.steps("transition") if "WITHDRAW" in s.choice]
    last = stage.steps()[-1]
    assert last.transaction == step.transaction
    assert [s.rule for s in stage.steps() if s.transaction == step.transaction][:2] == ["transition", "withdraw"]
    assert not stage.turns.running
    assert all(turn.status != "submitted" for turn in stage.outside.turns(JOB))


@pytest.mark.parametrize("thread", ["", ROOT])
def test_a_withdrawal_ends_the_job_and_all_that_runs_in_one_transaction(thread: str) -> None:
    stage = team().sleeping("helper").sleeping("coder")
    orders = len(stage.orders)
    stage.withdraw(thread, "enough").run()
    assert (stage.state, stage.record.history[-1].actor, stage.record.history[-1].reason) == (
        "WITHDRAWN",
        "human",
        "enough",
    )
    nothing_after(stage)
    assert len(stage.orders) == orders
    assert stage.soup.of(Surface) == ()
    assert stage.fired("term-run") == 2
    steps = len(stage.steps())
    for agent in ("helper", "coder"):
        stage.end(stage.order(agent)).crank()
        stage.call(stage.order(agent), "Send", thread="dispatcher", text="late").crank()
    assert stage.refusals == ["this turn is over"] * 2
    assert len(stage.steps()) == steps


def test_a_withdrawal_while_a_question_is_open_ends_the_question() -> None:
    stage = JobHarness(book()).run()
    asked = stage.soup.of(AskHuman)[0]
    stage.withdraw().put("answer", question=asked.id, framing=asked.framing, ruling="approve", text="yes").run()
    assert (stage.state, stage.live.standing.asking, stage.live.row.needs_human) == ("WITHDRAWN", 0, 0)
    assert [note[:8] for note in stage.notes()] == ["withdraw", "too late"]
    nothing_after(stage)


def test_an_answer_and_a_withdrawal_that_wait_together_are_taken_in_their_order() -> None:
    stage = JobHarness(book()).run().answer("approve").withdraw().run()
    assert stage.notes() == ["answered", "withdrawn"]
    assert (stage.state, stage.actions) == ("WITHDRAWN", ["WITHDRAW"])


def test_a_withdrawal_is_given_once() -> None:
    stage = JobHarness(book()).run().withdraw().withdraw().pause().resume().intervene("hello").run()
    assert [note.partition(":")[0] for note in stage.notes()] == ["withdrawn", *["too late"] * 4]
    assert len(stage.record.history) == 1


def test_a_job_whose_owner_is_dead_is_adopted_and_withdrawn_without_another_turn() -> None:
    stage = team().sleeping("helper")
    orders = len(stage.orders)
    stage.kill()
    stage.withdraw()
    assert stage.state == "EXECUTE"
    stage.adopt().run()
    assert stage.state == "WITHDRAWN"
    nothing_after_restart = [s.rule for s in stage.steps() if s.transaction == stage.steps()[-1].transaction]
    assert nothing_after_restart[0] == "recover"
    assert "wake" not in nothing_after_restart
    assert len(stage.orders) == orders


def test_a_process_that_dies_over_the_withdrawal_leaves_it_to_the_next() -> None:
    for when in ("before", "after"):
        stage = team().sleeping("helper").withdraw().die_at("commit", when=when).run()
        assert stage.state == "WITHDRAWN"
        assert len(stage.record.history) == 3
        assert not stage.turns.running


# ---- a subtree -------------------------------------------------------------------------------------


def test_a_withdrawn_subtree_is_told_to_its_dispatcher_in_the_same_transaction() -> None:
    stage = team().sleeping("helper").sleeping("coder")
    squad, helper = stage.thread("squad"), stage.thread("helper")
    stage.withdraw(squad, "too dear").until(lambda s: s.started("project-lead") > 3)
    assert stage.told("project-lead")[3] == f"[FAILED] squad on {squad} was withdrawn by the human: too dear"
    (step,) = stage.steps("withdraw")
    together = [s for s in stage.steps() if s.transaction == step.transaction]
    dead = [s.at for s in together if s.rule == "term-final"]
    assert dead == [squad, helper]
    assert "Mailbox project-lead" in step.produced
    assert not stage.busy("helper")
    assert stage.busy("coder")
    assert stage.subteams[0].state == "WITHDRAWN"
    assert Parent(helper, squad) not in stage.soup


def test_whoever_dispatched_the_dead_may_dispatch_again() -> None:
    execute = [on(r"^\[EXECUTE\]", send("coder", "look"), send("coder", "look"), send("coder", "look")),
               on("WITHDRAW", send("coder", "look once more"))]  # fmt: skip
    stage = team(execute=execute).sleeping("coder")
    stage.withdraw(stage.thread("coder")).until(lambda s: s.started("coder") == 4)
    assert stage.refusals == []


def test_a_subtree_that_is_gone_is_withdrawn_too_late() -> None:
    intent = [on(r"^\[INTENT\]", send("writer", "look", "w")), on("seen", close("w"), *ASSERT)]
    stage = JobHarness(book(intent=intent, writer=[on("look", say("seen"))])).run()
    thread = stage.order("writer").thread
    stage.withdraw(thread).run()
    assert stage.notes() == [f"too late: there is no {thread} any more"]


def test_the_work_of_a_withdrawn_subteam_is_not_merged() -> None:
    stage = team(helper=[on("look", write("h.txt", "half"), sleep(20))]).sleeping("helper")
    squad, helper = stage.thread("squad"), stage.thread("helper")
    stage.withdraw(squad).until(lambda s: s.started("project-lead") > 3)
    assert "h.txt" in stage.files(helper)
    assert "h.txt" not in stage.files(squad)
    assert "h.txt" not in stage.files()


# ---- pause -----------------------------------------------------------------------------------------


def test_a_pause_holds_wakes_and_nothing_else() -> None:
    intent = [on(r"^\[INTENT\]", send("writer", "look")), on("seen", *ASSERT)]
    stage = JobHarness(book(intent=intent, writer=[on("look", sleep(3), say("seen"))])).sleeping("writer")
    stage.pause().run()
    assert stage.live.standing.held == 1
    assert stage.soup.of(Hold) == (Hold(ROOT, PAUSE.text),)
    assert stage.fired("send") == 1  # the turn under way has ended and reported
    assert stage.started(LEAD) == 1  # but nobody was woken
    assert stage.fired("pending") == 0
    stage.resume().run()
    assert words_of(stage.told(LEAD)[1]) == "seen"
    assert (stage.live.standing.held, stage.live.standing.asking) == (0, 1)


@pytest.mark.parametrize("ruling", ["approve", None])
def test_an_answer_is_taken_during_a_pause_and_acted_on_after_it(ruling: str | None) -> None:
    proxy = [always("QUESTION", {"ask_human": "look"}), always("HUMAN", {"answer": {"verdict": "approve", "text": ""}})]
    stage = JobHarness(book(proxy=proxy), "when_unsure").run().pause().run().answer(ruling).run()
    given = 1 if ruling else 0  # a verdict goes back by code, words without one wait for the proxy
    assert (stage.fired("human-reply"), stage.fired("respond"), stage.state) == (1, given, "INTENT")
    stage.resume().run()
    assert stage.state == "PLAN"


def test_now_redirects_a_turn_under_way_during_a_pause_too() -> None:
    stage = JobHarness(book(intent=[on(r"^\[INTENT\]", sleep(30)), on("INTERVENE", *ASSERT)])).sleeping(LEAD)
    stage.pause().intervene("stop that", "state:j1/1", now=True).until(lambda s: s.started(LEAD) == 2)
    assert (stage.fired("hold"), stage.fired("interrupt"), stage.fired("release")) == (1, 1, 0)


def test_a_paused_job_can_be_withdrawn() -> None:
    stage = team().sleeping("helper").pause()
    stage.crank()
    stage.withdraw().run()
    assert (stage.state, stage.soup.of(Hold), stage.live.row.held) == ("WITHDRAWN", (), 0)
    nothing_after(stage)


def test_a_pause_survives_its_process() -> None:
    stage = JobHarness(book(intent=[on(r"^\[INTENT\]", sleep(5), *ASSERT)])).sleeping(LEAD).pause()
    stage.crank()
    stage.kill()
    stage.adopt().run()
    assert (stage.live.standing.held, stage.started(LEAD)) == (1, 1)
    stage.resume().run()
    assert (stage.started(LEAD), stage.live.standing.asking) == (2, 1)


def test_a_job_is_paused_once_and_resumed_once() -> None:
    stage = JobHarness(book()).run().resume().pause().pause().resume().resume().run()
    assert [note.partition(":")[0] for note in stage.notes()] == [
        "too late",
        "paused",
        "too late",
        "resumed",
        "too late",
    ]
    assert stage.approve().state == "PLAN"


# ---- inputs that nobody can read -------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, body",
    [
        ("dance", {}),
        ("answer", {}),
        ("answer", {"question": "n2", "framing": "m5", "ruling": "perhaps", "text": ""}),
        ("intervene", {"thread": None}),
        ("withdraw", {"thread": 5}),
        ("withdraw", {"whole": True}),
        ("answer", {"question": "n2", "framing": "m5", "ruling": None, "text": "", "choice": 7}),
        ("nothing", {}),
    ],
)
def test_an_input_that_can_not_be_read_does_not_stop_the_job(kind: str, body: dict[str, Any]) -> None:
    """Any process may leave one: it is noted, and the job goes on, also after a restart."""
    stage = JobHarness(book()).run()
    if kind == "answer" and body:
        asked = stage.soup.of(AskHuman)[0]
        body = {**body, "question": asked.id, "framing": asked.framing}
    stage.put(kind, **body).run()
    assert stage.notes()[0].startswith("too late: it can't be read")
    assert stage.approve().state == "PLAN"
