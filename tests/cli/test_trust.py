"""What a repository's own parley.toml may ask for, and what waits for the user's word."""

import subprocess
from pathlib import Path

import pytest

from parley.faces.cli.desk import Place
from parley.faces.cli.start import own_notes, warn_of_notes
from parley.faces.cli.trust import widening
from tests.cli.home import APPROVES, LEADS, Home

HOSTS = '[boundary]\nhosts = ["example.org:443"]\n'


def git(home: Home, *words: str) -> None:
    who = ("-c", "user.name=u", "-c", "user.email=u@localhost")
    subprocess.run(["git", *who, *words], cwd=home.folder, check=True, capture_output=True)


@pytest.fixture
def cloned(home: Home, tmp_path: Path) -> Home:
    """A repository that brings its settings along."""
    home.environment["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    home.write("parley.toml", HOSTS)
    git(home, "init", "-q")
    git(home, "add", "parley.toml")
    git(home, "commit", "-qm", "one")
    return home


def play(home: Home) -> list[str]:
    return ["run", "x", "--playbook", home.write("p.yaml", APPROVES + LEADS)]


def test_what_came_with_a_clone_waits_for_the_users_word(cloned: Home) -> None:
    said = cloned.fails(*play(cloned))

    assert "parley.toml came with this repository and asks for [boundary] hosts" in said
    assert "`parley trust`" in said
    assert "asks for [boundary] hosts" in cloned.run("doctor").out


def test_the_word_is_about_the_very_content(cloned: Home) -> None:
    assert cloned.run("trust").out == "allowed: [boundary] hosts\n"
    assert cloned.run(*play(cloned)).code == 0

    cloned.write("parley.toml", f"{HOSTS}accept = 'none'\n")
    assert "asks for [boundary] accept, [boundary] hosts" in cloned.fails(*play(cloned))


def test_a_file_that_is_not_committed_is_the_users_own(home: Home) -> None:
    git(home, "init", "-q")
    home.write("parley.toml", HOSTS)

    assert home.run(*play(home)).code == 0


def test_a_program_that_a_repository_names_is_not_run_by_looking(cloned: Home) -> None:
    seen = cloned.folder / "seen"
    program = Path(cloned.write("claude", f"#!/bin/sh\ntouch {seen}\n"))
    program.chmod(0o755)
    cloned.write("parley.toml", f"[claude]\npath = '{program}'\n")
    git(cloned, "commit", "-qam", "two")
    cloned.environment["ANTHROPIC_API_KEY"] = "planted"

    assert "asks for [claude] path" in cloned.run("doctor").out
    assert "asks for [claude] path" in cloned.fails("run", "x")
    assert not seen.exists()


@pytest.mark.parametrize(
    "text, asked",
    [
        ("", []),
        ("[policy]\nplan = 'never'\n[limits]\nfan_out = 2\n[workspace]\nsetup = 'make'\n", []),
        ("[boundary]\nprocesses = 9\nexempt = []\n", ["[boundary] exempt"]),
        ("[agents.x]\ncommand = ['x']\n", ["[agents]"]),
        ("[workspace]\ncopy = ['.env']\n", ["[workspace] copy"]),
        ("[claude]\nsubscription = true\nmodel = 'm'\n", ["[claude] subscription"]),
        ("not toml", []),
    ],
)
def test_only_what_widens_has_to_be_allowed(text: str, asked: list[str]) -> None:
    assert widening(text.encode()) == asked


def test_notes_that_lead_outside_the_folder_are_told_to_nobody(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    home.folder.with_name("secret").write_text("the reader's own", encoding="utf-8")
    home.write("AGENTS.md", "Tabs.")
    notes, place = home.folder / "CLAUDE.md", Place(home.folder, home.folder / ".parley")

    for target, text, said in (("AGENTS.md", "Tabs.", ""), ("../secret", "", "parley: CLAUDE.md leads outside")):
        notes.unlink(missing_ok=True)
        notes.symlink_to(target)
        warn_of_notes(place)
        assert own_notes(home.folder) == text
        assert capsys.readouterr().err.startswith(said)


def test_settings_that_never_end_are_not_read(home: Home) -> None:
    (home.folder / "parley.toml").symlink_to("/dev/zero")

    assert "parley.toml: this is no ordinary file; remove it" in home.refuses(*play(home))
    assert "this is no ordinary file" in home.here("doctor").out
