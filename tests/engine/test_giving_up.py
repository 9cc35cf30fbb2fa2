"""Giving up means giving up: a human's `withdraw` on any question ends the job, whatever the agent that asked does."""

from __future__ import annotations

from typing import Any

import pytest

from parley.engine.giving_up import LAST_WORD_SECONDS
from parley.protocol.molecules import AskHuman, Surface
from tests.engine.job_harness import (
    CRASH,
    EXECUTE,
    YES,
    Action,
    JobHarness,
    always,
    ask,
    asserts,
    book,
    on,
    outcome,
    say,
    send,
    sleep,
    tell,
    write,
)

LEAD = "intent-lead"
ASSERT = [write("INTENT.md", "x"), asserts("INTENT.md")]
MARKER = r"^\[WITHDRAW\]\nenough$"
OTHERS = [{**YES[0], "state": state} for state in ("INTENT", "PLAN")]


def given_up(stage: JobHarness, actor: str = "human") -> None:
    """The job ended as the human said, by one transaction after which nothing happens; no one was blamed for it."""
    last = stage.record.history[-1]
    assert (stage.state, last.action, last.actor) == ("WITHDRAWN", "WITHDRAW", actor)
    assert [stage.fired(rule) for rule in ("strike", "dialog", "pending")] == [0, 0, 0]
    assert not any("[VIOLATION]" in row.body for row in stage.messages())
    assert stage.soup.of(Surface) == ()
    assert not stage.turns.running
    (step,) = [s for s in stage.steps("transition") if "WITHDRAW" in s.choice]
    assert step.transaction == stage.steps()[-1].transaction


# ---- the job's lead has asked ----------------------------------------------------------------------


def test_the_lead_that_asked_gets_the_marker_and_writes_its_outcome() -> None:
    intent = [on(r"^\[INTENT\]", *ASSERT), on(MARKER, outcome("WITHDRAW", "the human has had enough"))]
    stage = JobHarness(book(intent=intent)).run().answer("withdraw", "enough").run()
    assert stage.told(LEAD)[-1] == "[WITHDRAW]\nenough"
    given_up(stage, LEAD)
    assert stage.record.history[-1].reason == "the human has had enough"


DEAF: dict[str, list[Action]] = {
    "nothing": [],
    "words": [say("I would rather not")],
    "another outcome": [outcome("APPROVED_INTENT")],
    "an outcome of another state": [outcome("REPLAN")],
    "no outcome at all": [outcome("NONSENSE")],
    "half an outcome": [outcome("WITHDRAW", "")],
    "the same assert again": [asserts("INTENT.md")],
    "a question": [ask("really?")],
    "a dispatch": [send("writer", "look")],
    "a crash": [CRASH],
    "an outcome and a crash": [outcome("APPROVED_INTENT"), CRASH],
}


@pytest.mark.parametrize("deed", DEAF)
def test_a_lead_that_does_not_honour_it_changes_nothing(deed: str) -> None:
    intent = [on(r"^\[INTENT\]", *ASSERT), always(".", *DEAF[deed])]
    stage = JobHarness(book(intent=intent, writer=[always(".", sleep(5))])).run().answer("withdraw", "enough").run()
    assert stage.told(LEAD)[-1] == "[WITHDRAW]\nenough"
    assert (stage.started(LEAD), stage.started("writer")) == (2, 0)
    given_up(stage)
    asked = stage.steps("human-reply")[0].at
    assert stage.record.history[-1].reason == f"enough (the answer to question {asked} of {LEAD})"


def test_a_lead_that_takes_too_long_changes_nothing() -> None:
    stage = JobHarness(book(intent=[on(r"^\[INTENT\]", *ASSERT), on("WITHDRAW", sleep(500))])).run()
    given_up(stage.answer("withdraw", "enough").run())


def test_a_lead_that_does_not_come_to_an_end_keeps_no_agent_of_the_job_at_work() -> None:
    intent = [on(r"^\[INTENT\]", send("writer", "look"), *ASSERT), on("WITHDRAW", sleep(50_000))]
    stage = JobHarness(book(intent=intent, writer=[always(".", sleep(50_000))])).run()
    begun = stage.clock.time
    stage.answer("withdraw", "enough").run()
    given_up(stage)
    assert stage.clock.time - begun < 2 * LAST_WORD_SECONDS


@pytest.mark.parametrize("kind", ["pause", "turns"])
def test_a_lead_that_is_held_is_not_waited_for(kind: str) -> None:
    limits: dict[str, Any] = {"budget": {"job": {"turns": 1}, "day": {}}} if kind == "turns" else {}
    stage = JobHarness(
        book(intent=[on(r"^\[INTENT\]", *ASSERT), on("WITHDRAW", sleep(5))]), brief_human=False, **limits
    )
    stage.run()
    if kind == "pause":
        stage.pause().run()
    stage.answer("withdraw", "enough").run()
    assert stage.started(LEAD) == 1
    given_up(stage)


def test_a_lead_that_is_busy_with_something_else_is_not_waited_for() -> None:
    intent = [on(r"^\[INTENT\]", send("writer", "look"), *ASSERT), on("seen", sleep(30))]
    stage = JobHarness(book(intent=intent, writer=[on("look", say("seen"))])).until(lambda s: s.started(LEAD) == 2)
    stage.until(lambda s: s.live.standing.asking).answer("withdraw", "enough").run()
    assert stage.started(LEAD) == 2
    given_up(stage)
    (step,) = [s for s in stage.steps("transition") if "WITHDRAW" in s.choice]
    assert stage.steps("respond")[0].transaction == step.transaction


def test_nothing_overtakes_it() -> None:
    """Whatever else is answered while the lead has its last turn: its state is given up."""
    intent = [
        on(r"^\[INTENT\]", write("INTENT.md", "x"), ask("shall we?"), asserts("INTENT.md")),
        on(MARKER, sleep(5), outcome("APPROVED_INTENT")),
    ]
    stage = JobHarness(book(intent=intent)).run().answer("withdraw", "enough", "shall we").sleeping(LEAD)
    stage.answer("approve", "yes", "INTENT.md").run()
    assert stage.notes() == ["answered", "answered"]
    given_up(stage)


def test_an_open_question_does_not_keep_the_lead_from_giving_up() -> None:
    opening = on(r"^\[INTENT\]", write("INTENT.md", "x"), ask("shall we?"), asserts("INTENT.md"))
    stage = JobHarness(book(intent=[opening, on(MARKER, outcome("WITHDRAW"))])).run()
    given_up(stage.answer("withdraw", "enough", "shall we").run(), LEAD)


def test_it_counts_on_an_assert_that_was_put_forward_anew() -> None:
    intent = [
        on(r"^\[INTENT\]", *ASSERT, send("writer", "look")),
        on("seen", write("INTENT.md", "y"), asserts("INTENT.md", "now?")),
    ]
    stage = JobHarness(book(intent=intent, writer=[on("look", say("seen"))])).run()
    older = min(stage.soup.of(AskHuman), key=lambda asked: int(asked.framing[1:]))
    stage.put("answer", question=older.id, framing=older.framing, ruling="withdraw", text="enough").run()
    given_up(stage)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_that_dies_over_it_leaves_it_to_the_next(when: str) -> None:
    stage = JobHarness(book(intent=[on(r"^\[INTENT\]", *ASSERT), on("WITHDRAW", sleep(5), say("no"))])).run()
    for number in (1, 2):
        again = JobHarness(book(intent=[on(r"^\[INTENT\]", *ASSERT), on("WITHDRAW", sleep(5), say("no"))])).run()
        given_up(again.answer("withdraw", "enough").die_at("commit", number, when).run())
    stage.answer("withdraw", "enough").sleeping(LEAD).kill()
    given_up(stage.adopt().run())


def test_the_failure_dialogs_withdrawal_does_not_wait_for_a_pause_to_end() -> None:
    stage = JobHarness(book(intent=[always(".", outcome("NONSENSE"))]), retry_budget=1).run().pause().run()
    stage.answer("withdraw", "enough").run()
    assert (stage.state, stage.record.history[-1].actor) == ("WITHDRAWN", "human")


# ---- another agent has asked -----------------------------------------------------------------------


TEAM = on("never", send("helper", "help"))
ASKERS: dict[str, dict[str, Any]] = {
    "coder": {"execute": [on(r"^\[EXECUTE\]", send("coder", "go")), *EXECUTE], "coder": [on("^go$", ask("how?"))]},
    "squad": {"squad": [TEAM, on("^go$", ask("how?"))]},
    "helper": {"squad": [on("^go$", send("helper", "help"))], "helper": [on("help", ask("how?"))]},
    "inner lead's gate": {"squad": [TEAM, on("^go$", write("PLAN.md", "p"), asserts("PLAN.md", "how?"))]},
}
GO = [on(r"^\[EXECUTE\]", send("squad", "go"), send("writer", "look")), *EXECUTE]


@pytest.mark.parametrize("who", ASKERS)
def test_whoever_has_asked_the_whole_job_is_given_up_in_one_transaction(who: str) -> None:
    given: dict[str, Any] = {"execute": GO, "helper": [], "writer": [on("look", sleep(60))], **ASKERS[who]}
    human = [{**rule, "match": "right"} for rule in OTHERS]
    stage = JobHarness(book(human=human, **given)).until(
        lambda s: any("how" in s.body(a.framing) for a in s.soup.of(AskHuman))
    )
    (asked,) = [a for a in stage.soup.of(AskHuman) if "how" in stage.body(a.framing)]
    turns = len(stage.orders)
    stage.answer("withdraw", "enough", "how").run()
    given_up(stage)
    assert len(stage.orders) == turns
    assert stage.record.history[-1].reason == f"enough (the answer to question {asked.id} of {asked.agent})"
    (step,) = [s for s in stage.steps("transition") if "WITHDRAW" in s.choice]
    together = [s.rule for s in stage.steps() if s.transaction == step.transaction]
    assert [rule for rule in together if rule in ("human-reply", "respond", "transition", "withdraw")] == [
        "human-reply",
        "respond",
        "transition",
        "withdraw",
    ]
    (marker,) = [row for row in stage.messages() if row.body.startswith("[WITHDRAW]")]
    assert (marker.agent, marker.body) == (asked.agent, "[WITHDRAW]\nenough")
    assert {str(record.state) for record in stage.subteams} <= {"WITHDRAWN"}


def test_what_is_said_after_it_comes_too_late() -> None:
    execute = [on(r"^\[EXECUTE\]", send("coder", "go"), send("coder", "go")), *EXECUTE]
    stage = JobHarness(book(human=OTHERS, execute=execute, coder=[always("^go$", ask("how?"))])).run()
    for asked, ruling in zip(stage.soup.of(AskHuman), ("withdraw", None), strict=True):
        stage.put("answer", question=asked.id, framing=asked.framing, ruling=ruling, text="so")
    stage.run()
    assert [note.partition(":")[0] for note in stage.notes()[-2:]] == ["answered", "too late"]
    given_up(stage)


def test_a_part_is_given_up_by_its_thread_and_the_job_goes_on() -> None:
    execute = [on(r"^\[EXECUTE\]", send("coder", "go")), on("FAILED", *EXECUTE[0]["do"]), *EXECUTE]
    stage = JobHarness(
        book(human=[*OTHERS, {**YES[0], "match": "right"}], execute=execute, coder=[on("^go$", ask("how?"))])
    )
    stage.run().withdraw(stage.thread("coder"), "not that").run()
    assert stage.state == "DONE"


# ---- a way back ------------------------------------------------------------------------------------


def asking(*execute: Any, **agents: Any) -> JobHarness:
    """A doer has asked in EXECUTE."""
    coder = agents.pop("coder", [on("^go$", ask("how?")), on("ANSWER", say("heard"))])
    rules = [on(r"^\[EXECUTE\]", send("coder", "go"), state="EXECUTE"), *execute, *EXECUTE]
    human = [{**rule, "match": "right", "visit": 1} for rule in OTHERS]
    return JobHarness(book(human=human, execute=rules, coder=coder, **agents)).run()


def test_a_way_back_that_is_given_to_a_doer_is_its_leads_to_go() -> None:
    stage = asking(on(r"^\[ANSWER backtrack plan\]", outcome("REPLAN", "as was said"), state="EXECUTE"))
    (asked,) = stage.soup.of(AskHuman)
    stage.answer("backtrack plan", "think again").until(lambda s: s.state == "PLAN")
    told = next(text for text in stage.told("project-lead") if "backtrack" in text)
    assert told == (
        f"[ANSWER backtrack plan] (from the human; question {asked.id} of coder on {asked.thread}) think again"
    )
    last = stage.record.history[-1]
    assert (last.action, last.actor, stage.fired("strike"), stage.refusals) == ("REPLAN", "project-lead", 0, [])
    respond, relay = stage.steps("respond")[-1], stage.steps("relay")[-1]
    assert relay.transaction == respond.transaction
    (answer,) = stage.messages(to="coder")[1:]
    assert answer.body == f"[ANSWER backtrack plan] (from the human; question {asked.id}) think again"
    assert stage.record.backtrack_count == 1
    assert "think again" in stage.run().told("project-lead")[-1]


def test_a_way_back_that_leads_nowhere_from_here_is_words() -> None:
    """In PLAN there is no way back to PLAN."""
    plan = [on(r"^\[PLAN\]", send("writer", "look")), on("seen", say("well"))]
    stage = JobHarness(book(plan=plan, human=[OTHERS[0]], writer=[on("look", ask("how?")), on("ANSWER", say("seen"))]))
    stage.run().answer("backtrack plan", "think again").until(lambda s: s.started("project-lead") == 2)
    assert (stage.fired("relay"), stage.verdicts()) == (0, [])


def test_a_way_back_below_a_subteam_is_the_subteams() -> None:
    squad = [
        on("^go$", send("helper", "help")),
        on(r"^\[ANSWER backtrack intent\]", tell("dispatcher", "we have to go back")),
    ]
    human = [{**rule, "match": "right"} for rule in OTHERS]
    given = {"execute": [on(r"^\[EXECUTE\]", send("squad", "go")), *EXECUTE], "helper": [on("help", ask("how?"))]}
    stage = JobHarness(book(human=human, squad=squad, **given)).run()
    stage.answer("backtrack intent", "no", "how").until(lambda s: s.started("squad") == 2)
    assert stage.told("squad")[1].startswith("[ANSWER backtrack intent] (from the human; question ")
    assert stage.steps("relay")[0].at.startswith(stage.thread("squad"))


def test_a_way_back_that_the_proxy_gives_is_the_proxys() -> None:
    execute = [
        on(r"^\[EXECUTE\]", send("coder", "go"), state="EXECUTE"),
        on(r"^\[ANSWER backtrack plan\] \(from the proxy", outcome("REPLAN"), state="EXECUTE"),
        *EXECUTE,
    ]
    back = on("how", {"answer": {"verdict": "backtrack plan", "text": "think"}})
    yes = always("QUESTION", {"answer": {"verdict": "approve", "text": "ok"}})
    stage = JobHarness(book(execute=execute, coder=[on("^go$", ask("how?"))], proxy=[back, yes]), "never")
    stage.until(lambda s: s.record.backtrack_count == 1)
    assert stage.record.history[-1].action == "REPLAN"


@pytest.mark.parametrize("policy", ["never", "when_unsure", "always"])
def test_the_proxy_gives_nothing_up(policy: str) -> None:
    proxy = [always("QUESTION", {"answer": {"verdict": "withdraw", "text": "hopeless"}})]
    stage = JobHarness(
        book(proxy=proxy, intent=[on(r"^\[INTENT\]", *ASSERT), always(".", outcome("WITHDRAW"))]), policy
    )
    stage.run()
    assert stage.state == ("FAILURE" if policy == "never" else "INTENT")
    assert (stage.verdicts(), stage.fired("human-reply")) == ([], 0)
