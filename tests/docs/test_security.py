"""What SECURITY.md promises is shown by tests that exist, and `make security` makes attempts that exist."""

import re
from pathlib import Path

import pytest

from tools.security import CLASSES, Column, Found, modules, table

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`(test_\w+)`", PAGE)))
TESTS = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"def (test_\w+)", path.read_text("utf-8"))
}


@pytest.mark.parametrize("name", NAMED)
def test_a_test_that_the_page_names_exists(name: str) -> None:
    assert name in TESTS


def test_every_promise_names_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| promise", "| ---"))]
    assert len(rows) > 10
    assert all(re.search(r"`test_\w+` *\S* *", row.rpartition(" | ")[2]) for row in rows)


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)", PAGE))
def test_a_link_of_the_page_leads_somewhere(target: str) -> None:
    assert (ROOT / target).exists()


@pytest.mark.parametrize("module", modules())
def test_a_module_of_attempts_exists(module: str) -> None:
    assert (ROOT / module).is_file()


def test_one_that_is_not_contained_is_counted() -> None:
    name = next(iter(CLASSES))
    lines = list(table([Column("root", {name: Found(3, 2)}, ["x"]), Column("user", {name: Found(3, 3)}, [])]))
    assert f"| {name} | 2 of 3 | 3 of 3 |" in lines
    assert lines[-1] == "| all | 2 of 3 | 3 of 3 |"
