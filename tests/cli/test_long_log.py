"""`parley log` of a job with ten thousand events: bounded, paged, quick, and with a heading for each day."""

import json
import resource
import time
from pathlib import Path

import pytest

from parley.bus.rows import StepRow
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.cli.looking.log_window import moment
from tests.cli.home import PARLEY, Home
from tests.cli.terminal import terminal
from tests.stores.rows import commit, job, message, step

EVENTS = 10_000
HOUR, DAY = 3600.0, 86400.0
QUICK_SECONDS = 6.0  # of the processor's: a reading that is quadratic takes minutes


def lost(number: int, moment: float) -> StepRow:
    consumed = f"Run coder dispatch:1 m{number} t{number}"
    at, extra = "coder dispatch:1", json.dumps({"fault": "it died"})
    return step(number, rule="recover", at=at, choice="", consumed=consumed, produced="", extra=extra, time=moment)


@pytest.fixture(scope="module")
def long_job(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A job of which half was yesterday, written at once: its messages, lost turns, and a stream."""
    home = Home(tmp_path_factory.mktemp("long"))
    (home.folder / ".parley").mkdir(mode=0o700)
    store = SqliteStore(home.folder / ".parley")
    store.create(job("j1", settings='{"roles":[]}'))
    store.own("j1")
    today = time.mktime((*time.localtime()[:3], 0, 0, 0, 0, 0, -1))
    half = EVENTS // 2
    moments = [today - DAY + number * 10 if number < half // 2 else today + number / 1000 for number in range(half)]
    store.commit(
        [
            commit(
                messages=[message(number + 1, time=when, body=f"word {number}") for number, when in enumerate(moments)],
                steps=[lost(number + 1, when) for number, when in enumerate(moments)],
            )
        ]
    )
    store.close()
    stream = home.folder / ".parley/jobs/j1/streams/dispatch-1.jsonl"
    stream.parent.mkdir(parents=True)
    used = {"turn": "t1", "event": "progress", "tool": "Bash", "use": "u1", "over": True, "text": "ls"}
    stream.write_text("".join(json.dumps({"time": when, **used}) + "\n" for when in (*moments, *moments)))
    return home


def test_the_last_events_are_shown_and_how_to_see_all(long_job: Home) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    every = long_job.run("log", "j1", "--all").out.splitlines()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)

    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < QUICK_SECONDS
    headings = [line for line in every if line.startswith("----")]
    assert headings[0].endswith(time.strftime("%Y-%m-%d ----", time.localtime(time.time() - DAY)))
    assert len(headings) == 2
    assert len(every) == EVENTS + EVENTS // 2 + len(headings)  # a message takes two lines

    lines = long_job.here("log", "j1").out.splitlines()
    assert lines[0] == "… 9,500 earlier events: parley log j1 --all, or --tail N, or --since 2h"
    assert lines[1:] == every[-len(lines) + 1 :]
    assert long_job.here("log", "j1", "--tail", "1").out.splitlines()[1:] == every[-2:]
    assert len(long_job.here("log", "j1", "--json").document["events"]) == EVENTS
    today = long_job.here("log", "j1", "--json", "--since", "00:00").document["events"]
    assert len(today) == EVENTS // 2


def test_work_is_bounded_in_the_same_way(long_job: Home) -> None:
    lines = long_job.here("log", "j1", "--work").out.splitlines()

    assert lines[0] == "… 9,500 earlier events: parley log j1 --work --all, or --tail N, or --since 2h"
    assert len(lines) == 501
    assert lines[-1].endswith("an agent  Bash ls")
    assert len(long_job.here("log", "j1", "--work", "--json").document["work"]) == EVENTS


@pytest.mark.parametrize(
    "words, said",
    [
        (["--since", "soon"], "--since soon: this is no moment; write 2h, 14:30, 2026-01-31"),
        (["--tail", "0"], "--tail 0: name how many events, 1 or more"),
        (["--tail", "x"], "invalid int value"),
        (["--tail", "2", "--all"], "not allowed with"),
    ],
)
def test_a_part_that_means_nothing_is_refused(long_job: Home, words: list[str], said: str) -> None:
    assert said in long_job.refuses("log", "j1", *words)


def test_moments_are_read_as_people_write_them() -> None:
    now = time.mktime((2026, 1, 31, 14, 30, 0, 0, 0, -1))
    assert moment("2h", now) == now - 2 * HOUR
    assert moment("14:30", now) == moment("2026-01-31 14:30", now) == moment("2026-01-31T14:30:00", now) == now
    assert moment("2026-01-31", now) == now - 14.5 * HOUR


def test_a_terminal_gets_the_users_pager_and_a_pipe_does_not(long_job: Home, tmp_path: Path) -> None:
    seen = tmp_path / "paged"
    paged = {**long_job.env(), "PAGER": f"tee '{seen}' | tail -n 1 | sed s/^/PAGED:/"}
    with terminal([str(PARLEY), "log", "j1"], long_job.folder, paged) as screen:
        screen.wait_for("PAGED:")
        assert screen.end() == 0
    assert seen.read_text() == long_job.here("log", "j1").out

    left = {**long_job.env(), "PAGER": "head -n 1"}
    with terminal([str(PARLEY), "log", "j1", "--all"], long_job.folder, left) as screen:
        screen.wait_for("----")
        assert screen.end() == 0
        assert "Traceback" not in screen.everything
        assert "parley:" not in screen.everything
    long_job.environment["PAGER"] = f"tee '{seen}.no'"
    assert long_job.run("log", "j1", "--tail", "1").code == 0
    assert not Path(f"{seen}.no").exists()
