"""A scripted agent's writes, each judged by whose the path is before it is made."""

import json
import os
import queue
from typing import Any

import pytest

from parley.ports.turns import Claim, Ended, Judge, Order, Site, TurnEvent, unjudged
from parley.runners.scripted.scripted_runner import ScriptedRunner
from parley.sandbox import Boundary
from parley.workflow.paths.claims import refuse_at
from tests.sandbox.cage_harness import PATIENCE_SECONDS, CageHarness

CLAIMS = (Claim("web", ("web/**",)), Claim("db", ("db/**",)))
OUTPUT = "orchestration/agents/web/task_output/page.html"


def play(boundary: Boundary, yard: CageHarness, judge: Judge, site: Site, *paths: str) -> Ended:
    boundary.hand_over(yard.workspace)
    rules = json.dumps([{"match": ".", "do": [{"write": {"path": path, "text": "mine"}} for path in paths]}])
    order = Order(
        turn="t1",
        job=f"writes{os.getpid()}",
        epoch=1,
        token="secret",
        agent="web",
        thread="dispatch:w",
        message="go",
        sender="executor",
        state="EXECUTE",
        visit=1,
        site=site,
        home=str(yard.home),
        handle="",
        may_ask=False,
        time_limit_seconds=60.0,
        tools=(),
        rules=rules,
    )
    events: queue.SimpleQueue[TurnEvent] = queue.SimpleQueue()
    playing = ScriptedRunner(boundary, judge)
    playing.start(order, events.put)
    try:
        while not isinstance(event := events.get(timeout=PATIENCE_SECONDS), Ended):
            pass
    finally:
        playing.close()
    assert event.fault == ""
    return event


def test_a_worker_writes_what_it_owns_and_is_told_whose_the_rest_is(boundary: Boundary, yard: CageHarness) -> None:
    for name in ("web", "db"):
        (yard.workspace / name).mkdir()
    (yard.workspace / "db/schema.sql").write_text("theirs")
    (yard.workspace / "web/out").symlink_to("../db")
    site = Site(str(yard.workspace), worker="web", claims=CLAIMS)
    wrong = ("db/schema.sql", "web/../db/schema.sql", "web/out/schema.sql", "top", "PLAN.md")
    ended = play(boundary, yard, refuse_at, site, "web/page.html", OUTPUT, *wrong)
    assert (yard.workspace / "web/page.html").read_text() == (yard.workspace / OUTPUT).read_text() == "mine"
    assert (yard.workspace / "db/schema.sql").read_text() == "theirs"
    assert not (yard.workspace / "top").exists()
    assert len(ended.refusals) == len(wrong)
    for said, path in zip(ended.refusals[:3], wrong, strict=False):
        assert said.startswith(f"write {path}: db/schema.sql belongs to db (rule: db owns db/**); ")
        assert "category scope" in said
    assert "has no owner" in ended.refusals[3]
    assert "belongs to the protocol" in ended.refusals[4]


def broken(site: Site, path: str) -> str:
    raise RuntimeError


@pytest.mark.parametrize("judge", [unjudged, broken])
def test_what_cant_be_judged_is_not_written(boundary: Boundary, yard: CageHarness, judge: Any) -> None:
    ended = play(boundary, yard, judge, Site(str(yard.workspace), worker="web", claims=CLAIMS), "web/page.html")
    assert len(ended.refusals) == 1
    assert "the answer is no" in ended.refusals[0]
    assert not (yard.workspace / "web").exists()


def test_where_nobody_owns_anything_nobody_is_asked(boundary: Boundary, yard: CageHarness) -> None:
    ended = play(boundary, yard, broken, Site(str(yard.workspace)), "web/page.html")
    assert ended.refusals == ()
    assert (yard.workspace / "web/page.html").read_text() == "mine"
