"""Real processes at one bus: none displaces a living owner, none loses what another wrote."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from parley.bus.owner_locks import Locks
from parley.bus.rows import Owned
from parley.bus.sqlite.sqlite_store import SqliteStore
from tests.stores.child import ROOT, Process
from tests.stores.rows import commit, job

Start = Callable[[], Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a process with a store of its own on the test's bus."""
    started: list[Process] = []

    def start() -> Process:
        started.append(Process(tmp_path))
        assert started[-1].opened == "open"
        return started[-1]

    yield start
    for process in started:
        process.signal(signal.SIGCONT)
        process.end()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path)) as store:
        store.create(job())
        yield store


def numbers(store: SqliteStore) -> list[int]:
    return [row.number for row in store.steps("j1")]


def until(state: str, process: Process) -> None:
    """Wait for what the kernel says of a process."""
    deadline = time.monotonic() + 10
    while Path(f"/proc/{process.process.pid}/stat").read_text().rpartition(")")[2].split()[0] != state:
        assert time.monotonic() < deadline


def test_many_write_inputs_while_one_commits(store: SqliteStore, start: Start) -> None:
    owner, *writers = [start() for _ in range(4)]
    assert owner.ask("own", "j1") == "1"
    owner.say("commit", "j1", 1, 1, 200)
    for who, writer in enumerate(writers):
        writer.say("put", "j1", who, 100)

    assert [process.hear() for process in (owner, *writers)] == ["done"] * 4

    assert numbers(store) == list(range(1, 201))
    assert [row.number for row in store.messages("j1")] == list(range(1, 201))
    inputs = store.inputs("j1")
    assert [row.number for row in inputs] == list(range(1, 301))
    for who in range(3):
        assert [row.key for row in inputs if row.by == str(who)] == [f"{who}-{n}" for n in range(100)]


def test_many_may_make_the_bus_at_once(tmp_path: Path) -> None:
    for attempt in range(3):
        home = tmp_path / str(attempt)
        home.mkdir()
        command = [sys.executable, "-m", "tests.stores.child", str(home)]
        makers = [
            subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(4)
        ]
        said = [maker.communicate(f"create j{n}\n")[0].split() for n, maker in enumerate(makers)]
        assert said == [["open", "done"]] * 4
        with closing(SqliteStore(home)) as store:
            assert len(store.jobs()) == 4


def test_a_stopped_owner_keeps_its_job(store: SqliteStore, start: Start) -> None:
    owner = start()
    assert owner.ask("own", "j1") == "1"
    owner.signal(signal.SIGSTOP)
    until("T", owner)

    with pytest.raises(Owned, match=rf"process {owner.process.pid} on ") as refused:
        store.own("j1")
    assert "\n" not in str(refused.value)
    assert store.owner_lives("j1")
    owner.signal(signal.SIGCONT)
    assert owner.ask("commit", "j1", 1, 1, 1) == "done"
    assert numbers(store) == [1]


def test_a_killed_owners_job_is_taken_within_two_seconds(store: SqliteStore, start: Start) -> None:
    owner = start()
    owner.ask("own", "j1")
    owner.say("commit", "j1", 1, 1, 100_000)
    deadline = time.monotonic() + 30
    while not numbers(store):
        assert time.monotonic() < deadline
    owner.signal(signal.SIGKILL)

    deadline = time.monotonic() + 2
    epoch = 0
    while not epoch:
        with suppress(Owned):
            epoch = store.own("j1")
        assert time.monotonic() < deadline
    kept = numbers(store)
    assert epoch == 2
    assert kept == list(range(1, len(kept) + 1))
    loaded = store.load("j1")
    assert loaded.transaction is not None
    assert loaded.transaction.number == len(kept) == len(list(store.messages("j1")))
    store.commit([commit(len(kept) + 1, 2)])


def test_asking_who_owns_a_job_disturbs_no_owner(store: SqliteStore, start: Start) -> None:
    askers = [start() for _ in range(2)]
    for asker in askers:
        for _ in range(300):
            asker.say("lives", "j1")
    for epoch in range(1, 30):
        assert store.own("j1") == epoch
        store.disown("j1")
    for asker in askers:
        assert {asker.hear() for _ in range(300)} <= {"True", "False"}


@pytest.mark.parametrize("replace", [True, False])
def test_a_stopped_owner_whose_lock_was_lost_can_not_write(
    tmp_path: Path, store: SqliteStore, start: Start, replace: bool
) -> None:
    owner = start()
    owner.ask("own", "j1")
    assert owner.ask("commit", "j1", 1, 1, 1) == "done"
    owner.signal(signal.SIGSTOP)
    until("T", owner)
    lock = tmp_path / "locks/j1.lock"
    lock.unlink()
    if replace:
        lock.touch()

    assert store.own("j1") == 2
    owner.signal(signal.SIGCONT)

    assert owner.ask("commit", "j1", 1, 2, 2).startswith("LostOwnership: another owner has taken the job (j1)")
    assert owner.ask("own", "j1").startswith("Owned")
    assert numbers(store) == [1]
    store.commit([commit(2, 2)])


def test_a_lock_file_that_is_replaced_while_it_is_being_locked(tmp_path: Path) -> None:
    class Hindered(Locks):
        """Another program replaces the file just after it was opened, twice; then it is gone, once."""

        asked = 0

        def _path(self, job: str) -> Path:
            self.asked += 1
            path = super()._path(job)
            if self.asked in (2, 4, 6):
                path.unlink()
                if self.asked < 6:
                    path.touch()
            return path

    locks, others = Hindered(tmp_path), Locks(tmp_path)
    locks.take("j1")

    assert locks.asked == 8
    with pytest.raises(Owned):
        others.take("j1")
    assert others.is_taken("j1")
    locks.forget()
    others.take("j1")
    others.forget()


def test_one_process_can_not_own_a_job_twice(tmp_path: Path, store: SqliteStore) -> None:
    store.own("j1")
    with closing(SqliteStore(tmp_path)) as second, pytest.raises(Owned, match=f"process {os.getpid()}"):
        second.own("j1")
    assert store.owner_lives("j1")
    store.commit([commit()])


@pytest.mark.parametrize("how", ["spawn", "fork"])
def test_children_do_not_keep_the_lock(store: SqliteStore, start: Start, how: str) -> None:
    owner = start()
    owner.ask("own", "j1")
    child = int(owner.ask(how))
    try:
        assert store.owner_lives("j1")
        owner.signal(signal.SIGKILL)
        owner.process.wait()

        os.kill(child, 0)
        assert store.own("j1") == 2
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_forked_child_does_not_own(store: SqliteStore, start: Start) -> None:
    owner = start()
    owner.ask("own", "j1")

    assert owner.ask("fork-commit", "j1", 1) == "7"
    assert owner.ask("commit", "j1", 1, 1, 1) == "done"
    assert numbers(store) == [1]


def test_a_write_that_fails_leaves_what_was_committed(store: SqliteStore, start: Start) -> None:
    """The limit is the log's: commits succeed until a write fails, and the last leaves half of itself."""
    owner = start()
    owner.ask("own", "j1")
    owner.ask("limit", 300_000)

    line = owner.ask("commit", "j1", 1, 1, 999)

    assert line.startswith("BusError: ")
    assert "the disk failed" in line
    kept = numbers(store)
    assert kept == list(range(1, len(kept) + 1))
    assert 1 < len(kept) < 999
    # Neither in this process nor in one that reads the log anew.
    assert owner.ask("commit", "j1", 1, len(kept) + 1, len(kept) + 1).startswith("BusError: ")
    owner.end()
    store.close()
    with closing(SqliteStore(store.path.parent)) as again:
        assert numbers(again) == [row.number for row in again.messages("j1")] == kept
        assert [row.number for row in again.transactions("j1")] == kept
        assert again.own("j1") == 2
        again.commit([commit(len(kept) + 1, 2)])


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_that_can_not_be_written(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not tmp_path, which is its user's alone: an unprivileged child of root must get there.
    with tempfile.TemporaryDirectory() as name:
        home = Path(name) / "home"
        home.mkdir()
        monkeypatch.setenv("XDG_STATE_HOME", f"{name}/state")
        if there:
            SqliteStore(home).close()
        for path in (Path(name), *Path(name).rglob("*")):
            if os.geteuid() == 0:
                os.chown(path, 65534, 65534)  # whom the child is run as
        for path in (*home.rglob("*"), home):
            path.chmod(0o555 if path.is_dir() else 0o444)
        process = Process(home, "unprivileged")
        line = process.opened if process.opened != "open" else process.ask("create", "j1")
        process.end()
        for path in (home, *home.rglob("*")):
            path.chmod(0o700)

    assert line.startswith("BusError: ")
    assert "see to the permissions" in line
