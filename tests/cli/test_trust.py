"""What a repository's own parley.toml may ask for, and what waits for the user's word."""

import subprocess
from pathlib import Path

import pytest

from parley.faces.cli.desk import Place
from parley.faces.cli.start import own_notes, warn_of_notes
from parley.faces.cli.trust import unallowed, widening
from tests.cli.home import APPROVES, LEADS, PARLEY, Home
from tests.cli.terminal import terminal

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
    assert cloned.run("trust", "--yes").out.endswith("allowed: [boundary] hosts\n")
    assert cloned.run(*play(cloned)).code == 0
    assert "asks for this, which you have allowed:" in cloned.run("trust").out

    cloned.write("parley.toml", f"{HOSTS}accept = 'none'\n")
    assert "asks for [boundary] accept, [boundary] hosts" in cloned.fails(*play(cloned))


def test_the_values_are_shown_beside_those_that_were_allowed_before(cloned: Home) -> None:
    asked = cloned.run("trust")
    assert asked.code == 4
    assert '\n  [boundary] hosts = ["example.org:443"]\n' in asked.out
    assert "nothing is allowed yet" in asked.err
    assert "parley trust --yes" in asked.err
    assert "asks for [boundary] hosts" in cloned.fails(*play(cloned))
    cloned.run("trust", "--yes")

    cloned.write("parley.toml", "[boundary]\nhosts = ['other.example:443']\nreadable = ['/opt']\n")
    said = cloned.run("trust").out

    assert '\n  [boundary] readable = ["/opt"]  (new)\n' in said
    assert '\n  [boundary] hosts = ["other.example:443"]  (before: ["example.org:443"])\n' in said
    cloned.write("parley.toml", "[boundary]\nreadable = ['/opt']\n")
    assert '[boundary] hosts: not asked for any more  (before: ["example.org:443"])' in cloned.run("trust").out


@pytest.mark.parametrize("answer, allowed", [("y", True), ("", False), ("maybe", False)])
def test_on_a_terminal_the_user_is_asked(cloned: Home, answer: str, allowed: bool) -> None:
    with terminal([str(PARLEY), "trust"], cloned.folder, cloned.env()) as screen:
        screen.wait_for('[boundary] hosts = ["example.org:443"]')
        screen.wait_for("Allow this? [y/N]")
        screen.type(f"{answer}\n")
        assert screen.end() == (0 if allowed else 4)

    assert (cloned.run(*play(cloned)).code == 0) == allowed


def test_a_repository_may_spend_less_than_the_user_and_not_more(cloned: Home, tmp_path: Path) -> None:
    def asked(budget: str) -> list[str]:
        cloned.write("parley.toml", f"[budget.job]\n{budget}\n")
        return unallowed(Place(cloned.folder, cloned.folder / ".parley"))

    own = tmp_path / "config/parley/parley.toml"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        assert asked("turns = 20\nmoney = 20") == []
        assert asked("turns = 201") == ["[budget.job] turns"]
        assert asked("turns = 'none'\nmoney = 20.5") == ["[budget.job] turns", "[budget.job] money"]
        own.parent.mkdir(parents=True)
        own.write_text("[budget.job]\nturns = 500\nmoney = 'none'\n", encoding="utf-8")
        assert asked("turns = 201\nmoney = 1000") == []
        assert asked("turns = 501") == ["[budget.job] turns"]


def test_a_value_can_not_pass_for_another_line(home: Home) -> None:
    wishes = widening(b'[agents."x\\nok: [y]"]\ncommand = ["a\\nb", "\\u202e\\u001b[2J"]\n')

    assert [str(wish) for wish in wishes] == ['[agents.x?ok: [y]] command = ["a\\nb", "?\\u001b[2J"]']


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
        ("[agents.x]\ncommand = ['x']\n", ["[agents.x] command"]),
        ("[budget.job]\nturns = 10\n", []),
        ("[workspace]\ncopy = ['.env']\n", ["[workspace] copy"]),
        ("[claude]\nsubscription = true\nmodel = 'm'\n", ["[claude] subscription"]),
        ("not toml", []),
    ],
)
def test_only_what_widens_has_to_be_allowed(text: str, asked: list[str]) -> None:
    assert [wish.name for wish in widening(text.encode())] == asked


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
