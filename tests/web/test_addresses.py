"""The page at other addresses than this machine's own: only with TLS files that work, under names that were given."""

from __future__ import annotations

import http.client
import re
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.home import PARLEY, PATIENCE_SECONDS, Home, wait_for
from tests.web.raw_http import Client, own_home

ANY = "0.0.0.0"  # noqa: S104 - where others reach it
LINK = re.compile(r"(https://\S+)/\?token=(\S+)")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A repository, with TLS files beside it."""
    made = own_home(tmp_path_factory.mktemp("addresses"))
    files(made.folder.parent, "page")
    files(made.folder.parent, "locked", "-aes256", "-passout", "pass:secret")
    return made


def files(folder: Path, name: str, *words: str) -> None:
    """A self-made certificate and its key."""
    encrypted = [] if words else ["-nodes"]
    key = [word for word in words if word != "-aes256"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", *encrypted, *key, "-days", "2", "-subj", "/CN=page.test",
         "-addext", "subjectAltName=DNS:page.test,IP:127.0.0.1", "-keyout", f"{name}.key", "-out", f"{name}.pem"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    "words, said",
    [
        (["--host", ANY], "--cert FILE and --key FILE"),
        (["--host", "::"], "--cert FILE and --key FILE"),
        (["--host", "192.0.2.1", "--key", "../page.key"], "both files"),
        (["--host", ANY, "--cert", "../page.pem"], "both files"),
        (["--cert", "nothing.pem", "--key", "../page.key"], "no such file"),
        (["--cert", "../page.key", "--key", "../page.pem"], "can't be used"),
        (["--cert", "../page.pem", "--key", "../locked.key"], "can't be used"),
        (["--cert", "README.md", "--key", "README.md"], "can't be used"),
        (["--host", "evil.test"], "an address of this machine"),
        (["--host", "192.0.2.1", "--cert", "../page.pem", "--key", "../page.key"], "another --host"),
        (["--name", "a/b"], "--name"),
        (["--name", "page.test:80"], "--name"),
        (["--name", "x\r\ny"], "--name"),
    ],
)
def test_an_address_that_would_not_be_safe_is_refused_in_one_line(home: Home, words: list[str], said: str) -> None:
    done = home.here("serve", "--no-browser", "--port", "0", *words)

    assert (done.code != 0, done.out, len(done.err.splitlines())) == (True, "", 1), done
    assert said in done.err


@pytest.fixture(scope="module")
def served(home: Home) -> Iterator[tuple[Client, str]]:
    """A server for other machines: a visitor, and the link's token."""
    process = subprocess.Popen(
        [str(PARLEY), "serve", "--no-browser", "--port", "0", "--only-look", "--host", ANY, "--name", "page.test",
         "--cert", "../page.pem", "--key", "../page.key"],
        cwd=home.folder, env=home.env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        found = LINK.search(process.stdout.readline().decode())
        assert found
        context = ssl.create_default_context(cafile=str(home.folder.parent / "page.pem"))
        yield Client(found[1], context=context), found[2]
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.communicate()


def test_others_reach_the_page_by_tls_and_its_name(served: tuple[Client, str]) -> None:
    visitor, token = served
    assert visitor.host.startswith("page.test:")
    let_in = visitor.get(f"/?token={token}")

    assert let_in.status == 303
    cookie = let_in.header("set-cookie").split("; ")
    assert {"Secure", "HttpOnly", "Path=/"} <= set(cookie)
    assert cookie[0].startswith(f"__Host-parley-{visitor.port}=")  # no neighbouring name can set it
    assert not let_in.header("strict-transport-security")  # it would count for all ports of the name
    user = visitor.open(f"/?token={token}")
    assert user.get("/").status == 200
    assert user.get("/", Host=f"localhost:{visitor.port}").status == 200
    assert user.get("/", Host=f"evil.test:{visitor.port}").status == 403
    assert user.post("/nothing-here").status == 404
    assert user.post("/nothing-here", Origin=visitor.address.replace("https", "http")).status == 403


def test_without_tls_nothing_is_answered(served: tuple[Client, str]) -> None:
    visitor, token = served
    plain = Client(visitor.address.replace("https", "http"))

    with pytest.raises((ConnectionError, http.client.HTTPException)):
        plain.get(f"/?token={token}")
    wait_for(lambda: visitor.get("/healthz").status == 200)
