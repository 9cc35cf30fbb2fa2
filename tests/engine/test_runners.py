"""What a runner or a workspace may tell of a turn besides its end: a limit, a hopeless fault, too much, a conflict."""

from __future__ import annotations

import json

import pytest

from parley.actions.drive import RestReason, _rest
from parley.bus.slots import handle_after, handle_of, handle_slot
from parley.engine.values.hold_causes import Wait, cause_of
from parley.features.budgets.spending import WorkClock
from parley.protocol.molecules import AskHuman, Crashed, Hold
from parley.views.history.chronicle import Follower
from parley.views.job_view import Present
from parley.views.questions.next_actions import situations
from tests.engine.job_harness import (
    CRASH,
    EXECUTE,
    INTENT,
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
    outcome,
    say,
    send,
    sleep,
    write,
)

GIVES = on(r"^\[EXECUTE\]", send("coder", "look", "c"))
TAKES = on("seen", close("c"), write("WORK_SUMMARY.md", "all"), asserts("WORK_SUMMARY.md"))
DONE = EXECUTE[1]
LIMIT = "a rate limit is reached (429)"


# ---- a provider that fails within a turn -----------------------------------------------------------

DOWN = "the API is down (502)"


def waiting(stage: JobHarness) -> list[str]:
    present = Present(stage.outside, JOB)
    return [f"{thread.agent} {thread.state} {thread.waits.reason}" for thread in present.threads() if thread.waits]


def test_a_turn_that_waits_keeps_all_that_it_has_and_is_shown() -> None:
    stage = parked()
    token = stage.order("coder").token

    stage.waits("coder", DOWN, 30)

    assert waiting(stage) == [f"coder waiting {DOWN}"]
    assert situations(Present(stage.outside, JOB))[0].kind == "parked"
    stage.waits("coder", DOWN, 60).waits("coder", "")
    assert waiting(stage) == []
    stage.run()
    assert stage.state == "DONE"
    assert (stage.started("coder"), stage.order("coder").token) == (1, token)
    assert (stage.fired("hold"), stage.fired("release"), stage.fired("recover")) == (2, 2, 0)
    log = [event.text for event in Follower(stage.outside, JOB).read()]
    assert [text for text in log if text.startswith("coder ")] == [
        f"coder retries in 30 s: {DOWN}",
        f"coder retries in 60 s: {DOWN}",
        "coder goes on",
    ]


def test_who_waits_is_neither_stalled_nor_at_work() -> None:
    stage = JobHarness(
        book(execute=[GIVES, TAKES, DONE], human=YES, coder=[on("look", sleep(4000), say("seen"))]),
        time_limit_seconds=9000,
        budget={"job": {"minutes": 600}},
    ).running("coder")

    stage.waits("coder", DOWN, 30).wait(1000)

    assert stage.fired("hold") == 1
    assert not ticks(stage)
    stage.waits("coder", "")
    assert ticks(stage)


def ticks(stage: JobHarness) -> bool:
    """Whether time at work is being counted."""
    clock = stage.live.guests.find(WorkClock)
    return clock is not None and clock._busy_since is not None


@pytest.mark.parametrize("how", ["withdraw", "interrupt", "kill", "pause"])
def test_whoever_waits_can_be_ended_redirected_and_lost_like_any_other(how: str) -> None:
    stage = parked().waits("coder", DOWN, 3600)
    if how == "withdraw":
        stage.withdraw().run()
        assert stage.state == "WITHDRAWN"
    elif how == "interrupt":
        stage.intervene("look", stage.order("coder").thread, now=True).until(lambda s: s.fired("interrupt"))
        assert stage.busy("coder")
    elif how == "pause":
        stage.pause().crank()
        assert waiting(stage) == [f"coder waiting {DOWN}"]
        stage.resume().crank()
        stage.waits("coder", "")
    else:
        stage.kill()
        stage.adopt()
        assert (stage.fired("recover"), stage.started("coder")) == (1, 2)
    assert waiting(stage) == []
    assert not [hold for hold in stage.soup.of(Hold) if isinstance(cause_of(hold), Wait)]


def test_a_turn_over_its_time_keeps_its_files_and_its_session() -> None:
    coder = [on("look", write("half.txt", "half"), sleep(5), say("seen"))]
    stage = JobHarness(book(execute=[GIVES, TAKES, DONE], human=YES, coder=coder)).sleeping("coder")
    thread, handle = stage.order("coder").thread, json.dumps({"opened": {}, "used": []})

    stage.fail("coder", "it took longer than 60 s", overtime=True, handle=handle)

    assert stage.fired("recover") == 1
    assert len(stage.soup.of(Crashed)) == 1
    assert stage.order("coder").handle == handle
    assert stage.told("coder")[1] == (
        "look\n\n[RECOVERED] Your last turn on this message was ended: it took longer than 60 s."
        " Its files are as you left them; go on from there."
    )
    assert stage.disk.work[JOB, thread]["half.txt"] == "half"
    stage.kill()
    stage.adopt()
    assert stage.disk.work[JOB, thread]["half.txt"] == "half"
    assert stage.order("coder").handle == handle


# ---- a provider's limit ----------------------------------------------------------------------------


def parked() -> JobHarness:
    """A coder at work."""
    coder = [on("look", sleep(5), say("seen"))]
    return JobHarness(book(execute=[GIVES, TAKES, DONE], human=YES, coder=coder)).running("coder")


def test_a_parked_turn_waits_and_goes_on_without_a_strike() -> None:
    stage = parked()
    for _ in range(5):  # more often than a crash would be forgiven
        tries = stage.started("coder")
        stage.fail("coder", LIMIT, parked_seconds=30).wait(29)
        assert (stage.started("coder"), stage.busy("coder")) == (tries, False)
        assert len(stage.soup.of(Hold)) == 1
        (doing,) = {t.doing for t in Present(stage.outside, JOB).threads() if t.agent == "coder"}
        assert doing.endswith(f": {LIMIT}")
        stage.wait(2)
        assert stage.busy("coder")
    stage.run()
    assert stage.state == "DONE"
    assert set(stage.told("coder")) == {"look"}
    assert (stage.fired("hold"), stage.fired("release"), stage.fired("recover")) == (5, 5, 5)
    assert (stage.fired("strike"), stage.fired("give-up"), stage.fired("pending")) == (0, 0, 0)
    assert not stage.soup.of(Crashed)
    log = [event.text for event in Follower(stage.outside, JOB).read()]
    assert f"coder retries in 30 s: {LIMIT}" in log
    assert "coder goes on" in log
    assert any(LIMIT in text and "it is tried again" in text for text in log)


@pytest.mark.parametrize("back", [600, 3 * 86400])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_clock_that_is_set_back_keeps_nobody_parked(
    restarted: bool, back: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = parked()
    stage.fail("coder", LIMIT, parked_seconds=30)
    before = stage.clock.now
    monkeypatch.setattr(stage.clock, "now", lambda: before() - back)
    if restarted:
        stage.kill()
        stage.adopt().crank(0.0)
    else:
        stage.wait(29)
        assert not stage.busy("coder")
    stage.wait(2)
    assert stage.busy("coder")


def test_a_job_with_somebody_parked_is_not_left_though_the_human_is_asked() -> None:
    execute = [on(r"^\[EXECUTE\]", send("coder", "look", "c"), send("tester", "ask", "t"))]
    human = [{**YES[0], "match": r"\.md:"}]
    stage = JobHarness(
        book(execute=execute, human=human, coder=[on("look", sleep(5))], tester=[on("ask", ask("which?"))]),
    )
    stage.running("coder").fail("coder", LIMIT, parked_seconds=60)
    stage.until(lambda s: s.soup.of(AskHuman) and not s.turns.running)
    assert _rest(stage.live) is None
    stage.wait(61)
    assert stage.started("coder") == 2
    stage.wait(10)
    assert _rest(stage.live) is RestReason.WAITING


def test_who_is_parked_stays_so_when_the_process_dies() -> None:
    stage = parked().fail("coder", LIMIT, parked_seconds=60)
    stage.kill()
    stage.adopt().wait(58)
    assert stage.started("coder") == 1
    stage.wait(3).run()
    assert (stage.started("coder"), stage.state) == (2, "DONE")


def test_who_is_parked_can_be_withdrawn() -> None:
    stage = parked().fail("coder", LIMIT, parked_seconds=600)
    stage.withdraw().run()
    assert stage.state == "WITHDRAWN"
    assert not stage.soup.of(Hold)


# ---- faults that trying again does not mend ----------------------------------------------------------


def test_a_hopeless_lead_goes_straight_to_the_failure_dialog() -> None:
    stage = JobHarness(book(intent=[always(r"^\[INTENT\]", sleep(5)), INTENT[1]])).running("intent-lead")
    stage.fail("intent-lead", "the boundary did not hold", hard=True).run()
    assert stage.started("intent-lead") == 1
    assert (stage.fired("dialog"), stage.fired("recover")) == (1, 0)
    (asked,) = stage.soup.of(AskHuman)
    assert "INTENT is stuck: the boundary did not hold. Trying again ends the same way" in stage.body(asked.framing)
    stage.answer("fail", "").run()
    assert stage.state == "FAILURE"


def test_a_hopeless_worker_is_told_of_at_once() -> None:
    stage = parked().fail("coder", "the boundary did not hold", hard=True).run()
    assert stage.started("coder") == 1
    told = stage.told("project-lead")
    assert any("could not go on after 1 try: the boundary did not hold" in text for text in told)


# ---- workspaces ------------------------------------------------------------------------------------


def test_the_files_of_a_lost_turn_are_put_back_and_kept_apart() -> None:
    coder = [on("look", write("half.txt", "half"), CRASH)]
    stage = JobHarness(book(execute=[GIVES, on(r"^\[FAILED\]", say("so be it"))], human=YES, coder=coder))
    stage.until(lambda s: s.fired("give-up"))
    thread = stage.thread("coder")
    assert "half.txt" not in stage.files(thread)
    lost = [text for name, text in stage.disk.lost.items() if name.startswith(f"{JOB}|{thread}|t")]
    assert len(lost) == 3
    assert all("half.txt" in text for text in lost)


def test_a_turn_that_leaves_too_much_is_lost_and_recorded_so() -> None:
    coder = [always("look", *(write(f"{number}.txt", "x") for number in range(20)), say("seen"))]
    stage = JobHarness(book(execute=[GIVES, on(r"^\[FAILED\]", say("so be it"))], human=YES, coder=coder))
    stage.until(lambda s: s.fired("give-up"))
    stage.check()
    assert [turn.status for turn in stage.outside.turns(JOB) if turn.agent == "coder"] == ["lost"] * 3
    assert "more than 10 files" in stage.steps("give-up")[0].extra
    stage.until(lambda s: any(text.startswith("[FAILED] coder") for text in s.told("project-lead")))


def conflicted(*settling: dict[str, object]) -> JobHarness:
    """Two coders write the same file; the lead closes both in one turn."""
    execute = [
        on(r"^\[EXECUTE\]", send("coder", "one", "c"), send("tester", "two", "t")),
        on("seen", say("waiting")),
        on("seen", close("c"), close("t")),
        *settling,
        DONE,
    ]
    coder = [on("one", write("same.txt", "from one"), say("seen"))]
    tester = [on("two", write("same.txt", "from two"), say("seen"))]
    return JobHarness(book(execute=execute, human=YES, coder=coder, tester=tester))


ENDS = (write("WORK_SUMMARY.md", "all"), asserts("WORK_SUMMARY.md"))


def test_a_conflict_reaches_whoever_closed_and_is_settled_there() -> None:
    stage = conflicted(on(r"^\[MERGE conflict\]", write("same.txt", "of both"), *ENDS)).run()
    assert stage.state == "DONE"
    (told,) = [text for text in stage.told("project-lead") if text.startswith("[MERGE")]
    assert told.startswith("[MERGE conflict] tester")
    assert "\n\n[MERGE clean] coder on dispatch:" in told
    assert "from one" in told
    assert "from two" in told
    assert "Merged cleanly" not in told
    assert stage.files()["same.txt"] == "of both"
    assert not any(text.startswith("[VIOLATION]") for text in stage.told("project-lead"))


def test_no_assert_and_no_outcome_counts_while_a_conflict_is_open() -> None:
    stage = conflicted(
        on(r"^\[MERGE conflict\]", *ENDS),
        on(r"^\[VIOLATION\]", outcome("APPROVED_WORK")),
        on(r"^\[VIOLATION\]", write("same.txt", "of both"), *ENDS),
    ).run()
    assert stage.state == "DONE"
    told = [text for text in stage.told("project-lead") if text.startswith("[VIOLATION]")]
    assert len(told) == 2
    assert all("a merge left conflicts in same.txt" in text for text in told)
    assert "<<<" not in stage.files(ROOT)["same.txt"]


def test_a_conflict_further_down_reaches_whoever_closes() -> None:
    execute = [
        on(r"^\[EXECUTE\]", send("squad", "begin", "s")),
        on("squad is done", close("s")),
        on(r"^\[MERGE conflict\] helper", write("same.txt", "of both"), *ENDS),
        DONE,
    ]
    squad = [
        on("begin", send("helper", "help", "h")),
        on("helped", write("same.txt", "of the squad"), say("squad is done")),
    ]
    helper = [on("help", write("same.txt", "of the helper"), say("helped"))]
    stage = JobHarness(book(execute=execute, human=YES, squad=squad, helper=helper)).run()
    assert stage.state == "DONE"
    told, carried = [text for text in stage.told("project-lead") if text.startswith("[MERGE conflict]")]
    assert "of the squad" in told
    assert "of the helper" in told
    assert carried.startswith("[MERGE conflict] squad")
    assert stage.files()["same.txt"] == "of both"


# ---- sessions --------------------------------------------------------------------------------------


def test_each_question_has_a_session_of_its_own_and_a_played_proxy_one_memory() -> None:
    kept: dict[str, str] = {}
    for thread in ("escalation:a", "escalation:b"):
        where, text = handle_after(kept, "proxy", thread, json.dumps({"session": thread, "used": {"input_tokens": 7}}))
        kept[where] = text
    assert handle_of(kept, "proxy", "escalation:a") == '{"session": "escalation:a", "used": {"input_tokens": 7}}'
    assert handle_of(kept, "proxy", "escalation:c") == ""

    played: dict[str, str] = {}
    for used, thread in (([1], "escalation:a"), ([0], "escalation:b")):
        handle = json.dumps({"used": used, "names": {}, "opened": {}})
        played.update([handle_after(played, "proxy", thread, handle)])
    assert json.loads(handle_of(played, "proxy", "escalation:c"))["used"] == [0, 1]
    assert handle_after({}, "coder", "dispatch:x", "opaque") == (handle_slot("coder", "dispatch:x"), "opaque")
