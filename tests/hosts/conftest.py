"""What the suite shares: one PostgreSQL server a worker."""

from collections.abc import Iterator

import pytest

from tests.postgres_server import Server, running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with running() as server:
        yield server
