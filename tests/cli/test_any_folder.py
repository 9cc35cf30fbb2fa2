"""A user's repository may lie anywhere: a whole job on odd paths, from `run` to `gc`."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.home import Home

HELLO = Path(__file__).parents[2] / "examples" / "hello.yaml"
ODD = ("with space", "new\nline", "quo\"te'", "back\\slash", "a:b,c", "100%s#", "-dash", "ünï", "proc", "dev", ".gitx")


def _odd(top: Path) -> Path:
    return top.joinpath(*ODD)


def _deep(top: Path) -> Path:
    return top.joinpath(*["level"] * 200)


def _no_text(top: Path) -> Path:
    return top / os.fsdecode(b"n\xff\xfeu")


def _behind_a_link(top: Path) -> Path:
    (top / "real").mkdir()
    (top / "link").symlink_to("real")
    return top / "link" / "repository"


def _git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=u", "-c", "user.email=u@example.org")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize("place", [_odd, _deep, _no_text, _behind_a_link])
def test_a_whole_job_runs_on_an_odd_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Callable[[Path], Path]
) -> None:
    home = Home(place(tmp_path), {"PARLEY_MEMORY": str(tmp_path / "memory.db")})
    monkeypatch.setenv("PARLEY_MEMORY", home.environment["PARLEY_MEMORY"])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    home.folder.mkdir(parents=True)
    _git(home.folder, "init", "-q", "-b", "main")
    (home.folder / "README.md").write_text("x\n", encoding="utf-8")
    _git(home.folder, "add", "-A")
    _git(home.folder, "commit", "-qm", "first")

    done = home.run("run", "a request", "--playbook", str(HELLO), "--json")
    assert done.code == 0, done
    job = str(done.document["id"])

    for command in ("show", "log", "tree", "diff", "audit"):
        assert home.here(command, job).code == 0, command
    assert home.run("merge", job).code == 0
    assert (home.folder / "hello.sh").read_text("utf-8") == "echo hello\n"
    assert home.here("export", job, "-o", str(tmp_path / "x.jsonl")).code == 0
    assert home.here("ls").code == home.here("gc", "--older", "0d").code == 0


def test_a_home_that_no_bus_can_lie_in_is_refused_before_a_job_is_made(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLEY_HOME", "/".join([str(home.folder), *["level"] * 100]))
    assert "must be UTF-8 and have 400 bytes at most" in home.refuses("run", "a request")
    monkeypatch.setenv("PARLEY_HOME", os.fsdecode(os.fsencode(home.folder) + b"/\xff"))
    assert "must be UTF-8" in home.refuses("ls")


def test_a_folder_whose_path_no_program_can_open_is_refused(home: Home) -> None:
    assert "has more than 4095 bytes" in home.refuses("ls", "--repo", "/".join([str(home.folder), *["level"] * 800]))
