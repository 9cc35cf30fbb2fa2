"""What the tests of the command line share."""

from pathlib import Path

import pytest

from tests.cli.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    folder = tmp_path / "work"
    folder.mkdir()
    return Home(folder)
