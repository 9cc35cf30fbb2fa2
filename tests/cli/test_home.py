"""The home in a repository: never committed, not seen, and spared by `git clean -fdx`."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.home import Home


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def repository(home: Home) -> Home:
    git(home.folder, "init", "-q")
    home.write("a.txt", "a")
    home.write("sub/b.txt", "b")
    git(home.folder, "add", "-A")
    git(home.folder, "commit", "-qm", "first")
    return home


def untouched(home: Home) -> list[bytes]:
    paths = [home.folder / ".git/config", home.folder / ".git/index", *sorted((home.folder / ".git/hooks").iterdir())]
    return [path.read_bytes() for path in paths]


def test_git_does_not_see_the_home_and_does_not_clean_it_away(repository: Home) -> None:
    playbook = repository.write("../p.yaml", "agents: {}")
    git(repository.folder, "status")  # refreshes its index by itself
    before = untouched(repository)
    done = repository.run("run", "x", "--playbook", playbook, "--policy", "never", cwd=repository.folder / "sub")
    assert done.code == 1
    assert untouched(repository) == before

    assert git(repository.folder, "status", "--porcelain") == ""
    git(repository.folder, "add", "-A")
    assert git(repository.folder, "status", "--porcelain") == ""
    git(repository.folder, "clean", "-fdx")
    git(repository.folder, "stash", "--include-untracked")
    assert [job["state"] for job in repository.jobs()] == ["FAILURE"]
    assert repository.here("audit", repository.jobs()[0]["id"]).code == 0


def test_a_second_work_tree_has_a_home_of_its_own(repository: Home) -> None:
    git(repository.folder, "worktree", "add", "-q", "../other")
    other = Home(repository.folder.parent / "other")
    job = other.start()

    git(other.folder, "add", "-A")
    git(other.folder, "clean", "-fdx")

    assert [found["id"] for found in other.jobs()] == [job]
    assert ".parley" not in git(other.folder, "status", "--porcelain")
    assert repository.jobs() == []


def test_a_folder_that_becomes_a_repository_later(home: Home) -> None:
    job = home.start()
    git(home.folder, "init", "-q")
    git(home.folder, "add", "-A")
    assert ".parley" not in git(home.folder, "status", "--porcelain")

    home.here("inbox")  # any command that opens the bus
    git(home.folder, "clean", "-fdx")

    assert [found["id"] for found in home.jobs()] == [job]


def test_from_within_the_home_it_is_the_same_place(repository: Home) -> None:
    job = repository.start()

    inside = Home(repository.job_file(job, "work"))

    assert [found["id"] for found in inside.jobs()] == [job]
