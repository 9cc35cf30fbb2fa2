"""Nothing in a workspace, and nothing in the user's repository, makes the orchestrator's git run anything."""

import os
from pathlib import Path

import pytest

from parley.settings.schema import WorkspaceSettings
from tests.workspaces.user_repository import CHILD, JOB, ROOT, UserRepository, fingerprint, git, repository, write

HOOKS = (
    "pre-commit", "post-commit", "post-checkout", "reference-transaction", "post-index-change", "post-merge",
    "pre-auto-gc", "fsmonitor-watchman", "post-rewrite", "commit-msg", "prepare-commit-msg", "pre-merge-commit",
    "update",
)  # fmt: skip


def trap(folder: Path, name: str) -> Path:
    """A program that leaves a trace."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {name} >> '{folder}/sprung'\ncat\n")
    path.chmod(0o755)
    return path


def config_of(traps: Path) -> str:
    """A git configuration that runs something wherever git can be made to."""
    run = trap(traps, "program")
    lines = [
        f"[core]\n\thooksPath = {traps}/hooks\n\tfsmonitor = {run}\n\tsshCommand = {run}",
        f"\tpager = {run}\n\teditor = {run}",
        f"\taskPass = {run}\n\talternateRefsCommand = {run}\n\tgitProxy = {run}\n\tattributesFile = {traps}/attributes",
        f'[filter "evil"]\n\tclean = {run}\n\tsmudge = {run}\n\tprocess = {run}\n\trequired = true',
        f'[filter "lfs"]\n\tclean = {run}\n\tsmudge = {run}\n\tprocess = {run}\n\trequired = true',
        f'[diff]\n\texternal = {run}\n[diff "evil"]\n\tcommand = {run}\n\ttextconv = {run}',
        f'[merge "evil"]\n\tdriver = {run} %A\n[merge]\n\tdefault = evil',
        f"[credential]\n\thelper = {run}\n[gpg]\n\tprogram = {run}\n[commit]\n\tgpgSign = true",
        "[submodule]\n\trecurse = true\n[gc]\n\tauto = 1",
        f'[remote "origin"]\n\turl = ext::{run}\n\tpromisor = true\n\tuploadpack = {run}',
        f'[includeIf "gitdir:/"]\n\tpath = {traps}/more',
        f"[uploadpack]\n\tpackObjectsHook = {run}\n[protocol]\n\tallow = always",
    ]
    write(traps, {"more": f"[core]\n\tfsmonitor = {run}\n", "attributes": "* filter=evil diff=evil merge=evil\n"})
    return "\n".join(lines) + "\n"


ATTRIBUTES = "* filter=evil diff=evil merge=evil text=auto eol=crlf\n*.big filter=lfs\n"
PLANTED = f"{ATTRIBUTES}* working-tree-encoding=UTF-16 ident\n"


@pytest.fixture
def trapped(tmp_path: Path) -> UserRepository:
    """A user's repository in which everything is a trap."""
    traps = tmp_path / "traps"
    place = repository(
        tmp_path / "repo", {".gitattributes": ATTRIBUTES, "a.txt": "a\n", "p.big": "version lfs\n"}, "-q"
    )
    for name in HOOKS:
        trap(traps, f"hooks/{name}")
        (place.root / ".git/hooks").mkdir(exist_ok=True)
        (place.root / ".git/hooks" / name).symlink_to(traps / "hooks" / name)
    with (place.root / ".git/config").open("a") as file:
        file.write(config_of(traps))
    write(place.root / ".git/info", {"attributes": ATTRIBUTES})
    return place


def test_a_whole_job_in_a_trapped_repository_springs_nothing(trapped: UserRepository, tmp_path: Path) -> None:
    before = fingerprint(trapped.root)
    trapped.settings = WorkspaceSettings(dirty="include")
    write(trapped.root, {"dirty.txt": "dirty\r\n"})
    before["dirty.txt"] = fingerprint(trapped.root)["dirty.txt"]
    assert trapped.trees.uncommitted() == ["dirty.txt"]
    trapped.again()

    work = trapped.prepare()
    trapped.prepare(CHILD, ROOT)
    tree = trapped.turn(ROOT, {"a.txt": "parent\r\n", "q.big": "version more\n"}).tree
    trapped.turn(CHILD, {"a.txt": "child\r\n", "new": "new\r\n"})
    merged = trapped.trees.merge(JOB, CHILD, ROOT)
    write(work, {"lost": "lost"})
    trapped.trees.restore(JOB, ROOT, tree, "x")
    trapped.trees.retire(JOB, CHILD)
    trapped.trees.deliver(JOB)
    trapped.trees.diff(JOB)

    assert not (tmp_path / "traps/sprung").exists()
    assert [conflict.path for conflict in merged.conflicts] == ["a.txt"]
    assert (work / "a.txt").read_bytes() == b"parent\r\n"
    assert (work / "p.big").read_bytes() == b"version lfs\n"
    assert trapped.committed()["dirty.txt"] == b"dirty\r\n"
    assert fingerprint(trapped.root) == before


def test_what_an_agent_plants_in_its_workspace_springs_nothing(place: UserRepository, tmp_path: Path) -> None:
    work, traps = place.prepare(), tmp_path / "traps"
    for folder in (work / "nested", work / "sub"):
        folder.mkdir(exist_ok=True)
        git(folder, "init", "-q")
        with (folder / ".git/config").open("a") as file:
            file.write(config_of(traps))
        for name in HOOKS:
            (folder / ".git/hooks").mkdir(exist_ok=True)
            (folder / ".git/hooks" / name).symlink_to(trap(traps, f"hooks/{name}"))
    (work / ".git").unlink()
    write(
        work,
        {".git/HEAD": "ref: refs/heads/x\n", ".git/config": config_of(traps), ".git/objects/x": "", ".git/refs/x": ""},
    )
    modules = f'[submodule "x"]\n\tpath = sub\n\turl = ext::{traps}/program\n\tupdate = !{traps}/program\n'

    kept = place.turn(ROOT, {".gitattributes": PLANTED, ".gitmodules": modules, "sub/b.txt": "changed", "x": "\r\n"})
    place.prepare()
    place.trees.restore(JOB, ROOT, kept.tree, "x")

    assert not (traps / "sprung").exists()
    assert place.committed()["x"] == b"\r\n"
    assert place.committed()["sub/b.txt"] == b"changed"
    assert ".gitmodules: submodules stay as they are" in kept.left_out
    assert "160000" not in place.own("ls-tree", "-r", kept.tree)
    assert (work / ".git").read_bytes() == b""


def test_the_environment_configures_nothing(
    place: UserRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trap(tmp_path / "traps", "program")
    variables = {
        "GIT_DIR": str(tmp_path), "GIT_WORK_TREE": "/", "GIT_INDEX_FILE": "/nowhere", "GIT_EXTERNAL_DIFF": str(run),
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": str(run),
        "GIT_OBJECT_DIRECTORY": "/nowhere", "GIT_CONFIG_GLOBAL": str(tmp_path / "global"), "HOME": str(tmp_path),
    }  # fmt: skip
    write(tmp_path, {"global": config_of(tmp_path / "traps"), ".gitconfig": config_of(tmp_path / "traps")})
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    place.prepare()
    place.turn(ROOT, {"new": "new"})

    assert sorted(place.committed()) == ["a.txt", "new", "sub/b.txt"]
    assert not (tmp_path / "traps/sprung").exists()


def test_files_are_read_where_they_are_and_not_where_a_link_leads(place: UserRepository, tmp_path: Path) -> None:
    write(tmp_path, {"secret/key": "secret"})
    work = place.prepare()
    (work / "sub/b.txt").unlink()
    (work / "sub").rmdir()
    (work / "sub").symlink_to(tmp_path / "secret")
    (work / "key").symlink_to(tmp_path / "secret/key")

    place.turn(ROOT, {})

    assert place.committed() == {"a.txt": b"a\n"}
    assert "\n+secret" not in place.own("log", "-p", "--all")


def test_the_agents_repository_is_written_through_no_link(place: UserRepository, tmp_path: Path) -> None:
    """The agent owns its repository: it may have put links where the orchestrator writes next."""
    write(tmp_path, {"precious/heads": "mine", "precious/index": "mine"})
    place.prepare()
    own = place.trees.repository(JOB).folder / "gitdirs/job.git"
    (own / "index").unlink()
    (own / "index").symlink_to(tmp_path / "precious/index")
    (own / "refs").rename(own / "refs.old")
    (own / "refs").symlink_to(tmp_path / "precious")

    place.prepare()

    assert sorted(path.name for path in (tmp_path / "precious").iterdir()) == ["heads", "index"]
    assert (tmp_path / "precious/index").read_text() == "mine"
    assert not (own / "refs").is_symlink()


@pytest.mark.parametrize("text", ["x" * 5000, "x\n" * 1_000_000])
def test_attributes_that_git_would_choke_on_are_left_out(place: UserRepository, text: str) -> None:
    place.prepare()

    assert place.turn(ROOT, {"sub/.gitattributes": text}).left_out


def test_a_folder_that_nobody_may_read_is_told_and_stays_as_it_was(place: UserRepository) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    work = place.prepare()
    (work / "sub/b.txt").chmod(0)
    (work / "sub/b.txt").rename(work / "sub/c.txt")

    kept = place.turn(ROOT, {})

    assert "can't be read" in kept.left_out[0]
