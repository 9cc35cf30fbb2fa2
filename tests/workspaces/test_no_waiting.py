"""Nothing that an agent leaves in its workspace keeps the orchestrator waiting, or fills its memory."""

import itertools
import os
import random
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pytest

from parley.ports.workspaces import Clash, Merge, WorkspaceError
from parley.sandbox.limits.process_tree import children
from parley.workspaces import job_repository
from parley.workspaces import safe_git as module
from parley.workspaces.files import ignored
from parley.workspaces.files.scan import leads_outside
from parley.workspaces.safe_git import Git, GitError, JobGivenUp, execute
from parley.workspaces.workspace_marks import MARKED_BYTES, Markers, WorkspaceMarks
from tests.workspaces.user_repository import CHILD, JOB, ROOT, UserRepository, git, repository, write

QUICK = 20.0


# Whatever git would open by its path, wherever it lies: as the kind that keeps it waiting.
TRAPS = (
    ".gitignore",
    "sub/.gitignore",
    ".gitattributes",
    "sub/.gitattributes",
    ".gitmodules",
    "nested/.git",
    "nested/.git/HEAD",
    "sub/.git/HEAD",
    "nested/.git/commondir",
    "a.txt",
    "INTENT.md",
)


@pytest.mark.parametrize("name", TRAPS)
def test_a_pipe_where_git_would_open_a_file_keeps_nothing_waiting(place: UserRepository, name: str) -> None:
    work = place.prepare()
    child = place.prepare(CHILD, ROOT)
    begun = time.monotonic()
    for folder in (work, child):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if "/.git/" in name:
            write(folder / name.partition("/")[0], {".git/HEAD": "ref: refs/heads/x\n", ".git/config": ""})
            for below in ("objects", "refs"):
                (folder / name).parent.joinpath(below).mkdir()
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)
        write(folder, {"nested/inside": "x"})

    kept = place.turn(ROOT, {"sub/x": "x"})
    place.turn(CHILD, {"sub/y": "y"})
    place.trees.merge(JOB, CHILD, ROOT)
    place.trees.abandon(JOB, ROOT, "x")
    place.trees.restore(JOB, ROOT, kept.tree, "y")
    place.trees.retire(JOB, CHILD)
    place.trees.retire(JOB, ROOT)

    assert time.monotonic() - begun < QUICK
    assert any(line.startswith(name) for line in kept.left_out)
    committed = place.committed()
    assert {"sub/b.txt", "sub/x"} <= committed.keys()
    assert ("nested/inside" in committed) == (not name.startswith("nested/.git/"))


def test_a_socket_where_git_looks_for_rules_is_left_out(place: UserRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.prepare())
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(".gitignore")

        assert place.turn(ROOT, {"x": "x"}).left_out == (".gitignore: it is no ordinary file",)
    assert "x" in place.committed()


def test_rules_that_take_for_ever_are_given_up_in_one_line(place: UserRepository) -> None:
    work = place.prepare()
    deep = "/".join(["a" * 12] * 20)
    write(work, {".gitignore": "**/*a*/" * 10 + "b\n", f"{deep}/c": "x"})
    begun = resource.getrusage(resource.RUSAGE_CHILDREN)

    with pytest.raises(GitError, match=r"git took too long over the .gitignore files in .*") as caught:
        place.trees.snapshot(JOB, ROOT, "turn")

    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - begun.ru_utime < ignored.SECONDS / 2
    assert "\n" not in str(caught.value)
    (work / ".gitignore").unlink()
    assert place.turn(ROOT, {}).tree


def test_what_a_living_agent_swaps_all_the_time_keeps_nothing_waiting(place: UserRepository) -> None:
    """A file, a pipe, a link to a device, a folder: whatever lies there when it is looked at."""
    work = place.prepare()
    stop = threading.Event()

    def swap() -> None:
        names = [work / name for name in ("a.txt", ".gitignore", "sub/b.txt", "sub", "nested/.git")]
        (work / "nested").mkdir(exist_ok=True)
        for number in itertools.count():
            if stop.is_set():
                return
            path, draft = names[number % len(names)], work.parent / "draft"
            with suppress(OSError):
                if number % 4 == 0:
                    os.mkfifo(draft)
                elif number % 4 == 1:
                    draft.symlink_to("/dev/zero")
                elif number % 4 == 2:
                    draft.write_text(f"{number}")
                else:
                    draft.symlink_to("/proc/self/fd")
                if path.is_dir() and not path.is_symlink():
                    path.rename(work.parent / f"old-{number}")
                draft.rename(path)
            with suppress(OSError):
                draft.unlink()

    thread = threading.Thread(target=swap)
    thread.start()
    begun = time.monotonic()
    try:
        for number in range(10):
            with suppress(WorkspaceError):
                place.turn(ROOT, {f"kept-{number}": "x"})
            place.trees.read_outcome(JOB, ROOT)
            place.trees.read(JOB, ROOT, "a.txt")
            with suppress(WorkspaceError):
                place.trees.pick(JOB, ROOT, CHILD, ["a.txt"], 100)
    finally:
        stop.set()
        thread.join()
    assert time.monotonic() - begun < 10 * QUICK
    assert place.turn(ROOT, {"last": "x"}).tree


def test_what_git_started_ends_with_it(tmp_path: Path) -> None:
    trace = tmp_path / "pid"
    begun = time.monotonic()
    with pytest.raises(GitError, match="took longer"):
        execute(["/bin/sh", "-c", f"sleep 1000 & echo $! > {trace}; wait"], tmp_path, b"", {}, seconds=1)

    assert time.monotonic() - begun < QUICK
    state = Path(f"/proc/{trace.read_text().strip()}/stat")
    deadline = time.monotonic() + QUICK
    while state.exists() and state.read_text().split()[2] != "Z" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not state.exists() or state.read_text().split()[2] == "Z"


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="nothing else ties a process to its parent's life")
def test_what_was_started_outside_ends_with_parley_itself(tmp_path: Path) -> None:
    program = "from parley.workspaces.safe_git import execute; execute(['/bin/sleep', '600'], None, b'', {})"
    parley = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path)
    try:
        started: list[int] = []
        deadline = time.monotonic() + QUICK * 3
        while time.monotonic() < deadline and not any(_is(pid, b"/bin/sleep") for pid in started):
            started = children(parley.pid)
            time.sleep(0.01)
        assert any(_is(pid, b"/bin/sleep") for pid in started)
    finally:
        parley.kill()
        parley.wait()
    deadline = time.monotonic() + QUICK
    while time.monotonic() < deadline and any(_is(pid, b"/bin/sleep") for pid in started):
        time.sleep(0.01)
    assert not any(_is(pid, b"/bin/sleep") for pid in started)


def _is(pid: int, program: bytes) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(program)
    return False


# ---- conflicts' marks --------------------------------------------------------------------------------


def test_an_open_conflict_is_looked_for_through_no_link_and_in_no_device(place: UserRepository) -> None:
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
    sign = Markers("parent", "c1")
    marks = WorkspaceMarks(tmp_path / "marks", conflicts=dict.fromkeys(("long", "short", "open"), (sign,)))
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
    assert leads_outside("a/link", target)
    assert not leads_outside("a/link", "../.gitignore")


# ---- large ones --------------------------------------------------------------------------------------


def test_large_sides_of_a_conflict_are_not_held(place: UserRepository) -> None:
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


def test_an_object_that_is_missing_is_told_in_one_line(place: UserRepository) -> None:
    place.prepare()
    with (
        Git(place.trees.repository(JOB).git.folder).contents() as contents,
        pytest.raises(GitError, match="is missing"),
    ):
        contents.copy("0" * 40, lambda data: None)


# ---- what a merge costs ----------------------------------------------------------------------------


def _clash(place: UserRepository, ours: dict[str, str | bytes], theirs: dict[str, str | bytes]) -> Merge:
    """Both a workspace and its child have made the same files, each in its own way."""
    place.prepare()
    place.prepare(CHILD, ROOT)
    place.turn(CHILD, theirs)
    place.turn(ROOT, ours)
    return place.trees.merge(JOB, CHILD, ROOT)


def test_a_merge_that_git_takes_long_over_is_a_conflict_of_whole_files(
    place: UserRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines of few kinds in no order are what a comparison takes longest over; each such file would be seconds more."""
    monkeypatch.setattr(job_repository, "BUSY_SECONDS", 1)
    chosen = random.Random(1)
    sides: list[dict[str, str | bytes]] = [
        {f"f{n}": "\n".join(chosen.choices("abcdefghij", k=200_000)) for n in range(3)} for _ in range(2)
    ]
    begun = resource.getrusage(resource.RUSAGE_CHILDREN)
    merged = _clash(place, *sides)

    assert {(one.path, one.how) for one in merged.conflicts} == {(f"f{n}", Clash.BOTH) for n in range(3)}
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - begun.ru_utime < QUICK / 4
    assert place.trees.changes(JOB)


def test_a_merge_takes_no_more_memory_than_it_may(place: UserRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line is a byte here, and git keeps a hundred for each."""
    monkeypatch.setattr(module, "MEMORY_BYTES", 64 << 20)
    merged = _clash(place, {"f": b"a" + b"\n" * (1 << 20)}, {"f": b"b" + b"\n" * (1 << 20)})

    assert [(one.path, one.how) for one in merged.conflicts] == [("f", Clash.BOTH)]
    [changed] = [change for change in place.trees.changes(JOB) if change.path == "f"]
    assert changed.added is None  # nobody has counted its lines


def test_many_conflicts_cost_no_git_each(place: UserRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also more than a command line could name, and where all names beside the first are taken."""
    monkeypatch.setattr(job_repository, "AT_ONCE", 10)
    names = [f"d{n % 3}/{n}" for n in range(60)]
    beside: dict[str, str | bytes] = {"d0/0.theirs": "x", **{f"d0/0.theirs-{n}": "x" for n in range(2, 60)}}
    begun = time.monotonic()
    started: list[object] = []
    plain = subprocess.Popen.__init__
    with monkeypatch.context() as counting:

        def count(*words: Any, **more: Any) -> None:
            started.append(words)
            plain(*words, **more)

        counting.setattr(subprocess.Popen, "__init__", count)
        ours: dict[str, str | bytes] = {name: f"ours\0{name}" for name in names}
        theirs: dict[str, str | bytes] = {name: f"theirs\0{name}" for name in names}
        merged = _clash(place, {**ours, **beside}, theirs)

    assert len(merged.conflicts) == len(names)
    assert {one.beside for one in merged.conflicts} >= {"d0/0.theirs-60", "d1/1.theirs"}
    assert len(started) < 2 * len(names)
    assert time.monotonic() - begun < QUICK


@pytest.mark.parametrize(
    "lines",
    [">" * 300_000, "".join(f"<<<<<<< parent-{n}\n" for n in range(2, 300)) + "<<<<<<< parent\n" + "x\n" * 100_000],
    ids=["one line", "every name"],
)
def test_lines_like_markers_keep_nobody_waiting(place: UserRepository, lines: str) -> None:
    begun = time.thread_time()
    merged = _clash(place, {"f": f"ours\n{lines}\n"}, {"f": "theirs\n"})

    assert [one.how for one in merged.conflicts] == [Clash.MARKED]
    assert time.thread_time() - begun < QUICK / 10
    assert place.trees.unresolved(JOB, ROOT) == ["f"]


def test_git_that_takes_long_ends_when_the_job_is_given_up(place: UserRepository) -> None:
    asked = itertools.count()
    place.prepare()
    given_up = Git(place.trees.repository(JOB).git.folder, given_up=lambda: next(asked) > 2)
    begun = time.monotonic()
    with pytest.raises(JobGivenUp, match="git cat-file was stopped: the job is given up"), open_pipe() as nothing:
        given_up.run("cat-file", "--batch", stdin=nothing, busy_seconds=60)
    assert time.monotonic() - begun < QUICK


@contextmanager
def open_pipe() -> Iterator[IO[bytes]]:
    """What never says anything."""
    out, into = os.pipe()
    try:
        with os.fdopen(out, "rb") as file:
            yield file
    finally:
        os.close(into)


def test_what_git_is_told_reaches_it_however_long_it_takes(place: UserRepository) -> None:
    """More than a pipe holds, while it is looked again and again whether the job is given up."""
    place.prepare()
    git = place.trees.repository(JOB).git
    names = b"".join(b"%040d\n" % number for number in range(20_000))
    said = git.run("cat-file", "--batch-check", stdin=names, busy_seconds=60).stdout
    assert said.count(b"missing") == 20_000
