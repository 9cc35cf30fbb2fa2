"""Interventions: when they reach whom, and that none of them gets lost."""

from __future__ import annotations

from typing import Any

import pytest

from parley.protocol.molecules import AskHuman, Hold, Interrupt
from parley.views.history.chronicle import Follower
from parley.views.history.interventions import interventions
from parley.views.job_view import Present, past
from parley.views.questions.needs import Need, needs
from tests.engine.job_harness import (
    INTENT,
    JOB,
    PLAN,
    YES,
    JobHarness,
    always,
    asserts,
    book,
    on,
    outcome,
    run_of,
    say,
    send,
    sleep,
    words_of,
    write,
)

LEAD = "intent-lead"
HERE = "state:j1/1"
ASSERT = [write("INTENT.md", "x"), asserts("INTENT.md")]
SEEN = always("INTERVENE", say("seen"))
SLOW = [on(r"^\[INTENT\]", sleep(9), *ASSERT), on("INTERVENE", sleep(1)), INTENT[1]]


def test_an_intervention_waits_for_the_turns_end_and_goes_before_mail() -> None:
    intent = [on(r"^\[INTENT\]", send("writer", "look")), on("seen", sleep(9)), always(".", sleep(1))]
    stage = JobHarness(book(intent=intent, writer=[on("look", send("nobody", ""), say("seen"))]))
    stage.until(lambda s: s.started(LEAD) == 2 and s.slept(LEAD))
    stage.intervene("first", HERE).intervene("second", HERE).crank()
    left = f"left for {LEAD} on {HERE}; it is delivered when the turn under way ends"
    assert stage.notes() == [left] * 2
    assert [one.status for one in interventions(stage.outside, JOB)] == ["waiting"] * 2
    assert stage.started(LEAD) == 2
    stage.until(lambda s: s.started(LEAD) == 4)
    assert stage.told(LEAD)[2:] == ["[INTERVENE advisory] first", "[INTERVENE advisory] second"]
    assert (stage.fired("interrupt"), stage.fired("wake-int")) == (0, 2)


def test_an_intervention_goes_before_mail_that_came_earlier() -> None:
    intent = [on(r"^\[INTENT\]", send("writer", "look")), SEEN, on("written", *ASSERT)]
    stage = JobHarness(book(intent=intent, writer=[on("look", sleep(2), say("written"))])).sleeping("writer")
    stage.pause().run()
    stage.intervene("first", HERE).run()
    assert (stage.fired("send"), stage.started(LEAD)) == (1, 1)
    stage.resume().run()
    assert [words_of(text) for text in stage.told(LEAD)[1:]] == ["[INTERVENE advisory] first", "written"]


def test_an_idle_instance_is_woken_at_once() -> None:
    stage = JobHarness(book(intent=[on(r"^\[INTENT\]", *ASSERT), SEEN])).run().intervene("hello", HERE).run()
    assert stage.told(LEAD)[1] == "[INTERVENE advisory] hello"
    assert stage.notes() == [f"left for {LEAD} on {HERE}; it wakes it"]  # what is so when it is put
    (one,) = interventions(stage.outside, JOB)
    assert (one.status, one.who, one.text) == ("delivered", f"{LEAD} on {HERE}", "hello")


def test_now_abandons_the_turn_and_starts_one_on_the_new_message() -> None:
    intent = [on(r"^\[INTENT\]", send("writer", "look"), write("a.txt", "a"), sleep(20)), on("INTERVENE", *ASSERT)]
    stage = JobHarness(book(intent=intent)).sleeping(LEAD)
    abandoned = stage.order(LEAD)
    stage.intervene("stop that", HERE, now=True).run()
    (step,) = stage.steps("interrupt")
    assert run_of(step.consumed) == "m2"  # the message of the visit: recorded as what was given up
    assert stage.body(run_of(step.produced)) == "[INTERVENE advisory] stop that"
    assert stage.told(LEAD) == ["[INTENT] do it", "[INTERVENE advisory] stop that"]
    turns = {turn.turn: turn.status for turn in stage.outside.turns("j1")}
    assert turns[abandoned.turn] == "lost"
    assert stage.started("writer") == 0  # what the abandoned turn had called is of no effect
    stage.call(abandoned, "Send", to="writer", text="late").crank()
    assert stage.refusals == ["this turn is over"]


def test_now_on_an_idle_instance_wakes_it() -> None:
    stage = JobHarness(book(intent=[on(r"^\[INTENT\]", *ASSERT), SEEN])).run().intervene("hello", HERE, now=True).run()
    assert (stage.fired("interrupt"), stage.fired("wake-int")) == (0, 1)


def test_a_worker_can_be_redirected() -> None:
    writer = [on("INTERVENE", say("done otherwise")), on("look", sleep(20), say("seen"))]
    stage = JobHarness(book(intent=[on(r"^\[INTENT\]", send("writer", "look")), on("done", *ASSERT)], writer=writer))
    stage.sleeping("writer")
    stage.intervene("otherwise", stage.thread("writer"), now=True).run()
    assert words_of(stage.told(LEAD)[1]) == "done otherwise"


def test_an_intervention_on_the_jobs_thread_reaches_the_current_lead() -> None:
    stage = JobHarness(book(intent=[on(r"^\[INTENT\]", *ASSERT), SEEN])).run().intervene("hello").run()
    assert stage.told(LEAD)[1] == "[INTERVENE advisory] hello"
    woken = [step.at for step in stage.steps("wake-int")]
    assert [at.split(" ")[:2] for at in woken] == [["orchestrator", "job:j1"], [LEAD, HERE]]


@pytest.mark.parametrize("paused", [False, True])
def test_one_for_the_job_reaches_the_next_lead_where_this_one_does_not_take_it(paused: bool) -> None:
    """The lead's turn ends with its outcome: the next state's lead hears it."""
    intent = [INTENT[0], on(r"^\[ANSWER approve\]", outcome("APPROVED_INTENT"), sleep(9))]
    stage = JobHarness(book(intent=intent, plan=[SEEN, *PLAN], human=YES))
    stage.until(lambda s: s.started(LEAD) == 2 and s.slept(LEAD))
    if paused:
        stage.pause().run().intervene("in German").run().resume()
    else:
        stage.intervene("in German")
    stage.run()
    assert stage.started(LEAD) == 2
    assert "[INTERVENE advisory] in German" in stage.told("project-lead")[:2]
    assert stage.state == "DONE"


def test_one_for_a_state_that_is_left_is_undelivered_and_recorded_so() -> None:
    intent = [INTENT[0], on(r"^\[ANSWER approve\]", outcome("APPROVED_INTENT"), sleep(9))]
    stage = JobHarness(book(intent=intent, plan=[SEEN, *PLAN], human=YES))
    stage.until(lambda s: s.started(LEAD) == 2 and s.slept(LEAD))
    stage.intervene("only you", HERE).run()
    assert (stage.state, stage.fired("term-interrupt")) == ("DONE", 1)
    assert not any("only you" in order.message for order in stage.orders)
    (one,) = interventions(stage.outside, JOB)
    assert (one.status, one.who, one.reason) == ("undelivered", f"{LEAD} on {HERE}", "its state was left")
    log = [event.text for event in Follower(stage.outside, JOB).read() if event.kind == "intervention"]
    left = f"was left undelivered: its state was left before {LEAD} on {HERE} had taken it up"
    assert log == [f"ada's intervention 'only you' {left}"]


def test_one_that_a_transition_left_undelivered_needs_the_human_until_they_speak_again() -> None:
    intent = [INTENT[0], on(r"^\[ANSWER approve\]", outcome("APPROVED_INTENT"), sleep(9))]
    stage = JobHarness(book(intent=intent, plan=[SEEN, *PLAN]))
    stage.run().answer("approve").until(lambda s: s.started(LEAD) == 2 and s.slept(LEAD))
    stage.intervene("it's only for you", HERE, authoritative=False).run()
    (need,) = [need for need in found_needs(stage) if need.kind == "undelivered"]
    assert "was not delivered: its state was left" in need.body
    assert need.exits[0].command == f"parley intervene {JOB} 'it'\"'\"'s only for you'"
    stage.intervene("again, then").run()
    assert [need.kind for need in found_needs(stage)] == ["gate"]


def found_needs(stage: JobHarness) -> list[Need]:
    return needs(stage.outside, stage.engine.world.files)


def test_one_for_the_job_that_a_state_leaves_goes_on_and_its_log_says_to_whom() -> None:
    intent = [INTENT[0], on(r"^\[ANSWER approve\]", outcome("APPROVED_INTENT"), sleep(9))]
    stage = JobHarness(book(intent=intent, plan=[SEEN, *PLAN], human=YES))
    stage.until(lambda s: s.started(LEAD) == 2 and s.slept(LEAD))
    stage.intervene("in German").crank()
    assert stage.notes()[-1] == "left for the lead of INTENT; it is delivered when the turn under way ends"
    stage.run()
    (one,) = interventions(stage.outside, JOB)
    assert (one.status, one.agent) == ("delivered", "project-lead")
    log = [event.text for event in Follower(stage.outside, JOB).read() if event.kind == "intervention"]
    assert log == ["ada's intervention 'in German' is delivered to project-lead on state:j1/2"]


def test_one_whose_turn_is_lost_is_not_delivered_until_the_next_has_it() -> None:
    stage = JobHarness(book(intent=[on(r"^\[INTENT\]", *ASSERT), on("INTERVENE", sleep(9), say("seen"))])).run()
    stage.intervene("hello", HERE).sleeping(LEAD)
    stage.kill()
    stage.adopt().run()
    (one,) = interventions(stage.outside, JOB)
    assert one.status == "delivered"
    log = [event.text for event in Follower(stage.outside, JOB).read() if event.kind == "intervention"]
    assert [text.partition("'hello' ")[2].split(" ")[0] for text in log] == ["is", "is"]


def test_one_whose_turn_another_cuts_short_says_so() -> None:
    stage = JobHarness(book(intent=[on(r"^\[INTENT\]", *ASSERT), on("first", sleep(9)), SEEN])).run()
    stage.intervene("first", HERE).sleeping(LEAD).intervene("second", HERE, now=True).run()
    first, second = interventions(stage.outside, JOB)
    assert (first.status, second.status) == ("cut short", "delivered")
    assert "another intervention cut that turn short" in first.words(str)
    assert [need.kind for need in found_needs(stage)] == ["gate"]


def test_what_the_jobs_end_leaves_undelivered_is_told() -> None:
    stage = JobHarness(book(intent=[on(r"^\[INTENT\]", sleep(9), *ASSERT)])).sleeping(LEAD)
    stage.intervene("late words", HERE).crank()
    stage.withdraw().run()
    (one,) = interventions(stage.outside, JOB)
    assert (one.status, one.reason) == ("undelivered", "it was withdrawn")


def test_no_part_of_a_job_is_withdrawn_that_leads_it() -> None:
    stage = JobHarness(book()).run().withdraw(HERE).run()
    assert stage.state == "INTENT"
    assert stage.notes() == [f"refused: {HERE} is where a state is led: withdraw the whole job, or redirect the lead"]


def test_one_for_a_thread_that_is_gone_comes_too_late() -> None:
    stage = JobHarness(book()).run().approve().intervene("hello", HERE).intervene("hello", "dispatch:none").run()
    assert stage.notes()[1:] == [
        "too late: there is no state:j1/1 any more",
        "too late: there is no dispatch:none any more",
    ]


# ---- authoritative ---------------------------------------------------------------------------------


@pytest.mark.parametrize("thread", ["", HERE])
def test_an_authoritative_one_is_taken_up_before_an_outcome_counts(thread: str) -> None:
    intent = [
        INTENT[0],
        on(r"^\[ANSWER approve\]", outcome("APPROVED_INTENT"), sleep(9)),
        on("INTERVENE authoritative", outcome("APPROVED_INTENT", "as it was said")),
    ]
    stage = JobHarness(book(intent=intent, human=YES))
    stage.until(lambda s: s.started(LEAD) == 2 and s.slept(LEAD))
    stage.intervene("in German", thread, authoritative=True).run()
    assert stage.told(LEAD)[2] == "[INTERVENE authoritative] in German"
    assert stage.state == "DONE"
    assert stage.record.history[0].reason == "as it was said"  # the first outcome did not count
    assert stage.fired("strike") == 0  # and that was nobody's fault


def test_an_advisory_one_does_not_hold_an_outcome_up() -> None:
    intent = [INTENT[0], on(r"^\[ANSWER approve\]", outcome("APPROVED_INTENT"), sleep(9)), SEEN]
    stage = JobHarness(book(intent=intent, human=YES))
    stage.until(lambda s: s.started(LEAD) == 2 and s.slept(LEAD))
    stage.intervene("in German", HERE).run()
    assert (stage.state, stage.started(LEAD)) == ("DONE", 2)


def test_an_authoritative_one_waits_through_a_pause_too() -> None:
    intent = [
        INTENT[0],
        on(r"^\[ANSWER approve\]", outcome("APPROVED_INTENT"), sleep(9)),
        on("INTERVENE", outcome("APPROVED_INTENT", "as it was said")),
    ]
    stage = JobHarness(book(intent=intent, human=YES))
    stage.until(lambda s: s.started(LEAD) == 2 and s.slept(LEAD))
    stage.pause().run()
    stage.intervene("in German", authoritative=True).run()
    assert stage.actions == []
    stage.resume().run()
    assert stage.record.history[0].reason == "as it was said"


# ---- crashes ---------------------------------------------------------------------------------------


def test_after_a_crash_of_the_process_it_is_the_interrupt_that_comes_back() -> None:
    stage = JobHarness(book(intent=[on(r"^\[INTENT\]", *ASSERT), on("INTERVENE", sleep(20))])).run()
    stage.intervene("hello", HERE, authoritative=True).until(lambda s: s.started(LEAD) == 2 and s.slept(LEAD))
    stage.kill()
    stage.adopt()
    assert stage.fired("recover") == 1
    assert stage.steps("recover")[0].produced.count("Interrupt state:j1/1") == 1
    stage.running(LEAD, 3)
    assert stage.told(LEAD)[2] == "[INTERVENE authoritative] hello"


def test_after_a_workers_crash_it_is_the_interrupt_that_comes_back() -> None:
    writer = [on("INTERVENE", say("done otherwise")), on("look", sleep(20), say("seen"))]
    stage = JobHarness(book(intent=[on(r"^\[INTENT\]", send("writer", "look")), on("done", *ASSERT)], writer=writer))
    stage.sleeping("writer").lose("writer", 2)
    stage.intervene("otherwise", stage.thread("writer"), now=True).run()
    assert stage.told("writer") == ["look", *["[INTERVENE advisory] otherwise"] * 3]
    assert words_of(stage.told(LEAD)[1]) == "done otherwise"


@pytest.mark.parametrize("thread", ["", HERE])
def test_after_a_leads_crash_an_authoritative_one_still_goes_before_the_mail_that_waits(thread: str) -> None:
    """The approval comes while the lead dies over the intervention: it must not count first."""
    intent = [
        INTENT[0],
        on("INTERVENE", sleep(20), say("taken up")),
        on(r"^\[ANSWER approve\]", outcome("APPROVED_INTENT")),
    ]
    stage = JobHarness(book(intent=intent)).run()
    stage.intervene("in German", thread, authoritative=True).until(lambda s: s.started(LEAD) == 2 and s.slept(LEAD))
    stage.answer("approve").until(lambda s: s.fired("respond"))
    next(a for a in stage.turns.running.values() if a.order.agent == LEAD).dies_at = 0
    stage.run()
    assert [text.partition("]")[0] for text in stage.told(LEAD)] == [
        "[INTENT", "[INTERVENE authoritative", "[INTERVENE authoritative", "[ANSWER approve",
    ]  # fmt: skip
    assert (stage.state, stage.fired("recover"), stage.fired("strike")) == ("PLAN", 1, 0)
    assert stage.soup.of(Interrupt) == ()


# ---- behind a failure ------------------------------------------------------------------------------


def behind_a_dialog(thread: str = "", tries: int = 2) -> JobHarness:
    """A lead that died over an authoritative intervention until the human was asked about it."""
    intent = [INTENT[0], always("INTERVENE", sleep(9), say("heard")), INTENT[1]]
    stage = JobHarness(book(intent=intent), crash_budget=tries).run()
    stage.answer("approve").pause().run()  # the approval is there, and would open the gate
    stage.intervene("in German", thread, authoritative=True).lose(LEAD, tries).resume().run()
    assert [asked.question.kind for asked in stage.soup.of(AskHuman)] == ["failure"]
    return stage


@pytest.mark.parametrize("thread", ["", HERE])
def test_an_authoritative_one_behind_a_failure_dialog_is_heard_before_any_outcome_counts(thread: str) -> None:
    stage = behind_a_dialog(thread)
    (waiting,) = stage.soup.of(Interrupt)
    assert (waiting.authoritative, waiting.thread, stage.state) == (True, HERE, "INTENT")
    assert len(stage.soup.all(Hold, HERE)) == 1
    doing = {thread.agent: thread.doing for thread in Present(stage.outside, "j1").threads()}
    assert doing[LEAD] == "waits for your word: it is stuck"
    told = len(stage.told(LEAD))
    stage.answer("revise", "try once more").run()
    assert stage.told(LEAD)[told] == "[INTERVENE authoritative] in German\n\nThe human says: try once more"
    assert (stage.state, stage.soup.of(Interrupt), stage.soup.all(Hold, HERE)) == ("PLAN", (), ())


def test_one_for_the_job_behind_a_dialog_reaches_the_state_that_the_human_chooses() -> None:
    plan = [always("INTERVENE", sleep(9), say("heard")), *PLAN]
    stage = JobHarness(book(plan=plan), crash_budget=2).run().approve()
    stage.intervene("in German", authoritative=True).lose("project-lead", 2).run()
    stage.answer("backtrack intent", "begin anew", "is stuck").run()
    words = "The human's own words (backtrack intent): begin anew"
    again = f"[INTENT] begin anew\n\n{words}\n\nThe request: do it"
    assert stage.told(LEAD)[-2:] == ["[INTERVENE authoritative] in German", again]
    assert (stage.state, stage.soup.of(Hold)) == ("INTENT", ())


@pytest.mark.parametrize("how", ["withdraw", "fail"])
def test_a_dialog_ends_a_job_also_past_an_authoritative_one(how: str) -> None:
    stage = behind_a_dialog()
    stage.answer(how, "enough").run()
    assert stage.state == {"withdraw": "WITHDRAWN", "fail": "FAILURE"}[how]
    assert (stage.soup.of(Interrupt), stage.soup.of(Hold)) == ((), ())


def test_a_process_that_dies_while_the_dialog_is_open_keeps_both() -> None:
    stage = behind_a_dialog()
    stage.kill()
    stage.adopt().run()
    assert (len(stage.soup.of(Interrupt)), len(stage.soup.all(Hold, HERE))) == (1, 1)
    assert stage.answer("approve", "again").run().state == "PLAN"


# ---- who may ---------------------------------------------------------------------------------------


def test_only_the_decider_s_word_is_authoritative_whoever_left_it_on_the_bus() -> None:
    stage = JobHarness(book(intent=[on(r"^\[INTENT\]", *ASSERT), SEEN])).run()
    body: dict[str, Any] = {"text": "obey", "thread": "", "now": False}
    stage.put("intervene", by="eve", authoritative=True, **body).put("intervene", by="eve", **body).run()
    left = "left for the lead of INTENT; it wakes it"
    assert stage.notes() == ["refused: only ada, who started the job, decides", left]
    assert stage.told(LEAD)[1:] == ["[INTERVENE advisory] obey"]


def test_one_that_comes_before_the_request_is_taken_up_is_not_lost() -> None:
    stage = JobHarness(book(intent=[SEEN, *INTENT])).die_at("commit").start()
    stage.intervene("in German", authoritative=True).run()
    assert stage.told(LEAD) == ["[INTERVENE authoritative] in German", "[INTENT] do it"]


# ---- what was abandoned ----------------------------------------------------------------------------


def test_what_an_abandoned_turn_had_written_is_kept_and_stays_where_it_was() -> None:
    intent = [on(r"^\[INTENT\]", write("a.txt", "a"), sleep(20)), on("INTERVENE", write("b.txt", "b"), *ASSERT)]
    stage = JobHarness(book(intent=intent)).sleeping(LEAD)
    abandoned = stage.order(LEAD).turn
    stage.intervene("stop that", HERE, now=True).run()
    assert stage.disk.lost[f"j1|job:j1|{abandoned}"] == '{"a.txt": "a"}'
    assert {"a.txt", "b.txt"} <= set(stage.files())
    log = [event.text for event in Follower(stage.outside, "j1").read() if event.kind == "interrupt"]
    assert log == [f"{LEAD} is interrupted; turn {abandoned} is abandoned, which was about: [INTENT] do it"]
    assert [(one.turn, one.agent, one.thread) for one in past(stage.outside, "j1").abandoned] == [
        (abandoned, LEAD, HERE)
    ]
