"""The three services by TLS: each doubt about who is there, or who comes, is one line, and no secret is in it."""

import asyncio
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from parley.hosts import temporal_link
from parley.hosts.mirror import git_remote
from parley.hosts.mirror.git_remote import GitRemote, Remote
from parley.hosts.mirror.mirror_errors import RemoteTrouble
from parley.hosts.temporal_link import NoTemporal, TemporalAddress
from parley.settings.load import parse
from parley.workspaces.safe_git import Git
from tests.cli.home import Home, wait_for
from tests.hosts import git_server, tls_relay
from tests.hosts.certificates import Authority
from tests.hosts.many_hosts import ROLE
from tests.hosts.network_hosts import COORDINATOR, GIT_LOGIN, OWNER, PASSWORD, POSTGRESQL, NetworkHosts
from tests.hosts.test_turns_elsewhere import AT_WORK
from tests.workspaces.user_repository import git

HERE, ELSEWHERE = "127.0.0.1", "10.1.1.1"


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("theirs"), "others")


@contextmanager
def serving(program: str, port: int, *words: str) -> Iterator[int]:
    """A program of the tests that serves on loopback."""
    process = subprocess.Popen([sys.executable, program, *words])
    try:
        wait_for(lambda: process.poll() is not None or _answers(port))
        assert process.poll() is None
        yield port
    finally:
        process.kill()
        process.wait()


@contextmanager
def tls(authority: Authority, name: str, inner: int, alpn: str, clients_ca: str = "") -> Iterator[int]:
    """TLS before a port, with a certificate for an address."""
    port = _free()
    certificate, key = authority.for_server(f"server-{port}", name)
    words = (HERE, str(port), str(inner), str(certificate), str(key), alpn, *([clients_ca] if clients_ca else []))
    with serving(tls_relay.__file__, port, *words):
        yield port


def _free() -> int:
    with socket.socket() as free:
        free.bind((HERE, 0))
        return int(free.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        socket.create_connection((HERE, port)).close()
    except OSError:
        return False
    return True


# ---- Temporal ------------------------------------------------------------------------------------


def why_not(at: TemporalAddress) -> str:
    """Why Temporal can't be reached."""
    with pytest.raises(NoTemporal) as caught:
        asyncio.run(temporal_link.connect(at))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_temporal_that_does_not_prove_who_it_is_or_asks_who_comes_is_told_in_one_line(
    ours: Authority, theirs: Authority
) -> None:
    closed = _free()
    with (
        tls(ours, HERE, closed, "h2") as port,
        tls(ours, ELSEWHERE, closed, "h2") as misnamed,
        tls(ours, HERE, closed, "h2", str(ours.ca)) as asking,
    ):
        assert "not from an authority that is known here" in why_not(
            TemporalAddress(f"{HERE}:{port}", ca=str(theirs.ca))
        )
        assert "is another server's" in why_not(TemporalAddress(f"{HERE}:{misnamed}", ca=str(ours.ca)))
        assert "temporal_certificate" in why_not(TemporalAddress(f"{HERE}:{asking}", ca=str(ours.ca)))
        certificate, key = map(str, ours.for_client("client"))
        known = TemporalAddress(f"{HERE}:{asking}", ca=str(ours.ca), certificate=certificate, key=key)
        assert "see that it runs" in why_not(known), "TLS is done, and there is no Temporal behind it"
        assert "belong together" in why_not(known._replace(key=""))


# ---- the git remote ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A repository by HTTP without TLS, for those who log in: its port."""
    folder = tmp_path_factory.mktemp("served")
    git(folder, "init", "-q", "--bare", "remote.git")
    port = _free()
    with serving(git_server.__file__, port, str(port), str(folder), GIT_LOGIN):
        yield port


def asked(folder: Path, port: int, ca: Path) -> dict[str, str]:
    """The refs of a remote on this machine."""
    here = folder / "here"
    here.mkdir(exist_ok=True)
    git(here, "init", "-q", "--bare")
    return GitRemote(Remote(f"https://{HERE}:{port}/remote.git", str(ca))).listed(Git(here))


def refused(folder: Path, port: int, ca: Path) -> str:
    """Why a remote can't be read."""
    with pytest.raises(RemoteTrouble) as caught:
        asked(folder, port, ca)
    said = str(caught.value)
    assert "\n" not in said
    assert not any(part in said for part in GIT_LOGIN.split(":")[1:])
    return said


def log_in(home: Path, password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have git log in as a user does: by their own file."""
    (home / ".netrc").write_text(f"machine {HERE} login parley password {password}\n")
    (home / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(home))


def test_a_git_server_with_an_authority_of_its_own_is_used_and_any_other_is_refused(
    repository: int, ours: Authority, theirs: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(tmp_path, GIT_LOGIN.partition(":")[2], monkeypatch)
    with (
        tls(ours, HERE, repository, "http/1.1") as port,
        tls(ours, ELSEWHERE, repository, "http/1.1") as misnamed,
    ):
        assert asked(tmp_path, port, ours.ca) == {}
        for there, ca in ((port, theirs.ca), (port, Path("/missing.pem")), (misnamed, ours.ca), (repository, ours.ca)):
            assert f"https://{HERE}:{there}/remote.git could not be read: fatal: unable to access" in refused(
                tmp_path, there, ca
            )
        log_in(tmp_path, "wrong", monkeypatch)
        assert "it asks for a login, and ~/.netrc has none that it takes" in refused(tmp_path, port, ours.ca)


def test_a_git_server_that_answers_no_more_is_given_up(
    ours: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_remote, "STALL_SECONDS", 0.5)
    monkeypatch.setattr(git_remote, "QUICK_SECONDS", 1.0)
    git(tmp_path, "init", "-q", "--bare")
    with socket.create_server((HERE, 0)) as silent, tls(ours, HERE, silent.getsockname()[1], "http/1.1") as port:
        remote = GitRemote(Remote(f"https://{HERE}:{port}/remote.git", str(ours.ca)))
        with pytest.raises(RemoteTrouble, match="could not be read: it answers no more"):
            remote.fetch(Git(tmp_path), "refs/parley/x", "refs/parley/x")


# ---- PostgreSQL, from another machine ------------------------------------------------------------


def cannot(home: Home, url: str, *words: str, **more: str) -> str:
    """The one line of a command that PostgreSQL at this address does not serve."""
    environment = {**home.environment, "PARLEY_BUS_URL": url, **more}
    said = replace(home, environment=environment).fails(*words, code=1)
    assert PASSWORD not in said
    return said


def test_a_postgresql_that_does_not_prove_who_it_is_is_not_used(networked: NetworkHosts, theirs: Authority) -> None:
    home, url = networked.home, networked.bus_url(COORDINATOR)
    address, alias = networked.network.address(POSTGRESQL), networked.network.alias(POSTGRESQL)

    assert "certificate verify failed" in cannot(
        home, url.replace(str(networked.authority.ca), str(theirs.ca)), "hosts"
    )
    assert f'does not match host name "{alias}"' in cannot(home, url.replace(address, alias), "hosts")
    for mode in ("disable", "prefer", "require", "verify-ca"):
        assert f"sslmode={mode} does not verify it; use sslmode=verify-full" in cannot(
            home, f"{url}&sslmode={mode}", "hosts"
        )


def test_postgresql_refuses_who_does_not_prove_who_they_are_in_one_line(networked: NetworkHosts) -> None:
    home, worker = networked.home, networked.bus_url("worker")
    url = networked.bus_url(COORDINATOR)

    wrong = url.replace(f"{OWNER}@", f"{OWNER}:wrong-password@")
    said = cannot(home, wrong, "hosts")
    assert "password authentication failed" in said
    assert "wrong-password" not in said
    assert "no pg_hba.conf entry" in cannot(home, url.replace(f"{OWNER}@", "stranger@"), "hosts")
    bare = re.sub(r"&sslcert=.*", "", worker)
    said = cannot(home, bare, "worker", "--name", "x")
    assert "connection requires a valid client certificate" in said
    said = cannot(home, worker.replace(f"{ROLE}@", f"{OWNER}@"), "worker", "--name", "x", PGPASSFILE="/missing")
    assert "no password supplied" in said


# ---- secrets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked_for",
    [
        '[servers]\noffice = "postgresql://x@y/z"', '[hosts]\ntemporal = "x:1"', '[hosts]\ntemporal_ca = "/x"',
        '[hosts]\ntemporal_certificate = "/x"', '[hosts]\ntemporal_key = "/x"', '[hosts]\nremote = "https://x/y"',
        '[hosts]\nremote_ca = "/x"', '[hosts]\nroles = ["x"]',
    ],
)  # fmt: skip
def test_a_repository_that_names_services_or_what_opens_them_is_refused(tmp_path: Path, asked_for: str) -> None:
    with pytest.raises(Exception, match="no repository"):
        parse(tmp_path, asked_for.encode())


def test_no_password_is_seen_while_a_job_runs_nor_kept_anywhere(networked: NetworkHosts) -> None:
    secrets = [PASSWORD.encode(), GIT_LOGIN.partition(":")[2].encode()]
    seen: set[bytes] = set()
    networked.restore()
    with networked.running_job(AT_WORK) as running:
        while running.process.poll() is None:
            seen |= _command_lines() | {networked.temporal.database.read_bytes()}
        running.wait_for_question()

    assert any(b"git-remote-https" in line for line in seen), "it was looked while git spoke with its remote"
    with ExitStack() as held:
        kept = [path for path in networked.base.rglob("*") if path.is_file() and path.name not in (".pgpass", ".netrc")]
        files = [held.enter_context(path.open("rb")).read() for path in kept]
    bus = subprocess.run(
        ["pg_dumpall", "--no-role-passwords", f"--dbname={networked.server.url}"], capture_output=True, check=True
    ).stdout
    assert running.job.encode() in bus
    for secret in secrets:
        assert not any(secret in text for text in (*seen, *files, bus)), secret


def _command_lines() -> set[bytes]:
    """What `ps` shows of all processes but the tests' own servers, which are given the login of the git server."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes()
        except OSError:
            continue
        if b"git_server.py" not in line:
            found.add(line)
    return found
