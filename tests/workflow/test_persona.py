"""Which requests call for a lead engineer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.features.lead_engineer import calls_for


@pytest.mark.parametrize(
    "request_, why",
    [
        (
            "Build what docs/api.md and docs/data-model.md describe",
            "several source documents: docs/api.md, docs/data-model.md",
        ),
        ("Implement https://example.org/a and https://example.org/b.", "several source documents"),
        ("Here are three specs; make them one service", "several source documents"),
        ("See a.md, b.md, c.md, d.txt and e.pdf", "and 2 more"),
        ("I attached several design documents", "several source documents"),
        ("Decompose this and delegate the parts", "decompose and delegate"),
        ("Break the migration down and hand the pieces out", "decompose and delegate"),
        ("Split the work among the team", "decompose and delegate"),
        ("Let several agents build the shop", "decompose and delegate"),
        ("Have the API and the UI built by people working in parallel", "decompose and delegate"),
        ("Merge the feature branches of last week", "merge parallel branches"),
        ("Please integrate the three open pull requests", "merge parallel branches"),
        ("merge feature/login and feature/cart branches", "merge parallel branches"),
    ],
)
def test_a_request_with_several_sources_parts_or_branches_calls_for_a_lead_engineer(request_: str, why: str) -> None:
    assert why in calls_for(request_)


@pytest.mark.parametrize(
    "request_",
    [
        "",
        "Fix the typo in README.md",
        "README.md says that README.md is short; shorten it",
        "Add a --json flag to parley ls",
        "The merge button is green and should be blue",
        "Describe the branch policy",
        "Document the function split_lines",
        "Make the tests of this one spec pass",
    ],
)
def test_a_plain_request_does_not(request_: str) -> None:
    assert calls_for(request_) == ""


@given(st.text(max_size=200))
def test_any_request_gets_an_answer_in_one_line(request_: str) -> None:
    assert "\n" not in calls_for(request_)
