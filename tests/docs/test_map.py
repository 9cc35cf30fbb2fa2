"""The map is what `make map` draws now, and what it says of a turn stays within its bound."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley.ports.machine import Clock, Ids
from parley.protocol import RULES
from simulator.world import SimClock
from tools.map.modules import circles, from_the_top, without_shortcuts
from tools.map.send_turn import MOST_MODULES
from tools.map.walk import Unreached, Watcher, WayPoint

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")

GRAPH = {"top": {"left", "right", "base"}, "left": {"base"}, "right": {"left", "base"}, "base": set[str]()}


def test_the_page_is_what_would_be_drawn() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.map", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.stdout + done.stderr == ""
    assert done.returncode == 0


def test_a_plain_send_turn_touches_no_more_modules_than_it_may() -> None:
    listed = re.findall(r"^\d+\. \[`(\S+)`\]", PAGE.split("## What a Send turn touches")[1], re.MULTILINE)

    assert "protocol.conversation" in listed
    assert len(listed) <= MOST_MODULES


def test_a_graph_is_drawn_without_what_follows() -> None:
    assert without_shortcuts(GRAPH) == [("top", "right"), ("left", "base"), ("right", "left")]
    assert from_the_top(GRAPH) == ["top", "right", "left", "base"]
    assert circles(GRAPH) == []


def test_in_a_circle_every_edge_is_drawn() -> None:
    graph = {"one": {"two", "base"}, "two": {"one", "base"}, "base": set[str]()}

    assert circles(graph) == [["one", "two"]]
    assert without_shortcuts(graph) == [("one", "base"), ("one", "two"), ("two", "base"), ("two", "one")]


@pytest.mark.parametrize("function", [Ids.new, RULES["open"].react])
def test_there_is_no_walk_where_a_way_point_is_not_reached(function: Callable[..., Any]) -> None:
    watcher = Watcher([WayPoint("time passes", Clock.monotonic), WayPoint("something else happens", function)])

    with watcher.watching():
        SimClock().monotonic()

    with pytest.raises(Unreached, match=rf"never came to {function.__qualname__}: something else happens"):
        watcher.stages()


def test_what_implements_a_port_is_a_way_point_of_it() -> None:
    watcher = Watcher([WayPoint("time passes", Clock.now)])

    with watcher.watching():
        SimClock().now()

    assert [stage.happens for stage in watcher.stages()] == ["time passes"]
