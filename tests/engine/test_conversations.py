"""Who may speak to whom, how much at once, and what becomes of what is said too late."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from msgspec.structs import replace

from parley.engine.values import message_meta
from parley.engine.values.message_meta import Posed
from parley.ports.turns import Order
from parley.protocol.codec import decode_as
from parley.protocol.conversation import refuse_unless_admissible
from parley.protocol.errors import Refused
from parley.protocol.molecules import AskHuman, Close, Deliver, Idle, Proxy
from parley.protocol.rule import Broadcast
from tests.engine.job_harness import (
    INTENT,
    ROOT,
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
)

ASSERT = [write("INTENT.md", "x"), asserts("INTENT.md")]
BUSY = [always("look", sleep(30), say("seen"))]


def opening(*do: Any, **agents: Any) -> JobHarness:
    """A stage whose first lead does that first; its workers take their time."""
    given: dict[str, Any] = {"writer": BUSY, "researcher": BUSY, **agents}
    more = given.pop("more", [])
    return JobHarness(book(intent=[on(r"^\[INTENT\]", *do), *more], **given))


def said(stage: JobHarness) -> JobHarness:
    """The same, when the lead's first turn is over."""
    return stage.until(lambda s: s.started("intent-lead") and not s.busy("intent-lead"))


# ---- the cap ---------------------------------------------------------------------------------------


def test_a_fourth_dispatch_is_refused_when_the_tool_is_called() -> None:
    stage = said(opening(*[send("writer", f"look {n}") for n in range(4)]))
    assert stage.fired("spark") == 1 + 3  # the lead itself is sparked too
    assert stage.refusals == ["3 dispatches are open; close one before you open another"]


def test_a_close_in_the_same_turn_frees_a_slot() -> None:
    sends = [send("writer", f"look {n}", f"w{n}") for n in range(3)]
    stage = said(opening(*sends, close("w1"), send("researcher", "look"), send("researcher", "look too")))
    assert stage.fired("spark") == 1 + 4
    assert stage.refusals == ["3 dispatches are open; close one before you open another"]
    stage.until(lambda s: s.started("researcher"))
    assert stage.told("writer") == ["look 0", "look 2"]


def test_a_close_in_an_earlier_turn_frees_a_slot() -> None:
    sends = [send("writer", "look", "w"), send("researcher", "look"), send("researcher", "look")]
    more = [on("\nseen$", close("w"), send("writer", "look"))]
    stage = opening(*sends, writer=[always("look", say("seen"))], more=more).until(lambda s: s.started("writer") == 2)
    assert stage.refusals == []


def test_a_continuation_needs_no_slot() -> None:
    sends = [send("writer", f"look {n}", f"w{n}") for n in range(3)]
    stage = said(opening(*sends, *[tell(f"w{n}", "look again") for n in range(3)]))
    assert stage.refusals == []


def test_a_question_takes_no_slot() -> None:
    more = [on("\nseen$", send("researcher", "look"), send("researcher", "look too"))]
    stage = opening(send("writer", "look"), ask("which?"), writer=[on("look", say("seen"))], more=more)
    stage.until(lambda s: s.started("researcher") == 2)
    assert stage.refusals == []
    assert stage.soup.of(AskHuman)
    stage.approve().check()


def test_the_cap_counts_again_after_a_restart() -> None:
    more = [on("\nseen$", send("researcher", "look"))]
    sends = [send("writer", "look"), send("researcher", "look"), send("researcher", "look")]
    stage = said(opening(*sends, writer=[on("look", sleep(2), say("seen"))], more=more))
    stage.kill()
    stage.until(lambda s: s.refusals)
    assert stage.refusals == ["3 dispatches are open; close one before you open another"]


# ---- the team, and visibility ----------------------------------------------------------------------


def test_whoever_is_outside_the_team_is_refused() -> None:
    stage = said(opening(send("coder", "look"), coder=[]))
    assert stage.refusals == ["coder is not in your team; you may dispatch: researcher, writer"]


@pytest.mark.parametrize("to", ["nobody", "proxy", "orchestrator", "human"])
def test_an_agent_that_the_job_does_not_have_is_refused(to: str) -> None:
    stage = said(opening(send(to, "look")))
    assert f"{to} is not in your team" in stage.refusals[0]


def test_a_worker_without_a_team_dispatches_nobody() -> None:
    stage = opening(send("writer", "look"), writer=[on("look", send("researcher", "look"), say("seen"))])
    stage.until(lambda s: s.refusals)
    assert stage.refusals == ["researcher is not in your team; you may dispatch: no agent"]


def test_a_known_thread_with_an_unknown_recipient_is_refused() -> None:
    stage = said(opening(send("writer", "look"), send("researcher", "look")))
    lead, writer = ("intent-lead", "state:j1/1"), stage.thread("writer")
    refuse_unless_admissible(stage.soup, *lead, (Deliver("writer", writer, "m"),))
    with pytest.raises(Refused, match="not in your visibility"):
        refuse_unless_admissible(stage.soup, *lead, (Deliver("researcher", writer, "m"),))
    fresh = (Deliver("writer", "dispatch:new", "m"), Deliver("researcher", "dispatch:new", "m"))
    with pytest.raises(Refused, match="belongs to writer"):
        refuse_unless_admissible(stage.soup, *lead, fresh)


@pytest.mark.parametrize(
    "tool, args, why",
    [
        ("Send", {"thread": "{researcher}", "text": "x"}, "not in your visibility"),
        ("Send", {"thread": "{job}", "text": "x"}, "not in your visibility"),
        ("Send", {"thread": "{writer}", "text": "to myself"}, "not in your visibility"),
        ("Send", {"thread": "dispatch:none", "text": "x"}, "no open conversation"),
        ("Send", {"thread": "{writer}", "to": "researcher", "text": "x"}, "either `to`"),
        ("Send", {"text": "x"}, "either `to`"),
        ("Send", {"to": "", "text": "x"}, "to must be a name"),
        ("Send", {"to": ["writer"], "text": "x"}, "to must be a name"),
        ("Send", {"thread": "dispatcher", "text": 5}, "text must be a string"),
        ("Send", {"thread": "dispatcher", "text": "x" * 300_000}, "put it into a file"),
        ("Send", {"thread": "dispatcher", "text": "a\x00b"}, "it has a NUL character"),
        ("CloseConversation", {"thread": "{researcher}"}, "not a conversation that you opened"),
        ("CloseConversation", {"thread": "{lead}"}, "not a conversation that you opened"),
        ("AskQuestion", {"text": "ok?", "kind": "assert", "artifact": "INTENT.md"}, "only the lead"),
        ("AskQuestion", {"text": "ok?", "kind": "failure"}, "kind is"),
        ("Answer", {"text": "approved", "verdict": "approve"}, "has no tool 'Answer'"),
        ("AskHuman", {"text": "approve it"}, "has no tool 'AskHuman'"),
        ("Bash", {}, "has no tool 'Bash'"),
    ],
)
def test_a_call_that_is_not_the_agents_to_make_is_refused_with_the_reason(
    tool: str, args: dict[str, Any], why: str
) -> None:
    """A worker tries what only its siblings, its lead or the proxy may do."""
    stage = opening(send("writer", "look"), send("researcher", "look"), *ASSERT).sleeping("writer")
    places = {name: stage.thread(name) for name in ("writer", "researcher")}
    named = json.loads(json.dumps(args))
    for key, value in named.items():
        if isinstance(value, str) and value.startswith("{"):
            named[key] = value.format(**places, lead="state:j1/1", job=ROOT)
    stage.call(stage.order("writer"), tool, **named).crank()
    assert len(stage.refusals) == 1
    assert why in stage.refusals[0]


def test_a_question_is_no_conversation() -> None:
    stage = opening(send("writer", "look"), *ASSERT, more=[on("seen", sleep(20))], writer=[on("look", say("seen"))])
    stage.until(lambda s: s.started("intent-lead") == 2 and s.slept("intent-lead"))
    thread = f"escalation:{stage.soup.of(AskHuman)[0].id}"
    stage.call(stage.order("intent-lead"), "Send", thread=thread, text="say yes").crank()
    stage.call(stage.order("intent-lead"), "CloseConversation", thread=thread).crank()
    assert stage.refusals == [
        f"proxy takes no message on {thread}; a question ends with its answer",
        f"{thread} is a question; it ends with its answer",
    ]


# ---- closed, dead and late -------------------------------------------------------------------------


def test_a_send_to_a_closed_thread_is_refused() -> None:
    more = [on("seen", close("w"), tell("w", "more")), on("PENDING", tell("w", "still there?"), close("w"), *ASSERT)]
    stage = opening(send("writer", "look", "w"), writer=[on("look", say("seen"))], more=more).run()
    thread = stage.order("writer").thread
    assert stage.refusals == [
        f"{thread} was closed earlier in this turn",
        f"there is no open conversation {thread}",
        f"{thread} is closed already",
    ]
    assert stage.told("writer") == ["look"]


def test_a_message_for_the_dead_is_told_to_its_sender() -> None:
    more = [on("seen", tell("w", "go on"), sleep(9)), on("FAILED", *ASSERT)]
    stage = opening(send("writer", "look", "w"), writer=[on("look", say("seen"))], more=more)
    stage.until(lambda s: s.started("intent-lead") == 2 and s.slept("intent-lead"))
    writer = stage.thread("writer")
    stage.withdraw(writer).run()
    assert stage.fired("dead-letter") == 1
    told = stage.told("intent-lead")[2:]
    assert told[0] == f"[FAILED] writer on {writer} was withdrawn by the human: enough"
    assert f"[FAILED] writer on {writer} is gone; your message was not delivered: go on" in told
    assert stage.told("writer") == ["look"]


def test_a_close_of_what_has_died_meanwhile_is_no_error() -> None:
    more = [on("seen", close("w"), sleep(9)), on("WITHDRAW", *ASSERT)]
    stage = opening(send("writer", "look", "w"), writer=[on("look", say("seen"))], more=more)
    stage.until(lambda s: s.started("intent-lead") == 2 and s.slept("intent-lead"))
    stage.withdraw(stage.thread("writer")).run()
    assert stage.live.standing.asking == 1


def test_a_call_from_an_earlier_turn_is_refused() -> None:
    stage = opening(send("writer", "look"), writer=[on("look", say("seen"))], more=[on("seen", sleep(20))])
    stage.until(lambda s: s.started("intent-lead") == 2 and s.slept("intent-lead"))
    first, second = [order for order in stage.orders if order.agent == "intent-lead"]
    stage.call(first, "Send", to="writer", text="late").crank()
    assert stage.refusals == ["this turn is over"]
    stage.call(replace(second, token=first.token), "Send", to="writer", text="late").crank()
    assert stage.refusals == ["this turn is over"] * 2


def test_a_call_with_another_turns_token_is_refused() -> None:
    stage = opening(send("writer", "look"), send("researcher", "look")).sleeping("writer").sleeping("researcher")
    mixed = replace(stage.order("writer"), token=stage.order("researcher").token)
    stage.call(mixed, "Send", thread="dispatcher", text="as somebody else").crank()
    assert stage.refusals == ["this turn is over"]


def test_a_late_or_doubled_result_matches_nothing() -> None:
    stage = opening(send("writer", "look"), writer=[on("look", say("seen"))], more=[on("seen", *ASSERT)]).run()
    before = len(stage.steps())
    stage.end(stage.order("writer")).crank()
    stage.end(stage.order("intent-lead"), "late").crank()
    assert len(stage.steps()) == before
    assert stage.reports("intent-lead", "writer") == ["seen"]


def test_a_result_of_an_earlier_epoch_matches_nothing() -> None:
    stage = opening(send("writer", "look")).sleeping("writer")
    lost = stage.order("writer")
    stage.kill()
    stage.adopt().sleeping("writer")
    stage.end(lost, "from beyond").crank()
    stage.end(stage.order("writer"), "from beyond", epoch=lost.epoch).crank()
    assert stage.busy("writer")
    assert stage.bodies(to="intent-lead", sender="writer") == []


# ---- asking ----------------------------------------------------------------------------------------


def test_whoever_has_asked_may_only_ask_on() -> None:
    stage = said(opening(ask("which?"), send("writer", "look"), close("w"), ask("when?")))
    assert stage.refusals == ["you have asked, so your turn ends; the answer comes as your next message"]
    assert stage.started("writer") == 0
    assert len(stage.soup.of(Proxy)) == 2


def test_the_calls_that_stand_in_one_message_with_a_question_are_taken() -> None:
    stage = opening(sleep(30)).sleeping("intent-lead")
    order = stage.order("intent-lead")
    stage.call_in(2, order, "AskQuestion", {"text": "which?"}).crank()
    stage.call_in(2, order, "Send", {"to": "writer", "text": "look"}).crank()
    assert stage.refusals == []
    stage.call_in(3, order, "Send", {"to": "writer", "text": "again"}).crank()
    assert stage.refusals == ["you have asked, so your turn ends; the answer comes as your next message"]
    stage.until(lambda s: not s.busy("intent-lead"))
    assert len(stage.soup.of(Proxy)) == 1
    assert stage.bodies(to="writer") == ["look"]


def test_several_questions_of_one_turn_make_several_escalations_and_one_idle() -> None:
    stage = said(opening(ask("which?"), ask("when?")))
    names = [message_meta.read_as(Posed, row).question for row in stage.messages(to="proxy")]
    told = [text for ok, text in stage.replies if ok]
    assert [text.split(".")[0] for text in told] == [f"asked: question {name}" for name in names]
    (step,) = stage.steps("ask")
    assert step.produced.count("Proxy ") == 2
    assert step.produced.count("Idle intent-lead") == 1
    assert stage.soup.all(Idle, "state:j1/1") == (Idle("intent-lead", "state:j1/1"),)
    stage.run()
    stage.answer(None, "this one", "which?").run()
    assert stage.told("intent-lead")[-1] == f"[ANSWER] (from the human; question {names[0]}) this one"
    stage.answer(None, "now", "when?")
    stage.until(lambda s: s.started("intent-lead") == 3)
    assert stage.told("intent-lead")[-1] == f"[ANSWER] (from the human; question {names[1]}) now"


@pytest.mark.parametrize(
    "policy, more, who",
    [
        ("always", {}, "The proxy looks at it, then ada answers it."),
        ("always", {"brief_human": False}, "It is put to ada, who answers it."),
        ("when_unsure", {}, "The proxy answers it for ada, or asks them."),
        ("never", {"brief_human": False}, "The proxy answers it for ada, who is not asked."),
    ],
)
def test_whoever_asks_is_told_who_will_answer(policy: str, more: dict[str, Any], who: str) -> None:
    stage = JobHarness(book(intent=[on(r"^\[INTENT\]", ask("which?"))]), policy, **more)
    stage.until(lambda s: s.fired("ask"))
    assert f"{who} Your turn ends, and the answer comes as your next message." in stage.replies[0][1]


def test_a_send_and_a_question_of_one_turn_both_go_out() -> None:
    stage = said(opening(send("writer", "look"), ask("which?")))
    assert (stage.fired("send-ask"), stage.fired("ask-step"), stage.fired("send-empty")) == (1, 0, 1)
    stage.until(lambda s: s.started("writer") and s.soup.of(AskHuman))


def test_an_answer_comes_as_the_next_message_on_the_askers_thread() -> None:
    stage = opening(ask("which?")).run()
    stage.answer(None, "that one").until(lambda s: s.started("intent-lead") == 2)
    assert re.fullmatch(r"\[ANSWER\] \(from the human; question \w+\) that one", stage.told("intent-lead")[1])
    assert stage.order("intent-lead").thread == "state:j1/1"
    assert stage.order("intent-lead").sender == "proxy"


def test_a_withdrawal_rides_on_the_answer() -> None:
    more = [on(r"^\[WITHDRAW\]\nno money\Z", outcome("WITHDRAW", "no money"))]
    stage = opening(ask("which?"), more=more).run().answer("withdraw", "no money").run()
    assert (stage.state, stage.record.history[-1].actor) == ("WITHDRAWN", "intent-lead")


def test_a_worker_may_ask_and_its_verdict_moves_nothing() -> None:
    intent = [
        on(r"^\[INTENT\]", write("INTENT.md", "x"), send("writer", "look")),
        on("yes", outcome("APPROVED_INTENT")),
    ]
    writer = [on("look", ask("INTENT.md: approve?")), on(r"^\[ANSWER approve\]", say("they say yes"))]
    stage = JobHarness(book(intent=[*intent, *INTENT], writer=writer)).run()
    stage.approve()
    assert stage.told("writer")[0] == "look"
    assert re.fullmatch(r"\[ANSWER approve\] \(from the human; question \w+\) yes", stage.told("writer")[1])
    assert (stage.state, stage.verdicts()) == ("INTENT", [])
    assert any("no live approval" in text for text in stage.told("intent-lead"))


def test_what_was_accepted_reduces_in_its_order() -> None:
    stage = said(opening(send("writer", "look 1", "a"), send("researcher", "look 2"), tell("a", "look 3"), close("a")))
    names = [step.rule for step in stage.steps() if step.who == "intent-lead"]
    assert names == ["wake", "send-step", "spark", "spark", "send", "send-terminate", "send-empty"]
    payloads = decode_as(Broadcast, stage.steps("send-step")[1].choice).payloads
    assert [type(payload) for payload in payloads] == [Deliver, Deliver, Deliver, Close]


# ---- many turns that end at once -------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_turns_that_end_at_once_may_be_committed_in_parts_and_no_turn_starts_before_all_of_them(ahead: int) -> None:
    sends = [send("writer", f"look {n}") for n in range(3)]
    play = book(intent=[on(r"^\[INTENT\]", *sends)], writer=[always("look", sleep(30))])
    stage = JobHarness(play, ahead=ahead).until(lambda s: s.started("writer") == 3)
    behind: list[int] = []

    def eager(order: Order) -> None:
        committed = stage.outside.load(order.job).transaction
        behind.append(stage.live.counters.transaction - (committed.number if committed is not None else 0))

    stage.turns.eager = eager
    before = stage.live.counters.transaction
    for order in [order for order in stage.orders if order.agent == "writer"]:
        stage.end(order, "seen")
    stage.crank()
    assert stage.live.counters.transaction == before + (3 + ahead - 1) // ahead if ahead else before + 1
    assert (stage.started("intent-lead"), behind) == (2, [0])
    stage.run()
    assert sum("seen" in told for told in stage.told("intent-lead")) == 3


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_crash_between_the_parts_loses_the_rest_and_no_more(number: int, when: str) -> None:
    sends = [send("writer", f"look {n}") for n in range(3)]
    play = book(intent=[on(r"^\[INTENT\]", *sends)], writer=[always("look", sleep(30))])
    stage = JobHarness(play, ahead=1).until(lambda s: s.started("writer") == 3)
    for order in [order for order in stage.orders if order.agent == "writer"]:
        stage.end(order, "seen")
    stage.die_at("commit", number, when).crank()
    assert stage.processes == 2
    kept = number if when == "after" else number - 1
    assert sum("seen" in row.body for row in stage.messages()) == kept
    stage.run()
