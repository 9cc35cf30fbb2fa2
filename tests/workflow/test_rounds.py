"""A round of verification is written and read back; what is wrong with its file is told by field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.workflow.files.rounds import read_round, render_round
from parley.workflow.model.grammar import VERDICTS
from parley.workflow.model.terms import Proof, Round, Task, Worker
from tests.workflow.value_strategies import moments

WORKER = Worker("api_agent", Task.DOER, "coder", "user_api_1727539284")
said = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40).filter(
    lambda text: text.strip() != ""
)
written = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
proofs = st.builds(Proof, said, st.integers(-64, 255), written, st.floats(0, 1e9), written)
rounds = st.builds(
    Round,
    st.integers(1, 99),
    st.just("api_verifier"),
    st.sampled_from(VERDICTS),
    st.lists(said, min_size=1, max_size=3).map(tuple),
    st.lists(proofs, max_size=3).map(tuple),
    moments,
)


@given(rounds)
def test_a_round_is_read_back_to_the_letter(one: Round) -> None:
    assert read_round(render_round(WORKER, one), "api_agent", one.number) == (one, [])


def test_a_proof_that_holds_bytes_of_no_text_is_written_all_the_same() -> None:
    text = render_round(
        WORKER,
        Round(
            number=1,
            verifier="api_verifier",
            verdict="verified",
            findings=(),
            proofs=(Proof("run", 0, "\udcff!"),),
            time=5,
        ),
    )
    one, _ = read_round(text, "api_agent", 1)
    assert one is not None
    assert one.proofs[0].output == "\ufffd!"


GOOD = json.loads(
    render_round(
        WORKER,
        Round(
            number=2,
            verifier="api_verifier",
            verdict="rejected",
            findings=("no tests",),
            proofs=(Proof("make", 2, "no"),),
            time=5,
        ),
    )
)


@pytest.mark.parametrize(
    "field,value,text",
    [
        ("round", 3, "round is 3"),
        ("round", True, "round is true"),
        ("agent", "else", 'agent is "else"'),
        ("verifier", "api_agent", 'verifier is "api_agent"'),
        ("verdict", "fine", 'verdict is "fine"'),
        ("findings", [], "findings is a list"),
        ("findings", "all", 'findings is "all"'),
        ("findings", [3], "findings[0] is 3"),
        ("proofs", [3], "proofs[0] is 3"),
        ("proofs", [{"command": "make", "exit_code": "0"}], 'proofs[0].exit_code is "0"'),
        ("proofs", [{"command": "make", "exit_code": 0, "seconds": "long"}], 'proofs[0].seconds is "long"'),
        ("proofs", [{"command": "make", "exit_code": 0, "output": None}], "proofs[0].output is null"),
        ("timestamp", 1.5, "timestamp is 1.5"),
        ("mood", "good", '"mood" is not a field'),
    ],
)
def test_what_is_wrong_with_a_round_is_told_by_field(field: str, value: Any, text: str) -> None:
    one, findings = read_round(json.dumps({**GOOD, field: value}), "api_agent", 2)
    assert one is None
    assert [finding for finding in findings if text in finding.text], findings
    assert {finding.file for finding in findings} == {"orchestration/agents/api_agent/verification/round_2.json"}


@pytest.mark.parametrize("field", sorted(GOOD))
def test_a_round_that_lacks_a_field_is_not_believed(field: str) -> None:
    one, findings = read_round(
        json.dumps({name: value for name, value in GOOD.items() if name != field}), "api_agent", 2
    )
    assert one is None
    assert [finding for finding in findings if finding.text.startswith(field)]


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100_000, '{"round": NaN}', '{"round": 1, "round": 1}'])
def test_a_file_that_is_no_round_is_a_finding(text: str) -> None:
    one, findings = read_round(text, "api_agent", 1)
    assert one is None
    assert findings
