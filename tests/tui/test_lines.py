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

from parley.base.text import printable
from parley.bus.glimpses import Glimpse
from parley.bus.rows import BusError, JobRow, Loaded
from parley.bus.sqlite.quick_read import glance
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.cli.common import Workplace
from parley.cli.looking.repository_contexts import titles_of
from parley.machine.job_files import JobFiles
from parley.tui.overview import Overview, draw_list
from parley.tui.pages import HELP, LINES, PAST_END, PAST_START, HelpScreen, Page, diff_page, fitted
from parley.tui.prompt import Prompt
from parley.tui.screen import TYPED_LINES, key_lines, prompt_lines
from parley.tui.terminal.keys import Pasted, parse
from parley.tui.terminal.tty import Tty
from parley.tui.watch import Watch
from parley.views.job_list import Detail, ListPlace, grouped
from parley.views.job_view import BEGIN_SECONDS
from parley.views.repository_context import JobContext, RepositoryContext

ANYTHING = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
SIZES = st.tuples(st.integers(40, 200), st.integers(10, 60))
STATES = st.sampled_from(["INTENT", "PLAN", "EXECUTE", "DONE", "WITHDRAWN", "FAILURE"])


def nothing(*words: object) -> NoReturn:
    raise AssertionError(words)


def sight_of(store: Callable[[], SqliteStore], folder: Path, seen: Callable[[], list[Glimpse]]) -> RepositoryContext:
    """What a list needs."""
    return RepositoryContext(
        home=str(folder),
        title="x",
        by="me",
        files=JobFiles(folder),
        exists=lambda: True,
        open_store=store,
        glance=seen,
        exhibit=nothing,
        gate=nothing,
        diff=nothing,
        diffs=NotImplemented,
        artifacts=nothing,
        merged=nothing,
        command=nothing,
        program=nothing,
        go_on=nothing,
    )


NOWHERE = sight_of(nothing, Path("/nowhere"), list)


def watch_over(store: SqliteStore, folder: Path, seen: Callable[[], list[Glimpse]]) -> Watch:
    """A watch over one repository."""
    return Watch(Tty(), [sight_of(lambda: store, folder, seen)])


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
    seen = [
        Glimpse(job=f"job{at:05}", request=text, updated=float(at), state=state, backtracks=0, waiting=asks, held=0)
        for at, (state, text, asks) in enumerate(jobs)
    ]
    found = grouped(
        [(JobContext(NOWHERE, one.job), one) for one in seen],
        lambda at, one: ListPlace("working", one.updated),
        now=100.0,
    )
    chosen = found[at % len(found)] if found else None
    width, room = size
    lines = draw_list(
        "x" * 80, found, chosen and chosen.key, lambda entry: Detail(entry.request, 0.0, "9 turns"), width, room
    )
    assert len(lines) <= room
    assert all(line.cell_len <= width for line in lines)
    assert chosen is None or any(line.plain.startswith(f"▸ {chosen.job}") for line in lines)


def test_problems_first_then_work_then_what_is_done() -> None:
    seen = [
        Glimpse(job="done", request="", updated=90.0, state="DONE", backtracks=0, waiting=0, held=0),
        Glimpse(job="works", request="", updated=90.0, state="PLAN", backtracks=0, waiting=0, held=0),
        Glimpse(job="asks-late", request="", updated=80.0, state="PLAN", backtracks=0, waiting=1, held=0),
        Glimpse(job="failed", request="", updated=90.0, state="FAILURE", backtracks=0, waiting=0, held=0),
        Glimpse(job="asks-long", request="", updated=95.0, state="INTENT", backtracks=0, waiting=1, held=0),
        Glimpse(job="failed-long-ago", request="", updated=-1e6, state="FAILURE", backtracks=0, waiting=0, held=0),
        Glimpse(job="stuck", request="", updated=50.0, state="EXECUTE", backtracks=0, waiting=0, held=1),
        Glimpse(job="paused", request="", updated=50.0, state="EXECUTE", backtracks=0, waiting=0, held=1),
    ]
    standings = {
        "asks-late": ListPlace("needs you", 70.0),
        "asks-long": ListPlace("needs you", 5.0),
        "stuck": ListPlace("needs you", 50.0),
        "paused": ListPlace("paused", 50.0),
        "works": ListPlace("working", 90.0),
    }
    found = grouped([(JobContext(NOWHERE, one.job), one) for one in seen], lambda at, one: standings[at.id], now=100.0)
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


TYPED = ["a", "é", "写", " ", "backspace", "word", "clear", "up", "left", "right", "home", "end", "delete"]


@given(st.lists(st.sampled_from(TYPED), max_size=200), st.integers(40, 90))
def test_all_that_is_typed_is_seen_and_fits(keys: list[str], width: int) -> None:
    prompt = Prompt("say", lambda text, way: text)
    assert not any(prompt.press(key) for key in keys)
    assert 0 <= prompt.cursor <= len(prompt.typed)
    for label in ("say", "a question of several words " * 4):
        lines = prompt_lines(label, prompt.typed, prompt.cursor, width)
        assert all(line.cell_len <= width for line in lines)
        shown = " ".join(line.plain[1:] for line in lines).partition("> ")[2]
        assert "".join(shown.replace("_", "").split()) == "".join(prompt.typed.split())


def test_a_long_paste_keeps_its_lines_and_is_seen_around_the_cursor() -> None:
    prompt = Prompt("say", lambda text, way: text)
    prompt.press(Pasted("\n".join(f"line {number}" for number in range(40))))
    lines = [line.plain for line in prompt_lines(prompt.label, prompt.typed, prompt.cursor, 80)]
    assert len(lines) == TYPED_LINES + 1
    assert lines[0].strip() == f"… {40 - TYPED_LINES} lines above"
    assert lines[-1].strip() == "line 39_"
    prompt.press("home")
    lines = [line.plain for line in prompt_lines(prompt.label, prompt.typed, prompt.cursor, 80)]
    assert lines[0].strip() == "say> line 0"
    assert lines[-1].strip() == f"… {40 - TYPED_LINES} lines below"


@given(
    st.lists(st.sampled_from(["a approve", "Enter open", "r try again with advice"]), max_size=12), st.integers(40, 90)
)
def test_keys_take_as_many_lines_as_they_need(keys: list[str], width: int) -> None:
    lines = key_lines(keys, width, 12)
    assert all(line.cell_len <= width for line in lines)
    assert " ".join(" ".join(line.plain for line in lines).split()) == " ".join(keys)


def test_on_a_small_terminal_some_keys_are_left_out_but_never_those_for_help_and_back() -> None:
    keys = [*(f"{letter} does something" for letter in "abcdefgh"), "? keys", "q back"]
    (line,) = key_lines(keys, 40, 1)
    assert line.cell_len <= 40
    assert line.plain.split("  ")[-3:] == ["…", "? keys", "q back"]


def test_a_line_is_typed_changed_and_sent_in_a_way() -> None:
    prompt = Prompt("say", lambda text, way: f"{text} {way}", ("softly", "loudly"))
    for key in ["one two x", *"abc"]:
        prompt.press(Pasted(key) if len(key) > 1 else key)
    prompt.press("backspace")
    prompt.press("word")
    prompt.press("tab")
    assert prompt.shown == "say [loudly]"
    for key in ("home", "right", "delete", "N", "end", "left", "left", "backspace", "O"):
        prompt.press(key)
    assert prompt.press("enter")
    assert prompt.send(prompt.typed, prompt.way) == "oNe tOo  1"


def test_keys_that_come_in_pieces_and_pastes() -> None:
    assert parse("\x1b[200~two\r\nlines\x07\x1b[201~x") == ["two\nlines", "x"]
    assert isinstance(parse("\x1b[200~a\x1b[201~")[0], Pasted)
    assert parse("\x1b[Hg\x1b[4~\x0c\x1b[15~\x1b[1;5C") == ["home", "g", "end", "redraw"]
    assert parse("\x01\x1b[C\x1bOD\x1b[3~\x05") == ["home", "right", "left", "delete", "end"]


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


class Counting(SqliteStore):
    """A bus that counts the jobs that are looked into."""

    looked: set[str]

    def load(self, job: str) -> Loaded:
        self.looked.add(job)
        return super().load(job)


def test_of_a_thousand_jobs_only_those_on_the_screen_are_looked_into(tmp_path: Path) -> None:
    store = Counting(tmp_path, durability="normal")
    store.looked = set()
    now = time.time() - 60  # long enough ago for a process to have opened it
    for number in range(1000):
        state = "DONE" if number < 500 else "PLAN"
        store.create(
            JobRow(
                job=f"job{number:05}",
                request=f"request {number}",
                decider="me",
                created=now,
                updated=now,
                state=state,
                agent="scripted",
                settings="{}",
            )
        )

    overview = Overview(watch_over(store, tmp_path, lambda: glance(tmp_path)), nothing)
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
    store.create(
        JobRow(
            job="job1",
            request="a request",
            decider="me",
            created=1.0,
            updated=1.0,
            state="PLAN",
            agent="scripted",
            settings="{}",
        )
    )
    watch = watch_over(store, tmp_path, lambda: glance(tmp_path))
    monkeypatch.setattr(watch, "say", said.append)
    overview = Overview(watch, nothing)
    overview.read()
    overview.press("a")
    assert said == ["job1 asks nothing; z goes on; x gives it up"]
    store.close()


def test_an_entry_that_goes_leaves_the_choice_where_it_was(tmp_path: Path) -> None:
    seen = [
        Glimpse(job=f"job{number}", request="", updated=float(number), state="DONE", backtracks=0, waiting=0, held=0)
        for number in range(5)
    ]
    store = SqliteStore(tmp_path)
    overview = Overview(watch_over(store, tmp_path, lambda: list(seen)), nothing)
    overview.read()
    overview.press("j")
    assert _chosen(overview) == "job3"
    seen.pop(3)
    overview.read()
    assert _chosen(overview) == "job2"
    seen.append(Glimpse(job="newest", request="", updated=99.0, state="DONE", backtracks=0, waiting=0, held=0))
    overview.read()
    assert _chosen(overview) == "job2"
    store.close()


def test_a_job_that_was_just_put_on_the_bus_is_being_started_and_later_needs_the_user(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    for job, age in (("new", 0.0), ("old", BEGIN_SECONDS)):
        made = time.time() - age
        store.create(
            JobRow(
                job=job,
                request="a request",
                decider="me",
                created=made,
                updated=made,
                state="INTENT",
                agent="scripted",
                settings="{}",
            )
        )
    overview = Overview(watch_over(store, tmp_path, lambda: glance(tmp_path)), nothing)
    overview.read()
    lines = [line.plain.strip() for line in overview.draw(80, 22)]
    assert lines[1].startswith("── needs you (1)")
    assert lines[3].startswith("no process works on it: none has begun")
    assert lines[4].startswith("── working (1)")
    assert lines[6].startswith("is being started")
    store.close()


def test_repositories_of_one_name_are_told_apart() -> None:
    roots = ["/r/shop/api", "/r/bank/api", "/r/notes"]
    places = [Workplace(Path(root), Path(root) / ".parley") for root in roots]
    assert titles_of(places) == ["shop/api", "bank/api", "notes"]


def _chosen(overview: Overview) -> str:
    return next(line.plain.split()[1] for line in overview.draw(80, 20) if line.plain.startswith("▸"))


def test_a_list_is_searched_by_words_of_any_case_and_shown_whole_again(tmp_path: Path) -> None:
    seen = [
        Glimpse(job=f"job{number}", request=text, updated=1.0, state="DONE", backtracks=0, waiting=0, held=0)
        for number, text in enumerate(["Count the words", "Sort the lines", "count the lines"])
    ]
    store = SqliteStore(tmp_path)
    watch = watch_over(store, tmp_path, lambda: seen)
    overview = Overview(watch, nothing)
    overview.read()
    watch.begin(overview)
    for key in ("/", *"COUNT lines", "enter"):
        watch.press(key)
    assert "1 of 3" in overview.draw(80, 20)[0].plain
    assert _chosen(overview) == "job2"
    watch.press("esc")
    assert len(overview.draw(80, 20)) == 5
    store.close()


def test_words_are_found_in_a_text_forwards_and_backwards() -> None:
    page = Page("t", [(f"line {number}", "") for number in range(100)])
    page.draw(80, 11)
    assert page.find("LINE 5") == ""
    assert page.draw(80, 11)[1].plain == " line 5"
    assert page.find("line 5") == ""
    assert page.draw(80, 11)[1].plain == " line 50"
    assert page.find("line 5", -1) == ""
    assert page.draw(80, 11)[1].plain == " line 5"
    assert page.find("nowhere") is None
    assert page.draw(80, 11)[1].plain == " line 5"


def test_the_search_goes_on_past_several_places_on_the_last_screen() -> None:
    page = Page("t", [(f"line {number}", "") for number in range(100)])
    page.draw(80, 11)
    assert page.find("line 0") == ""  # the first line that is seen counts, too
    assert [page.find("line 9") for _ in range(11)] == [""] * 11  # 9, and 90 to 99
    assert page.find("line 9") == PAST_END
    assert page.draw(80, 11)[1].plain == " line 9"
    assert page.find("line 9", -1) == PAST_START


def test_of_a_long_diff_the_beginning_is_there_and_of_a_growing_text_the_end() -> None:
    text = "\n".join(f"+line {number}" for number in range(3 * LINES))
    assert diff_page("j", text).draw(80, 5)[1].plain == " +line 0"
    page = Page("t", at_end=True, earlier="elsewhere")
    page.draw(80, 5)
    for number in range(LINES + 1):
        page.add([(f"line {number}", "")])
    assert page.draw(80, 5)[-1].plain == f" line {LINES}"
    page.turn("g")
    assert page.draw(80, 5)[1].plain == " earlier: elsewhere"


def test_help_begins_with_the_keys_of_the_screen_that_it_is_about() -> None:
    for width in (40, 80):
        assert HelpScreen("a text").draw(width, 8)[1].plain == " a text"


def test_what_follows_a_time_stays_to_the_right_of_it() -> None:
    first, *rest = Page("t", [(f"10:11:12  coder: {'word ' * 30}", "")]).draw(60, 9)[1:]
    assert first.plain.startswith(" 10:11:12  coder: word")
    assert all(line.plain.startswith(f"{' ' * 11}word") for line in rest)


def test_what_was_typed_stays_where_the_bus_does_not_take_it(tmp_path: Path) -> None:
    def refuse(text: str, way: int) -> str:
        raise BusError("another process holds the bus too long")

    store = SqliteStore(tmp_path)
    master, slave = pty.openpty()
    try:
        with Tty(slave, slave, owns=True) as tty:
            watch = Watch(tty, [sight_of(lambda: store, tmp_path, list)])
            watch.begin(Overview(watch, nothing))
            watch.ask(Prompt("say", refuse, typed="my words"))
            told = ""
            for key, seen in ((b"\n", "not possible: another process holds the bus"), (b"!", "my words!")):
                os.write(master, key)
                watch.step(5.0)
                while seen not in told:
                    watch.step(0.0)
                    assert select.select([master], [], [], 5.0)[0], told
                    told += os.read(master, 65536).decode()
    finally:
        os.close(master)
        os.close(slave)
        store.close()


def test_a_slow_line_makes_no_owner_wait() -> None:
    master, slave = pty.openpty()
    try:
        tty = Tty(slave, slave, owns=True)
        for number in range(200):  # no other side reads: all of this would fill any terminal's buffer
            tty.paint([Text(f"{number} {'x' * 500}")] * 50)
        told = b""
        while select.select([master], [], [], 0)[0]:
            told += os.read(master, 65536)
            tty.paint([Text("the last one")])
        assert b"the last one" in told
    finally:
        os.close(master)
        os.close(slave)


def test_the_keys_fit_a_small_terminal_without_breaking_a_line() -> None:
    assert max(len(line) for line in HELP.splitlines()) <= 78
