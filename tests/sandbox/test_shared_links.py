"""What a workspace shares with the outside by more than its path."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from parley.sandbox import Boundary, shared_links
from tests.sandbox.cage_harness import CageHarness, finish, run


@pytest.fixture
def known() -> shared_links.SeenWorkspaces:
    return shared_links.SeenWorkspaces()


def part(known: shared_links.SeenWorkspaces, root: Path) -> tuple[list[str], list[str]]:
    return shared_links.copy_shared_files(known, str(root), os.geteuid())


def age(root: Path) -> None:
    """Let every folder's last change lie far enough back to be trusted."""
    newest = max(path.stat().st_ctime_ns for path in (root, *root.rglob("*")) if path.is_dir())
    while time.time_ns() - newest <= 2 * shared_links.FRESH_NS:
        time.sleep(0.005)


def test_an_agent_can_not_write_through_a_hard_link(boundary: Boundary, yard: CageHarness) -> None:
    (yard.workspace / "sub").mkdir()
    (yard.workspace / "sub/same").hardlink_to(yard.secret)
    boundary.hand_over(yard.workspace)
    caged = boundary.launch(yard.cage("sh", "-c", "echo escaped > sub/same; cat sub/same"))

    assert finish(caged).out == "escaped\n"
    assert yard.secret.read_text("utf-8") == "outside"
    assert yard.secret.stat().st_uid == os.geteuid()


def test_a_link_made_between_two_launches_is_found(boundary: Boundary, yard: CageHarness) -> None:
    (yard.workspace / "sub").mkdir()
    boundary.hand_over(yard.workspace)
    run(boundary, yard.cage())
    age(yard.workspace)
    run(boundary, yard.cage())
    (yard.workspace / "sub/same").hardlink_to(yard.secret)
    caged = boundary.launch(yard.cage("sh", "-c", "echo escaped > sub/same"))
    finish(caged)

    assert caged.verdict.unlinked == (str(yard.workspace / "sub/same"),)
    assert yard.secret.read_text("utf-8") == "outside"


def test_links_that_stay_inside_are_left_alone(tmp_path: Path, known: shared_links.SeenWorkspaces) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a").write_text("a", encoding="utf-8")
    (tmp_path / "sub/b").hardlink_to(tmp_path / "a")

    assert part(known, tmp_path) == ([], [])
    assert (tmp_path / "a").stat().st_nlink == 2


def test_a_copy_keeps_content_mode_and_time(tmp_path: Path, known: shared_links.SeenWorkspaces) -> None:
    root = tmp_path / "root"
    root.mkdir()
    outside = tmp_path / "outside"
    outside.write_bytes(b"x" * 3_000_000)
    outside.chmod(0o751)
    os.utime(outside, ns=(1_000_000_000, 2_000_000_000))
    (root / "same").hardlink_to(outside)

    parted, _ = part(known, root)

    status = (root / "same").stat()
    assert parted == [str(root / "same")]
    assert (root / "same").read_bytes() == outside.read_bytes()
    assert (status.st_mode & 0o777, status.st_mtime_ns, status.st_nlink) == (0o751, 2_000_000_000, 1)
    assert outside.stat().st_nlink == 1


def test_folders_that_did_not_change_are_not_read_again(
    tmp_path: Path, known: shared_links.SeenWorkspaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        (tmp_path / f"{number}/below").mkdir(parents=True)
        (tmp_path / f"{number}/file").touch()
    part(known, tmp_path)
    age(tmp_path)
    part(known, tmp_path)
    read: list[str] = []
    real = shared_links._read

    def reading(place: int, folder: str, *rest: Any) -> None:
        read.append(folder)
        real(place, folder, *rest)

    monkeypatch.setattr(shared_links, "_read", reading)

    (tmp_path / "3/new").touch()
    part(known, tmp_path)

    assert read == [str(tmp_path / "3")]


def test_a_folder_that_becomes_a_link_while_it_is_looked_at_is_not_followed(
    tmp_path: Path, known: shared_links.SeenWorkspaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for path in (root / "sub", outside / "below"):
        path.mkdir(parents=True)
    real = shared_links._read

    def swapping(*given: Any) -> None:
        real(*given)
        if not (root / "sub").is_symlink():
            (root / "sub").rmdir()
            (root / "sub").symlink_to(outside)

    monkeypatch.setattr(shared_links, "_read", swapping)
    part(known, root)

    assert list(known.trees[str(root)].below) == [str(root)]


def test_a_file_that_goes_while_it_is_copied_is_no_trouble(
    tmp_path: Path, known: shared_links.SeenWorkspaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside").touch()
    for name in ("first", "second"):
        (root / name).hardlink_to(tmp_path / "outside")
    rename = os.rename

    def late(old: str, new: str, **places: int) -> None:
        if new == "first":
            (root / old).unlink()
        rename(old, new, **places)

    monkeypatch.setattr(os, "rename", late)

    assert part(known, root)[0] == [str(root / "second")]


def test_nested_repositories_are_told(tmp_path: Path, known: shared_links.SeenWorkspaces) -> None:
    (tmp_path / ".git").touch()
    (tmp_path / "vendor/lib/.git").mkdir(parents=True)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/.git").write_text("gitdir: /elsewhere", encoding="utf-8")

    expected = [str(tmp_path / "sub"), str(tmp_path / "vendor/lib")]
    assert part(known, tmp_path) == ([], expected)
    age(tmp_path)
    assert part(known, tmp_path) == part(known, tmp_path) == ([], expected)


def test_symbolic_links_are_not_followed(tmp_path: Path, known: shared_links.SeenWorkspaces) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").touch()
    (outside / "b").hardlink_to(outside / "a")
    root = tmp_path / "root"
    root.mkdir()
    (root / "out").symlink_to(outside)

    assert part(known, root) == ([], [])
    assert (outside / "a").stat().st_nlink == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands anything over")
def test_handing_over_gives_the_tree_and_nothing_it_points_to(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "sub").mkdir(parents=True)
    (root / "sub/file").touch()
    outside.mkdir()
    (outside / "kept").touch()
    (root / "sub/link").symlink_to(outside)
    (root / "sub/file-link").symlink_to(outside / "kept")
    (root / "hard").hardlink_to(outside / "kept")

    for _ in range(2):
        shared_links.hand_over(str(root), 64000)

    owners = {path.name: os.lstat(path).st_uid for path in (root, *root.rglob("*"))}
    assert set(owners.values()) == {64000}
    assert outside.stat().st_uid == (outside / "kept").stat().st_uid == 0
    assert (outside / "kept").stat().st_nlink == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands anything over")
def test_handing_over_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(OSError, match="link"):
        shared_links.hand_over(str(tmp_path / "link"), 64000)
    assert (tmp_path / "real").stat().st_uid == 0


def test_a_worktree_names_the_repository_that_it_shares(tmp_path: Path) -> None:
    private = tmp_path / "repo/.git/worktrees/w"
    private.mkdir(parents=True)
    (private / "commondir").write_text("../..\n", encoding="utf-8")
    work = tmp_path / "w"
    work.mkdir()
    (work / ".git").write_text(f"gitdir: {private}\n", encoding="utf-8")

    assert shared_links.repositories(str(work)) == [str(tmp_path / "repo/.git")]
