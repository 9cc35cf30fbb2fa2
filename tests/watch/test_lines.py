"""The parts of the watch that need no terminal: lines that fit, pages that scroll, words that are typed."""

import os
import pty
import select
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.text import Text

from parley.adapters.files import JobFiles
from parley.adapters.glance import Glimpse, glance
from parley.adapters.sqlite import SqliteStore
from parley.faces.terminal.keys import Pasted, parse
from parley.faces.terminal.overview import Detail, Overview, draw_list, entries
from parley.faces.terminal.pages import Page, diff_page, fitted
from parley.faces.terminal.prompt import Prompt
from parley.faces.terminal.screen import foot, key_lines
from parley.faces.terminal.sight import Sight
from parley.faces.terminal.tty import Tty
from parley.faces.terminal.watch import Watch
from parley.ports import JobRow, Loaded, Store
from parley.text import printable

ANYTHING = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
SIZES = st.tuples(st.integers(40, 200), st.integers(10, 60))
STATES = st.sampled_from(["INTENT", "PLAN", "EXECUTE", "DONE", "WITHDRAWN", "FAILURE"])


@given(ANYTHING, st.integers(20, 120))
def test_every_line_of_a_text_fits_and_commands_nothing(text: str, width: int) -> None:
    page = Page("t", [(text, "")])
    for line in page.draw(width, 400)[1:]:
        line.truncate(width)
        assert line.plain.isprintable()
        assert line.cell_len <= width
    shown = "".join("".join(fitted(text, width)).split())
    kept = "".join(printable(text.expandtabs(4)).split())
    assert shown == kept  # nothing is lost to the breaking of lines


@given(st.lists(st.tuples(STATES, ANYTHING, st.integers(0, 2)), max_size=40), SIZES, st.integers(0, 50))
@settings(max_examples=60)
def test_the_list_fits_any_size_and_shows_what_is_chosen(
    jobs: list[tuple[str, str, int]], size: tuple[int, int], at: int
) -> None:
    seen = [Glimpse(f"job{at:05}", text, float(at), state, 0, asks, 0) for at, (state, text, asks) in enumerate(jobs)]
    found = entries(seen, lambda one: "working", now=100.0)
    chosen = found[at % len(found)].job if found else ""
    width, room = size
    lines = draw_list("x" * 80, found, chosen, lambda entry: Detail(entry.request, 0.0, "9 turns"), width, room)
    assert len(lines) <= room
    assert all(line.cell_len <= width for line in lines)
    assert not found or any(line.plain.startswith(f"▸ {chosen}") for line in lines)


def test_problems_first_then_work_then_what_is_done() -> None:
    seen = [
        Glimpse("done", "", 90.0, "DONE", 0, 0, 0),
        Glimpse("works", "", 90.0, "PLAN", 0, 0, 0),
        Glimpse("asks-late", "", 80.0, "PLAN", 0, 1, 0),
        Glimpse("failed", "", 90.0, "FAILURE", 0, 0, 0),
        Glimpse("asks-long", "", 10.0, "INTENT", 0, 1, 0),
        Glimpse("failed-long-ago", "", -1e6, "FAILURE", 0, 0, 0),
        Glimpse("stuck", "", 50.0, "EXECUTE", 0, 0, 1),
        Glimpse("paused", "", 50.0, "EXECUTE", 0, 0, 1),
    ]
    stops = {"stuck": "needs you", "paused": "paused", "works": "working"}
    found = entries(seen, lambda one: stops[one.job], now=100.0)
    order = ["asks-long", "stuck", "asks-late", "paused", "failed", "works", "done", "failed-long-ago"]
    assert [entry.job for entry in found] == order


@given(st.lists(st.sampled_from(["up", "down", "pageup", "pagedown", " ", "g", "G"])), st.integers(2, 30))
@settings(max_examples=50)
def test_a_page_never_scrolls_past_its_ends(keys: list[str], room: int) -> None:
    page = Page("t", [(f"line {number}", "") for number in range(50)])
    for key in keys:
        page.draw(80, room)
        assert page.turn(key)
    lines = [line.plain.strip() for line in page.draw(80, room)[1:]]
    assert len(lines) == min(50, max(1, room - 1))
    first = int(lines[0].split()[1])
    assert lines == [f"line {number}" for number in range(first, first + len(lines))]


def test_who_reads_the_end_goes_along_and_who_reads_above_stays() -> None:
    page = Page("t", [(f"line {number}", "") for number in range(50)], at_end=True)
    assert page.draw(80, 5)[-1].plain == " line 49"
    page.add([("more", "")])
    assert page.draw(80, 5)[-1].plain == " more"
    page.turn("up")
    before = [line.plain for line in page.draw(80, 5)[1:]]
    page.add([("most", "")])
    assert [line.plain for line in page.draw(80, 5)[1:]] == before


def test_a_diff_has_its_lines_marked() -> None:
    lines = diff_page("j", "diff --git a b\n--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same").draw(80, 20)[1:]
    assert [str(line.style) for line in lines] == ["bold", "bold", "bold", "cyan", "red", "green", ""]


@given(st.lists(st.sampled_from(["a", "é", "写", " ", "backspace", "word", "clear", "up"]), max_size=200))
def test_what_is_typed_fits_and_its_end_is_seen(keys: list[str]) -> None:
    prompt = Prompt("say", lambda text, way: text)
    assert not any(prompt.press(key) for key in keys)
    (*_, line) = foot(prompt.keys, prompt.shown, prompt.typed, [], 60)
    assert line.cell_len <= 60
    assert line.plain.endswith(f"{prompt.typed[-10:]}_")


@given(
    st.lists(st.sampled_from(["a approve", "Enter open", "r try again with advice"]), max_size=12), st.integers(40, 90)
)
def test_keys_take_as_many_lines_as_they_need(keys: list[str], width: int) -> None:
    lines = key_lines(keys, width)
    assert all(line.cell_len <= width for line in lines)
    assert " ".join(" ".join(line.plain for line in lines).split()) == " ".join(keys)


def test_a_line_is_typed_changed_and_sent_in_a_way() -> None:
    prompt = Prompt("say", lambda text, way: f"{text} {way}", ("softly", "loudly"))
    for key in ["one two x", *"abc"]:
        prompt.press(Pasted(key) if len(key) > 1 else key)
    prompt.press("backspace")
    prompt.press("word")
    prompt.press("tab")
    assert prompt.shown == "say [loudly]"
    assert prompt.press("enter")
    assert prompt.send(prompt.typed, prompt.way) == "one two 1"


def test_keys_that_come_in_pieces_and_pastes() -> None:
    assert parse("\x1b[200~two\r\nlines\x1b[201~x") == ["two lines", "x"]
    assert isinstance(parse("\x1b[200~a\x1b[201~")[0], Pasted)
    assert parse("\x1b[Hg\x1b[4~\x0c\x1b[15~\x1b[1;5C") == ["home", "g", "end", "redraw"]


def test_only_what_has_changed_is_painted() -> None:
    master, slave = pty.openpty()
    try:
        tty = Tty(slave, slave)
        tty.paint([Text("one"), Text("two")])
        assert b"one" in os.read(master, 4096)
        tty.paint([Text("one"), Text("2")])
        assert os.read(master, 4096) == b"\x1b[2;1H\x1b[2K2"
        tty.paint([Text("one"), Text("2")])
        assert select.select([master], [], [], 0)[0] == []
    finally:
        os.close(master)
        os.close(slave)


def nothing(*words: object) -> NoReturn:
    raise AssertionError(words)


def sight_of(store: Store, folder: Path, seen: Callable[[], list[Glimpse]]) -> Sight:
    """What a list needs."""
    return Sight(store, JobFiles(folder), "me", "x", lambda: None, seen, nothing, nothing, nothing, nothing)


class Counting(SqliteStore):
    """A bus that counts the jobs that are looked into."""

    looked: set[str]

    def load(self, job: str) -> Loaded:
        self.looked.add(job)
        return super().load(job)


def test_of_a_thousand_jobs_only_those_on_the_screen_are_looked_into(tmp_path: Path) -> None:
    store = Counting(tmp_path, durability="normal")
    store.looked = set()
    now = time.time()
    for number in range(1000):
        state = "DONE" if number < 500 else "PLAN"
        store.create(
            JobRow(f"job{number:05}", f"request {number}", "me", now, now, state, 1, 0, 0, 0, "scripted", "{}")
        )

    overview = Overview(Watch(sight_of(store, tmp_path, lambda: glance(tmp_path))), nothing)
    overview.read()
    lines = overview.draw(80, 22)
    assert "500 need you, 500 done" in lines[0].plain
    assert 0 < len(store.looked) <= 11
    overview.press("G")
    assert "job00499" in overview.draw(80, 22)[-1].plain
    assert len(store.looked) <= 11
    store.close()


def test_where_nothing_is_asked_the_key_for_an_answer_says_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, said = SqliteStore(tmp_path), list[str]()
    store.create(JobRow("job1", "a request", "me", 1.0, 1.0, "PLAN", 1, 0, 0, 0, "scripted", "{}"))
    watch = Watch(sight_of(store, tmp_path, lambda: glance(tmp_path)))
    monkeypatch.setattr(watch, "say", said.append)
    overview = Overview(watch, nothing)
    overview.read()
    overview.press("a")
    assert said == ["job1 asks nothing; go on: parley resume job1"]
    store.close()


def test_an_entry_that_goes_leaves_the_choice_where_it_was(tmp_path: Path) -> None:
    seen = [Glimpse(f"job{number}", "", float(number), "DONE", 0, 0, 0) for number in range(5)]
    store = SqliteStore(tmp_path)
    overview = Overview(Watch(sight_of(store, tmp_path, lambda: list(seen))), nothing)
    overview.read()
    overview.press("j")
    assert _chosen(overview) == "job3"
    seen.pop(3)
    overview.read()
    assert _chosen(overview) == "job2"
    seen.append(Glimpse("newest", "", 99.0, "DONE", 0, 0, 0))
    overview.read()
    assert _chosen(overview) == "job2"
    store.close()


def _chosen(overview: Overview) -> str:
    return next(line.plain.split()[1] for line in overview.draw(80, 20) if line.plain.startswith("▸"))
