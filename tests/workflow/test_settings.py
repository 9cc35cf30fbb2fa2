"""What `[workflow]` in parley.toml says, and what a job keeps of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from parley.base.documents.node import DocumentError
from parley.cli.starting.run import snapshot_of
from parley.runners.scripted.playbook import Playbook
from parley.settings import load
from parley.settings.schema import FILE, Settings, WorkflowSettings

DEFAULTS = WorkflowSettings(complex_agents=5, complex_levels=3, similar=85.0, rounds=3)


def test_a_job_keeps_what_the_settings_say_of_workflows(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("[workflow]\ncomplex_agents = 9\nsimilar = 70\n")

    assert snapshot_of(tmp_path, Settings(), Playbook()).workflow == DEFAULTS
    given = snapshot_of(tmp_path, load.read(tmp_path), Playbook()).workflow
    assert given == replace(DEFAULTS, complex_agents=9, similar=70.0)


@pytest.mark.parametrize(
    "line, told",
    [
        ("similar = 0", "[workflow] similar: it must be a number; write one from 1 to 100"),
        ("similar = 'much'", "[workflow] similar: it must be a number; write one from 1 to 100"),
        ("rounds = 0", "[workflow] rounds: it must be a whole number; write one from 1 to 100"),
        ("complex_agents = 2.5", "[workflow] complex_agents: it must be a whole number"),
        ("levels = 3", "[workflow] levels: there is no such setting; use one of: complex_agents"),
    ],
)
def test_a_setting_that_cannot_be_used_is_told(tmp_path: Path, line: str, told: str) -> None:
    (tmp_path / FILE).write_text(f"[workflow]\n{line}\n")

    with pytest.raises(DocumentError, match=re.escape(told)):
        load.read(tmp_path)
