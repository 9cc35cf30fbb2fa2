"""The protocol's own files in a workspace that an agent has done its worst to."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.ports.workspaces import Scope, WorkspaceError
from tests.workspaces.test_unreadable import as_ordinary_user
from tests.workspaces.user_repository import CHILD, JOB, OTHER, ROOT, UserRepository, repository, write

STATUS = "orchestration/shared_status.json"
NOTHING = Scope(lambda path: "it is not yours")


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> UserRepository:
    files: dict[str, str | bytes] = {"a.txt": "a\n", ".gitignore": "orchestration/\n*.log\n"}
    made = repository(tmp_path_factory.mktemp("papers") / "user", files)
    made.prepare()
    return made


@pytest.fixture
def place(user: UserRepository) -> Iterator[UserRepository]:
    """The same repository for all, with a fresh workspace of the child's."""
    user.prepare(CHILD, ROOT)
    yield user
    user.trees.restore(JOB, CHILD, "", "test")


def test_what_is_written_is_there_is_committed_alone_and_is_nobodys_change(place: UserRepository) -> None:
    folder = place.trees.path(JOB, CHILD)
    (folder / "mine").write_text("under way")
    place.trees.write(JOB, CHILD, {STATUS: "{}\n", "orchestration/gone": "x"})
    place.trees.write(JOB, CHILD, {"orchestration/gone": None})
    assert place.trees.read(JOB, CHILD, STATUS) == "{}\n"
    assert sorted(place.committed(CHILD)) == [".gitignore", "a.txt", STATUS]
    kept = place.trees.snapshot(JOB, CHILD, "turn", Scope(lambda path: "" if path == "mine" else "no"))
    assert kept.left_out == ()
    assert sorted(place.committed(CHILD)) == [".gitignore", "a.txt", "mine", STATUS]


def test_writing_the_same_again_makes_no_commit_but_what_was_changed_meanwhile_comes_back(
    place: UserRepository,
) -> None:
    place.trees.write(JOB, CHILD, {STATUS: "{}\n"})
    tip = place.trees.tree(JOB, CHILD).tip
    place.trees.write(JOB, CHILD, {STATUS: "{}\n"})
    (place.trees.path(JOB, CHILD) / STATUS).write_text("forged")
    place.trees.write(JOB, CHILD, {STATUS: "{}\n"})
    assert place.trees.read(JOB, CHILD, STATUS) == "{}\n"
    assert place.trees.tree(JOB, CHILD).tip == tip


def test_a_write_that_a_crash_cut_off_before_its_commit_is_committed_by_the_next(place: UserRepository) -> None:
    folder = place.trees.path(JOB, CHILD)
    (folder / "orchestration").mkdir()
    (folder / STATUS).write_text("{}\n")
    place.trees.write(JOB, CHILD, {STATUS: "{}\n"})
    assert place.committed(CHILD)[STATUS] == b"{}\n"


def test_what_was_written_goes_back_along_with_a_tree_that_is_restored(place: UserRepository) -> None:
    place.trees.write(JOB, CHILD, {STATUS: "1"})
    before = place.turn(CHILD, {"mine": "1"}).tree
    place.trees.write(JOB, CHILD, {STATUS: "2"})
    place.trees.restore(JOB, CHILD, before, "t9")
    assert place.trees.read(JOB, CHILD, STATUS) == "1"
    place.trees.write(JOB, CHILD, {STATUS: "2"})
    assert place.committed(CHILD)[STATUS] == b"2"


@pytest.mark.parametrize("trap", ["link to a folder", "link to a file", "folder", "fifo"])
def test_nothing_is_written_or_read_through_what_an_agent_put_in_the_way(
    place: UserRepository, tmp_path: Path, trap: str
) -> None:
    folder, outside = place.trees.path(JOB, CHILD), tmp_path / "outside"
    outside.mkdir()
    (outside / "shared_status.json").write_text("secret")
    if trap == "link to a folder":
        (folder / "orchestration").symlink_to(outside)
    else:
        (folder / "orchestration").mkdir()
        there = folder / STATUS
        if trap == "folder":
            (there / "deep").mkdir(parents=True)
        elif trap == "fifo":
            os.mkfifo(there)
        else:
            there.symlink_to(outside / "shared_status.json")
    assert place.trees.read(JOB, CHILD, STATUS) is None
    assert place.trees.listing(JOB, CHILD, "orchestration") == ()
    place.trees.write(JOB, CHILD, {STATUS: "{}"})
    assert place.trees.read(JOB, CHILD, STATUS) == "{}"
    assert (outside / "shared_status.json").read_text() == "secret"
    place.trees.write(JOB, CHILD, {STATUS: None})
    assert not os.path.lexists(folder / STATUS)


def test_a_path_that_leads_elsewhere_is_refused(place: UserRepository) -> None:
    for path in (
        "../a",
        "/etc/passwd",
        "a/../../b",
        "",
        "orchestration//x",
        ".git/x",
        "x/.GIT/hooks",
        ".parley/o",
        "a\0",
    ):
        assert place.trees.read(JOB, CHILD, path) is None
        with pytest.raises(WorkspaceError):
            place.trees.write(JOB, CHILD, {path: "x"})


def test_a_folder_that_leads_elsewhere_has_nothing_in_it(place: UserRepository) -> None:
    for folder in ("..", "/etc", "orchestration/..", "none"):
        assert place.trees.listing(JOB, CHILD, folder) == ()


def test_what_is_too_large_is_not_read_and_what_is_no_text_is_read_as_far_as_it_is(place: UserRepository) -> None:
    folder = place.trees.path(JOB, CHILD)
    (folder / "large").write_text("x" * 101)
    (folder / "odd").write_bytes(b"\xff{}")
    assert place.trees.read(JOB, CHILD, "large", 100) is None
    assert place.trees.read(JOB, CHILD, "large", 101) == "x" * 101
    assert place.trees.read(JOB, CHILD, "odd") == "\ufffd{}"


def test_where_there_is_no_workspace_nothing_is_read_and_nothing_happens(place: UserRepository) -> None:
    place.trees.write(JOB, OTHER, {STATUS: "{}"})
    assert place.trees.read(JOB, OTHER, STATUS) is None
    assert place.trees.listing(JOB, OTHER, "orchestration") == ()
    assert not place.trees.path(JOB, OTHER).exists()


def test_the_files_below_a_folder_are_listed_from_the_trees_root(place: UserRepository) -> None:
    place.trees.write(JOB, CHILD, {f"orchestration/{name}": "" for name in ("b", "a/2", "a/10")})
    assert place.trees.listing(JOB, CHILD, "orchestration/a") == ("orchestration/a/10", "orchestration/a/2")
    assert place.trees.listing(JOB, CHILD, "")[:2] == (".git", ".gitignore")
    (place.trees.path(JOB, CHILD) / "orchestration/link").symlink_to("b")
    assert len(place.trees.listing(JOB, CHILD, "orchestration")) == 3


def test_what_a_worker_has_shut_against_itself_is_read_and_written_all_the_same() -> None:
    def act(place: UserRepository) -> None:
        work, inner = place.prepare(), "orchestration/agents/web/task_output/page"
        write(work, {inner: "page", "sub/b.txt": "mine"})
        for folder in ("orchestration/agents/web", "orchestration", "sub", "."):
            (work / folder).chmod(0)
        assert place.trees.listing(JOB, ROOT, "orchestration") == (inner,)
        assert place.trees.read(JOB, ROOT, inner) == "page"
        for folder in ("orchestration/agents/web", "orchestration", "."):
            (work / folder).chmod(0)
        place.trees.write(JOB, ROOT, {STATUS: "{}", inner: "page"})
        assert place.trees.read(JOB, ROOT, STATUS) == "{}"
        assert place.trees.snapshot(JOB, ROOT, "turn", NOTHING).left_out
        assert place.committed()["sub/b.txt"] == b"b\n"

    as_ordinary_user(act)
