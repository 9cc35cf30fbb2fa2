"""Who shows no sign of life is noticed, told about once, and forgotten with the next sign."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from parley.engine.values.hold_causes import stalls
from parley.ports.turns import Progress, Sign
from parley.protocol.molecules import Hold, Interrupt
from parley.roles.role_snapshot import RoleLimits
from parley.views.history.chronicle import Follower
from parley.views.job_view import Present, with_progress
from parley.views.questions.needs import needs
from parley.views.vitals import vitals
from simulator.disk import SimFiles
from tests.engine.job_harness import JOB, YES, JobHarness, always, asserts, book, close, on, say, send, sleep, write

LEAD = "intent-lead"
LIMIT = 20
ASSERT = [write("INTENT.md", "x"), asserts("INTENT.md")]
TOLD = always(r"^\[STALLED\]", say("I wait"))


def team(silent: float, *more: Any, **limits: Any) -> JobHarness:
    """A writer who says nothing for so long, and the lead that dispatched it."""
    intent = [*more, on(r"^\[INTENT\]", send("writer", "look", "w")), TOLD, on("seen", *ASSERT)]
    play = book(intent=intent, writer=[on("look", write("a.txt", "a"), sleep(silent), say("seen"))])
    return JobHarness(play, **{"stall_seconds": LIMIT, "time_limit_seconds": 600, **limits})


def stalled(stage: JobHarness) -> list[str]:
    """The threads that the bus calls stalled."""
    return [hold.thread for hold in stalls(stage.soup)]


def sign(stage: JobHarness, agent: str, text: str = "still there", **how: Any) -> JobHarness:
    """A sign of life of an agent at work."""
    stage.turns.injected.append(Progress(JOB, stage.order(agent).turn, text, **how))
    stage.crank(0.0)
    return stage


def seen(stage: JobHarness, agent: str) -> Any:
    """An agent's thread as people are shown it."""
    present = Present(stage.outside, JOB)
    thread = next(thread for thread in present.threads() if thread.agent == agent)
    return with_progress(present, thread, SimFiles(stage.disk, stage.fuse))


def test_whoever_is_silent_for_too_long_is_stalled_and_its_dispatcher_hears_of_it_once() -> None:
    stage = team(200).sleeping("writer")
    stage.wait(LIMIT - 1)
    assert stalled(stage) == []
    stage.wait(6)
    writer = stage.thread("writer")
    assert stalled(stage) == [writer]
    stage.wait(100)
    (told,) = [text for text in stage.told(LEAD) if text.startswith("[STALLED]")]
    assert told.startswith(f"[STALLED] writer on {writer} has shown no sign of life since ")
    assert "The last thing it did: sleep." in told
    assert "close it, or send another" in told
    assert stage.fired("intervene") == 1
    assert stage.live.row.needs_human == 0  # an agent can act on it
    thread = seen(stage, "writer")
    assert (thread.state, thread.doing[:14]) == ("stalled", "stalled since ")
    assert thread.last_progress > 0
    stage.run()
    assert stage.busy("writer") is False
    assert (stalled(stage), stage.live.standing.asking) == ([], 1)


def test_a_stall_ends_with_the_next_sign_of_life_and_may_come_again() -> None:
    stage = team(200).sleeping("writer").wait(LIMIT + 6)
    assert stalled(stage)
    sign(stage, "writer")
    assert stalled(stage) == []
    assert seen(stage, "writer").state == "running"
    stage.wait(LIMIT + 6)
    assert stalled(stage)
    stage.wait(LIMIT + 6)
    assert stage.fired("intervene") == 2  # once for each stall
    stage.run()
    log = [event.text for event in Follower(stage.outside, JOB).read() if event.kind in ("hold", "release")]
    assert [text.rpartition(": ")[2] for text in log[1::2]] == ["it shows life again", "its turn is over"]
    assert "is stalled: no sign of life since" in log[0]


def test_silence_inside_a_tool_is_no_stall() -> None:
    stage = team(300).sleeping("writer")
    sign(stage, "writer", "make", tool="shell", use="1")
    sign(stage, "writer", "a word", tool="grep", use="2")
    sign(stage, "writer", "", tool="shell", use="1", over=True)
    sign(stage, "writer", "sleep 100", sign=Sign.PAUSE)  # says less than what it did before
    stage.wait(100)
    assert stalled(stage) == []
    (vital,) = vitals(Present(stage.outside, JOB), SimFiles(stage.disk, stage.fuse), stage.clock.now()).values()
    assert (vital.in_tool, vital.stalled, vital.said) == ("grep", False, "grep a word")
    assert vital.silent_seconds >= 95
    sign(stage, "writer", "", tool="grep", use="2", over=True)
    stage.wait(LIMIT + 6)
    assert stalled(stage)


def test_the_words_of_an_agent_count_however_they_begin() -> None:
    stage = team(300).sleeping("writer")
    sign(stage, "writer", "make", tool="shell", use="1")
    sign(stage, "writer", "sleep would only hide the race")
    stage.wait(1)
    (vital,) = vitals(Present(stage.outside, JOB), SimFiles(stage.disk, stage.fuse), stage.clock.now()).values()
    assert vital.said == "sleep would only hide the race"


def test_a_lead_that_is_silent_is_the_humans_business() -> None:
    stage = JobHarness(
        book(intent=[on(r"^\[INTENT\]", sleep(100), *ASSERT)]), stall_seconds=LIMIT, time_limit_seconds=600
    )
    stage.sleeping(LEAD).wait(LIMIT + 6)
    assert stalled(stage) == ["state:j1/1"]
    assert stage.outside.load(JOB).row.needs_human == 1
    assert stage.fired("intervene") == 0
    stage.run()
    assert stage.outside.load(JOB).row.needs_human == 1  # its question now


@pytest.mark.parametrize("jump", [-86400.0, 86400.0])
def test_a_clock_that_is_set_makes_nobody_stalled(jump: float) -> None:
    stage = team(60)
    stage.sleeping("writer")
    before = stage.clock.now
    stage.clock.now = lambda: before() + jump  # type: ignore[method-assign] # somebody sets the clock
    stage.wait(LIMIT - 2)
    assert stalled(stage) == []
    stage.wait(LIMIT)
    assert stalled(stage)  # and nobody hides behind it
    stage.run()


def test_an_engine_that_was_held_up_takes_that_for_nobodys_silence() -> None:
    stage = team(600).sleeping("writer")
    stage.clock.time += 500  # the process was stopped, or the machine slept
    stage.crank(0.0)
    assert stalled(stage) == []


def test_a_stall_is_gone_with_its_process_and_its_turn_is_tried_again() -> None:
    stage = team(200).sleeping("writer").wait(LIMIT + 6)
    assert stalled(stage)
    stage.kill()
    thread = seen(stage, "writer")
    assert (thread.state, thread.doing) == ("waiting", "no process works on it")
    assert [need.kind for need in needs(stage.outside, SimFiles(stage.disk, stage.fuse))] == ["unattended"]
    assert vitals(Present(stage.outside, JOB), SimFiles(stage.disk, stage.fuse), stage.clock.now()) == {}
    stage.adopt()
    assert stalled(stage) == []
    assert stage.busy("writer")
    stage.run()
    assert stage.live.standing.asking == 1


def test_a_stalled_worker_can_be_closed_redirected_and_withdrawn() -> None:
    closing = on(r"^\[STALLED\]", close("w"), *ASSERT)
    stage = team(200, closing).sleeping("writer").wait(LIMIT + 10).run()
    assert (stage.live.standing.asking, stage.busy("writer"), stage.soup.of(Hold)) == (1, False, ())
    stage = team(200).sleeping("writer").wait(LIMIT + 6)
    stage.intervene("hurry", stage.thread("writer"), now=True).until(lambda s: s.started("writer") == 2)
    assert stalled(stage) == []
    stage = team(200).sleeping("writer").wait(LIMIT + 6)
    stage.withdraw(stage.thread("writer")).crank()
    assert (stage.soup.of(Hold), stage.busy("writer")) == ((), False)
    stage = team(200).sleeping("writer").wait(LIMIT + 6).withdraw().run()
    assert (stage.state, stage.soup.of(Hold)) == ("WITHDRAWN", ())


def test_a_stall_in_a_pause_wakes_nobody_and_is_told_after_it() -> None:
    stage = team(200).sleeping("writer").pause().wait(LIMIT + 10)
    assert stalled(stage)
    assert (stage.started(LEAD), len(stage.soup.of(Interrupt))) == (1, 1)
    stage.resume().until(lambda s: s.started(LEAD) == 2)
    assert stage.told(LEAD)[1].startswith("[STALLED]")


def test_a_role_has_a_patience_of_its_own() -> None:
    stage = team(100)
    limits, crew = RoleLimits(stall_seconds=60), stage.settings["roles"]
    stage.settings["roles"] = [replace(role, limits=limits) if role.name == "writer" else role for role in crew]
    stage.sleeping("writer").wait(50)
    assert stalled(stage) == []
    stage.wait(20)
    assert stalled(stage)


def test_the_proxys_silence_is_the_humans_business() -> None:
    proxy = [on(r"\[QUESTION\]", sleep(100), {"ask_human": "please look"})]
    stage = JobHarness(book(proxy=proxy, human=None), stall_seconds=LIMIT, time_limit_seconds=600)
    stage.sleeping("proxy").wait(LIMIT + 6)
    files = SimFiles(stage.disk, stage.fuse)
    (need,) = [need for need in needs(stage.outside, files) if need.kind == "stall"]
    assert not any("intervene" in way.command for way in need.exits)  # nobody talks to it but whoever it asks
    assert [thread.partition(":")[0] for thread in stalled(stage)] == ["escalation"]
    assert stage.outside.load(JOB).row.needs_human == 1
    stage.run()
    assert stage.approve().state == "PLAN"


def test_a_process_that_dies_over_a_stall_leaves_a_record_that_holds() -> None:
    for what in ("commit", "append", "submit"):
        for when in ("before", "after"):
            stage = team(60).sleeping("writer").die_at(what, when=when)
            stage.wait(LIMIT + 6).run()
            assert stage.live.standing.asking == 1


def test_a_whole_job_goes_on_after_stalls() -> None:
    intent = [on(r"^\[INTENT\]", send("writer", "look", "w")), on("seen", close("w"), *ASSERT)]
    approved = always(r"^\[ANSWER approve\]", {"outcome": {"outcome": "APPROVED_INTENT", "reason": "approved"}})
    play = book(intent=[*intent, approved, TOLD], writer=[on("look", sleep(90), say("seen"))], human=YES)
    stage = JobHarness(play, stall_seconds=LIMIT, time_limit_seconds=600).run()
    assert (stage.state, stage.fired("hold")) == ("DONE", 1)
