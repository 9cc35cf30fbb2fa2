"""Loops end: whatever agents, the proxy and a scripted human go on saying, each job comes to a terminal.

Where the human may be asked, the failure dialog opens first. Under `never`, and the second time, it is FAILURE, with a
reason that names the loop.
"""

from __future__ import annotations

from typing import Any

import pytest

from parley.protocol.molecules import AskHuman, Kind, Tally
from tests.engine.job_harness import (
    CRASH,
    EXECUTE,
    INTENT,
    PLAN,
    YES,
    JobHarness,
    Rule,
    always,
    ask,
    asserts,
    book,
    close,
    on,
    outcome,
    say,
    send,
    tell,
    write,
)

REVISE = [{"match": ".", "verdict": "revise", "text": "no", "repeat": True}]
WORDS = [{"match": ".", "text": "hm", "repeat": True}]


def answers(verdict: str | None = None, text: str = "so") -> Rule:
    return always("QUESTION", {"answer": {"verdict": verdict, "text": text} if verdict else {"text": text}})


def numbered(number: int) -> list[dict[str, Any]]:
    """An assert of something else each time: one byte has changed."""
    return [write("INTENT.md", str(number)), asserts("INTENT.md")]


CHANGING: list[Rule] = [on(".", *numbered(number)) for number in range(200)]
ASKING: list[Rule] = [on(".", ask(f"and number {number}?")) for number in range(200)]
PING: list[Rule] = [on(r"^\[INTENT\]", send("writer", "look", "w")), always("REPORT", tell("w", "look again"))]
BACK: list[Rule] = [
    always(r"^\[EXECUTE\]", ask("shall I plan anew?"), state="EXECUTE"),
    always("ANSWER", outcome("REPLAN"), state="EXECUTE"),
]

LOOPS: dict[str, dict[str, Any]] = {
    "the same question": {"intent": [always(".", ask("which?"))], "proxy": [answers()]},
    "the same question in other dress": {
        "intent": [on(".", ask(f"{'  ' * n}WHICH{'?' * n}")) for n in range(50)],
        "proxy": [answers()],
    },
    "another question each time": {"intent": ASKING, "proxy": [answers()]},
    "a proxy that says nothing": {"intent": [always(".", ask("which?"))], "proxy": []},
    "one byte is changed": {"intent": CHANGING, "proxy": [answers("revise", "no")]},
    "a lead and a doer": {"intent": PING, "writer": [always(".", say("seen"))]},
    "a doer that sends": {
        "intent": PING,
        "writer": [always(".", tell("dispatcher", "what?"))],
    },
    "a doer that crashes": {
        "intent": [on(r"^\[INTENT\]", send("writer", "look", "w")), always("FAILED", tell("w", "look again"))],
        "writer": [always(".", CRASH)],
    },
    "a doer that is dispatched anew": {
        "intent": [
            on(r"^\[INTENT\]", send("writer", "look", "w")),
            always("FAILED", close("w"), send("writer", "look", "w")),
        ],
        "writer": [always(".", CRASH)],
    },
    "conversations opened and closed": {
        "intent": [
            on(r"^\[INTENT\]", send("writer", "look", "w")),
            always("REPORT", close("w"), send("writer", "look", "w")),
        ],
        "writer": [always(".", say("seen"))],
    },
    "silence": {"intent": []},
    "outcomes that do not count": {"intent": [always(".", outcome("NONSENSE"))]},
    "crashes": {"intent": [always(".", CRASH)]},
}
NAMED = {
    "the same question": "asked the same 10 times",
    "the same question in other dress": "asked the same 10 times",
    "another question each time": "sent and asked 40 times",
    "a proxy that says nothing": "asked the same 10 times",
    "one byte is changed": "asked the same 10 times",
    "a lead and a doer": "sent and asked 40 times",
    "a doer that sends": "sent and asked 40 times",
    "a doer that crashes": "sent and asked 40 times",
    "a doer that is dispatched anew": "sent and asked 40 times",
    "conversations opened and closed": "sent and asked 40 times",
    "silence": "ended 4 turns without an outcome record",
    "outcomes that do not count": "4 outcome records of its lead did not count",
    "crashes": "lost 3 turns in a row",
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_under_never_fails_with_a_reason_that_names_it(name: str) -> None:
    stage = JobHarness(book(**LOOPS[name]), "never").run()
    assert stage.state == "FAILURE"
    assert NAMED[name] in stage.record.history[-1].reason
    assert stage.fired("dialog") == 0


@pytest.mark.parametrize("name", [name for name in LOOPS if name != "a proxy that says nothing"])
def test_a_loop_where_the_human_may_be_asked_opens_the_dialog_and_fails_the_second_time(name: str) -> None:
    stage = JobHarness(book(**LOOPS[name]), "when_unsure").run()
    (asked,) = stage.soup.of(AskHuman)
    assert asked.question.kind is Kind.FAILURE
    text = stage.body(asked.framing)
    assert "INTENT is stuck: " in text
    assert NAMED[name] in text
    stage.answer("approve", "go on").run()
    assert (stage.state, stage.fired("dialog")) == ("FAILURE", 1)


@pytest.mark.parametrize(
    "policy, human",
    [("when_unsure", YES), ("always", REVISE), ("always", WORDS)],
    ids=["approve", "revise", "words"],
)
@pytest.mark.parametrize("name", LOOPS)
def test_no_scripted_human_keeps_a_loop_going(name: str, policy: str, human: list[Rule]) -> None:
    stage = JobHarness(book(**{**LOOPS[name], "proxy": None}, human=human), policy).run()
    assert stage.state == "FAILURE"


def test_backtracks_that_the_human_did_not_order_are_bounded() -> None:
    stage = JobHarness(
        book(
            execute=BACK,
            proxy=[always("anew", {"answer": {"verdict": "backtrack plan", "text": "so"}}), answers("approve")],
        ),
        "never",
    ).run()
    assert (stage.state, stage.record.backtrack_count, stage.record.circled) == ("FAILURE", 5, 5)
    assert "went back 5 times without your word" in stage.record.history[-1].reason


def test_at_the_bound_of_backtracks_the_human_is_asked_and_may_let_it_go_on_once() -> None:
    proxy = [always("anew", {"answer": {"verdict": "backtrack plan", "text": "so"}}), answers("approve")]
    stage = JobHarness(
        book(execute=[*BACK, always("VIOLATION", ask("shall I plan anew?"), state="EXECUTE")], proxy=proxy),
        "when_unsure",
    ).run()
    (asked,) = stage.soup.of(AskHuman)
    assert "EXECUTE is stuck: it went back 5 times without your word, and its lead says REPLAN" in stage.body(
        asked.framing
    )
    stage.answer("approve", "once more").run()
    assert (stage.state, stage.record.backtrack_count, stage.record.lifted) == ("FAILURE", 10, 1)


def test_a_backtrack_on_the_humans_own_verdict_does_not_count() -> None:
    human = [{"match": "anew", "verdict": "backtrack plan", "text": "so"} for _ in range(8)]
    human += [{"match": "anew", "text": "no", "verdict": "approve"}, *YES]
    execute = [*BACK[:1], on("ANSWER approve", *EXECUTE[0]["do"], state="EXECUTE"), *EXECUTE[1:], BACK[1]]
    stage = JobHarness(book(execute=execute, human=human)).run()
    assert (stage.state, stage.record.backtrack_count, stage.record.circled) == ("DONE", 8, 0)


def test_a_human_who_revises_often_does_not_lose_the_job() -> None:
    human = [{"match": ".", "verdict": "revise", "text": f"no {number}"} for number in range(25)]
    stage = JobHarness(
        book(intent=[always(r"INTENT\]|revise", *INTENT[0]["do"]), INTENT[1]], human=[*human, *YES])
    ).run()
    assert (stage.state, stage.fired("dialog")) == ("DONE", 0)


def test_a_lead_whose_files_change_may_send_more_often() -> None:
    work = [on("REPORT", write("INTENT.md", str(n)), tell("w", "look again")) for n in range(60)]
    intent = [
        on(r"^\[INTENT\]", send("writer", "look", "w")),
        *work,
        on("REPORT", close("w"), asserts("INTENT.md")),
        INTENT[1],
    ]
    stage = JobHarness(book(intent=intent, writer=[always(".", say("seen"))], human=YES)).run()
    assert (stage.state, stage.fired("dialog")) == ("DONE", 0)


def test_files_that_change_for_ever_end_it_too() -> None:
    work = [on("REPORT", write("INTENT.md", str(n)), tell("w", "look again")) for n in range(300)]
    stage = JobHarness(book(intent=[PING[0], *work], writer=[always(".", say("seen"))]), "never").run()
    assert stage.state == "FAILURE"
    assert "sent and asked 80 times in this state" in stage.record.history[-1].reason


def test_what_the_bound_refuses_is_said_at_the_call_in_one_line() -> None:
    stage = JobHarness(book(intent=LOOPS["the same question"]["intent"], proxy=[answers()]), "never", repeats=2).run()
    said = "you have asked this 2 times, and the human has said nothing new; it is not asked again: "
    assert stage.refusals == [f"{said}go on with what you were told, or end your turn"]


def test_a_report_is_never_refused() -> None:
    """A doer at its bound still reports, by Send and by its last words."""
    writer = [on("look", ask("which?")), on("ANSWER", ask("and which?"), tell("dispatcher", "enough"))]
    intent = [PING[0], on("enough", *INTENT[0]["do"]), *INTENT[1:]]
    stage = JobHarness(book(intent=intent, writer=writer, proxy=[answers("approve")]), "never", exchanges=1).run()
    assert any("enough" in text for text in stage.told("intent-lead"))
    assert any("sent and asked 1 times" in text for text in stage.refusals)


def test_a_proxy_asks_the_human_so_often_and_no_more() -> None:
    proxy = [always(".", {"ask_human": "what do you mean?"})]
    stage = JobHarness(
        book(intent=[on(r"^\[INTENT\]", ask("which?")), *INTENT], proxy=proxy, human=WORDS), "when_unsure", repeats=4
    )
    stage.until(lambda s: s.fired("respond"))
    assert stage.fired("escalate") == 4
    assert any(text.startswith("[ANSWER] (from the human") for text in stage.bodies("intent-lead"))


def test_an_intervention_does_not_count() -> None:
    stage = JobHarness(book(intent=[always("INTERVENE", say("heard"))]), retry_budget=9, exchanges=1).run()
    for _ in range(3):
        stage.intervene("and this").run()
    assert stage.soup.of(Tally) == ()


def test_subteams_do_not_nest_for_ever() -> None:
    play = {
        "squad": [on(".", send("troop", "go"))],
        "troop": [on(".", send("squad", "go"))],
    }
    stage = JobHarness(
        book(plan=[on(r"^\[PLAN\]", send("squad", "go")), *PLAN], human=YES, **play), "when_unsure"
    ).run()
    assert max(record.depth for record in stage.subteams) == 4
    assert any("teams are nested 4 deep already" in text for text in stage.refusals)
