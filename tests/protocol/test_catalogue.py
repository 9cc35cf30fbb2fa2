"""The page that describes the rules is made from them, so that it can't tell another story."""

import re
from pathlib import Path

import pytest

from parley.protocol.rules import RULES
from parley.protocol.states import LIVE, TRANSITIONS
from parley.verify.invariants import INVARIANTS, LAWS
from tools.catalogue import BLOCKS, fill

PAGE = Path(__file__).resolve().parents[2] / "docs/rules.md"


def test_the_page_is_what_the_code_says() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert fill(text) == text, "docs/rules.md has drifted from the code; refresh it: make docs"


def test_the_page_has_every_block_once() -> None:
    found = re.findall(r"<!-- generated: (\w+) -->", PAGE.read_text(encoding="utf-8"))

    assert sorted(found) == sorted(BLOCKS)


def test_every_rule_state_and_invariant_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")

    for name in (*RULES, *INVARIANTS, *LAWS):
        assert f"| `{name}` |" in text
    for state in LIVE:
        for action, target in TRANSITIONS[state].items():
            assert f"{state} --> {target} : {action}" in text


def test_every_rule_that_the_prose_names_exists() -> None:
    prose = re.sub(r"<!-- generated.*?<!-- end -->", "", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    named = set(re.findall(r"`\[([a-z-]+)\]`", prose))

    assert named
    assert named <= set(RULES)


def test_filling_again_changes_nothing_and_leaves_the_prose_alone() -> None:
    page = "before\n<!-- generated: states -->\nold\n<!-- end -->\nafter\n"
    filled = fill(page)

    assert filled.startswith("before\n<!-- generated: states -->\n\n```mermaid\nstateDiagram-v2\n")
    assert filled.endswith("```\n\n<!-- end -->\nafter\n")
    assert "old" not in filled
    assert fill(filled) == filled


def test_an_unknown_block_is_an_error() -> None:
    with pytest.raises(KeyError, match="nonsense"):
        fill("<!-- generated: nonsense -->\n<!-- end -->")
