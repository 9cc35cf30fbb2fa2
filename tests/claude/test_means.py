"""Logins, programs, handles, and what results say: no process is needed for these."""

import json
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import AssistantMessage, TextBlock, ToolResultBlock, ToolUseBlock, UserMessage
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.base.documents.node import DocumentError
from parley.ports.turns import Order, Progress, Site, TurnEvent
from parley.roles.role_snapshot import OrderedRole
from parley.runners.claude import ClaudeError, available, find_login, find_program, lacking
from parley.runners.claude.agent_home import AgentHome
from parley.runners.claude.claude_program import OLDEST
from parley.runners.claude.claude_turn import ClaudeTurn
from parley.runners.claude.session_handle import SessionHandle
from parley.runners.claude.system_prompt import NOTES_LIMIT, project_notes
from parley.runners.claude.turn_results import fault_of, limit_of, usage_of, wait_of
from parley.settings.load import read
from parley.settings.schema import ClaudeSettings
from parley_cfa import installation

NONE = ClaudeSettings()
SUBSCRIPTION = ClaudeSettings(subscription=True)


def order(handle: str, thread: str = "dispatch:d1") -> Order:
    return Order(
        turn="t",
        job="j",
        epoch=1,
        token="k",
        agent="coder",
        thread=thread,
        message="m",
        sender="s",
        state="EXECUTE",
        visit=1,
        site=Site("/w"),
        home="/h",
        handle=handle,
        may_ask=False,
        time_limit_seconds=1.0,
        tools=(),
    )


# ---- the login -----------------------------------------------------------------------------------


def test_a_key_stays_outside_and_goes_to_the_user_s_own_address() -> None:
    login = find_login(NONE, {"ANTHROPIC_API_KEY": " sk-1 ", "ANTHROPIC_BASE_URL": "https://gate.example/"})

    assert login is not None
    assert (login.upstream, dict(login.headers)) == ("https://gate.example", {"x-api-key": "sk-1"})
    assert dict(login.inside) == {"ANTHROPIC_API_KEY": "outside"}
    assert "sk-1" not in repr(login)


def test_a_token_for_a_gateway_is_a_login_too() -> None:
    login = find_login(NONE, {"ANTHROPIC_AUTH_TOKEN": "tok"})

    assert login is not None
    assert (login.upstream, dict(login.headers)) == ("https://api.anthropic.com", {"authorization": "Bearer tok"})
    assert "tok" not in login.inside.values()


def test_a_subscription_counts_only_where_the_user_says_so(tmp_path: Path) -> None:
    folder = tmp_path / ".claude"
    folder.mkdir()
    file = folder / ".credentials.json"
    later, before = (time.time() + 3600) * 1000, (time.time() - 1) * 1000
    environment = {"HOME": str(tmp_path)}

    file.write_text(json.dumps({"claudeAiOauth": {"accessToken": "sk-oat", "expiresAt": later}}))
    assert find_login(NONE, environment) is None
    login = find_login(SUBSCRIPTION, environment)
    assert login is not None
    assert dict(login.headers) == {"authorization": "Bearer sk-oat"}
    assert dict(login.inside) == {"CLAUDE_CODE_OAUTH_TOKEN": "outside"}
    assert find_login(NONE, {"CLAUDE_CODE_OAUTH_TOKEN": "sk-oat"}) is None
    assert find_login(SUBSCRIPTION, {"CLAUDE_CODE_OAUTH_TOKEN": "sk-oat"}) is not None

    file.write_text(json.dumps({"claudeAiOauth": {"accessToken": "sk-oat", "expiresAt": before}}))
    assert find_login(SUBSCRIPTION, environment) is None


def credentials(home: Path, content: object) -> dict[str, str]:
    """The environment of a user whose Claude Code keeps this login."""
    file = home / ".claude/.credentials.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return {"HOME": str(home)}


def test_a_subscription_that_is_not_allowed_is_named_with_the_one_command_that_allows_it(tmp_path: Path) -> None:
    later = (time.time() + 3600) * 1000
    environment = credentials(tmp_path, {"claudeAiOauth": {"accessToken": "sk-oat", "expiresAt": later}})

    assert lacking(NONE, environment) == (
        "Claude Code is logged in by the Claude subscription in ~/.claude/.credentials.json, which Parley may not use "
        "yet; allow it with: parley setup --subscription"
    )
    assert lacking(NONE, {"CLAUDE_CODE_OAUTH_TOKEN": "t"}).startswith(
        "Claude Code is logged in by CLAUDE_CODE_OAUTH_TOKEN, which Parley may not use yet"
    )
    assert lacking(SUBSCRIPTION, environment) == ""
    assert lacking(NONE, {**environment, "ANTHROPIC_API_KEY": "k"}) == ""


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{not json",
        "[]",
        "[" * 100_000,
        {"claudeAiOauth": None},
        {"claudeAiOauth": {"accessToken": 7}},
        {"claudeAiOauth": {"accessToken": ""}},
        {"claudeAiOauth": {"accessToken": "a\nb"}},
        {"claudeAiOauth": {"accessToken": "a", "expiresAt": "soon"}},
    ],
)
def test_a_login_that_can_t_be_read_is_told_as_such(tmp_path: Path, content: object) -> None:
    said = lacking(SUBSCRIPTION, credentials(tmp_path, content))

    assert said == (
        "Claude Code has no login that Parley can use: ~/.claude/.credentials.json holds no login that can be read; "
        "log in again: start `claude` and type /login, or run `claude setup-token`"
    )


def test_a_login_that_is_out_of_date_is_told_as_such(tmp_path: Path) -> None:
    before = (time.time() - 3 * 3600) * 1000
    said = lacking(SUBSCRIPTION, credentials(tmp_path, {"claudeAiOauth": {"accessToken": "a", "expiresAt": before}}))

    assert "the Claude subscription in ~/.claude/.credentials.json expired 3 hours ago; start `claude` once" in said
    assert "claude setup-token" in said


def test_a_file_of_credentials_for_servers_alone_is_no_login(tmp_path: Path) -> None:
    assert lacking(NONE, credentials(tmp_path, {"mcpOAuth": {}})).startswith("Claude Code has no login: set ")


@pytest.mark.parametrize(
    "variables, said",
    [
        ({"ANTHROPIC_API_KEY": "a\nb"}, "ANTHROPIC_API_KEY contains a space, a line break or another character"),
        ({"ANTHROPIC_AUTH_TOKEN": "ä"}, "ANTHROPIC_AUTH_TOKEN contains a space, a line break or another character"),
        ({"ANTHROPIC_API_KEY": ""}, "ANTHROPIC_API_KEY is set but empty; set it"),
        ({"ANTHROPIC_API_KEY": " \n"}, "ANTHROPIC_API_KEY is set but empty; set it"),
        (
            {"CLAUDE_CODE_USE_BEDROCK": "1"},
            "CLAUDE_CODE_USE_BEDROCK is for Amazon Bedrock, which Parley does not support",
        ),
        ({"CLAUDE_CODE_USE_VERTEX": "true"}, "Google Vertex AI, which Parley does not support; set ANTHROPIC_API_KEY"),
        ({"CLAUDE_CODE_USE_FOUNDRY": "1", "ANTHROPIC_API_KEY": ""}, "Microsoft Foundry, which Parley does not support"),
    ],
)
def test_a_variable_that_is_no_login_is_told_as_such(variables: dict[str, str], said: str) -> None:
    line = lacking(SUBSCRIPTION, variables)

    assert line.startswith("Claude Code has no login that Parley can use: ")
    assert said in line
    assert "\n" not in line


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"apiKeyHelper": "/bin/key"}, "apiKeyHelper in ~/.claude/settings.json is a program that Parley does not run"),
        ({"env": {"ANTHROPIC_API_KEY": "k"}}, "ANTHROPIC_API_KEY in ~/.claude/settings.json is not read by Parley"),
        ({"env": {"CLAUDE_CODE_USE_BEDROCK": 1}}, "in ~/.claude/settings.json is for Amazon Bedrock"),
        ({"env": {"CLAUDE_CODE_USE_BEDROCK": "0"}}, "Claude Code has no login: set ANTHROPIC_API_KEY"),
        ({"env": ["ANTHROPIC_API_KEY"]}, "Claude Code has no login: set ANTHROPIC_API_KEY"),
        (["odd"], "Claude Code has no login: set ANTHROPIC_API_KEY"),
    ],
)
def test_a_login_of_claude_code_s_own_that_parley_can_t_use_is_named(
    tmp_path: Path, settings: object, said: str
) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_text(json.dumps(settings))

    assert said in lacking(SUBSCRIPTION, {"HOME": str(tmp_path)})


def test_a_key_that_claude_code_keeps_is_named(tmp_path: Path) -> None:
    (tmp_path / ".claude.json").write_text('{"primaryApiKey": "sk-kept"}')

    said = lacking(NONE, {"HOME": str(tmp_path)})

    assert "the key in ~/.claude.json is Claude Code's own, and Parley does not read it; set ANTHROPIC_API_KEY" in said
    assert "sk-kept" not in said


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from(["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"]), st.text()
    ),
    st.booleans(),
)
def test_what_is_used_can_go_into_a_header_and_what_is_not_is_one_line(
    variables: dict[str, str], allowed: bool
) -> None:
    given_settings = ClaudeSettings(subscription=allowed)
    login = find_login(given_settings, variables)

    assert (login is None) == bool(lacking(given_settings, variables))
    if login is None:
        assert "\n" not in lacking(given_settings, variables)
    else:
        assert all(value.isascii() and value.isprintable() and value for value in login.headers.values())
        assert variables[login.origin].strip() in "".join(login.headers.values())


def test_without_a_login_there_is_one_clear_line() -> None:
    assert available(NONE, {}) is None
    assert find_login(NONE, {"ANTHROPIC_API_KEY": "a\nb"}) is None
    assert lacking(NONE, {}).startswith("Claude Code has no login: set ANTHROPIC_API_KEY")
    assert "\n" not in lacking(NONE, {})
    assert lacking(NONE, {"ANTHROPIC_API_KEY": "k"}) == ""


def test_asking_whether_it_is_available_loads_nothing_of_the_sdk() -> None:
    code = (
        "import sys; from parley.runners.claude import available; from parley.settings.schema import ClaudeSettings;"
        "assert available(ClaudeSettings(), {'ANTHROPIC_API_KEY': 'k'}) is not None;"
        "print(sorted(name for name in sys.modules if name.startswith(('claude_agent', 'mcp', 'anyio', 'asyncio'))))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_a_missing_extra_is_one_clear_line() -> None:
    code = (
        "import sys; sys.modules['claude_agent_sdk'] = None\n"
        "from parley.runners.claude import claude_runner, lacking, ClaudeError\n"
        "from parley.settings.schema import ClaudeSettings\n"
        "print(lacking(ClaudeSettings(), {}))\n"
        "try: claude_runner(ClaudeSettings(), None, {})\n"
        "except ClaudeError as error: print(error)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    wanted = f"Claude Code needs the extra `claude`; install it: {installation.read().command('claude')}"
    assert done.stdout.splitlines() == [wanted] * 2


# ---- the program ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2.0.9", "2.2.0", "3.1.400", "nonsense"])
def test_the_sdk_s_own_program_is_run_where_the_path_has_none_that_fits(tmp_path: Path, version: str) -> None:
    fake = tmp_path / "claude"
    fake.write_text(f"#!/bin/sh\n# node\necho '{version} (Claude Code)'\n")
    fake.chmod(0o755)

    found = find_program(NONE, {"PATH": f"{tmp_path}:/usr/bin:/bin"})

    assert (found.origin, found.version) == ("the SDK's own", OLDEST)
    assert found.command == ("/opt/claude/claude",)
    assert [(bind.target, bind.writable) for bind in found.binds] == [("/opt/claude/claude", False)]


def test_a_script_for_node_is_run_by_the_machine_s_node(tmp_path: Path) -> None:
    if shutil.which("node", path="/usr/bin:/usr/local/bin") is None:
        pytest.skip("there is no node; the program that comes with the SDK needs none")
    fake = tmp_path / "claude"
    fake.write_text("#!/usr/bin/env node\nconsole.log('2.1.400 (Claude Code)')\n")
    fake.chmod(0o755)

    found = find_program(NONE, {"PATH": f"{tmp_path}:/usr/bin:/bin"})

    assert found.version == (2, 1, 400)
    assert found.command[0].endswith("/node")
    assert found.command[1] == str(fake)
    assert [bind.source for bind in found.binds] == [str(fake)]


def test_a_program_on_the_path_is_run_where_its_version_fits(tmp_path: Path) -> None:
    bundled = find_program(NONE, {"PATH": ""}).binds[0].source
    (tmp_path / "claude").symlink_to(bundled)

    found = find_program(NONE, {"PATH": str(tmp_path)})

    assert found.origin == str(tmp_path / "claude")
    assert found.binds[0].source == os.path.realpath(bundled)


def test_a_program_that_was_named_has_to_fit(tmp_path: Path) -> None:
    with pytest.raises(ClaudeError, match=r"\[claude\] path: .* is not a usable Claude Code; give one of 2.1"):
        find_program(ClaudeSettings(path=str(tmp_path / "absent")), {})


# ---- settings ------------------------------------------------------------------------------------


def test_settings_are_read(tmp_path: Path) -> None:
    (tmp_path / "parley.toml").write_text(
        '[claude]\npath = "/opt/x"\nsubscription = true\nmodel = "opus"\nwarm = 2\nmax_retries = 5\n'
    )

    assert read(tmp_path).claude == ClaudeSettings(
        path="/opt/x", subscription=True, model="opus", warm=2, max_retries=5
    )


@pytest.mark.parametrize(
    "line", ['subscription = "yes"', "path = 1", 'model = "-x"', "warm = 0", "max_retries = 99", "other = 1"]
)
def test_settings_that_can_t_be_used_are_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "parley.toml").write_text(f"[claude]\n{line}\n")

    with pytest.raises(DocumentError, match=rf"\[claude\] {line.split(maxsplit=1)[0]}: "):
        read(tmp_path)


# ---- handles and sessions ------------------------------------------------------------------------


def test_a_handle_comes_back_as_it_went() -> None:
    handle = SessionHandle.new("dispatch:d1").after("6427428c-580f-4955-846e-ce6c11427295", 100, 0.5)

    assert SessionHandle.of(order(handle.text())) == handle
    assert SessionHandle.of(order(handle.text(), "dispatch:d2")) == SessionHandle()


@settings(max_examples=50)
@given(
    st.text(max_size=20)
    | st.dictionaries(st.sampled_from(list(SessionHandle().document())), st.none() | st.text(max_size=5)).map(
        json.dumps
    )
)
def test_a_handle_that_is_not_understood_is_none(text: str) -> None:
    assert SessionHandle.of(order(text)) == SessionHandle()


@pytest.mark.parametrize(
    "change", [{"session": "../../x"}, {"session": 7}, {"size": -1}, {"last": "x"}, {"context": 2.0}, {"size": "x"}]
)
def test_a_handle_with_something_odd_in_it_is_none(change: dict[str, Any]) -> None:
    good = SessionHandle.new("dispatch:d1").after("6427428c-580f-4955-846e-ce6c11427295", 100, 0.5)

    assert SessionHandle.of(order(json.dumps(good.document() | change))) == SessionHandle()


@settings(max_examples=40)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.data())
def test_a_session_is_put_back_to_any_entry(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], data: st.DataObject
) -> None:
    home = tmp_path_factory.mktemp("home")
    folder = home / ".claude/projects/-w"
    folder.mkdir(parents=True)
    session, file = "s1", folder / "s1.jsonl"
    lines = [
        json.dumps({"parentUuid": f"u{n - 1}", "uuid": f"u{n}", "x": "y" * size}, separators=(",", ":"))
        for n, size in enumerate(sizes)
    ]
    chosen = data.draw(st.integers(0, len(lines) - 1))
    marks = []
    for number, line in enumerate(lines):
        with file.open("a") as stream:
            stream.write(line + "\n")
        marks.append(AgentHome(str(home)).mark(session, f"u{number}"))
    assert AgentHome(str(home)).mark(session, "u99") is None

    assert AgentHome(str(home)).put_back(session, f"u{chosen}", marks[chosen] or 0)

    assert file.read_text().splitlines() == lines[: chosen + 1]
    assert not AgentHome(str(home)).put_back(session, "u99", marks[chosen] or 0)
    assert not AgentHome(str(home)).put_back(session, f"u{chosen}", 10_000)


# ---- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "result, wait, before, hard, parked",
    [
        ({"api_error_status": 429}, None, 0, False, 30.0),
        ({"api_error_status": 429}, 12.0, 3, False, 12.0),
        ({"api_error_status": 529}, None, 2, False, 120.0),
        ({"api_error_status": 503}, None, 99, False, 900.0),
        ({"api_error_status": 500}, None, 0, False, 30.0),
        ({"api_error_status": 401}, None, 0, True, 0.0),
        ({"api_error_status": 403}, None, 0, True, 0.0),
        ({"api_error_status": 402}, None, 0, True, 0.0),
        ({"api_error_status": 404}, None, 0, True, 0.0),
        ({"api_error_status": 400, "result": "Your credit balance is too low"}, None, 0, True, 0.0),
        ({"api_error_status": 400}, None, 0, False, 0.0),
        ({"terminal_reason": "prompt_too_long"}, None, 0, False, 0.0),
        ({"subtype": "error_during_execution", "errors": ["a", "b\nc"]}, None, 0, False, 0.0),
        ({"result": ["odd"]}, None, 0, False, 0.0),
    ],
)
def test_what_a_result_that_is_an_error_means(
    result: dict[str, Any], wait: float | None, before: int, hard: bool, parked: float
) -> None:
    fault = fault_of({"is_error": True, **result}, wait, before)

    assert fault is not None
    assert (fault.hard, fault.parked_seconds) == (hard, parked)
    assert "\n" not in fault.text
    assert fault_of({**result, "is_error": False}, wait, before) is None


def test_usage_survives_whatever_is_in_it() -> None:
    odd: list[dict[str, Any]] = [
        {},
        {"model_usage_since_last_result": 3},
        {"model_usage_since_last_result": {"m": {"costUSD": "x"}}},
    ]

    assert set(usage_of(odd, 0.1).values()) == {0.0, 0.1, 1.0}


@given(st.one_of(st.floats(), st.integers(), st.just(10**400), st.booleans(), st.text(), st.none()))
def test_what_was_used_is_never_below_zero_or_without_end(value: object) -> None:
    result = {"model_usage_since_last_result": {"m": {"inputTokens": value, "costUSD": value}}}

    used = usage_of([result, result], 0.0)

    assert all(0 <= number < math.inf for number in (used["input_tokens"], used["cost_usd"]))


def test_a_limit_lasts_no_longer_than_anybody_asks_for() -> None:
    event = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1e12}}
    assert limit_of(event) == 7 * 86400


def test_notes_are_the_order_s_and_bounded() -> None:
    assert project_notes(OrderedRole(notes="Tabs.")) == "# Project notes (CLAUDE.md)\nTabs."
    assert project_notes(OrderedRole()) == project_notes(OrderedRole(notes=" \n")) == ""
    assert len(project_notes(OrderedRole(notes="ä" * 30_000)).encode()) < NOTES_LIMIT + 100


def test_how_long_a_limit_lasts() -> None:
    rejected = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": time.time() + 100}}

    assert limit_of(rejected) == pytest.approx(100, abs=2)
    assert limit_of({"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}}) is None
    assert [wait_of(text) for text in ("2", "0.5", "", "-1", "nan", "Wed, 21 Oct 2026 07:28:00 GMT")] == [
        2,
        0.5,
        *[None] * 4,
    ]


# ---- signs of life -------------------------------------------------------------------------------


def test_the_use_of_a_tool_is_told_from_its_beginning_to_its_result() -> None:
    told: list[TurnEvent] = []
    turn = ClaudeTurn(order(""), told.append)
    first, second = (
        ToolUseBlock("u1", "Bash", {"command": "make"}),
        ToolUseBlock("u2", "mcp__parley__Send", {"to": "x"}),
    )

    turn.take_in(AssistantMessage([TextBlock("I look"), first, second], "model"))
    turn.take_in(UserMessage([ToolResultBlock("u2", "taken"), ToolResultBlock("nobody's", "?")]))
    said: list[dict[str, Any]] = [
        {"type": "text", "text": "no rule\nto make it"},
        {"type": "image"},
        {"type": "text", "text": 7},
    ]
    turn.take_in(UserMessage([ToolResultBlock("u1", said, is_error=True)]))

    assert [(p.text, p.tool, p.use, p.over, p.result, p.failed) for p in told if isinstance(p, Progress)] == [
        ("I look", "", "", False, "", False),
        ("make", "Bash", "u1", False, "", False),
        ("x", "Send", "u2", False, "", False),
        ("", "Send", "u2", True, "taken", False),
        ("", "Bash", "u1", True, "no rule\nto make it\n(image)", True),
    ]
