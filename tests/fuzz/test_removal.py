"""Deleting what an agent made: however deep, whatever its names and modes, and with few descriptors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.workspaces.files.safe_delete import delete
from parley.workspaces.home.sweep import size_of
from tests.fuzz import hostile_strategies
from tests.fuzz.hostile_harness import dig, make
from tests.fuzz.hostile_strategies import Made

FEW = """
import resource, sys
from pathlib import Path
from parley.workspaces.files.safe_delete import delete
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
delete(Path(sys.argv[1]))
"""


@settings(max_examples=30)
@given(st.lists(hostile_strategies.made.filter(lambda one: one.kind != "deep"), max_size=8))
def test_whatever_was_made_can_be_measured_and_deleted(things: list[Made]) -> None:
    with hostile_strategies.folder() as place:
        work = place / "work"
        work.mkdir()
        make(work, things)

        assert size_of(work) >= 0
        delete(work)

        assert list(place.iterdir()) == []


@pytest.mark.parametrize("depth", [1200, 2500])
def test_folders_deeper_than_any_path_are_deleted_with_few_descriptors(tmp_path: Path, depth: int) -> None:
    work, beside = tmp_path / "work", tmp_path / "beside"
    work.mkdir()
    beside.mkdir()
    (beside / "kept").write_text("kept")
    (work / "link").symlink_to(beside)
    dig(work, b"d\xff" * 20, depth)

    done = subprocess.run([sys.executable, "-c", FEW, str(work)], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert not work.exists()
    assert (beside / "kept").read_text() == "kept"


def test_what_a_link_leads_to_keeps_its_mode(tmp_path: Path) -> None:
    work, beside = tmp_path / "work", tmp_path / "beside"
    work.mkdir()
    beside.mkdir(mode=0o500)
    (work / "link").symlink_to(beside)

    delete(work)

    assert beside.stat().st_mode & 0o777 == 0o500
