"""The page on adding to Parley: its feature and its runner work as they stand there, and what it names is there."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import pytest

from parley.engine.hooks import Guest
from parley.ports.notices import Notice
from parley.ports.turns import Ended, Order, Site
from parley.runners.local_turns import LocalTurns
from tests.docs.test_docs import ROOT, blocks
from tests.engine.job_harness import INTENT, YES, JobHarness, always, asserts, book, on, say, send, write

PAGE = ROOT / "docs" / "extending.md"
FEATURE, RUNNER = blocks(PAGE, "python")
OUGHT = ["j1.chatter.INTENT.1.intent-lead"]


def loaded(code: str, name: str) -> Any:
    """A module with this code."""
    module = ModuleType(name)
    exec(compile(code, f"{PAGE.name}: {name}", "exec"), vars(module))  # noqa: S102 - the page's own example
    return module


class Told:
    """Where notices go."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def tell(self, notice: Notice) -> None:
        self.asked.append(notice.id)


def talkative(told: Told, **settings: Any) -> JobHarness:
    """A job whose lead sends two messages in INTENT, and one or none in every other state."""
    lead = [
        on(r"^\[INTENT\]", send("writer", "look", "first")),
        on("seen", send("writer", "look again", "second")),
        on("seen", write("INTENT.md", "the intent"), asserts("INTENT.md")),
        INTENT[1],
    ]
    play = book(intent=lead, writer=[always("look", say("seen"))], human=YES)
    return JobHarness(play, notices=told, more_features=[loaded(FEATURE, "chatter").Chatter], **settings)


@pytest.mark.parametrize("most,ids", [(1, OUGHT), (2, [])])
def test_the_pages_feature_tells_the_human_of_an_agent_that_sends_more(most: int, ids: list[str]) -> None:
    told = Told()
    assert talkative(told, visit_messages=most).run().state == "DONE"
    assert [one for one in told.asked if "intent-lead" in one] == ids


def test_the_pages_feature_does_nothing_without_its_setting() -> None:
    told = Told()
    assert talkative(told).run().state == "DONE"
    assert [one for one in told.asked if "chatter" in one] == []


def test_the_pages_feature_counts_on_after_a_crash() -> None:
    """The first message is counted by a process that dies, the second by the next; then the notice is asked for."""
    told = Told()
    stage = talkative(told, visit_messages=1).until(lambda s: s.started("writer") == 1)
    assert told.asked == []
    stage.kill()
    stage.adopt()
    assert stage.run().state == "DONE"
    assert set(OUGHT) <= set(told.asked)


def test_the_pages_feature_asks_again_for_a_notice_that_a_crash_may_have_lost() -> None:
    told = Told()
    stage = talkative(told, visit_messages=1).until(lambda s: s.started("writer") == 2)
    told.asked.clear()
    stage.kill()
    stage.adopt()
    assert set(OUGHT) <= set(told.asked)


def test_the_pages_runner_ends_each_turn_with_its_message() -> None:
    turns = LocalTurns({"echo": loaded(RUNNER, "echo_runner").EchoRunner()})
    order = Order(
        turn="t1",
        job="j1",
        epoch=1,
        token="token",
        agent="parrot",
        thread="dispatch:d1",
        message="hello",
        sender="lead",
        state="EXECUTE",
        visit=1,
        site=Site("/"),
        home="",
        handle="",
        may_ask=False,
        time_limit_seconds=60.0,
        tools=(),
        runner="echo",
    )
    turns.submit(order)
    (ended,) = turns.events(timeout_seconds=30.0)
    turns.close()
    assert isinstance(ended, Ended)
    assert (ended.text, ended.fault) == ("hello", "")


def test_every_file_and_hook_that_the_page_names_is_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    made = {"features/chatter.py", "runners/echo/echo_runner.py"}
    named = set(re.findall(r"`((?:\w+/)*\w+(?:\.py|/))`", text)) - made
    assert "audit/replay.py" in named
    assert [
        name for name in sorted(named) if not any((ROOT / base / name).exists() for base in ("", "src/parley"))
    ] == []
    hooks = re.findall(r"`(before_\w+|restored)`", text)
    assert [name for name in hooks if not hasattr(Guest, name)] == []
    assert {"before_call", "before_spark", "restored"} == set(hooks)
