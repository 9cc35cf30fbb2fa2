"""What tests of many hosts share: one PostgreSQL server for all of them."""

from collections.abc import Iterator

import pytest

from tests.hosts.counted_jobs import Cluster, second_coordinator
from tests.hosts.network_hosts import NetworkHosts, network_hosts
from tests.postgres_server import Server, running


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with running() as found:
        yield found


@pytest.fixture(scope="session")
def networked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkHosts]:
    """A coordinator and three hosts with networks of their own. A test that stops or cuts any has `restore` called."""
    with network_hosts(tmp_path_factory.mktemp("networked")) as scene:
        yield scene


@pytest.fixture(scope="session")
def with_second(networked: NetworkHosts) -> Cluster:
    """The same, with a second coordinator."""
    return Cluster(networked, second_coordinator(networked))


@pytest.fixture
def hosts(with_second: Cluster) -> Iterator[Cluster]:
    """The same, with every host alive before and after the test."""
    with_second.scene.restore()
    yield with_second
    with_second.scene.restore()
