"""What a child committed comes into its parent's tree, and nothing of either side gets lost."""

import itertools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workspaces.user_repository import CHILD, JOB, OTHER, ROOT, UserRepository, read, repository, write


@pytest.fixture
def family(place: UserRepository) -> UserRepository:
    place.prepare()
    place.turn(ROOT, {"text": "one\ntwo\nthree\n", "bin": b"\0one", "gone": "gone\n", "INTENT.md": "intent"})
    for name in (CHILD, OTHER):
        place.prepare(name, ROOT)
    return place


def test_clean_changes_come_into_the_parents_tree_and_folder(family: UserRepository) -> None:
    family.turn(CHILD, {"text": "ONE\ntwo\nthree\n", "new/file": "new"}, gone=("gone",))
    family.turn(ROOT, {"text": "one\ntwo\nTHREE\n"})

    merged = family.trees.merge(JOB, CHILD, ROOT)

    assert (merged.paths, merged.conflicts, merged.left_out) == (("gone", "new/file", "text"), (), ())
    expected = {"text": b"ONE\ntwo\nTHREE\n", "new/file": b"new", "bin": b"\0one", "INTENT.md": b"intent"}
    assert family.committed().items() >= expected.items()
    assert read(family.trees.path(JOB, ROOT)) == family.committed()
    assert family.trees.unresolved(JOB, ROOT) == []


def test_the_protocols_own_files_stay_the_parents(family: UserRepository) -> None:
    family.turn(CHILD, {"INTENT.md": "hacked", "PLAN.md": "mine", "orchestration/x": "x", "work": "work"})

    assert family.trees.merge(JOB, CHILD, ROOT).paths == ("work",)
    family.turn(CHILD, {"INTENT.md": "hacked again", "work": "more"})
    assert family.trees.merge(JOB, CHILD, ROOT).paths == ("work",)
    assert family.committed()["INTENT.md"] == b"intent"
    assert "PLAN.md" not in family.committed()


def test_merging_again_brings_only_what_is_new(family: UserRepository) -> None:
    family.turn(CHILD, {"text": "child\n"})
    family.trees.merge(JOB, CHILD, ROOT)
    family.turn(ROOT, {"text": "parent's last word\n"})

    assert family.trees.merge(JOB, CHILD, ROOT).paths == ()
    family.turn(CHILD, {"new": "new"})
    assert family.trees.merge(JOB, CHILD, ROOT).paths == ("new",)
    assert family.committed()["text"] == b"parent's last word\n"


def test_what_the_parent_had_not_committed_is_not_lost(family: UserRepository) -> None:
    family.turn(CHILD, {"text": "ONE\ntwo\nthree\n"})
    work = family.trees.path(JOB, ROOT)
    write(work, {"text": "one\ntwo\nTHREE\n", "uncommitted": "x"})
    (work / "new").symlink_to("/etc")
    family.turn(CHILD, {"new": "in the way"})

    family.trees.merge(JOB, CHILD, ROOT)

    assert family.committed()["text"] == b"ONE\ntwo\nTHREE\n"
    assert family.committed()["uncommitted"] == b"x"
    assert (work / "new").read_text() == "in the way"
    assert "new" in family.own("ls-tree", "--name-only", "refs/parley/left/j1/job").split()


def test_what_the_child_had_not_committed_is_told(family: UserRepository) -> None:
    family.turn(CHILD, {"done": "done"})
    write(family.trees.path(JOB, CHILD), {"undone": "x", "done": "more"})

    merged = family.trees.merge(JOB, CHILD, ROOT)

    assert merged.paths == ("done",)
    assert merged.left_out == ("done: its last turn did not commit it", "undone: its last turn did not commit it")


def test_a_conflict_in_a_text_shows_both_sides_and_waits_until_it_is_settled(family: UserRepository) -> None:
    family.turn(CHILD, {"text": "one\nchild\nthree\n"})
    family.turn(ROOT, {"text": "one\nparent\nthree\n"})

    merged = family.trees.merge(JOB, CHILD, ROOT)

    (conflict,) = merged.conflicts
    assert (conflict.path, conflict.ours, conflict.theirs) == (
        "text",
        "one\nparent\nthree\n",
        "one\nchild\nthree\n",
    )
    marked = "one\n<<<<<<< parent\nparent\n=======\nchild\n>>>>>>> dispatch:c1\nthree\n"
    assert family.committed()["text"].decode() == marked
    family.again()
    assert family.trees.unresolved(JOB, ROOT) == ["text"]
    family.turn(ROOT, {"text": "one\nboth\nthree\n"})
    assert family.trees.unresolved(JOB, ROOT) == []
    family.turn(CHILD, {"more": "x"})
    assert family.trees.merge(JOB, CHILD, ROOT).conflicts == ()


def test_conflicts_that_are_no_text_keep_the_parents_and_lay_the_other_beside(family: UserRepository) -> None:
    family.turn(CHILD, {"bin": b"\0child", "text": "changed\n", "x": "child's file"}, gone=("gone",))
    family.turn(ROOT, {"bin": b"\0parent", "gone": "changed\n", "x/y": "parent's folder"}, gone=("text",))
    before = family.committed()

    merged = family.trees.merge(JOB, CHILD, ROOT)

    assert {conflict.path for conflict in merged.conflicts} == {"bin", "text", "gone", "x.theirs"}
    by_path = {conflict.path: conflict for conflict in merged.conflicts}
    assert (by_path["text"].ours, by_path["text"].theirs) == (None, "changed\n")
    assert (by_path["gone"].ours, by_path["gone"].theirs) == ("changed\n", None)
    assert by_path["bin"].theirs == "(6 bytes that are no text)"
    beside = {"bin.theirs": b"\0child", "text.theirs": b"changed\n", "x.theirs": b"child's file"}
    deleted = {"gone.theirs-deleted": family.committed()["gone.theirs-deleted"]}
    assert b"dispatch:c1 deleted gone" in deleted["gone.theirs-deleted"]
    assert family.committed() == {**before, **beside, **deleted}
    assert family.trees.unresolved(JOB, ROOT) == ["bin", "gone", "text", "x.theirs"]
    family.turn(ROOT, {}, gone=tuple(deleted))
    assert family.trees.unresolved(JOB, ROOT) == ["bin", "text", "x.theirs"]
    family.turn(ROOT, {}, gone=tuple(beside))
    assert family.trees.unresolved(JOB, ROOT) == []


def test_a_merge_that_a_crash_takes_back_is_done_again(family: UserRepository) -> None:
    family.turn(CHILD, {"text": "child\n", "new": "new"})
    tree = family.turn(ROOT, {"text": "parent\n"}).tree
    once = family.trees.merge(JOB, CHILD, ROOT)
    after = family.committed()

    family.again()
    family.trees.restore(JOB, ROOT, tree, "epoch-2")
    assert family.trees.unresolved(JOB, ROOT) == []
    assert family.committed()["text"] == b"parent\n"
    again = family.trees.merge(JOB, CHILD, ROOT)

    assert (again.paths, again.conflicts) == (once.paths, once.conflicts)
    assert family.committed() == after
    kept = family.turn(ROOT, {}).tree
    family.turn(ROOT, {"text": "settled"})
    family.trees.restore(JOB, ROOT, kept, "epoch-3")
    assert family.trees.unresolved(JOB, ROOT) == ["text"]


def test_two_children_and_a_grandchild_come_up_one_after_the_other(family: UserRepository) -> None:
    grandchild = "dispatch:g1"
    family.turn(CHILD, {"a": "child\n"})
    family.prepare(grandchild, CHILD)
    family.turn(grandchild, {"a": "child\ngrandchild\n"})
    family.turn(OTHER, {"b": "other\n"})

    for name, parent in ((grandchild, CHILD), (CHILD, ROOT), (OTHER, ROOT)):
        assert family.trees.merge(JOB, name, parent).conflicts == ()

    assert family.committed().items() >= {"a": b"child\ngrandchild\n", "b": b"other\n"}.items()


def test_a_conflict_that_a_child_left_open_is_open_above_it_too(family: UserRepository) -> None:
    grandchild = "dispatch:g1"
    family.prepare(grandchild, CHILD)
    family.turn(CHILD, {"text": "child\n"})
    family.turn(grandchild, {"text": "grandchild\n"})

    assert [conflict.path for conflict in family.trees.merge(JOB, grandchild, CHILD).conflicts] == ["text"]
    merged = family.trees.merge(JOB, CHILD, ROOT)

    ((path, ours, theirs),) = ((found.path, found.ours, found.theirs) for found in merged.conflicts)
    assert (path, ours) == ("text", "one\ntwo\nthree\n")
    assert theirs == "<<<<<<< parent\nchild\n=======\ngrandchild\n>>>>>>> dispatch:g1\n"
    assert family.trees.merge(JOB, CHILD, ROOT).conflicts[0].path == "text"  # as long as it is open
    assert b">>>>>>> dispatch:g1" in family.committed()["text"]
    assert family.trees.unresolved(JOB, ROOT) == ["text"]
    family.turn(ROOT, {"text": "both\n"})
    assert family.trees.unresolved(JOB, ROOT) == []
    assert family.trees.merge(JOB, CHILD, ROOT).conflicts == ()


def test_a_conflict_that_a_child_left_open_is_open_above_it_when_the_child_has_gone(family: UserRepository) -> None:
    grandchild = "dispatch:g1"
    family.prepare(grandchild, CHILD)
    family.turn(CHILD, {"bin": b"\0child"})
    family.turn(grandchild, {"bin": b"\0grandchild"})
    family.trees.merge(JOB, grandchild, CHILD)
    family.trees.retire(JOB, CHILD)

    merged = family.trees.merge(JOB, CHILD, ROOT)

    assert [conflict.path for conflict in merged.conflicts] == ["bin"]
    assert family.trees.unresolved(JOB, ROOT) == ["bin"]


# ---- across a workspace that is being worked in ------------------------------------------------------

GRANDCHILD = "dispatch:g1"


@pytest.fixture
def deep(family: UserRepository) -> UserRepository:
    """A child that has committed something, with a grandchild made from that, and is at work on more."""
    family.turn(CHILD, {"child": "one\n"})
    family.prepare(GRANDCHILD, CHILD)
    family.turn(GRANDCHILD, {"text": "one\ntwo\ngrandchild\n", "new": "new\n"})
    write(family.trees.path(JOB, CHILD), {"child": "half", "at-work": "x"})
    return family


def test_a_grandchild_comes_up_without_the_child_that_is_at_work(deep: UserRepository) -> None:
    tip, files = deep.trees.tree(JOB, CHILD).tip, read(deep.trees.path(JOB, CHILD))
    before = deep.committed()

    merged = deep.trees.merge(JOB, GRANDCHILD, ROOT)

    assert (merged.paths, merged.conflicts) == (("new", "text"), ())
    assert deep.committed() == {**before, "text": b"one\ntwo\ngrandchild\n", "new": b"new\n"}
    assert (deep.trees.tree(JOB, CHILD).tip, read(deep.trees.path(JOB, CHILD))) == (tip, files)
    assert deep.trees.merge(JOB, GRANDCHILD, ROOT).paths == ()
    deep.turn(GRANDCHILD, {"new": "newer\n"})
    deep.turn(ROOT, {"text": "parent's last word\n"})
    assert deep.trees.merge(JOB, GRANDCHILD, ROOT).paths == ("new",)
    assert deep.committed()["text"] == b"parent's last word\n"


@pytest.mark.parametrize("how", ["the child has it too", "the child has built on it", "the parent has", "neither"])
def test_a_child_that_comes_later_brings_its_own_and_doubles_nothing(deep: UserRepository, how: str) -> None:
    deep.trees.merge(JOB, GRANDCHILD, ROOT)
    expected = {"text": "one\ntwo\ngrandchild\n", "child": "two\n", "new": "new\n"}
    if how != "neither":
        deep.trees.merge(JOB, GRANDCHILD, CHILD)
    if how == "the child has built on it":
        expected["text"] = "one\ntwo\ngrandchild\nchild\n"
        deep.turn(CHILD, {"text": expected["text"]})
    if how == "the parent has":
        expected["text"] = "one\ntwo\ngrandchild\nparent\n"
        deep.turn(ROOT, {"text": expected["text"]})
    deep.turn(CHILD, {"child": "two\n"}, gone=("at-work",))

    merged = deep.trees.merge(JOB, CHILD, ROOT)

    assert merged.conflicts == ()
    assert "child" in merged.paths
    assert deep.committed().items() >= {path: data.encode() for path, data in expected.items()}.items()
    deep.turn(GRANDCHILD, {"new": "newer\n"})
    again = deep.trees.merge(JOB, GRANDCHILD, ROOT)
    assert (again.paths, again.conflicts) == (("new",), ())


def test_a_merge_across_that_a_crash_takes_back_is_done_again(deep: UserRepository) -> None:
    tree = deep.turn(ROOT, {}).tree
    once = deep.trees.merge(JOB, GRANDCHILD, ROOT)
    after = deep.committed()

    deep.again()
    deep.trees.restore(JOB, ROOT, tree, "epoch-2")

    assert deep.trees.merge(JOB, GRANDCHILD, ROOT).paths == once.paths
    assert deep.committed() == after


def test_long_sides_are_shown_as_far_as_there_is_room(family: UserRepository) -> None:
    family.turn(CHILD, {"text": "child\n" * 2000})
    family.turn(ROOT, {"text": "parent\n" * 2000})

    (conflict,) = family.trees.merge(JOB, CHILD, ROOT).conflicts

    assert conflict.ours is not None
    assert len(conflict.ours) < 4100
    assert conflict.ours.endswith("(14000 bytes in all)")


# ---- any edits -----------------------------------------------------------------------------------

NUMBERS = itertools.count()
START = [f"line {number}" for number in range(8)]
Edit = st.tuples(st.integers(0, 8), st.sampled_from(["insert", "change", "delete"]), st.integers(0, 99))
Side = st.dictionaries(st.sampled_from(["f", "g", "new"]), st.lists(Edit, max_size=4), max_size=3)


def edited(side: dict[str, list[tuple[int, str, int]]], who: str) -> dict[str, list[str]]:
    files = {"f": list(START), "g": list(START)}
    for name, edits in side.items():
        lines = files.setdefault(name, [])
        for number, (at, how, what) in enumerate(edits):
            place = min(at, len(lines))
            if how == "insert" or place == len(lines):
                lines.insert(place, f"{who} {number} {what}")
            elif how == "change":
                lines[place] = f"{who} {number} {what}"
            else:
                del lines[place]
    return files


@pytest.fixture(scope="module")
def rooted(tmp_path_factory: pytest.TempPathFactory) -> UserRepository:
    made = repository(tmp_path_factory.mktemp("merge") / "repo", {"f": text(START), "g": text(START)})
    made.prepare()
    return made


def text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ours=Side, theirs=Side)
def test_every_line_that_a_side_wrote_survives_or_is_in_a_conflict(
    rooted: UserRepository,
    ours: dict[str, list[tuple[int, str, int]]],
    theirs: dict[str, list[tuple[int, str, int]]],
) -> None:
    number = next(NUMBERS)  # a family of its own for each example
    parent, child = f"dispatch:p{number}", f"dispatch:c{number}"
    rooted.prepare(parent, ROOT)
    rooted.prepare(child, parent)
    mine, other = edited(ours, "parent"), edited(theirs, "child")
    rooted.turn(parent, {name: text(lines) for name, lines in mine.items()})
    rooted.turn(child, {name: text(lines) for name, lines in other.items()})

    merged = rooted.trees.merge(JOB, child, parent)

    files = {path: data.decode().splitlines() for path, data in rooted.committed(parent).items()}
    for name in {*mine, *other}:
        here = set(files.get(name, []))
        written = {line for line in (*mine.get(name, []), *other.get(name, [])) if not line.startswith("line")}
        assert written <= here
        assert {line for line in mine.get(name, []) if line in other.get(name, [])} <= here
    conflicted = {conflict.path for conflict in merged.conflicts}
    assert set(rooted.trees.unresolved(JOB, parent)) == conflicted
    assert {path for path, lines in files.items() if "<<<<<<< parent" in lines} == conflicted
    assert read(Path(rooted.trees.path(JOB, parent))) == rooted.committed(parent)
