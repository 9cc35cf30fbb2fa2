"""Files that go along with a task: kept when they are sent, there when the worker starts, and nobody's change."""

import os
import shutil
from pathlib import Path

import pytest

from parley.ports.workspaces import SentFile, WorkspaceError
from tests.workspaces.user_repository import CHILD, JOB, ROOT, UserRepository, read, write

MOST = 1 << 20


def sent(place: UserRepository, *paths: str, most: int = MOST) -> tuple[SentFile, ...]:
    return place.trees.pick(JOB, ROOT, CHILD, paths, most)


def refused(place: UserRepository, *paths: str, most: int = MOST) -> str:
    with pytest.raises(WorkspaceError) as error:
        sent(place, *paths, most=most)
    assert "\n" not in str(error.value)
    return str(error.value)


def begun(place: UserRepository, files: tuple[SentFile, ...]) -> Path:
    """The worker's workspace, made from what the lead has committed."""
    place.trees.snapshot(JOB, ROOT, "the lead's turn")
    return Path(place.trees.prepare(JOB, CHILD, ROOT, sent=files).workspace)


def test_ignored_files_are_copied_as_they_were_and_stay_out_of_every_commit(place: UserRepository) -> None:
    work = place.prepare()
    write(work, {".gitignore": ".env\n", ".env": "KEY=1", "tool.sh": "#!/bin/sh\n"})
    (work / "tool.sh").chmod(0o755)
    files = sent(place, ".env", "tool.sh")
    write(work, {".env": "KEY=2"})

    child = begun(place, files)

    assert [(one.path, one.mode, one.size) for one in files] == [(".env", "100644", 5), ("tool.sh", "100755", 10)]
    assert (child / ".env").read_text() == "KEY=1"
    assert os.access(child / "tool.sh", os.X_OK)
    assert ".env" not in place.trees.changed(JOB, CHILD)
    place.trees.snapshot(JOB, CHILD, "its turn")
    merge = place.trees.merge(JOB, CHILD, ROOT)
    assert (merge.paths, merge.conflicts) == ((), ())
    assert (work / ".env").read_text() == "KEY=2"


def test_a_copy_that_its_worker_left_alone_does_not_undo_what_the_sender_wrote_since(place: UserRepository) -> None:
    work = place.prepare()
    write(work, {"notes.md": "first", "both.md": "first", "gone.md": "first"})
    files = sent(place, "notes.md", "both.md", "gone.md")
    write(work, {"notes.md": "second"})
    (work / "gone.md").unlink()

    child = begun(place, files)
    assert (child / "notes.md").read_text() == "first"
    write(child, {"both.md": "the worker's", "own.md": "new"})
    place.trees.snapshot(JOB, CHILD, "its turn")

    assert place.trees.changed(JOB, CHILD) == ("both.md", "own.md")
    merge = place.trees.merge(JOB, CHILD, ROOT)
    assert (merge.paths, merge.conflicts) == (("both.md", "own.md"), ())
    there = read(work)
    assert there["notes.md"] == b"second"
    assert there["both.md"] == b"the worker's"
    assert "gone.md" not in there


def test_a_workspace_that_is_made_again_has_what_git_ignores_and_nothing_that_was_deleted(
    place: UserRepository,
) -> None:
    work = place.prepare()
    write(work, {".gitignore": "data/\n", "data/big.csv": "1,2", "notes.md": "first"})
    child = begun(place, files := sent(place, "data/big.csv", "notes.md"))
    (child / "notes.md").unlink()
    place.trees.snapshot(JOB, CHILD, "it deleted one")
    shutil.rmtree(child)

    place.trees.prepare(JOB, CHILD, ROOT, sent=files)

    there = read(child)
    assert there["data/big.csv"] == b"1,2"
    assert "notes.md" not in there


def test_what_stands_in_the_way_is_replaced(place: UserRepository) -> None:
    work = place.prepare()
    write(work, {"a/b": "folder"})
    place.trees.snapshot(JOB, ROOT, "a folder")
    shutil.rmtree(work / "a")
    write(work, {"a": "file"})
    files = sent(place, "a")
    (work / "a").unlink()
    write(work, {"a/b": "folder"})

    assert (begun(place, files) / "a").read_text() == "file"


def test_what_is_sent_lives_as_long_as_the_job(place: UserRepository) -> None:
    work = place.prepare()
    write(work, {".gitignore": "x\n", "x": "only here"})
    files = sent(place, "x")
    history = place.trees.repository(JOB)
    history.git("gc", "--prune=now", "--quiet")

    assert history.blob(files[0].blob) == b"only here"


@pytest.mark.parametrize("path", ["../a", "/etc/passwd", "a/../b", "./a", "a//b", ".", "", ".git/config", "x/.GIT/y"])
def test_a_path_that_leads_elsewhere_is_refused(place: UserRepository, path: str) -> None:
    write(place.prepare(), {"a": "1", "b": "1"})
    assert "can't be sent" in refused(place, path)


def test_what_is_no_ordinary_file_is_refused(place: UserRepository, tmp_path: Path) -> None:
    work = place.prepare()
    write(tmp_path, {"outside/secret": "theirs"})
    write(work, {"real": "1", "folder/file": "1", ".parley/x": "1", ".claude/x": "1"})
    (work / "out").symlink_to(tmp_path / "outside/secret")
    (work / "in").symlink_to("real")
    (work / "way").symlink_to(tmp_path / "outside")
    os.mkfifo(work / "pipe")

    for path in ("out", "in", "way/secret", "folder", "pipe", "none", ".parley/x", ".claude/x"):
        assert f"{path!r} can't be sent" in refused(place, path)


def test_too_much_is_refused(place: UserRepository) -> None:
    write(place.prepare(), {"a": "x" * 60, "b": "x" * 60})

    assert (
        refused(place, "a", "b", most=100) == "the files have more than 100 bytes in all; send fewer, or smaller ones"
    )
    assert len(sent(place, "a", most=100)) == 1
