"""What the tests of trust share."""

from pathlib import Path

import pytest

from tests.cli.home import Home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A folder without a repository, and a user who has allowed nothing yet."""
    monkeypatch.delenv("PARLEY_HOME", raising=False)
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    folder = tmp_path / "work"
    folder.mkdir()
    return Home(folder)
