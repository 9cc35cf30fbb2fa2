"""What the tests of the served engine share."""

from pathlib import Path

import pytest

from tests.cli.home import Home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.delenv("PARLEY_HOME", raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    return Home(folder)
