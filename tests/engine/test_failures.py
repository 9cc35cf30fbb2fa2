"""What goes wrong with agents, and who gets to decide what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest

from parley.audit.audit import audit
from parley.engine.values.human_inputs import note_words
from parley.protocol.molecules import AskHuman, Crashed, Hold, Kind
from tests.engine.job_harness import (
    CRASH,
    EXECUTE,
    INTENT,
    JOB,
    YES,
    JobHarness,
    always,
    ask,
    asserts,
    book,
    close,
    on,
    outcome,
    say,
    send,
    sleep,
    tell,
    words_of,
    write,
)

DISPATCH = on(r"^\[INTENT\]", send("writer", "look", "w"))
ASSERT = [write("INTENT.md", "x"), asserts("INTENT.md")]


# ---- workers ---------------------------------------------------------------------------------------


def test_a_lost_turn_is_tried_again_with_the_same_message() -> None:
    stage = JobHarness(book(intent=[DISPATCH, on("seen", *ASSERT)], writer=[on("look", say("seen"))]))
    stage.lose("writer", 2).run()
    assert stage.told("writer") == ["look"] * 3
    assert [words_of(text) for text in stage.told("intent-lead")] == ["[INTENT] do it", "seen"]
    assert (stage.fired("recover"), stage.fired("give-up"), stage.fired("strike")) == (2, 0, 0)


def test_a_worker_has_three_tries_then_its_dispatcher_is_told() -> None:
    stage = JobHarness(book(intent=[DISPATCH, on(r"^\[FAILED\]", *ASSERT)], writer=[always("look", CRASH)])).run()
    told = stage.told("intent-lead")
    assert stage.started("writer") == 3
    assert (stage.fired("recover"), stage.fired("give-up"), stage.fired("strike")) == (2, 1, 0)
    assert len(told) == 2
    assert told[1].startswith(f"[FAILED] writer on {stage.thread('writer')} could not go on after 3 tries")
    assert "killed by signal 9" in told[1]


@pytest.mark.parametrize("process_dies", [False, True])
def test_a_worker_that_dies_once_by_its_playbook_goes_on_by_its_next_rule(process_dies: bool) -> None:
    intent = [DISPATCH, on("seen", *ASSERT)]
    stage = JobHarness(book(intent=intent, writer=[on("look", CRASH), on("look", sleep(5), say("seen"))]))
    stage.until(lambda s: s.started("writer") == 2 and s.slept("writer"))
    if process_dies:
        stage.kill()
        stage.adopt()
    stage.run()
    assert stage.started("writer") == 2 + process_dies
    assert stage.reports("intent-lead", "writer") == ["seen"]
    assert stage.fired("give-up") == 0


def test_a_lead_that_dies_once_by_its_playbook_goes_on_by_its_next_rule() -> None:
    stage = JobHarness(book(intent=[on(r"^\[INTENT\]", CRASH), on(r"^\[INTENT\]", *ASSERT)])).run()
    assert (stage.started("intent-lead"), stage.fired("strike"), stage.live.standing.asking) == (2, 0, 1)


def test_a_proxy_that_dies_once_by_its_playbook_goes_on_by_its_next_rule() -> None:
    proxy = [on("QUESTION", CRASH), always("QUESTION", {"ask_human": "look"})]
    stage = JobHarness(book(intent=[on(r"^\[INTENT\]", *ASSERT)], proxy=proxy)).run()
    assert (stage.started("proxy"), stage.live.standing.asking) == (2, 1)


def test_a_turns_time_limit_counts_as_a_crash() -> None:
    stage = JobHarness(
        book(intent=[DISPATCH, on(r"^\[FAILED\]", *ASSERT)], writer=[always("look", sleep(100))]),
        time_limit_seconds=7,
    ).run()
    assert stage.started("writer") == 3
    assert "it took too long" in stage.told("intent-lead")[1]
    assert [turn.status for turn in stage.outside.turns("j1") if turn.agent == "writer"] == ["lost"] * 3


def test_a_turn_that_ends_well_forgives_the_crashes_before_it() -> None:
    intent = [DISPATCH, always("seen", tell("w", "look")), on(r"^\[FAILED\]", *ASSERT)]
    stage = JobHarness(book(intent=intent, writer=[always("look", say("seen"))]))
    stage.lose("writer", 2).until(lambda s: s.started("writer") == 4)
    stage.lose("writer", 2).until(lambda s: s.started("writer") == 7)
    assert stage.fired("give-up") == 0
    stage.lose("writer", 3).until(lambda s: s.fired("give-up"))
    assert stage.fired("give-up") == 1


@pytest.mark.parametrize(
    "remedy, started",
    [
        ([tell("w", "look again")], ["look", "look", "look", "look again"]),
        ([close("w"), send("researcher", "look")], ["look", "look", "look"]),
        ([close("w"), *ASSERT], ["look", "look", "look"]),
    ],
    ids=["retry", "substitution", "close"],
)
def test_a_dispatcher_may_retry_dispatch_another_or_close(remedy: list[Any], started: list[str]) -> None:
    intent = [DISPATCH, on(r"^\[FAILED\]", *remedy), on("seen", *ASSERT)]
    writer = [on("again", say("seen")), always("look", CRASH)]
    stage = JobHarness(book(intent=intent, writer=writer, researcher=[on("look", say("seen"))])).run()
    assert stage.told("writer") == started
    assert stage.live.standing.asking == 1
    assert stage.fired("strike") == 0


# ---- leads: tries of their own, then the human -----------------------------------------------------


def test_a_lead_is_tried_again_like_everybody() -> None:
    stage = JobHarness(book()).lose("intent-lead", 2).run()
    assert stage.told("intent-lead") == ["[INTENT] do it"] * 3
    assert (stage.fired("recover"), stage.fired("strike"), stage.fired("give-up")) == (2, 0, 0)
    assert stage.soup.of(Crashed) == ()
    assert stage.approve().state == "PLAN"


def test_a_leads_turn_that_ends_well_forgives_the_crashes_before_it() -> None:
    """Two crashes before the question and two after its answer are not four in a row."""
    intent = [on(r"^\[INTENT\]", ask("which?")), on("ANSWER", *ASSERT), INTENT[1]]
    stage = JobHarness(book(intent=intent)).lose("intent-lead", 2).run()
    stage.answer(None, "this").lose("intent-lead", 2).run()
    stage.answer("approve", about="INTENT.md").lose("intent-lead", 2).run()
    assert (stage.state, stage.fired("give-up"), stage.fired("dialog")) == ("PLAN", 0, 0)


def test_crashes_silence_and_violations_have_budgets_of_their_own() -> None:
    """Two of each, where the third of any kind would be one too many."""
    intent = [
        on(r"^\[INTENT\]", say("hm")),
        on(r"^\[PENDING\]", say("hm")),
        on(r"^\[PENDING\]", outcome("NONSENSE")),
        on(r"^\[VIOLATION\]", outcome("NONSENSE")),
        on(r"^\[VIOLATION\]", *ASSERT),
        INTENT[1],
    ]
    stage = JobHarness(book(intent=intent), crash_budget=3, retry_budget=2).lose("intent-lead", 2).run()
    assert (stage.record.pendings, stage.record.violations, stage.fired("recover")) == (2, 2, 2)
    assert stage.approve().state == "PLAN"
    assert stage.fired("dialog") == 0


def test_a_leads_lost_message_comes_first_again_and_from_its_own_sender() -> None:
    """Two doers report while the lead works; it dies over the first report, and reads that one first again."""
    intent = [
        on(r"^\[INTENT\]", send("writer", "look", "w"), send("researcher", "look", "r")),
        always("first", sleep(20), say("read")),
        always("second", say("read")),
    ]
    doers = {"writer": [on("look", say("first"))], "researcher": [on("look", sleep(3), say("second"))]}
    stage = JobHarness(book(intent=intent, **doers)).sleeping("intent-lead")
    stage.until(lambda s: any(row.sender == "researcher" for row in s.messages("intent-lead")))
    next(a for a in stage.turns.running.values() if a.order.agent == "intent-lead").dies_at = 0
    stage.until(lambda s: s.started("intent-lead") == 4)
    given = [(order.sender, words_of(order.message)) for order in stage.orders if order.agent == "intent-lead"]
    assert given[1:] == [("writer", "first"), ("writer", "first"), ("researcher", "second")]
    assert len(stage.messages("intent-lead", "orchestrator")) == 1  # its state's beginning: nothing is sent anew


def test_a_lead_that_is_given_up_keeps_its_mail_in_its_order_behind_the_dialog() -> None:
    intent = [
        on(r"^\[INTENT\]", send("writer", "look", "w"), send("researcher", "look", "r")),
        on("first", sleep(20), say("read")),
        on("second", *ASSERT),
    ]
    doers = {"writer": [on("look", say("first"))], "researcher": [on("look", sleep(3), say("second"))]}
    stage = JobHarness(book(intent=intent, **doers), crash_budget=1).sleeping("intent-lead")
    stage.until(lambda s: any(row.sender == "researcher" for row in s.messages("intent-lead")))
    next(a for a in stage.turns.running.values() if a.order.agent == "intent-lead").dies_at = 0
    stage.run()
    assert (stage.started("intent-lead"), stage.live.standing.asking) == (
        2,
        1,
    )  # the second report does not wake it meanwhile
    stage.answer("revise", "mind the gap").run()
    given = [(order.sender, words_of(order.message)) for order in stage.orders if order.agent == "intent-lead"]
    assert given[2:] == [("writer", "first\n\nThe human says: mind the gap"), ("researcher", "second")]


def spent(state: str = "INTENT", budget: int = 2, **play: Any) -> JobHarness:
    """A stage on which a lead was tried as often as it may, and the human was asked."""
    back = [
        always(r"^\[ANSWER backtrack plan\]", outcome("REPLAN"), state="EXECUTE"),
        always(r"^\[ANSWER backtrack intent\]", outcome("REALIGN")),
    ]
    stage = JobHarness(book(**{"execute": [*EXECUTE, *back], **play}), crash_budget=budget + 1)
    if state != "INTENT":
        stage.run().answer("approve").until(lambda s: s.state == "PLAN" and s.live.standing.asking)
        stage.answer("approve").until(lambda s: s.state == "EXECUTE")
    lead = "intent-lead" if state == "INTENT" else "project-lead"
    already = stage.busy(lead)
    if already:  # the turn that is under way is lost too
        for actor in stage.turns.running.values():
            actor.dies_at = 0
    return stage.lose(lead, budget + 1 - already).run()


def test_when_it_is_spent_the_human_is_asked_once() -> None:
    stage = spent()
    (asked,) = stage.soup.of(AskHuman)
    assert asked.question.kind is Kind.FAILURE
    assert stage.started("proxy") == 0  # it goes straight to the human
    assert stage.started("intent-lead") == 3
    text = stage.body(asked.framing)
    assert "INTENT is stuck: its agent lost 3 turns in a row, the last because it was killed by signal 9" in text
    assert all(option in text for option in ("--retry", "--approve", "--withdraw", "--fail"))
    assert "backtrack" not in text
    assert (stage.record.dialogs, stage.fired("dialog")) == (1, 1)


def test_the_human_is_offered_the_ways_back_that_the_state_has() -> None:
    stage = spent("EXECUTE")
    text = stage.body(stage.soup.of(AskHuman)[0].framing)
    assert "backtrack intent" in text
    assert "backtrack plan" in text


@pytest.mark.parametrize("words", ["", "once more"])
def test_retry_gives_the_lead_its_message_again_and_what_the_human_said(words: str) -> None:
    stage = spent().answer("approve", words).run()
    said = f"\n\nThe human says: {words}" if words else ""
    assert stage.told("intent-lead")[-1] == f"[INTENT] do it{said}"
    assert (stage.state, stage.live.standing.asking, stage.soup.of(Hold)) == ("INTENT", 1, ())


def test_retry_with_words_gives_the_lead_the_words_too() -> None:
    stage = spent().answer("revise", "mind the gap").run()
    assert stage.told("intent-lead")[-1] == "[INTENT] do it\n\nThe human says: mind the gap"


@pytest.mark.parametrize(
    "ruling, action, state",
    [("backtrack intent", "REALIGN", "INTENT"), ("backtrack plan", "REPLAN", "PLAN")],
)
def test_the_human_may_go_back_from_a_state_that_fails(ruling: str, action: str, state: str) -> None:
    stage = spent("EXECUTE").answer(ruling, "start over").run()
    assert (stage.state, stage.actions[-1], stage.record.backtrack_count) == (state, action, 1)
    assert stage.record.history[-1].actor == "orchestrator"
    lead = "intent-lead" if state == "INTENT" else "project-lead"
    assert stage.told(lead)[-1].startswith(f"[{state}] start over")


def test_a_way_back_that_the_state_does_not_have_is_a_retry() -> None:
    stage = spent().answer("backtrack plan", "there is none").run()
    assert (stage.state, stage.record.backtrack_count) == ("INTENT", 0)
    assert stage.told("intent-lead")[-1] == "[INTENT] do it\n\nThe human says: there is none"


def test_the_human_may_withdraw_a_job_that_fails() -> None:
    stage = spent().answer("withdraw", "not worth it").run()
    assert (stage.state, stage.record.history[-1].reason) == ("WITHDRAWN", "not worth it")


def test_the_human_may_let_it_fail() -> None:
    stage = spent().answer("fail", "it is not worth it").run()
    assert (stage.state, stage.record.history[-1].actor) == ("FAILURE", "orchestrator")
    assert stage.record.history[-1].reason == "it is not worth it"


@pytest.mark.parametrize("words", ["fail", " Fail\n", "what does fail mean?"])
def test_words_choose_nothing_they_are_advice_to_a_retry(words: str) -> None:
    stage = spent().answer(None, words).run()
    assert stage.state == "INTENT"
    assert stage.told("intent-lead")[-1].endswith(f"The human says: {words}")
    assert not audit(stage.outside, JOB, None).findings


@pytest.mark.parametrize("choice", ["abandon", "stop"])
def test_what_the_question_does_not_list_can_not_be_chosen(choice: str) -> None:
    stage = spent().answer(choice, "").run()
    note = next(note_words(row) for row in stage.outside.inputs(JOB, waiting=False) if row.kind == "answer")
    assert note == f"refused: {choice!r} is not a choice of this question; it has: retry, fail"
    assert stage.live.standing.asking == 1


def test_a_budget_spent_a_second_time_is_failure() -> None:
    stage = spent().answer("approve").lose("intent-lead", 3).run()
    assert stage.state == "FAILURE"
    assert (stage.fired("dialog"), stage.fired("escalate")) == (1, 1)
    assert "killed by signal 9" in stage.record.history[-1].reason


def test_where_the_human_is_never_asked_a_spent_budget_is_failure() -> None:
    stage = JobHarness(book(), "never").lose("intent-lead", 3).run()
    assert stage.state == "FAILURE"
    assert "its agent lost 3 turns in a row" in stage.record.history[-1].reason
    assert (stage.fired("dialog"), stage.fired("escalate")) == (0, 0)


def test_silence_spends_the_budget_too() -> None:
    stage = JobHarness(book(intent=[]), retry_budget=2).run()
    assert stage.told("intent-lead")[0] == "[INTENT] do it"
    assert [text[:9] for text in stage.told("intent-lead")[1:]] == ["[PENDING]"] * 2
    assert "without an outcome record" in stage.body(stage.soup.of(AskHuman)[0].framing)
    stage.answer("approve").run()
    assert stage.state == "FAILURE"


def test_a_failure_dialog_ends_with_the_state_that_it_is_about() -> None:
    """While the human thinks, they tell the lead something, and it finishes its state after all."""
    stage = JobHarness(book(intent=[on("INTERVENE", *ASSERT), INTENT[1]]), retry_budget=1).run()
    stage.intervene("write it down").run()
    assert stage.live.standing.asking == 2
    dialog = next(a for a in stage.soup.of(AskHuman) if a.question.kind is Kind.FAILURE)
    stage.answer("approve", about="INTENT.md").run()
    assert stage.state == "PLAN"
    assert [a.question.artifact for a in stage.soup.of(AskHuman)] == ["PLAN.md"]
    stage.put("answer", question=dialog.id, framing=dialog.framing, ruling="withdraw", text="old").run()
    assert stage.notes()[-1].startswith("too late")
    assert stage.state == "PLAN"


# ---- violations ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written, why",
    [
        ("not json", "is not JSON"),
        ('{"reason": "none"}', "names no outcome"),
        (outcome("APPROVED_WORK")["outcome"], "not an outcome of INTENT"),
        (outcome("REALIGN")["outcome"], "not an outcome of INTENT"),
        (outcome("FAILURE")["outcome"], "FAILURE is the orchestrator's to emit"),
        (outcome("PENDING")["outcome"], "'PENDING' is not an outcome of INTENT"),
        (outcome("DONE")["outcome"], "'DONE' is not an outcome of INTENT"),
        (outcome("approved_intent")["outcome"], "is not an outcome of INTENT"),
        (outcome("APPROVED_INTENT")["outcome"], "no live approval"),
        (outcome("WITHDRAW")["outcome"], "needs the verdict 'withdraw'"),
    ],
    ids=[
        "malformed",
        "nameless",
        "another state's",
        "no backtrack",
        "FAILURE",
        "a signal",
        "a state",
        "case",
        "early",
        "w",
    ],
)
def test_an_outcome_against_the_contract_is_a_violation_and_a_failure_of_the_state(written: Any, why: str) -> None:
    stage = JobHarness(book(intent=[on(r"^\[INTENT\]", {"outcome": written}), on(r"^\[VIOLATION\]", *ASSERT)])).run()
    told = stage.told("intent-lead")
    assert len(told) == 2
    assert told[1].startswith("[VIOLATION] ")
    assert why in told[1]
    assert (stage.state, stage.record.violations, stage.record.pendings, stage.actions) == ("INTENT", 1, 0, [])


def test_repeated_violations_end_in_failure() -> None:
    stage = JobHarness(book(intent=[always(".", outcome("NONSENSE"))], human=YES), retry_budget=2).run()
    assert (stage.state, stage.fired("dialog")) == ("FAILURE", 1)
    assert stage.started("intent-lead") == 6


def test_an_outcome_with_an_own_question_open_is_refused() -> None:
    intent = [on(r"^\[INTENT\]", *ASSERT, ask("and this?")), INTENT[1]]
    stage = JobHarness(book(intent=intent)).run().approve("INTENT.md")
    assert stage.state == "INTENT"
    assert "a question of yours is still open" in stage.told("intent-lead")[-1]


def test_an_outcome_in_the_turn_that_asks_is_refused() -> None:
    stage = JobHarness(
        book(plan=[on(r"^\[PLAN\]", write("PLAN.md", "p"), outcome("APPROVED_PLAN"), asserts("PLAN.md"))])
    )
    stage.run().approve()
    assert stage.state == "PLAN"
    assert "a question of yours is still open" in stage.told("project-lead")[1]
