"""What the tests of the command line share."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.home import Home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.delenv("PARLEY_HOME", raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    return Home(folder)


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with one job that waits for the human; for tests that change nothing."""
    home = Home(tmp_path_factory.mktemp("waiting"))
    home.start()
    return home


@pytest.fixture
def asked(waiting: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """As `waiting`, for a test that changes it: a copy that is taken in costs a tenth of a job."""
    monkeypatch.delenv("PARLEY_HOME", raising=False)
    folder = tmp_path / "work"
    subprocess.run(["cp", "-a", waiting.folder, folder], check=True)  # with whose the files are: agents may be others
    home = Home(folder)
    assert home.here("bus", "adopt", "--yes").code == 0
    return home
