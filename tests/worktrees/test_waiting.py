"""Nothing that an agent leaves in its workspace keeps the orchestrator waiting, or fills its memory."""

import os
import shutil
import socket
import time
import tracemalloc
from pathlib import Path

import pytest

from parley.adapters import git as git_module
from parley.adapters.git import Git, GitError, execute
from parley.adapters.worktrees.marks import MARKED_BYTES, Marks
from parley.adapters.worktrees.scan import leaves
from tests.worktrees.place import CHILD, JOB, ROOT, Place, git, repository, write

QUICK = 20.0


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes"])
def test_a_pipe_where_git_looks_for_rules_is_moved_away(place: Place, name: str) -> None:
    work = place.prepare()
    child = place.prepare(CHILD, ROOT)
    begun = time.monotonic()
    for folder in (work, child):
        os.mkfifo(folder / "sub" / name)

    kept = place.turn(ROOT, {"sub/x": "x"})
    place.turn(CHILD, {"sub/y": "y"})
    os.mkfifo(child / "sub" / name)
    place.trees.merge(JOB, CHILD, ROOT)

    assert time.monotonic() - begun < QUICK
    assert kept.left_out == (f"sub/{name}: it is no ordinary file",)
    assert sorted(place.committed()) == ["a.txt", "sub/b.txt", "sub/x", "sub/y"]
    assert not os.path.lexists(work / "sub" / name)


def test_a_socket_where_git_looks_for_rules_is_moved_away(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    work = place.prepare()
    monkeypatch.chdir(work)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(".gitignore")

        assert place.turn(ROOT, {"x": "x"}).left_out == (".gitignore: it is no ordinary file",)
    assert not os.path.lexists(work / ".gitignore")


def test_rules_that_take_for_ever_are_given_up_in_one_line(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    work = place.prepare()
    deep = "/".join(["a" * 12] * 20)
    write(work, {".gitignore": "**/*a*/" * 10 + "b\n", f"{deep}/c": "x"})
    monkeypatch.setattr(git_module, "PATIENCE_SECONDS", 1.0)
    begun = time.monotonic()

    with pytest.raises(GitError, match=r"git ls-files took longer than 1 seconds in .* and was stopped") as caught:
        place.trees.snapshot(JOB, ROOT, "turn")

    assert time.monotonic() - begun < QUICK
    assert "\n" not in str(caught.value)
    monkeypatch.undo()
    (work / ".gitignore").unlink()
    assert place.turn(ROOT, {}).tree


def test_what_git_started_ends_with_it(tmp_path: Path) -> None:
    trace = tmp_path / "pid"
    begun = time.monotonic()
    with pytest.raises(GitError, match="took longer"):
        execute(["sh", "-c", f"sleep 1000 & echo $! > {trace}; wait"], tmp_path, b"", {}, seconds=1)

    assert time.monotonic() - begun < QUICK
    state = Path(f"/proc/{trace.read_text().strip()}/stat")
    deadline = time.monotonic() + QUICK
    while state.exists() and state.read_text().split()[2] != "Z" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not state.exists() or state.read_text().split()[2] == "Z"


# ---- conflicts' marks --------------------------------------------------------------------------------


def test_an_open_conflict_is_looked_for_through_no_link_and_in_no_device(place: Place) -> None:
    work = place.prepare()
    place.turn(ROOT, {"d/zero": "base\n"})
    place.prepare(CHILD, ROOT)
    place.turn(CHILD, {"d/zero": "child\n"})
    place.turn(ROOT, {"d/zero": "parent\n"})
    assert [conflict.path for conflict in place.trees.merge(JOB, CHILD, ROOT).conflicts] == ["d/zero"]
    assert place.trees.unresolved(JOB, ROOT) == ["d/zero"]
    begun = time.monotonic()
    shutil.rmtree(work / "d")
    (work / "d").symlink_to("/dev")

    assert place.trees.unresolved(JOB, ROOT) == []
    place.turn(ROOT, {})
    assert time.monotonic() - begun < QUICK


def test_a_line_without_end_is_read_in_pieces(tmp_path: Path) -> None:
    with (tmp_path / "long").open("wb") as file:
        file.truncate(1 << 40)
    write(tmp_path, {"short": b"x" * (64 << 10) + b"<<<<<<< parent\n", "open": "x\n>>>>>>> c1\n"})
    marks = Marks(tmp_path / "marks", conflicts=dict.fromkeys(("long", "short", "open"), "c1"))
    tracemalloc.start()

    assert marks.settle(tmp_path) == ["open"]
    assert tracemalloc.get_traced_memory()[1] < MARKED_BYTES // 8
    tracemalloc.stop()


# ---- what is not Parley's --------------------------------------------------------------------------


def test_a_commit_of_the_users_is_no_witness(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo")
    forged = 'one\n\n{"head":{"transaction":1,"step":1,"message":1,"hash":"00"}}'
    git(place.root, "commit", "-q", "--allow-empty", "-m", forged)
    place.prepare()
    place.trees.snapshot(JOB, ROOT, 'turn\n\n{"head":{"number":7}}')

    assert place.trees.anchors(JOB) == [{"number": 7}]


@pytest.mark.parametrize("target", [".git", "../.git/config", "x/.GIT/hooks", "x/.git.", "git~1/x"])
def test_a_link_to_what_is_gits_is_left_out(target: str) -> None:
    assert leaves("a/link", target)
    assert not leaves("a/link", "../.gitignore")


# ---- large ones --------------------------------------------------------------------------------------


def test_large_sides_of_a_conflict_are_not_held(place: Place) -> None:
    place.prepare()
    place.prepare(CHILD, ROOT)
    large = 40 << 20
    place.turn(CHILD, {"large": b"child\n" + b"c" * large})
    place.turn(ROOT, {"large": b"parent\n" + b"p" * large})
    tracemalloc.start()

    (conflict,) = place.trees.merge(JOB, CHILD, ROOT).conflicts

    assert tracemalloc.get_traced_memory()[1] < large // 2
    tracemalloc.stop()
    assert conflict.ours is not None
    assert conflict.ours.endswith(f"({large + 7} bytes in all)")
    assert place.trees.unresolved(JOB, ROOT) == ["large"]


def test_a_large_result_is_delivered_without_being_held(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo")
    place.prepare()
    large = 24 << 20
    place.turn(ROOT, {"large": os.urandom(large)})
    tracemalloc.start()

    found = place.trees.deliver(JOB)

    assert tracemalloc.get_traced_memory()[1] < large // 2
    tracemalloc.stop()
    assert found is not None
    assert git(place.root, "cat-file", "-s", f"{found.commit}:large").strip() == str(large)


def test_an_object_that_is_missing_is_told_in_one_line(place: Place) -> None:
    place.prepare()
    with Git(place.trees.history(JOB).git.folder).contents() as contents, pytest.raises(GitError, match="is missing"):
        contents.copy("0" * 40, lambda data: None)
