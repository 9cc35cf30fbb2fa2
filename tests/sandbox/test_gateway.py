"""The gateway: what it lets through, what it adds, and what it refuses."""

import contextlib
import re
import socket
import threading
import time
from collections.abc import Iterator
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.ports.turns import BoundaryError
from parley.runners.claude.login import PATHS
from parley.sandbox import Boundary, Route
from parley.sandbox.gateway.client_connection import ClientConnection, RequestRefused
from parley.sandbox.gateway.gateway import MAX_CONNECTIONS, Gateway
from parley.sandbox.gateway.path_rules import path_allowed
from parley.sandbox.gateway.upstream import parse_upstream
from parley.settings.schema import BoundarySettings
from tests.sandbox.cage_harness import CageHarness, close, finish, line, run
from tests.sandbox.upstream import Api, serve

KEY = "key-that-stays-outside"
ASK = r"""
import http.client, json, os, sys
def ask(method, path, body=None, headers={}):
    connection = http.client.HTTPConnection("127.0.0.1", 3128, timeout=20)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), dict(answer.getheaders())
"""


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with serve() as api:
        yield api


@pytest.fixture
def route(api: Api) -> Route:
    return Route(api.url, {"x-api-key": KEY}, ("/v1/*",), (f"127.0.0.1:{api.port}",))


class Side:
    """A gateway of its own, spoken to without a cage."""

    def __init__(self, route: Route) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.address = listener.getsockname()
        self.gateway = Gateway(listener, route)

    def open(self) -> socket.socket:
        return socket.create_connection(self.address, 20)

    def say(self, raw: bytes) -> bytes:
        with self.open() as connection:
            answer = b""
            with contextlib.suppress(OSError):  # it may have refused before it had read everything
                connection.sendall(raw)
                connection.shutdown(socket.SHUT_WR)
            try:
                while part := connection.recv(1 << 16):
                    answer += part
            except ConnectionResetError:
                pass  # it refused before it had read everything
            return answer

    def status(self, raw: bytes) -> int:
        matched = re.match(rb"HTTP/1\.1 (\d+) ", self.say(raw))
        return int(matched[1]) if matched else 0


@pytest.fixture
def side(route: Route) -> Iterator[Side]:
    side = Side(route)
    yield side
    side.gateway.close()


def test_the_key_is_added_outside_and_never_seen_inside(
    boundary: Boundary, yard: CageHarness, route: Route, api: Api
) -> None:
    program = (
        ASK
        + r"""
mine = {"x-api-key": "mine", "Authorization": "Bearer mine", "Cookie": "a=b", "anthropic-version": "1"}
status, text, headers = ask("POST", "/v1/messages?beta=true", json.dumps({"a": 1}), mine)
seen = [status, text, headers.get("retry-after")]
for folder, _, names in list(os.walk("/proc/self")) + list(os.walk("/home/agent")) + list(os.walk(os.getcwd())):
    for name in names if not folder.endswith("/fd") else ():  # its own pipes would be waited for
        try:
            with open(os.path.join(folder, name), "rb") as file:
                if b"key-that-" + b"stays-outside" in file.read(1 << 20) and name != "mem":
                    seen.append(folder + "/" + name)
        except OSError:
            pass
print(json.dumps(seen))
"""
    )
    api.asked.clear()
    caged = boundary.launch(yard.python(program, route=route))
    assert finish(caged).json() == [200, '{"ok": true}', "3"]

    (asked,) = api.asked
    assert asked.path == "/v1/messages?beta=true"
    assert asked.body == b'{"a": 1}'
    assert asked.header("x-api-key") == [KEY]
    assert asked.header("authorization") == asked.header("cookie") == []
    assert asked.header("anthropic-version") == ["1"]
    assert asked.header("host") == [f"127.0.0.1:{api.port}"]
    assert ("POST", "/v1/messages?beta=true", 200, "3") in caged.requests


def test_events_arrive_one_by_one(boundary: Boundary, yard: CageHarness, route: Route, api: Api) -> None:
    program = r"""
import http.client
connection = http.client.HTTPConnection("127.0.0.1", 3128, timeout=20)
connection.request("POST", "/v1/stream", b"{}")
answer = connection.getresponse()
while text := answer.readline():
    if text.strip(): print(text.decode().strip(), flush=True)
print("end", flush=True)
"""
    caged = boundary.launch(yard.python(program, route=route))
    for number in range(3):
        assert line(caged) == f"data: {number}"  # the next one is only written after this one has arrived
        api.next_event.set()
    assert line(caged) == "end"
    finish(caged)


def test_a_stream_that_breaks_off_is_seen_to_break_off(side: Side, api: Api) -> None:
    with side.open() as connection:
        connection.sendall(b"POST /v1/stream/cut HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        answer = b""
        while part := connection.recv(1 << 16):
            answer += part
            if re.search(rb"data: [0-2]\n\n\r\n$", answer):
                api.next_event.set()
    assert answer.count(b"data: ") == 3
    assert not answer.endswith(b"0\r\n\r\n")


def test_only_listed_hosts_are_connected_to(boundary: Boundary, yard: CageHarness, route: Route, api: Api) -> None:
    program = (
        ASK
        + r"""
results = []
for target in json.loads(sys.argv[1]):
    connection = http.client.HTTPConnection("127.0.0.1", 3128, timeout=20)
    connection.set_tunnel(*target)
    try:
        connection.request("GET", "/other")
        results.append(connection.getresponse().read().decode())
    except OSError as error:
        results.append(str(error))
print(json.dumps(results))
"""
    )
    targets = f'[["127.0.0.1", {api.port}], ["127.0.0.1", 22], ["localhost", {api.port}], ["example.org", 443]]'
    allowed, *others = run(boundary, yard.python(program, targets, route=route)).json()

    assert allowed == '{"ok": true}'
    assert len(others) == 3
    assert all("403 Forbidden" in other for other in others)


def test_hosts_that_the_user_lists_can_be_reached_from_every_cage(yard: CageHarness, api: Api) -> None:
    boundary = Boundary(BoundarySettings(hosts=(f"127.0.0.1:{api.port}",)))
    program = r"""
import http.client, os, sys, urllib.parse
proxy = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
connection = http.client.HTTPConnection(proxy.hostname, proxy.port, timeout=20)
connection.set_tunnel("127.0.0.1", int(sys.argv[1]))
connection.request("GET", "/any")
print(connection.getresponse().status)
"""
    caged = boundary.launch(yard.python(program, str(api.port)))
    done = finish(caged)
    boundary.close()

    assert done.out == "200\n"
    assert caged.verdict.exemptions == (f"host 127.0.0.1:{api.port}",)


def test_without_a_route_there_is_no_gateway(boundary: Boundary, yard: CageHarness) -> None:
    program = "import socket; socket.create_connection(('127.0.0.1', 3128))"
    assert "ConnectionRefusedError" in run(boundary, yard.python(program)).err


def test_a_body_in_chunks_arrives_whole(side: Side, api: Api) -> None:
    api.asked.clear()
    raw = b"POST /v1/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    assert side.status(raw) == 200
    assert api.asked[0].body == b"abcde"


def test_an_error_of_the_api_is_passed_on(side: Side) -> None:
    answer = side.say(b"POST /v1/busy HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
    assert answer.startswith(b"HTTP/1.1 429 ")
    assert b"retry-after: 3\r\n" in answer


def test_expecting_to_continue_is_answered(side: Side) -> None:
    answer = side.say(b"POST /v1/x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}")
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 ")


def test_an_api_that_breaks_off_or_is_not_there_is_a_bad_gateway(side: Side) -> None:
    assert side.status(b"POST /v1/broken HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n") == 502
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    lonely = Side(Route(f"http://127.0.0.1:{port}", {}, ("/v1/x",), (f"127.0.0.1:{port}",)))
    assert lonely.status(b"POST /v1/x HTTP/1.1\r\nHost: x\r\n\r\n") == 502
    assert lonely.status(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: x\r\n\r\n" % port) == 502
    lonely.gateway.close()


def test_a_certificate_that_is_not_trusted_is_a_bad_gateway(api: Api) -> None:
    side = Side(Route(f"https://127.0.0.1:{api.port}", {"x-api-key": KEY}, ("/v1/x",)))
    assert side.status(b"POST /v1/x HTTP/1.1\r\nHost: x\r\n\r\n") == 502
    side.gateway.close()


POST, GET = (b"%b /v1/x HTTP/1.1\r\nHost: x\r\n" % method for method in (b"POST", b"GET"))
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
BAD = {
    "absolute form": (403, b"GET http://127.0.0.1/v1/x HTTP/1.1\r\nHost: x\r\n\r\n"),
    "another path": (403, b"GET /v2/x HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a longer word": (403, b"GET /v1x HTTP/1.1\r\nHost: x\r\n\r\n"),
    "climbing": (403, b"GET /v1/../v2 HTTP/1.1\r\nHost: x\r\n\r\n"),
    "climbing, encoded": (403, b"GET /v1/%2e%2e/v2 HTTP/1.1\r\nHost: x\r\n\r\n"),
    "climbing, half encoded": (403, b"GET /v1/.%2E/v2 HTTP/1.1\r\nHost: x\r\n\r\n"),
    "an encoded slash": (403, b"GET /v1/..%2fv2 HTTP/1.1\r\nHost: x\r\n\r\n"),
    "encoded twice": (403, b"GET /v1/%252e%252e/v2 HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a backslash": (403, b"GET /v1/..\\v2 HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a parameter in the path": (403, b"POST /v1/x;y/z HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a parameter in the path, encoded": (403, b"POST /v1/x%3By HTTP/1.1\r\nHost: x\r\n\r\n"),
    "another method": (405, b"GET /v1/x HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a method without a body": (405, b"HEAD /v1/x HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a method that removes": (405, b"DELETE /v1/x HTTP/1.1\r\nHost: x\r\n\r\n"),
    "too many small chunks": (400, POST + CHUNKED + b"1\r\nx\r\n" * 1100 + b"0\r\n\r\n"),
    "two slashes": (403, b"GET //v1/x HTTP/1.1\r\nHost: x\r\n\r\n"),
    "an encoded line end": (403, b"GET /v1/x%0d%0aHost:y HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a bare line end": (400, b"GET /v1/x HTTP/1.1\nHost: y\r\n\r\n"),
    "a line end in a header": (400, GET + b"A: b\nC: d\r\n\r\n"),
    "a zero byte": (400, GET + b"A: \0\r\n\r\n"),
    "a folded header": (400, GET + b"A: b\r\n c\r\n\r\n"),
    "a space before the colon": (400, POST + b"Content-Length : 3\r\n\r\nabc"),
    "two lengths": (400, POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
    "a list of lengths": (400, POST + b"Content-Length: 3, 3\r\n\r\nabc"),
    "a signed length": (400, POST + b"Content-Length: +3\r\n\r\nabc"),
    "length and chunks": (400, POST + b"Content-Length: 3\r\n" + CHUNKED + b"0\r\n\r\n"),
    "odd chunks": (400, POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    "chunks in capitals": (400, POST + b"Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n"),
    "two encodings": (400, POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "a chunk's size that is none": (400, POST + b"Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n"),
    "a chunk with more than it says": (400, POST + CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n"),
    "a body that is too short": (400, POST + b"Content-Length: 9\r\n\r\nabc"),
    "a body that is too long": (413, POST + b"Content-Length: 999999999999\r\n\r\n"),
    "a head without an end": (431, b"GET /v1/x HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 20000),
    "another protocol": (400, b"\x16\x03\x01\x02\x00\r\n\r\n"),
    "HTTP/2": (400, b"PRI * HTTP/2.0\r\n\r\n"),
    "a host without a port": (403, b"CONNECT 127.0.0.1 HTTP/1.1\r\nHost: x\r\n\r\n"),
    "nothing": (400, b""),
}  # fmt: skip


@pytest.mark.parametrize("status,raw", BAD.values(), ids=BAD)
def test_what_could_be_read_in_two_ways_is_refused(side: Side, api: Api, status: int, raw: bytes) -> None:
    api.asked.clear()

    answer = side.say(raw)

    assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:200]
    _, _, line = answer.partition(b"\r\n\r\n")
    assert line.count(b"\n") == (0 if raw.startswith(b"HEAD") else 1)
    assert [asked for asked in api.asked if asked.body] == []
    assert side.gateway.requests()[-1].status == status
    told = side.gateway.tell_denied()
    if b"the request ended within" in line:  # a client that went away was refused nothing
        assert told == ()
    else:
        assert len(told) == 1
        assert told[0].startswith("the way out: ")
        assert line.rpartition(b": ")[2].strip().decode() in told[0]
    assert side.gateway.tell_denied() == ()


def test_only_the_very_paths_and_methods_of_a_route_get_the_key(api: Api) -> None:
    side = Side(Route(api.url, {"x-api-key": KEY}, PATHS))
    free = Side(Route(api.url, {"x-api-key": KEY}, ("/v1/models",), methods=("GET",)))
    asked = {
        path: side.status(b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}" % path)
        for path in (b"/v1/messages?beta=true", b"/v1/messages/count_tokens", b"/v1/messages/batches", b"/v1/messages/")
    }

    assert list(asked.values()) == [200, 200, 403, 403]
    assert side.status(b"GET /v1/messages/batches?limit=100 HTTP/1.1\r\nHost: x\r\n\r\n") == 403
    assert free.status(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n") == 200
    assert free.status(b"POST /v1/models HTTP/1.1\r\nHost: x\r\n\r\n") == 405
    for one in (side, free):
        one.gateway.close()


def _in_pieces(far: socket.socket, raw: bytes, size: int) -> None:
    for at in range(0, len(raw), size):
        far.sendall(raw[at : at + size])


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=30), st.integers(1, 400))
def test_a_body_in_chunks_is_read_the_same_however_it_arrives(parts: list[bytes], piece: int) -> None:
    body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    near, far = socket.socketpair()
    with near, far:
        raw = b"POST /v1/x HTTP/1.1\r\nHost: x\r\n" + CHUNKED + body
        sender = threading.Thread(target=_in_pieces, args=(near, raw, piece))
        sender.start()
        client = ClientConnection(far)
        assert client.read_request().length is None
        assert b"".join(client.body()) == b"".join(parts)
        sender.join()


def test_many_chunks_of_a_fair_size_are_taken(side: Side, api: Api) -> None:
    api.asked.clear()
    body = (b"40\r\n" + b"x" * 64 + b"\r\n") * 5000 + b"0\r\n\r\n"
    assert side.status(b"POST /v1/x HTTP/1.1\r\nHost: x\r\n" + CHUNKED + body) == 200
    assert api.asked[0].body == b"x" * 320_000


def test_a_second_request_on_a_connection_is_not_smuggled_in(side: Side, api: Api) -> None:
    api.asked.clear()
    inner = b"GET /v2/secret HTTP/1.1\r\nHost: x\r\n\r\n"
    assert side.status(b"POST /v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}" + inner) == 200
    assert [asked.path for asked in api.asked] == ["/v1/x"]


def test_headers_named_by_connection_and_the_keys_are_dropped(side: Side, api: Api) -> None:
    api.asked.clear()
    headers = b"Connection: X-Hop, x-api-key\r\nX-Hop: 1\r\nX-API-KEY: mine\r\nUpgrade: h2c\r\n"
    assert side.status(POST + headers + b"\r\n") == 200
    (asked,) = api.asked
    assert asked.header("x-hop") == asked.header("upgrade") == asked.header("connection") == []
    assert asked.header("x-api-key") == [KEY]


def test_connections_are_bounded_and_end_with_the_cage(side: Side) -> None:
    held = [side.open() for _ in range(MAX_CONNECTIONS + 5)]
    try:
        held[-1].settimeout(10)
        assert held[-1].recv(100).startswith(b"HTTP/1.1 503 ")
        side.gateway.close()
        deadline = time.monotonic() + 10
        while len(side.gateway._connections):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        for one in held:
            one.close()


def test_a_cage_that_was_killed_has_no_gateway_any_more(boundary: Boundary, yard: CageHarness, route: Route) -> None:
    caged = boundary.launch(yard.cage("sleep", "600", route=route))
    gateway = caged._gateway
    assert gateway is not None
    caged.kill()
    close(caged)
    assert gateway._listener.fileno() == -1


@pytest.mark.parametrize("url", ["", "ftp://a", "https://", "https://a?b", "https://u:p@a", "http://example.org"])
def test_an_upstream_that_would_not_do_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"base URL|in the clear"):
        parse_upstream(url)


SEGMENT = st.text(st.sampled_from("abv1.%2eE2fF/\\?#;"), max_size=12)


@given(SEGMENT)
def test_an_allowed_path_stays_below_its_prefix_however_it_is_read(rest: str) -> None:
    """Decode as often as a server might, resolve the dots, and look where it leads."""
    target = "/v1/" + rest
    if path_allowed(target, ("/v1/*",)):
        path = target.partition("?")[0]
        for _ in range(3):
            path = unquote(path)
        parts: list[str] = []
        for part in re.split(r"[/\\]", path)[1:]:
            if part == "..":
                parts[-1:] = []
            elif part not in {"", "."}:
                parts.append(part)
        assert parts[:1] == ["v1"]


LENGTHS = st.sampled_from([b"0", b"5", b"05", b"chunked", b"identity", b"-1", b"", b"5,5"])


@given(st.lists(st.tuples(st.sampled_from([b"Content-Length", b"content-length", b"Transfer-Encoding"]), LENGTHS)))
def test_a_length_is_told_once_or_not_at_all(fields: list[tuple[bytes, bytes]]) -> None:
    near, far = socket.socketpair()
    with near, far:
        lines = b"".join(b"%b: %b\r\n" % field for field in fields)
        near.sendall(b"POST /v1/x HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n")
        try:
            length = ClientConnection(far).read_request().length
        except RequestRefused:
            return
    assert len(fields) <= 1
    assert (length is None) == (fields == [(b"Transfer-Encoding", b"chunked")])


@pytest.mark.parametrize("value", ["two\nlines", "NUL\0", "\u20ac"])
def test_a_key_that_no_header_can_hold_is_refused_before_a_request_is_made_and_is_not_quoted(value: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with pytest.raises(BoundaryError, match="the header 'x-api-key' can't be sent") as refused:
            Gateway(listener, Route("https://example.org", {"x-api-key": value}, ("/v1/x",)))
        assert value not in str(refused.value)


def test_headers_that_the_gateway_writes_can_not_be_set() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(BoundaryError, match="'Host' can't be set"):
        Gateway(listener, Route("https://example.org", {"Host": "other"}, ("/v1/x",)))


def test_a_line_break_behind_a_key_is_not_sent(api: Api) -> None:
    side = Side(Route(api.url, {"x-api-key": f"{KEY}\n"}, ("/v1/x",)))
    api.asked.clear()
    assert side.status(POST + b"\r\n") == 200
    assert api.asked[0].header("x-api-key") == [KEY]
    side.gateway.close()
