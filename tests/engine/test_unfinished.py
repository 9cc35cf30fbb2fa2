"""Unfinished work that is left out: told to the lead, in the log and at the gate, and kept with the step."""

from __future__ import annotations

from typing import Any

import pytest

from parley.engine.values import step_extra
from parley.protocol.molecules import AskHuman
from parley.views.history.chronicle import Follower
from parley.views.job_view import Present
from tests.engine.job_harness import (
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
    write,
)  # fmt: skip

SLOW = [on(".", write("a.py", "committed"), say("first")), always(".", write("b.py", "half"), sleep(40), say("second"))]
GATE = "WORK_SUMMARY.md"
EARLY = [{"match": "^(INTENT|PLAN) ", "verdict": "approve", "text": "yes", "repeat": True}]


def logged(stage: JobHarness) -> list[str]:
    return [event.text for event in Follower(stage.outside, JOB).read() if event.kind == "unfinished"]


def working(*do: Any, **more: Any) -> JobHarness:
    """A lead whose coder is in its second turn when the lead does something, on the report of a second worker."""
    execute = [
        on(r"^\[EXECUTE\]", write(GATE, "the work"), send("coder", "one", "c"), state="EXECUTE"),
        on(r"^\[REPORT\] coder", tell("c", "two"), send("researcher", "look", "r"), state="EXECUTE"),
        on(r"^\[REPORT\] researcher", *do, state="EXECUTE"),
        *more.pop("then", []),
    ]
    looks = [always(".", sleep(5), say("looked"))]
    human = more.pop("human", YES)
    stage = JobHarness(book(execute=execute, coder=SLOW, researcher=looks, human=human, **more), "when_unsure")
    return stage.until(lambda s: any(body.startswith("[REPORT] researcher") for body in s.told("project-lead")))


def test_an_assert_beside_a_worker_at_work_says_so_to_proxy_human_lead_and_log() -> None:
    stage = working(asserts(GATE), human=EARLY)
    stage.until(lambda s: [asked for asked in s.soup.of(AskHuman) if asked.question.artifact == GATE])
    thread = stage.thread("coder")
    still = f"coder is still at work on {thread}, since "

    put = next(text for text in stage.told("proxy") if "EXECUTE" in text.partition("\n")[0])
    assert f"(Left out: {still}" in put.partition("\n")[0]
    assert put.partition("\n")[0].endswith("; its last turn is not in this.)")
    (asked,) = Present(stage.outside, JOB).questions()
    assert asked.body.splitlines()[1].startswith(f"Left out: {still}")
    (left,) = asked.document()["unfinished"]
    assert (left["agent"], left["thread"], left["doing"], left["end"]) == ("coder", thread, "at work", "goes on")
    assert any(line.startswith(f"left out: {still}") for line in logged(stage))
    stage.approve(GATE).until(lambda s: any("[LEFT OUT]" in text for text in s.told("project-lead")))
    answer = next(text for text in stage.told("project-lead") if "[LEFT OUT]" in text)
    assert answer.startswith("[ANSWER approve]")
    assert f"[LEFT OUT] {still}" in answer


def test_a_close_in_mid_turn_and_an_assert_in_one_turn_say_what_is_not_in_it_and_where_it_is_kept() -> None:
    stage = working(close("c"), asserts(GATE), human=EARLY)
    stage.until(lambda s: [asked for asked in s.soup.of(AskHuman) if asked.question.artifact == GATE])
    (asked,) = Present(stage.outside, JOB).questions()
    (left,) = asked.document()["unfinished"]
    ref = f"refs/parley/retired/{JOB}/{left['thread'].partition(':')[2]}"

    assert left["text"].startswith(f"coder on {left['thread']} was closed in mid-turn, at work since ")
    assert left["text"].endswith(f"what it did since its last committed turn is not in this, and is kept under {ref}")
    assert asked.body.splitlines()[1] == f"Left out: {left['text']}."
    assert logged(stage) == [f"left out: {left['text']}"]
    assert (stage.files()["a.py"], "b.py" in stage.files()) == ("committed", False)


def test_a_close_alone_tells_the_lead_with_the_merge() -> None:
    stage = working(close("c"), say("closed"))
    stage.until(lambda s: any("[LEFT OUT]" in text for text in s.told("project-lead")))
    (told,) = [text for text in stage.told("project-lead") if "[LEFT OUT]" in text]

    assert "[MERGE clean] coder" in told
    assert "was closed in mid-turn" in told


@pytest.mark.parametrize("state", ["forward", "back"])
def test_the_end_of_a_phase_says_what_it_leaves(state: str) -> None:
    ending = outcome("APPROVED_PLAN") if state == "forward" else outcome("REALIGN", "wrong idea")
    verdict = "approve" if state == "forward" else "backtrack intent"
    plan = [
        on(r"^\[PLAN\]", write("PLAN.md", "p"), send("coder", "one", "c"), asserts("PLAN.md"), state="PLAN", visit=1),
        on(r"^\[ANSWER", ending, state="PLAN"),
    ]
    human = [{"match": "PLAN", "verdict": verdict, "text": "so"}, *YES]
    slow = [always(".", write("b.py", "half"), sleep(50), say("late"))]
    stage = JobHarness(book(plan=plan, coder=slow, human=human), "when_unsure")
    after = "EXECUTE" if state == "forward" else "INTENT"
    stage.until(lambda s: s.state == after and len(s.actions) > 1)
    at_end = [step_extra.read(step.extra).unfinished for step in stage.steps("transition") if step.extra]
    ((left,),) = at_end
    ends = {
        "forward": ("phase", "was ended with its phase in mid-turn"),
        "back": ("discarded", "was ended in mid-turn"),
    }

    assert (left.end, left.doing) == (ends[state][0], "at work")
    assert ends[state][1] in left.words()
    assert f"left out: {left.words()}" in logged(stage)
    lead = "project-lead" if state == "forward" else "intent-lead"
    stage.until(lambda s: s.told(lead)[-1].startswith(f"[{after}]") and len(s.actions) > 1)
    assert f"[LEFT OUT] {left.words()}." in stage.told(lead)[-1]


def test_a_withdrawal_says_what_it_takes_away_and_where_it_is() -> None:
    stage = working(say("nothing")).withdraw(reason="enough").until(lambda s: s.state == "WITHDRAWN")
    said = logged(stage)

    assert {line.split(" ")[2] for line in said} == {"coder", "researcher"}
    assert all("nothing that it made is taken over" in line and "refs/parley/retired/" in line for line in said)


def test_withdrawing_one_conversation_says_it_too() -> None:
    stage = working(say("nothing"))
    stage.withdraw(stage.thread("coder")).until(lambda s: s.fired("withdraw"))

    assert len(logged(stage)) == 1
    assert "coder" in logged(stage)[0]


def test_an_unread_message_and_an_open_question_are_unfinished_work_as_well() -> None:
    execute = [
        on(r"^\[EXECUTE\]", write(GATE, "w"), send("coder", "one", "c"), send("researcher", "x", "r"), state="EXECUTE"),
        on(r"^\[REPORT\] researcher", close("c"), asserts(GATE), state="EXECUTE"),
    ]
    coder = [always(".", ask("which?"))]
    looks = [always(".", sleep(9), say("looked"))]
    stage = JobHarness(book(execute=execute, coder=coder, researcher=looks, human=EARLY), "when_unsure")
    stage.until(lambda s: [asked for asked in s.soup.of(AskHuman) if asked.question.artifact == GATE])

    assert [line.partition("; ")[0].partition(" was ")[2] for line in logged(stage)] == [
        "closed while it waited for an answer"
    ]


def test_nothing_is_said_where_nothing_is_left_out() -> None:
    stage = JobHarness(book(human=YES), "when_unsure").until(lambda s: s.state == "DONE")

    assert logged(stage) == []
    assert not any(step_extra.read(step.extra).unfinished for step in stage.steps())
    assert not any("Left out" in row.body or "LEFT OUT" in row.body for row in stage.messages())


@pytest.mark.parametrize("closed", [False, True])
def test_work_that_is_given_out_in_the_turn_of_an_assert_is_not_in_what_is_asserted(closed: bool) -> None:
    """The worker comes into being by the very step that puts the work forward."""
    ends = [close("c")] if closed else []
    execute = [
        on(r"^\[EXECUTE\]", write(GATE, "w"), send("coder", "one", "c"), *ends, asserts(GATE), state="EXECUTE"),
    ]
    stage = JobHarness(book(execute=execute, coder=SLOW, human=EARLY), "when_unsure")
    stage.until(lambda s: [asked for asked in s.soup.of(AskHuman) if asked.question.artifact == GATE])
    (asked,) = Present(stage.outside, JOB).questions()
    (left,) = asked.document()["unfinished"]

    assert (left["agent"], left["doing"], left["mail"]) == ("coder", "mail", 1)
    assert (" was closed with 1 message unread" if closed else " (1 message to read)") in left["text"]
