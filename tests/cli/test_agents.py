"""Who plays the agents of a job: chosen, announced, and refused in one line before anything starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from parley.base.documents.node import TOML, DocumentError, node_of
from parley.cli.common import Workplace
from parley.cli.running import job_runners
from parley.ports.turns import BUILT_IN, Ended, Order, Site, TurnEvent
from parley.roles.role_snapshot import RoleSnapshot
from parley.runners.claude import ClaudeError
from parley.sandbox import Boundary
from parley.settings.schema import Settings
from parley_cfa import installation
from tests.cli.home import LEADS, Home

LOGINS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY")


@pytest.fixture(autouse=True)
def _nobody_is_logged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LOGINS:
        monkeypatch.delenv(name, raising=False)


def role(home: Home, runner: str) -> None:
    home.write(".claude/agents/helper.md", f"---\nname: helper\nrunner: {runner}\n---\nHelp.\n")
    home.allow()


@pytest.mark.parametrize("words", [(), ("--agent", "claude")])
def test_without_a_login_nothing_starts(home: Home, words: tuple[str, ...]) -> None:
    said = home.refuses("run", "x", *words)

    assert "Claude Code has no login: set ANTHROPIC_API_KEY" in said
    assert ("or let scripted agents play: --playbook FILE" in said) == (not words)
    assert not (home.folder / ".parley").exists()


def test_without_the_extra_it_says_what_to_install(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.runners.claude.login.find_spec", lambda _: None)

    said = home.refuses("run", "x")

    assert f"the extra `claude`; install it: {installation.read().command('claude')}" in said


def test_an_agent_that_is_not_known_is_told_with_those_that_are(home: Home) -> None:
    home.settings("[agents.mine]\ncommand = ['true']\n")

    said = home.refuses("run", "x", "--agent", "robot")

    assert "there is no agent 'robot'; use one of: scripted, claude, codex, mine" in said


def test_a_role_whose_runner_is_not_known_is_refused(home: Home) -> None:
    role(home, "nobody")

    said = home.refuses("run", "x", "--playbook", home.write("p.yaml", LEADS))

    assert "the role helper: there is no runner 'nobody'; use one of: scripted, claude, codex" in said


def test_a_role_whose_runner_lacks_something_is_refused(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    playbook = home.write("p.yaml", LEADS)
    role(home, "codex")
    assert "the role helper: codex is not on the PATH: install it" in home.refuses("run", "x", "--playbook", playbook)
    role(home, "claude")
    assert "the role helper: Claude Code has no login" in home.refuses("run", "x", "--playbook", playbook)
    assert not (home.folder / ".parley").exists()


def test_going_on_without_what_a_role_needs_is_refused_and_costs_the_job_nothing(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    role(home, "claude")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-any")
    job = home.start()
    monkeypatch.delenv("ANTHROPIC_API_KEY")

    assert "the role helper: Claude Code has no login" in home.refuses("resume", job)

    assert home.jobs()[0]["status"] == "needs you"
    assert home.here("withdraw", job).code == 0  # giving up needs no login


def test_each_role_has_its_own_runner_or_the_playbooks_or_the_jobs() -> None:
    roles = [
        RoleSnapshot(name="coder", runner="codex"),
        RoleSnapshot(name="project-lead"),
        RoleSnapshot(name="proxy"),
    ]

    given = job_runners.with_runners(roles, "claude", ["project-lead"])

    assert [one.runner for one in given] == ["codex", "scripted", "claude"]


def test_every_runner_that_comes_with_parley_is_made_and_no_program_takes_its_name(tmp_path: Path) -> None:
    made = job_runners.runners(Workplace(tmp_path, tmp_path / ".parley"), Settings(), Boundary())
    assert set(BUILT_IN) <= set(made)
    for name in BUILT_IN:
        agents = node_of({name: {"command": ["true"]}}, "parley.toml", TOML)
        with pytest.raises(DocumentError, match="can't have this name"):
            job_runners.runners(Workplace(tmp_path, tmp_path / ".parley"), Settings(agents=agents), Boundary())


def test_a_login_that_is_gone_when_its_turn_comes_is_told_as_hopeless(tmp_path: Path) -> None:
    made = job_runners.runners(Workplace(tmp_path, tmp_path / ".parley"), Settings(), Boundary())
    told: list[TurnEvent] = []
    order = Order(
        turn="t1",
        job="j1",
        epoch=1,
        token="token",
        agent="coder",
        thread="dispatch:d",
        message="go",
        sender="project-lead",
        state="EXECUTE",
        visit=1,
        site=Site(str(tmp_path)),
        home=str(tmp_path / "home"),
        handle="",
        may_ask=False,
        time_limit_seconds=60.0,
        tools=(),
        runner="claude",
        role=json.dumps({"name": "coder"}),
    )

    made["claude"].start(order, told.append)
    made["claude"].cancel("j1", "t1")
    made["claude"].close()

    (ended,) = told
    assert isinstance(ended, Ended)
    assert ended.hard
    assert "Claude Code has no login" in ended.fault


def test_a_runner_is_made_once_and_only_when_it_is_needed() -> None:
    makes = []

    def make() -> Any:
        makes.append(1)
        raise ClaudeError("not here")

    late = job_runners.LazyRunner(make)
    late.rest("j1")
    late.reply("j1", "t1", 1, True, "", {})
    late.close()
    assert makes == []


@pytest.mark.parametrize("there", ["nothing", "folder", "link", "file"])
def test_a_file_where_a_role_s_folder_would_lie_is_left_alone(tmp_path: Path, there: str) -> None:
    target = tmp_path / "work/.claude"
    target.parent.mkdir()
    if there == "folder":
        target.mkdir()
    elif there == "link":
        target.symlink_to("elsewhere")
    elif there == "file":
        target.touch()
    site = Site(str(target.parent))
    order = Order(
        turn="t",
        job="j",
        epoch=1,
        token="k",
        agent="coder",
        thread="dispatch:d1",
        message="m",
        sender="s",
        state="EXECUTE",
        visit=1,
        site=site,
        home="/h",
        handle="",
        may_ask=False,
        time_limit_seconds=1.0,
        tools=(),
    )

    binds = job_runners.claude_folder_binds(Workplace(tmp_path, tmp_path / ".parley"), order)

    assert [bind.target for bind in binds] == ([] if there == "file" else [str(target)])
    assert target.is_file() == (there == "file")


def test_a_model_reaches_the_program_that_takes_one_and_is_refused_where_it_can_not(home: Home) -> None:
    writes = "command = ['/bin/sh', '-c', 'printf %s \"$0\" > INTENT.md', '{model}']"
    home.settings(f"[limits]\nretry_budget = 1\n[agents.deaf]\ncommand = ['true']\n[agents.mine]\n{writes}\n")

    said = home.refuses("run", "x", "--agent", "deaf", "--model", "m-7")
    assert "--model 'm-7': it would not reach the program: [agents.deaf] command has no {model}; put it there" in said
    for name in ("two words", "x" * 300):
        assert "this is no model's name" in home.refuses("run", "x", "--agent", "mine", "--model", name)
    done = home.run("run", "x", "--agent", "mine", "--model", " m-7 ")

    assert done.code == 4, done
    assert done.out.startswith("agent: mine, model: m-7, budget: ")
    job = home.jobs()[0]["id"]
    assert home.job_file(job, "work/INTENT.md").read_text() == "m-7"
    assert "  agent      mine, model: m-7" in home.here("show", job).out
