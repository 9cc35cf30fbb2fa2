"""The page on the architecture names folders and files that there are, and every part of the house."""

import re
from pathlib import Path

from parley.engine.hooks import Guest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "parley"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_its_list_has_every_package_and_no_other() -> None:
    layers = PAGE.split("```", 2)[1]
    there = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}

    assert set(re.findall(r"^(\w+)/ ", layers, re.MULTILINE)) == there


def test_its_table_of_stages_names_hooks_that_there_are() -> None:
    rows = PAGE.split("| stage | where | hooks |\n")[1].split("\n\n")[0].splitlines()[1:]
    named = re.findall(r"`(\w+)`", "".join(row.split("|")[3] for row in rows))

    assert "turn_ended" in named
    assert [name for name in named if not hasattr(Guest, name)] == []
    assert len(named) == len(set(named))


def test_every_folder_and_file_that_it_names_is_there() -> None:
    named = set(re.findall(r"`([\w./]+(?:/|\.py))`", PAGE)) - {"orchestration/"}  # which is a workspace's

    assert "sandbox/gateway/held_request.py" in named
    assert {name for name in named if not (PACKAGE / name).exists() and not (ROOT / name).exists()} == set()
