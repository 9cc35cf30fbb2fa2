"""Whose a path is: what a worker changed of somebody else's is in no commit and in no merge."""

import contextlib
import fnmatch
import os
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.ports.workspaces import Scope
from parley.workspaces.merge.ownership_fence import outside
from tests.workspaces.user_repository import CHILD, JOB, ROOT, UserRepository, read, repository, write

OUTPUT = "orchestration/agents/web/task_output"
FILES: dict[str, str | bytes] = {
    "db/schema.sql": "create\n",
    "db/deep/seed.sql": "insert\n",
    "web/page.html": "page\n",
    ".gitignore": "*.log\n",
}


def _whose(path: str) -> str:
    if path.startswith(("web/", f"{OUTPUT}/")):
        return ""
    return "belongs to database_agent (owns db/**)"


WEB = Scope(_whose)


@pytest.fixture
def place(tmp_path: Path) -> UserRepository:
    made = repository(tmp_path / "user", FILES | {f"db{number}/schema.sql": "create\n" for number in range(len(WAYS))})
    made.prepare()
    made.prepare(CHILD, ROOT)
    return made


def _delete(folder: Path) -> None:
    (folder / "schema.sql").unlink()


def _rename(folder: Path) -> None:
    (folder / "schema.sql").rename(folder.parent / "web/schema.sql")


def _make_a_program(folder: Path) -> None:
    (folder / "schema.sql").chmod(0o755)


def _link_the_folder(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.symlink_to("web")


def _link_the_file(folder: Path) -> None:
    (folder / "schema.sql").unlink()
    (folder / "schema.sql").symlink_to("../web/page.html")


def _make_it_a_folder(folder: Path) -> None:
    (folder / "schema.sql").unlink()
    write(folder, {"schema.sql/web/x": "x"})


def _hide_it(folder: Path) -> None:
    with (folder.parent / ".gitignore").open("a") as file:
        file.write(f"{folder.name}/\n")
    write(folder, {"new.sql": "new"})


def _hide_it_beside(folder: Path) -> None:
    write(folder, {".gitignore": "*\n", "hidden.sql": "new"})


def _share_an_inode(folder: Path) -> None:
    os.link(folder / "schema.sql", folder.parent / "web/twin.sql")
    with (folder.parent / "web/twin.sql").open("a") as file:
        file.write("drop\n")


def _keep_size_and_time(folder: Path) -> None:
    there = folder / "schema.sql"
    found = there.stat()
    there.write_text("CREATE\n")
    os.utime(there, ns=(found.st_atime_ns, found.st_mtime_ns))


def _change_the_case(folder: Path) -> None:
    write(folder.parent, {f"{folder.name.upper()}/schema.sql": "x", f"{folder.name}/SCHEMA.SQL": "x"})


def _put_a_repository_there(folder: Path) -> None:
    write(folder, {"inner/.git/HEAD": "ref: refs/heads/main\n", "inner/x": "x"})
    for name in ("objects", "refs"):
        (folder / "inner/.git" / name).mkdir()


def _shut_it(folder: Path) -> None:
    folder.chmod(0)


def _rewrite(folder: Path) -> None:
    write(folder, {"schema.sql": "drop\n", "more/new.sql": "x"})


def _forge_the_protocol(folder: Path) -> None:
    write(folder.parent, {"orchestration/shared_status.json": "{}", "orchestration/agents/db/task_output/x": "x"})


def _write_an_artifact(folder: Path) -> None:
    write(folder.parent, {"INTENT.md": "mine", "top": "mine"})


WAYS: list[Callable[[Path], None]] = [
    _delete, _rename, _make_a_program, _link_the_folder, _link_the_file, _make_it_a_folder, _hide_it, _hide_it_beside,
    _share_an_inode, _keep_size_and_time, _change_the_case, _put_a_repository_there, _shut_it, _rewrite,
    _forge_the_protocol, _write_an_artifact,
]  # fmt: skip
HIDDEN = {f"db{WAYS.index(_hide_it_beside)}/{name}" for name in (".gitignore", "hidden.sql")}


def _spoil(folder: Path) -> dict[str, str | bytes]:
    """Everything that can be done to another's files, each to a folder of its own; what is the worker's own besides."""
    for number, way in enumerate(WAYS):
        way(folder / f"db{number}")
    mine: dict[str, str | bytes] = {"web/page.html": "better\n", f"{OUTPUT}/page.log": "out"}
    write(folder, mine)
    return mine


def _theirs(files: Mapping[str, object]) -> dict[str, object]:
    return {path: data for path, data in files.items() if _whose(path)}


def test_whatever_a_turn_did_to_anothers_files_they_are_in_its_commit_as_they_were(place: UserRepository) -> None:
    folder, history = place.trees.path(JOB, CHILD), place.trees.repository(JOB)
    before = history.entries(place.trees.tree(JOB, CHILD).tip)
    mine = _spoil(folder)
    kept = place.trees.snapshot(JOB, CHILD, "turn", WEB)
    committed = place.committed(CHILD)
    assert _theirs(history.entries(kept.tree)) == _theirs(before)
    assert {path: committed[path].decode() for path in mine} == mine
    assert committed["web/schema.sql"] == b"create\n"
    assert kept.left_out
    # and in its folder, too: nothing is there that is not in the commit, but for what its own rules hide
    assert {path: data for path, data in read(folder).items() if path not in HIDDEN} == committed
    assert place.trees.snapshot(JOB, CHILD, "again", WEB).left_out == ()


def test_what_was_committed_of_anothers_is_not_merged(place: UserRepository) -> None:
    history = place.trees.repository(JOB)
    before = history.entries(place.trees.tree(JOB, ROOT).tip)
    _spoil(place.trees.path(JOB, CHILD))
    place.trees.snapshot(JOB, CHILD, "a turn of somebody without a scope")
    merged = place.trees.merge(JOB, CHILD, ROOT, WEB)
    assert _theirs(history.entries(place.trees.tree(JOB, ROOT).tip)) == _theirs(before)
    assert place.committed()["web/page.html"] == b"better\n"
    assert read(place.trees.path(JOB, ROOT)) == place.committed()
    assert merged.kept_out
    assert all("belongs to database_agent (owns db/**)" in line for line in merged.kept_out)


def test_what_was_left_out_names_the_owner_and_is_kept_under_a_ref(place: UserRepository) -> None:
    write(place.trees.path(JOB, CHILD), {"db/schema.sql": "drop\n", "web/page.html": "better\n"})
    (line,) = place.trees.snapshot(JOB, CHILD, "turn", WEB).left_out
    ref = "refs/parley/left/j1/c1"
    assert line == (
        "db/schema.sql: belongs to database_agent (owns db/**); it was put back as it was, "
        f"and what was there is kept under {ref}"
    )
    assert place.own("show", f"{ref}:db/schema.sql") == "drop\n"
    write(place.trees.path(JOB, CHILD), {"db/schema.sql": "drop again\n"})
    place.trees.snapshot(JOB, CHILD, "turn", WEB)
    assert place.own("show", f"{ref}:db/schema.sql") == "drop again\n"
    assert place.own("show", f"{ref}^:db/schema.sql") == "drop\n"


def test_without_a_scope_all_of_it_is_committed(place: UserRepository) -> None:
    assert place.turn(CHILD, {"db/schema.sql": "drop\n"}).left_out == ()
    assert place.committed(CHILD)["db/schema.sql"] == b"drop\n"


# ---- merging ---------------------------------------------------------------------------------------


def test_a_merge_names_what_was_merged_and_the_result(place: UserRepository) -> None:
    assert place.trees.merge(JOB, CHILD, ROOT, WEB).commits == ()
    place.turn(CHILD, {"web/page.html": "better\n"})
    merged = place.trees.merge(JOB, CHILD, ROOT, WEB)
    assert merged.commits == (place.trees.tree(JOB, CHILD).tip, place.trees.tree(JOB, ROOT).tip)
    assert (merged.paths, merged.kept_out) == (("web/page.html",), ())


def test_of_the_protocols_files_only_ones_own_outputs_are_merged(place: UserRepository) -> None:
    place.trees.write(JOB, ROOT, {"orchestration/shared_status.json": "1", f"{OUTPUT}/old": "old"})
    place.trees.refresh(JOB, CHILD, ROOT)
    files: dict[str, str | bytes] = {
        "orchestration/shared_status.json": "forged",
        "orchestration/agents/web/completion_drive/session_current.json": "{}",
        "orchestration/agents/db/task_output/schema.sql": "forged",
        f"{OUTPUT}/page.html": "page",
        "web/x": "x",
    }
    place.turn(CHILD, files, (f"{OUTPUT}/old",))
    merged = place.trees.merge(JOB, CHILD, ROOT, WEB)
    assert merged.paths == (f"{OUTPUT}/old", f"{OUTPUT}/page.html", "web/x")
    assert {path for path in place.committed() if path.startswith("orchestration")} == {
        "orchestration/shared_status.json",
        f"{OUTPUT}/page.html",
    }
    assert place.committed()["orchestration/shared_status.json"] == b"1"


def test_a_merge_that_is_taken_back_can_be_made_again(place: UserRepository) -> None:
    before = place.trees.snapshot(JOB, ROOT, "before").tree
    place.turn(CHILD, {"web/page.html": "broken\n"})
    place.trees.merge(JOB, CHILD, ROOT, WEB)
    place.trees.restore(JOB, ROOT, before, "merge-1")
    assert place.committed()["web/page.html"] == b"page\n"
    place.turn(CHILD, {"web/page.html": "better\n"})
    assert place.trees.merge(JOB, CHILD, ROOT, WEB).paths == ("web/page.html",)
    assert place.committed()["web/page.html"] == b"better\n"


def test_a_change_does_not_follow_the_parents_rename_to_where_it_is_not_allowed(place: UserRepository) -> None:
    long = "".join(f"line {number}\n" for number in range(50))
    place.turn(ROOT, {"web/long": long})
    place.trees.refresh(JOB, CHILD, ROOT)
    place.turn(ROOT, {"db/long": long}, ("web/long",))
    place.turn(CHILD, {"web/long": f"{long}more\n"})
    merged = place.trees.merge(JOB, CHILD, ROOT, WEB)
    assert place.committed()["db/long"] == long.encode()
    assert merged.conflicts or merged.kept_out


def test_what_goes_on_in_a_new_tree_leaves_behind_what_was_re_scoped_away_meanwhile(place: UserRepository) -> None:
    place.turn(CHILD, {"web/page.html": "better\n", "web/deep/new.html": "new\n", "web/mine.html": "mine\n"})
    narrow = Scope(lambda path: "it is another's by now" if path != "web/mine.html" else "")
    place.prepare("dispatch:c2", ROOT)
    moved = place.trees.merge(JOB, CHILD, "dispatch:c2", narrow)
    assert moved.paths == ("web/mine.html",)
    assert [line.partition(":")[0] for line in moved.kept_out] == ["web/deep/new.html", "web/page.html"]
    place.turn("dispatch:c2", {"web/mine.html": "mine, still\n"})

    merged = place.trees.merge(JOB, "dispatch:c2", ROOT, narrow)

    assert (merged.paths, merged.kept_out) == (("web/mine.html",), ())
    found = place.committed()
    assert (found["web/page.html"], found["web/mine.html"]) == (b"page\n", b"mine, still\n")
    assert "web/deep/new.html" not in found
    assert place.committed(CHILD)["web/deep/new.html"] == b"new\n"  # and is not lost


# ---- a tree of one's own, from anybody's -------------------------------------------------------------


def test_a_verifiers_tree_starts_as_the_doers(place: UserRepository) -> None:
    place.turn(CHILD, {"web/page.html": "better\n"})
    fresh = place.prepare("dispatch:v1", CHILD)
    assert (fresh / "web/page.html").read_text() == "better\n"


def test_a_refreshed_tree_has_what_others_made_and_what_it_made_itself(place: UserRepository) -> None:
    place.trees.write(JOB, ROOT, {"orchestration/shared_status.json": "1"})
    place.turn(ROOT, {"db/schema.sql": "newer\n", "orchestration/agents/db/task_output/schema.sql": "newer\n"})
    place.turn(CHILD, {"web/page.html": "better\n", f"{OUTPUT}/page": "mine"})
    place.trees.write(JOB, CHILD, {"orchestration/shared_status.json": "0"})
    refreshed = place.trees.refresh(JOB, CHILD, ROOT)
    found = read(place.trees.path(JOB, CHILD))
    assert refreshed.conflicts == ()
    assert found == place.committed(CHILD)
    assert found["db/schema.sql"] == found["orchestration/agents/db/task_output/schema.sql"] == b"newer\n"
    assert (found["web/page.html"], found[f"{OUTPUT}/page"]) == (b"better\n", b"mine")
    assert found["orchestration/shared_status.json"] == b"1"
    assert place.trees.refresh(JOB, CHILD, ROOT).paths == ()
    # nothing of the parent's is the child's change
    assert place.trees.merge(JOB, CHILD, ROOT, WEB).kept_out == ()
    assert place.trees.merge(JOB, CHILD, ROOT, WEB).paths == ()


def test_a_refresh_that_conflicts_leaves_both_sides_for_the_worker_to_settle(place: UserRepository) -> None:
    place.turn(ROOT, {"web/page.html": "theirs\n"})
    place.turn(CHILD, {"web/page.html": "mine\n"})
    (conflict,) = place.trees.refresh(JOB, CHILD, ROOT).conflicts
    assert (conflict.path, conflict.ours, conflict.theirs) == ("web/page.html", "mine\n", "theirs\n")
    text = (place.trees.path(JOB, CHILD) / "web/page.html").read_text()
    assert text == "<<<<<<< yours\nmine\n=======\ntheirs\n>>>>>>> parent\n"
    assert place.trees.unresolved(JOB, CHILD) == ["web/page.html"]
    place.turn(CHILD, {"web/page.html": "both\n"})
    assert place.trees.unresolved(JOB, CHILD) == []
    assert place.trees.merge(JOB, CHILD, ROOT, WEB).conflicts == ()
    assert place.committed()["web/page.html"] == b"both\n"


# ---- whatever a shell can do -------------------------------------------------------------------------

STEPS = st.sampled_from(["db", "web", "schema.sql", "deep", "x", ".gitignore", "DB"])
SPOTS = st.lists(STEPS, min_size=1, max_size=3).map("/".join)
DEEDS = st.lists(
    st.tuples(st.sampled_from(["write", "remove", "link", "rename", "mode", "folder"]), SPOTS, SPOTS), max_size=6
)


def _do(folder: Path, deed: str, path: str, other: str) -> None:
    there = folder / path
    with contextlib.suppress(OSError):
        if deed == "remove":
            shutil.rmtree(there) if there.is_dir() and not there.is_symlink() else there.unlink()
        elif deed == "rename":
            there.rename(folder / other)
        elif deed == "mode":
            there.chmod(0o755)
        elif deed == "link":
            there.symlink_to(other)
        else:
            (there if deed == "folder" else there.parent).mkdir(parents=True, exist_ok=True)
            if deed == "write":
                there.write_text(f"{other}\n")


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> UserRepository:
    made = repository(tmp_path_factory.mktemp("ground") / "user", FILES)
    made.prepare()
    return made


@given(deeds=DEEDS, scoped=st.booleans())
@settings(max_examples=6)
def test_no_row_of_deeds_gets_anothers_file_into_a_commit_or_a_merge(
    ground: UserRepository, deeds: list[tuple[str, str, str]], scoped: bool
) -> None:
    name = f"dispatch:c{uuid.uuid4().hex}"
    folder, history = ground.prepare(name, ROOT), ground.trees.repository(JOB)
    before = history.entries(ground.trees.tree(JOB, ROOT).tip)
    for deed in deeds:
        _do(folder, *deed)
    kept = ground.trees.snapshot(JOB, name, "turn", WEB if scoped else None)
    if scoped:
        assert _theirs(history.entries(kept.tree)) == _theirs(before)
        again = ground.trees.snapshot(JOB, name, "again", WEB)
        assert again.tree == kept.tree
        assert not [line for line in again.left_out if not line.startswith("web/")]
    start = history.tree(ground.trees.tree(JOB, ROOT).tip)
    merged = ground.trees.merge(JOB, name, ROOT, WEB)
    assert _theirs(history.entries(ground.trees.tree(JOB, ROOT).tip)) == _theirs(before)
    assert not [path for path in merged.paths if _whose(path)]
    assert merged.conflicts == ()
    ground.trees.restore(JOB, ROOT, start, "example")
    ground.trees.retire(JOB, name)


def test_a_refresh_that_is_to_be_clean_changes_nothing_where_it_would_conflict(place: UserRepository) -> None:
    place.turn(ROOT, {"web/page.html": "theirs\n", "db/schema.sql": "newer\n"})
    place.turn(CHILD, {"web/page.html": "mine\n"})
    before = read(place.trees.path(JOB, CHILD))
    (conflict,) = place.trees.refresh(JOB, CHILD, ROOT, clean=True).conflicts
    assert conflict.path == "web/page.html"
    assert read(place.trees.path(JOB, CHILD)) == before == place.committed(CHILD)
    assert place.trees.unresolved(JOB, CHILD) == []
    # so that the merge, where both sides are proved, finds it
    assert [one.path for one in place.trees.merge(JOB, CHILD, ROOT, WEB).conflicts] == ["web/page.html"]


# ---- what is judged ------------------------------------------------------------------------------------

NAMES = st.sampled_from(["db", "web", "x"])
PATHS = st.lists(st.lists(NAMES, min_size=1, max_size=3).map("/".join), max_size=8, unique=True)


@given(paths=PATHS, pattern=st.sampled_from(["db", "db/*", "web/*", "x", "*/x", "nothing"]))
def test_whatever_stands_in_the_way_of_what_is_put_back_goes_with_it(paths: list[str], pattern: str) -> None:
    refused = {path for path in paths if fnmatch.fnmatchcase(path, pattern)}
    found = outside(paths, Scope(lambda path: "no" if path in refused else ""))
    assert refused <= found.keys() <= set(paths)
    for path in paths:
        near = any(path.startswith(f"{one}/") or one.startswith(f"{path}/") for one in refused)
        assert (path in found) == (path in refused or near)
