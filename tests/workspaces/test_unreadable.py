"""No workspace that its agent has made unreadable, or bottomless, stops a job."""

import codecs
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from parley.ports.turns import BoundaryError
from parley.ports.workspaces import Outcome, WorkspaceError
from parley.workspaces import JobWorkspaces
from tests.workspaces.user_repository import CHILD, JOB, ROOT, UserRepository, repository, write

NOBODY = 65534


def as_ordinary_user(act: Callable[[UserRepository], None]) -> None:
    """Do something as who may not do everything: root reads what nobody may."""
    folder = Path(tempfile.mkdtemp(prefix="parley-shut-"))
    codecs.lookup("ascii")  # where Python lies, that user may not look
    read, told = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            if os.geteuid() == 0:
                os.chown(folder, NOBODY, NOBODY)
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            os.chdir(folder)
            act(repository(folder / "repo"))
            status = 0
        except BaseException:  # noqa: BLE001 - whatever it is, the parent is to show it
            os.write(told, traceback.format_exc().encode()[-60000:])
        finally:
            sys.stdout.flush()
            os._exit(status)
    os.close(told)
    with os.fdopen(read) as said:
        text = said.read()
    _, status = os.waitpid(child, 0)
    subprocess.run(["rm", "-rf", folder], check=True)  # which no depth troubles
    assert status == 0, text


def deepen(folder: Path, levels: int) -> None:
    """Folders in each other, deeper than a path can say."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("deep", dir_fd=here)
        above, here = here, os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(above)
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def plain(work: Path) -> None:
    (work / "sub").chmod(0)


def whole(work: Path) -> None:
    work.chmod(0)


def record(work: Path) -> None:
    write(work, {".parley/outcome.json/x/y": "x"})
    (work / ".parley/outcome.json/x").chmod(0)
    (work / ".parley/outcome.json").chmod(0)
    (work / ".parley").chmod(0o500)


def unwritable(work: Path) -> None:
    write(work, {"sub/new": "new"})
    (work / "sub").chmod(0o500)


@pytest.mark.parametrize("shut", [plain, whole, record, unwritable])
def test_what_an_agent_shut_against_itself_is_opened_again(shut: Callable[[Path], None]) -> None:
    def act(place: UserRepository) -> None:
        work, child = place.prepare(), place.prepare(CHILD, ROOT)
        tree = place.turn(ROOT, {"f": "one"}).tree
        trees = place.trees
        for folder in (work, child):
            write(folder, {"f": "two"})
            shut(folder)
        assert (trees.read_outcome(JOB, ROOT) is None) == (shut is not record)
        kept = trees.snapshot(JOB, ROOT, "turn")
        assert kept.left_out == ()
        assert place.committed()["f"] == b"two"
        assert place.committed()["sub/b.txt"] == b"b\n"
        shut_again(shut, work)
        trees.clear_outcome(JOB, ROOT)
        assert trees.read_outcome(JOB, ROOT) is None
        shut_again(shut, work)
        assert Path(trees.prepare(JOB, ROOT, "").workspace) == work
        shut_again(shut, work)
        trees.restore(JOB, ROOT, tree, "lost")
        assert (work / "f").read_text() == "one"
        assert not (work / "sub/new").exists()
        trees.retire(JOB, CHILD)
        assert not child.exists()

    as_ordinary_user(act)


def shut_again(shut: Callable[[Path], None], work: Path) -> None:
    subprocess.run(["chmod", "-R", "u+rwx", work], check=True)
    shut(work)


def test_a_record_that_can_not_be_read_is_a_problem_and_no_error() -> None:
    def act(place: UserRepository) -> None:
        work = place.prepare()
        write(work, {".parley/outcome.json": '{"outcome": "APPROVED_PLAN", "reason": "x"}'})
        (work / ".parley/outcome.json").chmod(0)
        assert place.trees.read_outcome(JOB, ROOT) == Outcome(
            problem=".parley/outcome.json can't be read; let its owner read it"
        )
        place.trees.clear_outcome(JOB, ROOT)
        assert place.trees.read_outcome(JOB, ROOT) is None

    as_ordinary_user(act)


def test_a_conflict_is_not_settled_by_making_it_unreadable() -> None:
    def act(place: UserRepository) -> None:
        work = place.prepare()
        place.prepare(CHILD, ROOT)
        place.turn(CHILD, {"a.txt": "child\n"})
        place.turn(ROOT, {"a.txt": "parent\n"})
        place.trees.merge(JOB, CHILD, ROOT)
        (work / "a.txt").chmod(0)
        assert place.trees.unresolved(JOB, ROOT) == ["a.txt"]

    as_ordinary_user(act)


@pytest.mark.parametrize("levels", [300, 1200])
def test_folders_without_a_bottom_are_left_out_and_told(levels: int) -> None:
    def act(place: UserRepository) -> None:
        work, child = place.prepare(), place.prepare(CHILD, ROOT)
        tree = place.turn(ROOT, {}).tree
        for folder in (work, child):
            deepen(folder, levels)
        kept = place.turn(ROOT, {"f": "f"})
        assert any("folders deep" in line for line in kept.left_out)
        assert place.committed().keys() == {"a.txt", "sub/b.txt", "f"}
        write(work, {".parley/outcome.json/x": "x"})
        deepen(work / ".parley/outcome.json", levels)
        place.trees.clear_outcome(JOB, ROOT)
        assert place.trees.read_outcome(JOB, ROOT) is None
        place.trees.restore(JOB, ROOT, tree, "lost")
        assert not (work / "deep").exists()
        place.trees.retire(JOB, CHILD)
        assert not child.exists()

    as_ordinary_user(act)


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), BoundaryError("no"), RecursionError("too deep")]
)
def test_whatever_goes_wrong_is_one_line_of_the_workspaces(tmp_path: Path, error: Exception) -> None:
    def fail(path: Path) -> None:
        raise error

    place = repository(tmp_path / "repo")
    trees = JobWorkspaces(place.root / ".parley", place.root, hand_over=fail)

    with pytest.raises(WorkspaceError, match="the files of j1 can't be worked with") as raised:
        trees.prepare(JOB, ROOT, "")
    assert str(error) in str(raised.value)
    assert "\n" not in str(raised.value)
