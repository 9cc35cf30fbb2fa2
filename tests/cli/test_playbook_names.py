"""A playbook names roles that its job can have, or is refused before the job begins."""

from pathlib import Path

import pytest

from parley.base.documents.node import DocumentError
from parley.cli.starting.playbook_names import refuse_unknown
from parley.runners.scripted.playbook import parse
from parley.workflow.model.terms import PLAN

ROLES = ("coder", "intent-lead", "project-lead")


@pytest.mark.parametrize(
    "text, said",
    [
        ("agents: {codr: []}", "p:1:10: there is no role 'codr'.*; did you mean 'coder'"),
        ("agents:\n  coder: []\n  wizard: []", "p:3:3: there is no role 'wizard'.*; use one of: coder, intent-lead"),
        (
            "agents: {coder: [{match: x, do: [{send: {to: writr, text: hi}}]}]}",
            "p:1:46: there is no role 'writr'",
        ),
    ],
)
def test_an_agent_that_no_job_could_have_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DocumentError, match=said):
        refuse_unknown(parse(text, "p"), ROLES, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "agents: {coder: [], project-lead: []}",
        "agents: {coder: [{match: x, do: [{send: {to: helper, text: hi}}]}], helper: []}",
        'agents: {coder: [{match: x, do: [{write: {path: plan.md, text: "agents: api_agent"}}]}], api_agent: []}',
        "agents: {coder: [], solution_architect: [], design_verifier_2: []}",  # they help in a workflow, unplanned
    ],
)
def test_roles_agents_of_the_playbooks_own_and_workers_of_its_plan_are_known(tmp_path: Path, text: str) -> None:
    refuse_unknown(parse(text, "p"), ROLES, tmp_path)


def test_workers_of_a_plan_in_the_repository_are_known(tmp_path: Path) -> None:
    (tmp_path / PLAN).parent.mkdir()
    (tmp_path / PLAN).write_text("workers: db_agent (coder)", encoding="utf-8")

    refuse_unknown(parse("agents: {db_agent: []}", "p"), ROLES, tmp_path)
