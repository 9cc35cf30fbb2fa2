"""The set-up command: much that it says, and little that is kept of it."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.cli.running.setup_command import KEPT, SetUpCommand, Tail
from parley.machine.process_tags import any_marked
from parley.ports.turns import Site
from parley.ports.workspaces import SetUpFailed, WorkspaceError
from parley.sandbox import Boundary
from parley.settings.schema import BoundarySettings, Settings

LOUD = "head -c 30000000 /dev/zero | tr '\\0' x; echo; echo the last word; "


@pytest.fixture(params=["", "none"], ids=["caged", "plain"])
def boundary(request: pytest.FixtureRequest) -> Iterator[Boundary]:
    boundary = Boundary(BoundarySettings(accept=request.param))
    yield boundary
    boundary.close()


@pytest.fixture
def workspace() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="parley-set-up-test-"))
    yield folder
    shutil.rmtree(folder)


def test_a_loud_set_up_works_and_one_that_fails_tells_its_last_word(
    boundary: Boundary, workspace: Path, tmp_path: Path
) -> None:
    prepare = SetUpCommand(boundary, Settings(), tmp_path)
    site = Site(str(workspace))

    prepare(site, LOUD + "cat; touch done")

    assert (workspace / "done").exists()
    with pytest.raises(SetUpFailed, match="failed: the last word; see"):
        prepare(site, LOUD + "exit 3")
    assert list(tmp_path.iterdir()) == []


def test_what_a_set_up_leaves_running_is_not_waited_for(boundary: Boundary, workspace: Path, tmp_path: Path) -> None:
    begun = time.monotonic()
    SetUpCommand(boundary, Settings(), tmp_path)(Site(str(workspace)), "sleep 600 & touch here")

    assert (workspace / "here").exists()
    assert time.monotonic() - begun < 600


def test_a_set_up_that_is_not_wanted_any_more_ends_with_all_that_it_started(
    boundary: Boundary, workspace: Path, tmp_path: Path
) -> None:
    def stop() -> bool:
        return (workspace / "started").exists()

    with pytest.raises(WorkspaceError, match="was ended: its turn is over"):
        SetUpCommand(boundary, Settings(), tmp_path)(Site(str(workspace)), "sleep 600 & touch started; wait", stop)

    assert not any_marked(f"{workspace.name}/set-up")


def test_only_the_end_is_kept(tmp_path: Path) -> None:
    (tmp_path / "said").write_bytes(b"a" * KEPT + b"b" * KEPT)

    mark = "…".encode()
    assert Tail((tmp_path / "said").open("rb")).end() == mark + b"b" * (KEPT - len(mark))
