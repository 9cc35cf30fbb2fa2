"""Every setting is shown in the docs, in an example of a parley.toml, and `[limits]` with its defaults."""

from __future__ import annotations

import tomllib
from typing import Any

from parley.settings.schema import SendingSettings, Settings
from parley.settings.widening import paths, value_at
from tests.docs.test_docs import PAGES, ROOT, blocks

TABLES = {
    "policies": "policy",
    "durability": "bus.durability",
    "roles": "roles",
    "agents": "agents",
    "people": "people",
}
"""Where a file has the settings that are not under [limits], nor where `Settings` has them."""


def written_at(path: str) -> str:
    """Where a file has a setting."""
    group, _, key = path.rpartition(".")
    if group == "sending":
        return f"limits.{key}"
    return TABLES.get(path) or (path if group else f"limits.{path}")


def found(document: dict[str, Any], path: str) -> Any:
    """What a document has at a path, if anything."""
    here: Any = document
    for name in path.split("."):
        here = here.get(name, {}) if isinstance(here, dict) else {}
    return here


EXAMPLES = [tomllib.loads(text) for page in PAGES for text in blocks(page, "toml")]


def test_every_setting_stands_in_an_example() -> None:
    assert [path for path in paths() if all(found(one, written_at(path)) == {} for one in EXAMPLES)] == []


def test_limits_are_shown_with_their_defaults() -> None:
    shown = next(
        one["limits"] for one in map(tomllib.loads, blocks(ROOT / "docs" / "cli.md", "toml")) if "limits" in one
    )
    limits = {written_at(path).partition(".")[2]: value_at(Settings(), path) for path in paths()}
    assert shown == {key: limits[key] for key in shown}
    assert set(SendingSettings.__struct_fields__) < shown.keys()
