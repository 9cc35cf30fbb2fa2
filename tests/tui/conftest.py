"""What the tests of the watch share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.home import Home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A home of its own; whatever is still at work in it at the test's end is withdrawn."""
    monkeypatch.delenv("PARLEY_HOME", raising=False)
    folder = tmp_path / "words"
    folder.mkdir()
    made = Home(folder)
    yield made
    if (folder / ".parley" / "bus.db").exists():
        for job in made.jobs():
            if job["owned"]:
                made.here("withdraw", job["id"])


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with one job that waits for the human; for tests that change nothing."""
    made = Home(tmp_path_factory.mktemp("words"))
    made.start()
    return made
