"""Clean merges: each rides on the lead's next message, or wakes it where nothing else would."""

from __future__ import annotations

import re

from parley.engine.values import message_meta
from tests.engine.job_harness import (
    YES,
    JobHarness,
    Rule,
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

ENDS = (write("WORK_SUMMARY.md", "all"), asserts("WORK_SUMMARY.md"))
DONE = on(r"^\[ANSWER approve\]", outcome("APPROVED_WORK"))
THREAD = re.compile(r"dispatch:\w+")
CODER = [on("one", write("one.txt", "1"), say("coded")), on("again", say("more"))]
TESTER = [on("two", sleep(5), write("two.txt", "2"), say("tested"))]
BEGIN = on(r"^\[EXECUTE\]", send("coder", "one", "c"), send("tester", "two", "t"))


def played(*execute: Rule) -> JobHarness:
    return JobHarness(book(execute=[BEGIN, *execute], human=YES, coder=CODER, tester=TESTER))


def in_execute(stage: JobHarness) -> list[str]:
    """What the lead was given to read, from the beginning of EXECUTE, without the threads' ids."""
    told = [THREAD.sub("dispatch:", text) for text in stage.told("project-lead")]
    return told[next(number for number, text in enumerate(told) if text.startswith("[EXECUTE]")) :]


def test_a_clean_merge_rides_on_the_next_report() -> None:
    stage = played(on("coded", close("c")), on("tested", close("t"), *ENDS), DONE).run()
    assert stage.state == "DONE"
    _, coded, tested, approved = in_execute(stage)
    assert "[MERGE" not in coded
    assert tested.endswith("\n\n[MERGE clean] coder on dispatch:: one.txt.")
    assert approved.startswith("[ANSWER approve]")
    assert approved.endswith("\n\n[MERGE clean] tester on dispatch:: two.txt.")
    assert stage.fired("merge") == 0
    assert stage.fired("pending") == 0
    told = stage.messages(to="project-lead", sender="tester")[-1]
    meta = message_meta.read(told)
    assert meta is not None
    assert [rider.thread for rider in meta.riders] == [stage.order("coder").thread]


def test_several_clean_merges_ride_together_and_wake_a_lead_that_nothing_else_would() -> None:
    stage = played(
        on("coded", say("waiting")), on("tested", close("c"), close("t")), on(r"^\[MERGE clean\]", *ENDS), DONE
    ).run()
    assert stage.state == "DONE"
    *_, merged, approved = in_execute(stage)
    lines = merged.splitlines()
    assert [line.split(" on ")[0] for line in lines] == ["[MERGE clean] coder", "[MERGE clean] tester"]
    assert "[MERGE" not in approved
    assert stage.fired("merge") == 1
    assert (stage.fired("pending"), stage.fired("strike")) == (0, 0)


def test_a_lead_that_does_nothing_with_the_merge_is_pending_after_it() -> None:
    stage = played(
        on("coded", say("waiting")),
        on("tested", close("c"), close("t")),
        on(r"^\[MERGE clean\]", say("fine")),
        on(r"^\[PENDING\]", *ENDS),
        DONE,
    ).run()
    assert stage.state == "DONE"
    assert (stage.fired("merge"), stage.fired("pending")) == (1, 1)


def test_an_intervention_goes_alone_and_the_merge_with_the_next_message() -> None:
    stage = played(on("coded", close("c")), on("INTERVENE", say("yes")), on("tested", close("t"), *ENDS), DONE)
    stage.until(lambda s: s.started("project-lead") >= 4 and not s.busy("project-lead"))
    stage.intervene("be brief", thread=stage.thread("project-lead")).run()
    _, _, interrupted, tested, _ = in_execute(stage)
    assert interrupted == "[INTERVENE advisory] be brief"
    assert tested.endswith("[MERGE clean] coder on dispatch:: one.txt.")
    assert stage.state == "DONE"


def test_a_merge_that_waits_to_be_told_survives_a_crash() -> None:
    stage = played(on("coded", close("c")), on("tested", close("t"), *ENDS), DONE)
    stage.until(lambda s: bool(s.live.mail.riders))
    stage.kill()
    stage.adopt()
    (waiting,) = stage.live.mail.riders.values()
    assert [rider.thread for rider in waiting] == [stage.order("coder").thread]
    stage.run()
    assert stage.state == "DONE"
    assert sum(text.count("[MERGE clean] coder") for text in stage.told("project-lead")) == 1


def test_what_waits_is_forgotten_with_the_state() -> None:
    done = on("ANSWER", close("c"), close("t"), outcome("APPROVED_WORK"))
    stage = played(on("coded", say("waiting")), on("tested", *ENDS), done).run()
    assert stage.state == "DONE"
    assert not stage.live.mail.riders
    assert not [where for where in stage.outside.load("j1").molecules if where.startswith("riders ")]


def test_the_marker_of_a_withdrawal_goes_alone() -> None:
    ruling = {"match": "WORK_SUMMARY", "verdict": "withdraw", "text": "not worth it"}
    gone = on(r"^\[WITHDRAW\]", outcome("WITHDRAW"))
    execute = [BEGIN, on("coded", say("waiting")), on("tested", close("c"), close("t"), *ENDS), gone]
    stage = JobHarness(book(execute=execute, human=[ruling, *YES], coder=CODER, tester=TESTER)).run()
    assert (stage.state, in_execute(stage)[-1]) == ("WITHDRAWN", "[WITHDRAW]\nnot worth it")
