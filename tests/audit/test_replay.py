"""A record that no other program has changed is sound, at every moment of every kind of job, on every store."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from parley.audit.audit import AuditReport, audit, read_anchor, render
from parley.bus.memory_store import MemoryStore
from parley.bus.rows import BusError, TurnRow
from tests.audit.conftest import Kept
from tests.audit.played_jobs import PLAYS, TALKING, RecordedHome


@pytest.mark.parametrize("name", PLAYS)
def test_a_job_is_sound_after_every_transaction(theatre: RecordedHome, name: str) -> None:
    reports: list[AuditReport] = []
    theatre.watch = lambda job: reports.append(theatre.audit(job))

    job = PLAYS[name](theatre)

    reports.append(theatre.audit(job))
    assert [report.findings for report in reports if not report.ok] == []
    last = reports[-1]
    assert len({report.transactions for report in reports}) > 2
    assert last.steps == len(list(theatre.store.steps(job)))
    assert last.messages == len(list(theatre.store.messages(job)))
    assert last.head == list(theatre.store.transactions(job))[-1].head
    assert last.anchored == last.transactions


def test_the_plays_fire_the_rules_that_leave_something_in_the_derived_tables(kept: dict[str, Kept]) -> None:
    fired = {row.rule for play in kept.values() for row in play.load().rows["steps"]}

    assert fired >= {
        "recover", "give-up", "interrupt", "wake-int", "dead-letter", "pending", "strike", "dialog", "hold",
        "release", "term-run", "term-record", "send-ask", "human-reply", "respond", "withdraw", "transition",
    }  # fmt: skip


def test_sessions_and_advice_are_kept_while_they_are_needed_and_audited_meanwhile(theatre: RecordedHome) -> None:
    slots: set[str] = set()

    def watch(job: str) -> None:
        slots.update(" ".join(where.split(" ")[:2]) for where in theatre.store.load(job).molecules)
        assert theatre.audit(job).ok

    theatre.watch = watch
    PLAYS["failing"](theatre)
    PLAYS["running"](theatre)

    assert {"advice intent-lead", "handle proxy", "tree job:runs-1"} <= slots


def test_both_stores_hold_the_same_record(tmp_path: Path, kept: dict[str, Kept]) -> None:
    theatre = RecordedHome(tmp_path / "home", "memory")
    job = PLAYS["finished"](theatre)

    assert list(theatre.store.steps(job)) == kept["finished"].load().rows["steps"]


def test_a_job_that_was_made_known_and_not_begun_is_sound(theatre: RecordedHome) -> None:
    theatre.start("first", TALKING)
    row = theatre.store.jobs()[0]
    theatre.store.create(replace(row, job="second"))

    report = theatre.audit("second")

    assert report.ok
    assert (report.steps, report.head) == (0, "")
    assert "head (none)" in "\n".join(render(report))


def test_a_job_that_is_not_on_the_bus_is_told(theatre: RecordedHome) -> None:
    report = theatre.audit("nobody")

    assert [str(finding) for finding in report.findings] == ["jobs nobody: the row is missing"]


def test_a_report_is_read_by_people_and_programs(kept: dict[str, Kept]) -> None:
    play = kept["finished"]
    report = audit(play.load(), play.job, read_anchor(play.state))

    lines = render(report)
    assert lines[0] == "job done-1: the record is sound"
    assert lines[2] == f"  anchored at transaction {report.transactions}, the last: nothing was cut off"
    document = json.loads(json.dumps(report.document()))
    assert document["ok"] is True
    assert document["transitions"] == 11  # the three of its subteam, which was accepted, among them
    assert document["findings"] == []


def test_a_report_says_where_a_tail_could_be_missing(kept: dict[str, Kept]) -> None:
    store, job = kept["finished"].load(), kept["finished"].job
    commits = list(store.transactions(job))
    row = commits[9]
    early = {"transaction": row.number, "step": row.steps, "message": row.messages, "hash": row.head}

    assert "no anchor" in render(audit(store, job, None))[2]
    later = len(commits) - 10
    assert f"of the {later} after it a tail may be cut off" in render(audit(store, job, early))[2]


class Busy(MemoryStore):
    """A bus on which the job goes on while it is read."""

    theatre: RecordedHome
    left = 0

    def turns(self, job: str) -> Iterator[TurnRow]:
        found = super().turns(job)
        if self.left:
            self.left -= 1
            self.theatre.ask(job, "pause" if self.left % 2 else "resume")
            self.theatre.go_on(job)
        return found


def test_a_job_is_audited_while_it_runs(tmp_path: Path) -> None:
    theatre = RecordedHome(tmp_path / "home", "memory")
    job = PLAYS["running"](theatre)
    store = Busy(theatre.bus, "reader")
    store.theatre, store.left = theatre, 5

    assert audit(store, job, None).ok
    assert store.left == 0


def test_a_job_that_never_stands_still_is_no_finding(tmp_path: Path) -> None:
    theatre = RecordedHome(tmp_path / "home", "memory")
    job = PLAYS["running"](theatre)
    store = Busy(theatre.bus, "reader")
    store.theatre, store.left = theatre, 1000

    with pytest.raises(BusError, match="goes on faster than it can be read; pause it"):
        audit(store, job, None)


# ---- the files beside the bus --------------------------------------------------------------------


def test_the_state_record_has_its_fields_and_the_anchor(kept: dict[str, Kept]) -> None:
    play = kept["finished"]
    state = json.loads(play.state or "")

    assert state["state"] == "DONE"
    assert state["phase"] == "execution"
    assert state["backtrack_count"] == 1
    assert [entry["action"] for entry in state["history"]] == [
        "APPROVED_INTENT", "APPROVED_PLAN", "REPLAN", "APPROVED_PLAN", "APPROVED_WORK",
    ]  # fmt: skip
    assert set(state["history"][0]) == {"state", "action", "actor", "timestamp", "reason"}
    assert {"actor", "task_id", "parent_id", "team_id", "depth"} <= set(state)
    assert state["head"]["hash"] == play.load().rows["transactions"][-1].head


def test_subteams_have_records_of_their_own(kept: dict[str, Kept]) -> None:
    folder = kept["finished"].home / "jobs" / "done-1" / "records"
    records = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]

    assert len(records) == 2
    assert {(record["team_id"], record["depth"], record["parent_id"]) for record in records} == {("squad", 1, "done-1")}
    assert all(record["task_id"] == record["id"] for record in records)


def test_outcomes_and_streams_are_kept(kept: dict[str, Kept]) -> None:
    folder = kept["finished"].home / "jobs" / "done-1"

    outcomes = [json.loads(path.read_text())["outcome"] for path in sorted((folder / "outcomes").iterdir())]
    assert outcomes == ["APPROVED_INTENT", "APPROVED_PLAN", "REPLAN", "APPROVED_PLAN", "APPROVED_WORK"]
    for stream in (".intent-stream.jsonl", ".plan-stream.jsonl", ".exec-stream.jsonl"):
        events = [json.loads(line)["event"] for line in (folder / stream).read_text().splitlines()]
        assert {"start", "call", "end"} <= set(events)
    assert len(list((folder / "streams").glob("dispatch-*.jsonl"))) == 6
