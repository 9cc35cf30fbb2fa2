"""Tokens, cookies and passes: who is let in, for how long, and where nothing of it may show."""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext

from parley.engine.values.people import May
from parley.web.safety.opening_token import OpeningToken
from parley.web.safety.people_book import BookTrouble
from parley.web.safety.sessions import LASTS_SECONDS, page_key
from tests.cli.home import PARLEY, Home, wait_for
from tests.web.page_harness import Server, descendants, serve
from tests.web.raw_http import (
    Client,
    holder,
    own_home,
    owner,
    people_of_user,
    state_folder,
    stranger,
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A repository whose user has people and keys of their own."""
    return own_home(tmp_path_factory.mktemp("tokens"))


@pytest.fixture(scope="module")
def server(home: Home) -> Iterator[Server]:
    """One server for all tests here."""
    with serve(home, "--only-look") as made:
        yield made


def cookie_value(client: Client) -> str:
    return client.cookie.partition("=")[2]


def signed(home: Home, port: int, name: str, issued: int) -> str:
    """A cookie as a server at a port makes it."""
    key = (state_folder(home) / "page-key").read_bytes()
    tag = hmac.digest(key, f"cookie|{port}|{name}|{issued}".encode(), hashlib.sha256).hex()
    return f"parley-{port}={name}.{issued}.{tag}"


# ---- the token of the link ---------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["", "x", "A" * 32, "account", "%00", "../..", "\u0661"])
def test_a_token_that_is_not_this_servers_opens_nothing(server: Server, token: str) -> None:
    found = stranger(server).get(f"/?token={token.encode().hex() if not token.isascii() else token}")

    assert found.status in (400, 401)
    assert not found.header("set-cookie")


def test_a_token_is_exchanged_for_a_cookie_and_leaves_the_address(server: Server) -> None:
    visitor = stranger(server)
    found = visitor.get(f"/?q=a%26b&token={server.token}&more=%22")

    assert (found.status, found.header("location")) == (303, "/?q=a%26b&more=%22")
    flags = found.header("set-cookie")
    assert flags.startswith(f"parley-{visitor.port}=account.")
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(flags.split("; "))
    assert "Domain" not in flags
    assert server.token not in found.text + flags


@pytest.mark.parametrize("path", ["//evil.test/", "/%2fevil.test", "/\\evil.test", "/%5cevil.test", "/r/%0d%0aX:y"])
def test_the_exchange_never_leads_elsewhere(server: Server, path: str) -> None:
    found = stranger(server).get(f"{path}?token={server.token}")

    location = found.header("location")
    assert found.status in (303, 400, 404)
    assert not location.startswith(("//", "/\\", "http"))
    assert "\n" not in location


def test_a_token_in_a_form_or_in_the_address_of_a_form_lets_nobody_in(server: Server) -> None:
    visitor = stranger(server)

    assert visitor.post("/", {"token": server.token}).status in (401, 405)
    sent = visitor.post(f"/nothing?token={server.token}")
    assert (sent.status, sent.header("set-cookie")) == (401, "")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin"])
def test_a_link_on_any_page_does_not_turn_a_person_into_another(home: Home, server: Server, site: str) -> None:
    """Not on this server's own pages either: they show what other people wrote."""
    user = owner(server)
    _, token = people_of_user(home).add("mallory", May.DECIDE)
    followed = {"Sec_Fetch_Site": site, "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}

    refused = user.get(f"/?token={token}", **followed)
    assert (refused.status, refused.header("set-cookie")) == (409, "")
    assert "already" in refused.text
    assert stranger(server).get(f"/?token={token}", **followed).status == 303
    assert user.get(f"/?token={token}", Sec_Fetch_Site="none", Sec_Fetch_Mode="navigate").status == 303
    assert user.get(f"/?token={server.token}", **followed).status == 303


# ---- cookies -----------------------------------------------------------------------------------------


def test_a_cookie_that_was_changed_or_made_elsewhere_opens_nothing(home: Home, server: Server) -> None:
    user, now = owner(server), int(time.time())
    name, _, value = user.cookie.partition("=")
    who, issued, tag = value.split(".")
    wrong = [
        f"{who}.{issued}.{tag[:-1]}{'0' if tag[-1] != '0' else '1'}",
        f"{who}.{int(issued) + 1}.{tag}",
        f"0{who}.{issued}.{tag}",
        f"{who}.{issued}.",
        f"{who}.{issued}.{'0' * 64}",
        "account",
        "",
        "x" * 10_000,
        signed(home, user.port + 1, "account", now).partition("=")[2],
        signed(home, user.port, "account", now - LASTS_SECONDS - 100).partition("=")[2],
        signed(home, user.port, "account", now + 1_000).partition("=")[2],
        signed(home, user.port, "nobody", now).partition("=")[2],
    ]

    assert user.get("/").status == 200
    assert Client(server.address, signed(home, user.port, "account", now)).get("/").status == 200
    assert [Client(server.address, f"{name}={one}").get("/").status for one in wrong] == [401] * len(wrong)


def test_two_servers_of_one_user_do_not_mix_their_cookies(home: Home, server: Server, desktop: BrowserContext) -> None:
    with serve(home, "--only-look") as other:
        page = desktop.new_page()
        for each in (server, other):
            page.goto(each.link)
        names = {str(one["name"]) for one in desktop.cookies()}
        seen = [page.goto(f"{each.address}/") for each in (server, other)]
        first, second = owner(server), owner(other)
        page.close()

        assert names == {f"parley-{first.port}", f"parley-{second.port}"}
        assert [answer is not None and answer.status for answer in seen] == [200, 200]
        renamed = Client(other.address, f"parley-{second.port}={cookie_value(first)}")
        assert renamed.get("/").status == 401
        assert stranger(other).get(f"/?token={server.token}").status == 401


# ---- people ------------------------------------------------------------------------------------------


def test_who_is_removed_is_out_at_once_also_of_a_stream_that_is_open(home: Home, server: Server) -> None:
    alice, bob = holder(home, server, "alice", May.SEE), holder(home, server, "bob", May.SEE)
    with alice.stream() as heard, bob.stream() as other:
        heard.hear(b"event: hello")
        other.hear(b"event: hello")
        assert alice.get("/").status == 200
        people_of_user(home).remove(lambda one: one.person == "alice")
        assert alice.get("/").status == 401
        assert alice.get("/events/since?mark=").status == 401
        assert heard.seconds_to_end() < 5
        assert bob.get("/").status == 200


def test_a_pass_that_has_expired_opens_nothing(home: Home, server: Server) -> None:
    _, token = people_of_user(home).add("carol", May.SEE, seconds=0.2)
    wait_for(lambda: stranger(server).get(f"/?token={token}").status == 401)


def test_a_person_who_gets_a_new_link_can_not_use_the_old_one(home: Home, server: Server) -> None:
    first = holder(home, server, "dave", May.DECIDE)
    second = holder(home, server, "dave", May.SEE)

    assert (first.get("/").status, second.get("/").status) == (401, 200)


def test_nobody_is_let_in_while_others_could_have_changed_the_peoples_file(home: Home, server: Server) -> None:
    erin, file = holder(home, server, "erin", May.SEE), state_folder(home) / "people.json"
    assert file.stat().st_mode & 0o777 == 0o600
    try:
        file.chmod(0o644)
        found = erin.get("/")
        assert (found.status, len(found.text.splitlines())) == (500, 1)
        assert "0600" in server.printed
        assert str(file.parent) not in found.text
        assert erin.get("/events").status == 401
        assert owner(server).get("/").status == 200
    finally:
        file.chmod(0o600)
    assert erin.get("/").status == 200
    assert "Traceback" not in server.printed


def test_a_key_that_others_can_read_is_refused_in_one_line(tmp_path: Path) -> None:
    home = own_home(tmp_path)
    key = state_folder(home) / "page-key"
    first = page_key(key.parent)
    assert key.stat().st_mode & 0o777 == 0o600
    assert page_key(key.parent) == first
    key.chmod(0o640)
    assert "0600" in home.fails("serve", "--no-browser", "--port", "0", code=1)


@pytest.mark.parametrize("what", ["symlink", "short", "long", "fifo", "folder"])
def test_a_key_that_is_no_plain_file_of_its_length_is_refused(tmp_path: Path, what: str) -> None:
    key = tmp_path / "page-key"
    if what == "symlink":
        (tmp_path / "other").write_bytes(b"x" * 32)
        key.symlink_to(tmp_path / "other")
    elif what == "fifo":
        os.mkfifo(key, 0o600)
    elif what == "folder":
        key.mkdir(0o700)
    else:
        key.write_bytes(b"x" * {"short": 31, "long": 33}[what])
        key.chmod(0o600)
    with pytest.raises(BookTrouble, match="page-key"):
        page_key(tmp_path)


# ---- where tokens may not show -----------------------------------------------------------------------


def test_a_token_shows_in_no_page_no_log_and_no_process(home: Home, server: Server) -> None:
    _, token = people_of_user(home).add("frank", May.DECIDE)
    frank = stranger(server).open(f"/?token={token}")
    stranger(server).get(f"/nothing/{token}?token={token}x")
    pages = "".join(client.get(path).text for client in (owner(server), frank) for path in ("/", "/people", "/nothing"))

    assert token not in pages
    assert server.token not in pages
    assert server.printed.count(server.token) == 1
    assert token not in server.printed
    assert token not in (state_folder(home) / "people.json").read_text(encoding="utf-8")
    for number, _ in {(server.process.pid, ""), *descendants(server.process.pid)}:
        for name in ("cmdline", "environ"):
            assert server.token.encode() not in Path(f"/proc/{number}/{name}").read_bytes()
    for file in (home.folder / ".parley").rglob("*"):
        assert not file.is_file() or server.token.encode() not in file.read_bytes()


def test_a_page_of_this_server_tells_no_other_where_a_person_comes_from(
    server: Server, desktop: BrowserContext
) -> None:
    page = desktop.new_page()
    page.goto(server.link)

    assert page.url == f"{server.address}/"
    assert server.token not in page.content()
    assert page.evaluate("document.referrer") == ""
    assert page.evaluate("history.length") <= 2
    assert page.evaluate("document.cookie") == ""


# ---- the link that the server opens itself -----------------------------------------------------------


def opened_by(home: Home, tmp_path: Path) -> tuple[subprocess.Popen[bytes], list[str]]:
    """Start a server with a browser that only notes how it was started."""
    script, noted = tmp_path / "browser.sh", tmp_path / "noted"
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {noted}.draft && mv {noted}.draft {noted}\n')
    script.chmod(0o755)
    process = subprocess.Popen(
        [str(PARLEY), "serve", "--port", "0", "--only-look"],
        cwd=home.folder, env={**home.env(), "BROWSER": f"{script} %s"}, stdout=subprocess.PIPE,
    )  # fmt: skip
    wait_for(noted.exists)
    return process, noted.read_text(encoding="utf-8").split()


def test_the_browser_is_started_with_a_token_that_is_good_once(home: Home, tmp_path: Path) -> None:
    process, words = opened_by(home, tmp_path)
    try:
        assert process.stdout is not None
        printed = process.stdout.readline().decode().split()[-1]
        address, _, token = words[0].partition("/?token=")
        visitor = Client(address)

        assert printed.startswith(address)
        assert token not in printed
        assert visitor.get(f"/?token={token}").status == 303
        assert visitor.get(f"/?token={token}").status == 401
        assert visitor.get(f"/?token={printed.partition('token=')[2]}").status == 303
    finally:
        process.terminate()
        process.communicate()


CONNECT = "exec 3<>/dev/tcp/127.0.0.1/$1; read -r _"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_the_token_for_the_browser_is_good_for_no_other_user() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        port = listener.getsockname()[1]
        opening = OpeningToken(port)
        token = opening.make()

        def peer(user: int) -> bool:
            with subprocess.Popen(
                ["/bin/bash", "-c", CONNECT, "bash", str(port)], user=user, cwd="/", stdin=subprocess.PIPE
            ) as client:  # fmt: skip
                connection, (_, client_port) = listener.accept()
                with connection:
                    taken = opening.takes(token, client_port)
                client.kill()
            return taken

        assert [peer(65534), peer(0), peer(0)] == [False, True, False]


def test_the_token_for_the_browser_is_taken_once_by_two_who_come_together() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        opening = OpeningToken(listener.getsockname()[1])
        token, taken = opening.make(), list[bool]()
        with socket.create_connection(listener.getsockname()) as client:
            port = client.getsockname()[1]
            threads = [threading.Thread(target=lambda: taken.append(opening.takes(token, port))) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    assert taken.count(True) == 1
