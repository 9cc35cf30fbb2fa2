"""A job's readable files on every host: written through to the server by its owner, brought by the others."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from parley.bus.postgres.postgres_store import PostgresStore
from parley.bus.postgres.server_connection import connect
from parley.bus.rows import BusError, LostOwnership
from parley.hosts.shared import shared_files
from parley.hosts.shared.file_table import FileTable, FileWrite
from parley.hosts.shared.shared_files import SharedFiles, is_file_name
from parley.machine import job_files
from tests.postgres_server import Bus, Server
from tests.stores import rows

Host = Callable[[str], SharedFiles]


class Hosts:
    """A bus, and coordinators that share it, each with a folder of its own."""

    def __init__(self, server: Server, folder: Path, held: ExitStack) -> None:
        self.folder = folder
        self._held = held
        (folder / "home").mkdir()
        self.bus = Bus(server, folder / "home")

    def store(self, **options: float) -> PostgresStore:
        """A coordinator's store."""
        return self._held.enter_context(closing(self.bus.open(**options)))

    def files(self, name: str, store: PostgresStore | None = None) -> SharedFiles:
        """The files of a host; `store`: of an owner."""
        (self.folder / name).mkdir(exist_ok=True)
        table = FileTable(self.bus.key, self.bus.address, name, store.owner if store is not None else "")
        return self._held.enter_context(closing(SharedFiles(self.folder / name, table, self.bus.key.id)))

    def owner(self, name: str, job: str = "j1", **options: float) -> tuple[PostgresStore, SharedFiles]:
        """A coordinator that owns a job."""
        store = self.store(**options)
        if not store.has(job):
            store.create(rows.job(job))
        store.own(job)
        files = self.files(name, store)
        files.take(job)
        return store, files


@pytest.fixture
def hosts(server: Server, tmp_path: Path) -> Iterator[Hosts]:
    with ExitStack() as held:
        yield Hosts(server, tmp_path, held)


def contents(folder: Path) -> dict[str, bytes]:
    """What a job's folder holds for people."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in (shared_files.NOTE, shared_files.LOCK)
    }


def test_what_an_owner_writes_is_on_every_host_that_looks(hosts: Hosts) -> None:
    _, here = hosts.owner("a")
    there = hosts.files("b")
    here.write_state("j1", "state.json", '{"state": "INTENT"}\n')
    here.append("j1", ".intent-stream.jsonl", ['{"n": 1}', '{"n": 2}'])
    here.append("j1", "streams/dispatch-x1.jsonl", ['{"x": "ä"}'])
    here.write_outcome("j1", "000001-INTENT.json", "{}\n")
    assert contents(there.home("j1")) == contents(hosts.folder / "a/jobs/j1")
    assert len(contents(there.home("j1"))) == 4
    here.write_state("j1", "state.json", '{"state": "PLAN"}\n')
    here.append("j1", ".intent-stream.jsonl", ['{"n": 3}'])
    there.bring("j1")
    assert contents(there.home("j1")) == contents(hosts.folder / "a/jobs/j1")
    assert there.tail("j1", ".intent-stream.jsonl") == ['{"n": 1}', '{"n": 2}', '{"n": 3}']


def test_a_host_that_has_all_asks_one_question_and_writes_nothing(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, here = hosts.owner("a")
    here.append("j1", ".plan-stream.jsonl", ["{}"])
    there = hosts.files("b")
    there.bring("j1")
    stamps = {path: path.stat().st_mtime_ns for path in (hosts.folder / "b").rglob("*")}

    def refuse(*_: object) -> Iterator[FileWrite]:
        raise AssertionError("rows were read")

    monkeypatch.setattr(FileTable, "after", refuse)
    there.bring("j1")
    assert stamps == {path: path.stat().st_mtime_ns for path in (hosts.folder / "b").rglob("*")}


def test_the_next_owner_goes_on_where_the_last_one_stopped(hosts: Hosts) -> None:
    store, here = hosts.owner("a")
    here.append("j1", ".plan-stream.jsonl", ["1"])
    store.disown("j1")
    _, there = hosts.owner("b")
    there.append("j1", ".plan-stream.jsonl", ["2"])
    with pytest.raises(LostOwnership):
        here.append("j1", ".plan-stream.jsonl", ["late"])
    here.leave("j1")
    here.bring("j1")
    assert here.tail("j1", ".plan-stream.jsonl") == there.tail("j1", ".plan-stream.jsonl") == ["1", "2"]


def test_an_owner_whose_lease_has_ended_writes_no_file(hosts: Hosts) -> None:
    _, here = hosts.owner("a")
    here.write_state("j1", "state.json", "1")
    with closing(hosts.bus.session()) as session:
        session.execute("UPDATE leases SET expires = clock_timestamp() - interval '1 s'")
        with pytest.raises(LostOwnership):
            here.write_state("j1", "state.json", "2")
    assert (hosts.folder / "a/jobs/j1/state.json").read_text() == "1"
    there = hosts.files("b")
    assert (there.home("j1") / "state.json").read_text() == "1"


def test_what_a_crash_left_half_written_is_mended(hosts: Hosts) -> None:
    _, here = hosts.owner("a")
    here.append("j1", ".plan-stream.jsonl", ["1"])
    there = hosts.files("b")
    stream = there.home("j1") / ".plan-stream.jsonl"
    here.append("j1", ".plan-stream.jsonl", ["2"])
    with stream.open("a") as file:  # the lines were written, and the note was not
        file.write("2\nhal")
    there.bring("j1")
    assert stream.read_text() == "1\n2\n"
    stream.unlink()
    here.append("j1", ".plan-stream.jsonl", ["3"])
    there.bring("j1")
    assert stream.read_text() == "1\n2\n3\n"


def test_files_from_before_the_bus_was_on_the_server_are_handed_in(hosts: Hosts) -> None:
    folder = hosts.folder / "a/jobs/j1"
    (folder / "records").mkdir(parents=True)
    (folder / "state.json").write_text("{}")
    (folder / "records/x.json").write_text("{}")
    (folder / ".exec-stream.jsonl").write_text("1\n")
    (folder / "homes").mkdir()
    (folder / "homes/private.json").write_text("an agent's")
    _, here = hosts.owner("a")
    here.append("j1", ".exec-stream.jsonl", ["2"])
    found = contents(hosts.files("b").home("j1"))
    assert found == {"state.json": b"{}", "records/x.json": b"{}", ".exec-stream.jsonl": b"1\n2\n"}


def test_files_are_handed_in_all_at_once_or_not_at_all(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner that dies between two of them leaves none there: the next one would take the rest for deleted."""
    folder = hosts.folder / "a/jobs/j1"
    (folder / "records").mkdir(parents=True)
    (folder / ".exec-stream.jsonl").write_text("1\n")
    (folder / ".plan-stream.jsonl").write_text("2\n")
    (folder / "records/x.json").write_text("{}")
    before, keep = contents(folder), FileTable.keep

    def dies(table: FileTable, job: str, write: FileWrite) -> None:
        if write.number > 1:
            raise KeyboardInterrupt
        keep(table, job, write)

    store = hosts.store()
    store.create(rows.job("j1"))
    store.own("j1")
    with monkeypatch.context() as patched:
        patched.setattr(FileTable, "keep", dies)
        with pytest.raises(KeyboardInterrupt):
            hosts.files("a", store).take("j1")
    assert contents(hosts.files("b").home("j1")) == {}
    here = hosts.files("a", store)
    here.take("j1")
    here.append("j1", ".plan-stream.jsonl", ["3"])
    assert contents(hosts.files("c").home("j1")) == {**before, ".plan-stream.jsonl": b"2\n3\n"}


def test_a_stream_has_the_same_limit_on_every_host(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_files, "STREAM_BYTES", 20)
    _, here = hosts.owner("a")
    for number in range(9):
        here.append("j1", ".plan-stream.jsonl", [f"line {number}"])
    lines = hosts.files("b").tail("j1", ".plan-stream.jsonl")
    assert lines[:-1] == ["line 0", "line 1", "line 2"]
    assert json.loads(lines[-1])["event"] == "cut"


HOSTILE = ["../../x.json", "/etc/x.json", "records/../../../x.json", "state.json/x", "homes/a/.claude.json",
           "work/x.json", "records/.x.json", "records//x.json", "streams/a\nb.jsonl", "bus.id", ".brought.json",
           "records/x.txt", "",
           "snapshots.git/config", "outcomes/" + "a" * 300 + ".json"]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_from_the_server_is_taken_for_a_path(name: str) -> None:
    assert not is_file_name(name)


def test_hostile_rows_write_nothing_and_stop_no_one(hosts: Hosts) -> None:
    _, here = hosts.owner("a")
    here.write_state("j1", "state.json", "true")
    forged = b"INSERT INTO writes VALUES ('j1', %s, %s, false, %s, %s)"
    signed = hosts.files("a")._table._signed("j1", FileWrite(60, "../../stolen.json", False, b"x"))
    with closing(connect(hosts.bus.address, f"parley_{hosts.bus.key.id}_files")) as session:
        session.execute(forged, (50, "outcomes/forged.json", b"x", "0" * 64))
        session.execute(forged, (60, "../../stolen.json", b"x", signed))  # even with the bus's key
        session.execute("UPDATE writes SET body = 'false' WHERE number = 1")
        session.execute("UPDATE counters SET number = 60")
    there = hosts.files("b")
    assert contents(there.home("j1")) == {}
    assert not list(hosts.folder.rglob("stolen.json"))
    here.take("j1")
    here.append("j1", ".plan-stream.jsonl", ["on"])
    there.bring("j1")
    assert contents(there.home("j1")) == {".plan-stream.jsonl": b"on\n"}


def test_only_an_owner_writes(hosts: Hosts) -> None:
    hosts.owner("a")
    with pytest.raises(BusError, match="does not own job j1"):
        hosts.files("b").append("j1", "x.jsonl", ["1"])
