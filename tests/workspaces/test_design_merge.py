"""Those who design a workflow together change its files side by side: git merges them, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from parley.ports.workspaces import Scope
from tests.workspaces.user_repository import JOB, ROOT, UserRepository, read, repository

ONE, OTHER, ARCHITECT = "dispatch:one", "dispatch:other", "dispatch:architect"
PLAN = "orchestration/workflow_coordination_plan.md"
TOGETHER = Scope(lambda path: "" if path.startswith("orchestration/") else "it is no part of the design", design=True)


def plan(**changed: str) -> str:
    return "\n".join(changed.get(f"l{number}", f"line {number}") for number in range(12)) + "\n"


@pytest.fixture
def place(tmp_path: Path) -> UserRepository:
    made = repository(tmp_path / "user", {"a.txt": "a\n"})
    made.prepare()
    made.prepare(ARCHITECT, ROOT)
    made.turn(ARCHITECT, {PLAN: plan(), "INTENT.md": "mine\n"})
    return made


def test_two_helpers_changes_of_one_plan_become_one_plan(place: UserRepository) -> None:
    for name, changed in ((ONE, {"l1": "paths"}), (OTHER, {"l10": "checkpoints"})):
        place.prepare(name, ARCHITECT)
        place.turn(name, {PLAN: plan(**changed), "a.txt": f"{name}\n", "INTENT.md": f"{name}\n"})
    for name in (ONE, OTHER):
        merge = place.trees.merge(JOB, name, ARCHITECT, TOGETHER)
        assert merge.paths == (PLAN,)
        assert not merge.conflicts
        assert merge.kept_out == ("a.txt: it is no part of the design",)
    files = read(place.trees.path(JOB, ARCHITECT))
    assert files[PLAN].decode() == plan(l1="paths", l10="checkpoints")
    assert files["INTENT.md"] == b"mine\n"


def test_helpers_that_change_one_line_leave_it_to_the_architect(place: UserRepository) -> None:
    for name in (ONE, OTHER):
        place.prepare(name, ARCHITECT)
        place.turn(name, {PLAN: plan(l1=name)})
    assert not place.trees.merge(JOB, ONE, ARCHITECT, TOGETHER).conflicts
    conflicts = place.trees.merge(JOB, OTHER, ARCHITECT, TOGETHER).conflicts
    assert [conflict.path for conflict in conflicts] == [PLAN]
    assert b"<<<<<<<" in read(place.trees.path(JOB, ARCHITECT))[PLAN]


def test_a_long_name_is_whole_where_it_is_told_how_much_changed(place: UserRepository) -> None:
    name = f"{'a' * 200}.txt"
    place.turn(ROOT, {name: "one\n"})
    tree = place.trees.committed(JOB, ROOT)

    assert f"{name} |" in (place.trees.since(JOB, "WORK_SUMMARY.md", "", tree, stat=True) or "")


def test_a_plan_is_shown_by_its_own_digest_and_a_change_of_what_it_brings_along_is_told(place: UserRepository) -> None:
    place.turn(ROOT, {"PLAN.md": "one\n"})
    digest = place.trees.contents(JOB, place.trees.committed(JOB, ROOT), ["PLAN.md"])["PLAN.md"]
    assert place.trees.shown(JOB, "q1", "PLAN.md", f"{digest}+{'a' * 64}") == "one\n"
    assert place.trees.since(JOB, "PLAN.md", f"{digest}+{'a' * 64}", f"{digest}+{'a' * 64}") == ""
    told = place.trees.since(JOB, "PLAN.md", f"{digest}+{'a' * 64}", f"{digest}+{'b' * 64}")
    assert told == "What it brings along in orchestration/ has changed: read it there.\n"
