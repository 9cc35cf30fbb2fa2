"""How much one visitor can have of the server, and how much is kept of what visitors ask for."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from starlette.responses import Response

from parley.base.json_codec import encode
from parley.engine.values.people import May
from parley.ports.workspaces import Change
from parley.views.job_diffs import DiffOf
from parley.views.questions.gate_view import recalled_decision
from parley.views.repository_context import JobContext, RepositoryContext
from parley.web.pages import PAGES
from parley.web.pages.answer import recalled_for
from parley.web.pages.artifacts import diff_lines
from parley.web.reads import part_cache
from parley.web.reads.audit_runs import MOST_AUDITS, AuditRuns
from parley.web.reads.change_lists import ChangeLists
from parley.web.reads.page_commands import PageCommands
from parley.web.reads.part_cache import PartCache
from parley.web.safety.fair_share import FairShare, OpenCount, TooMany
from parley.web.safety.people_book import MOST_PASSES, BookTrouble, Pass, book_in
from tests.cli.home import wait_for
from tests.web.event_loops import run_coroutine


def test_a_visitor_with_many_slow_requests_holds_up_no_other() -> None:
    async def play() -> None:
        share, over, began = FairShare(2, 3), asyncio.Event(), list[str]()

        async def ask(visitor: str) -> None:
            async with share.turn(visitor):
                began.append(visitor)
                await over.wait()

        asked = [asyncio.create_task(ask("greedy")) for _ in range(5)]
        await asyncio.sleep(0)
        asked.append(asyncio.create_task(ask("other")))
        await asyncio.sleep(0)
        assert began == ["greedy", "greedy", "other"]
        with pytest.raises(TooMany):
            await ask("greedy")
        asked.pop(4).cancel()
        over.set()
        await asyncio.gather(*asked)
        assert began.count("greedy") == 4
        assert share.visitors == 0  # nothing is kept of who has left

    run_coroutine(play())


def test_what_a_visitor_has_open_is_counted_until_it_is_closed() -> None:
    count = OpenCount(1, "pages are open; close some")
    with count.one_more("ann"), count.one_more("ben"), pytest.raises(TooMany, match="close some"):
        count.check("ann")
    count.check("ann")


def test_audits_of_many_jobs_are_not_run_at_once() -> None:
    begun: list[subprocess.Popen[str]] = []

    def command(words: list[str]) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", "import time; time.sleep(600)"]
        begun.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return begun[-1]

    runs = AuditRuns(lambda repository, job: None)
    try:
        jobs = [
            cast("JobContext", SimpleNamespace(id=f"job{number}", context=SimpleNamespace(command=command)))
            for number in range(MOST_AUDITS + 1)
        ]
        assert [runs.start("r", at) for at in jobs] == [True] * MOST_AUDITS + [False]
        assert runs.start("r", jobs[0])  # it is under way, and not begun again
        assert len(begun) == MOST_AUDITS
    finally:
        for one in begun:
            one.kill()
            one.wait()


def test_a_command_that_a_page_waits_for_ends_with_the_server() -> None:
    begun: list[subprocess.Popen[str]] = []

    def command(words: list[str]) -> subprocess.Popen[str]:
        begun.append(
            subprocess.Popen(
                ["/bin/sh", "-c", "sleep 600 & wait"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        return begun[-1]

    commands, context = PageCommands(), cast("RepositoryContext", SimpleNamespace(command=command))
    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(commands.run, context, ["export"], 600.0)
        wait_for(lambda: begun)
        commands.end()
        ended = said.result(20)  # its pipes close with all that it has started

    assert ended is not None
    assert ended.code == -signal.SIGKILL
    with pytest.raises(InterruptedError):
        commands.run(context, ["export"], 600.0)
    assert len(begun) == 1


def test_what_was_changed_is_read_once_for_all_who_look_and_again_after_a_change() -> None:
    going, asked, reads = threading.Event(), DiffOf("job"), list[DiffOf]()

    def changes(of: DiffOf) -> list[Change]:
        reads.append(of)
        assert going.wait(20)
        return [Change(path=f"read {len(reads)}", added=1, removed=0, obeyed="", unportable=None)]

    lists = ChangeLists()
    context = cast("RepositoryContext", SimpleNamespace(home="h", diffs=SimpleNamespace(changes=changes)))
    with ThreadPoolExecutor(6) as pool:
        looks = [pool.submit(lists.get, context, asked, (1, 1)) for _ in range(6)]
        wait_for(lambda: reads)
        going.set()
        seen = {look.result(20)[0].path for look in looks}

    assert (seen, len(reads)) == ({"read 1"}, 1)
    assert lists.get(context, asked, (2, 1))[0].path == "read 2"  # the job has gone on
    assert lists.get(context, asked, (2, 2))[0].path == "read 3"  # the user has checked something out
    assert lists.get(context, DiffOf("job", "other"), (2, 2))[0].path == "read 4"


def test_pages_that_ask_git_take_no_thread_from_those_that_do_not() -> None:
    asking = {address for address, _, page in PAGES if "/changes" in address or address.endswith("/part/delivery")}

    assert len(asking) == 4
    assert asking <= {address for address, _, page in PAGES if getattr(page, "slow", False)}


def test_a_part_that_is_forgotten_while_it_is_made_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_cache, "MOST", 1)
    cache = PartCache()

    def make() -> Response:
        cache.get("other", 1, lambda: Response("12", media_type="text/html"))
        return Response("1234", media_type="text/html")

    assert cache.get("first", 1, make).body == b"1234"
    assert (cache.size, cache.counted) == (1, 2)


def test_a_part_that_is_too_old_to_be_shown_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, times = PartCache(), [0.0]
    monkeypatch.setattr(part_cache, "time", SimpleNamespace(monotonic=lambda: times[-1]))
    for number in range(20):  # as a page asks that follows a job: each time for what has changed since the last
        times.append(float(number))
        cache.get(f"since {number}", number, lambda: Response("x" * 1_000, media_type="text/html"))

    assert cache.size <= part_cache.OLDEST_SECONDS + 1
    assert cache.counted == 1_000 * cache.size


def test_parts_that_can_not_be_made_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_cache, "MOST", 10)
    cache = PartCache()

    def fail() -> Response:
        raise ValueError

    for number in range(50):
        with pytest.raises(ValueError):  # noqa: PT011 - the one above
            cache.get(f"/part/head?{number}", 1, fail)

    assert cache.size <= 10


def test_there_are_never_more_links_than_the_peoples_file_takes(tmp_path: Path) -> None:
    book = book_in(tmp_path)
    first, token = book.add("ann", May.DECIDE)
    file = tmp_path / "people.json"
    long = {"person": "", "may": "see", "digest": "f" * 64, "made": 1.5, "expires": time.time() + 9e6}
    links = [{"id": f"{number:012x}", "repository": "r" * 64, "job": "j" * 64, **long} for number in range(MOST_PASSES)]
    known = {"id": first.id, "person": "ann", "may": "decide", "digest": first.digest, "made": first.made}
    file.write_text(encode({"passes": [known, *links[1:]]}), encoding="utf-8")

    with pytest.raises(BookTrouble, match="take some back"):
        book.add("", May.SEE, repository="r", job="j")
    assert book.find(token) is not None  # the file is read as before
    assert book.add("ann", May.SEE)[0].may is May.SEE  # a link that is replaced takes no more room
    assert len(book.passes()) == MOST_PASSES


def test_a_damaged_digest_in_the_peoples_file_lets_no_one_in_and_breaks_nothing(tmp_path: Path) -> None:
    book = book_in(tmp_path)
    _, token = book.add("ann", May.DECIDE)
    odd = {"id": "x", "person": "eve", "may": "decide", "digest": "é", "made": 1.0}
    file = tmp_path / "people.json"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace('"passes":[', '"passes":[' + encode(odd) + ","), encoding="utf-8")

    assert book.find("é") is None
    assert (found := book.find(token)) is not None
    assert found.person == "ann"


def test_a_link_for_one_job_shows_no_decision_of_another() -> None:
    recalled = (recalled_decision("d1", None),)
    guest = Pass(id="x", person="", may=May.SEE, digest="", made=0.0, repository="r", job="j")
    person = Pass(id="y", person="ann", may=May.DECIDE, digest="", made=0.0)

    assert recalled_for(guest, recalled) == ()
    assert recalled_for(person, recalled) == recalled


def test_a_changed_line_that_looks_like_a_files_head_is_drawn_as_a_change() -> None:
    diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- a/safe.txt\n+++ b/safe.txt\n+diff --git\n same"

    kinds = [kind for kind, _ in diff_lines(diff)]
    assert kinds == ["head", "head", "head", "hunk", "minus", "plus", "plus", "same"]
    assert [kind for kind, _ in diff_lines("@@ -1 +1 @@\n--- a\n+++ b")] == ["hunk", "minus", "plus"]
