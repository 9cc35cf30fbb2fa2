"""Collectors that are away, slow or lie: no job notices, and what they did not take is sent when they are back."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.features.telemetry import export_thread
from parley.features.telemetry.cursor_files import CursorFiles
from parley.features.telemetry.destination import Destination
from parley.features.telemetry.export_thread import TelemetryThread, telemetry_thread
from parley.machine.faults import FaultLog
from parley.ports.telemetry import TOOL, MidTurn
from tests.cli.home import Home
from tests.telemetry.otlp_receiver import receiving
from tests.telemetry.traced_job import Traced


class Sending:
    """A thread that sends a job whose rows are all on the bus; its files lie in a folder of the test's."""

    def __init__(self, traced: Traced, folder: Path, address: str) -> None:
        self.job, self.folder, self.home = traced.job, folder, traced.home.folder / ".parley"
        (folder / self.job).mkdir(exist_ok=True)
        to = Destination(f"{address}/v1/traces", f"{address}/v1/metrics")
        self.thread = telemetry_thread(to, lambda: SqliteStore(self.home), folder, FaultLog(folder), str)

    def send(self, since: int = 0) -> None:
        """Send all of the job, as an owner does when it lets go of it and ends."""
        store = SqliteStore(self.home)
        last = sum(1 for _ in store.steps(self.job))
        store.close()
        self.thread.took(self.job, 2, since)
        self.thread.committed(self.job, last)
        self.thread.released(self.job)
        self.thread.close()

    @property
    def faults(self) -> str:
        """What was written down."""
        path = self.folder / self.job / "faults.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    @property
    def cursor(self) -> int:
        """How far the job is sent."""
        return CursorFiles(self.folder).read(self.job)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is slow, not wrong."""
    monkeypatch.setattr(export_thread, "FLUSH_SECONDS", 30.0)


def test_what_a_collector_that_was_away_did_not_take_is_sent_by_the_next_owner(traced: Traced, tmp_path: Path) -> None:
    with receiving() as to:
        to.status = 503
        first = Sending(traced, tmp_path, to.address)
        first.send()
        assert (first.cursor, first.faults.count("telemetry:")) == (0, 1)
        assert "answers with the status 503" in first.faults
        to.status, to.received = 200, []
        Sending(traced, tmp_path, to.address).send(since=1)

        rows = [one for one in traced.spans if not one.name.startswith(("execute_tool", "wait slot"))]
        assert {one.id for one in to.spans()} == {one.id for one in rows}
        to.received = []
        Sending(traced, tmp_path, to.address).send(since=1)
        assert to.spans() == []  # what was taken is not sent again


def test_another_process_makes_the_same_spans_of_the_same_rows(traced: Traced, tmp_path: Path) -> None:
    with receiving() as to:
        Sending(traced, tmp_path, to.address).send(since=1 << 30)  # all of it by the owner before
        found = {one.id: one for one in to.spans()}

    assert found
    for one in traced.spans:
        assert found.get(one.id, one) == one


def test_what_earlier_owners_did_is_not_counted_again(traced: Traced, tmp_path: Path) -> None:
    with receiving() as to:
        Sending(traced, tmp_path, to.address).send(since=1 << 30)

        assert set(to.metrics()) == {"parley.jobs.open", "parley.agents.working"}


@pytest.mark.parametrize("status", [400, 401, 404, 413])
def test_what_a_collector_refuses_for_good_is_not_sent_again(traced: Traced, tmp_path: Path, status: int) -> None:
    with receiving() as to:
        to.status = status
        sending = Sending(traced, tmp_path, to.address)
        sending.send()

        assert sending.cursor > 0
        assert sending.faults.count("telemetry:") == 1
        assert [one.path for one in to.received] == ["/v1/traces", "/v1/metrics"]


def test_no_redirection_is_followed(traced: Traced, tmp_path: Path) -> None:
    with receiving() as to, receiving() as other:
        to.status, to.headers = 307, {"location": f"{other.address}/v1/traces"}
        Sending(traced, tmp_path, to.address).send()

        assert other.received == []
        assert len(to.received) == 2


def test_nothing_of_an_answer_is_read(traced: Traced, tmp_path: Path) -> None:
    with receiving() as to:
        to.answer, to.headers = b"\xff" * (4 << 20), {"content-type": "application/x-protobuf", "retry-after": "9999"}
        sending = Sending(traced, tmp_path, to.address)
        sending.send()

        assert (sending.faults, sending.cursor > 0) == ("", True)


def test_a_collector_that_does_not_answer_holds_nothing_up(
    traced: Traced, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_thread, "FLUSH_SECONDS", 0.05)
    with receiving() as to:
        to.hold = threading.Event()
        sending = Sending(traced, tmp_path, to.address)
        sending.send()  # it returns

        assert to.received == []
        assert sending.cursor == 0


def closed_port() -> str:
    """An address at which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def test_a_dead_collector_costs_a_job_one_line_in_its_log(tmp_path: Path) -> None:
    address = closed_port()
    home = Home(tmp_path / "work", {"OTEL_EXPORTER_OTLP_ENDPOINT": address.replace("//", "//user:hidden-word@")})
    home.folder.mkdir()
    job = home.start()

    faults = home.job_file(job, "faults.log").read_text(encoding="utf-8")
    assert faults.count("\n") == 2  # when, and what
    assert f"telemetry: {address} can't be reached" in faults
    assert "hidden-word" not in faults
    assert home.here("audit", job).code == 0


def test_a_job_that_cant_be_read_ends_its_own_telemetry_alone(traced: Traced, tmp_path: Path) -> None:
    with receiving() as to:
        sending = Sending(traced, tmp_path, to.address)
        (tmp_path / "broken").mkdir()
        sending.thread.took("broken", 1, 0)
        sending.thread.committed("broken", 5)
        sending.send()

        assert {one.said["parley.job.id"] for one in to.spans()} == {traced.job}
        assert "the job goes on" in (tmp_path / "broken/faults.log").read_text(encoding="utf-8")
        assert sending.faults == ""


def test_what_waits_to_be_sent_is_bounded(traced: Traced, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_thread, "MOST_EVENTS", 300)
    with receiving() as to:
        sending = Sending(traced, tmp_path, to.address)
        for number in range(305):
            sending.thread.passed(event(traced.job, number))
        sending.send()

        uses = [one for one in to.spans() if one.name == "execute_tool shell"]
        assert len(uses) == 300
        (dropped,) = to.metrics()["parley.telemetry.dropped"]
        assert dropped.as_int == 5


def event(job: str, number: int) -> MidTurn:
    return MidTurn(
        job=job,
        epoch=2,
        turn="t1",
        agent="coder",
        number=number,
        kind=TOOL,
        name="shell",
        outcome="ok",
        began=1.0,
        ended=2.0,
    )


def test_calls_after_the_end_do_nothing(traced: Traced, tmp_path: Path) -> None:
    sending = Sending(traced, tmp_path, closed_port())
    thread: TelemetryThread = sending.thread
    thread.close()
    sending.send()
    thread.passed(event(traced.job, 1))

    assert sending.faults == ""
