"""What the orchestrator writes while an agent is at work stays inside the workspace, whatever the agent does."""

import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.ports.workspaces import WorkspaceError
from parley.workspaces.files.safe_fs import SafeFolder
from tests.workspaces.user_repository import CHILD, JOB, ROOT, UserRepository, read, write

MANY = 200


@contextlib.contextmanager
def swapping(work: Path, outside: Path) -> Iterator[list[int]]:
    """Somebody who turns the folders of a workspace into links that lead outside, and back, as fast as can be."""
    over, swaps = threading.Event(), [0]

    def swap() -> None:
        while not over.is_set():
            for name in ("d", "d/e"):
                with contextlib.suppress(OSError):
                    (work / name).rename(work / "was")
                    (work / name).symlink_to(outside)
                    swaps[0] += 1
                with contextlib.suppress(OSError):
                    (work / name).unlink()
                    (work / "was").rename(work / name)
                shutil.rmtree(work / "was", ignore_errors=True)

    agent = threading.Thread(target=swap)
    agent.start()
    try:
        yield swaps
    finally:
        over.set()
        agent.join()


def test_nothing_is_written_outside_while_folders_become_links(place: UserRepository, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write(outside, {"00001": "mine", "e/00002": "mine"})
    work = place.prepare()
    place.prepare(CHILD, ROOT)
    before = place.turn(ROOT, {"d/00001": "old", "d/e/00002": "old"}).tree
    for round_number in range(2):
        text = f"{round_number}\n"
        files = {f"d/{i:05}": text for i in range(MANY)} | {f"d/e/{i:05}": text for i in range(MANY)}
        place.turn(CHILD, dict(files))
        with swapping(work, outside) as swaps:
            with contextlib.suppress(WorkspaceError):
                place.trees.merge(JOB, CHILD, ROOT)
            with contextlib.suppress(WorkspaceError):
                place.trees.restore(JOB, ROOT, before, f"lost-{round_number}")
        assert swaps[0] > 0
        assert read(outside) == {"00001": b"mine", "e/00002": b"mine"}

    place.trees.restore(JOB, ROOT, before, "at-last")

    assert read(work) == {"a.txt": b"a\n", "sub/b.txt": b"b\n", "d/00001": b"old", "d/e/00002": b"old"}


def test_a_link_in_the_way_of_a_folder_is_moved_aside(tmp_path: Path) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    write(outside, {"file": "mine"})
    (work / "a").symlink_to(outside)
    (work / "file").mkdir()
    write(work, {"file/kept": "kept"})
    with SafeFolder(work, tmp_path / "aside") as safe_folder:
        safe_folder.remove("a/file")
        safe_folder.put("a/file", lambda handle: None, program=True)
        safe_folder.put("file", lambda handle: None)
        safe_folder.link("a/b/link", "../file")

    assert read(outside) == {"file": b"mine"}
    assert read(work) == {"a/file": b"", "file": b""}
    assert os.access(work / "a/file", os.X_OK)
    assert (work / "a/b/link").readlink() == Path("../file")
    assert {path.name[:-9] for path in (tmp_path / "aside").iterdir()} == {"a", "file"}
    assert [path.read_text() for path in (tmp_path / "aside").rglob("kept")] == ["kept"]


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/x", "a//x", "./x"])
def test_no_path_leads_up(tmp_path: Path, path: str) -> None:
    (tmp_path / "work").mkdir()
    with (
        SafeFolder(tmp_path / "work", tmp_path / "aside") as safe_folder,
        pytest.raises(OSError, match="must be relative"),
    ):
        safe_folder.put(path, lambda handle: None)

    assert [found.name for found in tmp_path.iterdir()] == ["work"]


def test_a_merge_and_a_restore_change_files_into_folders_links_and_programs(place: UserRepository) -> None:
    work = place.prepare()
    before = place.turn(ROOT, {"kind": "file", "folder/in": "in", "gone/deep/er": "x"}).tree
    child = place.prepare(CHILD, ROOT)
    shutil.rmtree(child / "folder")
    shutil.rmtree(child / "gone")
    (child / "kind").unlink()
    (child / "run").touch(0o755)
    (child / "link").symlink_to("run")
    after = place.turn(CHILD, {"kind/in": "in", "folder": "file"}).tree

    place.trees.merge(JOB, CHILD, ROOT)

    assert read(work) == read(child)
    assert os.access(work / "run", os.X_OK)
    assert (work / "link").readlink() == Path("run")
    assert not (work / "gone").exists()
    assert place.trees.snapshot(JOB, ROOT, "nothing new").tree == after
    place.trees.restore(JOB, ROOT, before, "back")
    assert read(work)["folder/in"] == b"in"
    assert not os.path.lexists(work / "link")


def test_a_folder_that_somebody_keeps_in_the_way_is_replaced_whole(
    place: UserRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = place.prepare()
    before = place.turn(ROOT, {"new": "old"}).tree
    place.turn(ROOT, {"new": "new"})
    place_file = SafeFolder._place

    def prevented(safe_folder: SafeFolder, here: int, draft: str, name: str) -> None:
        if name == "new":
            raise OSError(errno.EBUSY, "in the way again and again")
        place_file(safe_folder, here, draft, name)

    monkeypatch.setattr(SafeFolder, "_place", prevented)

    place.trees.restore(JOB, ROOT, before, "back")

    monkeypatch.undo()
    assert read(work)["new"] == b"old"
    assert [path.read_text() for path in (work.parent / "aside").rglob("new")] == ["new"]
    assert place.turn(ROOT, {}).tree == before


@pytest.mark.parametrize("kind", ["folder", "record"])
def test_an_outcome_is_cleared_through_no_link(place: UserRepository, tmp_path: Path, kind: str) -> None:
    work = place.prepare()
    write(tmp_path, {"outside/outcome.json": "mine", "outside/more": "mine"})
    if kind == "folder":
        (work / ".parley").symlink_to(tmp_path / "outside")
    else:
        (work / ".parley/outcome.json").mkdir(parents=True)
        (work / ".parley/outcome.json/link").symlink_to(tmp_path / "outside")
    found = place.trees.read_outcome(JOB, ROOT)

    place.trees.clear_outcome(JOB, ROOT)

    assert found is not None
    assert "not a link" in (found.problem or "")
    assert read(tmp_path / "outside") == {"outcome.json": b"mine", "more": b"mine"}
    assert not os.path.lexists(work / ".parley/outcome.json")


def test_what_is_written_belongs_to_whom_the_workspace_belongs(place: UserRepository) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    work = place.prepare()
    place.prepare(CHILD, ROOT)
    os.chown(work, 1234, 1234)
    place.turn(CHILD, {"new/file": "new"})

    place.trees.merge(JOB, CHILD, ROOT)

    assert {(work / name).stat().st_uid for name in ("new", "new/file")} == {1234}
