"""Whole jobs on PostgreSQL by the real command line, and the move of a home there and back."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from parley.bus.postgres import server_connection
from parley.bus.postgres.postgres_store import PostgresStore
from parley.bus.rows import BusError
from parley.bus.sqlite import safe_open
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.cli import home_bus
from parley.cli.common import Workplace
from parley.cli.looking.repository_contexts import context_of
from parley.cli.machine import bus_copy
from tests.cli.home import APPROVES, LEADS, Home
from tests.postgres_server import Server


@pytest.fixture
def home(tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch) -> Home:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.setenv("PARLEY_BUS_URL", postgres.url)
    return Home(folder, {"PARLEY_BUS_URL": postgres.url})


@pytest.fixture
def moved(home: Home) -> Home:
    """A home whose bus is on the server, with a job that waits for its first answer."""
    assert home.here("bus", "copy", "office").code == 0
    home.start(LEADS)
    return home


def export(home: Home, job: str) -> str:
    path = home.folder / "export"
    done = home.here("export", job, "--output", str(path))
    assert done.code == 0, done
    return path.read_text(encoding="utf-8")


def test_a_whole_job_runs_on_postgresql(moved: Home) -> None:
    job = moved.job()
    assert not (moved.folder / ".parley" / "bus.db").exists()
    for _ in range(3):
        assert moved.run("answer", moved.question(), "--approve").code == 0
        assert moved.run("resume", job).code in (0, 4)

    assert moved.here("show", job, "--json").document["state"] == "DONE"
    assert job in moved.here("ls").out
    audit = moved.here("audit", job)
    assert audit.code == 0, audit
    assert moved.here("log", job).out
    told = moved.here("bus", "--json").document
    assert (told["kind"], told["server"], told["jobs"], told["owned"]) == ("postgresql", "office", 1, [])
    assert not told["durable"]  # the tests' server does not wait for its disk
    assert "on the PostgreSQL server 'office'" in moved.here("bus").out
    assert all(check["ok"] for check in moved.here("doctor", "--json").document["checks"] if check["name"] == "bus")


def test_a_page_lists_the_jobs_of_a_home_on_a_server(moved: Home) -> None:
    context = context_of(Workplace(moved.folder, moved.folder / ".parley"))
    with closing(context):
        assert [seen.job for seen in context.jobs()] == [moved.job()]
        assert context.changed()
        assert not context.changed()
        assert context.store.versions().keys() == context.store.unfinished().keys() == {moved.job()}


def test_a_home_moves_there_and_back_with_the_same_record(home: Home) -> None:
    job = home.start(LEADS + APPROVES)
    waiting = home.start(LEADS)
    before = [export(home, job), export(home, waiting)]

    there = home.here("bus", "copy", "office")
    assert (there.code, there.err) == (0, "")
    assert "2 jobs moved to office; each record is sound on both sides" in there.out
    [kept] = (home.folder / ".parley").glob("bus-before-*.db")
    assert str(kept) in there.out
    assert [export(home, job), export(home, waiting)] == before
    assert "on office already" in home.here("bus", "copy", "office").out
    assert home.run("answer", home.question(), "--approve").code == 0  # what was signed here is taken there

    back = home.here("bus", "copy", "file")
    assert (back.code, back.err) == (0, "")
    assert "2 jobs moved into a file" in back.out
    assert "the former bus is the schema parley_old_" in back.out
    assert export(home, job) == before[0]
    assert home.here("bus", "--json").document["kind"] == "sqlite"
    assert home.run("resume", waiting).code == 4
    assert home.here("audit", waiting).code == 0
    assert "it is a file already" in home.here("bus", "copy", "file").out


def test_a_copy_that_was_cut_short_is_done_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    job = home.start(LEADS)
    before = export(home, job)
    moments = (
        ("office", safe_open, "identify"),  # before the home goes over to the server
        ("office", bus_copy, "_put_file_aside"),
        ("file", PostgresStore, "put_aside"),
        ("file", bus_copy, "_go_over"),  # the bus is put aside, and its copy not in its place
        ("file", bus_copy, "_say_whose"),  # the copy is in its place, and the home does not say so yet
    )
    for to, where, what in moments:
        other = "file" if to == "office" else "office"
        assert home.here("bus", "copy", other).code == 0
        with monkeypatch.context() as patched:
            patched.setattr(where, what, _crash)
            with pytest.raises(Crash):
                home.here("bus", "copy", to)

        done = home.here("bus", "copy", to)

        assert (done.code, done.err) == (0, ""), what
        assert export(home, job) == before
        kind = home.here("bus", "--json").document["kind"]
        assert kind == ("sqlite" if to == "file" else "postgresql")
        assert (home.folder / ".parley" / "bus.db").exists() == (to == "file")
        assert not (home.folder / ".parley" / "bus-copy").exists()
    assert home.here("audit", job).code == 0


class Crash(BaseException):
    """What no code catches, as a kill."""


def _crash(*_: object) -> None:
    raise Crash


def test_no_home_is_moved_while_a_job_is_owned(home: Home) -> None:
    job = home.start(LEADS)
    with closing(SqliteStore(home.folder / ".parley")) as owner:
        owner.own(job)
        assert f"job {job} is at work" in home.refuses("bus", "copy", "office", code=1)
    assert home.here("bus", "--json").document["kind"] == "sqlite"


def test_a_process_that_has_the_former_bus_open_can_not_write_to_it(home: Home) -> None:
    job = home.start(LEADS)
    with closing(SqliteStore(home.folder / ".parley")) as late:
        assert home.here("bus", "copy", "office").code == 0
        with pytest.raises(BusError, match="while it was in use"):
            late.put(job, "pause", "k", 1.0, "ann", "{}")
    with closing(home_bus.open_store(home.folder / ".parley")) as late:
        assert home.here("bus", "copy", "file").code == 0
        with pytest.raises(BusError, match="was moved or deleted while it was in use"):
            late.put(job, "pause", "k", 1.0, "ann", "{}")


def test_a_record_that_does_not_hold_is_not_moved(home: Home) -> None:
    job = home.start(LEADS)
    with closing(sqlite3.connect(home.folder / ".parley" / "bus.db")) as raw:
        raw.execute("UPDATE molecules SET body = replace(body, '1', '2') WHERE slot LIKE 'life %'")
        raw.commit()
    assert f"the record of job {job} does not hold" in home.refuses("bus", "copy", "office", code=1)
    assert home.here("bus", "--json").document["kind"] == "sqlite"


def test_a_home_without_the_servers_address_is_refused_in_one_line(
    moved: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PARLEY_BUS_URL")
    moved.environment.clear()
    assert "its address is not known here" in moved.refuses("ls", code=1)
    moved.write("parley.toml", '[servers]\noffice = "postgresql://elsewhere/x"\n')
    assert "no repository says where your buses are" in moved.refuses("run", "a request", code=2)


def test_a_home_that_was_cut_short_while_it_joined_joins(
    moved: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, invitation = moved.job(), str(tmp_path / "invitation")
    assert moved.here("bus", "invite", invitation).code == 0
    (tmp_path / "other").mkdir()
    other = Home(tmp_path / "other", moved.environment)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))  # as on another host
    with monkeypatch.context() as patched:
        patched.setattr(safe_open, "identify", _crash)
        with pytest.raises(Crash):
            other.here("bus", "join", invitation)

    done = other.here("bus", "join", invitation)

    assert (done.code, done.err) == (0, "")
    assert job in other.here("ls").out


def test_a_home_on_a_server_that_came_with_a_clone_is_refused(moved: Home, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    (clone / ".parley").mkdir(parents=True)
    (clone / ".parley" / "bus.id").write_bytes((moved.folder / ".parley" / "bus.id").read_bytes())

    assert "was moved, copied or restored" in Home(clone, moved.environment).refuses("ls", code=1)


def test_a_server_that_is_down_is_told_in_one_line(
    moved: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_connection, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setenv("PARLEY_BUS_URL", f"postgresql://postgres@/postgres?host={tmp_path}")
    for words in (["ls"], ["show", "j"], ["bus"], ["inbox"], ["withdraw", "j"], ["bus", "copy", "file"]):
        assert "the PostgreSQL server can't be reached" in moved.refuses(*words, code=1)
