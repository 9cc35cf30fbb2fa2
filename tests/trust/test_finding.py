"""The repository that a folder belongs to is the one that git finds, whatever lies around."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.cli.common import hide_home_from_git, place_of
from parley.cli.machine.readiness import repository
from parley.machine.discovery import NoWorkTree, find_work_tree

_TEMPLATE = tempfile.TemporaryDirectory(prefix="parley-finding-")
TREE = Path(_TEMPLATE.name) / "tree"
IDENTITY = ("-c", "user.name=u", "-c", "user.email=u@localhost")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *IDENTITY, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.rstrip("\n")


def asked_of_git(folder: Path) -> Path | None:
    done = subprocess.run(
        ["git", "rev-parse", "--show-toplevel"], cwd=folder, capture_output=True, text=True, check=False
    )
    return Path(done.stdout.rstrip("\n")) if done.returncode == 0 else None


def found_here(folder: Path) -> Path | None:
    try:
        return find_work_tree(folder)
    except NoWorkTree:
        return None


@pytest.fixture(scope="module", autouse=True)
def template() -> None:
    git(Path(_TEMPLATE.name), "init", "-q", str(TREE))
    git(TREE, "commit", "-q", "--allow-empty", "-m", "one")


def repository_in(here: Path, head: str = "") -> None:
    shutil.copytree(TREE / ".git", here / ".git")
    if head:
        (here / ".git/HEAD").write_text(head)


def worktree_in(here: Path) -> None:
    shutil.copytree(TREE, here / "main")
    git(here / "main", "worktree", "add", "-q", "--detach", str(here / "linked"))
    (here / "linked/.git").rename(here / ".git")
    (here / "main/.git/worktrees/linked/gitdir").write_text(f"{here}/.git\n")


def named_elsewhere(here: Path) -> None:
    shutil.copytree(TREE / ".git", here / "kept.git")
    (here / ".git").write_text("gitdir: kept.git\n")


def without_head(here: Path) -> None:
    for name in ("objects", "refs"):
        (here / ".git" / name).mkdir(parents=True)


def linked_head(here: Path) -> None:
    repository_in(here)
    (here / ".git/HEAD").unlink()
    (here / ".git/HEAD").symlink_to("refs/heads/none")


def without_refs(here: Path) -> None:
    repository_in(here)
    shutil.rmtree(here / ".git/refs")


# What makes a folder a repository, and what only looks as if it did.
KINDS: dict[str, Callable[[Path], object]] = {
    "nothing": lambda here: None,
    "repository": repository_in,
    "bare": lambda here: shutil.copytree(TREE / ".git", here, dirs_exist_ok=True),
    "worktree": worktree_in,
    "named elsewhere": named_elsewhere,
    "bus": lambda here: (here / "bus.db").write_bytes(b"SQLite format 3\0"),
    "empty folder": lambda here: (here / ".git").mkdir(),
    "empty file": lambda here: (here / ".git").touch(),
    "names nothing": lambda here: (here / ".git").write_text("gitdir: /nowhere\n"),
    "no gitfile": lambda here: (here / ".git").write_text("gitdir:main\n"),
    "no HEAD": without_head,
    "odd HEAD": lambda here: repository_in(here, "ref: elsewhere\n"),
    "loose HEAD": lambda here: repository_in(here, git(TREE, "rev-parse", "HEAD")),
    "linked HEAD": linked_head,
    "link": lambda here: (here / ".git").symlink_to(TREE / ".git"),
    "dangling link": lambda here: (here / ".git").symlink_to("/nowhere"),
    "no refs": without_refs,
}
level = st.one_of(
    st.sampled_from(sorted(KINDS)).map(lambda kind: (kind,)),
    st.sampled_from(sorted(KINDS)).filter(lambda kind: kind != "bus").map(lambda kind: (kind, "bus")),
)


@settings(max_examples=80)
@given(st.lists(level, min_size=1, max_size=4))
def test_a_repository_inside_another_is_found_as_git_finds_it(levels: list[tuple[str, ...]]) -> None:
    with tempfile.TemporaryDirectory(prefix="parley-finding-") as top:
        here = Path(os.path.realpath(top))
        for number, kinds in enumerate(levels):
            for kind in kinds:
                KINDS[kind](here)
            assert found_here(here) == asked_of_git(here), (levels[: number + 1], here)
            here /= f"level {number}"
            here.mkdir()
        assert found_here(here) == asked_of_git(here), levels


def test_a_submodule_is_a_repository_of_its_own(tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    git(tmp_path, "init", "-q", str(outer))
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(TREE), "inner")
    (outer / "inner/deep").mkdir()

    for folder in (outer, outer / "inner", outer / "inner/deep"):
        assert place_of(str(folder)).root == asked_of_git(folder)


@pytest.mark.parametrize("ceiling", ["", "/", "{top}", "{top}/a", "{top}/a/b", "{top}/link", ":{top}/link", "a:{top}"])
def test_git_s_ceilings_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ceiling: str) -> None:
    top = Path(os.path.realpath(tmp_path))
    git(top, "init", "-q", "a")
    (top / "a/b/c").mkdir(parents=True)
    (top / "link").symlink_to(top / "a")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", ceiling.format(top=top))

    assert found_here(top / "a/b/c") == asked_of_git(top / "a/b/c")


@pytest.mark.parametrize("name", [".git", ".git/HEAD", ".git/commondir"])
def test_a_pipe_holds_nothing_up(tmp_path: Path, name: str) -> None:
    git(tmp_path, "init", "-q", "outer")
    inner = tmp_path / "outer/inner"
    (inner / name).parent.mkdir(parents=True)
    os.mkfifo(inner / name)

    assert place_of(str(inner)).root == tmp_path / "outer"


def test_a_git_of_the_work_tree_is_not_asked_where_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q", "outer")
    git(tmp_path / "outer", "config", "extensions.worktreeConfig", "true")  # so that git has to be asked
    (tmp_path / "outer/bin").mkdir()
    program = tmp_path / "outer/bin/git"
    program.write_text(f"#!/bin/sh\necho >> {tmp_path}/ran\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/outer/bin:{os.environ['PATH']}")

    assert place_of(str(tmp_path / "outer/bin")).root == tmp_path / "outer"
    assert not (tmp_path / "ran").exists()


def test_a_bus_beside_a_repository_says_nothing(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "outer")
    outer = tmp_path / "outer"
    for folder in (outer, outer / "src"):
        folder.mkdir(exist_ok=True)
        (folder / "bus.db").write_bytes(b"")
        assert place_of(str(folder)).root == outer
    (outer / "src/.parley").mkdir()
    (outer / "src/.parley/bus.db").write_bytes(b"")
    assert place_of(str(outer / "src")).root == outer


def test_homes_are_no_repositories_and_only_the_user_s_list_or_their_place_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer = tmp_path / "outer"
    git(tmp_path, "init", "-q", "outer")
    usual, named, stranger = outer / ".parley", outer / "deep/state", outer / "deep/other"
    for home in (usual, named, stranger):
        (home / "jobs/j/work").mkdir(parents=True)
        (home / "jobs/j/work/.git").touch()
        hide_home_from_git(home)
        assert asked_of_git(home / "jobs") == home, "it looks like a repository"
    state = tmp_path / "state/parley/homes"
    state.parent.mkdir(parents=True)
    entries = [{"root": str(outer), "home": str(named)}, {"root": str(outer), "home": str(outer)}]
    state.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries) + "[[[\n7\n")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    for home in (usual, named):
        for folder in (home, home / "jobs", home / "jobs/j/work"):
            assert place_of(str(folder)).root == outer
    assert place_of(str(stranger / "jobs")).root == stranger


def test_where_git_finds_no_work_tree_a_line_says_so(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare")
    git(tmp_path, "init", "-q", "plain")
    (tmp_path / "plain/broken").mkdir()
    (tmp_path / "plain/broken/.git").write_text("gitdir: /nowhere\n")

    for folder, said in (
        ("bare", "is a repository without a work tree"),
        ("bare/refs", "is a repository without a work tree"),
        ("plain/.git", "is a repository without a work tree"),
        ("plain/broken", "names no repository; see what `git status` says there"),
    ):
        check = repository(place_of(str(tmp_path / folder)))
        assert not check.ok
        assert said in check.found


@pytest.mark.parametrize("named", ["..", "/", "inner", ""])
def test_a_work_tree_that_lies_elsewhere_is_refused_in_one_line(tmp_path: Path, named: str) -> None:
    git(tmp_path, "init", "-q", "plain")
    (tmp_path / "plain/inner").mkdir()
    git(tmp_path, "config", "--file", "plain/.git/config", "core.worktree", "../.." if named == ".." else named)

    for folder in ("plain", "plain/inner"):
        check = repository(place_of(str(tmp_path / folder)))
        assert not check.ok
        assert "says that its work tree is elsewhere (core.worktree)" in check.found
        assert "\n" not in check.found


def test_a_work_tree_that_is_named_and_is_where_it_was_found_is_as_good(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "plain")
    git(tmp_path / "plain", "commit", "-q", "--allow-empty", "-m", "one")
    git(tmp_path / "plain", "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    git(tmp_path / "plain", "config", "core.worktree", "../../plain")

    for folder in (tmp_path / "plain", tmp_path / "linked"):
        assert found_here(folder) == asked_of_git(folder) == folder

    shared, own = tmp_path / "plain/.git/config", tmp_path / "plain/.git/worktrees/linked/config.worktree"
    git(tmp_path, "config", "--file", str(shared), "extensions.worktreeConfig", "true")
    git(tmp_path, "config", "--file", str(own), "core.worktree", str(tmp_path))
    assert asked_of_git(tmp_path / "linked") == tmp_path
    assert found_here(tmp_path / "linked") is None


LOOKS = """
import os, sys
from parley.cli import CommandError
from parley.cli.common import place_of
os.setgid(1234)
os.setuid(1234)
try:
    print(place_of(sys.argv[1]).root)
except CommandError as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_s_repository_is_left_alone_as_git_leaves_it() -> None:
    with tempfile.TemporaryDirectory(prefix="parley-finding-") as top:
        Path(top).chmod(0o755)
        theirs, mine = Path(top, "theirs"), Path(top, "mine")
        for folder in (theirs, mine):
            git(Path(top), "init", "-q", str(folder))
        for here in (mine, *mine.rglob("*")):
            os.chown(here, 1234, 1234)
        said = [
            subprocess.run(
                [sys.executable, "-c", LOOKS, str(folder)],
                capture_output=True,
                text=True,
                check=True,
                env={**os.environ, "HOME": "/nowhere"},
            ).stdout
            for folder in (theirs, mine)
        ]

    assert "belongs to another user, and git leaves it alone" in said[0]
    assert said[1] == f"{os.path.realpath(top)}/mine\n"
