"""Where no agent can be confined, no job begins or goes on: one line with what to do, and nobody is asked."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.cli.common import Workplace, place_of
from parley.cli.machine import boundary_trial
from parley.sandbox import Boundary, Cage, Caged
from parley.settings.schema import BoundarySettings
from tests.cli.home import APPROVES, LEADS, PARLEY, Home, wait_for
from tests.sandbox.cage_harness import FORBIDDEN, fake_bubblewrap, no_package

SAID = "parley: no job can run here: user namespaces are not allowed here "


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can reach: where Parley is root, bubblewrap is run by another."""
    with tempfile.TemporaryDirectory(prefix="parley-preflight-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def broken(folder: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of a machine on which bubblewrap may not do anything."""
    path = fake_bubblewrap(folder / "bin", FORBIDDEN)
    return {"PATH": f"{path}:{os.environ['PATH']}", "PYTHONPATH": str(no_package(tmp_path / "packages"))}


@pytest.mark.parametrize("more", [(), ("--detach",), ("--json",)])
def test_no_job_begins_where_no_agent_can_be_confined(
    home: Home, broken: dict[str, str], more: tuple[str, ...]
) -> None:
    playbook = home.write("p.yaml", LEADS)
    home.environment |= broken
    said = home.fails("run", "x", "--playbook", playbook, *more)

    assert said.startswith(SAID)
    assert 'accept = "none"' in said
    assert [path.name for path in home.folder.iterdir()] == ["p.yaml"]  # no home, and so no job


def test_no_demo_begins_where_no_agent_can_be_confined(home: Home, broken: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    home.environment |= {**broken, "TMPDIR": str(tmp_path / "tmp")}

    assert home.fails("demo").startswith(SAID)
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("named", [True, False])
def test_no_job_goes_on_where_no_agent_can_be_confined(asked: Home, broken: dict[str, str], named: bool) -> None:
    job = asked.job()
    asked.here("answer", asked.question(), "--approve")
    before = _rows(asked, job)
    asked.environment |= broken

    assert asked.fails("resume", *([job] if named else [])).startswith(SAID)
    assert _rows(asked, job) == before


def test_a_pause_does_not_end_where_no_agent_can_be_confined(asked: Home, broken: dict[str, str]) -> None:
    job = asked.job()
    asked.here("pause", job)
    before = _rows(asked, job)
    asked.environment |= broken

    assert asked.fails("resume", job).startswith(SAID)
    assert _rows(asked, job) == before


def _rows(home: Home, job: str) -> tuple[int, int]:
    store = SqliteStore(home.folder / ".parley")
    try:
        return len(list(store.steps(job))), len(store.inputs(job, waiting=False))
    finally:
        store.close()


def test_a_job_that_accepts_no_boundary_begins(home: Home, broken: dict[str, str]) -> None:
    home.settings('[boundary]\naccept = "none"\n')
    home.environment |= broken
    assert home.run("run", "x", "--playbook", home.write("p.yaml", LEADS + APPROVES)).code == 0


DISPATCHES = r"""
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do:
        - {write: {path: begun.txt, text: "1"}}
        - {shell: "until [ -e go.txt ]; do sleep 0.02; done"}
        - {send: {to: researcher, text: "look"}}
    - {match: 'found', do: [{ask: {text: "what now?"}}]}
  researcher:
    - {match: 'look', do: [{say: "found"}]}
"""


def test_a_boundary_that_breaks_in_mid_job_interrupts_it_and_asks_nobody(home: Home, folder: Path) -> None:
    flag = folder / "broken"
    path = fake_bubblewrap(folder / "bin", f'[ -e {flag} ] && {{ {FORBIDDEN}; }}; exec {shutil.which("bwrap")} "$@"')
    home.environment["PATH"] = f"{path}:{os.environ['PATH']}"
    with home.started("run", "x", "--playbook", home.write("p.yaml", DISPATCHES)) as process:
        (begun,) = wait_for(lambda: list(home.folder.glob(".parley/jobs/*/work/begun.txt")))
        flag.touch()
        begun.with_name("go.txt").touch()
        _, said = process.communicate(timeout=30)
    (row,) = home.jobs()

    assert process.returncode == 1
    last = said.splitlines()[-1]
    assert last.startswith(f"parley: {row['id']} is interrupted: user namespaces are not allowed here ")
    assert last.endswith(f"; then go on with: parley resume {row['id']}")
    assert row["state"] == "INTENT"
    assert home.here("inbox", "--json").document["questions"] == []

    flag.unlink()
    done = home.run("resume", row["id"])
    assert done.code == 4
    assert "what now?" in done.out
    assert home.here("audit", row["id"]).code == 0


def test_a_job_of_another_process_that_waits_for_the_human_is_not_waited_for(home: Home) -> None:
    job = home.run("run", "x", "--playbook", home.write("p.yaml", LEADS), "--detach").out.strip()
    try:
        wait_for(lambda: home.here("inbox", "--json").document["questions"])
        done = home.run("resume", job)
    finally:
        home.run("withdraw", job)

    assert done.code == 4
    assert f"parley answer {done.out.split('question ')[1][:8]}" in done.out


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_a_root_that_may_not_become_another_user_is_told_so(home: Home) -> None:
    """As in a user namespace with one user in it."""
    words = ["unshare", "--user", "--map-current-user", str(PARLEY), "run", "x", "--playbook"]
    done = subprocess.run(
        [*words, home.write("p.yaml", LEADS)],
        cwd=home.folder, env=home.env(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (2, "")
    assert "Parley is root here, but may not become another user: run it as an ordinary user" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_no_program_is_looked_for_in_the_folder_that_jobs_deliver_to(home: Home, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    for name in ("git", "bwrap", "setpriv", "true", "claude", "codex"):
        path = Path(home.write(f"bin/{name}", f"#!/bin/sh\necho {name} >> {ran}\n"))
        path.chmod(0o755)
    for folders in (f"{home.folder}/bin", "bin:."):
        home.environment["PATH"] = f"{folders}:{os.environ['PATH']}"
        home.run("doctor")

    assert not ran.exists()


@pytest.mark.parametrize("home, left", [(".", 1), ("..", 0)])
def test_a_users_programs_are_found_by_one_who_asks_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str, left: int
) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin")
    monkeypatch.setenv("HOME", str((tmp_path / home).resolve()))

    place_of(str(tmp_path))

    assert os.environ["PATH"].count(f"{tmp_path}/bin") == left


def test_the_boundary_is_tried_where_the_work_will_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    class Noting(Boundary):
        def launch(self, cage: Cage) -> Caged:
            tried.append(cage.site.workspace)
            return super().launch(cage)

    monkeypatch.setattr(boundary_trial, "Boundary", Noting)
    place = Workplace(tmp_path, tmp_path / "far" / ".parley")
    boundary_trial.preflight(BoundarySettings(), place)
    assert [Path(workspace).parents[1] for workspace in tried] == [place.home]
    assert list(tmp_path.iterdir()) == []  # as it was

    (tmp_path / "elsewhere").mkdir()
    place.home.parent.mkdir()
    place.home.symlink_to(tmp_path / "elsewhere")  # what uses the home refuses it
    assert boundary_trial.try_boundary(BoundarySettings(), place).ok
    assert not Path(tried[-1]).is_relative_to(tmp_path / "elsewhere")
