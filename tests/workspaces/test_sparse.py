"""A file that says it is long costs what it holds: none is read because of its length alone."""

import resource
from pathlib import Path
from typing import BinaryIO

import pytest

from parley.ports.workspaces import WorkspaceError
from parley.settings.schema import WorkspaceSettings
from parley.workspaces.safe_git import LooseObjects
from tests.workspaces.user_repository import JOB, ROOT, UserRepository, repository

LONG = 2 << 30


def stretch(path: Path, size: int = LONG) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.truncate(size)


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the files that are read to be kept."""
    sizes: list[int] = []
    write_file = LooseObjects.write_file

    def noted(self: LooseObjects, source: BinaryIO, size: int) -> str:
        sizes.append(size)
        return write_file(self, source, size)

    monkeypatch.setattr(LooseObjects, "write_file", noted)
    return sizes


@pytest.mark.parametrize("name", ["INTENT.md", "PLAN.md", "WORK_SUMMARY.md", "orchestration/x.md", ".parley-reports/x"])
def test_a_long_artifact_is_left_out_and_told_without_being_read(
    place: UserRepository, unread: list[int], name: str
) -> None:
    work = place.prepare()
    stretch(work / name)
    (work / "kept.txt").write_text("kept")
    kept = place.turn(ROOT, {})
    assert f"{name}: it has {LONG} bytes, and may have 1000000; shorten it" in kept.left_out
    assert place.committed()["kept.txt"] == b"kept"
    assert max(unread) < 100


@pytest.mark.parametrize("name", ["data.bin", "sub/b.txt", "deep/er/.env", ".gitattributes.bak"])
def test_a_sparse_file_is_left_out_and_told_without_being_read(
    place: UserRepository, unread: list[int], name: str
) -> None:
    work = place.prepare()
    stretch(work / name, LONG - 5)
    (work / "kept.txt").write_text("kept")
    kept = place.turn(ROOT, {})
    assert any(line.startswith(f"{name}: it is sparse: ") for line in kept.left_out), kept.left_out
    assert place.committed()["kept.txt"] == b"kept"
    assert max(unread) < 100


@pytest.mark.parametrize("name", [".gitignore", "sub/.gitignore", ".gitattributes"])
def test_rules_of_gits_that_are_too_long_are_never_read(place: UserRepository, name: str) -> None:
    work = place.prepare()
    stretch(work / name)
    (work / "kept.txt").write_text("kept")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    place.turn(ROOT, {})
    assert place.committed()["kept.txt"] == b"kept"
    assert name not in place.committed()
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss <= max(before, 200_000)  # kilobytes


def test_many_sparse_files_are_read_no_further_than_the_quota(tmp_path: Path, unread: list[int]) -> None:
    """Each has fewer holes than are told; all of them are longer than the job may be."""
    place = repository(tmp_path / "repo")
    place.settings = WorkspaceSettings(quota_mb=4)
    place.again()
    work = place.prepare()
    for number in range(40):
        stretch(work / f"{number}.bin", 1 << 20)
    kept = place.turn(ROOT, {})
    assert any("more than the job's quota leaves" in line for line in kept.left_out)
    assert sum(unread) <= 4 << 20


def test_a_sparse_file_takes_nothing_of_the_quota(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo")
    place.settings = WorkspaceSettings(quota_mb=4)
    place.again()
    work = place.prepare()
    stretch(work / "sparse")
    place.turn(ROOT, {"a.txt": "changed"})
    assert place.committed()["a.txt"] == b"changed"


def test_a_sparse_file_is_not_sent(place: UserRepository, unread: list[int]) -> None:
    work = place.prepare()
    stretch(work / "data.bin")
    with pytest.raises(WorkspaceError, match="it is sparse"):
        place.trees.pick(JOB, ROOT, "dispatch:x", ["data.bin"], 10 << 20)
    with pytest.raises(WorkspaceError, match="sparse"):
        place.trees.pick(JOB, ROOT, "dispatch:x", ["data.bin"], 10 << 30)
    assert not unread


def test_what_a_lost_turn_left_sparse_is_put_back_at_no_cost(place: UserRepository, unread: list[int]) -> None:
    work = place.prepare()
    tree = place.turn(ROOT, {}).tree
    stretch(work / "a.txt")
    stretch(work / "INTENT.md")
    place.trees.restore(JOB, ROOT, tree, "t1")
    assert (work / "a.txt").read_text() == "a\n"
    assert not (work / "INTENT.md").exists()
    assert not unread or max(unread) < 100
