"""The audit derives who might do what, and when, from the rows: a word in the wrong name is found."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley.audit.audit import AuditReport, render
from tests.audit.conftest import Kept
from tests.audit.played_jobs import RecordedHome, play_shared
from tests.audit.tamper import Row, delete, keyed, points_at, rows, stored, tampered, update
from tests.audit.test_tampering import others, rechain

DENIED = json.dumps({"about": "denied", "why": "no"})


def taken(raw: sqlite3.Connection, kind: str, by: str, *, in_vain: bool = False) -> Row:
    """The first input of a person's that was taken, or refused."""
    found = [row for row in rows(raw, "inputs") if (row["kind"], row["by"]) == (kind, by)]
    return next(row for row in found if ("denied" in row["note"]) is in_vain)


def forged(play: Kept, folder: Path, change: Callable[[sqlite3.Connection], object]) -> AuditReport:
    """Audit a copy that a program has changed that knows the chain, and without the anchor that would tell."""

    def tamper(raw: sqlite3.Connection) -> None:
        change(raw)
        rechain(raw)

    return tampered(play, folder, tamper, anchored=False)


def reworded(raw: sqlite3.Connection, row: Row, **body: Any) -> None:
    update(raw, "inputs", row, body=json.dumps({**json.loads(row["body"]), **body}, separators=(",", ":")))


def test_the_record_of_a_job_that_several_answer_for_is_sound_and_names_them(kept: dict[str, Kept]) -> None:
    play = kept["shared"]
    report = tampered(play, play.home.parent, lambda raw: None)

    assert report.ok
    assert report.answers == {"bob": 1, "ada": 1}
    assert "  the human's answers: 1 by bob, 1 by ada" in render(report)


def test_every_column_of_a_naming_and_of_what_follows_from_it_is_covered(kept: dict[str, Kept], tmp_path: Path) -> None:
    play = kept["shared"]
    names = [row for row in rows(play, "inputs") if row["kind"] == "name"]
    slot = [row for row in rows(play, "molecules") if row["slot"] == "people"]
    assert (len(names), len(slot)) == (3, 1)
    for table, found in (("inputs", names), ("molecules", slot)):
        for row in found:
            for column in stored(table, row):
                for value in others(table, column, row[column]):
                    change = {column: value}
                    report = tampered(play, tmp_path, lambda raw: update(raw, table, row, **change))  # noqa: B023 - called at once
                    assert not report.ok, (change, row)
                    first = report.findings[0]
                    if column == "taken":  # of a transaction that took nothing else, nothing is left
                        assert first.table in ("inputs", "transactions"), str(first)
                    elif column != "job":
                        changed = keyed(table, {**row, **change})
                        assert points_at(first, table, row, changed), (change, str(first))
    for table, row in (("inputs", names[0]), ("molecules", slot[0])):
        assert not tampered(play, tmp_path, lambda raw: delete(raw, table, row)).ok  # noqa: B023 - called at once


@pytest.mark.parametrize("by", ["mallory", "eve", "carl", "human (--yes)"])
def test_a_verdict_of_a_person_who_was_not_named_for_it_is_found(
    kept: dict[str, Kept], tmp_path: Path, by: str
) -> None:
    def change(raw: sqlite3.Connection) -> None:
        row = taken(raw, "answer", "bob")
        update(raw, "inputs", row, by=by)
        for letter in rows(raw, "messages"):
            if letter["key"] == f"input:{row['number']}":
                meta = json.loads(letter["meta"])
                update(raw, "messages", letter, meta=json.dumps({**meta, "by": by}, separators=(",", ":")))

    (found,) = forged(kept["shared"], tmp_path, change).findings
    assert found.table == "inputs"
    assert found.what.startswith(f"it was taken, and {by!r} might not leave it: only ada, who started the job, and bob")


def test_a_verdict_whose_naming_is_taken_away_or_says_less_is_found(kept: dict[str, Kept], tmp_path: Path) -> None:
    play = kept["shared"]

    def weaken(raw: sqlite3.Connection) -> None:
        reworded(raw, taken(raw, "name", "ada"), may="answer")

    def refuse(raw: sqlite3.Connection) -> None:
        update(raw, "inputs", taken(raw, "name", "ada"), note=DENIED)

    for change in (weaken, refuse):
        (found,) = forged(play, tmp_path, change).findings
        assert found.table == "inputs"
        assert "'bob' might not leave it" in found.what


def test_a_naming_in_the_name_of_another_person_is_found(kept: dict[str, Kept], tmp_path: Path) -> None:
    for by in ("bob", "eve", "mallory"):
        (found,) = forged(
            kept["shared"],
            tmp_path,
            lambda raw: update(raw, "inputs", taken(raw, "name", "ada"), by=by),  # noqa: B023 - called at once
        ).findings
        assert (found.table, found.what) == (
            "inputs",
            f"it was taken, and {by!r} might not leave it: only ada, who started the job, says what others may do",
        )


def test_a_naming_that_was_refused_and_is_made_to_count_is_found(kept: dict[str, Kept], tmp_path: Path) -> None:
    def accept(raw: sqlite3.Connection) -> None:
        update(raw, "inputs", taken(raw, "name", "bob", in_vain=True), note='{"about":"done","what":"carl decides"}')

    (found,) = forged(kept["shared"], tmp_path, accept).findings
    assert found.table == "inputs"
    assert "only ada, who started the job, says what others may do" in found.what


def test_people_who_are_put_into_the_settings_or_beside_the_soup_are_found(
    kept: dict[str, Kept], tmp_path: Path
) -> None:
    play = kept["shared"]

    def settings(raw: sqlite3.Connection) -> None:
        raw.execute("""UPDATE charters SET settings = replace(settings, '"eve":"answer"', '"eve":"decide"')""")

    def slot(raw: sqlite3.Connection) -> None:
        raw.execute("""UPDATE molecules SET body = replace(body, '"bob":"see"', '"bob":"decide"')""")

    assert str(tampered(play, tmp_path, settings).findings[0]).endswith(
        "its settings is not the one that the job was opened with"
    )
    assert tampered(play, tmp_path, slot).findings[0].number == "people"


def test_a_pause_and_a_naming_are_audited_while_they_happen(theatre: RecordedHome) -> None:
    reports: list[AuditReport] = []
    theatre.watch = lambda job: reports.append(theatre.audit(job))
    play_shared(theatre)

    assert len(reports) > 8
    assert [report.findings for report in reports if not report.ok] == []
