"""The simulator's workspaces do as git's: what a run under faults finds holds for the real ones."""

from pathlib import Path
from random import Random

import pytest

from parley.ports.workspaces import Merge, Scope, Workspace
from parley.workspaces import JobWorkspaces
from simulator.disk import SimDisk, SimWorkspace
from simulator.world import Fuse

JOB, ROOT, CHILD = "j1", "job:j1", "dispatch:c1"
OUTPUT = "orchestration/agents/web/task_output/page"
WEB = Scope(lambda path: "" if path.startswith(("web/", OUTPUT)) else "it belongs to db")


class Pair:
    """The same done in both worlds."""

    def __init__(self, folder: Path) -> None:
        self.disk = SimDisk()
        self.trees = JobWorkspaces(folder)
        self.worlds: tuple[Workspace, Workspace] = SimWorkspace(self.disk, Fuse(None, Random(0))), self.trees

    def put(self, name: str, files: dict[str, str | None]) -> None:
        """What an agent does to its files."""
        for path, text in files.items():
            there = self.trees.path(JOB, name) / path
            if text is None:
                self.disk.work[JOB, name].pop(path)
                there.unlink()
            else:
                self.disk.write(f"{JOB}|{name}", path, text)
                there.parent.mkdir(parents=True, exist_ok=True)
                there.write_text(text)

    def same(self) -> None:
        one, other = ({name: self.files(world, name) for name in (ROOT, CHILD)} for world in self.worlds)
        assert one == other

    @staticmethod
    def files(world: Workspace, name: str) -> dict[str, str | None]:
        return {path: world.read(JOB, name, path) for path in world.listing(JOB, name, "") if path != ".git"}


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    made = Pair(tmp_path)
    for world in made.worlds:
        world.prepare(JOB, ROOT, "")
    made.put(ROOT, {"db/schema": "1", "web/page": "1"})
    for world in made.worlds:
        world.snapshot(JOB, ROOT, "")
        world.write(JOB, ROOT, {"orchestration/shared_status.json": "1", "orchestration/x": "x"})
        world.write(JOB, ROOT, {"orchestration/x": None})
        world.prepare(JOB, CHILD, ROOT)
    return made


def test_a_turn_a_merge_that_is_not_taken_and_one_that_is(pair: Pair) -> None:
    pair.same()
    trees = [world.snapshot(JOB, ROOT, "before").tree for world in pair.worlds]
    pair.put(CHILD, {"db/schema": "2", "web/page": "2", "web/new": "2", OUTPUT: "2", "top": "2"})
    for world in pair.worlds:
        lines = [line.split(": ")[0] for line in world.snapshot(JOB, CHILD, "turn", WEB).left_out]
        assert lines == ["db/schema", "top"]
        assert world.snapshot(JOB, CHILD, "again", WEB).left_out == ()
    pair.same()
    for world, tree in zip(pair.worlds, trees, strict=True):
        merged = world.merge(JOB, CHILD, ROOT, WEB)
        assert sorted(merged.paths) == [OUTPUT, "web/new", "web/page"]
        assert len(merged.commits) == 2
        world.restore(JOB, ROOT, tree, "merge-1")
    pair.same()
    for world in pair.worlds:
        assert len(world.merge(JOB, CHILD, ROOT, WEB).paths) == 3
        assert world.merge(JOB, CHILD, ROOT, WEB).paths == ()
    pair.same()


def test_what_another_brought_comes_down_and_is_nobodys_change(pair: Pair) -> None:
    pair.put(CHILD, {"web/page": "mine"})
    pair.put(ROOT, {"db/schema": "newer"})
    for world in pair.worlds:
        world.snapshot(JOB, CHILD, "turn", WEB)
        world.snapshot(JOB, ROOT, "theirs")
        world.write(JOB, ROOT, {"orchestration/shared_status.json": "2"})
        refreshed = world.refresh(JOB, CHILD, ROOT)
        assert sorted(refreshed.paths) == ["db/schema", "orchestration/shared_status.json"]
        assert world.snapshot(JOB, CHILD, "turn", WEB).left_out == ()
    pair.same()
    for world in pair.worlds:
        merged = world.merge(JOB, CHILD, ROOT, WEB)
        assert (merged.paths, merged.kept_out) == (("web/page",), ())
    pair.same()


def test_what_both_sides_have_changed_is_a_conflict_until_somebody_settles_it(pair: Pair) -> None:
    pair.put(CHILD, {"web/page": "of the child", "web/new": "2"})
    pair.put(ROOT, {"web/page": "of the root"})
    for world in pair.worlds:
        world.snapshot(JOB, CHILD, "turn", WEB)
        world.snapshot(JOB, ROOT, "theirs")
        kept_apart = world.refresh(JOB, CHILD, ROOT, clean=True)
        assert (kept_apart.paths, [one.path for one in kept_apart.conflicts]) == ((), ["web/page"])
    pair.same()
    for world in pair.worlds:
        merged = world.merge(JOB, CHILD, ROOT, WEB)
        assert sorted(merged.paths) == ["web/new", "web/page"]
        (conflict,) = merged.conflicts
        sides = [str(side).strip() for side in (conflict.ours, conflict.theirs)]
        assert (conflict.path, sides) == ("web/page", ["of the root", "of the child"])
        assert world.unresolved(JOB, ROOT) == ["web/page"]
    pair.put(ROOT, {"web/page": "of both"})
    for world in pair.worlds:
        world.snapshot(JOB, ROOT, "settled")
        assert world.unresolved(JOB, ROOT) == []
        assert world.merge(JOB, CHILD, ROOT, WEB) == Merge()
    pair.same()


def test_a_conflict_that_a_child_is_given_and_leaves_open_is_open_above_as_well(pair: Pair) -> None:
    pair.put(CHILD, {"web/page": "of the child"})
    pair.put(ROOT, {"web/page": "of the root"})
    for world in pair.worlds:
        world.snapshot(JOB, CHILD, "turn", WEB)
        world.snapshot(JOB, ROOT, "theirs")
        assert [one.path for one in world.refresh(JOB, CHILD, ROOT).conflicts] == ["web/page"]
        assert world.unresolved(JOB, CHILD) == ["web/page"]
        world.snapshot(JOB, CHILD, "turn", WEB)
        merged = world.merge(JOB, CHILD, ROOT, WEB)
        assert [one.path for one in merged.conflicts] == ["web/page"]
        assert world.unresolved(JOB, ROOT) == ["web/page"]
