"""A session's file is found and put back; what an agent put there instead leads nowhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from parley.runners.command.codex_session import put_back, size

NAME = "rollout-2026-01-02T03-04-05-abc-1.jsonl"


@pytest.fixture
def day(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / ".codex" / "sessions" / "2026" / "01" / "02"
    folder.mkdir(parents=True)
    return folder


def test_what_a_lost_turn_added_is_taken_away(tmp_path: Path, day: Path) -> None:
    (day / NAME).write_text("kept\nlost\n")

    assert put_back(str(tmp_path / "home"), "abc-1", 5)
    assert (day / NAME).read_text() == "kept\n"
    assert size(str(tmp_path / "home"), "abc-1") == 5


@pytest.mark.parametrize("length", [-1, 0, 10, 99])
def test_a_session_is_left_as_it_is_where_nothing_was_added(tmp_path: Path, day: Path, length: int) -> None:
    (day / NAME).write_text("kept\nkept\n")

    assert put_back(str(tmp_path / "home"), "abc-1", length)
    assert (day / NAME).read_text() == "kept\nkept\n"


@pytest.mark.parametrize("session", ["", "other", "../abc-1", "*", "-rf", "a/b", "x" * 200])
def test_a_session_that_is_not_there_is_none(tmp_path: Path, day: Path, session: str) -> None:
    (day / NAME).write_text("kept\n")

    assert not put_back(str(tmp_path / "home"), session, 1)
    assert size(str(tmp_path / "home"), session) == -1


@pytest.mark.parametrize("kind", ["link", "hard link", "fifo", "folder", "linked day", "linked top"])
def test_nothing_outside_is_touched(tmp_path: Path, day: Path, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / NAME).write_text("not the agent's")
    match kind:
        case "link":
            (day / NAME).symlink_to(outside / NAME)
        case "hard link":
            os.link(outside / NAME, day / NAME)
        case "fifo":
            os.mkfifo(day / NAME)
        case "folder":
            (day / NAME).mkdir()
        case "linked day":
            day.rmdir()
            day.symlink_to(outside)
        case _:
            for folder in (day, *list(day.parents)[:4]):
                folder.rmdir()
            (tmp_path / "home" / ".codex").symlink_to(outside)
            (outside / "sessions").mkdir()
            (outside / NAME).rename(outside / "sessions" / NAME)

    assert not put_back(str(tmp_path / "home"), "abc-1", 3)
    assert next(outside.rglob(NAME)).read_text() == "not the agent's"


def test_a_million_names_are_not_all_looked_at(tmp_path: Path, day: Path) -> None:
    for number in range(10_001):
        (day / f"z{number}").touch()
    (day / NAME).write_text("kept\n")

    assert size(str(tmp_path / "home"), "abc-1") == -1
