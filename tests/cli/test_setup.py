"""`parley setup` and `parley doctor`: a login that is there is found, and nothing is called ready that is not."""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.cli.common import Workplace
from parley.cli.looking.json_documents import ran_by
from parley.cli.looking.show import agent_words
from parley.cli.machine.readiness import LEAST_BYTES, LEAST_FILES, disk
from parley.cli.machine.user_settings_file import edited
from parley.views.job_view import JobHistory
from tests.cli.home import APPROVES, LEADS, PARLEY, Done, Home
from tests.cli.terminal import terminal

LOGINS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
READY = re.compile(
    r"^ok    agent        Claude Code 2\.1\.\d+, model: .*, budget: 200 turns, 20\.00 USD$", re.MULTILINE
)


@pytest.fixture
def user(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A user with a home of their own, who is logged in nowhere."""
    for name in LOGINS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "me/.config"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "")
    (tmp_path / "me").mkdir()
    return home


def log_in(tmp_path: Path, seconds: float = 3600) -> None:
    """Leave a subscription's login as Claude Code does."""
    folder = tmp_path / "me/.claude"
    folder.mkdir(exist_ok=True)
    login = {"accessToken": "sk-ant-oat-planted", "expiresAt": (time.time() + seconds) * 1000}
    (folder / ".credentials.json").write_text(json.dumps({"claudeAiOauth": login}), encoding="utf-8")


def own(tmp_path: Path) -> Path:
    return tmp_path / "me/.config/parley/parley.toml"


def agent_line(done: Done) -> str:
    return next(line for line in done.out.splitlines() if " agent  " in line)


# ---- the subscription ----------------------------------------------------------------------------


def test_a_subscription_is_found_and_allowed_in_one_step(user: Home, tmp_path: Path) -> None:
    log_in(tmp_path)
    refused = user.refuses("run", "x")
    assert (
        "logged in by the Claude subscription in ~/.claude/.credentials.json, which Parley may not use yet" in refused
    )
    assert "allow it with: parley setup --subscription" in refused
    assert user.here("doctor").code == 1

    done = user.here("setup", "--subscription")

    assert done.code == 0, done
    assert own(tmp_path).read_text(encoding="utf-8") == "[claude]\nsubscription = true\n"
    assert READY.search(done.out)
    assert "login: the Claude subscription in ~/.claude/.credentials.json" in agent_line(user.here("doctor"))
    assert "sk-ant-oat-planted" not in done.out
    assert "nothing to change" in user.here("setup", "--subscription").out
    user.here("setup", "--no-subscription")
    assert own(tmp_path).read_text(encoding="utf-8") == "[claude]\nsubscription = false\n"
    assert "which Parley may not use yet" in user.refuses("run", "x")


def test_what_a_user_had_written_stays(user: Home, tmp_path: Path) -> None:
    log_in(tmp_path)
    own(tmp_path).parent.mkdir(parents=True)
    elsewhere = tmp_path / "dotfiles.toml"
    elsewhere.write_text("# mine\n[notify]\nto = ['ntfy://me']  # phone\n\n[claude]  # here\nmodel = 'opus'\n", "utf-8")
    own(tmp_path).symlink_to(elsewhere)

    assert user.here("setup", "--subscription", "--policy", "plan=never", "--budget", "turns=50").code == 0

    assert own(tmp_path).is_symlink()
    assert elsewhere.read_text("utf-8") == (
        "# mine\n[notify]\nto = ['ntfy://me']  # phone\n\n[claude]  # here\nsubscription = true\nmodel = 'opus'\n\n"
        '[policy]\nplan = "never"\n\n[budget.job]\nturns = 50\n'
    )
    assert "model: opus, login: the Claude subscription" in agent_line(user.here("doctor"))
    assert "budget: 50 turns, 20.00 USD" in agent_line(user.here("doctor"))


def test_a_file_that_can_t_be_changed_safely_is_left_alone(user: Home, tmp_path: Path) -> None:
    own(tmp_path).parent.mkdir(parents=True)
    for text, said in (
        ("claude = {model = 'opus'}\n", "write into it yourself: [claude] subscription = true"),
        ("[claude\n", "this is not valid TOML"),
        ("[claude]\nsubscription = 'yes'\n", "[claude] subscription: it must be true or false"),
    ):
        own(tmp_path).write_text(text, encoding="utf-8")
        done = user.here("setup", "--subscription")
        assert done.code == 2
        assert said in done.err
        assert own(tmp_path).read_text(encoding="utf-8") == text


def test_a_login_that_is_out_of_date_is_named(user: Home, tmp_path: Path) -> None:
    log_in(tmp_path, -7200)

    done = user.here("setup", "--subscription")

    assert done.code == 1
    assert "expired 2 hours ago; start `claude` once, which renews it" in done.out
    assert "expired 2 hours ago" in user.refuses("run", "x")


def test_without_any_login_it_says_how_to_get_one(user: Home) -> None:
    assert "run `parley setup`" in user.refuses("run", "x")
    done = user.here("setup", "--yes")
    assert done.code == 1
    assert "a job can't start yet:" in done.out
    assert "set ANTHROPIC_API_KEY" in done.out


def test_a_repository_s_word_alone_allows_no_subscription(user: Home, tmp_path: Path) -> None:
    log_in(tmp_path)
    user.write("parley.toml", "[claude]\nsubscription = true\n")
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=user.folder, check=True)

    assert "asks for [claude] subscription" in user.refuses("run", "x")
    assert "FAIL  agent" in user.here("doctor").out


# ---- asking --------------------------------------------------------------------------------------


def test_on_a_terminal_it_walks_through_once(user: Home, tmp_path: Path) -> None:
    log_in(tmp_path)
    with terminal([str(PARLEY), "setup"], user.folder, user.env(), columns=200, rows=60) as screen:
        screen.wait_for("Let Parley use the Claude subscription in ~/.claude/.credentials.json? [Y/n]")
        screen.type("\n")
        screen.wait_for("When do jobs ask you? always, when_unsure or never [always]:")
        screen.type("sometimes\n")
        screen.wait_for("there is no policy 'sometimes'")
        screen.type("when_unsure\n")
        screen.wait_for("How many turns may a job take before it asks you? A number, or none [200]:")
        screen.type("80\n")
        screen.wait_for("How many US dollars may it cost before it asks you? A number, or none [20]:")
        screen.type("\n")
        screen.wait_for('start a job with: parley run "what is to be done"')
        assert screen.end() == 0

    assert tomllib.loads(own(tmp_path).read_text(encoding="utf-8")) == {
        "claude": {"subscription": True},
        "policy": dict.fromkeys(("intent", "plan", "execute"), "when_unsure"),
        "budget": {"job": {"turns": 80}},
    }
    before = own(tmp_path).read_bytes()
    with terminal([str(PARLEY), "setup"], user.folder, user.env(), columns=200, rows=60) as screen:
        for text in ("[Y/n]", "[when_unsure]:", "[80]:", "[20]:"):
            screen.wait_for(text)
            screen.type("\n")
        screen.wait_for("nothing to change")
        assert screen.end() == 0
    assert own(tmp_path).read_bytes() == before


def test_an_interrupted_setup_writes_nothing(user: Home, tmp_path: Path) -> None:
    log_in(tmp_path)
    with terminal([str(PARLEY), "setup"], user.folder, user.env(), columns=200, rows=60) as screen:
        screen.wait_for("[Y/n]")
        screen.type("\n")
        screen.wait_for("[always]:")
        os.kill(screen.process, signal.SIGINT)
        assert screen.end() == 130
        assert "Traceback" not in screen.screen()
    assert not own(tmp_path).exists()


def test_without_a_terminal_it_names_the_options(user: Home, tmp_path: Path) -> None:
    log_in(tmp_path)
    done = user.run("setup")

    assert done.code == 4
    assert "parley setup --subscription --yes" in done.err
    assert "the Claude subscription in ~/.claude/.credentials.json" in done.out
    assert not own(tmp_path).exists()
    assert user.run("setup", "--yes").code == 0
    assert "subscription = true" in own(tmp_path).read_text(encoding="utf-8")


# ---- doctor --------------------------------------------------------------------------------------


def test_doctor_says_first_which_agent_a_job_would_use(user: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    first = user.here("doctor")
    assert (first.code, first.out.startswith("FAIL  agent        no job can start: Claude Code has no login")) == (
        1,
        True,
    )
    assert user.here("doctor", "--agent", "scripted").out.startswith("ok    agent        scripted, budget: 200 turns\n")
    assert "there is no agent 'robot'" in user.here("doctor", "--agent", "robot").out.splitlines()[0]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-planted")

    done = user.here("doctor")

    assert done.code == 0
    assert READY.match(done.out)
    assert "login: ANTHROPIC_API_KEY" in agent_line(done)
    assert "sk-planted" not in done.out


@pytest.mark.parametrize(
    "spoil",
    [
        ("parley.toml", "[claude]\npath = '/nowhere/claude'\n"),
        ("parley.toml", "[nonsense]\n"),
        (".claude/agents/helper.md", "---\nname: helper\nrunner: nobody\n---\nHelp.\n"),
        (".parley", "this is a file"),
        (".git", "gitdir: /nowhere"),
    ],
)
def test_doctor_does_not_say_ok_where_run_refuses(
    user: Home, monkeypatch: pytest.MonkeyPatch, spoil: tuple[str, str]
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-planted")
    user.write(*spoil)

    told = user.here("doctor")
    started = user.here("run", "x")

    assert (told.code, started.code > 0) == (1, True)
    assert "FAIL" in told.out
    assert len(started.err.splitlines()) == 1


@pytest.mark.parametrize("version", ["", "git version 2.20.1"])
def test_no_job_starts_without_a_git_that_fits(user: Home, tmp_path: Path, version: str) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    if version:
        (tools / "git").write_text(f"#!/bin/sh\necho '{version}'\n", encoding="utf-8")
        (tools / "git").chmod(0o755)
    user.environment["PATH"] = str(tools)
    user.environment["ANTHROPIC_API_KEY"] = "sk-any"

    said = user.fails("run", "x", "--playbook", user.write("p.yaml", APPROVES + LEADS))

    assert said.startswith(f"parley: git: {version} (" if version else "parley: git: not found; install git")
    assert "FAIL  git" in user.run("doctor").out


@given(
    st.integers(0, 4 * LEAST_BYTES), st.integers(0, 4 * LEAST_FILES), st.sampled_from([0, 10**6]), st.integers(1, 4096)
)
def test_a_disk_is_full_by_bytes_or_by_files(free: int, left: int, files: int, block: int) -> None:
    told = os.statvfs_result((block, block, 10**9, free, free // block, files, left, left, 0, 255))
    place = Workplace(Path(tempfile.gettempdir()), Path(tempfile.gettempdir()) / "no-such-home")

    found = disk(place, lambda _: told)

    assert found.ok == (free // block * block >= LEAST_BYTES and (not files or left >= LEAST_FILES))


def test_a_home_that_takes_no_bytes_is_a_full_disk(tmp_path: Path) -> None:
    def refused(_: Path) -> os.statvfs_result:
        raise OSError(122, "Disk quota exceeded")

    assert disk(Workplace(tmp_path, tmp_path), refused).words.startswith(
        f"disk: {tmp_path}: Disk quota exceeded; name a home"
    )


# ---- the model -----------------------------------------------------------------------------------


def test_a_model_is_named_on_the_command_line_for_an_agent_that_has_one(user: Home) -> None:
    playbook = user.write("p.yaml", f"{LEADS}proxy:\n  - {{match: '.', repeat: true, do: [{{ask_human: look}}]}}\n")

    assert "scripted agents have none" in user.refuses("run", "x", "--playbook", playbook, "--model", "opus")
    user.environment["ANTHROPIC_API_KEY"] = "sk-any"
    user.write(".claude/agents/helper.md", "---\nname: helper\nmodel: haiku\n---\nHelp.\n")
    for name in ("", "-x", "a\x1b[2J"):
        assert "this is no model's name" in user.fails("run", "x", "--agent", "claude", f"--model={name}")
    done = user.run("run", "x", "--agent", "claude", "--model", "opus", "--playbook", playbook)
    assert "model: opus (helper: haiku), login: ANTHROPIC_API_KEY" in done.out.splitlines()[0]
    shown = user.here("show", user.jobs()[0]["id"], "--json").document
    assert (shown["model"], shown["models"]) == ("opus", {})


def test_models_that_differ_are_shown_by_agent() -> None:
    answered = {"intent-lead": "claude-a", "coder": "claude-b", "proxy": "claude-a"}

    assert ran_by(JobHistory([], {}, 0, 0, models=answered)) == ["claude-a", "claude-b"]
    assert agent_words({"agent": "claude", "model": "claude-a", "models": answered}) == (
        "Claude Code, model: claude-a (coder: claude-b)"
    )
    assert agent_words({"agent": "codex", "model": None, "models": {}}).startswith("codex, model: codex's default")


def test_doctor_says_whether_git_knows_the_user(user: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "EMAIL"):
        monkeypatch.delenv(name, raising=False)
    assert "ok    identity     git does not know you" in user.here("doctor", "--agent", "scripted").out
    monkeypatch.setenv("GIT_AUTHOR_NAME", "A User")
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "a@example.org")
    assert "ok    identity     A User <a@example.org>" in user.here("doctor", "--agent", "scripted").out


# ---- the file ------------------------------------------------------------------------------------

KEYS = st.sampled_from([("claude", "subscription"), ("policy", "plan"), ("budget.job", "turns")])
ROWS = st.sampled_from(
    ["", "# note", "[claude]", "[ claude ] # x", "[policy]", "[budget.job]", "[budget]", "subscription = false # no",
     "plan = 'x#y'", "turns = 3", "model = '[policy]'", 'text = """', '"""', "list = [", "]", "[[other]]"]
)  # fmt: skip


@given(st.lists(ROWS, max_size=12), KEYS)
def test_setting_a_line_changes_that_line_alone_or_is_refused(rows: list[str], name: tuple[str, str]) -> None:
    text = "\n".join(rows)
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    try:
        made = edited(text, {name: "7"})
    except (ValueError, TypeError, AttributeError):
        return

    kept = [row for row in rows if row.strip()]
    left = [row for row in made.splitlines() if row.strip()]
    assert len(left) - len(kept) in (0, 1, 2)
    assert len([row for row in kept if row not in left]) <= 1
    document = tomllib.loads(made)
    table = document
    for part in name[0].split("."):
        table = table[part]
    assert table.pop(name[1]) == 7
    assert set(before) <= set(document)
    assert edited(made, {name: "7"}) == made
