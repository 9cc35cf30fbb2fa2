"""What tests of many hosts share: one PostgreSQL server for all of them."""

from collections.abc import Iterator

import pytest

from tests.postgres_server import Server, running


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with running() as found:
        yield found
