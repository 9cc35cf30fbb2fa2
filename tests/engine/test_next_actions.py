"""Wherever a job may be, there is a way out, and each way that is named can be gone."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from parley.actions.leave import give_answer
from parley.cli.commands import parser
from parley.engine.values.human_inputs import is_in_vain, note_words
from parley.views.job_view import Asked, Present
from parley.views.questions.needs import Exit
from parley.views.questions.next_actions import Situation, situations
from tests.engine.job_harness import (
    CRASH,
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
    say,
    send,
    sleep,
)
from tests.engine.job_harness import write as writes

ASSERT = [writes("INTENT.md", "x"), asserts("INTENT.md")]
PROXY_STALLS = [on(r"\[QUESTION\]", sleep(40), {"ask_human": "please look"})]


def clash() -> dict[str, Any]:
    """Two that change the same file, and a lead that has to settle it."""
    intent = [
        on(r"^\[INTENT\]", writes("a.txt", "base"), send("writer", "look", "w")),
        on("seen", writes("a.txt", "mine"), close("w")),
        on(r"MERGE conflict", sleep(3), writes("a.txt", "both"), *ASSERT),
        INTENT[1],
    ]
    return book(intent=intent, writer=[on("look", writes("a.txt", "theirs"), say("seen"))])


def team() -> dict[str, Any]:
    """A squad with a helper that stalls, a coder that crashes, and questions."""
    execute = [
        on(r"^\[EXECUTE\]", send("squad", "go", "s"), send("coder", "look", "c")),
        always("STALLED", say("I wait")),
        on("FAILED", ask("what now?")),
        always(".", writes("WORK_SUMMARY.md", "x"), asserts("WORK_SUMMARY.md")),
    ]
    return book(
        execute=execute,
        squad=[on("go", send("helper", "look")), always(".", say("seen"))],
        helper=[on("look", sleep(40), say("done"))],
        coder=[always("look", CRASH)],
    )


PLAYS: dict[str, Callable[[], dict[str, Any]]] = {
    "plain": book,
    "team": team,
    "clash": clash,
    "question": lambda: book(intent=[on(r"^\[INTENT\]", ask("which?")), always(".", *ASSERT)]),
    "hopeless": lambda: book(intent=[always(".", CRASH)]),
    "proxy": lambda: book(proxy=PROXY_STALLS),
    "stalled lead": lambda: book(intent=[on(r"^\[INTENT\]", sleep(40), *ASSERT), INTENT[1]]),
}


def made(name: str) -> JobHarness:
    return JobHarness(PLAYS[name](), stall_seconds=8, time_limit_seconds=60, retry_budget=2).start()


def meddle(stage: JobHarness, name: str, moment: int) -> None:
    """What people do meanwhile: at some moments, always the same."""
    for asked in Present(stage.outside, JOB).questions() if name == "team" and moment % 2 else ():
        if asked.kind == "assert" and asked.state != "EXECUTE":
            answer(stage, asked, "approve")
    match moment % 23:
        case 5:
            stage.intervene("mind this", authoritative=True)
        case 9:
            stage.pause()
        case 13:
            stage.resume()
        case 17:
            stage.kill()
        case 19 if stage.outside.load(JOB).row.needs_human:
            for asked in Present(stage.outside, JOB).questions():
                answer(stage, asked, "approve")
        case _:
            pass


def answer(stage: JobHarness, asked: Asked, ruling: str | None, text: str = "yes") -> None:
    give_answer(stage.outside, asked, ruling, text, "ada")


def come_to(name: str, moment: int) -> JobHarness:
    """A play at a moment of it: each is reached in the same way each time."""
    stage = made(name)
    for number in range(moment):
        meddle(stage, name, number)
        stage.crank(2.0)
    meddle(stage, name, moment)
    return stage


MOMENTS = 46


def seen(name: str) -> Iterator[tuple[int, list[Situation]]]:
    stage = made(name)
    for moment in range(MOMENTS):
        meddle(stage, name, moment)
        present = Present(stage.outside, JOB)
        if present.record is not None and not present.record.live:
            return
        yield moment, situations(present)
        stage.crank(2.0)


@pytest.mark.parametrize("name", PLAYS)
def test_every_situation_of_a_live_job_has_an_exit_that_is_accepted(name: str) -> None:
    tried: set[tuple[str, str]] = set()
    for moment, found in seen(name):
        assert found, f"{name} at {moment} is nowhere"
        for situation in found:
            assert situation.exits, f"{situation} of {name} at {moment} has no exit"
            for way in situation.exits:
                what = (situation.kind, " ".join(word for word in shlex.split(way.command) if not is_name(word)))
                if what not in tried:  # each kind of exit once in a play: it is played anew for each
                    tried.add(what)
                    go(come_to(name, moment), way)


def is_name(word: str) -> bool:
    return ":" in word or word[:1] == "n"


def go(stage: JobHarness, way: Exit) -> None:
    """Do what an exit says, through the command line's own words and the bus."""
    words = parser().parse_args(shlex.split(way.command)[1:])
    before = len(stage.outside.inputs(JOB, waiting=False))
    match words.command:
        case "show" | "tree":
            assert words.job == JOB
            return
        case "answer":
            ruling = next((str(r) for r in ("approve", "revise", "withdraw") if getattr(words, r, False)), None)
            ruling = f"backtrack {words.backtrack}" if words.backtrack else ruling
            asked = next(asked for asked in Present(stage.outside, JOB).questions() if asked.id == words.id)
            answer(stage, asked, ruling, words.text or "so")
        case "resume":
            if Present(stage.outside, JOB).paused and all(row.kind != "resume" for row in stage.outside.inputs(JOB)):
                stage.put("resume")
        case "intervene":
            stage.intervene(words.text, words.thread, now=words.now, authoritative=words.authoritative)
        case "withdraw":
            stage.withdraw(words.thread or "")
        case other:
            raise AssertionError(f"nobody knows how to {other}")
    if JOB not in stage.engine.jobs:
        stage.adopt()
    stage.crank(0.0)
    rows = stage.outside.inputs(JOB, waiting=False)[before:]
    late = [note_words(row) for row in rows if is_in_vain(row)]
    assert not late, f"{way} is not accepted: {late}"


def test_the_plays_come_to_every_situation() -> None:
    kinds = {situation.kind for name in PLAYS for _, found in seen(name) for situation in found}
    assert kinds >= {
        "question", "gate", "failure", "unattended", "paused", "stalled", "conflict", "intervention", "running",
        "asking", "mail", "waiting", "idle",
    }  # fmt: skip


def test_whoever_is_parked_or_waits_behind_a_dialog_says_so() -> None:
    stage = JobHarness(book(intent=[on(r"^\[INTENT\]", sleep(9), *ASSERT)])).sleeping("intent-lead")
    stage.fail("intent-lead", "a limit", parked_seconds=30)
    assert [situation.kind for situation in situations(Present(stage.outside, JOB))] == ["parked"]
    intent = [INTENT[0], always("INTERVENE", sleep(9)), INTENT[1]]
    stage = JobHarness(book(intent=intent), crash_budget=2).run()
    stage.intervene("x", authoritative=True).lose("intent-lead", 2).run()
    kinds = [situation.kind for situation in situations(Present(stage.outside, JOB))]
    assert "waiting for your word" in kinds
    assert "intervention" in kinds


def test_what_has_ended_has_no_situation() -> None:
    stage = JobHarness(book(human=YES)).run()
    assert (stage.state, situations(Present(stage.outside, JOB))) == ("DONE", [])
