"""Git as an agent has it inside its boundary: it works, shows the real history, and touches nothing shared."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from parley.ports.turns import Bind, Site
from parley.sandbox.bind_places import make_ready
from tests.workspaces.user_repository import (
    CHILD,
    JOB,
    OTHER,
    ROOT,
    UserRepository,
    fingerprint,
    git,
    repository,
    write,
)


def inside(site: Site, *words: str) -> str:
    """Run something where the agent is: its workspace, and what is bound over it."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        assert os.environ.get("CI") != "true", "bubblewrap is missing"
        pytest.skip("bubblewrap is not installed")
    binds = [
        word for bind in site.binds for word in ("--bind" if bind.writable else "--ro-bind", bind.source, bind.target)
    ]
    ground = Bind(site.workspace, site.workspace)
    make_ready({site.workspace}, "", [ground, *site.binds], os.geteuid())
    own = ["--bind" if site.writable else "--ro-bind", site.workspace, site.workspace]
    system = ["--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/run", *own]
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "HOME": "/run"}
    done = subprocess.run(
        [bwrap, *system, *binds, "--chdir", site.workspace, *words],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_status_diff_log_and_commit_work_and_what_is_committed_is_the_agents_own(tmp_path: Path, form: str) -> None:
    place = repository(
        tmp_path / "repo",
        {"a.txt": "a\n", "crlf": "x\r\n", ".gitattributes": "* text=auto\n"},
        f"--object-format={form}",
    )
    before = fingerprint(place.root)
    place.prepare()
    place.turn(ROOT, {"turn": "one\n", "INTENT.md": "x"})
    site = place.trees.prepare(JOB, ROOT, "")
    refs = place.own("for-each-ref")

    assert inside(site, "git", "status", "--porcelain") == ""
    assert inside(site, "git", "log", "--format=%s") == "turn of job:j1\nfirst\n"
    assert inside(site, "git", "branch", "--show-current") == "parley/do-it-j1\n"
    write(Path(site.workspace), {"a.txt": "b\n"})
    assert "-a\n+b\n" in inside(site, "git", "diff")
    inside(site, "git", "commit", "-qam", "mine")
    inside(site, "git", "stash", "list")
    assert inside(site, "git", "log", "--format=%s") == "mine\nturn of job:j1\nfirst\n"
    assert inside(site, "git", "fsck", "--no-dangling") == ""

    assert place.own("for-each-ref") == refs
    place.turn(ROOT, {})
    assert place.committed()["a.txt"] == b"b\n"
    assert "mine" not in place.own("log", "--all", "--format=%s")
    site = place.trees.prepare(JOB, ROOT, "")
    assert inside(site, "git", "log", "--format=%s") == "turn of job:j1\nturn of job:j1\nfirst\n"
    assert inside(site, "git", "status", "--porcelain") == ""
    assert fingerprint(place.root) == before


def test_what_an_agent_stashed_is_there_in_its_next_turn(place: UserRepository) -> None:
    site = place.trees.prepare(JOB, ROOT, "")
    write(Path(site.workspace), {"a.txt": "stashed\n"})
    inside(site, "git", "stash", "-q")
    place.turn(ROOT, {"b": "b"})

    site = place.trees.prepare(JOB, ROOT, "")
    inside(site, "git", "stash", "pop", "-q")

    assert (Path(site.workspace) / "a.txt").read_text() == "stashed\n"


def test_a_siblings_work_is_nowhere_inside(place: UserRepository) -> None:
    place.prepare()
    place.prepare(CHILD, ROOT)
    place.prepare(OTHER, ROOT)
    place.turn(OTHER, {"secret": "the sibling's secret"})
    blob = place.own("rev-parse", "parley/do-it-j1.c2:secret").strip()
    site = place.trees.prepare(JOB, CHILD, ROOT)

    found = inside(site, "sh", "-c", f"git cat-file -e {blob} 2>/dev/null && echo found || echo not there")

    assert found == "not there\n"
    assert place.trees.repository(JOB).git.folder not in {Path(bind.source) for bind in site.binds}


def test_outside_the_folder_is_no_repository_and_names_none(place: UserRepository) -> None:
    """An agent's repository has a configuration that the agent writes: the user's git must not find it."""
    work = place.prepare()

    assert (work / ".git").read_bytes() == b""
    assert git(work, "status", fine=False) == ""


def test_a_repository_that_the_agent_wrecked_is_made_anew(place: UserRepository) -> None:
    place.prepare()
    own = place.trees.repository(JOB).folder / "gitdirs/job.git"
    shutil.rmtree(own / "refs")
    (own / "refs").write_text("wrecked")

    site = place.trees.prepare(JOB, ROOT, "")

    assert inside(site, "git", "status", "--porcelain") == ""
    assert inside(site, "git", "log", "--format=%s") == "first\n"
