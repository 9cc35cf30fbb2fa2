"""The design check: a design without gaps has none, and each way to spoil it is found for what it is."""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.workflow.design import (
    design_check,
    handoffs,
    instructions,
    precedence,
    roster,
    scopes,
)
from parley.workflow.design.blueprint import cycles
from parley.workflow.design.design_check import check_design
from parley.workflow.model.terms import PLAN, ROLES, SHARED_STATUS, Finding, instructions_of, output_of
from parley.workflow.paths.patterns import matches, overlap
from tests.workflow.complete_design import ROLES as KNOWN
from tests.workflow.complete_design import ROUTES, SCHEMA, STATUS, TO_DOCS, good

Files: TypeAlias = dict[str, str]
Spoil: TypeAlias = Callable[[Files], object]
DOCS = Path(__file__).parents[2] / "docs" / "workflow-design-check.md"
API, DATABASE, GUIDE = map(instructions_of, ("api", "database", "docs"))
BY_API = "verifier: api_verifier\n    inputs: [orch"  # of docs
BAR = "docs/users.md names every column of the table"
DRAFT = f"{ROLES}/dba.md"
PROTOCOL = ("intent-lead", "project-lead")  # words of this form that are no rules


def swap(old: str, new: str, file: str = PLAN, count: int = 1) -> Spoil:
    def spoil(files: Files) -> None:
        assert old in files[file], old
        files[file] = files[file].replace(old, new, count)

    return spoil


def checkpoint(giver: str, taker: str, by: str, criteria: str) -> Spoil:
    line = f"  - {{from: {giver}, to: {taker}, by: {by}, criteria: {criteria}, on_failure: back}}\n"
    return swap("checkpoints:\n", f"checkpoints:\n{line}")


def put(file: str, text: str) -> Spoil:
    return lambda files: files.update({file: text})


def drop(file: str) -> Spoil:
    return lambda files: files.pop(file)


def both(*spoils: Spoil) -> Spoil:
    return lambda files: [spoil(files) for spoil in spoils]


def spoiled(spoil: Spoil) -> Files:
    files = good()
    files.pop(SHARED_STATUS)  # it would disagree as well; its own tests put it back
    spoil(files)
    return files


def line_with(text: str, words: str, nth: int = 0) -> int:
    return [number for number, line in enumerate(text.split("\n"), 1) if words in line][nth]


def test_a_design_without_gaps_has_none() -> None:
    assert check_design(good(), KNOWN) == []
    assert check_design(good(), KNOWN, lambda path: False) == []


# rule, who, words of the line, how to spoil the design, words of the finding
ONE_BY_ONE: list[tuple[str, str, str, Spoil, str]] = [
    ("missing-objective", "api", "api:", swap("    objective: the endpoints for users\n", ""), "objective"),
    ("missing-deliverable", "docs", "docs:", swap("    deliverable: docs/users.md\n", ""), "deliverable"),
    ("missing-boundaries", "docs", "docs:", swap("    boundaries: only docs\n", ""), "boundaries"),
    (
        "missing-acceptance",
        "api",
        "api:",
        swap('    acceptance: {commands: ["python -m pytest -q tests/api"]}\n', ""),
        "bar",
    ),
    ("missing-acceptance", "api", "acceptance", swap('{commands: ["python -m pytest -q tests/api"]}', "{}"), "bar"),
    ("unclear-criteria", "docs", "acceptance", swap(BAR, "it reads well enough"), "measured"),
    ("unclear-criteria", "docs", "acceptance", swap(BAR, "shiny"), "too little"),
    ("unclear-criteria", "docs", "acceptance", swap(BAR, "TBD after the API is there"), "not written"),
    ("unclear-criteria", "database", "to: api", swap("every column has a type", "looks good to everybody"), "'good'"),
    (
        "no-output",
        "docs",
        "docs:",
        both(swap('    owns: ["docs/"]\n', ""), swap("docs/users.md\n    acc", "a guide\n    acc")),
        "leave nothing",
    ),
    ("missing-verifier", "docs", "docs:", swap(BY_API, "inputs: [orch"), "no agent verifies"),
    ("self-verification", "docs", "verifier: docs", swap(BY_API, "verifier: docs\n    inputs: [orch"), "itself"),
    ("unknown-verifier", "docs", "verifier: ghost", swap(BY_API, "verifier: ghost\n    inputs: [orch"), "ghost"),
    ("verifier-is-doer", "docs", "verifier: api", swap(BY_API, "verifier: api\n    inputs: [orch"), "is a doer"),
    (
        "idle-verifier",
        "idle",
        "idle:",
        both(
            swap("checkpoints:\n", "  idle: {task: verifier, role: reviewer}\ncheckpoints:\n"),
            put(instructions_of("idle"), "Look at all of it."),
        ),
        "no doer",
    ),
    ("missing-task-id", "docs", "docs:", swap("    task_id: user_guide_1727539202\n", ""), "no task_id"),
    ("malformed-task-id", "docs", "task_id", swap("user_guide_1727539202", "user_guide"), "user_guide"),
    ("malformed-task-id", "docs", "task_id", swap("user_guide_1727539202", "User-Guide_1727539202"), "User-Guide"),
    ("malformed-task-id", "docs", "task_id", swap("user_guide_1727539202", "user_guide_1727539202000"), "000"),
    ("malformed-task-id", "docs", "task_id", swap("user_guide_1727539202", "1727539202"), "1727539202"),
    (
        "duplicate-task-id",
        "docs",
        "task_id: user_end",
        swap("user_guide_1727539202", "user_endpoints_1727539201"),
        "also that of api",
    ),
    (
        "unknown-role",
        "docs",
        "role: poet",
        swap("role: writer", "role: poet"),
        "choose one of: coder, reviewer, writer; or draft",
    ),
    ("protocol-role", "docs", "role: project-lead", swap("role: writer", "role: project-lead"), "part of its own"),
    ("no-escalation", "", "", swap("escalation: the", "# the"), "blocked"),
    ("no-user-point", "", "escalation:", swap(", the user those about requirements", ""), "user"),
    (
        "unknown-dependency",
        "api",
        "depends_on",
        swap("depends_on: [database]", "depends_on: [database, ghost]"),
        "ghost",
    ),
    (
        "depends-on-verifier",
        "api",
        "depends_on",
        swap("depends_on: [database]", "depends_on: [database, database_verifier]"),
        "depend on database",
    ),
    (
        "stage-order",
        "api",
        "depends_on",
        both(swap("- [database]\n  - [api, docs]", "- [api]\n  - [database]\n  - [docs]")),
        "stage 2",
    ),
    ("no-stage", "docs", "docs:", swap("[api, docs]", "[api]"), "never begin"),
    ("two-stages", "docs", "docs:", swap("[api, docs]", "[api, docs]\n  - [docs]"), "stages 2 and 3"),
    ("unknown-in-stage", "", "stages:", swap("[api, docs]", "[api, docs, ghost]"), "ghost"),
    ("verifier-in-stage", "", "stages:", swap("[api, docs]", "[api, docs, api_verifier]"), "by itself"),
    (
        "unproduced-input",
        "docs",
        "notes.md",
        both(
            swap(f"inputs: [{SCHEMA}]", f"inputs: [{SCHEMA}, orchestration/notes.md]"),
            swap("[the schema]", "orchestration/notes.md [the schema]", GUIDE),
        ),
        "no agent makes",
    ),
    (
        "path-mismatch",
        "docs",
        "db/schema.sql",
        both(swap(f"inputs: [{SCHEMA}]", "inputs: [db/schema.sql]"), swap(f"({SCHEMA})", "(db/schema.sql)", GUIDE)),
        "write the same path at both",
    ),
    ("own-input", "api", "inputs", swap("INTENT.md]", f"INTENT.md, {ROUTES}]"), "itself"),
    (
        "input-without-dependency",
        "docs",
        "inputs",
        both(
            swap(f"inputs: [{SCHEMA}]", f"inputs: [{SCHEMA}, {ROUTES}]"),
            checkpoint("api", "docs", "api_verifier", "every route is listed"),
            swap("[the schema]", f"{ROUTES} [the schema]", GUIDE),
        ),
        "too early",
    ),
    (
        "format-unknown",
        "database",
        "outputs",
        lambda files: [files.update({name: text.replace("schema.sql", "schema")}) for name, text in files.items()],
        "format",
    ),
    (
        "missing-checkpoint",
        "docs",
        "depends_on",
        swap(f"  - {{from: database, {TO_DOCS}}}\n", ""),
        "add {from: database, to: docs, by: database_verifier",
    ),
    (
        "duplicate-checkpoint",
        "database",
        "criteria: every column has a comment",
        checkpoint("database", "docs", "database_verifier", "once again the same"),
        "two checkpoints",
    ),
    (
        "unknown-in-checkpoint",
        "database",
        "to: ghost",
        checkpoint("database", "ghost", "database_verifier", "it is there and whole"),
        "ghost",
    ),
    (
        "checkpoint-by",
        "database",
        "comment",
        swap("to: docs, by: database_verifier", "to: docs, by: api_verifier"),
        "`by: database_verifier`",
    ),
    (
        "checkpoint-without-handoff",
        "docs",
        "from: docs",
        checkpoint("docs", "api", "api_verifier", "every route is described"),
        "nothing is handed over",
    ),
    ("missing-on-failure", "database", "comment", swap(TO_DOCS, TO_DOCS.rpartition(",")[0]), "if it fails"),
    ("bad-pattern", "docs", "owns", swap('["docs/"]', '["docs//x"]'), "empty name"),
    ("bad-pattern", "docs", "forbids", swap('["docs/"]', '["docs/"]\n    forbids: ["/etc"]'), "/etc"),
    (
        "verifier-makes",
        "api_verifier",
        "owns",
        swap("    task: verifier\n", '    task: verifier\n    owns: ["qa/**"]\n'),
        "merged nowhere",
    ),
    ("reserved-path", "docs", "owns", swap('["docs/"]', '["docs/", PLAN.md]'), "PLAN.md"),
    ("owns-forbidden", "docs", "owns", swap('["docs/"]', '["docs/"]\n    forbids: ["d*/**"]'), "write nothing there"),
    (
        "output-not-owned",
        "docs",
        "outputs",
        both(
            swap('    owns: ["docs/"]', '    outputs: [README.md]\n    owns: ["docs/"]'),
            swap("docs/users.md", "README.md", GUIDE),
        ),
        "has no owner",
    ),
    ("overlap", "docs", "owns", swap('["docs/"]', '["docs/", "{lib,src}/**/*_x.py"]'), "both would own src/api_x.py"),
    ("file-for-folder", "docs", "owns", swap('["docs/"]', '["docs/", "d*"]'), "database needs a folder for db"),
    ("missing-instructions", "docs", "docs:", drop(GUIDE), "is not there"),
    ("missing-instructions", "api_verifier", "api_verifier:", drop(instructions_of("api_verifier")), "is not there"),
    (
        "empty-instructions",
        "api",
        "",
        put(API, "# api\n\n## Input\n\n<!-- what it reads and so on -->\n"),
        "say nothing",
    ),
    (
        "placeholder",
        "api",
        "Completion Drive",
        swap("## Completion Drive\nNote", "## Completion Drive TBD\nNote", API),
        "TBD",
    ),
    ("instructions-inputs", "api", "", swap("## Input Requirements", "## Start", API), "## Input Requirements"),
    ("instructions-outputs", "api", "", swap("## Output Requirements", "## End", API), "## Output Requirements"),
    (
        "instructions-success",
        "api",
        "",
        swap("## Success Criteria\nThe acceptance commands of the plan end with 0.\n", "## Success Criteria\n", API),
        "## Success Criteria",
    ),
    ("instructions-notes", "api", "", swap("## Completion Drive", "## Also", API), "## Completion Drive"),
    ("unknown-marker", "api", "parley:in", swap("# api\n", "# api\n<!-- parley:in -->\n", API), "parley:inputs"),
    ("instructions-inputs-path", "api", "", swap("- INTENT.md", "- the intent", API), "INTENT.md"),
    ("instructions-outputs-path", "api", "", swap(f"Write {ROUTES}.", "Write the routes.", API), ROUTES),
    (
        "path-mismatch",
        "api",
        "tables.sql",
        swap("task_output/schema.sql`", "task_output/schema.sql` agents/database/task_output/tables.sql", API),
        f"database makes {SCHEMA}",
    ),
    (
        "undeclared-input",
        "docs",
        "routes.json",
        swap("docs/users.md", f"docs/users.md after {ROUTES}", GUIDE),
        "not among its inputs",
    ),
    ("stray-instructions", "ghost", "", put(instructions_of("ghost"), "Do this and that."), "no such agent"),
    ("unused-draft", "dba", "", put(DRAFT, "---\nname: dba\ndescription: x\n---\nYou know.\n"), "no agent"),
    ("missing-plan", "", "", drop(PLAN), "no plan"),
    ("front-matter", "", "", put(PLAN, "# a plan in prose\n"), "front matter"),
]


@pytest.mark.parametrize(
    "rule, agent, words, spoil, said", ONE_BY_ONE, ids=[f"{at}-{it[0]}" for at, it in enumerate(ONE_BY_ONE)]
)
def test_one_gap_is_found_alone_with_its_agent_line_and_remedy(
    rule: str, agent: str, words: str, spoil: Spoil, said: str
) -> None:
    files = spoiled(spoil)

    found = check_design(files, KNOWN)

    assert [(it.rule, it.agent) for it in found] == [(rule, agent)], "\n".join(map(str, found))
    (finding,) = found
    assert said in str(finding)
    assert finding.remedy
    assert "\n" not in str(finding)
    if words:
        assert words in files[finding.file].split("\n")[finding.line - 1]


def test_a_plan_of_verifiers_alone_has_no_doers() -> None:
    text = "---\ntask: x\ngoal: y\nstages: []\nagents: {}\nescalation: ask the user\n---\n"
    assert [it.rule for it in check_design({PLAN: text}, KNOWN)] == ["no-doers"]


@pytest.mark.parametrize(
    "criterion",
    [
        "tests pass",
        "the API correctly returns 404 for unknown users",
        "every column has a type, and the names fit well with those of the tables that are there",
        "`make check` ends well",
    ],
)
def test_a_criterion_that_leans_on_something_firm_is_left_alone(criterion: str) -> None:
    assert check_design(spoiled(swap("every column has a type", f'"{criterion}"')), KNOWN) == []


def test_instructions_may_name_their_parts_by_labels() -> None:
    text = f"""# api
Read: INTENT.md and agents/database/task_output/schema.sql
**Outputs**: {ROUTES}
Done when: the commands end with 0
- Assumptions: note each one
"""
    assert check_design(spoiled(put(API, text)), KNOWN) == []


# ---- several at once -----------------------------------------------------------------------------


IN_GERMAN = f"""# api

<!-- parley:inputs -->
## Was du liest
- INTENT.md
- {SCHEMA}

<!-- parley:outputs -->
## Was du lieferst
Schreibe {ROUTES} als JSON.

<!-- parley:success -->
## Woran man es erkennt
`python -m pytest -q tests/api` endet mit 0.

<!-- parley:notes -->
## Annahmen
Halte jede fest; Anforderungen gehen nach oben.
"""


def test_instructions_may_be_in_any_language_below_markers() -> None:
    assert check_design(spoiled(put(API, IN_GERMAN)), KNOWN) == []
    assert check_design(spoiled(put(API, IN_GERMAN.replace("parley:success", "Parley: success"))), KNOWN) == []


@pytest.mark.parametrize("key", ["inputs", "outputs", "success", "notes"])
def test_a_marker_without_a_section_below_it_says_nothing(key: str) -> None:
    begin = IN_GERMAN.index(f"<!-- parley:{key}")
    before, section = IN_GERMAN[:begin], IN_GERMAN[begin:]
    head, _, rest = section.partition("\n<!--")
    empty = "\n".join(
        [*head.split("\n")[:2], "", "## Noch etwas", *head.split("\n")[2:], f"\n<!--{rest}" if rest else ""]
    )

    rules = [one.rule for one in check_design(spoiled(put(API, before + empty)), KNOWN)]

    assert rules == [f"instructions-{key}"]


def test_a_plan_may_be_in_any_language() -> None:
    english = "escalation: the solution architect settles technical questions, the user those about requirements"
    german, other = "der Architekt hilft, Anforderungen kommen vom Nutzer", "{text: arkitekten svarar, user: kraven}"
    for escalation in (german, "架构师回答 需求由用户决定", other):
        assert check_design(spoiled(swap(english, f"escalation: {escalation}")), KNOWN) == []
    bar = swap(BAR, "文档列出每一列")
    assert check_design(spoiled(bar), KNOWN) == []


def test_a_cycle_is_named_whole_in_dependencies_and_files() -> None:
    files = spoiled(
        both(
            swap("depends_on: []", "depends_on: [docs]\n    inputs: [docs/users.md]"),
            swap('    owns: ["docs/"]', '    outputs: [docs/users.md]\n    owns: ["docs/"]'),
            swap("depends_on: [database]", "depends_on: [api]", count=2),
            swap("depends_on: [api]", "depends_on: [database]"),
        )
    )

    found = {it.rule: it for it in check_design(files, KNOWN)}

    assert "database -> docs -> api -> database" in found["cycle"].text
    assert "database -> docs -> database" in found["file-cycle"].text
    assert found["cycle"].line == line_with(files[PLAN], "depends_on: [docs]")


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdefg"), max_size=3), max_size=6))
def test_cycles_are_cycles_and_without_them_there_are_none(edges: dict[str, list[str]]) -> None:
    found = cycles(edges)

    for cycle in found:
        assert all(there in edges[here] for here, there in zip(cycle, [*cycle[1:], cycle[0]], strict=True))
    members = {name for cycle in found for name in cycle}
    left = {name: [it for it in edges[name] if it not in members] for name in edges if name not in members}
    while free := [name for name in left if not any(it in left for it in left[name])]:
        for name in free:
            del left[name]
    assert not left


def test_all_gaps_are_told_at_once_in_the_order_of_the_files() -> None:
    files = good()
    for spoil in (
        drop(API),
        swap("depends_on: [database]", "depends_on: [database, ghost]"),
        swap('["docs/"]', '["docs/", "db/x"]'),
        swap("## Completion Drive", "## Also", DATABASE),
    ):
        spoil(files)

    found = check_design(files, KNOWN)

    assert [it.rule for it in found] == [
        "missing-instructions", "unknown-dependency", "overlap", "instructions-notes", "status-disagrees",
    ]  # fmt: skip
    assert [it.file for it in found] == [PLAN, PLAN, PLAN, DATABASE, SHARED_STATUS]
    assert [it.line for it in found[:3]] == sorted(it.line for it in found[:3])


def test_what_the_reader_finds_comes_with_what_the_check_finds() -> None:
    files = spoiled(both(swap("role: writer", "rolle: writer"), drop(API)))

    assert {"unknown-key", "missing-instructions"} <= {it.rule for it in check_design(files, KNOWN)}


def test_a_path_that_two_make_is_found_at_the_second() -> None:
    files = spoiled(swap('    owns: ["docs/"]', f'    outputs: [{SCHEMA}]\n    owns: ["docs/"]'))

    found = {it.rule: it for it in check_design(files, KNOWN)}

    assert found["duplicate-output"].agent == found["output-not-owned"].agent == "docs"
    assert "so does database" in found["duplicate-output"].text
    assert "only database writes" in found["output-not-owned"].text


# ---- what the tree has ---------------------------------------------------------------------------


def reading(path: str) -> Files:
    add = swap(f"inputs: [{SCHEMA}]", f"inputs: [{SCHEMA}, {path}]")
    return spoiled(both(add, swap("[the schema]", f"{path} [the schema]", GUIDE)))


def test_an_input_may_be_in_the_tree_already() -> None:
    files = reading("src/legacy.py")

    assert check_design(files, KNOWN) == []
    assert check_design(files, KNOWN, lambda path: path == "src/legacy.py") == []
    assert [it.rule for it in check_design(files, KNOWN, lambda path: False)] == ["unproduced-input"]


def owned(mine: str, theirs: str, more: str = "") -> Files:
    """A design in which `docs` and `database` own these, and nothing else is wrong."""
    return spoiled(both(swap('["docs/"]', f'["docs/", "{mine}"]{more}'), swap('["db/**"]', f'["db/**", "{theirs}"]')))


@pytest.mark.parametrize(
    "mine, theirs",
    [
        ("site/*", "site/notes/**"),
        ("site/no*", "site/notes/x.py"),
        ("si*", "{site,lib}/x.py"),
        ("notes.d", "notes.d/*.md"),
    ],
)
def test_a_file_that_one_may_make_where_another_needs_a_folder_is_a_gap_until_the_folder_is_there(
    mine: str, theirs: str
) -> None:
    (finding,) = check_design(owned(mine, theirs), KNOWN)
    folder = finding.remedy.split()[1]

    assert (finding.agent, finding.rule) == ("docs", "file-for-folder")
    assert f"it owns {mine} and may make a file {folder}, where database needs a folder" in finding.text
    assert matches(mine, folder)
    assert check_design(owned(mine, theirs), KNOWN, lambda path: path == folder) == []


def test_a_file_that_it_is_forbidden_is_in_nobodys_way() -> None:
    forbidding = '\n    forbids: ["site/notes"]'

    assert check_design(owned("site/*", "site/notes/**", forbidding), KNOWN) == []


@pytest.mark.parametrize(
    "mine, theirs",
    [
        ("site/*.py", "site/notes/**"),  # no file of the one's is named like a folder of the other's
        ("site/*.py", "site/*/x"),  # only if a folder were named x.py
        ("site/*", "site/*/models.py"),  # only if the two chose the same name
        ("site/notes.md", "site/notes/**"),
        ("site/**/test_*.py", "site/notes/*.md"),
    ],
)
def test_a_folder_that_nobody_spells_out_is_no_gap(mine: str, theirs: str) -> None:
    assert check_design(owned(mine, theirs), KNOWN) == []
    assert check_design(owned(theirs, mine), KNOWN) == []


def test_an_input_that_lies_with_another_agent_is_one_of_its_outputs_or_is_there() -> None:
    files = reading("db/migration.sql")

    (finding,) = check_design(files, KNOWN)
    assert (finding.rule, finding.agent) == ("path-mismatch", "docs")
    assert "add it to the outputs of database" in finding.remedy
    assert check_design(files, KNOWN, lambda path: path.startswith("db/")) == []


def test_a_folder_of_outputs_is_an_input_too() -> None:
    assert check_design(reading(f"{output_of('database')}/"), KNOWN) == []


def test_a_dependency_over_several_agents_is_one() -> None:
    files = spoiled(
        both(
            swap("  - [api, docs]", "  - [api]\n  - [docs]"),
            swap("depends_on: [database]", "depends_on: [api]", count=2),
            swap("depends_on: [api]", "depends_on: [database]"),
            checkpoint("api", "docs", "api_verifier", "every route is there"),
        )
    )

    assert check_design(files, KNOWN) == []


# ---- the first status, drafts --------------------------------------------------------------------


def with_status(change: Callable[[Any], object]) -> Files:
    document = copy.deepcopy(STATUS)
    change(document)
    return {**good(), SHARED_STATUS: json.dumps(document, indent=2)}


@pytest.mark.parametrize(
    "agent, change, said",
    [
        ("docs", lambda it: [it["agents"].pop("docs"), it["verification"].pop("api_verifier")], "lacks it"),
        ("ghost", lambda it: it["agents"].update(ghost=it["agents"]["api"]), "the plan does not"),
        ("api", lambda it: it["agents"]["api"].update(status="working"), "not pending"),
        ("api", lambda it: it["agents"]["api"].update(dependencies=["docs"]), 'write "dependencies": ["database"]'),
        ("api", lambda it: it["agents"]["api"].pop("dependencies"), "dependencies are not"),
        ("api_verifier", lambda it: it["verification"]["api_verifier"].update(assigned_agents=["api"]), "assigned"),
        ("api_verifier", lambda it: it["verification"].pop("api_verifier"), "lacks it"),
    ],
)  # fmt: skip
def test_a_first_status_that_disagrees_with_the_plan_is_found(
    agent: str, change: Callable[[Any], object], said: str
) -> None:
    files = with_status(change)

    found = check_design(files, KNOWN)

    assert {it.rule for it in found} == {"status-disagrees"}
    (finding,) = [it for it in found if it.agent == agent]
    assert said in str(finding)
    assert finding.line == 1 or f'"{agent}"' in files[SHARED_STATUS].split("\n")[finding.line - 1]


def test_a_status_file_that_is_none_is_found_and_one_of_a_running_workflow_is_left_alone() -> None:
    begun = with_status(lambda it: it["agents"]["api"].update(status="working", last_update="2025-09-28T10:45:00Z"))

    assert [it.rule for it in check_design({**good(), SHARED_STATUS: "{"}, KNOWN)] == ["json"]
    assert check_design(begun, KNOWN) == []


def test_a_drafted_role_is_no_gap_and_is_shown() -> None:
    files = spoiled(
        both(
            swap("role: writer", "role: dba"),
            put(DRAFT, "---\nname: dba\ndescription: knows databases\n---\nYou know.\n"),
        )
    )

    assert check_design(files, KNOWN) == check_design(files, [*KNOWN, "dba"]) == []


# ---- nothing that somebody writes makes it fail --------------------------------------------------


@settings(max_examples=40)
@given(st.data())
def test_any_change_of_a_design_gives_findings_and_no_error(data: st.DataObject) -> None:
    files = good()
    for _ in range(data.draw(st.integers(1, 4))):
        name = data.draw(st.sampled_from(sorted(files)))
        text = files[name]
        begin, end = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        files[name] = text[:begin] + data.draw(st.text(max_size=8)) + text[min(end, begin + 40) :]
    for finding in check_design(files, KNOWN, lambda path: False):
        assert isinstance(finding, Finding)
        assert finding.remedy
        assert "\n" not in str(finding)


def test_two_hundred_agents_are_checked() -> None:
    names = [f"agent{number}" for number in range(200)]
    agents = "".join(
        f"  {name}:\n    role: coder\n    task_id: t{at}_1727539200\n    verifier: judge\n"
        f"    owns: ['src/{name}/**', 'tests/*/test_{name}_*.py']\n"
        f"    depends_on: [{', '.join(names[max(0, at - 3) : at])}]\n"
        "    objective: o\n    boundaries: b\n    deliverable: d\n    acceptance: {commands: ['true']}\n"
        for at, name in enumerate(names)
    )
    stages = "".join(f"  - [{name}]\n" for name in names)
    judge = "  judge: {task: verifier, role: reviewer}\nescalation: the user\n"
    plan = f"---\ntask: big\ngoal: g\nstages:\n{stages}agents:\n{agents}{judge}---\n"

    found = check_design({PLAN: plan}, KNOWN)

    assert {it.rule for it in found} == {"missing-checkpoint", "missing-instructions"}
    assert len([it for it in found if it.rule == "missing-checkpoint"]) == sum(min(at, 3) for at in range(200))


# ---- the table in the docs -----------------------------------------------------------------------


def test_the_docs_have_every_rule_of_the_check_and_each_is_tried_here() -> None:
    parts = (design_check, handoffs, instructions, precedence, roster, scopes)
    sources = "".join(Path(it.__file__ or "").read_text() for it in parts)
    known = set(re.findall(r'"([a-z]+(?:-[a-z]+)+|cycle|overlap|placeholder)",', sources)) - set(PROTOCOL)
    shown = set(re.findall(r"`([a-z]+(?:-[a-z]+)*)`", DOCS.read_text()))
    tried = {it[0] for it in ONE_BY_ONE} | {"cycle", "file-cycle", "duplicate-output", "no-doers", "status-disagrees"}

    assert known <= tried | {"role-drafted", "too-many-patterns"}
    assert tried | known <= shown


def test_the_docs_show_what_patterns_share() -> None:
    """The table of examples is computed anew."""
    rows = re.findall(r"^\| `([^`]+)`, `([^`]+)` \| (`[^`]+`|nothing)", DOCS.read_text(), re.MULTILINE)

    assert len(rows) == 5
    assert [overlap(one, other) for one, other, _ in rows] == [
        None if shown == "nothing" else shown.strip("`") for *_, shown in rows
    ]


def test_somebody_who_works_without_being_planned_is_found_and_a_helper_is_not() -> None:
    entry = {"status": "working", "completion_drive_notes_count": 0, "last_update": "2026-01-01T00:00:00Z"}
    agents = STATUS["agents"]
    assert isinstance(agents, dict)
    shared = {**STATUS, "agents": {**agents, "ghost": entry, "solution_architect": entry}}
    found = check_design({**good(), SHARED_STATUS: json.dumps(shared)}, KNOWN)

    assert [(one.agent, one.rule) for one in found] == [("ghost", "status-disagrees")]
