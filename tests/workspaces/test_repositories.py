"""The repositories that users have."""

import os
from pathlib import Path

import pytest

from parley.ports.workspaces import WorkspaceError
from parley.settings.schema import WorkspaceSettings
from parley.workspaces.checkout.source_repository import find_source
from tests.workspaces.user_repository import CHILD, JOB, ROOT, UserRepository, fingerprint, git, read, repository, write


def job(place: UserRepository) -> dict[str, bytes]:
    """A turn of a job, and the files of its result; the user's repository stays as it was."""
    before = fingerprint(place.root)
    place.prepare()
    place.turn(ROOT, {"new": "new", "INTENT.md": "x"})
    delivered = place.trees.deliver(JOB)
    assert fingerprint(place.root) == before
    assert delivered is not None
    assert git(place.root, "fsck", "--no-dangling") == ""
    assert git(place.root, "log", "-1", "--format=%s", delivered.branch) == "Do it\n"
    names = git(place.root, "ls-tree", "-r", "-z", "--name-only", delivered.branch).split("\0")[:-1]
    return {name: git(place.root, "show", f"{delivered.branch}:{name}").encode() for name in names if name != "module"}


def test_no_commit_yet(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, {"mine": "mine", ".git/info/exclude": "/.parley/\n"})
    place = UserRepository(tmp_path)

    assert place.trees.uncommitted() == ["mine"]
    assert job(place) == {"new": b"new"}


def test_a_detached_head(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo", {"a": "1"})
    git(place.root, "checkout", "-q", "--detach")

    assert job(place) == {"a": b"1", "new": b"new"}


def test_a_dirty_tree_is_told_of_and_left_where_it_is(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo", {"a": "1", "b": "1", "c": "1", ".gitignore": "ignored\n"})
    write(place.root, {"a": "2", "b": "2", "d": "new", "ignored": "x"})
    git(place.root, "add", "b")
    (place.root / "c").unlink()

    assert place.trees.uncommitted() == ["a", "b", "c", "d"]
    assert job(place) == {".gitignore": b"ignored\n", "a": b"1", "b": b"1", "c": b"1", "new": b"new"}


def test_a_dirty_tree_is_included_where_the_user_says_so(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo", {"a": "1", "b": "1", "c": "1", ".gitignore": "ignored\n"})
    write(place.root, {"a": "2", "b": "2", "d": "new", "ignored": "x"})
    git(place.root, "add", "b")
    (place.root / "c").unlink()
    place.settings = WorkspaceSettings(dirty="include")
    place.again()

    assert place.trees.uncommitted() == []
    assert job(place) == {".gitignore": b"ignored\n", "a": b"2", "b": b"2", "d": b"new", "new": b"new"}
    assert [change.path for change in place.trees.changes(JOB)] == ["new"]


def test_submodules_stay_at_their_commits(tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner", {"lib": "lib"})
    place = repository(tmp_path / "repo", {"a": "1"})
    git(place.root, "submodule", "add", "-q", str(inner.root), "module")
    git(place.root, "commit", "-qm", "module")
    git(place.root, "status")
    work = place.prepare()
    place.prepare(CHILD, ROOT)

    assert list((work / "module").iterdir()) == []
    assert place.turn(ROOT, {"module/planted": "x"}).left_out == ("module: it is a submodule, and stays at its commit",)
    git(work / "module", "init", "-q")
    git(work / "module", "add", "-A")
    git(work / "module", "commit", "-qm", "other")
    place.turn(ROOT, {})
    (place.trees.path(JOB, CHILD) / "module").rmdir()
    place.turn(CHILD, {"c": "c"})
    place.trees.merge(JOB, CHILD, ROOT)
    link = git(place.root, "ls-tree", "HEAD", "module")
    assert place.own("ls-tree", "parley/do-it-j1", "module") == link
    assert place.own("ls-tree", "parley/do-it-j1.c1", "module") == link


def test_a_submodules_files_come_by_the_copy_list(tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner", {"lib": "lib"})
    place = repository(tmp_path / "repo", {"a": "1"})
    git(place.root, "submodule", "add", "-q", str(inner.root), "module")
    git(place.root, "commit", "-qm", "module")
    place.settings = WorkspaceSettings(copy=("module",))
    place.again()

    assert sorted(read(place.prepare())) == [".gitmodules", "a", "module/lib"]
    assert place.turn(ROOT, {}).left_out == ()


def test_a_sparse_checkout_gives_a_job_all_files_and_is_not_dirty(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo", {"in/a": "1", "out/b": "2"})
    git(place.root, "sparse-checkout", "set", "in")
    assert not (place.root / "out").exists()

    assert place.trees.uncommitted() == []
    assert job(place) == {"in/a": b"1", "new": b"new", "out/b": b"2"}


def test_an_index_in_two_files(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo", {"a": "1", "b": "2"})
    git(place.root, "update-index", "--split-index")
    write(place.root, {"a": "changed"})
    git(place.root, "add", "a")

    assert place.trees.uncommitted() == ["a"]
    place.settings = WorkspaceSettings(dirty="include")
    place.again()
    assert job(place) == {"a": b"changed", "b": b"2", "new": b"new"}


def test_a_work_tree_of_the_users_own(tmp_path: Path) -> None:
    main = repository(tmp_path / "main", {"a": "1"})
    git(main.root, "worktree", "add", "-q", str(tmp_path / "other"), "-b", "other")
    write(tmp_path / "other", {"b": "2"})
    git(tmp_path / "other", "add", "-A")
    git(tmp_path / "other", "commit", "-qm", "other")
    place = UserRepository(tmp_path / "other")
    before = fingerprint(main.root)

    assert job(place) == {"a": b"1", "b": b"2", "new": b"new"}
    assert fingerprint(main.root) == before


@pytest.mark.parametrize("name", ["sp ace", "ünï", 'quo"te', "new\nline", "co:lon", "#hash", "-dash"])
def test_a_path_of_any_characters(tmp_path: Path, name: str) -> None:
    place = repository(tmp_path / name, {"a": "1"})

    assert job(place) == {"a": b"1", "new": b"new"}
    assert place.trees.merge_to_checkout(JOB, whole=True).paths == ("INTENT.md", "new")


def test_a_repository_of_sha256_objects(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo", {"a": "1", "b": "1"}, "--object-format=sha256")
    place.prepare()
    place.prepare(CHILD, ROOT)
    place.turn(CHILD, {"a": "2"}, gone=("b",))
    place.trees.merge(JOB, CHILD, ROOT)

    assert job(place) == {"a": b"2", "new": b"new"}


def test_a_shallow_clone(tmp_path: Path) -> None:
    origin = repository(tmp_path / "origin", {"a": "1"})
    for number in range(3):
        write(origin.root, {"a": str(number)})
        git(origin.root, "commit", "-qam", "more")
    git(tmp_path, "clone", "-q", "--depth=2", f"file://{origin.root}", "clone")

    assert job(UserRepository(tmp_path / "clone")) == {"a": b"2", "new": b"new"}


def test_a_partial_clone_fetches_nothing_and_says_what_to_do(tmp_path: Path) -> None:
    origin = repository(tmp_path / "origin", {"a": "1"})
    git(origin.root, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{origin.root}", "clone")

    with pytest.raises(WorkspaceError, match="partial clone"):
        UserRepository(tmp_path / "clone").prepare()


def test_a_long_history_is_seen_as_far_as_it_is_useful(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo", {"a": "1"})
    first = "from refs/heads/main^0\n"
    lines = "".join(
        f"commit refs/heads/main\ncommitter a <a@b> {number} +0000\ndata 1\nx\n{first if not number else ''}"
        for number in range(80)
    )
    git(place.root, "fast-import", "--quiet", input=lines.encode())

    place.prepare()

    assert len(place.own("log", "--format=%H", "parley/do-it-j1").split()) == 50
    assert job(place)["a"] == b"1"


def test_a_repository_without_a_work_tree_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare")
    with pytest.raises(WorkspaceError, match="without a work tree"):
        UserRepository(tmp_path / "bare").prepare()

    place = repository(tmp_path / "odd")
    git(place.root, "config", "core.bare", "true")
    with pytest.raises(WorkspaceError, match="core\\.bare"):
        place.prepare()

    write(tmp_path / "broken", {".git": "gitdir: /nowhere/at/all\n"})
    with pytest.raises(WorkspaceError, match="git status"):
        UserRepository(tmp_path / "broken").prepare()


@pytest.mark.parametrize("name", ["", "HEAD", "config", "shallow", "info/exclude", "packed-refs", "../.gitignore"])
def test_a_pipe_where_git_would_read_is_refused_at_once(tmp_path: Path, name: str) -> None:
    git(tmp_path, "init", "-q")
    path = tmp_path / ".git" / name
    path.rename(tmp_path / "moved") if path.exists() else None
    os.mkfifo(path)

    with pytest.raises(WorkspaceError, match=r"ordinary file.*; delete it"):
        find_source(tmp_path)


def test_what_the_user_does_to_the_repository_meanwhile_takes_nothing_from_the_job(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo", {"a": "1"})
    place.prepare()
    git(place.root, "checkout", "-q", "--orphan", "fresh")
    git(place.root, "commit", "-qm", "all new")
    git(place.root, "branch", "-D", "main")
    git(place.root, "reflog", "expire", "--expire=now", "--all")
    git(place.root, "gc", "-q", "--prune=now")

    place.again()
    place.turn(ROOT, {"new": "new"})
    delivered = place.trees.deliver(JOB)

    assert delivered is not None
    assert git(place.root, "log", "--format=%s", delivered.branch) == "Do it\nfirst\n"
    assert git(place.root, "fsck", "--no-dangling") == ""


def test_a_repository_of_another_user_keeps_its_owner(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can work in somebody else's repository")
    place = repository(tmp_path / "repo", {"a": "1"})
    for here, folders, names in os.walk(place.root):
        for name in (".", *folders, *names):
            os.lchown(Path(here) / name, 4711, 4711)
    for above in (tmp_path, *tmp_path.parents[:3]):
        above.chmod(0o755)

    place.prepare()
    place.turn(ROOT, {"new": "new"})
    place.trees.deliver(JOB)

    inside = [*(place.root / ".git").rglob("*")]
    assert inside
    assert {path.lstat().st_uid for path in inside} == {4711}


def test_a_whole_result_leaves_a_design_of_the_users_own_as_it_is(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo", {"orchestration/plan.md": "my plan", "a": "a"})
    place.prepare()
    place.turn(ROOT, {"INTENT.md": "the job's", "orchestration/shared_status.json": "{}", "new": "new"})

    assert set(place.trees.merge_to_checkout(JOB, whole=True).paths) == {
        "INTENT.md",
        f"orchestration.{JOB}/shared_status.json",
        "new",
    }
    assert [path.name for path in (place.root / "orchestration").iterdir()] == ["plan.md"]
