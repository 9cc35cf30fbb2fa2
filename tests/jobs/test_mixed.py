"""A job whose lead is Claude Code and whose worker is Codex, both real, both behind the boundary."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from parley.runners.command import codex
from tests.apis import messages, responses, script
from tests.apis.messages import MessagesAPI
from tests.apis.responses import ResponsesAPI
from tests.cli.home import turn_processes
from tests.command.test_codex import FOLDER
from tests.engine.job_harness import INTENT
from tests.jobs.cash_register_job import asserts, at, outcome, shell
from tests.jobs.user_machine import KEY, UserMachine

OTHER_KEY = "sk-proj-planted-for-the-other-0123456789"
PORTER = """---
name: porter
description: Ports small things.
runner: codex
---
You port code.
"""
SETTINGS = """
[claude]
max_retries = 1
[roles.project-lead]
team = ["coder", "porter"]
[agents.codex]
folder = "{folder}"
[agents.codex.route]
upstream = "{url}"
headers = {{ Authorization = "Bearer $OPENAI_API_KEY" }}
paths = ["/v1/responses"]
"""
DOUBLE = "def double(x):\n    return 2 * x\n"
WRITE = (
    "printf 'def double(x):\\n    return 2 * x\\n' > double.py && python3 -c 'import double; print(double.double(21))'"
)


def lead() -> messages.Script:
    turns = [
        messages.Turn(
            r"^\[PLAN\]",
            [
                messages.Fail(429, retry_after=1, times=2),  # once, and once again when the CLI tries again
                shell("pwd"),
                script.Use("Write", at("PLAN.md", content="# Plan\nPort it.\n")),
                asserts("PLAN.md", "Is it sound?"),
            ],
        ),
        messages.Turn(
            r"^\[EXECUTE\]",
            [
                shell("pwd"),
                script.Use("Send", {"to": "porter", "text": "Please port double."}),
                script.Say("It is at work."),
            ],
        ),
        messages.Turn(
            r"ported, 42",
            [
                script.Use(
                    "CloseConversation", lambda talk: {"thread": talk.last(r"sent to porter on (dispatch:\w+)")}
                ),
                script.Say("Taken."),
            ],
        ),
        messages.Turn(
            r"^\[MERGE clean\]",
            [
                shell("cat double.py"),
                script.Use("Write", at("WORK_SUMMARY.md", content="# Work\nPorted.\n")),
                asserts("WORK_SUMMARY.md", "Is it right?"),
            ],
        ),
        messages.Turn(
            r"^\[ANSWER approve\]",
            lambda talk: [
                outcome("APPROVED_WORK" if "[EXECUTE]" in talk.prompts[0] else "APPROVED_PLAN", "approved by the human")
            ],
        ),
    ]
    return messages.Script({"project-lead": turns})


def porter() -> responses.Script:
    turn = responses.Turn(
        "port double",
        [
            script.Use("exec_command", {"cmd": WRITE}),
            script.Say("double is ported, 42"),
        ],
    )
    return responses.Script({"porter": [turn]})


def test_a_job_led_by_claude_code_with_a_codex_at_work_reaches_done(tmp_path: Path) -> None:
    if codex.find(str(FOLDER)) is None and os.environ.get("CI") != "true":
        pytest.skip("the Codex CLI is not here; `make .codex/installed` fetches it")
    desk = UserMachine(tmp_path / "repo")
    desk.write(".claude/agents/porter.md", PORTER)
    human = [{"match": ".", "verdict": "approve", "text": "yes", "repeat": True}]
    proxy = [
        {"match": r"\[QUESTION\]", "repeat": True, "do": [{"ask_human": "please look"}]},
        {"match": r"\[HUMAN", "repeat": True, "do": [{"answer": {"verdict": "approve", "text": "yes"}}]},
    ]
    book = tmp_path / "book.yaml"
    book.write_text(json.dumps({"human": human, "proxy": proxy, "agents": {"intent-lead": INTENT}}), encoding="utf-8")
    with MessagesAPI(lead(), key=KEY) as claude, ResponsesAPI(porter(), key=OTHER_KEY) as other:
        desk.log_in(claude)
        desk.environment["OPENAI_API_KEY"] = OTHER_KEY
        desk.write("parley.toml", SETTINGS.format(folder=FOLDER, url=other.url))
        assert desk.parley("trust", "--yes").code == 0
        done = desk.parley("run", "Port double", "--agent", "claude", "--playbook", str(book))

    job = desk.job()
    assert done.code == 0, (done, desk.parley("log", job).out)
    shown = desk.parley("show", job, "--json").document
    assert [change["path"] for change in shown["delivery"]["changes"]] == ["double.py"]
    # a limit of the provider's was waited for: `parley run` stayed, and nobody was blamed
    assert desk.left("fault") == []
    rules = [step.rule for step in desk.steps()]
    assert (rules.count("hold"), rules.count("release"), rules.count("strike")) == (2, 2, 0)  # each of the two 429s
    assert len(claude.of("project-lead")) > len(other.of("porter")) > 1
    assert any("42" in request.body.decode() for request in other.of("porter"))
    assert shown["cost"]["input_tokens"] > 1000 * len(other.of("porter"))
    assert all(verdict.ok for verdict in desk.left("boundary"))
    assert [secret for secret in (KEY, OTHER_KEY) if desk.holding(secret)] == []
    assert turn_processes(job) == []
    assert desk.parley("audit", job).code == 0
    assert desk.parley("merge", job).code == 0
    assert (desk.folder / "double.py").read_text(encoding="utf-8") == DOUBLE
