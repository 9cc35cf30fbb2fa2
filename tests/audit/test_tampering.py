"""What another program changes on the bus is found: in every table, every column, every way."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from parley.audit.audit import audit, read_anchor, render
from parley.audit.export import export
from parley.bus.hash_chain import link
from parley.bus.rows import BusError, InputRow, MessageRow, StepRow
from parley.bus.sqlite.sqlite_store import SqliteStore
from tests.audit.conftest import Kept
from tests.audit.played_jobs import PLAYS, RecordedHome
from tests.audit.tamper import (
    NUMBERED,
    SERIAL,
    TABLES,
    Row,
    delete,
    insert,
    keyed,
    points_at,
    rows,
    stored,
    swap,
    tampered,
    update,
)
from tests.copied_homes import bind, copy_bus


def some(found: list[Row]) -> list[Row]:
    """The first, one in the middle, the last."""
    return [found[index] for index in sorted({0, len(found) // 2, len(found) - 1})]


def others(table: str, column: str, value: Any) -> list[Any]:
    """Other values for a column, such that it matters."""
    if (table, column) == ("owners", "epoch"):
        return [0, "none"]  # upwards it is what any owner does by taking the job
    if column == "id":
        return [value + 1000, value + SERIAL]  # of another row, of another job; no text can be a key
    if (table, column) in (("inputs", "number"), ("jobs", "serial"), ("owners", "job")):
        return [value + 1000]
    if isinstance(value, int):
        return [value + 1000, "a text"]
    if isinstance(value, float):
        return [value + 1.0, "a text"]
    return [f"{value}x", b"\xff\x00"]


@pytest.mark.parametrize("table", TABLES)
def test_a_changed_column_is_found(kept: dict[str, Kept], tmp_path: Path, table: str) -> None:
    unseen, elsewhere = [], []
    play = kept["running"]
    found = rows(play, table)
    for column in stored(table, found[0]):
        for row in some(found):
            for value in others(table, column, row[column]):
                change = {column: value}
                report = tampered(play, tmp_path, lambda raw: update(raw, table, row, **change))  # noqa: B023 - called at once
                if report.ok:
                    unseen.append((change, row))
                elif column not in ("job", "serial") and not points_at(
                    report.findings[0], table, row, keyed(table, {**row, **change})
                ):
                    elsewhere.append((change, str(report.findings[0]), row))

    assert unseen == []
    assert elsewhere == []


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", ["running", "failing"])
def test_a_missing_row_is_found(kept: dict[str, Kept], tmp_path: Path, name: str, table: str) -> None:
    for row in some(rows(kept[name], table)):
        report = tampered(kept[name], tmp_path, lambda raw: delete(raw, table, row))  # noqa: B023 - called at once

        assert not report.ok
        assert points_at(report.findings[0], table, row), (str(report.findings[0]), row)


@pytest.mark.parametrize("table", [*NUMBERED, "recipients", "molecules", "inputs"])
def test_an_added_row_is_found(kept: dict[str, Kept], tmp_path: Path, table: str) -> None:
    play = kept["running"]
    last = rows(play, table)[-1]
    copies: dict[str, list[Row]] = {
        "commits": [{"number": last.get("number", 0) + 1}, {"number": 0}, {"number": -7}],
        "steps": [{"number": last.get("number", 0) + 1}, {"number": 0}],
        "messages": [
            {"number": last.get("number", 0) + 1, "key": "another", "seq": last.get("seq", 0) + 1},
            {"number": 0, "key": "another", "seq": 0},
        ],
        "molecules": [{"slot": "hold another"}, {"slot": "tree another"}],
        "recipients": [{"thread": "dispatch:another"}, {"agent": "another"}],
        "turns": [{"number": 1000}, {"number": 0}],
        "inputs": [{"number": 1000, "key": "another"}, {"number": 1001, "key": "another", "taken": 0}],
    }
    for new in copies[table]:
        row = {**last, **new}
        report = tampered(play, tmp_path, lambda raw: insert(raw, table, row))  # noqa: B023 - called at once

        assert not report.ok
        if table == "turns" and new["number"] == 0:
            assert report.findings[0].number == f"t{rows(play, table)[0]['number']}"  # it stands where the first should
        else:
            assert points_at(report.findings[0], table, row), str(report.findings[0])


@pytest.mark.parametrize("table", [*NUMBERED, "recipients", "molecules", "inputs"])
def test_rows_that_changed_places_are_found(kept: dict[str, Kept], tmp_path: Path, table: str) -> None:
    for name in ("running", "withdrawn"):
        found = rows(kept[name], table)
        for index in sorted({0, len(found) // 2, len(found) - 2}):
            one, other = found[index : index + 2]
            if table in ("molecules", "recipients") and all(
                one.get(name) == other.get(name) for name in ("body", "seq")
            ):
                continue  # two workspaces with the same files, two recipients with as many messages
            key = {"molecules": ("slot",), "recipients": ("agent", "thread")}.get(table, ("number",))
            report = tampered(kept[name], tmp_path, lambda raw: swap(raw, table, one, other, *key))  # noqa: B023 - called at once

            assert not report.ok
            assert points_at(report.findings[0], table, one, other), str(report.findings[0])


@pytest.mark.parametrize("name", ["finished", "failing"])
def test_where_only_the_hash_tells_the_changed_row_is_named(kept: dict[str, Kept], tmp_path: Path, name: str) -> None:
    """A word in a message, a time, a note on an input: no rule knows them."""
    play = kept[name]
    for table, column in (("messages", "body"), ("messages", "time"), ("steps", "time"), ("inputs", "note")):
        for row in some([row for row in rows(play, table) if row.get("taken", 1)]):
            value = row[column]
            new = {column: value + 1.0 if isinstance(value, float) else f"{value} not"}
            (finding,) = tampered(play, tmp_path, lambda raw: update(raw, table, row, **new)).findings  # noqa: B023 - called at once

            assert points_at(finding, table, row), (str(finding), row)


def test_of_two_changed_rows_the_first_is_named(kept: dict[str, Kept], tmp_path: Path) -> None:
    play = kept["finished"]
    by_transaction: dict[int, list[Row]] = {}
    for row in rows(play, "messages"):
        by_transaction.setdefault(row["txn"], []).append(row)
    several = [found for found in by_transaction.values() if len(found) > 1]
    for found in (several[0], several[-1]):

        def reword_all(raw: sqlite3.Connection, found: list[Row] = found) -> None:
            for row in found[1:]:
                update(raw, "messages", row, body=f"{row['body']} not")

        (finding,) = tampered(play, tmp_path, reword_all).findings
        assert (finding.table, finding.number) == ("messages", found[1]["number"])


def test_digests_that_were_changed_or_taken_away_are_found(kept: dict[str, Kept], tmp_path: Path) -> None:
    play = kept["running"]
    for row in some(rows(play, "commits")):
        for digests in ("", row["digests"][8:], row["digests"][::-1]):
            report = tampered(play, tmp_path, lambda raw: update(raw, "commits", row, digests=digests))  # noqa: B023 - called at once

            assert (report.findings[0].table, report.findings[0].number) == ("transactions", row["number"])


def test_an_input_that_no_transaction_took_may_come_and_go(kept: dict[str, Kept], tmp_path: Path) -> None:
    row = {"job": kept["running"].job, "kind": "answer", "key": "k", "time": 1.0, "by": "eve", "body": "{"}

    assert tampered(kept["running"], tmp_path, lambda raw: insert(raw, "inputs", row)).ok


def test_a_row_that_is_no_text_at_all_is_a_finding(kept: dict[str, Kept], tmp_path: Path) -> None:
    for table, column in (
        ("steps", "choice"),
        ("messages", "body"),
        ("molecules", "body"),
        ("turns", "host"),
    ):
        for row in some(rows(kept["running"], table)):
            key = "slot" if table == "molecules" else "id"
            broken = f"UPDATE {table} SET {column} = CAST(x'ff22' AS TEXT) WHERE {key} = ?"  # noqa: S608 - our own tables
            report = tampered(kept["running"], tmp_path, lambda raw: raw.execute(broken, [row[key]]))  # noqa: B023 - called at once

            assert "can't be read" in report.findings[0].what
            assert report.findings[0].table == table


def test_a_bus_of_another_protocol_is_refused(kept: dict[str, Kept], tmp_path: Path) -> None:
    with pytest.raises(BusError, match="another version of the protocol"):
        tampered(
            kept["running"],
            tmp_path,
            lambda raw: raw.execute("UPDATE meta SET value = 'other' WHERE name = 'protocol'"),
        )


# ---- a cut tail ----------------------------------------------------------------------------------


def cut(raw: sqlite3.Connection, last: int) -> None:
    """Take away all transactions after the last, and leave the derived tables as they are."""
    raw.execute("DELETE FROM commits WHERE number > ?", [last])
    raw.execute("DELETE FROM steps WHERE txn > ?", [last])
    raw.execute("DELETE FROM messages WHERE txn > ?", [last])


def test_a_cut_tail_is_found(kept: dict[str, Kept], tmp_path: Path) -> None:
    play = kept["running"]
    whole = len(rows(play, "commits"))
    for last in range(whole - 1, -1, -1):
        report = tampered(play, tmp_path, lambda raw: cut(raw, last))  # noqa: B023 - called at once

        assert (report.findings[0].table, report.findings[0].number) == ("transactions", last + 1)
        assert f"state.json was written after transaction {whole}" in report.findings[0].what
        assert not tampered(play, tmp_path, lambda raw: cut(raw, last), anchored=False).ok  # noqa: B023 - called at once


@pytest.mark.parametrize("name", ["running", "failing", "withdrawn"])
def test_a_bus_that_was_put_back_whole_to_an_earlier_moment_is_found(tmp_path: Path, name: str) -> None:
    theatre = RecordedHome(tmp_path / "home", "sqlite")
    copies: list[Path] = []

    def copy(job: str) -> None:
        copies.append(tmp_path / f"copy-{len(copies)}")
        copies[-1].mkdir()
        shutil.copy(theatre.home / "bus.id", copies[-1])
        with closing(sqlite3.connect(theatre.home / "bus.db")) as raw:
            raw.execute("VACUUM INTO ?", [str(copies[-1] / "bus.db")])

    theatre.watch = copy
    job = PLAYS[name](theatre)
    anchor = read_anchor(theatre.state(job))
    assert anchor is not None
    theatre.close()

    earlier = 0
    for home in copies:
        with closing(SqliteStore(bind(home))) as store:
            last = len(list(store.transactions(job)))
            assert audit(store, job, None).ok  # nothing in it is wrong but that it is not all
            if last < anchor["transaction"]:
                earlier += 1
                finding = audit(store, job, anchor).findings[0]
                assert (finding.table, finding.number) == ("transactions", last + 1)
    assert earlier > 2


# ---- those who know the chain --------------------------------------------------------------------


def rechain(raw: sqlite3.Connection) -> None:
    """Compute every head anew, as a program would that knows how."""
    head = ""
    tables = {"steps": "txn", "messages": "txn", "inputs": "taken"}
    for commit in rows(raw, "commits"):
        number = commit["number"]
        own = {table: [row for row in rows(raw, table) if row[key] == number] for table, key in tables.items()}
        made = link(
            head,
            number=number,
            time=commit["time"],
            epoch=commit["epoch"],
            steps=[StepRow(**_columns(row)) for row in own["steps"]],
            messages=[MessageRow(**_columns(row)) for row in own["messages"]],
            taken=[InputRow(**row) for row in own["inputs"]],
        )
        head = made.head
        raw.execute("UPDATE commits SET head = ?, digests = ? WHERE number = ?", [head, made.digests, number])


def _columns(row: Row) -> Row:
    return {{"txn": "transaction"}.get(name, name): row[name] for name in row if name not in ("id", "job")}


def reword(raw: sqlite3.Connection) -> None:
    raw.execute("UPDATE messages SET body = 'no' WHERE number = 2")
    rechain(raw)


def test_a_rewritten_history_is_found_by_the_anchor_and_by_the_seals(kept: dict[str, Kept], tmp_path: Path) -> None:
    report = tampered(kept["finished"], tmp_path, reword)

    assert (report.findings[0].table, report.findings[0].number) == ("state.json", report.transactions)
    assert "one was rewritten" in report.findings[0].what
    (found,) = tampered(kept["finished"], tmp_path, reword, anchored=False).findings
    assert found.table == "transactions"
    assert "not sealed with this bus's key" in found.what


def forge(raw: sqlite3.Connection, rule: str, at: str, choice: str) -> None:
    """Add a transaction with one step, well chained."""
    step, commit = rows(raw, "steps")[-1], rows(raw, "commits")[-1]
    number = commit["number"] + 1
    new = {"number": step["number"] + 1, "txn": number, "rule": rule, "at": at, "choice": choice, "extra": ""}
    insert(raw, "steps", {**step, **new, "who": "orchestrator"})
    insert(raw, "commits", {**commit, "number": number, "steps": step["number"] + 1})
    rechain(raw)


@pytest.mark.parametrize(
    "rule, at, choice, why",
    [
        ("transition", "{job}", '["Passage","APPROVED_INTENT","intent-lead",0.0,"",[]]', "live approval"),
        ("transition", "{job}", '["Passage","APPROVED_WORK","intent-lead",0.0,"",[]]', "not an outcome"),
        ("wake", "writer dispatch:n2", '"t36"', "no mail"),
        ("transition", "{job}", '"x"', "can't fire"),
        ("transition", "{job}", '["Passage"]', "at least length 3"),
        ("wake", "", "[[[", "can't fire"),
        ("conquer", "{job}", "", "no rule 'conquer'"),
    ],
)
def test_a_forged_step_is_found_by_the_rules(
    kept: dict[str, Kept], tmp_path: Path, rule: str, at: str, choice: str, why: str
) -> None:
    play = kept["running"]
    where = at.format(job=play.job)
    report = tampered(play, tmp_path, lambda raw: forge(raw, rule, where, choice))

    assert (report.findings[0].table, report.findings[0].number) == ("steps", report.steps + 1)
    assert why in report.findings[0].what


def test_a_step_in_another_name_is_found_by_the_rules(kept: dict[str, Kept], tmp_path: Path) -> None:
    def rename(raw: sqlite3.Connection) -> None:
        raw.execute("UPDATE steps SET who = 'human' WHERE rule = 'send-step'")
        rechain(raw)

    report = tampered(kept["running"], tmp_path, rename)

    assert "is said to be by 'human', and is by 'orchestrator'" in report.findings[0].what


def test_a_message_that_no_step_delivers_is_found(kept: dict[str, Kept], tmp_path: Path) -> None:
    def add(raw: sqlite3.Connection) -> None:
        last, commit = rows(raw, "messages")[-1], rows(raw, "commits")[-1]
        number = last["number"] + 1
        assert last["txn"] == commit["number"]
        insert(raw, "messages", {**last, "number": number, "key": "another", "seq": last["seq"] + 1})
        update(raw, "commits", commit, messages=number)
        rechain(raw)

    report = tampered(kept["running"], tmp_path, add)

    assert report.findings[0].table == "messages"
    assert report.findings[0].what == "it is in the human's name, and made of none of their inputs"


# ---- the anchor ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, row",
    [
        ("{", "head"),
        ("[]", "head"),
        ('{"head": 5}', "head"),
        ('{"head": {"transaction": "9"}}', "head"),
        ('{"head": {"transaction": 0, "step": 0, "message": 0, "hash": ""}}', "head"),
        ('{"head": {"transaction": 2, "step": 9, "message": 9, "hash": ""}}', 2),
    ],
)
def test_an_anchor_that_says_nothing_or_something_else_is_found(
    kept: dict[str, Kept], text: str, row: str | int
) -> None:
    report = audit(kept["running"].load(), kept["running"].job, read_anchor(text))

    assert (report.findings[0].table, report.findings[0].number) == ("state.json", row)


def test_the_first_row_is_told_to_people(kept: dict[str, Kept], tmp_path: Path) -> None:
    report = tampered(kept["finished"], tmp_path, lambda raw: raw.execute("DELETE FROM steps WHERE number = 100"))

    assert render(report)[:2] == [
        "job done-1: the record does not hold",
        "  the first row that does not fit: steps 100: the row is missing; the next is 101",
    ]
    assert json.loads(json.dumps(report.document()))["findings"][0]["number"] == 100


def test_tampering_with_a_bus_in_memory_is_found_too(tmp_path: Path) -> None:
    theatre = RecordedHome(tmp_path / "home", "memory")
    job = PLAYS["running"](theatre)
    kept = theatre.bus.jobs[job]
    assert theatre.audit(job).ok

    kept.sequences["writer", "dispatch:n2"] += 1
    assert theatre.audit(job).findings[0].table == "recipients"
    kept.sequences["writer", "dispatch:n2"] -= 1
    kept.out.clear()
    assert theatre.audit(job).findings[0].table == "turns"
    kept.steps.rows[3] = replace(kept.steps.rows[3], who="eve")
    assert theatre.audit(job).findings[0].number == 4


def test_what_is_left_of_a_shredded_bus_is_a_finding_or_a_clear_refusal(kept: dict[str, Kept], tmp_path: Path) -> None:
    play = kept["running"]
    data, whole = (play.home / "bus.db").read_bytes(), play.exported.read_bytes()
    files = play.home / "jobs" / play.job
    for start in range(4096, len(data), 4096):
        home = tmp_path / "home"
        shutil.rmtree(home, ignore_errors=True)
        copy_bus(play.home, home)
        (home / "bus.db").write_bytes(data[:start] + bytes(4096) + data[start + 4096 :])
        try:
            with closing(SqliteStore(home)) as store:
                report = audit(store, play.job, read_anchor(play.state))
                assert not report.ok or b"".join(export(store, files, play.job)) == whole  # an index, or nothing
        except BusError as error:
            assert "bus.db" in str(error)  # noqa: PT017 - either will do
