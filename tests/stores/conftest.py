"""What the suite shares: one PostgreSQL server a worker."""

from collections.abc import Iterator

import pytest

from tests.postgres_server import Bus, Server, running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture(scope="session")
def emptied(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Bus:
    """One bus for all tests, which each empties first: to make one takes longer than most tests."""
    return Bus(postgres, tmp_path_factory.mktemp("bus"))
