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
    "text.py": "the boundary itself",
    "adapters/nodes.py": "YAML's own way in: its depth and its nodes are bounded there",
    "adapters/bus_keys.py": OWN,
    "adapters/claude/login.py": USERS,
    "adapters/claude/prompt.py": OWN,
    "adapters/command/bridge.py": INSIDE,
    "adapters/command/caller.py": INSIDE,
    "adapters/command/runner.py": OWN,
    "adapters/command/turn.py": OWN,
    "adapters/notices/outbox.py": OWN,
    "adapters/notices/post.py": OWN,
    "adapters/playing.py": OWN,
    "adapters/roles/dress.py": OWN,
    "adapters/scripted.py": INSIDE,
    "adapters/worktrees/history.py": OWN,
    "adapters/worktrees/known.py": OWN,
    "adapters/worktrees/marks.py": OWN,
    "adapters/worktrees/placement.py": OWN,
    "adapters/worktrees/workspace.py": OWN,
    "workflow/checking.py": ROWS,
    "workflow/pending.py": ROWS,
    "workflow/slots.py": ROWS,
}
MAY_PARSE_BELOW = {"engine": ROWS, "faces": "rows of the bus, or files of the user's"}
# The modules at which something of an agent's comes in. Here nothing is decoded by hand either.
CHANNELS = (
    "adapters/claude/handle.py",
    "adapters/claude/wire.py",
    "adapters/command/hatch.py",
    "adapters/command/output.py",
    "adapters/command/turn.py",
    "adapters/outcome.py",
    "adapters/playing.py",
    "engine/intake.py",
    "engine/calls.py",
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
        if lines and name not in MAY_PARSE and name.partition("/")[0] not in MAY_PARSE_BELOW:
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
