"""The proxy: what it may say for the human, what it may not, and what happens when it says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from parley.core.terms import AskHuman, Ruling
from tests.engine.stage import CRASH, INTENT, Stage, always, book, on, say, send, sleep


def says(verdict: str | None, text: str = "I know") -> dict[str, Any]:
    ruling = {"verdict": verdict} if verdict else {}
    return {"answer": {**ruling, "text": text, "confidence": 0.9}}


ASKS = {"ask_human": "please look"}


def gate(policy: str, proxy: list[Any] | None = None, **play: Any) -> Stage:
    """A stage at rest behind its first gate's question."""
    return Stage(book(proxy=proxy, **play), policy).run()


def authors(stage: Stage) -> list[str]:
    return [step.who for step in stage.steps("respond")]


@pytest.mark.parametrize("policy", ["always", "when_unsure"])
@pytest.mark.parametrize("ruling", [None, *[str(ruling) for ruling in Ruling]])
def test_without_rules_it_asks_the_human_and_passes_the_answer_on(policy: str, ruling: str | None) -> None:
    stage = gate(policy, intent=INTENT[:1])
    asked = stage.soup.of(AskHuman)[0]
    assert stage.body(asked.framing).startswith("INTENT INTENT.md: ")
    stage.answer(ruling, "these words").until(lambda s: s.started("intent-lead") == 2)
    expected = (
        "[WITHDRAW]\nthese words" if ruling == "withdraw" else f"[ANSWER{f' {ruling}' if ruling else ''}] these words"
    )
    assert stage.told("intent-lead")[1] == expected
    assert [text.partition("\n")[0] for text in stage.told("proxy")] == [
        "[QUESTION] INTENT INTENT.md: Do you recognize this as your idea, completely and accurately put into words?",
        f"[HUMAN{f' {ruling}' if ruling else ''}] these words",
    ]


def test_where_the_human_is_never_asked_it_says_revise_no_answer() -> None:
    stage = Stage(book(intent=INTENT[:1]), "never").until(lambda s: s.started("intent-lead") == 2)
    assert stage.told("intent-lead")[1].startswith("[ANSWER revise] no answer")
    assert stage.fired("escalate") == 0


def test_where_the_human_is_never_asked_it_may_not_ask() -> None:
    stage = Stage(book(proxy=[always("QUESTION", ASKS)]), "never").until(lambda s: s.started("intent-lead") == 2)
    assert stage.refusals == ["the policy never asks the human here; answer from what you know"]
    assert stage.told("intent-lead")[1] == "[ANSWER revise] no answer"


@pytest.mark.parametrize("policy", ["never", "when_unsure"])
def test_where_it_may_it_answers_by_itself_and_the_answer_is_its_own(policy: str) -> None:
    stage = gate(policy, [always("QUESTION", says("approve"))])
    assert stage.state == "DONE"
    assert authors(stage) == ["proxy"] * 3
    assert stage.fired("human-reply") == 0


def test_where_the_human_is_always_asked_it_can_not_answer_first() -> None:
    stage = gate("always", [always("QUESTION", says("approve")), always("HUMAN", says("approve"))])
    assert stage.refusals == ["the policy always asks the human here; ask before you answer"]
    assert (stage.state, stage.live.asking) == ("INTENT", 1)
    assert stage.approve().state == "PLAN"


@pytest.mark.parametrize("policy", ["always", "when_unsure"])
def test_it_can_not_change_the_humans_verdict(policy: str) -> None:
    stage = gate(policy, [always("QUESTION", ASKS), always("HUMAN", says("approve"))], intent=INTENT[:1])
    stage.answer("revise", "not yet").until(lambda s: s.started("intent-lead") == 2)
    assert stage.refusals == ["the human said 'revise'; pass that on"]
    assert stage.told("intent-lead")[1] == "[ANSWER revise] not yet"
    assert authors(stage) == ["human"]


def test_its_own_words_around_the_humans_verdict_are_recorded_as_the_humans_verdict() -> None:
    stage = gate("always", [always("QUESTION", ASKS), always("HUMAN", says("approve", "they like it"))])
    stage.approve()
    assert stage.told("intent-lead")[1] == "[ANSWER approve] they like it"
    assert authors(stage) == ["human"]


def test_a_verdict_on_the_humans_plain_words_is_its_own() -> None:
    stage = gate("always", [always("QUESTION", ASKS), always("HUMAN", says("approve"))])
    stage.answer(None, "fine by me").run()
    assert stage.state == "PLAN"
    assert authors(stage) == ["proxy"]


def test_it_may_ask_the_human_again() -> None:
    rules = [always("QUESTION", ASKS), on(r"^\[HUMAN\]", {"ask_human": "yes or no?"}), always("HUMAN", says("approve"))]
    stage = gate("always", rules)
    first = stage.soup.of(AskHuman)[0]
    stage.answer(None, "well").run()
    second = stage.soup.of(AskHuman)[0]
    assert (first.id, first.framing != second.framing) == (second.id, True)
    assert "yes or no?" in stage.body(second.framing)
    stage.put("answer", question=first.id, framing=first.framing, ruling="withdraw", text="to the first").run()
    assert stage.notes()[-1] == "too late: the question was put anew since"
    assert stage.approve().state == "PLAN"


def test_an_answer_counts_once() -> None:
    stage = gate("always")
    asked = stage.soup.of(AskHuman)[0]
    stage.answer("approve", "yes").put(
        "answer", question=asked.id, framing=asked.framing, ruling="withdraw", text="no"
    ).run()
    assert [note[:8] for note in stage.notes()] == ["answered", "too late"]
    assert stage.state == "PLAN"


@pytest.mark.parametrize(
    "rules",
    [[always("QUESTION", CRASH)], [always("QUESTION", say("well, approve I guess"))], []],
    ids=["dies", "talks", "-"],
)
def test_a_proxy_that_does_not_deal_with_a_question_leaves_it_to_the_human(rules: list[Any]) -> None:
    stage = gate("when_unsure", rules or [on("nothing like it")])
    assert stage.live.asking == 1
    assert stage.approve().state == "PLAN"
    assert authors(stage)[0] == "human"


def test_a_crashing_proxy_has_three_tries() -> None:
    stage = gate("always", [always("QUESTION", CRASH)])
    assert (stage.started("proxy"), stage.fired("give-up"), stage.fired("strike")) == (3, 1, 0)


def test_a_crashing_proxy_that_may_not_ask_has_no_answer() -> None:
    stage = Stage(book(proxy=[always(".", CRASH)]), "never").until(lambda s: s.started("intent-lead") == 2)
    assert stage.told("intent-lead")[1] == "[ANSWER revise] no answer"
    assert authors(stage) == ["proxy"]


def test_a_proxy_that_dies_over_the_humans_answer_does_not_lose_it() -> None:
    stage = gate("always", [always("QUESTION", ASKS), always("HUMAN", CRASH)])
    stage.answer("approve", "yes, by all means").run()
    assert stage.told("intent-lead")[1] == "[ANSWER approve] yes, by all means"
    assert (stage.state, authors(stage)) == ("PLAN", ["human"])


def test_a_proxy_that_dies_over_plain_words_passes_them_on() -> None:
    stage = gate("always", [always("QUESTION", ASKS), always("HUMAN", CRASH)], intent=INTENT[:1])
    stage.answer(None, "which idea?").until(lambda s: s.started("intent-lead") == 2)
    assert stage.told("intent-lead")[1] == "[ANSWER] which idea?"


def test_it_answers_once_a_turn_and_reaches_nobody_else() -> None:
    stage = Stage(
        book(proxy=[on("QUESTION", says("revise"), says("approve"), send("writer", "psst"), sleep(9))]), "never"
    ).until(lambda s: s.started("intent-lead") == 2)
    assert stage.refusals[0] == "you have dealt with the question in this turn"
    assert "proxy has no tool 'Send'" in stage.refusals[1]
    assert stage.told("intent-lead")[1] == "[ANSWER revise] I know"


def test_the_policy_is_that_of_the_state() -> None:
    stage = Stage(book(proxy=[always("QUESTION", says("approve"))]), ["never", "when_unsure", "always"]).run()
    assert (stage.state, stage.live.asking) == ("EXECUTE", 1)
    assert authors(stage) == ["proxy", "proxy"]


def test_what_the_proxy_sent_back_is_not_asserted_again_as_it_is() -> None:
    """Two machines could go on like that for ever."""
    again = always(r"^\[ANSWER revise\]", INTENT[0]["do"][1])
    stage = Stage(book(intent=[*INTENT, again], proxy=[always("QUESTION", says("revise"))]), "never").run()
    assert "INTENT.md is what was sent back; change it before you assert it again" in stage.refusals
    assert stage.state == "FAILURE"
