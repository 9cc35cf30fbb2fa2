"""Nothing that an agent makes is parsed or decoded beside the boundary for text: each exception has its reason."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src/parley"
PARSERS = {"json": {"load", "loads"}, "yaml": {"load", "safe_load", "load_all", "full_load", "unsafe_load"}}

ROWS = "rows of the bus: what goes into them has passed the boundary"
OWN = "a file or a line that only Parley writes, where no agent can"
USERS = "a file of the user's, outside every cage"
INSIDE = "it runs inside the cage, as the agent: nothing of it is trusted outside"
MAY_PARSE = {
    "base/text.py": "the boundary itself",
    "bus/key_files.py": OWN,
    "bus/slots.py": ROWS,
    "features/notices/handover.py": OWN,
    "features/notices/post.py": OWN,
    "runners/claude/login.py": USERS,
    "runners/command/mcp_bridge.py": INSIDE,
    "runners/command/tool_caller.py": INSIDE,
    "runners/scripted/agent_process.py": INSIDE,
    "runners/scripted/scripted_runner.py": OWN,
    "workflow/model/pending_notes.py": ROWS,
    "workspaces/delivery/file_placement.py": OWN,
    "workspaces/files/known_blobs.py": OWN,
    "workspaces/job_repository.py": OWN,
    "workspaces/job_workspaces.py": OWN,
    "workspaces/workspace_marks.py": OWN,
}
FACES = "rows of the bus, or files of the user's"
MAY_PARSE_BELOW = {
    "audit/": ROWS,
    "cli/": FACES,
    "engine/": ROWS,
    "features/auto_answer.py": ROWS,
    "features/budgets/": ROWS,
    "features/proxy/": ROWS,
    "features/secrets/": ROWS,
    "tui/": FACES,
    "views/": ROWS,
    "workflow/host/": ROWS,
}
# The modules at which something of an agent's comes in. Here nothing is decoded by hand either.
CHANNELS = (
    "runners/claude/session_handle.py",
    "runners/claude/transport.py",
    "runners/command/tool_socket.py",
    "runners/command/program_output.py",
    "runners/command/command_turn.py",
    "workspaces/outcome_record.py",
    "runners/scripted/agent_lines.py",
    "runners/scripted/scripted_runner.py",
    "engine/turn/finish.py",
    "engine/turn/progress.py",
    "engine/turn/calls.py",
)


def parsed(source: str) -> Iterator[str]:
    """Each call of a parser in a module, with its line."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)) if name in PARSERS.get(module, ()):
                yield f"line {node.lineno}: {module}.{name}"
            case _:
                pass


def decoded(source: str) -> Iterator[str]:
    """Each place where a module makes text of bytes, with its line."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr="decode" | "read_text" as name)):
                yield f"line {node.lineno}: {name}"
            case _:
                pass


def test_only_what_has_a_reason_is_parsed_beside_the_boundary() -> None:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        lines = list(parsed(path.read_text("utf-8")))
        if lines and name not in MAY_PARSE and not name.startswith(tuple(MAY_PARSE_BELOW)):
            found[name] = lines

    assert found == {}


def test_every_exception_is_one() -> None:
    modules = [SOURCE / name for name in MAY_PARSE]

    assert [path.name for path in modules if not list(parsed(path.read_text("utf-8")))] == []


@pytest.mark.parametrize("name", CHANNELS)
def test_where_an_agent_is_heard_nothing_is_decoded_by_hand(name: str) -> None:
    assert list(decoded((SOURCE / name).read_text("utf-8"))) == []


@pytest.mark.parametrize(
    "source, found",
    [
        ("json.loads(line)", ["line 1: json.loads"]),
        ("yaml.safe_load(text)", ["line 1: yaml.safe_load"]),
        ("read_json(line, 10)", []),
    ],
)
def test_parsers_are_found(source: str, found: list[str]) -> None:
    assert list(parsed(source)) == found
