"""Noticing by files' stamps alone that another commit is checked out, or that a result was delivered."""

import os
from pathlib import Path

import pytest

from parley.machine.checkout_watch import MOST_JOBS, CheckoutWatch
from tests.workspaces.user_repository import git


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with one commit on a branch whose name has a slash, and another branch."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "topic/one")
    git(folder, "config", "user.name", "Someone")
    git(folder, "config", "user.email", "someone@example.org")
    git(folder, "config", "core.logAllRefUpdates", "false")  # a reflog would tell of everything
    commit(folder)
    git(folder, "branch", "side")
    return folder


def commit(folder: Path) -> None:
    """One commit more."""
    git(folder, "commit", "-q", "--allow-empty", "-m", "more")


def watching(tree: Path) -> CheckoutWatch:
    """A watch that has looked once."""
    made = CheckoutWatch(tree, lambda job: tree.parent / job)
    assert made.version() == made.version() == 0
    return made


@pytest.mark.parametrize(
    "words",
    [
        ("commit", "-q", "--allow-empty", "-m", "more"),
        ("reset", "-q", "--hard", "HEAD~1"),
        ("checkout", "-q", "--detach"),
        ("checkout", "-q", "side"),
        ("update-ref", "refs/heads/topic/one", "side"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_another_commit_is_noticed(tree: Path, words: tuple[str, ...], packed: bool) -> None:
    commit(tree)
    if packed:
        git(tree, "pack-refs", "--all")
    seen = watching(tree)

    git(tree, *words)

    assert seen.version() == 1
    assert seen.version() == 1


def test_a_linked_work_tree_has_a_head_of_its_own_and_shares_the_branches(tree: Path) -> None:
    linked = tree.parent / "linked"
    git(tree, "worktree", "add", "-q", str(linked), "side")
    seen = watching(linked)

    commit(tree)
    assert seen.version() == 0
    commit(linked)
    assert seen.version() == 1


def test_a_change_of_a_reftable_is_noticed(tree: Path) -> None:
    seen = watching(tree)
    (tree / ".git/reftable").mkdir()

    (tree / ".git/reftable/tables.list").write_text("one\n", encoding="ascii")

    assert seen.version() == 1


def test_a_delivered_result_is_noticed_from_the_first_look_at_it_on(tree: Path) -> None:
    seen = watching(tree)
    (tree.parent / "j1").mkdir()
    seen.follow("j1")
    assert seen.version() == 0

    (tree.parent / "j1/delivered").touch()
    assert seen.version() == 1
    for number in range(MOST_JOBS + 5):
        seen.follow(f"other-{number}")
    assert seen.version() == 1


@pytest.mark.parametrize("made", ["nothing", "plain", "bare file", "pipe", "gone"])
def test_what_is_no_repository_stays_the_same(tmp_path: Path, made: str) -> None:
    folder = tmp_path / "folder"
    if made != "gone":
        folder.mkdir()
    if made == "plain":
        (folder / ".git").mkdir()
        (folder / ".git/HEAD").write_bytes(b"ref: refs/\0/../../..\n")
    if made == "bare file":
        (folder / ".git").write_text("gitdir: nowhere\n", encoding="ascii")
    if made == "pipe":
        (folder / ".git").mkdir()
        os.mkfifo(folder / ".git/HEAD")
    watching(folder)
