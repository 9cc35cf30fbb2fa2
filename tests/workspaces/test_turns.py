"""A workspace through its turns: made, committed, lost, put back, retired."""

import os
import shutil
import socket
import stat
import time
from pathlib import Path

import pytest

from parley.ports.turns import Site
from parley.ports.workspaces import OverQuota, WorkspaceError
from parley.settings.schema import WorkspaceSettings
from parley.workspaces import JobWorkspaces
from tests.workspaces.user_repository import CHILD, JOB, OTHER, ROOT, UserRepository, git, read, repository, write


def refs(place: UserRepository, prefix: str) -> list[str]:
    return place.own("for-each-ref", "--format=%(refname)", f"refs/{prefix}").split()


# ---- making --------------------------------------------------------------------------------------


def test_a_job_starts_with_the_committed_files_on_a_branch_that_says_what_it_is_about(place: UserRepository) -> None:
    work = place.prepare()

    assert read(work) == {"a.txt": b"a\n", "sub/b.txt": b"b\n"}
    assert refs(place, "heads") == ["refs/heads/parley/do-it-j1"]


def test_a_dispatch_starts_with_its_parents_last_commit_and_not_with_what_came_after(place: UserRepository) -> None:
    place.prepare()
    place.turn(ROOT, {"INTENT.md": "intent", "PLAN.md": "plan"})
    write(place.trees.path(JOB, ROOT), {"later.txt": "x"})

    child = place.prepare(CHILD, ROOT)

    assert sorted(read(child)) == ["INTENT.md", "PLAN.md", "a.txt", "sub/b.txt"]
    assert refs(place, "heads") == ["refs/heads/parley/do-it-j1", "refs/heads/parley/do-it-j1.c1"]


def test_workspaces_do_not_share_files(place: UserRepository) -> None:
    place.prepare()
    for name in (CHILD, OTHER):
        place.prepare(name, ROOT)
    place.turn(CHILD, {"a.txt": "one"})
    place.turn(OTHER, {"a.txt": "two"})

    assert [place.committed(name)["a.txt"] for name in (ROOT, CHILD, OTHER)] == [b"a\n", b"one", b"two"]


def test_a_folder_without_a_repository_starts_empty(tmp_path: Path) -> None:
    place = UserRepository(tmp_path)
    write(tmp_path, {"mine.txt": "mine"})

    assert read(place.prepare()) == {}
    assert place.turn(ROOT, {"new.txt": "new"}).tree
    assert place.committed() == {"new.txt": b"new"}


def test_the_users_own_files_with_the_protocols_names_are_set_aside(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo", {"PLAN.md": "my plan", "orchestration/x": "mine", "a": "a"})

    assert sorted(read(place.prepare())) == ["a"]
    place.turn(ROOT, {"PLAN.md": "the job's", "orchestration/y": "y", "b": "b"})

    assert [change.path for change in place.trees.changes(JOB)] == ["b"]


def test_what_lay_in_the_way_of_a_new_workspace_is_moved_aside(place: UserRepository) -> None:
    place.prepare()
    write(place.trees.path(JOB, CHILD), {"half-made": "x"})

    child = place.prepare(CHILD, ROOT)

    assert "half-made" not in read(child)
    assert [path.name for path in (child.parents[1] / "aside").rglob("half-made")] == ["half-made"]


def test_names_that_differ_only_in_odd_characters_get_folders_of_their_own(place: UserRepository) -> None:
    names = ["dispatch:a/b", "dispatch:a:b", "dispatch:a-b", "dispatch:../../x", "dispatch:"]
    folders = {place.trees.path(JOB, name) for name in names}

    assert len(folders) == len(names)
    assert {folder.parent for folder in folders} == {place.trees.path(JOB, CHILD).parent}


# ---- keeping -------------------------------------------------------------------------------------


def test_a_turn_is_a_commit_with_the_engines_message_and_parleys_name(place: UserRepository) -> None:
    work = place.prepare()
    write(work, {"new.txt": "new"})
    (work / "sub/b.txt").unlink()
    (work / "run").write_text("#!/bin/sh\n")
    (work / "run").chmod(0o755)

    kept = place.trees.snapshot(JOB, ROOT, 'coder t7\n\n{"head":{"number":7}}')

    assert place.own("log", "-1", "--format=%an %cn %T%n%B", "parley/do-it-j1") == (
        f'parley parley {kept.tree}\ncoder t7\n\n{{"head":{{"number":7}}}}\n\n'
    )
    assert place.committed() == {"a.txt": b"a\n", "new.txt": b"new", "run": b"#!/bin/sh\n"}
    assert "100755" in place.own("ls-tree", kept.tree, "run")
    assert place.trees.anchors(JOB) == [{"number": 7}]


def test_the_same_files_give_the_same_tree_and_another_commit(place: UserRepository) -> None:
    place.prepare()

    assert place.turn(ROOT, {}) == place.turn(ROOT, {})
    assert len(place.own("log", "--format=%H", "parley/do-it-j1").split()) == 3


@pytest.mark.parametrize(
    "how", ["the same size and time", "another type", "another mode", "a folder that became a link"]
)
def test_no_change_goes_unseen(place: UserRepository, how: str) -> None:
    work = place.prepare()
    before = place.turn(ROOT, {"f": "one", "d/x": "x"}).tree
    path = work / "f"
    seen = path.stat()
    if how == "the same size and time":
        path.write_text("two")
        os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    elif how == "another type":
        path.unlink()
        path.symlink_to("a.txt")
    elif how == "another mode":
        path.chmod(0o755)
    else:
        (work / "d").rename(work / "e")
        (work / "d").symlink_to("e")

    after = place.turn(ROOT, {}).tree

    assert after != before
    place.again()
    place.trees.restore(JOB, ROOT, before, "x")
    place.trees.restore(JOB, ROOT, after, "y")
    assert place.turn(ROOT, {}).tree == after


def test_ignored_files_are_not_committed_and_artifacts_always_are(place: UserRepository) -> None:
    place.prepare()
    place.turn(
        ROOT, {".gitignore": "*.md\nbuild/\n!.parley\n!.claude\n", "build/x": "x", "note.md": "n", "PLAN.md": "plan"}
    )
    place.turn(ROOT, {".parley/outcome.json": "{}", ".claude/settings.json": "{}"})

    assert sorted(place.committed()) == [".gitignore", "PLAN.md", "a.txt", "sub/b.txt"]


def test_a_claude_folder_of_the_users_stays_as_it_was(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo", {".claude/agents/x.md": "mine", "a": "a"})
    place.prepare()
    place.turn(ROOT, {".claude/agents/x.md": "hacked", ".claude/y": "y"})

    assert place.committed() == {".claude/agents/x.md": b"mine", "a": b"a"}


def test_links_that_leave_the_tree_are_left_out_told_and_kept_under_a_ref(place: UserRepository) -> None:
    work = place.prepare()
    links = {
        "absolute": "/etc/passwd", "up": "../x", "sub/up": "../../x", "twisted": "sub/../../x",
        "sub/round": "inner/../../../x", "bus": ".parley/bus.db", "sub/jobs": "../.Parley/jobs",
    }  # fmt: skip
    fine = {"here": "a.txt", "sub/near": "../a.txt", "dangling": "nothing", "folder": "sub"}
    for name, target in {**links, **fine}.items():
        (work / name).symlink_to(target)

    kept = place.turn(ROOT, {})

    assert sorted(line.split(":")[0] for line in kept.left_out) == sorted(links)
    assert all("leads outside" in line for line in kept.left_out)
    assert set(place.committed()) == {"a.txt", "sub/b.txt", *fine}
    assert set(links) <= set(place.own("ls-tree", "-r", "--name-only", "refs/parley/left/j1/job").split())


def test_special_files_and_nested_repositories_are_left_out_and_told(place: UserRepository) -> None:
    work = place.prepare()
    os.mkfifo(work / "pipe")
    (work / "a.txt").unlink()
    os.mkfifo(work / "a.txt")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(work)
        server.bind("sock")
        os.chdir(here)
    (work / "nested").mkdir()
    git(work / "nested", "init", "-q")
    write(work / "nested", {"x": "x"})
    git(work / "nested", "add", "-A")
    git(work / "nested", "commit", "-qm", "x")
    write(work / "broken", {".git": "gitdir: /nowhere", "x": "x"})

    kept = place.turn(ROOT, {"fine": "fine"})

    told = {line.split(":")[0] for line in kept.left_out}
    assert {"pipe", "sock", "a.txt", "nested/"} <= told
    assert {path: data for path, data in place.committed().items() if not path.startswith("broken")} == {
        "a.txt": b"a\n", "fine": b"fine", "sub/b.txt": b"b\n",
    }  # fmt: skip
    assert "160000" not in place.own("ls-tree", "-r", kept.tree)


def test_names_that_are_gits_own_are_left_out(place: UserRepository) -> None:
    work = place.prepare()
    write(work, {"sub/.GIT/config": "x", "git~1": "x", ".git ": "x", "fine": "x"})
    (work / ".gitmodules").symlink_to("a.txt")

    kept = place.turn(ROOT, {})

    assert sorted(place.committed()) == ["a.txt", "fine", "sub/b.txt"]
    assert len(kept.left_out) == 4


def test_so_much_is_told_and_no_more(place: UserRepository) -> None:
    work = place.prepare()
    for number in range(100):
        (work / f"link{number}").symlink_to("/etc")

    kept = place.turn(ROOT, {})

    assert len(kept.left_out) == 21
    assert kept.left_out[-1] == "and 80 more"


def test_odd_names_and_contents_are_kept_byte_for_byte(place: UserRepository) -> None:
    work = place.prepare()
    names = [
        b"sp ace",
        b"new\nline",
        b"tab\t",
        b'quo"te',
        b"back\\slash",
        b"\xff\xfe",
        "ünï".encode(),
        b"-dash",
        b":(top)x",
        b"*",
    ]
    for name in names:
        Path(os.fsdecode(os.path.join(os.fsencode(work), name))).write_bytes(b"\r\n\0" + name)  # noqa: PTH118 - bytes

    kept = place.turn(ROOT, {"crlf.txt": "a\r\nb\n", ".gitattributes": "* text eol=lf ident\n", "id": "$Id$\r\n"})

    assert kept.left_out == ()
    committed = place.committed()
    assert {os.fsencode(path) for path in committed} >= set(names)
    assert committed["crlf.txt"] == b"a\r\nb\n"
    place.again()
    shutil.rmtree(work)
    assert {os.fsencode(path): data for path, data in read(place.prepare()).items()} == {
        os.fsencode(path): data for path, data in committed.items()
    }


def test_a_sealed_artifact_can_be_changed_by_nobody(place: UserRepository) -> None:
    place.prepare()
    place.turn(ROOT, {"INTENT.md": "approved", "PLAN.md": "draft"})
    site = place.trees.prepare(JOB, ROOT, "", sealed=["INTENT.md", "NONE.md"])
    bind = site.binds[-1]

    kept = place.turn(ROOT, {"INTENT.md": "other", "PLAN.md": "new"})

    assert (bind.target, bind.writable) == (f"{site.workspace}/INTENT.md", False)
    assert Path(bind.source).read_text() == "approved"
    assert kept.left_out == ("INTENT.md: it is approved, and was put back as it was",)
    assert place.committed()["INTENT.md"] == b"approved"
    assert place.committed()["PLAN.md"] == b"new"
    assert (Path(site.workspace) / "INTENT.md").read_text() == "approved"
    assert place.own("show", "refs/parley/left/j1/job:INTENT.md") == "other"


def test_a_sealed_artifact_that_became_a_folder_comes_back(place: UserRepository) -> None:
    work = place.prepare()
    place.turn(ROOT, {"INTENT.md": "approved"})
    place.prepare(sealed=["INTENT.md"])
    (work / "INTENT.md").unlink()

    kept = place.turn(ROOT, {"INTENT.md/x": "x"})

    assert place.committed()["INTENT.md"] == b"approved"
    assert (work / "INTENT.md").read_text() == "approved"
    assert len(kept.left_out) == 1


# ---- too much ------------------------------------------------------------------------------------


def test_too_many_bytes_or_files_are_refused_soon_and_put_aside_whole(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo")
    place.settings = WorkspaceSettings(quota_mb=1, files=50)
    place.again()
    work = place.prepare()
    tree = place.turn(ROOT, {}).tree
    (work / "big").write_bytes(b"x" * (2 << 20))
    with pytest.raises(OverQuota, match="quota_mb"):
        place.turn(ROOT, {})
    place.trees.restore(JOB, ROOT, tree, "big")
    write(work, {f"many/{number}": "x" for number in range(100)})
    with pytest.raises(OverQuota, match="more than 50 files"):
        place.turn(ROOT, {})
    place.trees.restore(JOB, ROOT, tree, "many")

    assert sorted(read(work)) == ["a.txt", "sub/b.txt"]
    aside = work.parent / "aside"
    assert len(list(aside.glob("*/big"))) == 1
    assert len(list(aside.glob("*/many/*"))) == 100
    assert place.turn(ROOT, {}).tree == tree


@pytest.mark.parametrize("where", ["homes/coder/cache", "gitdirs/job.git/objects/x", "streams.jsonl"])
def test_what_a_job_writes_beside_its_workspaces_counts_too(tmp_path: Path, where: str) -> None:
    place = repository(tmp_path / "repo")
    place.settings = WorkspaceSettings(quota_mb=1)
    place.again()
    work = place.prepare()
    place.turn(ROOT, {})
    write(work.parent, {where: b"x" * (1 << 20)})

    with pytest.raises(OverQuota, match="quota_mb"):
        place.turn(ROOT, {})
    (work.parent / where).unlink()
    assert place.turn(ROOT, {}).tree


def test_who_outgrows_the_quota_again_and_again_loses_turns_and_does_not_end_the_job(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo")
    place.settings = WorkspaceSettings(quota_mb=1)
    place.again()
    work = place.prepare()
    tree = place.turn(ROOT, {}).tree
    for number in range(3):
        assert place.turn(ROOT, {}).tree == tree
        write(work, {"big": bytes([65 + number]) * (2 << 20)})
        place.trees.restore(JOB, ROOT, tree, f"t{number}")

    assert place.turn(ROOT, {}).tree == tree
    (kept,) = (work.parent / "aside").glob("[!.]*/big")
    assert kept.read_bytes()[:1] == b"C", "the newest is kept"


# ---- losing and retiring -------------------------------------------------------------------------


def test_a_lost_turn_leaves_the_last_tree_and_its_files_under_a_ref(place: UserRepository) -> None:
    work = place.prepare()
    tree = place.turn(ROOT, {"kept": "kept", ".gitignore": "cache\n"}).tree
    write(work, {"kept": "changed", "new/file": "new", "cache/x": "x"})
    (work / "a.txt").unlink()
    (work / "out").symlink_to("/etc/passwd")

    place.again()
    place.trees.restore(JOB, ROOT, tree, "epoch-3")

    assert read(work) == {
        ".gitignore": b"cache\n", "a.txt": b"a\n", "cache/x": b"x", "kept": b"kept", "sub/b.txt": b"b\n",
    }  # fmt: skip
    lost = place.own("ls-tree", "-r", "--name-only", "refs/parley/lost/j1/job/epoch-3").split()
    assert lost == [".gitignore", "kept", "new/file", "out", "sub/b.txt"]
    assert place.turn(ROOT, {}).tree == tree


def test_a_commit_that_the_bus_does_not_know_is_taken_back_and_kept(place: UserRepository) -> None:
    place.prepare()
    tree = place.turn(ROOT, {"f": "one"}).tree
    after = place.turn(ROOT, {"f": "two"}).tree

    place.trees.restore(JOB, ROOT, tree, "epoch-3")

    assert place.own("rev-parse", "parley/do-it-j1^{tree}").strip() == tree
    assert after in place.own("log", "--format=%T", "refs/parley/lost/j1/job/epoch-3-branch")


def test_going_back_looks_no_further_than_the_jobs_beginning(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo")
    before = git(place.root, "rev-parse", "HEAD").strip()
    write(place.root, {"a.txt": "later\n"})
    git(place.root, "commit", "-qam", "second")
    place.prepare()
    tree = place.turn(ROOT, {"a.txt": "a\n"}).tree
    place.turn(ROOT, {"f": "f"})
    history, tip = place.trees.repository(JOB), place.trees.tree(JOB, ROOT).tip

    place.trees.restore(JOB, ROOT, tree, "x")

    assert [commit for commit, _ in history.log(tip)][-1] == git(place.root, "rev-parse", "HEAD").strip()
    assert place.trees.tree(JOB, ROOT).tip != before
    place.trees.restore(JOB, ROOT, "", "y")
    assert place.trees.tree(JOB, ROOT).tip == git(place.root, "rev-parse", "HEAD").strip()


def test_a_first_turn_that_is_lost_leaves_the_workspace_as_it_began(place: UserRepository) -> None:
    place.prepare()
    child = place.prepare(CHILD, ROOT)
    place.turn(CHILD, {"asserted": "in the middle of its turn"})
    write(child, {"after": "x"})

    place.trees.restore(JOB, CHILD, "", "t7")

    assert sorted(read(child)) == ["a.txt", "sub/b.txt"]


def test_restoring_twice_changes_nothing_and_loses_nothing(place: UserRepository) -> None:
    work = place.prepare()
    tree = place.turn(ROOT, {"f": "one"}).tree
    for number in range(2):
        write(work, {"f": f"lost {number}"})
        place.trees.restore(JOB, ROOT, tree, "epoch-3")
        place.trees.restore(JOB, ROOT, tree, "epoch-3")

    found = [place.own("show", f"{ref}:f") for ref in refs(place, "parley/lost")]
    assert found == ["lost 0", "lost 1"]
    assert (work / "f").read_text() == "one"


def test_a_nested_repository_in_a_lost_turn_is_moved_aside_whole(place: UserRepository) -> None:
    work = place.prepare()
    tree = place.turn(ROOT, {}).tree
    (work / "clone").mkdir()
    git(work / "clone", "init", "-q")
    write(work, {"clone/only-here": "x"})

    place.trees.restore(JOB, ROOT, tree, "epoch-3")

    assert sorted(read(work)) == ["a.txt", "sub/b.txt"]
    assert len(list((work.parent / "aside").glob("*/clone/only-here"))) == 1


def test_a_tree_that_is_not_there_is_one_clear_line(place: UserRepository) -> None:
    place.prepare()

    with pytest.raises(WorkspaceError, match="is not in snapshots"):
        place.trees.restore(JOB, ROOT, "1" * 40, "x")


def test_a_retired_workspace_is_under_a_ref_and_can_come_back(place: UserRepository) -> None:
    place.prepare()
    child = place.prepare(CHILD, ROOT)
    place.turn(CHILD, {"work": "work"})
    write(child, {"uncommitted": "x"})

    place.trees.retire(JOB, CHILD)

    assert not child.exists()
    assert set(place.own("ls-tree", "--name-only", "refs/parley/retired/j1/c1").split()) >= {"work", "uncommitted"}
    deadline = time.monotonic() + 20
    while any((child.parents[1] / "aside").iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert list((child.parents[1] / "aside").iterdir()) == []
    assert (place.prepare(CHILD, ROOT) / "work").read_text() == "work"


def test_the_jobs_own_workspace_stays_to_be_looked_at(place: UserRepository) -> None:
    work = place.prepare()
    write(work, {"uncommitted": "x"})

    place.trees.retire(JOB, ROOT)

    assert (work / "uncommitted").is_file()
    assert "uncommitted" in place.own("ls-tree", "--name-only", "refs/parley/retired/j1/job").split()


# ---- a new owner ---------------------------------------------------------------------------------

LOCKS = ("index-job.lock", "refs/heads/parley/do-it-j1.lock", "packed-refs.lock", "HEAD.lock")


def test_locks_that_a_killed_git_left_are_free_for_the_jobs_new_owner(place: UserRepository) -> None:
    place.prepare()
    folder = place.trees.repository(JOB).git.folder
    write(folder, dict.fromkeys(LOCKS, ""))
    place.again()
    with pytest.raises(WorkspaceError, match=r"Unable to create '\S+/\S+\.lock'"):
        place.turn(ROOT, {"f": "f"})

    place.trees.reclaim(JOB)

    assert place.turn(ROOT, {"f": "f"}).left_out == ()
    assert list(folder.rglob("*.lock")) == []


def test_a_job_that_has_not_begun_can_be_reclaimed(place: UserRepository) -> None:
    place.trees.reclaim("j9")

    assert not place.trees.repository("j9").exists


# ---- preparing -----------------------------------------------------------------------------------


def test_the_copy_list_brings_what_is_not_committed_and_it_never_is(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo", {"a": "a"})
    write(place.root, {".env": "KEY=1", "deps/x/y": "y", "deps/.git/HEAD": "x"})
    (place.root / "deps/in").symlink_to("x")
    (place.root / "deps/out").symlink_to("/etc")
    place.settings = WorkspaceSettings(copy=(".env", "deps/", "absent", "a"))
    place.again()

    for name, parent in ((ROOT, ""), (CHILD, ROOT)):
        work = place.prepare(name, parent)
        assert sorted(read(work)) == [".env", "a", "deps/x/y"]
        assert (work / "deps/in").is_symlink()
        assert not os.path.lexists(work / "deps/out")
        assert place.turn(name, {".env": "KEY=2", "deps/new": "x"}).left_out == ()
        assert sorted(place.committed(name)) == ["a"]


def test_the_copy_list_brings_nothing_of_parleys_own(tmp_path: Path) -> None:
    """A home may have any name, and lie anywhere in the user's folder; so may the keys of trust."""
    place = repository(tmp_path / "repo", {"a": "a"})
    write(place.root, {"deps/x": "x", "deps/.parley/bus.db": "x", "deps/state/trust.key": "x", "deps/far/x": "x"})
    place.settings = WorkspaceSettings(copy=("deps", "home", "deps/state/trust.key"))
    place.trees = JobWorkspaces(place.root / "home", place.root, place.settings, private=[place.root / "deps/state"])

    assert sorted(read(place.prepare())) == ["a", "deps/far/x", "deps/x"]


def test_what_is_not_committed_is_taken_along_without_parleys_own(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo", {"a": "a"})
    write(place.root, {"new": "x", "state/trust.key": "x"})
    place.settings = WorkspaceSettings(dirty="include")
    place.more = {"private": [place.root / "state"]}
    place.again()

    assert sorted(read(place.prepare())) == ["a", "new"]


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x", "a/../../x", ".git/config", ".parley/bus.db", ".", "sub/.git/config", "sub/.Parley"]
)
def test_a_copy_list_stays_inside_the_users_folder(tmp_path: Path, path: str) -> None:
    place = repository(tmp_path / "repo")
    place.settings = WorkspaceSettings(copy=(path,))
    place.again()

    with pytest.raises(WorkspaceError, match="can't be copied"):
        place.prepare()


def test_the_set_up_runs_once_in_each_fresh_workspace_and_what_it_makes_is_not_committed(tmp_path: Path) -> None:
    ran: list[tuple[str, str]] = []

    def set_up(site: Site, command: str) -> None:
        ran.append((Path(site.workspace).name, command))
        write(Path(site.workspace), {"node_modules/x": "x"})

    place = repository(tmp_path / "repo")
    place.settings, place.more = WorkspaceSettings(setup="make deps"), {"set_up": set_up}
    place.again()
    for name, parent in ((ROOT, ""), (ROOT, ""), (CHILD, ROOT)):
        place.prepare(name, parent)
        place.turn(name, {"f": "f"})

    assert ran == [("work", "make deps"), ("c1", "make deps")]
    assert sorted(place.committed()) == ["a.txt", "f", "sub/b.txt"]


def test_a_set_up_that_fails_is_tried_again(tmp_path: Path) -> None:
    tries = []

    def set_up(site: Site, command: str) -> None:
        tries.append(command)
        if len(tries) == 1:
            raise WorkspaceError("make deps failed: no such file")

    place = repository(tmp_path / "repo")
    place.settings, place.more = WorkspaceSettings(setup="make deps"), {"set_up": set_up}
    place.again()
    with pytest.raises(WorkspaceError, match="no such file"):
        place.prepare()

    assert sorted(read(place.prepare())) == ["a.txt", "sub/b.txt"]
    assert len(tries) == 2


def test_files_are_handed_over_whenever_they_were_made_here(tmp_path: Path) -> None:
    handed: dict[Path, os.stat_result] = {}

    def hand_over(path: Path) -> None:
        handed[path] = path.lstat()

    place = repository(tmp_path / "repo")
    place.more = {"hand_over": hand_over}
    place.again()
    work = place.prepare()

    first, *others = handed
    assert handed[first].st_ino == work.lstat().st_ino
    assert [path.suffix for path in others] == [".git", ".file"]
    assert all(stat.S_ISDIR(found.st_mode) for found in handed.values())
