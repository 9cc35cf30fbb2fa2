"""The process dies: nothing committed is lost, nothing is done twice, and whoever was at work is told."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

import pytest

from parley.audit.audit import audit, read_anchor
from parley.bus.rows import LostOwnership
from parley.engine.turn.merge_riders import own_words
from parley.engine.values import message_meta
from parley.ports.turns import Ended
from simulator.world import Crash
from tests.engine.job_harness import (
    EXECUTE,
    JOB,
    YES,
    JobHarness,
    asserts,
    book,
    close,
    on,
    run_of,
    say,
    send,
    sleep,
    tell,
    write,
)

LEAD = "intent-lead"
ASSERT = [write("INTENT.md", "x"), asserts("INTENT.md")]
PLAY = book(
    execute=[
        on(r"^\[EXECUTE\]", send("squad", "go", "s"), send("coder", "code", "c")),
        on("coded", close("c")),
        on("ready", close("s"), *EXECUTE[0]["do"]),
        *EXECUTE,
    ],
    squad=[on("go", send("helper", "help", "h")), on("helped", write("squad.txt", "s"), close("h"), say("ready"))],
    helper=[on("help", write("helper.txt", "h"), say("helped"))],
    coder=[on("code", write("coder.txt", "c"), tell("dispatcher", "coded"))],
    human=YES,
)


NEW = re.compile(r"(?:dispatch:|children/|question )n\d+")  # which number one gets depends on how many were made before


def outline(stage: JobHarness) -> Counter[tuple[str, str, str]]:
    """Who was told what by whom: the same however often the process died.

    Left out is a lead's empty report: it makes one if the other worker has ended before it, which is a matter of time.
    So is on which message a clean merge rides: each counts by itself.
    """
    told: Counter[tuple[str, str, str]] = Counter()
    for row in stage.messages():
        meta = message_meta.read(row)
        riders = meta.riders if meta is not None else ()
        if words := own_words(row.body, riders):
            told[row.sender, row.agent, NEW.sub("", words)] += 1
        told.update(("orchestrator", row.agent, NEW.sub("", one.text)) for one in riders)
    return told


@cache
def calm() -> JobHarness:
    """The same play with no crash."""
    return JobHarness(PLAY).run()


@pytest.mark.parametrize("first", range(1, 8))
def test_a_crash_before_any_act_on_the_world_changes_nothing_that_is_said(first: int) -> None:
    """Commits and effects alike: each message is delivered exactly once, the end is the same.

    To die right after an act is to die before the next one.
    """
    acts = calm().fuse.seen
    assert {"commit", "submit", "snapshot", "merge", "prepare", "clear outcome", "append"} <= set(acts)
    for number in range(first, len(acts) + 1, 7):
        stage = JobHarness(PLAY).die_at("", number).run()
        assert stage.processes == 2, number
        assert stage.state == "DONE"
        assert outline(stage) == outline(calm())
        assert stage.files() == calm().files()
        assert len(stage.kept("outcomes")) == 3


@pytest.mark.parametrize("number", [1, 2, 3, 9, 17])
def test_a_crash_at_every_few_commits_is_survived(number: int) -> None:
    stage = JobHarness(PLAY)
    for _ in range(200):
        stage.die_at("commit", number, "after")
        stage.run()
        if stage.state == "DONE":
            break
        stage.crank()
    assert stage.state == "DONE"
    assert outline(stage) == outline(calm())


def test_a_job_that_was_made_known_and_nothing_more_is_opened_by_the_next_process() -> None:
    stage = JobHarness(PLAY).die_at("commit", 1, "before").start()
    assert stage.steps() == []
    stage.run()
    assert (stage.state, stage.fired("open")) == ("DONE", 1)


def test_whoever_was_at_work_gets_its_message_back_and_is_told_which_calls_were_discarded() -> None:
    intent = [
        on("RECOVERED", *ASSERT),
        on(r"^\[INTENT\]", send("writer", "look", "w"), {"note": {"text": "n"}}, tell("w", "look again"), sleep(20)),
    ]
    stage = JobHarness(book(intent=intent)).sleeping(LEAD)
    stage.crank(1.0)  # a quiet moment, in which the streams are written
    stage.kill()
    stage.adopt().run()
    writer = "dispatch:n1"
    assert stage.told(LEAD)[1] == (
        "[INTENT] do it\n\n[RECOVERED] The last turn was lost; these calls of it were discarded:"
        f" Send to writer on {writer}: look; Note; Send to writer on {writer}: look again"
    )
    assert stage.started("writer") == 0
    assert stage.fired("strike") == 0  # it was not the lead's fault


def test_an_agent_that_dies_is_told_the_same() -> None:
    writer = [
        on("RECOVERED", say("seen")),
        on("look", tell("dispatcher", "half of it"), {"crash": 9}),
    ]
    stage = JobHarness(
        book(intent=[on(r"^\[INTENT\]", send("writer", "look")), on("seen", *ASSERT)], writer=writer)
    ).run()
    assert stage.told("writer")[1].startswith("look\n\n[RECOVERED] The last turn was lost")
    assert "Send to intent-lead on state:j1/1: half of it" in stage.told("writer")[1]
    assert stage.reports(LEAD, "writer") == ["seen"]


def test_a_lead_that_dies_is_told_the_same() -> None:
    intent = [on("RECOVERED", *ASSERT), on(r"^\[INTENT\]", send("writer", "look"), {"crash": 9})]
    stage = JobHarness(book(intent=intent)).run()
    assert "these calls of it were discarded: Send to writer" in stage.told(LEAD)[1]
    assert (stage.fired("recover"), stage.fired("strike")) == (1, 0)


def test_sessions_go_on_from_the_last_turn_that_was_committed() -> None:
    """A rule of a playbook acts once: what was used before the crash stays used, what was lost is not."""
    intent = [on(r"^\[INTENT\]", send("writer", "look")), on("seen", sleep(20), *ASSERT), on("seen", say("twice"))]
    stage = JobHarness(book(intent=intent, writer=[on("look", say("seen"))]))
    stage.until(lambda s: s.started(LEAD) == 2 and s.slept(LEAD))
    stage.kill()
    stage.adopt().until(lambda s: s.slept(LEAD))
    first, lost, again = [order.handle for order in stage.orders if order.agent == LEAD]
    assert (first, bool(lost), lost) == ("", True, again)
    stage.run()
    assert (stage.started(LEAD), stage.live.standing.asking) == (3, 1)


def test_the_workspace_is_put_back_and_what_the_lost_turn_wrote_is_kept() -> None:
    intent = [on(r"^\[INTENT\]", write("a.txt", "good"), send("writer", "look")),
              on("seen", write("a.txt", "bad"), write("b.txt", "bad"), sleep(20))]  # fmt: skip
    stage = JobHarness(book(intent=intent, writer=[on("look", say("seen"))]))
    stage.until(lambda s: s.started(LEAD) == 2 and s.slept(LEAD))
    assert stage.files()["a.txt"] == "bad"
    stage.kill()
    stage.adopt()
    assert stage.files() == {"a.txt": "good"}
    assert any('"b.txt": "bad"' in kept for kept in stage.disk.lost.values())


def test_what_a_close_brought_up_survives_a_crash_before_the_next_turns_end() -> None:
    stage = JobHarness({**PLAY, "human": None}).run().approve().approve()
    assert stage.state == "EXECUTE"
    assert {"squad.txt", "helper.txt"} <= set(stage.files())
    stage.kill()
    stage.adopt()
    assert {"squad.txt", "helper.txt", "coder.txt"} <= set(stage.files())
    assert stage.approve().state == "DONE"


def test_a_process_that_was_deposed_can_not_act() -> None:
    intent = [on(r"^\[INTENT\]", sleep(3), *ASSERT)]
    stage = JobHarness(book(intent=intent)).sleeping(LEAD)
    old, turns, first = stage.engine, stage.turns, stage.order(LEAD)
    stage.bus.steal(JOB)
    stage.bus.kill("thief")
    stage.boot()
    stage.adopt().sleeping(LEAD)
    before = len(stage.steps())
    turns.injected.append(Ended(JOB, first.turn, first.epoch))
    with pytest.raises(LostOwnership, match="does not own job j1"):
        old.crank(1.0)
    turns.close()
    assert len(stage.steps()) == before
    stage.run()
    assert stage.live.standing.asking == 1


def test_every_turn_that_was_lost_is_recorded_as_lost() -> None:
    stage = JobHarness(book(intent=[on(r"^\[INTENT\]", sleep(9), *ASSERT)])).sleeping(LEAD)
    stage.kill()
    stage.adopt().run()
    assert [turn.status for turn in stage.outside.turns(JOB) if turn.agent == LEAD] == ["lost", "ended"]
    assert [run_of(step.consumed) for step in stage.steps("recover")] == ["m2"]
    assert stage.order(LEAD).epoch == 2


def test_a_process_that_dies_while_it_takes_over_is_followed_by_another() -> None:
    stage = JobHarness(PLAY).until(lambda s: s.busy("helper"))
    stage.kill()
    for number in (1, 2, 3, 4):
        stage.die_at("", number)
        stage.crank()
    stage.run()
    assert stage.state == "DONE"
    assert outline(stage) == outline(calm())


def test_the_record_holds_where_the_first_owner_died_right_after_it_wrote_its_first_state() -> None:
    stage = JobHarness(PLAY)
    stage.outside.create(stage.row)
    with pytest.raises(Crash):
        stage.die_at("write state.json", when="after").adopt()
    stage.kill()

    anchor = read_anchor(stage.disk.records[JOB, "state.json"])
    assert audit(stage.outside, JOB, anchor).ok
