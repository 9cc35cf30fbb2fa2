"""Forged inputs have no effect; a home that was moved, copied or restored is taken in by `parley bus adopt`."""

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.cli.common import account_name
from parley.machine.disk_reserve import DiskReserve
from parley.views.job_view import Present
from tests.audit.tamper import unguarded
from tests.cli.home import Home

READING = [
    ["ls"], ["ls", "--json"], ["show", "{job}"], ["tree", "{job}"], ["log", "{job}"], ["watch"], ["inbox"],
    ["answer", "{job}", "yes"], ["pause", "{job}"], ["resume"], ["resume", "{job}"], ["withdraw", "{job}"],
    ["audit", "{job}"], ["export", "{job}"], ["diff", "{job}"], ["merge", "{job}"], ["gc"], ["workflow", "status"],
    ["intervene", "{job}", "do it"], ["memory", "why", "{job}"],
]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A folder with a job that waits for the human."""
    (tmp_path / "work").mkdir()
    home = Home(tmp_path / "work")
    home.environment["JOB"] = home.start()
    return home


def forge(home: Home, by: str, kind: str = "answer") -> None:
    """Answer the open question past Parley, as a database tool could."""
    job = home.environment["JOB"]
    with closing(SqliteStore(home.folder / ".parley")) as store:
        (asked,) = Present(store, job).questions()
    body = {"question": asked.id, "framing": asked.framing, "ruling": "approve", "text": "yes", "rule": None}
    with closing(sqlite3.connect(home.folder / ".parley" / "bus.db", isolation_level=None)) as bus:
        bus.execute(
            "INSERT INTO inputs (job, kind, key, time, by, body, signature) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [job, kind, f"answer:{asked.id}:{asked.framing}", time.time(), by, json.dumps(body), "0" * 64],
        )


@pytest.mark.parametrize("by", [account_name(), "human (--yes)", "human (playbook)"])
def test_an_answer_that_another_program_wrote_does_not_count(home: Home, by: str) -> None:
    job, question = home.environment["JOB"], home.question()
    forge(home, by)

    assert home.question() == question  # it still waits
    assert home.here("ls").out.startswith("needs you"), "nor does a listing count it"
    told = home.here("audit", job)
    assert told.code == 0
    assert "is not signed with this bus's key: it will be refused when the job goes on" in told.out
    assert home.run("resume", job).code == 4
    assert home.question() == question
    told = home.here("audit", job)
    assert told.code == 0
    assert f"in the name of {by!r} is not signed with this bus's key: it was refused" in told.out
    assert home.here("answer", question, "--approve").code == 0  # it takes nothing from the human
    home.run("resume", job)
    assert home.here("audit", job).code == 0
    assert home.question() != question


def test_a_withdrawal_that_another_program_wrote_ends_nothing(home: Home) -> None:
    forge(home, account_name(), "withdraw")
    assert home.run("resume", home.environment["JOB"]).code == 4


def test_a_job_whose_settings_another_program_changed_does_not_go_on(home: Home) -> None:
    job = home.environment["JOB"]
    with closing(sqlite3.connect(home.folder / ".parley" / "bus.db", isolation_level=None)) as bus:
        bus.execute("UPDATE charters SET settings = json_set(settings, '$.yes', json('true'))")
    assert "another program changed" in home.fails("resume", job, code=1)
    assert home.question()


def test_every_command_refuses_a_home_that_was_copied(home: Home, tmp_path: Path) -> None:
    shutil.copytree(home.folder, tmp_path / "copy", symlinks=True)
    copy = Home(tmp_path / "copy")
    before = {path: path.stat().st_mtime_ns for path in (copy.folder / ".parley").rglob("*") if path.is_file()}
    for words in READING:
        told = [word.format(job=home.environment["JOB"]) for word in words]
        assert "moved, copied or restored" in copy.refuses(*told, code=1), words
    assert "moved, copied or restored" in copy.here("doctor").out
    assert "moved, copied or restored" in copy.refuses("run", "x", "--playbook", copy.write("p.yaml", "agents: {}"))
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_a_home_that_is_a_link_is_refused_by_every_command(home: Home, tmp_path: Path) -> None:
    other = Home(tmp_path / "other")
    other.folder.mkdir()
    (other.folder / ".parley").symlink_to(home.folder / ".parley")
    for words in READING:
        told = [word.format(job=home.environment["JOB"]) for word in words]
        assert "can't be a link" in other.refuses(*told, code=1), words
    (other.folder / ".parley").unlink()
    (other.folder / ".parley").symlink_to(tmp_path / "nowhere")
    assert "can't be a link" in other.refuses("run", "x", "--playbook", other.write("p.yaml", "agents: {}"))
    assert not (tmp_path / "nowhere").exists()


def test_a_link_that_the_user_names_is_followed(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").symlink_to(home.folder / ".parley")
    monkeypatch.setenv("PARLEY_HOME", str(tmp_path / "mine"))
    assert home.here("show", home.environment["JOB"]).code == 0


def test_a_copy_is_taken_in_and_the_original_goes_on_as_before(home: Home, tmp_path: Path) -> None:
    job, question = home.environment["JOB"], home.question()
    home.here("answer", question, "--approve")
    home.run("resume", job)
    waiting = home.question()
    home.here("answer", waiting, "--approve")  # no one has taken it yet
    shutil.copytree(home.folder, tmp_path / "copy", symlinks=True)
    copy = Home(tmp_path / "copy")

    assert "--yes" in copy.here("bus", "adopt").err
    assert "moved, copied or restored" in copy.refuses("ls", code=1)
    told = copy.here("bus", "adopt", "--yes")
    assert told.code == 0, told
    assert "this machine made it" in told.out
    assert "1 input that no job took yet will be deleted" in told.out
    assert f"answer of {account_name()} for {job}: {waiting} approve" in told.out
    assert copy.question() == waiting  # the word that was left is not taken along
    assert copy.here("answer", waiting, "--approve").code == 0
    for each in (copy, home):
        each.run("resume", job)
        report = each.here("audit", job)
        assert report.code == 0, report
        assert "can't be authenticated" not in report.out
    assert "it is yours already" in copy.here("bus", "adopt").out


def test_a_home_from_another_machine_is_marked_as_not_authenticated(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = home.environment["JOB"]
    home.here("answer", home.question(), "--approve")
    home.run("resume", job)
    with closing(SqliteStore(home.folder / ".parley")) as store:
        store.put(job, "pause", "pause:1", 1.0, account_name(), "{}")  # no one takes it
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another machine"))
    assert "it came with a clone" in home.refuses("ls", code=1)

    told = home.here("bus", "adopt", "--yes", "--json")

    assert json.loads(told.out)["jobs"] == [job]
    assert [(one["kind"], one["by"]) for one in json.loads(told.out)["deleted_inputs"]] == [("pause", account_name())]
    report = home.here("audit", job)
    assert report.code == 0
    assert "1 input can't be authenticated here" in report.out
    home.here("answer", home.question(), "--approve")
    home.run("resume", job)
    assert "1 input can't be authenticated here" in home.here("audit", job).out


def test_a_record_that_does_not_hold_is_not_taken_in(home: Home, tmp_path: Path) -> None:
    job = home.environment["JOB"]
    shutil.copytree(home.folder, tmp_path / "copy", symlinks=True)
    copy = Home(tmp_path / "copy")
    with closing(sqlite3.connect(copy.folder / ".parley" / "bus.db", isolation_level=None)) as bus:
        bus.execute("UPDATE molecules SET body = replace(body, 'intent-lead', 'project-lead')")
    assert f"the record of job {job} does not hold" in copy.refuses("bus", "adopt", "--yes", code=1)
    assert "moved, copied or restored" in copy.refuses("ls", code=1)
    with closing(sqlite3.connect(copy.folder / ".parley" / "bus.db", isolation_level=None)) as bus:
        bus.execute("CREATE TRIGGER helper AFTER INSERT ON steps BEGIN DELETE FROM inputs; END")
    assert "'helper' is not Parley's" in copy.refuses("bus", "adopt", "--yes", code=1)


def _add(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


STRANGE: dict[str, Callable[[Path], object]] = {
    "a hook": lambda git: _put(git / "hooks" / "post-commit", "#!/bin/sh\n"),
    "an include": lambda git: _add(git / "config", "[include]\n\tpath = ../../../evil\n"),
    "a work tree elsewhere": lambda git: _add(git / "config", "\tworktree = /\n"),
    "a filter": lambda git: _add(git / "config", '[filter "x"]\n\tclean = touch /tmp/x\n'),
    "objects elsewhere": lambda git: _put(git / "objects/info" / "alternates", "/elsewhere/objects\n"),
    "a link": lambda git: (git / "refs" / "heads" / "x").symlink_to("/etc/passwd"),
    "attributes": lambda git: _put(git / "info" / "attributes", "* filter=x\n"),
    "a common folder": lambda git: _put(git / "commondir", "/elsewhere\n"),
    "a stream that is a link": lambda git: _link(next((git.parent / "streams").iterdir())),
    "a record that is a pipe": lambda git: _pipe(git.parent / "state.json"),
    "settings of the home's own": lambda git: _put(git.parents[2] / ".git" / "config", "[core]\n\tfsmonitor = x\n"),
    "a job's folder that is a link": lambda git: (git.parent / "more").symlink_to("/etc"),
}


def test_what_git_would_obey_is_not_taken_in(home: Home, tmp_path: Path) -> None:
    shutil.copytree(home.folder, tmp_path / "copy", symlinks=True)
    for number, (what, put) in enumerate(STRANGE.items()):
        copy = Home(tmp_path / f"copy{number}")
        shutil.copytree(tmp_path / "copy", copy.folder, symlinks=True)
        put(copy.folder / ".parley" / "jobs" / home.environment["JOB"] / "snapshots.git")
        assert "another hand has been here" in copy.refuses("bus", "adopt", "--yes", code=1), what
    assert Home(tmp_path / "copy").here("bus", "adopt", "--yes").code == 0


def test_a_home_that_is_at_work_is_not_taken_in(home: Home, tmp_path: Path) -> None:
    job = home.environment["JOB"]
    shutil.copytree(home.folder, tmp_path / "copy", symlinks=True)
    with closing(SqliteStore(home.folder / ".parley")) as store:
        store.own(job)
        said = Home(tmp_path / "copy").refuses("bus", "adopt", "--yes", code=1)
    assert f"job {job} is at work in {os.path.realpath(home.folder)}/.parley" in said


def test_a_link_of_a_clone_has_nothing_written_or_deleted_where_it_leads(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    for number in range(8):
        (mine / str(number)).write_text("mine")
    clone = Home(tmp_path / "clone")
    (clone.folder / "sub").mkdir(parents=True)
    (clone.folder / "sub" / "reserve").symlink_to(mine)
    (clone.folder / ".parley").symlink_to("sub")
    assert "can't be a link" in clone.refuses("withdraw", "x", code=1)

    (clone.folder / ".parley").unlink()
    (clone.folder / "sub").rename(clone.folder / ".parley")
    assert "has to be a folder" in clone.refuses("run", "x", "--playbook", clone.write("p.yaml", "agents: {}"))
    reserve = DiskReserve(clone.folder / ".parley")
    reserve.keep()
    assert not reserve.spend()
    assert sorted(path.read_text() for path in mine.iterdir()) == ["mine"] * 8


CHANGES = [
    "UPDATE molecules SET body = replace(body, 'intent-lead', 'project-lead')",
    "INSERT INTO molecules SELECT job, 'hold x', body FROM molecules LIMIT 1",
    "UPDATE spending SET turns = 0",
    "UPDATE charters SET request = 'another'",
    "UPDATE charters SET settings = '{'",
    "UPDATE molecules SET body = '['",
]


def test_a_job_whose_record_another_program_changed_does_not_go_on(home: Home) -> None:
    job, path = home.environment["JOB"], home.folder / ".parley" / "bus.db"
    before = path.read_bytes()  # closed: all of it is in this file
    for change in CHANGES:
        with closing(sqlite3.connect(path, isolation_level=None)) as bus:
            bus.execute(change)
        assert f"{job}: its record does not hold" in home.refuses("resume", job, code=1), change
        path.write_bytes(before)  # the same file: its key still fits
    with closing(sqlite3.connect(path, isolation_level=None)) as bus:
        bus.execute("UPDATE jobs SET state = 'DONE'")
    assert f"{job}: its record does not hold" in home.refuses("merge", job, code=1)
    path.write_bytes(before)
    state = home.job_file(job, "state.json")
    told = json.loads(state.read_text())
    told["head"]["transaction"] += 1
    state.write_text(json.dumps(told))  # as if the bus had been put back to an earlier moment
    assert "the row is missing: state.json was written after" in home.refuses("resume", code=1)
    for put in (os.mkfifo, os.mkdir):  # a pipe is not waited for, and a folder is told by its name
        state.unlink()
        put(state)
        told = home.here("audit", job)
        assert (told.code, told.err) == (1, ""), put
        assert "state.json head: it can't be read" in told.out, put


UNREADABLE = {
    "UPDATE charters SET settings = '{'": "a row can't be read (the settings of job ",
    "UPDATE steps SET extra = '{' WHERE extra != ''": "a row can't be read (",
    "UPDATE messages SET meta = '{'": "a row can't be read (",
    "UPDATE messages SET body = CAST(x'ff61' AS TEXT)": "a row is no text: ",
}


def test_a_row_that_can_not_be_read_is_told_with_what_names_it_and_stays_in_the_list(home: Home) -> None:
    job, path = home.environment["JOB"], home.folder / ".parley" / "bus.db"
    before = path.read_bytes()
    for change, told in UNREADABLE.items():
        with closing(sqlite3.connect(path, isolation_level=None)) as bus:
            unguarded(bus, lambda raw, change=change: raw.execute(change))  # type: ignore[misc] # mypy infers no lambda with a default
        line = home.refuses("show", job, code=1)
        assert told in line, change
        assert line.endswith("another program changed it; `parley audit JOB` names it"), change
        assert [row["id"] for row in home.jobs()] == [job], change
        path.write_bytes(before)


def test_a_job_with_a_row_that_can_not_be_read_can_be_paused_and_withdrawn(home: Home) -> None:
    job, path = home.environment["JOB"], home.folder / ".parley" / "bus.db"
    assert home.here("pause", job).code == 0  # an input that was taken: its row says what became of it
    with closing(sqlite3.connect(path, isolation_level=None)) as bus:
        unguarded(bus, lambda raw: raw.execute("UPDATE inputs SET note = '[]'"))
    assert home.here("inbox").code == 0
    assert home.here("audit", job).code == 1
    with closing(sqlite3.connect(path, isolation_level=None)) as bus:
        unguarded(bus, lambda raw: raw.execute("UPDATE messages SET meta = '{}' WHERE kind = 'question'"))
    done = home.here("withdraw", job, "enough")
    assert (done.code, done.out) == (0, f"{job} is withdrawn\n"), done
