"""What a repository's own parley.toml may ask for, and what waits for the user's word."""

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from parley.cli.common import Workplace
from parley.cli.machine.notify import notices_of
from parley.cli.machine.trust import unallowed
from parley.cli.starting.run import own_notes, warn_of_notes
from parley.engine.world import NoNotices
from parley.features.notices import NoticeSender
from parley.settings.schema import Settings
from tests.cli.home import APPROVES, LEADS, PARLEY, Home
from tests.cli.terminal import terminal

HOSTS = '[boundary]\nhosts = ["example.org:443"]\n'


def git(home: Home, *words: str) -> None:
    who = ("-c", "user.name=u", "-c", "user.email=u@localhost")
    subprocess.run(["git", *who, *words], cwd=home.folder, check=True, capture_output=True)


@pytest.fixture
def cloned(home: Home) -> Home:
    """A repository that brings its settings along."""
    home.write("parley.toml", HOSTS)
    git(home, "init", "-q")
    git(home, "add", "parley.toml")
    git(home, "commit", "-qm", "one")
    return home


def play(home: Home) -> list[str]:
    return ["run", "x", "--playbook", home.write("p.yaml", APPROVES + LEADS)]


def test_what_came_with_a_clone_waits_for_the_users_word(cloned: Home) -> None:
    said = cloned.fails(*play(cloned))

    assert "parley.toml asks for [boundary] hosts" in said
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
        return unallowed(Workplace(cloned.folder, cloned.folder / ".parley"))

    own = tmp_path / "xdg_config_home/parley/parley.toml"
    assert asked("turns = 20\nmoney = 20") == []
    assert asked("turns = 201") == ["[budget.job] turns"]
    assert asked("turns = 'none'\nmoney = 20.5") == ["[budget.job] turns", "[budget.job] money"]
    own.parent.mkdir(parents=True)
    own.write_text("[budget.job]\nturns = 500\nmoney = 'none'\n", encoding="utf-8")
    assert asked("turns = 201\nmoney = 1000") == []
    assert asked("turns = 501") == ["[budget.job] turns"]


def test_a_value_can_not_pass_for_another_line(home: Home) -> None:
    home.write("parley.toml", '[agents."x\\nok: [y]"]\ncommand = ["a\\nb", "\\u202e\\u001b[2J"]\n')

    said = home.here("trust", "--yes").out.splitlines()

    assert said[1] == '  [agents.x\\nok: [y]] command = ["a\\nb", "\\u202e\\u001b[2J"]'
    assert said[2:] == ["allowed: [agents.x\\nok: [y]] command"]
    assert home.here("trust", "--revoke").out == "not allowed here any more: [agents.x\\nok: [y]] command\n"


def test_a_repository_can_not_hide_what_it_asks_for_by_calling_it_a_secret(
    cloned: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloned.write(".env", "A_TOKEN=boundary\nB_KEY=example.org\nC_SECRET=asks for what\nD_SECRET=nothing else at all\n")

    assert "parley.toml asks for [boundary] hosts; see" in cloned.refuses(*play(cloned))
    assert '[boundary] hosts = ["example.org:443"]' in cloned.here("trust", "--yes").out
    assert "example.org:443" in cloned.here("trust", "--json").out
    assert 'in force     [boundary] hosts = ["example.org:443"]' in cloned.here("doctor").out

    monkeypatch.setenv("MY_TOKEN", "example.org")
    assert "example.org" not in cloned.here("trust").out, "what the user's own environment holds stays a secret"


def test_where_a_file_lies_and_whether_it_is_committed_says_nothing(home: Home) -> None:
    home.write("parley.toml", HOSTS)
    assert "parley.toml asks for [boundary] hosts" in home.refuses(*play(home)), "in a folder without git"
    git(home, "init", "-q")
    assert "parley.toml asks for [boundary] hosts" in home.refuses(*play(home)), "not committed"
    home.write(".gitignore", "parley.toml\n")
    assert "parley.toml asks for [boundary] hosts" in home.refuses(*play(home)), "ignored"
    (home.folder / "src").mkdir()
    home.write("src/bus.db", "")
    home.write("src/parley.toml", "[boundary]\naccept = 'none'\n")
    assert "asks for [boundary] hosts;" in home.refuses(*play(home), "--repo", "src"), "the root's, not the folder's"


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


def test_notes_that_lead_elsewhere_are_told_to_nobody(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    home.folder.with_name("secret").write_text("the reader's own", encoding="utf-8")
    home.write("AGENTS.md", "Tabs.")
    home.write(".env", "KEY=of-the-user")
    notes, place = home.folder / "CLAUDE.md", Workplace(home.folder, home.folder / ".parley")

    for target, text, said in (
        ("AGENTS.md", "Tabs.", ""),
        ("../secret", "", "parley: CLAUDE.md leads outside"),
        (".env", "", "parley: CLAUDE.md leads to another file"),
    ):
        notes.unlink(missing_ok=True)
        notes.symlink_to(target)
        warn_of_notes(place)
        assert own_notes(home.folder) == text
        assert capsys.readouterr().err.startswith(said)


def test_a_link_of_a_clone_makes_no_role_of_a_file_that_is_not_committed(home: Home) -> None:
    home.write("private.md", "---\nname: coder\n---\nthe user's own")
    home.write(".claude/agents/README", "")
    (home.folder / ".claude/agents/coder.md").symlink_to("../../private.md")

    assert "asks for .claude/agents/coder.md a link;" in home.refuses(*play(home))
    assert '.claude/agents/coder.md a link = "private.md"' in home.here("trust").out


# ---- what is read -----------------------------------------------------------------------------------


def test_settings_that_are_no_ordinary_file_are_not_read(home: Home) -> None:
    path = home.folder / "parley.toml"
    home.write("other.toml", HOSTS)
    for make, said in (
        (lambda: path.symlink_to("/dev/zero"), "this is a link, and links are not followed; put a copy there"),
        (lambda: path.symlink_to("other.toml"), "this is a link, and links are not followed"),
        (lambda: path.symlink_to("/nowhere"), "this is a link, and links are not followed"),
        (lambda: os.mkfifo(path), "this is no ordinary file; remove it"),
        (path.mkdir, "Is a directory; make it readable, or remove it"),
        (lambda: path.write_bytes(b"#" * 300_000), "the file is larger than 256 KiB; make it smaller"),
        (lambda: path.write_bytes(b"a = " + b"[" * 90_000), "nested deeper than 50 levels"),
        (lambda: path.write_bytes(b"a = " + b"9" * 9000), "this is not valid TOML"),
    ):
        make()
        for words in (play(home), ["trust", "--yes"], ["notify"], ["roles"]):
            assert said in home.refuses(*words)
        assert said in home.here("doctor").out
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def test_a_link_that_takes_the_place_of_what_was_allowed_is_refused(cloned: Home) -> None:
    cloned.run("trust", "--yes")
    (cloned.folder / "parley.toml").rename(cloned.folder / "kept.toml")
    (cloned.folder / "parley.toml").symlink_to("kept.toml")

    assert "links are not followed" in cloned.refuses(*play(cloned))


# ---- for this place, this content, until it is taken back -----------------------------------------------


def test_the_same_bytes_elsewhere_are_asked_about(cloned: Home, tmp_path: Path) -> None:
    assert cloned.here("trust", "--yes").code == 0
    assert cloned.here("notify").code == 0, "it reads the settings as a job does"
    other = Home(tmp_path / "other")
    shutil.copytree(cloned.folder, other.folder, symlinks=True, ignore=shutil.ignore_patterns(".parley"))
    assert "asks for [boundary] hosts" in other.refuses(*play(other)), "a copy"
    (tmp_path / "link").symlink_to(cloned.folder)
    assert cloned.run("notify", cwd=tmp_path / "link").code == 0, "a link to the place is the place"
    moved = Home(cloned.folder.rename(tmp_path / "moved"))
    assert "asks for [boundary] hosts" in moved.refuses(*play(moved)), "moved"


def test_what_was_allowed_can_be_taken_back(cloned: Home) -> None:
    cloned.here("trust", "--yes")
    assert cloned.here("trust", "--revoke").out == "not allowed here any more: [boundary] hosts\n"
    assert "asks for [boundary] hosts" in cloned.refuses(*play(cloned))
    assert cloned.here("trust", "--revoke", "--json").document == {"revoked": []}
    cloned.here("trust", "--yes")
    assert unallowed(Workplace(cloned.folder, cloned.folder / ".parley")) == []


def test_a_user_who_becomes_stricter_is_asked_about_what_they_have_not_seen(cloned: Home, tmp_path: Path) -> None:
    own = tmp_path / "xdg_config_home/parley/parley.toml"
    own.parent.mkdir(parents=True)
    own.write_text("[policy]\nplan = 'never'\n", encoding="utf-8")
    cloned.write("parley.toml", f"{HOSTS}[policy]\nplan = 'never'\n")
    assert cloned.here("trust", "--yes").out.endswith("allowed: [boundary] hosts\n")
    own.unlink()

    assert "asks for [policy] plan, [boundary] hosts" in cloned.refuses(*play(cloned))


def book(tmp_path: Path) -> Path:
    return tmp_path / "xdg_state_home/parley/trusted.jsonl"


def test_the_list_of_what_is_allowed_can_not_be_brought_along(cloned: Home, tmp_path: Path) -> None:
    path = book(tmp_path)
    cloned.here("trust", "--yes")
    sealed = path.read_bytes()
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path, path.with_name("trust.key"))] == [0o600, 0o600]
    entry = json.loads(sealed)

    path.write_text(entry["said"] + "\n" + json.dumps({"said": entry["said"], "seal": "0" * 64}) + "\n[[\n7\n")
    assert "asks for [boundary] hosts" in cloned.refuses(*play(cloned)), "not sealed"
    path.write_bytes(sealed.replace(b"work", b"worc"))
    assert "asks for [boundary] hosts" in cloned.refuses(*play(cloned)), "changed"
    path.write_bytes(sealed)
    key = path.with_name("trust.key")
    key.rename(tmp_path / "moved")
    key.write_bytes((tmp_path / "moved").read_bytes())
    key.chmod(0o600)
    assert "asks for [boundary] hosts" in cloned.refuses(*play(cloned)), "brought along with its key"
    path.chmod(0o644)
    assert "trusted.jsonl is not a file of yours alone" in cloned.refuses(*play(cloned)), "as git writes files"
    assert "trusted.jsonl is not a file of yours alone" in cloned.refuses("trust", "--yes")
    path.rename(cloned.folder / "book")
    path.symlink_to(cloned.folder / "book")
    assert "trusted.jsonl: Too many levels of symbolic links; remove it" in cloned.refuses(*play(cloned))
    path.unlink()
    os.mkfifo(path, 0o600)
    assert "trusted.jsonl is not a file of yours alone" in cloned.refuses(*play(cloned))
    path.unlink()
    path.with_name("trust.key").write_bytes(b"short")
    assert "trust.key holds no key; remove it" in cloned.here("trust", "--yes").err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_list_that_is_another_user_s_allows_nothing(cloned: Home, tmp_path: Path) -> None:
    cloned.here("trust", "--yes")
    os.chown(book(tmp_path), 1234, 1234)

    assert "trusted.jsonl is not a file of yours alone" in cloned.refuses(*play(cloned))


def test_own_settings_in_a_repository_need_a_word_too(home: Home, tmp_path: Path) -> None:
    config = tmp_path / "xdg_config_home/parley"
    config.mkdir(parents=True)
    (config / "parley.toml").write_text(HOSTS, encoding="utf-8")
    assert unallowed(Workplace(home.folder, home.folder / ".parley")) == [], "the user's own"
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "xdg_config_home", check=True)

    assert "lies where jobs can put files, and asks for [boundary] hosts" in home.refuses(*play(home))
    assert home.here("trust", "--yes").out.endswith("allowed: [boundary] hosts\n")
    assert home.run(*play(home)).code == 0
    assert home.here("setup", "--budget", "turns=500").out.count("turns = 500") == 1
    assert unallowed(Workplace(home.folder, home.folder / ".parley")) == [], "what setup writes is the user's word"


def test_no_command_sends_where_own_settings_that_wait_for_a_word_say(home: Home, tmp_path: Path) -> None:
    config = tmp_path / "xdg_config_home/parley"
    config.mkdir(parents=True)
    (config / "parley.toml").write_text("[notify]\nto = ['json://127.0.0.1:9/']\n", encoding="utf-8")
    place = Workplace(home.folder, home.folder / ".parley")
    # As a withdrawal has it, and what finishes jobs after a crash: these read no other setting.
    assert isinstance(notices_of(place, Settings()), NoticeSender), "the user's own"
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "xdg_config_home", check=True)

    assert isinstance(notices_of(place, Settings()), NoNotices)
    home.here("setup", "--budget", "turns=500")
    assert isinstance(notices_of(place, Settings()), NoNotices), "what setup writes says nothing of what was there"
    assert "[notify] to" in unallowed(place)
    home.here("trust", "--yes")
    assert isinstance(notices_of(place, Settings()), NoticeSender)


# ---- roles ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "files, asked",
    [
        ({".claude/agents/helper.md": "---\nrunner: codex\n---\nHelp.\n"}, ".claude/agents/helper.md runner"),
        ({".claude/agents/coder.md": "---\nlimits: {turn_seconds: 86400}\n---\nx\n"}, "coder.md limits.turn_seconds"),
        ({".claude/agents/proxy.md": "---\nname: proxy\n---\nApprove.\n"}, "proxy.md the proxy's role"),
        ({"parley.toml": "[roles.proxy]\nmodel = 'm'\n"}, "the proxy's role"),
        ({"parley.toml": "[roles.coder]\nprompt = '.env'\n", ".env": "KEY=1"}, "[roles.coder] prompt"),
        ({"parley.toml": "[roles.coder]\nrunner = 'codex'\n"}, "[roles.coder] runner"),
    ],
)
def test_roles_of_a_place_name_no_program_no_other_file_and_no_proxy(
    home: Home, files: dict[str, str], asked: str
) -> None:
    for name, text in files.items():
        home.write(name, text)
    assert f"{asked};" in home.refuses(*play(home))
    assert home.here("trust", "--yes").code == 0
    said = home.here(*play(home)).err
    assert "`parley trust`" not in said or "in force" in said

    changed = [name for name in files if name != "parley.toml"]
    for name in changed[:1]:
        home.write(name, f"{files[name]} and approve all\n")
        if asked.endswith(("role", "prompt")):
            assert f"{asked};" in home.refuses(*play(home)), "another text"


# ---- what is named ---------------------------------------------------------------------------------------------


def test_the_start_of_a_job_and_the_doctor_name_what_is_wider_and_who_says_so(home: Home, tmp_path: Path) -> None:
    own = tmp_path / "xdg_config_home/parley/parley.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[policy]\nplan = "when_unsure"\n[notify]\nto = ["json://secret@127.0.0.1:9"]\n', encoding="utf-8")
    home.write("parley.toml", "[boundary]\nreadable = ['/opt']\n")
    home.here("trust", "--yes")
    settings = [
        f'[policy] plan = "when_unsure" ({own})',
        '[boundary] readable = ["/opt"] (parley.toml, allowed with `parley trust`)',
    ]
    notices = f"[notify] to = json ({own})"

    seen = home.here("doctor").out
    assert [line[19:] for line in seen.splitlines() if line.startswith("note  in force")] == [*settings, notices]
    done = home.run(*play(home), "--budget", "turns=500")
    asked = "[budget.job] turns = 500 (the command line)"
    lines = [line.removeprefix("parley: in force: ") for line in done.err.splitlines() if "in force" in line]
    assert lines == [*settings, asked, notices]
    assert "secret" not in done.err + seen
    done = home.run(*play(home), "--budget", "turns=500", "--json")
    assert done.err == ""
    told = done.document["widenings"]
    assert [one["setting"] for one in told] == [
        "[policy] plan",
        "[boundary] readable",
        "[budget.job] turns",
        "[notify] to",
    ]
    assert home.here("show", done.document["id"], "--json").document["widenings"] == told


# ---- what a job delivers -----------------------------------------------------------------------------------------

BRINGS = LEADS.replace(
    "do: [{write: {path: WORK_SUMMARY.md",
    'do: [{shell: "printf \'[boundary]\\naccept = \\"none\\"\\n\' > parley.toml"}, {write: {path: WORK_SUMMARY.md',
)


@pytest.mark.parametrize("repository", [True, False])
def test_what_a_merge_brings_is_not_obeyed(home: Home, repository: bool) -> None:
    if repository:
        git(home, "init", "-q")
        git(home, "commit", "-q", "--allow-empty", "-m", "one")
    waits = home.start()
    book = home.folder.with_name("p.yaml")
    book.write_text(APPROVES + BRINGS, encoding="utf-8")
    job = home.run("run", "x", "--playbook", str(book), "--json").document["id"]
    merged = home.run("merge", job)
    if not (home.folder / "parley.toml").exists():
        assert merged.code != 0
        return
    assert (home.folder / "parley.toml").read_text() == '[boundary]\naccept = "none"\n'

    for words in (["run", "x", "--playbook", str(book)], ["resume", waits], ["resume"], ["notify"]):
        assert "asks for [boundary] accept" in home.refuses(*words)
    assert "FAIL  settings     parley.toml asks for [boundary] accept" in home.here("doctor").out
    (home.folder / "src").mkdir()
    home.write("src/bus.db", "")
    if repository:
        assert "asks for [boundary] accept" in home.refuses("run", "x", "--playbook", str(book), "--repo", "src")
