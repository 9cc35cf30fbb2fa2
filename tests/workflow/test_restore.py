"""`parley workflow restore` on folders and jobs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parley.bus.rows import JobRow
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.cli import CommandError
from parley.cli.workflow.restore import run_restore
from parley.ports.workspaces import WorkspaceError
from parley.workflow.files.archive import INDEX, LOG, archive_of
from parley.workflow.files.session import render_session
from parley.workflow.host.archiving import Tree, archive
from parley.workflow.model.terms import Session, session_of
from parley.workspaces import JobWorkspaces
from parley.workspaces.checkout.users_workflow_files import UsersWorkflowFiles
from tests.cli.home import Home

START = 1727539822
SESSION = Session("user_api_1727539284", START)
NAME = "session_20240928_161022_users"
CURRENT = session_of("api_agent")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one archived session."""
    shelf = UsersWorkflowFiles(tmp_path)
    shelf.write({CURRENT: render_session(SESSION)})
    assert archive(shelf, "users", {"api_agent": SESSION}, 5).failed == ()
    assert not (tmp_path / CURRENT).exists()
    return tmp_path


@pytest.mark.parametrize("below", ["", "orchestration"])
def test_a_session_comes_back_in_a_folder(folder: Path, below: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_restore(str(folder / below), "api_agent", NAME) == 0
    assert (folder / CURRENT).read_text(encoding="utf-8") == render_session(SESSION)
    assert capsys.readouterr().out == f"{CURRENT} is {NAME}.json again\n"
    assert '"restored"' in (folder / LOG).read_text(encoding="utf-8")


def test_the_answer_can_be_had_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_restore(str(folder), "api_agent", NAME, json=True)
    path = archive_of("api_agent", "users", START)
    assert json.loads(capsys.readouterr().out) == {"agent": "api_agent", "archive": path, "session": CURRENT}


def test_a_live_session_stays_unless_it_may_be_replaced(folder: Path) -> None:
    live = render_session(Session("user_api_1727539284", START + 9))
    (folder / CURRENT).write_text(live, encoding="utf-8")
    with pytest.raises(CommandError, match="is a live session; give --replace"):
        run_restore(str(folder), "api_agent", NAME)
    assert (folder / CURRENT).read_text(encoding="utf-8") == live
    run_restore(str(folder), "api_agent", NAME, replacing=True)
    assert (folder / CURRENT).read_text(encoding="utf-8") == render_session(SESSION)
    assert (folder / archive_of("api_agent", "users", START + 9)).read_text(encoding="utf-8") == live


def test_what_is_neither_a_folder_with_a_workflow_nor_a_job_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="there is no job in"):
        run_restore(str(tmp_path), "api_agent", NAME, repo=str(tmp_path))


def test_no_link_leads_a_restore_out_of_the_folder(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    target = outside / "kept"
    target.write_text("mine", encoding="utf-8")
    (folder / CURRENT).symlink_to(target)
    run_restore(str(folder), "api_agent", NAME)
    assert target.read_text(encoding="utf-8") == "mine"
    assert (folder / CURRENT).read_text(encoding="utf-8") == render_session(SESSION)
    assert not (folder / CURRENT).is_symlink()

    (folder / CURRENT).unlink()
    drive = (folder / CURRENT).parent
    drive.rename(outside / "drive")
    drive.symlink_to(outside / "drive")
    with pytest.raises(CommandError, match="has no archive"):
        run_restore(str(folder), "api_agent", NAME)
    assert not (outside / "drive" / "session_current.json").exists()


def test_a_folder_that_takes_no_file_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="can't be written to"):
        UsersWorkflowFiles(tmp_path / "gone").write({INDEX: "{}"})


def job(root: Path, name: str, state: str) -> Tree:
    """A job in a state, with its tree."""
    home = root / ".parley"
    home.mkdir(exist_ok=True)
    store = SqliteStore(home)
    store.create(
        JobRow(
            job=name,
            request="go",
            decider="ada",
            created=1.0,
            updated=1.0,
            state=state,
            agent="scripted",
            settings="{}",
        )
    )
    store.close()
    trees = JobWorkspaces(home, root)
    trees.prepare(name, f"job:{name}", "")
    tree = Tree(trees, name, f"job:{name}")
    tree.write({CURRENT: render_session(SESSION)})
    assert archive(tree, "users", {"api_agent": SESSION}, 5).failed == ()
    return tree


def test_a_session_comes_back_in_a_job_that_has_ended_and_in_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PARLEY_HOME", raising=False)
    done, waiting = job(tmp_path, "done1", "DONE"), job(tmp_path, "live1", "EXECUTE")
    home = Home(tmp_path)
    assert home.here("workflow", "restore", "done", "api_agent", NAME).code == 0
    assert done.read(CURRENT) == render_session(SESSION)
    assert "live1 has not ended" in home.refuses("workflow", "restore", "live1", "api_agent", NAME)
    assert waiting.read(CURRENT) is None
    assert "there is no job 'other'" in home.refuses("workflow", "restore", "other", "api_agent", NAME)
