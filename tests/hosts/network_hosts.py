"""A coordinator and three hosts, each on a network of its own, with PostgreSQL, Temporal and a git server on others.

All of them are reached by TLS, with certificates of an authority that this scene makes. The coordinator comes to
PostgreSQL with a password, a host with a certificate of its own.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.cli.home import wait_for
from tests.hosts import git_server, tls_relay
from tests.hosts.certificates import Authority
from tests.hosts.many_hosts import ROLE, ManyHosts, TemporalServer
from tests.hosts.network import Network, network
from tests.postgres_server import Server, running

HOSTS = ("one", "two", "three")
POSTGRESQL, TEMPORAL, REMOTE = SERVICES = ("postgresql", "temporal", "git")
COORDINATOR = "coordinator"
OWNER = "parley"
PASSWORD = "the-password-of-the-coordinator"
GIT_LOGIN = "parley:the-password-of-the-git-server"
DATABASE_PORT, TEMPORAL_PORT, GIT_PORT = 5432, 7233, 8443
_INNER_GIT_PORT = 8080
ALONE_SECONDS = 6.0  # that agents go on on a host that can't reach PostgreSQL
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - of a network namespace
# Who may come to PostgreSQL, and how; whatever comes without TLS may not.
_HBA = f"""
local all all trust
hostssl all {OWNER} 0.0.0.0/0 scram-sha-256
hostssl all {ROLE} 0.0.0.0/0 cert
"""


@dataclass(kw_only=True)
class NetworkHosts(ManyHosts):
    """As its base, with partitions: `cut` and `heal`. Its hosts are `one`, `two` and `three`."""

    network: Network
    authority: Authority

    def __post_init__(self) -> None:
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {OWNER} LOGIN PASSWORD '{PASSWORD}'")
            connection.execute(f"GRANT CREATE ON DATABASE postgres TO {OWNER}")
        super().__post_init__()

    def bus_url(self, who: str) -> str:
        """The address of PostgreSQL."""
        at = f"{self.network.address(POSTGRESQL)}:{DATABASE_PORT}/postgres?sslrootcert={self.authority.ca}"
        if who == COORDINATOR:
            return f"postgresql://{OWNER}@{at}"
        return f"postgresql://{ROLE}@{at}&sslcert={self.authority.folder}/{ROLE}.pem&sslkey={self.authority.folder}/{ROLE}.key"

    def hosts_settings(self) -> str:
        """Where Temporal and the git remote are."""
        folder = self.authority.folder
        return (
            f'temporal = "{self.network.address(TEMPORAL)}:{TEMPORAL_PORT}"\ntemporal_ca = "{self.authority.ca}"\n'
            f'temporal_certificate = "{folder}/client.pem"\ntemporal_key = "{folder}/client.key"\n'
            f'remote = "https://{self.network.address(REMOTE)}:{GIT_PORT}/remote.git"\n'
            f'remote_ca = "{self.authority.ca}"\nalone_seconds = {ALONE_SECONDS}\n'
        )

    def inside(self, who: str) -> tuple[str, ...]:
        """What goes before a command: a host of another name is on the network of the first."""
        return self.network.inside(who if who in (COORDINATOR, *HOSTS) else HOSTS[0])

    def _own(self, who: str) -> dict[str, str]:
        home = self.base / who
        (home / ".pgpass").write_text(f"*:*:*:{OWNER}:{PASSWORD}\n" if who == COORDINATOR else "")
        (home / ".pgpass").chmod(0o600)
        user, _, password = GIT_LOGIN.partition(":")
        (home / ".netrc").write_text(f"machine {self.network.address(REMOTE)} login {user} password {password}\n")
        (home / ".netrc").chmod(0o600)
        return {**super()._own(who), "HOME": str(home)}

    # ---- partitions ----------------------------------------------------------------------------

    def cut(self, one: str, *others: str) -> None:
        """Drop all that passes between a machine and others; without others, between it and all.

        Machines: `coordinator`, the hosts, and the services `postgresql`, `temporal` and `git`.
        """
        self.network.cut(one, *others)

    def heal(self) -> None:
        """Let everything through again."""
        self.network.heal()

    def restore(self) -> None:
        """Have all as at the start: nothing is cut, and every host is alive."""
        self.heal()
        for name in HOSTS:
            worker = self.workers.get(name)
            if worker is None or worker.process.poll() is not None:
                self.start_worker(name, "--slots", "3")
        for name in HOSTS:
            self.wait_for_host(name)


@contextmanager
def network_hosts(folder: Path) -> Iterator[NetworkHosts]:
    """The scene, with its three hosts alive."""
    with ExitStack() as held:
        net = held.enter_context(network(COORDINATOR, *HOSTS, *SERVICES))
        authority = Authority(folder / "authority")
        for name in (ROLE, "client"):
            authority.for_client(name)
        server = held.enter_context(postgresql(net, authority))
        temporal = TemporalServer(folder, net.inside(TEMPORAL))
        held.callback(temporal.kill)
        temporal.start()
        inner = int(temporal.address.rpartition(":")[2])
        held.enter_context(tls_before(net, TEMPORAL, TEMPORAL_PORT, inner, authority, "h2", authority.ca))
        held.enter_context(served(net, REMOTE, git_server.__file__, str(_INNER_GIT_PORT), str(folder), GIT_LOGIN))
        held.enter_context(tls_before(net, REMOTE, GIT_PORT, _INNER_GIT_PORT, authority, "http/1.1"))
        scene = NetworkHosts(folder, server, temporal, network=net, authority=authority)
        held.callback(scene.close)
        held.callback(scene.heal)
        scene.restore()
        yield scene


@contextmanager
def postgresql(net: Network, authority: Authority) -> Iterator[Server]:
    """PostgreSQL on its network, by TLS only. This process reaches it by its Unix socket."""
    with tempfile.TemporaryDirectory(prefix="parley-pg-tls-", dir="/tmp") as name:
        folder = Path(name)
        (folder / "hba.conf").write_text(_HBA)
        shutil.copy(authority.ca, folder)
        for path in authority.for_server(POSTGRESQL, net.address(POSTGRESQL)):
            shutil.copy(path, folder)
        for path in (folder, *folder.iterdir()):
            shutil.chown(path, "postgres", "postgres")
        settings = (
            "fsync=off", f"listen_addresses={EVERY_ADDRESS}", f"port={DATABASE_PORT}", f"hba_file={folder}/hba.conf",
            "ssl=on", f"ssl_cert_file={folder}/{POSTGRESQL}.pem", f"ssl_key_file={folder}/{POSTGRESQL}.key",
            f"ssl_ca_file={folder}/ca.pem",
        )  # fmt: skip
        with running(settings, net.inside(POSTGRESQL)) as server:
            yield server


@contextmanager
def tls_before(
    net: Network, name: str, port: int, inner: int, authority: Authority, alpn: str, clients_ca: Path | None = None
) -> Iterator[None]:
    """TLS before a port of a machine; with `clients_ca`, only for clients with a certificate of that authority."""
    certificate, key = authority.for_server(name, net.address(name))
    asked = [str(clients_ca)] if clients_ca is not None else []
    words = [EVERY_ADDRESS, str(port), str(inner), str(certificate), str(key), alpn, *asked]
    with served(net, name, tls_relay.__file__, *words):
        wait_for(lambda: net.answers(name, port))
        yield


@contextmanager
def served(net: Network, name: str, *words: str) -> Iterator[None]:
    """A program of the tests on a machine, for as long as it is needed."""
    environment = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    process = subprocess.Popen([*net.inside(name), sys.executable, *words], env=environment)
    try:
        yield
    finally:
        process.kill()
        process.wait()
