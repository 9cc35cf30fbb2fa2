"""The page on the architecture names the modules that there are."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_its_table_has_every_module_of_workflows_and_no_other() -> None:
    table = PAGE.split("| modules of `workflow/`", 1)[1].split("\n\n", 1)[0]
    named = [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    there = {path.stem for path in (ROOT / "src/parley/workflow").glob("*.py")} - {"__init__"}

    assert sorted(named) == sorted(there)


def test_every_module_of_the_engine_that_it_names_is_there() -> None:
    tables = [part.split("\n\n", 1)[0] for part in PAGE.split("| module of `engine/`")[1:]]
    named = {
        name for table in tables for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])
    }

    assert named <= {path.stem for path in (ROOT / "src/parley/engine").glob("*.py")}
    assert {"executing", "designing", "orchestration"} <= named
