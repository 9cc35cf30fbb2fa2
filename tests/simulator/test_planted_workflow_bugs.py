"""The simulator finds bugs in workflows: each of these, planted one at a time, makes some seed fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from parley.ports.workspaces import Scope
from parley.protocol.rules import RULES
from parley.workflow.execution import assist, verification, verifier_notes
from parley.workflow.execution.executor_turn import ExecutorTurn
from parley.workflow.host import design_gates, executor_agent
from parley.workflow.model import events, notes
from parley.workflow.model.flow import Flow, OpenConversation
from parley.workflow.model.worker_result import Judgement
from simulator.workflows import has_workflow, is_disputed
from tests.simulator.test_planted_bugs import failure

SEEDS = [seed for seed in range(2_000) if has_workflow(seed)]
DISPUTED = [seed for seed in SEEDS if is_disputed(seed)]


def found(seeds: Sequence[int] = SEEDS, first: int = SEEDS[0]) -> str:
    """What the first failing seed says. `first`: one that has found it before, and is tried before the others."""
    why = next(filter(None, (failure(seed, RULES) for seed in (first, *seeds))), "")
    assert not why.startswith(("AttributeError", "TypeError", "NameError")), why
    return why


def test_a_doer_that_does_not_wait_for_what_it_depends_on_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Flow, "may_start", lambda self, agent: True)
    assert "begins before" in found()


def test_a_verifier_whose_silence_counts_as_approval_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def approve(act: ExecutorTurn, talk: OpenConversation, problems: Any) -> None:
        verification.judged(act, talk, Judgement("verified"))

    monkeypatch.setattr(verification, "_no_verdict", approve)
    assert "is found good by" in found()


def test_a_gate_that_is_never_blocked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design_gates, "gate_of", lambda live: "clear")
    assert found(first=667).startswith("the job is done, and its")


def test_a_merge_that_does_not_ask_whose_it_is_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_agent, "scope_of", lambda plan, agent: Scope(lambda path: ""))
    why = found(DISPUTED, 402)  # whose it is, or that what came in is more than was looked at
    assert "does not own it" in why or "has seen something else" in why


def test_assumptions_that_nobody_is_told_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design_gates, "render_assumptions", lambda *_: "None.")
    assert "is not in WORK_SUMMARY.md" in found()


def test_an_answer_that_is_put_into_the_users_mouth_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assist, "BY_EXECUTOR", notes.BY_USER)
    assert "the user has said nothing" in found()


def test_a_verifiers_note_that_holds_nothing_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifier_notes, "waits", lambda *_: None)
    monkeypatch.setattr(events, "refuse_ready", lambda session: "")  # or the events themselves would refuse it
    why = found(first=111)
    assert "reaches no agent above" in why or "not settled" in why, why
