"""What the proxy of a question reads: the tree that was committed when the question was put, and nothing else."""

import os
import shutil
from pathlib import Path

import pytest

from parley.ports.turns import Site
from parley.ports.workspaces import CHILDREN, WorkspaceError
from parley.settings.schema import WorkspaceSettings
from parley.workspaces.job_repository import DRAFTS
from tests.workspaces.test_agent_git import inside
from tests.workspaces.user_repository import CHILD, JOB, ROOT, UserRepository, read, repository, write

ASKED, AGAIN = "escalation:q1", "escalation:q2"
PARTS = ("INTENT.md", "PLAN.md", "WORK_SUMMARY.md")


def clone(place: UserRepository, tree: str, name: str = ASKED, **children: str) -> Site:
    return place.trees.clone(JOB, name, ROOT, tree, {f"dispatch:{child}": held for child, held in children.items()})


def shown(site: Site) -> dict[str, bytes]:
    return read(Path(site.workspace))


def folders(place: UserRepository) -> list[Path]:
    return sorted((place.trees.repository(JOB).folder / "clones").iterdir())


def test_the_asker_and_its_children_go_on_and_the_clone_stays_as_it_is(place: UserRepository) -> None:
    work = place.prepare()
    tree = place.turn(ROOT, {"PLAN.md": "good\n"}).tree
    site = clone(place, tree)
    write(work, {"PLAN.md": "bad\n", "a.txt": "bad\n", "new": "x"})
    place.prepare(CHILD, ROOT)
    place.turn(CHILD, {"sub/b.txt": "the child's\n"})
    place.turn(ROOT, {})
    place.trees.merge(JOB, CHILD, ROOT)

    assert shown(site) == {"PLAN.md": b"good\n", "a.txt": b"a\n", "sub/b.txt": b"b\n"}
    assert shown(clone(place, tree)) == shown(site)
    assert inside(site, "cat", "PLAN.md") == "good\n"
    assert inside(site, "git", "status", "--porcelain") == ""
    assert inside(site, "git", "log", "--format=%s") == "turn of job:j1\nfirst\n"
    assert inside(site, "git", "diff", "--name-only", "start") == "PLAN.md\n"


def test_nothing_of_the_folder_that_is_not_committed_is_there(tmp_path: Path) -> None:
    settings = WorkspaceSettings(copy=(".env",))
    place = repository(tmp_path / "repo", {"a.txt": "a\n", ".gitignore": "ignored\nPLAN.md\n.env\n"})
    write(place.root, {".env": "a secret"})
    place = UserRepository(place.root, settings)
    work = place.prepare()
    write(work, {"ignored": "x", ".parley/notes": "scratch", "PLAN.md": "an artifact counts, ignored or not\n"})
    assert (work / ".env").exists()

    site = clone(place, place.turn(ROOT, {}).tree)

    assert set(shown(site)) == {"a.txt", ".gitignore", "PLAN.md"}
    assert set(inside(site, "ls", "-A").split()) == {"a.txt", ".git", ".gitignore", "PLAN.md"}


def test_the_proxy_can_write_nothing_there(place: UserRepository) -> None:
    place.prepare()
    site = clone(place, place.turn(ROOT, {"PLAN.md": "good\n"}).tree)

    assert not site.writable
    for command in ("echo x > PLAN.md", "rm a.txt", "touch x", "mkdir x", "chmod 700 ."):
        assert inside(site, "sh", "-c", f"{command} 2>/dev/null && echo done || echo no") == "no\n"


def test_what_is_written_to_a_clone_without_a_boundary_is_gone_with_the_next_turn(place: UserRepository) -> None:
    place.prepare()
    tree = place.turn(ROOT, {"PLAN.md": "good\n", ".gitignore": "hidden\n"}).tree
    site = clone(place, tree)
    write(Path(site.workspace), {"PLAN.md": "bad\n", "hidden": "a note for the next one"})

    assert set(shown(clone(place, tree))) == {".gitignore", "PLAN.md", "a.txt", "sub/b.txt"}
    assert shown(site)["PLAN.md"] == b"good\n"


def test_a_workers_tree_is_shown_as_it_was_also_when_the_worker_is_gone(place: UserRepository) -> None:
    place.prepare()
    place.prepare(CHILD, ROOT)
    then = place.turn(CHILD, {"new.py": "one\n"}).tree
    tree = place.turn(ROOT, {"PLAN.md": "good\n"}).tree
    clone(place, tree, c1=then)
    place.turn(CHILD, {"new.py": "two\n"})
    place.trees.retire(JOB, CHILD)

    site = clone(place, tree, c1=then)

    assert inside(site, "cat", f"{CHILDREN}/c1/new.py") == "one\n"
    assert inside(site, "git", "show", "children/c1:new.py") == "one\n"
    assert inside(site, "sh", "-c", f"touch {CHILDREN}/c1/x 2>/dev/null && echo done || echo no") == "no\n"


def test_questions_about_one_tree_share_a_clone_but_no_repository(place: UserRepository) -> None:
    place.prepare()
    tree = place.turn(ROOT, {"PLAN.md": "good\n"}).tree
    one, other = clone(place, tree), clone(place, tree, AGAIN)

    assert one.workspace == other.workspace
    assert len(folders(place)) == 1
    writable = [{bind.source for bind in site.binds if bind.writable} for site in (one, other)]
    assert not writable[0] & writable[1]


def test_the_next_clone_is_made_of_the_last_and_only_what_differs_is_written(place: UserRepository) -> None:
    work = place.prepare()
    clone(place, place.turn(ROOT, {"PLAN.md": "one\n", "gone": "x"}).tree)
    place.trees.retire(JOB, ASKED)
    (old,) = folders(place)
    same = (old / "a.txt").stat().st_ino

    tree = place.turn(ROOT, {"PLAN.md": "two\n"}, gone=("gone",)).tree
    site = clone(place, tree, AGAIN)

    assert shown(site) == read(work)
    assert (Path(site.workspace) / "a.txt").stat().st_ino == same
    assert len(folders(place)) == 1


def test_what_a_question_reads_is_not_made_into_anothers_clone(place: UserRepository) -> None:
    place.prepare()
    first = place.turn(ROOT, {"PLAN.md": "one\n"}).tree
    one = clone(place, first)
    two = clone(place, place.turn(ROOT, {"PLAN.md": "two\n"}).tree, AGAIN)

    assert (shown(one)["PLAN.md"], shown(two)["PLAN.md"]) == (b"one\n", b"two\n")
    place.trees.retire(JOB, ASKED)
    place.trees.retire(JOB, AGAIN)
    assert len(folders(place)) == 1
    place.trees.retire(JOB, ROOT)
    assert folders(place) == []


def test_another_process_finds_the_clone_or_makes_it_again(place: UserRepository) -> None:
    place.prepare()
    tree = place.turn(ROOT, {"PLAN.md": "good\n"}).tree
    site = clone(place, tree)
    place.turn(ROOT, {"PLAN.md": "bad\n"})
    place.again()
    assert shown(clone(place, tree)) == shown(site)

    known = place.trees.repository(JOB).folder / "clones.known"
    for mark in known.glob("*.whole"):  # a crash in the middle
        mark.unlink()
    (Path(site.workspace) / "PLAN.md").unlink()
    place.again()
    assert shown(clone(place, tree))["PLAN.md"] == b"good\n"
    shutil.rmtree(site.workspace)
    place.again()
    assert shown(clone(place, tree))["PLAN.md"] == b"good\n"


def test_what_a_proxy_leaves_in_its_repository_goes_with_the_question_however_deep(place: UserRepository) -> None:
    """Python's own deletion follows folders by recursion where it is older, and gives up at a thousand."""
    clone(place, place.turn(ROOT, {"a": "1"}).tree)
    (own,) = (place.trees.repository(JOB).folder / "gitdirs").glob("*q1*.git")
    here = os.open(own, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("deep", dir_fd=here)
        below = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)

    place.trees.retire(JOB, ASKED)

    assert not own.exists()


def test_a_question_before_anything_was_committed_reads_what_the_job_began_with(place: UserRepository) -> None:
    assert shown(clone(place, "")) == {"a.txt": b"a\n", "sub/b.txt": b"b\n"}


def test_a_tree_that_is_not_kept_is_one_clear_line(place: UserRepository) -> None:
    place.prepare()
    with pytest.raises(WorkspaceError, match="restore that folder from a backup"):
        clone(place, "0" * 40)


@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_attributes_and_filters_change_nothing_of_what_is_shown(tmp_path: Path, form: str) -> None:
    rules = "* text=auto eol=crlf\nPLAN.md ident filter=evil export-ignore working-tree-encoding=UTF-16\n"
    place = repository(tmp_path / "repo", {".gitattributes": rules, "a.txt": "a\n"}, f"--object-format={form}")
    place.prepare()
    tree = place.turn(ROOT, {"PLAN.md": "$Id$ good\n", "nul": b"\0\r\n\xff"}).tree

    assert shown(clone(place, tree)) == place.committed()
    assert shown(clone(place, tree))["PLAN.md"] == b"$Id$ good\n"


# ---- what a gate is about --------------------------------------------------------------------------


def test_digests_and_beginnings_are_those_of_the_tree_and_not_of_the_folder(place: UserRepository) -> None:
    work = place.prepare()
    tree = place.turn(ROOT, {"PLAN.md": "good\n", "orchestration/x/y.md": "deep\n"}).tree
    before = place.trees.contents(JOB, tree, PARTS)
    write(work, {"PLAN.md": "bad\n", "INTENT.md": "bad\n", "orchestration/x/y.md": "bad\n"})
    place.again()

    assert place.trees.contents(JOB, tree, PARTS) == before
    assert list(before) == ["PLAN.md"]
    assert place.trees.beginning(JOB, tree, "PLAN.md", 3) == "go…"
    assert place.trees.read_committed(JOB, tree, "PLAN.md") == "good\n"
    assert place.trees.read_committed(JOB, tree, "PLAN.md", 4) is None
    assert place.trees.read_committed(JOB, tree, "sub/b.txt") == "b\n"
    assert place.trees.list_committed(JOB, tree, "orchestration") == ("orchestration/x/y.md",)
    assert place.trees.list_committed(JOB, tree, "sub") == ("sub/b.txt",)


@pytest.mark.parametrize("inside_target", ["other.md", "orchestration/../other.md", "/etc/passwd"])
def test_an_artifact_that_is_a_link_is_none(place: UserRepository, inside_target: str) -> None:
    work = place.prepare()
    write(work, {"other.md": "what it leads to\n"})
    (work / "PLAN.md").symlink_to(inside_target)
    (work / "orchestration").symlink_to("sub")
    tree = place.turn(ROOT, {}).tree

    assert place.trees.contents(JOB, tree, PARTS) == {}
    assert place.trees.beginning(JOB, tree, "PLAN.md", 10) == ""
    assert place.trees.read_committed(JOB, tree, "PLAN.md") is None
    assert place.trees.list_committed(JOB, tree, "orchestration") == ()


def test_a_huge_artifact_is_left_out_and_is_not_held(place: UserRepository) -> None:
    place.prepare()
    kept = place.turn(ROOT, {"PLAN.md": os.urandom(1 << 20) * 6})

    assert kept.left_out == (f"PLAN.md: it has {6 << 20} bytes, and may have 1000000; shorten it",)
    assert place.trees.contents(JOB, kept.tree, PARTS) == {}
    assert place.trees.read_committed(JOB, kept.tree, "PLAN.md") is None


def test_a_draft_is_shown_and_the_workspace_stays_as_it_is(place: UserRepository) -> None:
    work = place.prepare()
    before = place.turn(ROOT, {"orchestration/plan.md": "in force\n"}).tree
    write(work, {"scratch": "not committed\n"})
    held = read(work)
    tree = place.trees.draft(JOB, ROOT, {"orchestration/plan.md": "changed\n", "orchestration/more/new.md": "new\n"})
    site = clone(place, tree)

    assert read(work) == held
    assert place.trees.committed(JOB, ROOT) == before
    assert place.trees.read_committed(JOB, tree, "orchestration/plan.md") == "changed\n"
    seen = shown(site)
    assert (seen["orchestration/plan.md"], seen["orchestration/more/new.md"]) == (b"changed\n", b"new\n")
    assert "scratch" not in seen
    assert inside(site, "git", "status", "--porcelain") == ""
    assert inside(site, "git", "diff", "--name-only", "HEAD~1").split() == [
        "orchestration/more/new.md",
        "orchestration/plan.md",
    ]
    history = place.trees.repository(JOB)
    assert history.tree(history.ref(f"{DRAFTS}/{tree}")) == tree  # no cleaning of git's takes it


def test_no_draft_leaves_its_tree_or_stands_on_nothing(place: UserRepository) -> None:
    with pytest.raises(WorkspaceError, match="has committed nothing"):
        place.trees.draft(JOB, CHILD, {"a": "x"})
    place.prepare()
    for path in ("../a", ".git/config", ".parley/x", "a/../../b"):
        with pytest.raises(WorkspaceError):
            place.trees.draft(JOB, ROOT, {path: "x"})
