"""What a dispatcher sees of its workers before it closes them: their last commits, read-only, and only their own."""

import subprocess
from pathlib import Path

import pytest

from parley.ports.turns import Site
from parley.ports.workspaces import CHILDREN
from parley.settings.schema import WorkspaceSettings
from tests.workspaces.test_agent_git import inside
from tests.workspaces.user_repository import CHILD, JOB, OTHER, ROOT, UserRepository, read, repository, write

SEEN = f"{CHILDREN}/c1"


def worked(place: UserRepository, **files: str) -> UserRepository:
    """A job whose worker has ended a turn."""
    place.prepare()
    place.prepare(CHILD, ROOT)
    place.turn(CHILD, {"new.py": "one\n", **files})
    return place


def lead(place: UserRepository, *children: str) -> Site:
    """Where the dispatcher's next turn runs."""
    return place.trees.prepare(JOB, ROOT, "", children=children)


def sources(site: Site) -> Path:
    """The folder that is shown."""
    (found,) = [bind for bind in site.binds if bind.target == f"{site.workspace}/{CHILDREN}"]
    assert not found.writable
    return Path(found.source)


def test_a_workers_last_commit_is_a_folder_and_a_ref(place: UserRepository) -> None:
    site = lead(worked(place), CHILD)

    assert inside(site, "cat", f"{SEEN}/new.py") == "one\n"
    assert inside(site, "cat", f"{SEEN}/a.txt") == "a\n"
    assert inside(site, "git", "diff", "--stat", "HEAD...children/c1").startswith(" new.py | 1 +")
    assert inside(site, "git", "status", "--porcelain") == ""


def test_what_a_worker_has_not_committed_is_not_shown(place: UserRepository) -> None:
    worked(place)
    write(place.trees.path(JOB, CHILD), {"new.py": "half done\n", "later": "x"})

    site = lead(place, CHILD)

    assert inside(site, "cat", f"{SEEN}/new.py") == "one\n"
    assert not (sources(site) / "c1/later").exists()


def test_nothing_can_be_written_there_and_a_copy_can_be_worked_in(place: UserRepository) -> None:
    site = lead(worked(place), CHILD)

    for command in (f"echo x > {SEEN}/new.py", f"rm {SEEN}/new.py", f"touch {SEEN}/x", f"mkdir {CHILDREN}/x"):
        assert inside(site, "sh", "-c", f"{command} 2>/dev/null && echo done || echo no") == "no\n"
    copied = f"rm -rf /run/c1 && cp -r {SEEN} /run/c1 && cd /run/c1 && echo two >> new.py && cat new.py"
    assert inside(site, "sh", "-c", copied) == "one\ntwo\n"
    assert read(sources(site) / "c1")["new.py"] == b"one\n"


def test_the_folder_follows_the_worker_from_turn_to_turn(place: UserRepository) -> None:
    folder = sources(lead(worked(place), CHILD))
    kept = (folder / "c1/a.txt").stat().st_ctime_ns
    place.turn(CHILD, {"new.py": "two\n", "sub/more": "x"}, gone=("sub/b.txt",))

    site = lead(place, CHILD)

    assert sources(site) == folder, "a process that goes on sees it without being started again"
    assert read(folder / "c1") == place.committed(CHILD)
    assert (folder / "c1/a.txt").stat().st_ctime_ns == kept, "only what has changed is written"
    assert inside(site, "git", "show", "children/c1:new.py") == "two\n"


def test_a_worker_that_has_changed_nothing_takes_no_room(place: UserRepository) -> None:
    place.prepare()
    place.prepare(CHILD, ROOT)
    place.turn(CHILD, {".parley/x": "never committed"})

    assert place.trees.changed(JOB, CHILD) == ()
    assert list(sources(lead(place, CHILD)).iterdir()) == []


def test_after_the_close_it_is_gone(place: UserRepository) -> None:
    worked(place)
    folder = sources(lead(place, CHILD))
    assert place.trees.changed(JOB, CHILD) == ("new.py",)
    place.trees.merge(JOB, CHILD, ROOT)
    place.trees.retire(JOB, CHILD)

    assert list(folder.iterdir()) == []
    site = lead(place)
    assert inside(site, "git", "for-each-ref", "refs/children") == ""
    assert inside(site, "cat", "new.py") == "one\n"
    assert inside(site, "git", "fsck", "--no-dangling") == ""


def test_neither_a_sibling_nor_one_without_a_team_sees_it(place: UserRepository) -> None:
    worked(place)
    lead(place, CHILD)
    place.prepare(OTHER, ROOT)
    tip = place.trees.tree(JOB, CHILD).tip

    for site in (place.trees.prepare(JOB, OTHER, ROOT), place.trees.prepare(JOB, OTHER, ROOT, children=())):
        assert not any("/children/job" in bind.source for bind in site.binds)
        gone = f"git cat-file -e {tip} 2>/dev/null && echo found || ls {CHILDREN} 2>/dev/null || echo no"
        assert inside(site, "sh", "-c", gone) in ("", "no\n")


@pytest.mark.parametrize("lost", ["children", "children.known", "gitdirs"])
def test_what_is_lost_is_made_again_from_the_commits(place: UserRepository, lost: str) -> None:
    worked(place)
    lead(place, CHILD)
    place.turn(CHILD, {"new.py": "two\n"})
    subprocess.run(["rm", "-rf", str(place.trees.home / "jobs" / JOB / lost)], check=True)
    place.again()

    site = lead(place, CHILD)

    assert inside(site, "cat", f"{SEEN}/new.py") == "two\n"
    assert inside(site, "git", "show", "children/c1:new.py") == "two\n"


@pytest.mark.parametrize("made", ["file", "link", "link above"])
def test_whatever_a_lead_makes_of_the_place_it_is_shown_again(place: UserRepository, tmp_path: Path, made: str) -> None:
    worked(place)
    workspace = Path(lead(place, CHILD).workspace)
    subprocess.run(["rm", "-rf", str(workspace / ".parley")], check=True)
    if made == "link above":
        (workspace / ".parley").symlink_to(tmp_path)
    else:
        (workspace / ".parley").mkdir()
        target = workspace / CHILDREN
        target.write_text("x") if made == "file" else target.symlink_to(tmp_path)

    site = lead(place, CHILD)
    (workspace / CHILDREN).mkdir(parents=True, exist_ok=True)  # as the boundary does

    assert inside(site, "cat", f"{SEEN}/new.py") == "one\n"
    assert not (tmp_path / "children").exists()


def test_it_is_never_committed(place: UserRepository) -> None:
    site = lead(worked(place), CHILD)
    write(Path(site.workspace), {f"{CHILDREN}/x": "x"})

    place.turn(ROOT, {})

    assert not any(path.startswith(".parley") for path in place.committed())


def test_what_the_copy_list_brought_is_found_by_a_check(tmp_path: Path) -> None:
    made = repository(tmp_path / "repo", {"a.txt": "a\n", ".gitignore": ".env\n"})
    write(made.root, {".env": "KEY=1\n"})
    place = UserRepository(made.root, WorkspaceSettings(copy=(".env",)))

    site = lead(worked(place), CHILD)

    assert inside(site, "cat", f"{SEEN}/.env") == "KEY=1\n"


def test_a_restored_worker_is_shown_as_it_is_restored(place: UserRepository) -> None:
    worked(place)
    first = place.turn(CHILD, {"new.py": "two\n"}).tree
    place.turn(CHILD, {"new.py": "three\n", "more": "x"})
    lead(place, CHILD)

    place.trees.restore(JOB, CHILD, first, "t9")
    site = lead(place, CHILD)

    assert read(sources(site) / "c1") == place.committed(CHILD)
    assert inside(site, "git", "show", "children/c1:new.py") == "two\n"
