"""The proxy: what it may say for the human, what it may not, and what happens when it says nothing."""

from __future__ import annotations

import re
from typing import Any

import pytest

from parley.base.json_codec import decode
from parley.engine.turn.question_clone import Clone
from parley.engine.values import message_meta
from parley.engine.values.message_meta import NO_VIEW, Put
from parley.protocol.molecules import AskHuman, Ruling
from tests.engine.job_harness import (
    CRASH,
    INTENT,
    ROOT,
    YES,
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
    write,
)  # fmt: skip


def says(verdict: str | None, text: str = "I know") -> dict[str, Any]:
    ruling = {"verdict": verdict} if verdict else {}
    return {"answer": {**ruling, "text": text, "confidence": 0.9}}


ASKS = {"ask_human": "please look"}


def gate(policy: str, proxy: list[Any] | None = None, **play: Any) -> JobHarness:
    """A stage at rest behind its first gate's question."""
    return JobHarness(book(proxy=proxy, **play), policy).run()


def answer(stage: JobHarness, number: int = 1, agent: str = "intent-lead") -> str:
    """What an agent was told, without the question's id, which differs from job to job."""
    return re.sub(r"question \w+\)", "question Q)", stage.told(agent)[number], count=1)


def authors(stage: JobHarness) -> list[str]:
    return [step.who for step in stage.steps("respond")]


@pytest.mark.parametrize("policy", ["always", "when_unsure"])
@pytest.mark.parametrize("ruling", [None, *[str(ruling) for ruling in Ruling]])
def test_without_rules_it_asks_the_human_and_passes_the_answer_on(policy: str, ruling: str | None) -> None:
    stage = gate(policy, intent=INTENT[:1])
    asked = stage.soup.of(AskHuman)[0]
    assert stage.body(asked.framing).startswith("INTENT INTENT.md: ")
    stage.answer(ruling, "these words").until(lambda s: s.started("intent-lead") == 2)
    mark = f"[ANSWER{f' {ruling}' if ruling else ''}]"
    expected = "[WITHDRAW]\nthese words" if ruling == "withdraw" else f"{mark} (from the human; question Q) these words"
    assert answer(stage) == expected
    assert authors(stage) == ["human"]
    put = "[QUESTION] INTENT INTENT.md: Do you recognize this as your idea, completely and accurately put into words?"
    words = [] if ruling else ["[HUMAN] these words"]  # a verdict goes back by code, with no turn of the proxy
    assert [text.partition("\n")[0] for text in stage.told("proxy")] == [put, *words]


def test_where_the_human_is_never_asked_it_says_revise_no_answer() -> None:
    stage = JobHarness(book(intent=INTENT[:1]), "never").until(lambda s: s.started("intent-lead") == 2)
    assert answer(stage).startswith("[ANSWER revise] (from the proxy; question Q) no answer")
    assert stage.fired("escalate") == 0


def test_where_the_human_is_never_asked_it_may_not_ask() -> None:
    stage = JobHarness(book(proxy=[always("QUESTION", ASKS)]), "never").until(lambda s: s.started("intent-lead") == 2)
    assert stage.refusals == ["the policy never asks the human here; answer from what you know"]
    assert answer(stage) == "[ANSWER revise] (from the proxy; question Q) no answer"


@pytest.mark.parametrize("policy", ["never", "when_unsure"])
def test_where_it_may_it_answers_by_itself_and_the_answer_is_its_own(policy: str) -> None:
    stage = gate(policy, [always("QUESTION", says("approve"))])
    assert stage.state == "DONE"
    assert authors(stage) == ["proxy"] * 3
    assert stage.fired("human-reply") == 0


def test_where_the_human_is_always_asked_it_can_not_answer_first() -> None:
    stage = gate("always", [always("QUESTION", says("approve")), always("HUMAN", says("approve"))])
    assert stage.refusals == ["the policy always asks the human here; ask before you answer"]
    assert (stage.state, stage.live.standing.asking) == ("INTENT", 1)
    assert stage.approve().state == "PLAN"


@pytest.mark.parametrize("policy", ["always", "when_unsure"])
@pytest.mark.parametrize("ruling", ["approve", "revise"])
def test_it_has_no_turn_in_which_to_change_the_humans_verdict_or_words(policy: str, ruling: str) -> None:
    rules = [always("QUESTION", ASKS), always("HUMAN", says("approve", "they like it"))]
    stage = gate(policy, rules, intent=INTENT[:1])
    stage.answer(ruling, "not\nyet").until(lambda s: s.started("intent-lead") == 2)
    assert (stage.started("proxy"), stage.refusals) == (1, [])
    assert answer(stage) == f"[ANSWER {ruling}] (from the human; question Q) not\nyet"
    assert authors(stage) == ["human"]


def test_a_job_with_a_gate_in_each_state_takes_three_turns_of_it() -> None:
    stage = JobHarness(book(human=YES), "always").run()
    assert (stage.state, stage.started("proxy"), stage.fired("human-reply")) == ("DONE", 3, 3)


def test_the_verdict_and_the_answer_are_one_transaction() -> None:
    stage = gate("always").approve()
    (replied,), (responded,) = stage.steps("human-reply")[:1], stage.steps("respond")[:1]
    assert replied.transaction == responded.transaction


def test_its_remarks_stand_beside_the_humans_words_as_its_own() -> None:
    view = {"text": "look", "found": "(from the human) two typos", "would": "approve", "confidence": 0.5}
    stage = gate("always", [always("QUESTION", {"ask_human": view})], intent=INTENT[:1])
    stage.answer("revise", "mend them").until(lambda s: s.started("intent-lead") == 2)
    assert answer(stage) == (
        "[ANSWER revise] (from the human; question Q) mend them\n\n"
        "(the proxy's remarks, not the human's words) It found: (from the human) two typos"
    )


def test_words_that_it_proposed_come_with_an_approval_that_has_none() -> None:
    view = {"text": "which?", "would": "the blue one", "confidence": 0.5}
    stage = gate("always", [always("QUESTION", {"ask_human": view})], intent=[on("INTENT", ask("which?"))])
    stage.answer("approve", "").until(lambda s: s.started("intent-lead") == 2)
    assert answer(stage) == (
        "[ANSWER approve] (from the human; question Q)\n\n"
        "(the proxy's remarks, not the human's words) It proposed to the human: the blue one"
    )


def test_a_verdict_that_it_reads_in_plain_words_is_its_own_and_the_words_are_the_humans() -> None:
    rules = [always("QUESTION", ASKS), always("HUMAN", says("revise", "they mean the colour"))]
    stage = gate("always", rules, intent=INTENT[:1])
    stage.answer(None, "hm, green?").until(lambda s: s.started("intent-lead") == 2)
    assert answer(stage) == (
        "[ANSWER revise] (the human's words, read as revise by the proxy; question Q) hm, green?\n\n"
        "(the proxy's remarks, not the human's words) they mean the colour"
    )
    assert authors(stage) == ["proxy"]


@pytest.mark.parametrize("policy, read", [("always", "approve"), ("always", "withdraw"), ("when_unsure", "withdraw")])
def test_an_approval_or_a_withdrawal_that_it_reads_in_words_is_the_humans_to_confirm(policy: str, read: str) -> None:
    stage = gate(policy, [always("QUESTION", ASKS), always("HUMAN", says(read))], intent=INTENT[:1])
    stage.answer(None, "well,\nif you must").run()
    assert (stage.live.standing.asking, stage.fired("respond")) == (1, 0)
    shown = stage.body(stage.soup.of(AskHuman)[0].framing)
    assert "You said: well,\nif you must" in shown
    assert f"The proxy reads your words as: {read}." in shown
    stage.answer("revise", "no, later").until(lambda s: s.started("intent-lead") == 2)
    assert answer(stage) == "[ANSWER revise] (from the human; question Q) well,\nif you must\nno, later"
    assert (authors(stage), stage.started("proxy")) == (["human"], 2)


def test_under_when_unsure_an_approval_that_it_reads_in_words_stands_as_its_own() -> None:
    stage = gate("when_unsure", [always("QUESTION", ASKS), always("HUMAN", says("approve"))])
    stage.answer(None, "fine by me").run()
    assert (stage.state, authors(stage)) == ("PLAN", ["proxy"])


def test_a_human_who_gives_words_and_no_verdict_is_not_asked_for_ever() -> None:
    human = [{"match": ".", "repeat": True, "text": "whatever"}]
    rules = [always("QUESTION", ASKS), always("HUMAN", says("approve"))]
    stage = JobHarness(book(proxy=rules, human=human, intent=INTENT[:1]), "always")
    stage.until(lambda s: s.started("intent-lead") == 2)
    assert stage.fired("human-reply") == 3
    assert answer(stage) == "[ANSWER] (from the human; question Q) whatever\nwhatever\nwhatever"


@pytest.mark.parametrize("policy", ["never", "when_unsure"])
def test_it_never_withdraws_by_itself(policy: str) -> None:
    stage = JobHarness(book(proxy=[always("QUESTION", says("withdraw"))], intent=INTENT[:1]), policy)
    if policy == "never":
        stage.until(lambda s: s.started("intent-lead") == 2)
        assert stage.refusals == [
            "only the human gives a job up, and they are not asked here; answer `revise` and say what is wrong"
        ]
        assert answer(stage) == "[ANSWER revise] (from the proxy; question Q) no answer"
    else:
        stage.run()
        assert stage.refusals == [
            "only the human gives a job up; ask them with AskHuman, or answer `revise` and say what is wrong"
        ]
        assert (stage.live.standing.asking, stage.fired("respond")) == (1, 0)


# ---- without a turn of it before the human is asked ------------------------------------------------


def unbriefed(policy: str = "always", **play: Any) -> JobHarness:
    return JobHarness(book(**play), policy, brief_human=False)


def test_switched_off_it_has_no_turn_and_the_human_reads_the_askers_own_words() -> None:
    stage = unbriefed(proxy=[always(".", says("approve"))], human=YES).run()
    assert (stage.state, stage.started("proxy"), stage.fired("escalate")) == ("DONE", 0, 3)
    asked = stage.messages(to="human")
    assert asked[0].body == stage.messages(to="proxy")[0].body.removeprefix("[QUESTION] ")
    assert all(message_meta.read_as(Put, row).view == NO_VIEW for row in asked)
    assert answer(stage) == "[ANSWER approve] (from the human; question Q) yes"


def test_switched_off_it_reads_words_on_a_gate_and_a_plain_question_needs_no_turn_of_it() -> None:
    stage = unbriefed(intent=[on(r"^\[INTENT\]", ask("which?")), on(r"^\[ANSWER\]", *INTENT[0]["do"])]).run()
    stage.answer(None, "blue").run()
    assert (stage.started("proxy"), answer(stage)) == (0, "[ANSWER] (from the human; question Q) blue")
    stage.answer(None, "rather green").until(lambda s: s.started("intent-lead") == 3)
    assert (stage.started("proxy"), answer(stage, 2)) == (1, "[ANSWER] (from the human; question Q) rather green")


@pytest.mark.parametrize("policy", ["never", "when_unsure"])
def test_switched_off_it_still_answers_where_the_human_is_not_always_asked(policy: str) -> None:
    stage = unbriefed(policy, proxy=[always("QUESTION", says("approve"))]).run()
    assert (stage.state, stage.started("proxy"), authors(stage)) == ("DONE", 3, ["proxy"] * 3)


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
    assert stage.live.standing.asking == 1
    assert stage.approve().state == "PLAN"
    assert authors(stage)[0] == "human"


def test_a_crashing_proxy_has_three_tries() -> None:
    stage = gate("always", [always("QUESTION", CRASH)])
    assert (stage.started("proxy"), stage.fired("give-up"), stage.fired("strike")) == (3, 1, 0)


def test_a_crashing_proxy_that_may_not_ask_has_no_answer() -> None:
    stage = JobHarness(book(proxy=[always(".", CRASH)]), "never").until(lambda s: s.started("intent-lead") == 2)
    assert answer(stage) == "[ANSWER revise] (from the proxy; question Q) no answer"
    assert authors(stage) == ["proxy"]


def test_a_proxy_that_dies_over_plain_words_passes_them_on() -> None:
    stage = gate("always", [always("QUESTION", ASKS), always("HUMAN", CRASH)], intent=INTENT[:1])
    stage.answer(None, "which idea?").until(lambda s: s.started("intent-lead") == 2)
    assert answer(stage) == "[ANSWER] (from the human; question Q) which idea?"


def test_it_answers_once_a_turn_and_reaches_nobody_else() -> None:
    stage = JobHarness(
        book(proxy=[on("QUESTION", says("revise"), says("approve"), send("writer", "psst"), sleep(9))]), "never"
    ).until(lambda s: s.started("intent-lead") == 2)
    assert stage.refusals[0] == "you have dealt with the question in this turn"
    assert "proxy has no tool 'Send'" in stage.refusals[1]
    assert answer(stage) == "[ANSWER revise] (from the proxy; question Q) I know"


def test_the_policy_is_that_of_the_state() -> None:
    stage = JobHarness(book(proxy=[always("QUESTION", says("approve"))]), ["never", "when_unsure", "always"]).run()
    assert (stage.state, stage.live.standing.asking) == ("EXECUTE", 1)
    assert authors(stage) == ["proxy", "proxy"]


def test_what_the_proxy_sent_back_is_not_asserted_again_as_it_is() -> None:
    """Two machines could go on like that for ever."""
    again = always(r"^\[ANSWER revise\]", INTENT[0]["do"][1])
    stage = JobHarness(book(intent=[*INTENT, again], proxy=[always("QUESTION", says("revise"))]), "never").run()
    assert "INTENT.md is what was sent back; change it before you assert it again" in stage.refusals
    assert stage.state == "FAILURE"


# ---- what it reads -------------------------------------------------------------------------------


QUICK = always(r"\[QUESTION\] INTENT", says("approve"))


def behind_its_back(proxy: list[Any], **play: Any) -> JobHarness:
    """A lead puts its plan forward, and changes it when its worker reports, while the proxy is still reading."""
    plan = [
        on(r"^\[PLAN\]", write("PLAN.md", "good"), send("coder", "look", "c"), asserts("PLAN.md")),
        always(r"^\[REPORT\]", write("PLAN.md", "bad"), write("more.py", "bad"), say("changed")),
        always(r"^\[ANSWER approve\]", outcome("APPROVED_PLAN"), state="PLAN"),
    ]
    coder = [always(".", sleep(5), write("c.py", "c"), say("done"))]
    return JobHarness(book(plan=plan, proxy=[QUICK, *proxy], coder=coder, **play), "when_unsure")


def reading(stage: JobHarness) -> str:
    """The workspace of the proxy at work."""
    return stage.order("proxy").site.workspace.partition("|")[2]


def test_it_reads_what_was_committed_with_the_question_whatever_its_asker_does_meanwhile() -> None:
    slow = [on(r"\[QUESTION\] PLAN", sleep(30), says("approve")), always(r"\[QUESTION\] PLAN", says("approve"))]
    stage = behind_its_back(slow).until(lambda s: s.started("project-lead") == 2 and not s.busy("project-lead"))

    assert stage.files(ROOT)["PLAN.md"] == "bad"
    seen = stage.files(reading(stage))
    assert (seen["PLAN.md"], "more.py" in seen) == ("good", False)
    assert not stage.order("proxy").site.writable
    asked = decode(stage.live.kept[f"clone {reading(stage)}"], Clone)
    assert (asked.of, asked.children) == (ROOT, {})

    stage.until(lambda s: s.started("project-lead") == 4)  # its approval was of other content
    assert any(body.startswith("[VIOLATION] PLAN.md") for body in stage.told("project-lead"))
    assert stage.state == "PLAN"


def test_a_crash_while_it_reads_gives_it_the_same_tree_again() -> None:
    slow = [always(r"\[QUESTION\] PLAN", sleep(30), says("approve"))]
    stage = behind_its_back(slow).until(lambda s: s.started("project-lead") == 2 and not s.busy("project-lead"))
    before = stage.files(reading(stage))
    assert before["PLAN.md"] == "good"
    stage.kill()
    stage.adopt().until(lambda s: s.busy("proxy"))

    assert stage.files(reading(stage)) == before
    assert stage.files(ROOT)["PLAN.md"] == "bad"


def test_a_clone_goes_with_its_question() -> None:
    stage = behind_its_back([always(r"\[QUESTION\] PLAN", says("revise", "no"))])
    stage.until(lambda s: s.fired("respond") == 2)

    assert not [where for where in stage.live.kept if where.startswith("clone ")]
    assert stage.files(reading(stage)) == {}


def test_it_sees_the_trees_of_its_askers_workers_as_they_were() -> None:
    plan = [
        on(r"^\[PLAN\]", send("coder", "look", "c")),
        on(r"^\[REPORT\]", write("PLAN.md", "good"), asserts("PLAN.md"), state="PLAN"),
    ]
    coder = [always(".", write("c.py", "c"), say("done"))]
    slow = [always(r"\[QUESTION\] PLAN", sleep(30), says("approve"))]
    play = book(plan=plan, proxy=[QUICK, *slow], coder=coder)
    stage = JobHarness(play, "when_unsure").until(lambda s: s.state == "PLAN" and s.busy("proxy"))

    asked = decode(stage.live.kept[f"clone {reading(stage)}"], Clone)
    assert asked.children == {stage.thread("coder"): stage.live.kept[f"tree {stage.thread('coder')}"]}
