"""The settings of agents: what they mean, and that every mistake is one clear line."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley import config
from parley.adapters.command import agents, codex
from parley.adapters.command.output import CodexJson, Text, parked, seconds_of
from parley.adapters.command.runner import instructions
from parley.config import ConfigError
from parley.ports import Bind
from tests.command.stage import Stage

ROOT = Path(__file__).resolve().parents[2]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from((*agents._KEYS, "upstream", "unknown"))


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

    read = agents.read(config.read(tmp_path).agents, tmp_path)

    other = read["other"]
    assert sorted(read) == ["codex", "other"]
    assert other.command == ("other", "run", "{message_file}")
    assert other.environment == {"LANG": "$LANG"}
    assert other.binds == (Bind(str(tmp_path / "tools"), str(tmp_path / "tools")),)
    assert other.way == agents.Way(
        "https://api.example.org", {"Authorization": "Bearer $KEY"}, ("/v1/*",), (), ("GET",)
    )


def test_codex_needs_no_settings() -> None:
    preset = agents.read({}, Path("/nowhere"))["codex"]

    assert preset.output == "codex-json"
    assert preset.way == agents.Way(codex.UPSTREAM, {"Authorization": "Bearer $OPENAI_API_KEY"}, ("/v1/responses",))


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
    with pytest.raises(ConfigError) as caught:
        agents.read(tomllib.loads(text)["agents"], tmp_path)

    assert problem in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/parley.toml: [agents.")
    assert "; " in str(caught.value)
    assert "\n" not in str(caught.value)


@given(
    st.dictionaries(st.sampled_from(("x", "codex", "Y")), JSON | st.dictionaries(KEYS, JSON, max_size=4), max_size=2)
)
def test_whatever_the_settings_hold_they_are_read_or_refused_in_a_line(tables: dict[str, Any]) -> None:
    root = Path("/nowhere")
    try:
        read = agents.read(tables, root)
    except ConfigError:
        with pytest.raises(ConfigError, match=r"^/nowhere/parley\.toml: \[agents\."):
            agents.read(tables, root)
    else:
        assert all(isinstance(agents.problem(agent), str) for agent in read.values())


@given(st.text(), st.lists(st.booleans()), st.dictionaries(st.from_regex(r"[a-z_]{1,9}", fullmatch=True), st.text()))
def test_values_are_written_as_toml_reads_them(text: str, flags: list[bool], table: dict[str, str]) -> None:
    value = {"text": text, "flags": flags, "table": table, "number": 7}

    assert tomllib.loads("\n".join(f"{key} = {codex.toml(one)}" for key, one in value.items())) == value


@settings(max_examples=50)
@given(st.lists(st.binary(max_size=300) | JSON.map(lambda value: str(value).encode()), max_size=6))
def test_whatever_a_program_says_is_heard_without_harm(parts: list[bytes]) -> None:
    told: list[tuple[object, ...]] = []
    for output in (CodexJson(lambda *said: told.append(said)), Text(r"session (\S+)")):
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
    output = CodexJson(lambda *_: None)
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
    output = Text(r"id: (\w+)")
    for start in range(0, len(said), 65536):
        output.take(said[start : start + 65536])

    assert output.session == session


def test_an_agent_is_told_who_it_is(tmp_path: Path) -> None:
    here = Stage(tmp_path, {})
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

    read = agents.read(config.read(tmp_path).agents, tmp_path)

    assert set(tomllib.loads(text)["agents"]) <= set(read)


def test_the_guide_names_every_setting() -> None:
    said = {key for text in blocks("toml") for table in tomllib.loads(text)["agents"].values() for key in table}

    assert said == set(agents._KEYS)


def test_the_use_of_a_tool_is_told_from_its_beginning_to_its_end() -> None:
    told: list[tuple[object, ...]] = []
    output = CodexJson(lambda *said: told.append(said))
    for line in (
        '{"type": "item.started", "item": {"id": "i1", "type": "command_execution", "command": "make"}}',
        '{"type": "item.started", "item": {"id": "i2", "type": "mcp_tool_call", "tool": "Send"}}',
        '{"type": "item.completed", "item": {"id": "i2", "type": "mcp_tool_call", "tool": "Send"}}',
        (
            '{"type": "item.completed", "item": {"id": "i1", "type": "command_execution", "command": "make",'
            ' "exit_code": 0}}'
        ),
        '{"type": "item.completed", "item": {"id": "i3", "type": "agent_message", "text": "done"}}',
    ):
        output.take(line.encode() + b"\n")

    assert told == [
        ("shell make", "shell", "i1", False),
        ("tool Send", "Send", "i2", False),
        ("", "Send", "i2", True),
        ("shell make: exit 0", "shell", "i1", True),
        ("done", "", "i3", True),
    ]
