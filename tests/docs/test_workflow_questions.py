"""Every open question about workflows is answered, and shown by tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "workflow-questions.md").read_text(encoding="utf-8")
ANSWERS = dict(re.findall(r"^### ((?:Issue |Q)\d+): [^\n]+\?\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
ASKED = [*(f"Issue {number}" for number in range(1, 9)), *(f"Q{number}" for number in range(1, 11))]
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_all_that_was_asked_is_answered_in_order() -> None:
    assert list(ANSWERS) == ASKED


@pytest.mark.parametrize("asked", ASKED)
def test_every_answer_is_shown_by_tests_that_exist(asked: str) -> None:
    named = TEST.findall(ANSWERS[asked])
    assert named, "an answer without a test is a promise"
    assert len(named) == ANSWERS[asked].count("::"), "a test is named by its file and its name"
    for file, name in named:
        text = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^def {name}\(", text, re.MULTILINE), f"{file} has no {name}"
