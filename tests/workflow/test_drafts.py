"""A role that a design drafts gets nothing that the job does not have already."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.base.documents.node import DocumentError
from parley.roles import parse, shipped, snapshot_of
from parley.roles.role_snapshot import RoleLimits
from parley.workflow.design.drafts import RESERVED, DraftLimits, read_draft, read_drafts

ROLES = [snapshot_of(role) for role in shipped().values()]
ALLOWED = DraftLimits.by(ROLES)
PATH = "orchestration/roles/data_engineer.md"
GOOD = """---
name: data_engineer
description: Makes the tables: one for each thing that is kept.
tools: Read, Edit, Bash
---
You make tables.
"""


def finding(text: str, path: str = PATH) -> str:
    """The one thing that is wrong with a draft."""
    role, found = read_draft(path, text, ALLOWED)
    assert role is None
    assert len(found) == 1, [str(one) for one in found]
    return str(found[0])


def test_a_draft_becomes_a_role_of_no_program_model_or_team() -> None:
    role, found = read_draft(PATH, GOOD, ALLOWED)
    assert not found
    assert role is not None
    assert (role.name, role.runner, role.model, role.team, role.limits) == ("data_engineer", "", "", (), RoleLimits())
    assert role.prompt == "You make tables."
    assert {"Read", "Edit", "Bash"} <= set(role.tools)
    assert "Write" not in role.tools


def test_only_files_right_in_the_folder_are_drafts() -> None:
    files = {PATH: GOOD, "orchestration/roles/more/x.md": "no role", "orchestration/roles/notes.txt": "no role"}
    drafts, found = read_drafts(files, ROLES)
    assert (list(drafts), found) == (["data_engineer"], [])


@pytest.mark.parametrize(
    "line", ["runner: shell", "team: [coder]", "exemptions: [network]", "limits: {turn_seconds: 5}", "hooks: x"]
)
def test_a_draft_sets_nothing_that_is_the_users_to_set(line: str) -> None:
    key = line.partition(":")[0]
    told = finding(GOOD.replace("tools:", f"{line}\ntools:"))
    assert told.startswith(f"{PATH}:4: data_engineer: a draft can't set `{key}`; leave it to the user")


def test_no_way_of_writing_it_hides_a_runner() -> None:
    sly = '---\n{name: data_engineer, description: d, "runner": shell}\n---\nprompt'
    assert "can't set `runner`" in finding(sly)


@pytest.mark.parametrize("tool", ["WebFetch", "mcp__mail__send", "AskQuestion", "Send", "Verdict"])
def test_a_draft_gets_no_tool_that_no_role_of_the_job_has(tool: str) -> None:
    assert f"no role of this job has {tool}" in finding(GOOD.replace("Bash", tool))


def test_a_draft_gets_no_model_that_no_role_of_the_job_has() -> None:
    told = finding(GOOD.replace("tools:", "model: huge-1\ntools:"))
    assert f"{PATH}:4" in told
    assert "no role of this job has the model 'huge-1'; leave it out" in told
    role, _ = read_draft(PATH, GOOD.replace("tools:", "model: inherit\ntools:"), ALLOWED)
    assert role is not None


@pytest.mark.parametrize("name", ["coder", "project-lead", *RESERVED])
def test_a_draft_takes_the_place_of_no_role_that_is_there(name: str) -> None:
    told = finding(GOOD.replace("data_engineer", name), f"orchestration/roles/{name}.md")
    assert f"there is a role {name!r} already" in told


@pytest.mark.parametrize(
    "text, why",
    [
        ("no front matter", "there is no front matter"),
        ("---\nname: data_engineer", "the front matter does not end"),
        (GOOD.replace("name: data_engineer", "name: Data"), "can't be a role's name"),
        (GOOD.replace("name: data_engineer", "name: other"), "it is called 'other', and its file 'data_engineer'"),
        (GOOD.replace("You make tables.", ""), "it has no prompt"),
        (GOOD.replace("description: Makes", "note: Makes").replace("note:", "# "), "what the role is for"),
        (GOOD.replace("tools: Read", "x: &x [1]\ny: [*x, *x]\ntools: Read"), "alias"),
        ("x" * 70_000, "longer than"),
    ],
)
def test_what_can_not_be_used_is_named_with_its_place(text: str, why: str) -> None:
    told = finding(text)
    assert why in told
    assert told.startswith(PATH)


@pytest.mark.parametrize("key", ["name", "description", "tools", "model"])
def test_a_draft_that_would_grow_without_end_is_refused_at_once(key: str) -> None:
    bomb = "\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30))])
    assert "alias" in finding(f"---\n{bomb}\n{key}: *a29\n---\nprompt")
    with pytest.raises(DocumentError):
        parse(f"---\nname: x\n{bomb}\n{key}: *a29\n---\nprompt", Path(PATH))


@given(st.text(max_size=200))
def test_whatever_a_draft_holds_it_is_a_role_or_a_finding(text: str) -> None:
    for whole in (text, f"---\n{text}\n---\nprompt", GOOD.replace("Read, Edit, Bash", text)):
        role, found = read_draft(PATH, whole, ALLOWED)
        assert (role is None) == bool(found)
        if role is not None:
            assert set(role.tools) <= ALLOWED.tools | {"Send", "CloseConversation", "AskQuestion"}
            assert (role.runner, role.team) == ("", ())
