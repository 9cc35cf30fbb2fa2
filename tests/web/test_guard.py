"""What stands before every page: hosts, origins, methods, sizes, and clients that send what no browser would."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from parley.web.app import FORMS_EACH
from parley.web.safety.slow_clients import HEAD_SECONDS
from parley.web.server import UNREAD_SECONDS
from tests.cli.home import PATIENCE_SECONDS, wait_for
from tests.web.page_harness import POLICY, PageWatch, Server, serve
from tests.web.raw_http import FORM, Client, own_home, owner, speak, speak_out, stranger

DISPOSITION = b"Content-Disposition: form-data; "


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests here: none of them changes anything."""
    with serve(own_home(tmp_path_factory.mktemp("guard"))) as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def half_sent(server: Server) -> Iterator[socket.socket]:
    """A client that began a request when the tests did, and leaves it at that."""
    with socket.create_connection(("127.0.0.1", stranger(server).port), HEAD_SECONDS + 20) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nHost: ")
        yield raw


@pytest.fixture(scope="module", autouse=True)
def unread(server: Server) -> Iterator[socket.socket]:
    """A client that asked for much when the tests began, and takes none of it."""
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.settimeout(UNREAD_SECONDS + 40)
        raw.connect(("127.0.0.1", stranger(server).port))
        ask = f"GET /static/vendor/highlight.min.js HTTP/1.1\r\nHost: {stranger(server).host}\r\n\r\n"
        raw.sendall(ask.encode() * 100)
        yield raw


@pytest.fixture
def user(server: Server) -> Client:
    """The user who runs the server."""
    return owner(server)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else 0


# ---- hosts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "evil.test", "evil.test:{port}", "localhost.evil.test:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.:{port}",
        "127.0.0.1.:{port}", "127.1:{port}", "2130706433:{port}", "0.0.0.0:{port}", "[::]:{port}", "x@127.0.0.1:{port}",
        "127.0.0.1:{port}.evil.test", "127.0.0.1:0{port}", "[::ffff:127.0.0.1]:{port}", "127.0.0.1:{port},x.test", "",
    ],
)  # fmt: skip
def test_a_page_is_shown_under_no_other_name(user: Client, host: str) -> None:
    found = user.get("/", Host=host.format(port=user.port))

    assert found.status in (400, 403)
    assert "set-cookie" not in dict(found.headers)


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"])
def test_a_page_is_shown_under_each_of_its_own_names(user: Client, host: str) -> None:
    assert user.get("/", Host=host.format(port=user.port)).status == 200


def test_a_request_without_a_host_or_with_two_is_refused(user: Client) -> None:
    cookie = f"Cookie: {user.cookie}\r\n"
    own = f"Host: {user.host}\r\n"

    assert status(speak(user.port, f"GET / HTTP/1.1\r\n{cookie}\r\n".encode())) == 400
    assert status(speak(user.port, f"GET / HTTP/1.0\r\n{cookie}\r\n".encode())) == 403
    assert status(speak(user.port, f"GET / HTTP/1.1\r\n{own}Host: evil.test\r\n{cookie}\r\n".encode())) == 400
    assert status(speak(user.port, f"GET / HTTP/1.1\r\n{own}{own}{cookie}\r\n".encode())) in (400, 403)


@pytest.mark.parametrize("target", ["http://evil.test/", "http://{host}/", "//evil.test/", "evil.test:80", "*"])
def test_no_other_form_of_an_address_shows_a_page(user: Client, target: str) -> None:
    words = f"GET {target.format(host=user.host)} HTTP/1.1\r\nHost: {user.host}\r\nCookie: {user.cookie}\r\n\r\n"

    assert status(speak(user.port, words.encode())) in (400, 404)


def test_a_name_that_is_made_to_lead_here_reads_nothing(
    server: Server, desktop: BrowserContext, watch: PageWatch
) -> None:
    watch.allow("evil.test")
    page = desktop.new_page()
    found = page.goto(f"http://evil.test:{stranger(server).port}/?token={server.token}")

    assert found is not None
    assert found.status == 403
    assert desktop.cookies() == []


# ---- origins -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.test", "null", "http://127.0.0.1:1", "http://127.0.0.1", "https://{host}", "http://{host}.evil.test",
        "http://localhost:{port}", "{host}", "", "http://{host}/",
    ],
)  # fmt: skip
def test_a_form_of_another_origin_is_refused(user: Client, origin: str) -> None:
    sent = user.post("/nothing-here", Origin=origin.format(host=user.host, port=user.port))

    assert sent.status == 403
    assert "another site" in sent.text


def test_a_form_that_does_not_say_where_it_comes_from_is_refused(user: Client) -> None:
    assert user.post("/nothing-here", Origin=None).status == 403
    assert user.post("/nothing-here", Origin=None, Sec_Fetch_Site="same-site").status == 403
    assert user.post("/nothing-here", Origin=None, Sec_Fetch_Site="none").status == 403
    assert user.post("/nothing-here", Origin=None, Sec_Fetch_Site="same-origin").status == 404
    assert user.post("/nothing-here").status == 404


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_sites_page_can_read_nothing_but_a_person_can_follow_its_link(user: Client, site: str) -> None:
    assert user.get("/", Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors").status == 403
    assert user.get("/", Sec_Fetch_Site=site, Sec_Fetch_Mode="cors", Origin="http://evil.test").status == 403
    assert user.get("/", Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="iframe").status == 403
    assert user.get("/events", Sec_Fetch_Site=site, Sec_Fetch_Mode="cors").status == 403
    assert user.get("/", Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="document").status == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"])
def test_other_methods_do_nothing(user: Client, method: str) -> None:
    assert user.send(method, "/").status in (400, 403, 405)
    found = user.send(method, "/", None, {"Origin": user.address})
    assert found.status in (400, 405)
    assert not any(name.lower().startswith("access-control") for name, _ in found.headers)


def test_a_head_tells_what_a_get_would_and_ends(user: Client) -> None:
    for path in ("/", "/events"):
        found = user.send("HEAD", path)
        assert (found.status, found.body) == (200, b"")


def attacks(page: Page, target: str) -> list[str]:
    """What another site's page gets by all ways that it has."""
    return list(
        page.evaluate(
            """async (target) => {
        const tried = [];
        const note = (name) => (answer) => tried.push(`${name}: ${answer && answer.type !== 'opaque' ? 'read' : 'no'}`);
        const failed = (name) => () => tried.push(`${name}: no`);
        await fetch(target, {credentials: 'include'}).then(note('fetch'), failed('fetch'));
        await fetch(target, {mode: 'no-cors', credentials: 'include'}).then(note('no-cors'), failed('no-cors'));
        await fetch(target, {method: 'POST', credentials: 'include', body: 'a=b'}).then(note('post'), failed('post'));
        await fetch(target, {method: 'POST', mode: 'no-cors', credentials: 'include', body: 'a=b'})
            .then(note('blind post'), failed('blind post'));
        await new Promise((done) => {
            const source = new EventSource(target + '/events', {withCredentials: true});
            source.onmessage = source.onopen = () => (tried.push('events: read'), done());
            source.onerror = () => (source.close(), tried.push('events: no'), done());
        });
        await new Promise((done) => {
            const frame = document.createElement('iframe');
            frame.onload = () => {
                let body = null;
                try { body = frame.contentDocument && frame.contentDocument.body.innerText; } catch {}
                tried.push(`frame: ${body ? 'read' : 'no'}`);
                done();
            };
            frame.src = target;
            document.body.append(frame);
        });
        return tried;
    }""",
            target,
        )
    )


@pytest.fixture
def attacker() -> Iterator[int]:
    """A server of an attacker's, with an empty page and no policy: its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>free money</title><body></body>")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
        yield made.server_port
        made.shutdown()


@pytest.mark.parametrize("host", ["127.0.0.1", "evil.test"])
def test_another_sites_page_gets_nothing_with_the_users_cookie(
    server: Server, desktop: BrowserContext, watch: PageWatch, attacker: int, host: str
) -> None:
    watch.allow(".")  # everything here is refused, and said so on the console
    page = desktop.new_page()
    page.goto(server.link)
    page.wait_for_url(f"{server.address}/")
    page.goto(f"http://{host}:{attacker}/")

    assert attacks(page, server.address) == [
        f"{name}: no" for name in ("fetch", "no-cors", "post", "blind post", "events", "frame")
    ]


# ---- headers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/events/since", "/nowhere", "/healthz", "/static/nothing"])
def test_every_answer_carries_the_policy(server: Server, user: Client, path: str) -> None:
    for found in (user.get(path), stranger(server).get(path), user.get(path, Host="evil.test")):
        assert found.header("content-security-policy") == POLICY
        assert found.header("x-content-type-options") == "nosniff"
        assert found.header("x-frame-options") == "DENY"
        assert found.header("referrer-policy") == "same-origin"
        assert found.header("cross-origin-resource-policy") == "same-origin"
        assert not found.header("server")


# ---- sizes and shapes --------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_refused_before_it_is_read(user: Client) -> None:
    head = {"Origin": user.address, "Content-Type": FORM}

    assert user.send("POST", "/", None, {**head, "Content-Length": str(17 << 20)}).status == 413
    chunk = f"{1 << 20:x}\r\n".encode() + b"x" * (1 << 20) + b"\r\n"
    with socket.create_connection(("127.0.0.1", user.port), 20) as raw:
        lines = [f"{name}: {value}" for name, value in {**head, "Host": user.host, "Cookie": user.cookie}.items()]
        raw.sendall("\r\n".join(["POST / HTTP/1.1", *lines, "Transfer-Encoding: chunked", "", ""]).encode())
        try:
            for _ in range(40):
                raw.sendall(chunk)
        except OSError:
            return  # it was cut off, which is right
        assert b" 200 " not in raw.recv(200)


@pytest.mark.parametrize(
    "kind, body",
    [
        (FORM, urlencode({"a": "x" * (2 << 20)}).encode()),
        (FORM, b"a&" * 5_000),
        (FORM, b"%zz=%ff%fe&\xff\xfe=\x00"),
        ("multipart/form-data", b"no boundary"),
        ("multipart/form-data; boundary=b", b"--b\r\nnothing"),
        ("multipart/form-data; boundary=b", b"--b\r\n" * 10_000),
        ("multipart/form-data; boundary=b", b"--b\r\n" + DISPOSITION + b'name="f"; filename="x"\r\n\r\ny\r\n' * 60),
        ("multipart/form-data; boundary=b", (b"--b\r\n" + DISPOSITION + b'name="f"; filename="x"\r\n\r\ny\r\n') * 60),
        ("multipart/form-data; boundary=b", b"--b\r\n" + DISPOSITION + b'name="\xff\x00"\r\n\r\n\xff\r\n--b--\r\n'),
        ("multipart/form-data; boundary=" + "b" * 5000, b"x"),
        ("application/json", b"{" * 100_000),
        ("text/plain", b"a=b"),
        ("\x7f\x01", b"a=b"),
    ],
)  # fmt: skip
def test_a_malformed_form_is_refused_in_one_line(server: Server, user: Client, kind: str, body: bytes) -> None:
    before = server.printed
    found = user.send("POST", "/nothing-here", body, {"Origin": user.address, "Content-Type": kind})

    assert found.status in (400, 404)
    assert "Traceback" not in found.text + server.printed[len(before) :]


@pytest.mark.parametrize(
    "path",
    [
        "/%00", "/?q=%00", "/r/%00/x", "/static/..%2f..%2fapp.py", "/static/../app.py", "/static/%2e%2e/%2e%2e/app.py",
        "/static/..%5c..%5capp.py", "/static//etc/passwd", "/static/%00", "/static/vendor", "/static/", "/r/%ff%fe/x",
        "/r/../../etc/passwd",
        "/r/x/" + "y" * 9_000, "/answer/" + "A" * 5_000, "/answer/%F0%9F%92%A9", "/?token=%ff%00x",
        "/events/since?mark=" + "0." + "9" * 5_000, "/events/since?mark=%00", "/events?since=%00",
    ],
)  # fmt: skip
def test_a_strange_address_is_answered_in_one_line(server: Server, user: Client, path: str) -> None:
    before = server.printed
    found = user.get(path)

    assert found.status in (400, 404) or path.startswith("/events/since")
    assert "root:" not in found.text
    assert "import" not in found.text
    assert "Traceback" not in found.text + server.printed[len(before) :]


def test_a_strange_mark_of_a_stream_only_makes_the_page_read_all_again(user: Client) -> None:
    words = f"Host: {user.host}\r\nCookie: {user.cookie}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", user.port), 20) as raw:
        raw.sendall(f"GET /events?since=x%0Adata:%20evil HTTP/1.1\r\n{words}".encode())
        heard = b""
        while b"event: reset" not in heard:
            heard += raw.recv(4096)

    assert b"evil" not in heard


@pytest.mark.parametrize(
    "head",
    [
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: -1",
        "Content-Length: 0x5",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: xchunked",
        "Content-Length: 5\r\nTransfer-Encoding: xchunked",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Origin: http://evil.test",
        "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Site: cross-site",
        "Name : blank before the colon",
        "Na\x00me: x",
        "X: " + "y" * 1_000_000,
    ],
)
def test_a_request_that_could_be_read_in_two_ways_is_refused_and_nothing_after_it_is_read(
    user: Client, head: str
) -> None:
    own = f"Host: {user.host}\r\nCookie: {user.cookie}\r\nOrigin: {user.address}\r\n"
    answer = speak_out(
        user.port, f"POST /nothing-here HTTP/1.1\r\n{own}{head}\r\n\r\nGET / HTTP/1.1\r\n{own}\r\n".encode()
    )

    assert status(answer) in (0, 400, 403, 501), answer[:200]  # 0: it was cut off at once
    assert answer.count(b"HTTP/1.1") <= 1


@pytest.mark.parametrize("together", [True, False])
def test_strangers_requests_print_nothing_where_the_server_runs(server: Server, together: bool) -> None:
    before, visitor = server.printed, stranger(server)
    own = f"Host: {visitor.host}\r\nOrigin: {visitor.address}\r\n"
    for first in ("POST /start", "POST /answer/x", "HEAD /health", "GET /static/app.js", "GET /events"):
        head, body = f"{first} HTTP/1.1\r\n{own}Transfer-Encoding: chunked\r\n\r\n".encode(), b"no chunk\r\n" * 3
        with socket.create_connection(("127.0.0.1", visitor.port), PATIENCE_SECONDS) as raw, suppress(ConnectionError):
            raw.sendall(head + body if together else head)  # what is wrong comes before the answer, or after it
            assert raw.recv(65536)
            raw.sendall(body)
            while raw.recv(65536):
                pass
    upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n"
    speak(visitor.port, f"GET /events HTTP/1.1\r\nHost: {visitor.host}\r\n{upgrade}\r\n".encode())
    speak(visitor.port, b"no request at all\r\n\r\n")
    assert visitor.get("/healthz").status == 200

    assert server.printed == before


def test_a_body_that_is_not_wanted_ends_the_connection(user: Client) -> None:
    words = f"GET / HTTP/1.1\r\nHost: {user.host}\r\nCookie: {user.cookie}\r\nContent-Length: 1000000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", user.port), 20) as raw:
        raw.sendall(words.encode())
        heard = b""
        while data := raw.recv(65536):
            heard += data

    assert re.search(rb"(?i)connection: close", heard)


def test_clients_that_send_a_body_forever_hold_up_nobody(user: Client) -> None:
    words = f"POST /nothing-here HTTP/1.1\r\nHost: {user.host}\r\nCookie: {user.cookie}\r\nOrigin: {user.address}\r\n"
    words += f"Content-Type: {FORM}\r\nContent-Length: 1000\r\n\r\na"
    held = [socket.create_connection(("127.0.0.1", user.port), 20) for _ in range(30)]
    try:
        for raw in held:
            raw.sendall(words.encode())
        began = time.monotonic()
        assert user.get("/").status == 200
        assert time.monotonic() - began < 5
    finally:
        for raw in held:
            raw.close()


def test_a_client_that_sends_no_whole_head_is_cut_off(half_sent: socket.socket) -> None:
    assert half_sent.recv(100) == b""


def test_a_client_that_takes_no_byte_of_its_answer_is_cut_off(server: Server, unread: socket.socket) -> None:
    port = unread.getsockname()[1]

    def held() -> bool:
        """Whether the server has a connection with it, as the kernel tells."""
        rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
        return any(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)

    wait_for(lambda: not held())
    assert stranger(server).get("/healthz").status == 200


def test_a_stranger_is_refused_before_anything_is_read_of_a_form(server: Server) -> None:
    visitor = stranger(server)
    head = (
        f"Host: {visitor.host}\r\nOrigin: {visitor.address}\r\nContent-Type: {FORM}\r\nContent-Length: 9000000\r\n\r\n"
    )
    for path in ("/answer/x", "/start"):
        began = time.monotonic()
        heard = speak(visitor.port, f"POST {path} HTTP/1.1\r\n{head}a=".encode())
        assert status(heard) in (401, 404), heard
        assert time.monotonic() - began < PATIENCE_SECONDS
        assert re.search(rb"(?i)connection: close", heard)


def test_one_visitor_sends_so_many_forms_at_once_and_no_more(server: Server, user: Client) -> None:
    words = f"POST /nothing-here HTTP/1.1\r\nHost: {user.host}\r\nCookie: {user.cookie}\r\nOrigin: {user.address}\r\n"
    words += f"Content-Type: {FORM}\r\nContent-Length: 1000\r\n\r\na"
    held = [socket.create_connection(("127.0.0.1", user.port), PATIENCE_SECONDS) for _ in range(FORMS_EACH)]
    try:
        for raw in held:
            raw.sendall(words.encode())
        wait_for(lambda: user.post("/nothing-here").status == 503)
        assert user.get("/").status == 200
    finally:
        for raw in held:
            raw.close()
    wait_for(lambda: user.post("/nothing-here").status == 404)


# ---- forms in the browser ----------------------------------------------------------------------------


def test_a_plain_form_of_the_page_itself_is_taken(server: Server, desktop: BrowserContext, watch: PageWatch) -> None:
    watch.allow("404")
    page = desktop.new_page()
    page.goto(server.link)
    page.evaluate(
        """() => { const form = document.createElement('form'); form.method = 'post'; form.action = '/nothing-here';
        document.body.append(form); form.submit(); }"""
    )

    expect(page.get_by_text("there is no such page")).to_be_visible()
