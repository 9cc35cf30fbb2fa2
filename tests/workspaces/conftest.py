"""What the tests of workspaces share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workspaces.user_repository import JOB, UserRepository, fingerprint, repository


@pytest.fixture
def place(tmp_path: Path) -> Iterator[UserRepository]:
    """A small repository, which is as it was when the test is over; what Parley made beside it is sound."""
    made = repository(tmp_path / "repo")
    before = fingerprint(made.root)
    yield made
    assert fingerprint(made.root) == before
    if made.trees.repository(JOB).exists:
        said = made.own("fsck", "--full", "--strict", "--no-dangling")
        assert said == ""
