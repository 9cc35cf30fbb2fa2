"""The settings of agents: what they mean, and that every mistake is one clear line."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.base.documents.node import TOML, DocumentError, node_of
from parley.ports.turns import Bind
from parley.runners.command import codex, configured_agents
from parley.runners.command.codex import CodexToolEvent
from parley.runners.command.command_runner import instructions
from parley.runners.command.program_output import CodexOutput, TextOutput, parked, seconds_of
from parley.settings import load
from parley.settings.schema import FILE
from tests.command.command_harness import CommandHarness

ROOT = Path(__file__).resolve().parents[2]
TEXT = st.text(st.characters(exclude_characters="\0"), max_size=8)  # a file of settings has no NUL
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from((*configured_agents._KEYS, "upstream", "unknown"))


def test_what_parley_toml_says_of_an_agent_is_read(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "parley.toml").write_text(
        """
        [agents.other]
        command = ["other", "run", "{message_file}"]
        resume = ["other", "run", "--session", "{handle}"]
        environment = ["LANG"]
        handle = 'session (\\S+)'
        binds = ["tools"]
        route.upstream = "https://api.example.org"
        route.headers = { Authorization = "Bearer $KEY" }
        route.paths = ["/v1/*"]
        route.methods = ["GET"]
        """
    )

    read = configured_agents.read(load.read(tmp_path).agents, tmp_path)

    other = read["other"]
    assert sorted(read) == ["codex", "other"]
    assert other.command == ("other", "run", "{message_file}")
    assert other.environment == {"LANG": "$LANG"}
    assert other.binds == (Bind(str(tmp_path / "tools"), str(tmp_path / "tools")),)
    assert other.way == configured_agents.Way(
        upstream="https://api.example.org",
        headers={"Authorization": "Bearer $KEY"},
        paths=("/v1/*",),
        hosts=(),
        methods=("GET",),
    )


def test_codex_needs_no_settings() -> None:
    preset = configured_agents.read(node_of({}, "f"), Path("/nowhere"))["codex"]

    assert preset.output == "codex-json"
    assert preset.way == configured_agents.Way(
        codex.UPSTREAM, {"Authorization": "Bearer $OPENAI_API_KEY"}, ("/v1/responses",)
    )


@pytest.mark.parametrize(
    "text, problem",
    [
        ("[agents.Bad]\ncommand = ['x']", "an agent can't have this name"),
        ("[agents.claude]\ncommand = ['x']", "an agent can't have this name"),
        ("[agents]\nx = 1", "it must be a table"),
        ("[agents.x]", "command: it is missing"),
        ("[agents.x]\ncommand = 'x y'", "command: it must be a list of texts"),
        ("[agents.x]\ncommand = ['x']\nfolder = '/y'", "folder: it is for agents without a command of their own"),
        ("[agents.x]\ncommand = ['x']\nhandle = '('", "handle: this is no regular expression"),
        ("[agents.x]\ncommand = ['x']\noutput = 'xml'", "output: 'xml' is not known"),
        ("[agents.x]\ncommand = ['x']\nbinds = ['nowhere']", "is not there"),
        ("[agents.x]\ncommand = ['x']\nenvironment = { PARLEY_TOKEN = 'x' }", "can't be set for an agent"),
        ("[agents.x]\ncommand = ['x']\nenvironment = 7", "environment: it must be names or values"),
        ("[agents.x]\ncommand = ['x']\nroute = { upstream = 'ftp://x', paths = ['/'] }", "is no safe address"),
        ("[agents.x]\ncommand = ['x']\nroute = { upstream = 'http://x.org', paths = ['/'] }", "is no safe address"),
        ("[agents.x]\ncommand = ['x']\nroute = { upstream = 'https://x', paths = ['/*/x'] }", "a path is exact"),
        (
            "[agents.x]\ncommand = ['x']\nroute = { upstream = 'https://x', paths = ['/'], methods = ['get'] }",
            "capitals",
        ),
        ("[agents.x]\ncommand = ['x']\nroute = { upstream = 'https://x' }", "upstream and paths go together"),
        ("[agents.x]\ncommand = ['x']\nroute = { port = 1 }", "port: there is no such setting"),
        ("[agents.codex]\noutput = 'text'", "output: it goes with a command of your own"),
        ("[agents.x]\ncolour = 'red'", "colour: there is no such setting"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_remedy(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(DocumentError) as caught:
        configured_agents.read(load.read(tmp_path).agents, tmp_path)

    assert problem in str(caught.value)
    assert re.match(rf"{tmp_path}/parley\.toml:\d+:\d+: \[agents\.", str(caught.value))
    assert "; " in str(caught.value)
    assert "\n" not in str(caught.value)


@given(
    st.dictionaries(st.sampled_from(("x", "codex", "Y")), JSON | st.dictionaries(KEYS, JSON, max_size=4), max_size=2)
)
def test_whatever_the_settings_hold_they_are_read_or_refused_in_a_line(tables: dict[str, Any]) -> None:
    root, node = Path("/nowhere"), node_of(tables, "/nowhere/parley.toml", TOML)
    try:
        read = configured_agents.read(node, root)
    except DocumentError:
        with pytest.raises(DocumentError, match=r"^/nowhere/parley\.toml:1:1: \[agents\."):
            configured_agents.read(node, root)
    else:
        assert all(isinstance(configured_agents.problem(agent), str) for agent in read.values())


@given(st.text(), st.lists(st.booleans()), st.dictionaries(st.from_regex(r"[a-z_]{1,9}", fullmatch=True), st.text()))
def test_values_are_written_as_toml_reads_them(text: str, flags: list[bool], table: dict[str, str]) -> None:
    value = {"text": text, "flags": flags, "table": table, "number": 7}

    assert tomllib.loads("\n".join(f"{key} = {codex.toml(one)}" for key, one in value.items())) == value


@settings(max_examples=50)
@given(st.lists(st.binary(max_size=300) | JSON.map(lambda value: str(value).encode()), max_size=6))
def test_whatever_a_program_says_is_heard_without_harm(parts: list[bytes]) -> None:
    told: list[tuple[object, ...]] = []
    for output in (CodexOutput(lambda *said: told.append(said)), TextOutput(r"session (\S+)")):
        for part in parts:
            output.take(part)
        output.take(b"\n")
        usage, _ = output.usage({})
        assert usage["turns"] == 1
        assert "\0" not in output.text()


@pytest.mark.parametrize(
    "line",
    [
        b'{"type": "item.completed", "item": 7}',
        b'{"type": "item.completed", "item": {"type": "file_change", "changes": 3}}',
        b'{"type": "turn.completed", "usage": {"input_tokens": "many", "output_tokens": true, "x": 1e400}}',
        b'{"type": "turn.failed"}',
        b'{"type": ["error"]}',
        b"[" * 100_000,
    ],
)
def test_events_that_are_not_as_they_should_be_do_no_harm(line: bytes) -> None:
    output = CodexOutput(lambda *_: None)
    output.take(line + b"\n" + b'{"type": "item.completed", "item": {"type": "agent_message", "text": "after"}}\n')

    assert output.text() == "after"


@pytest.mark.parametrize(
    "text, seconds",
    [
        ("exceeded retry limit, last status: 429 Too Many Requests", 60.0),
        ("Rate limit reached. Please try again in 300ms.", 0.3),
        ("usage limit: try again in 99 h", 6 * 3600.0),
        ("context window", 0.0),
        ("line 4290", 0.0),
    ],
)
def test_a_limit_is_known_by_its_words(text: str, seconds: float) -> None:
    assert parked(text) == seconds


@pytest.mark.parametrize(
    "header, seconds",
    [("7", 7.0), ("1.5", 1.5), ("999999", 6 * 3600.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0), ("-1", 0.0), ("", 0.0)],
)
def test_how_long_to_wait_is_read_from_the_header(header: str, seconds: float) -> None:
    assert seconds_of(header) == seconds


@pytest.mark.parametrize(
    "said, session",
    [(b"id: a1\n" + b"x" * 3_000_000, "a1"), (b"x" * 3_000_000 + b"\nid: a2\n", "a2"), (b"none", ""), (b"id: ", "")],
    ids=["at the beginning", "at the end", "nowhere", "empty"],
)
def test_a_session_is_found_at_either_end_of_what_was_said(said: bytes, session: str) -> None:
    output = TextOutput(r"id: (\w+)")
    for start in range(0, len(said), 65536):
        output.take(said[start : start + 65536])

    assert output.session == session


def test_an_agent_is_told_who_it_is(tmp_path: Path) -> None:
    here = CommandHarness(tmp_path, {})
    try:
        assert instructions(here.order("x", "m")) == "You are `coder`.\n\nWrites code.\n\nDo as you are asked."
        assert instructions(here.order("x", "m", role="{}")) == "You are `coder`."
    finally:
        here.close()


def blocks(language: str) -> list[str]:
    """The code blocks of a language in the guide."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / "agents.md").read_text(), re.DOTALL)


def test_the_guides_script_is_the_one_of_the_examples() -> None:
    assert blocks("sh") == [(ROOT / "examples" / "notes.sh").read_text()]


@pytest.mark.parametrize("text", blocks("toml"))
def test_every_setting_of_the_guide_can_be_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "parley.toml").write_text(text)

    read = configured_agents.read(load.read(tmp_path).agents, tmp_path)

    assert set(tomllib.loads(text)["agents"]) <= set(read)


def test_the_guide_names_every_setting() -> None:
    said = {key for text in blocks("toml") for table in tomllib.loads(text)["agents"].values() for key in table}

    assert said == set(configured_agents._KEYS)


def test_the_use_of_a_tool_is_told_from_its_beginning_to_its_end() -> None:
    told: list[tuple[object, ...]] = []
    output = CodexOutput(lambda *said: told.append(said))
    for line in (
        '{"type": "item.started", "item": {"id": "i1", "type": "command_execution", "command": "make"}}',
        '{"type": "item.started", "item": {"id": "i2", "type": "mcp_tool_call", "tool": "Send"}}',
        (
            '{"type": "item.completed", "item": {"id": "i2", "type": "mcp_tool_call", "tool": "Send",'
            ' "result": {"content": [{"type": "text", "text": "will be sent"}]}, "status": "completed"}}'
        ),
        (
            '{"type": "item.completed", "item": {"id": "i1", "type": "command_execution", "command": "make",'
            ' "aggregated_output": "no rule\\n", "exit_code": 2}}'
        ),
        (
            '{"type": "item.completed", "item": {"id": "i4", "type": "file_change", "changes": [{"path": "a.py"}],'
            ' "status": "completed"}}'
        ),
        (
            '{"type": "item.completed", "item": {"id": "i5", "type": "mcp_tool_call", "tool": "Send",'
            ' "error": {"message": "no such role"}, "status": "failed"}}'
        ),
        '{"type": "item.completed", "item": {"id": "i3", "type": "agent_message", "text": "done"}}',
    ):
        output.take(line.encode() + b"\n")

    assert told == [
        ("make", CodexToolEvent("shell", "i1")),
        ("", CodexToolEvent("Send", "i2")),
        ("", CodexToolEvent("Send", "i2", over=True, result="will be sent")),
        ("make", CodexToolEvent("shell", "i1", over=True, result="no rule", failed=True)),
        ("a.py", CodexToolEvent("edit", "i4", over=True)),
        ("", CodexToolEvent("Send", "i5", over=True, result="no such role", failed=True)),
        ("done", None),
    ]
