"""A plan is read as its format says; what is wrong with the file is told with its line, all of it at once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from parley.workflow.files.plan import read_plan, render_plan
from parley.workflow.files.reading import plan_reader
from parley.workflow.files.reading.finding_reader import MOST_FINDINGS
from parley.workflow.model.terms import PLAN, Acceptance, Plan, Remedy, Task
from tests.workflow.plan_strategies import PLAN_TEXT, mutations, plans


def bare(plan: Plan | None) -> Plan:
    """A plan without what only its file knows."""
    assert plan is not None
    workers = {name: replace(worker, line=0) for name, worker in plan.workers.items()}
    checkpoints = tuple(replace(checkpoint, line=0) for checkpoint in plan.checkpoints)
    return replace(plan, text="", workers=workers, checkpoints=checkpoints)


@settings(max_examples=25)
@given(plans())
def test_what_is_written_is_read_again(plan: Plan) -> None:
    read, findings = read_plan(render_plan(plan))

    assert findings == []
    assert bare(read) == plan
    assert list(bare(read).workers) == list(plan.workers)


@settings(max_examples=25)
@given(plans())
def test_writing_what_was_read_changes_nothing(plan: Plan) -> None:
    text = render_plan(plan)
    read, _ = read_plan(text)

    assert read is not None
    assert render_plan(read) == text


@settings(max_examples=25)
@given(st.data())
def test_whatever_happens_to_a_plan_it_is_read_or_told_with_a_line(data: st.DataObject) -> None:
    text = data.draw(mutations(PLAN_TEXT))
    plan, findings = read_plan(text)

    assert plan is not None or findings
    for finding in findings:
        assert 0 < finding.line <= text.count("\n") + 1
        assert "\n" not in str(finding)
        assert finding.file == PLAN
        assert finding.text
        assert finding.remedy


@settings(max_examples=25)
@given(st.text())
def test_any_text_is_read_or_told(text: str) -> None:
    plan, findings = read_plan(text)

    assert plan is not None or findings


def test_a_plan_says_who_does_what() -> None:
    plan, findings = read_plan(PLAN_TEXT)

    assert findings == []
    assert plan is not None
    assert plan.stages == (("database_agent",), ("api_agent", "frontend_agent"))
    database, api = plan.workers["database_agent"], plan.workers["api_agent"]
    assert database.outputs == api.inputs == ("orchestration/agents/database_agent/task_output/schema.sql",)
    assert database.acceptance == Acceptance("The schema loads", ("python -m pytest -q tests/db",))
    assert (database.role, api.role) == ("coder", "api_agent")
    assert (database.time_limit_seconds, database.on_stall, database.line) == (900.0, Remedy.RESCOPE, 8)
    assert api.acceptance.text == "The endpoints answer"
    assert plan.workers["database_verifier"].task is Task.VERIFIER
    assert plan.checkpoints[0].line == 37
    assert plan.text == PLAN_TEXT
    assert render_plan(plan).endswith("\n# User management\n\nIn words.\n")


def test_lines_may_end_as_on_other_systems_and_begin_with_a_mark() -> None:
    plan, findings = read_plan("\ufeff" + PLAN_TEXT.replace("\n", "\r\n"))

    assert findings == []
    assert bare(plan) == bare(read_plan(PLAN_TEXT)[0])


def test_a_folder_named_agents_that_is_not_the_workflows_is_left_alone() -> None:
    plan, _ = read_plan(PLAN_TEXT.replace('"api/**"', '"agents/**", agents/api.py, agents/api_agent/task_output/**'))

    assert plan is not None
    assert plan.workers["api_agent"].owns == (
        "agents/**",
        "agents/api.py",
        "orchestration/agents/api_agent/task_output/**",
    )


WRONG = [
    ("---\n", "", 1, "front-matter", "there is no front matter"),
    ("---\n\n# User", "\n# User", 43, "front-matter", "the front matter does not end"),
    ("task: user_management\n", "", 1, "missing-key", "no 'task'"),
    ("task: user_management", "task: [a]", 2, "wrong-value", "task must be a text"),
    ("task: user_management", "task: User Management", 2, "wrong-value", "'User Management'"),
    ("goal: Users can be kept and listed", "goal:", 3, "wrong-value", "goal is empty"),
    ("goal: Users", "goal: one\ngoal: Users", 4, "duplicate-key", "'goal' is given twice"),
    ("goal: Users", "gaol: Users", 3, "unknown-key", "'gaol'"),
    ("  - [database_agent]\n", "  - []\n", 5, "wrong-value", "a stage is empty"),
    ("  - [database_agent]\n", "  - {a: b}\n", 5, "wrong-value", "a stage must be a list"),
    ("  - [database_agent]\n", "  - [x, x]\n", 5, "duplicate-item", "'x' stands twice"),
    ("  api_agent:", "  database_agent:", 21, "duplicate-key", "'database_agent' is given twice"),
    ("  api_agent:", "  Api Agent:", 21, "wrong-name", "'Api Agent'"),
    ("  api_agent:", "  ../../etc:", 21, "wrong-name", "'../../etc'"),
    ("  api_agent:", "  proxy:", 21, "wrong-name", "proxy is a part of the protocol"),
    ("    role: coder", "\trole: coder", 9, "front-matter", "a tab stands where YAML allows only spaces"),
    ("    role: coder", "    roel: coder", 9, "unknown-key", "'roel' is not a key of agent database_agent"),
    ("    role: coder", "    role: coder\n    role: tester", 10, "duplicate-key", "'role' is given twice"),
    ("    role: coder", "    null: coder", 9, "unknown-key", "'' is not a key of agent database_agent"),
    ("    role: coder", "    <<: {a: b}", 9, "merge-key", "'<<'"),
    ("    depends_on: [database_agent]\n    verifier: api", "    depends_on: db\n    verifier: api", 23, "wrong-value",
     "depends_on must be a list"),
    ('owns: ["db/**"]', "owns: [[a]]", 13, "wrong-value", "each of owns must be a text"),
    ('owns: ["db/**"]', "owns: ['']", 13, "wrong-value", "owns has an empty item"),
    ("agents/database_agent/task_output/schema.sql]", "/etc/passwd]", 12, "wrong-path", "/etc/passwd"),
    ("agents/database_agent/task_output/schema.sql]", "a/../../b]", 12, "wrong-path", "a/../../b"),
    ("acceptance: {text: The schema loads, commands", "acceptance: {text: The schema loads, comands", 18,
     "unknown-key", "'comands' is not a key of acceptance"),
    ('["python -m pytest -q tests/db"]', "pytest", 18, "wrong-value", "acceptance commands must be a list"),
    ("time_limit_seconds: 900", "time_limit_seconds: soon", 19, "wrong-value", "time_limit_seconds must be a number"),
    ("time_limit_seconds: 900", "time_limit_seconds: -1", 19, "wrong-value", "time_limit_seconds must be a number"),
    ("time_limit_seconds: 900", "time_limit_seconds: .nan", 19, "wrong-value", "time_limit_seconds must be a number"),
    ("time_limit_seconds: 900", "time_limit_seconds: 1_9:99999999999999999999:0", 19, "wrong-value", "time_limit"),
    ("on_stall: re-scope", "on_stall: pray", 20, "wrong-value", "unknown on_stall 'pray'"),
    ("{task: verifier, role: reviewer}", "{task: judge}", 34, "wrong-value", "unknown task 'judge'"),
    ("{task: verifier, role: reviewer}", "verifier", 34, "wrong-value", "agent database_verifier must be a mapping"),
    ("by: database_verifier, criteria: The schema loads}", "by: database_verifier}", 38, "missing-key", "'criteria'"),
    ("escalation: The", "escalation: [The", 39, "front-matter", "not valid YAML"),
]  # fmt: skip


@pytest.mark.parametrize("old, new, line, rule, text", WRONG)
def test_what_is_wrong_is_told_with_its_line(old: str, new: str, line: int, rule: str, text: str) -> None:
    assert old in PLAN_TEXT
    _, findings = read_plan(PLAN_TEXT.replace(old, new, 1))

    found = [(finding.line, finding.rule) for finding in findings if text in finding.text]
    assert [each for each in found if each[1] == rule], [str(finding) for finding in findings]
    assert (line, rule) in found


def test_all_that_is_wrong_is_told_at_once() -> None:
    text = PLAN_TEXT.replace("on_stall: re-scope", "on_stall: pray").replace("goal:", "gaol:")
    _, findings = read_plan(text.replace("role: coder", "role: [coder]"))

    assert [finding.rule for finding in findings] == ["unknown-key", "missing-key", "wrong-value", "wrong-value"]


def test_aliases_cannot_make_a_small_file_large() -> None:
    rows = "\n".join(f"  a{number}: {{owns: *x}}" for number in range(1000))
    items = ", ".join(f"f{number}" for number in range(1000))
    plan, findings = read_plan(f"---\nagents:\n  first: {{owns: &x [{items}]}}\n{rows}\n---\n")

    assert plan is None
    assert "aliases" in findings[-1].text


def test_no_more_is_read_or_told_than_a_plan_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_reader, "MOST_NODES", 1000)
    many = read_plan("---\nstages: [" + "a," * 1000 + "]\n---\n")
    unknown = read_plan("---\n" + "".join(f"k{number}: 1\n" for number in range(300)) + "---\n")

    assert many[0] is None
    assert "more than 1000 values" in many[1][0].text
    assert len(unknown[1]) == MOST_FINDINGS


def test_an_alias_of_itself_is_told() -> None:
    plan, findings = read_plan("---\ntask: a\ngoal: b\nagents: &x {a: *x}\nstages: &y [*y]\n---\n")

    assert findings
    assert plan is None or "a" in plan.workers


@pytest.mark.parametrize(
    "text",
    ["---\n" + "[" * 5000 + "\n---\n", "---\na: " + "{a: " * 500 + "\n---\n", "---\n" + "x" * 1_000_001 + "\n---"],
)
def test_what_is_too_deep_or_too_large_is_told(text: str) -> None:
    plan, findings = read_plan(text)

    assert plan is None
    assert len(findings) == 1
