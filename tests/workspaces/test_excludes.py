"""What builds leave: the user's own excludes, and caches, are never committed unless they are tracked."""

import os
from pathlib import Path

import pytest

from parley.workspaces.files.excludes import CACHES
from tests.workspaces.user_repository import CHILD, JOB, ROOT, UserRepository, read, repository, write

CACHED: dict[str, str | bytes] = {
    "__pycache__/a.cpython-311.pyc": b"\0",
    "pkg/__pycache__/b.pyc": b"\0",
    "loose.pyc": b"\0",
    ".pytest_cache/v/x": "x",
    ".mypy_cache/x": "x",
    ".ruff_cache/x": "x",
    ".hypothesis/x": "x",
    "web/node_modules/left-pad/index.js": "x",
    ".venv/bin/python": "x",
    "my.egg-info/PKG-INFO": "x",
    ".coverage": "x",
    ".DS_Store": "x",
}


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the user's, with nothing in it."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return home


def test_caches_are_not_committed_and_the_agent_is_told_nothing_of_them(place: UserRepository) -> None:
    place.prepare()
    kept = place.turn(ROOT, {**CACHED, "build/app.js": "made", "dist/app.whl": b"\0", "target/x": "x", "new.py": "x"})

    assert set(place.committed()) == {"a.txt", "sub/b.txt", "build/app.js", "dist/app.whl", "target/x", "new.py"}
    assert kept.left_out == ()
    assert set(CACHED) < set(read(place.trees.path(JOB, ROOT)))


def test_a_cache_that_is_tracked_is_committed_when_it_changes(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo", {"node_modules/kept/index.js": "one", "a.pyc": b"\0one"})
    place.prepare()
    place.turn(ROOT, {"node_modules/kept/index.js": "two", "node_modules/new/index.js": "x", "a.pyc": b"\0two"})

    assert place.committed() == {"node_modules/kept/index.js": b"two", "a.pyc": b"\0two"}


def test_a_gitignore_takes_a_cache_back_in(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo", {".gitignore": "!.coverage\n!node_modules/\n"})
    place.prepare()
    place.turn(ROOT, {".coverage": "x", "node_modules/a.js": "x", "b.pyc": b"\0"})

    assert set(place.committed()) == {".gitignore", ".coverage", "node_modules/a.js"}


def test_the_file_that_the_users_settings_name_is_honoured(place: UserRepository, user: Path) -> None:
    write(user, {".gitconfig": "[core]\n\texcludesFile = ~/ignored\n", "ignored": "*.swp\n/.idea/\n"})
    place.prepare()
    write(user, {"ignored": "new.py\n"})  # what a job ignores is what was ignored when it began
    place.again()
    place.turn(ROOT, {".a.swp": "x", ".idea/x.xml": "x", "new.py": "x"})

    assert set(place.committed()) == {"a.txt", "sub/b.txt", "new.py"}


def test_gits_own_place_for_the_users_excludes_is_honoured(
    place: UserRepository, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(user, {".config/git/ignore": "*.one\n", "elsewhere/git/ignore": "*.two\n"})
    place.prepare()
    place.turn(ROOT, {"a.one": "x", "a.two": "x"})
    assert set(place.committed()) == {"a.txt", "sub/b.txt", "a.two"}

    monkeypatch.setenv("XDG_CONFIG_HOME", str(user / "elsewhere"))
    other = repository(user / "other")
    other.prepare()
    other.turn(ROOT, {"a.one": "x", "a.two": "x"})
    assert set(other.committed()) == {"a.txt", "sub/b.txt", "a.one"}


def test_the_repositorys_own_excludes_go_before_the_users(place: UserRepository, user: Path) -> None:
    write(user, {".config/git/ignore": "*.log\n"})
    (place.root / ".git/info/exclude").write_text("/.parley/\n!keep.log\n")
    try:
        place.prepare()
        place.turn(ROOT, {"keep.log": "x", "other.log": "x"})
    finally:
        (place.root / ".git/info/exclude").write_text("/.parley/\n")

    assert set(place.committed()) == {"a.txt", "sub/b.txt", "keep.log"}


def test_a_folder_without_a_repository_honours_them_too(tmp_path: Path, user: Path) -> None:
    write(user, {".config/git/ignore": "*.log\n"})
    (tmp_path / "plain").mkdir()
    place = UserRepository(tmp_path / "plain")
    place.prepare()
    place.turn(ROOT, {"a.log": "x", "__pycache__/a.pyc": b"\0", "a.py": "x"})

    assert set(place.committed()) == {"a.py"}


def test_what_a_child_leaves_of_caches_does_not_come_up(place: UserRepository) -> None:
    place.prepare()
    place.prepare(CHILD, ROOT)
    place.turn(CHILD, {**CACHED, "new.py": "x"})

    merged = place.trees.merge(JOB, CHILD, ROOT)

    assert (merged.paths, merged.left_out) == (("new.py",), ())


def test_files_that_the_user_ignores_are_not_told_as_uncommitted(place: UserRepository, user: Path) -> None:
    write(user, {".config/git/ignore": "*.log\n"})
    write(place.root, {"a.log": "x", "b.txt": "x"})
    try:
        assert place.trees.uncommitted() == ["b.txt"]
    finally:
        for name in ("a.log", "b.txt"):
            (place.root / name).unlink()


@pytest.mark.parametrize("made", ["folder", "pipe", "missing", "huge"])
def test_excludes_that_can_not_be_read_are_none(place: UserRepository, user: Path, made: str) -> None:
    there = user / "ignored"
    write(user, {".gitconfig": "[core]\n\texcludesFile = ~/ignored\n"})
    if made == "folder":
        there.mkdir()
    elif made == "pipe":
        os.mkfifo(there)
    elif made == "huge":
        there.write_bytes(b"*.txt\n" * 200_000)
    place.prepare()
    place.turn(ROOT, {"new.txt": "x"})

    assert "new.txt" in place.committed()


def test_the_agents_own_git_ignores_the_same(place: UserRepository, user: Path) -> None:
    write(user, {".config/git/ignore": "*.log\n"})
    place.prepare()

    ignored = (place.trees.repository(JOB).folder / "gitdirs/job.git/info/exclude").read_text().splitlines()

    assert {*CACHES, "*.log", "/.parley/"} <= set(ignored)


def test_no_pattern_stands_for_what_an_agent_would_deliver() -> None:
    assert not {"build/", "dist/", "target/", "bin/", "out/", "lib/", "vendor/", "venv/"} & set(CACHES)
