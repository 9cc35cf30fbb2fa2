"""Who may write where."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from parley.workflow.model.terms import Plan, Task, Worker
from parley.workflow.paths.ownership import claim_on_reserved, owner_of, refuse_write, reserved
from parley.workflow.paths.patterns import matches, overlap, problem
from tests.workflow.reference_globs import paths, patterns

PLAN = Plan(
    task="shop",
    goal="a shop",
    workers={
        "db": Worker("db", Task.DOER, "coder", owns=("db/**", "tests/db"), forbids=("db/secrets/**",)),
        "api": Worker("api", Task.DOER, "coder", owns=("src/api/*.py", "café/**")),
        "web": Worker("web", Task.DOER, "coder", owns=("web/",), forbids=("src/**",)),
        "judge": Worker("judge", Task.VERIFIER, "reviewer"),
    },
    stages=(("db",), ("api", "web")),
)
HOME = "orchestration/agents"


@pytest.mark.parametrize(
    "agent, path",
    [
        ("db", "db/schema.sql"),
        ("db", "tests/db"),
        ("db", "tests/db/test_schema.py"),
        ("api", "src/api/users.py"),
        ("api", "café/menu.txt"),
        ("api", "cafe\u0301/menu.txt"),
        ("db", f"{HOME}/db/task_output/schema.sql"),
        ("judge", f"{HOME}/judge/task_output/report.md"),
        ("newcomer", f"{HOME}/newcomer/task_output/decision.md"),
        ("db", f"{HOME}/db/completion_drive/session_current.json"),
        ("db", "orchestration/shared_status.json"),
    ],
)
def test_an_agent_writes_what_it_owns_and_its_own_part_of_the_coordination(agent: str, path: str) -> None:
    assert refuse_write(PLAN, agent, path) is None


@pytest.mark.parametrize(
    "agent, path, words",
    [
        ("api", "db/schema.sql", ["belongs to db", "db owns db/**", "category scope"]),
        ("web", "tests/db/x", ["belongs to db", "tests/db"]),
        ("db", "db/secrets/key", ["forbidden to db", "forbids db/secrets/**"]),
        ("web", "src/api/users.py", ["forbidden to web", "forbids src/**", "belongs to api"]),
        ("api", "src/api/deep/users.py", ["has no owner", "api owns src/api/*.py"]),
        ("judge", "db/schema.sql", ["belongs to db"]),
        ("judge", "README.md", ["has no owner", "judge owns nothing"]),
        ("db", "db", ["has no owner"]),
        ("web", "cafe\u0301/menu.txt", ["belongs to api"]),
        ("api", f"{HOME}/db/task_output/schema.sql", ["belongs to db", "only db writes"]),
        ("api", f"{HOME}/db/agent_instructions.md", ["belongs to the protocol"]),
        ("db", f"{HOME}/db/agent_instructions.md", ["belongs to the protocol"]),
        ("db", "orchestration/workflow_coordination_plan.md", ["belongs to the protocol", f"{HOME}/db/task_output"]),
        ("db", f"{HOME}/db/task_output", ["belongs to the protocol"]),
        ("db", "PLAN.md", ["belongs to the protocol", "PLAN.md is reserved"]),
        ("db", "intent.MD", ["belongs to the protocol"]),
        ("db", "db/.git/hooks/post-commit", ["belongs to the protocol", ".git"]),
        ("db", "db/.GIT/config", ["belongs to the protocol"]),
        ("db", ".parley/outcome.json", ["belongs to the protocol"]),
        ("db", "db/../web/x", ["is not a path of the tree"]),
        ("db", "./db/x", ["is not a path of the tree"]),
        ("db", "/db/x", ["is not a path of the tree"]),
        ("db", "db//x", ["is not a path of the tree"]),
        ("db", "web/a\nb", ["belongs to web", r"'web/a\nb'"]),
        ("db", "", ["is not a path of the tree"]),
    ],
)
def test_a_refusal_names_the_owner_and_the_rule(agent: str, path: str, words: list[str]) -> None:
    refusal = str(refuse_write(PLAN, agent, path))

    assert [word for word in words if word not in refusal] == []
    assert "\n" not in refusal


@settings(max_examples=60)
@given(patterns.filter(lambda it: not problem(it)), patterns.filter(lambda it: not problem(it)))
def test_of_two_owners_without_overlap_each_path_admits_one_at_most(one: str, other: str) -> None:
    workers = {name: Worker(name, Task.DOER, "coder", owns=(pattern,)) for name, pattern in (("a", one), ("b", other))}
    plan = replace(PLAN, workers=workers)
    for path in paths(3):
        admitted = [name for name in workers if not refuse_write(plan, name, path)]
        assert admitted == [name for name in workers if matches(workers[name].owns[0], path)]
        assert owner_of(plan, path) in {"", *admitted}
        assert len(admitted) < 2 or overlap(one, other) is not None


def test_a_pattern_that_is_none_owns_nothing() -> None:
    plan = replace(PLAN, workers={"db": Worker("db", Task.DOER, "coder", owns=("/db", "x"), forbids=("[",))})

    assert "has no owner" in str(refuse_write(plan, "db", "db/a"))
    assert refuse_write(plan, "db", "x") is None


@pytest.mark.parametrize(
    "path, owner",
    [
        ("db/a", "db"),
        ("web/a/b", "web"),
        ("web", ""),
        (f"{HOME}/web/task_output/x", "web"),
        (f"{HOME}/nobody/task_output/x", ""),
        ("PLAN.md", ""),
        ("orchestration/shared_status.json", ""),
        ("README.md", ""),
    ],
)
def test_each_path_has_one_owner_at_most(path: str, owner: str) -> None:
    assert owner_of(PLAN, path) == owner


@given(st.text(max_size=20))
def test_any_path_gets_an_answer(path: str) -> None:
    refusal = refuse_write(PLAN, "db", path)
    assert refusal is None or str(refusal) == f"{refusal.path} {refusal.reason}"
    assert isinstance(owner_of(PLAN, path), str)
    assert isinstance(reserved(path), str)


@pytest.mark.parametrize(
    "pattern, claimed",
    [
        ("PLAN.md", "PLAN.md"),
        ("{docs,INTENT.md}", "INTENT.md"),
        ("orchestration/**", "orchestration"),
        ("Orchestration/x", "orchestration"),
        ("[o]rchestration/x", "orchestration"),
        (f"{HOME}/api/task_output/**", "orchestration"),
        (f"{HOME}/db/task_output/**", ""),
        (f"{HOME}/db/task_output/schema.sql", ""),
        ("vendor/.git/config", ".git"),
        (".claude/", ".claude"),
        ("**", ""),
        ("*.md", ""),
        ("docs/PLAN.md", ""),
    ],
)
def test_what_the_protocol_keeps_is_claimed_only_by_name(pattern: str, claimed: str) -> None:
    assert claim_on_reserved("db", pattern) == claimed
