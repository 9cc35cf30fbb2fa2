"""No request has two readings: what the gateway passes on is one request, the one that it judged, or none at all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import h11
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.sandbox.recorder import ANSWER, CutGateway, Outcome, Reading, read, recorded


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CutGateway]:
    with recorded(tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


def post(headers: bytes = b"", body: bytes = b"", line: bytes = b"POST /v1/x HTTP/1.1") -> bytes:
    return line + b"\r\nHost: gateway\r\n" + headers + b"\r\n" + body


SMUGGLED = b"POST /v1/smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
FIVE = b"Content-Length: 5\r\n"
END = b"0\r\n\r\n"

REFUSED = {
    # how long the body is
    "a length and chunks": post(FIVE + CHUNKED, END + SMUGGLED),
    "chunks and a length": post(CHUNKED + FIVE, END + SMUGGLED),
    "the same length twice": post(FIVE + FIVE, b"abcde"),
    "two lengths": post(FIVE + b"Content-Length: 6\r\n", b"abcde" + SMUGGLED),
    "a list of equal lengths": post(b"Content-Length: 5, 5\r\n", b"abcde"),
    "a list of lengths": post(b"Content-Length: 5, 6\r\n", b"abcde"),
    "a length with a comma": post(b"Content-Length: 5,\r\n", b"abcde"),
    "a length with a sign": post(b"Content-Length: +5\r\n", b"abcde"),
    "a negative length": post(b"Content-Length: -5\r\n", b"abcde"),
    "a length in hexadecimal": post(b"Content-Length: 0x5\r\n", b"abcde"),
    "a length with an underscore": post(b"Content-Length: 1_0\r\n", b"abcdeabcde"),
    "a length with a space inside": post(b"Content-Length: 1 0\r\n", b"abcdeabcde"),
    "a length with a fraction": post(b"Content-Length: 5.0\r\n", b"abcde"),
    "an empty length": post(b"Content-Length:\r\n", b"abcde"),
    "a length in digits of another script": post("Content-Length: \u0665\r\n".encode(), b"abcde"),
    "a length beyond every bound": post(b"Content-Length: 99999999999999999999999\r\n", b"abcde"),
    "a space before the colon of a length": post(b"Content-Length : 5\r\n", b"abcde"),
    "a tab before the colon of a length": post(b"Content-Length\t: 5\r\n", b"abcde"),
    "a length in a folded line": post(b"A: b\r\n Content-Length: 5\r\n", b"abcde"),
    "a length behind a bare line feed": post(b"A: b\nContent-Length: 5\r\n", b"abcde"),
    "a length behind a bare carriage return": post(b"A: b\rContent-Length: 5\r\n", b"abcde"),
    # codings
    "another coding": post(b"Transfer-Encoding: xchunked\r\n", END),
    "a coding in capitals": post(b"Transfer-Encoding: Chunked\r\n", END),
    "two codings": post(b"Transfer-Encoding: gzip, chunked\r\n", END),
    "the coding twice": post(CHUNKED + CHUNKED, END),
    "the coding twice in one line": post(b"Transfer-Encoding: chunked, chunked\r\n", END),
    "chunks and identity": post(CHUNKED + b"Transfer-Encoding: identity\r\n", END),
    "identity": post(b"Transfer-Encoding: identity\r\n" + FIVE, b"abcde"),
    "a quoted coding": post(b'Transfer-Encoding: "chunked"\r\n', END),
    "a coding with a parameter": post(b"Transfer-Encoding: chunked;a=b\r\n", END),
    "a coding with a vertical tab": post(b"Transfer-Encoding: \x0bchunked\r\n", END),
    "an empty coding": post(b"Transfer-Encoding:\r\n", END),
    "a space before the colon of a coding": post(b"Transfer-Encoding : chunked\r\n", END),
    "a coding in a folded line": post(b"Transfer-Encoding:\r\n chunked\r\n", END),
    "chunks in HTTP/1.0": post(CHUNKED, b"1\r\na\r\n" + END, b"POST /v1/x HTTP/1.0"),
    # chunks
    "a chunk's extension": post(CHUNKED, b"5;a=b\r\nabcde\r\n" + END),
    "an extension of the last chunk": post(CHUNKED, b"5\r\nabcde\r\n0;a\r\n\r\n"),
    "an extension with a bare line feed": post(CHUNKED, b"5;\nxx\r\nabcde\r\n" + END),
    "a space behind a chunk's size": post(CHUNKED, b"5 \r\nabcde\r\n" + END),
    "a tab behind a chunk's size": post(CHUNKED, b"5\t\r\nabcde\r\n" + END),
    "a space before a chunk's size": post(CHUNKED, b" 5\r\nabcde\r\n" + END),
    "a sign before a chunk's size": post(CHUNKED, b"+5\r\nabcde\r\n" + END),
    "a chunk's size with 0x": post(CHUNKED, b"0x5\r\nabcde\r\n" + END),
    "a chunk's size with an underscore": post(CHUNKED, b"0_5\r\nabcde\r\n" + END),
    "a chunk's size of many digits": post(CHUNKED, b"0" * 13 + b"5\r\nabcde\r\n" + END),
    "a chunk's size that overflows": post(CHUNKED, b"10000000000000005\r\nabcde\r\n" + END),
    "no chunk's size": post(CHUNKED, b"\r\nabcde\r\n" + END),
    "a chunk's size behind a bare line feed": post(CHUNKED, b"5\nabcde\r\n" + END),
    "a chunk that ends with a bare line feed": post(CHUNKED, b"5\r\nabcde\n" + END),
    "a chunk that ends with two other bytes": post(CHUNKED, b"5\r\nabcdexx" + END),
    "a chunk that is longer than it says": post(CHUNKED, b"5\r\nabcdef\r\n" + END),
    "a chunk that is shorter than it says": post(CHUNKED, b"5\r\nabc\r\n" + END),
    "a last chunk that ends with a bare line feed": post(CHUNKED, b"5\r\nabcde\r\n0\r\n\n"),
    "a last chunk and a bare carriage return": post(CHUNKED, b"5\r\nabcde\r\n0\r\n\r\r\n"),
    "chunks without an end": post(CHUNKED, b"5\r\nabcde\r\n"),
    "chunks without the last line": post(CHUNKED, b"5\r\nabcde\r\n0\r\n"),
    "a trailer": post(CHUNKED, b"5\r\nabcde\r\n0\r\nA: b\r\n\r\n"),
    "a length in the trailer": post(CHUNKED, b"5\r\nabcde\r\n0\r\nContent-Length: 5\r\n\r\n"),
    "a trailer that is no header": post(CHUNKED, b"5\r\nabcde\r\n0\r\nGET /v1/x HTTP/1.1\r\n\r\n"),
    "a body that is too short": post(FIVE, b"abc"),
    # lines and names
    "a folded header": post(b"A: b\r\n c\r\n"),
    "a first header that is folded": b"POST /v1/x HTTP/1.1\r\n Host: gateway\r\n\r\n",
    "a header behind a bare line feed": post(b"A: b\nC: d\r\n"),
    "a head of bare line feeds": b"POST /v1/x HTTP/1.1\nHost: gateway\n\n",
    "a head that ends with a bare line feed": b"POST /v1/x HTTP/1.1\r\nHost: gateway\r\n\n",
    "a bare carriage return in a header": post(b"A: b\rc\r\n"),
    "two carriage returns": post(b"A: b\r\r\n"),
    "NUL in a header": post(b"A: \0\r\n"),
    "NUL in a name": post(b"A\0: b\r\n"),
    "a control character in a header": post(b"A: \x01\r\n"),
    "DEL in a header": post(b"A: \x7f\r\n"),
    "an escape in a header": post(b"A: \x1b[2J\r\n"),
    "a space in a name": post(b"A B: c\r\n"),
    "a space before a colon": post(b"A : b\r\n"),
    "a header without a name": post(b": b\r\n"),
    "a header without a colon": post(b"A\r\n"),
    "a name that is not ASCII": post("\u00e4: b\r\n".encode()),
    "a bracket in a name": post(b"A(: b\r\n"),
    "a quote in a name": post(b'"A": b\r\n'),
    "an empty line first": b"\r\n" + post(),
    "a space first": b" " + post(),
    # the request line
    "no host": b"POST /v1/x HTTP/1.1\r\n\r\n",
    "two hosts": post(b"Host: other\r\n"),
    "HTTP/0.9": b"GET /v1/x\r\n\r\n",
    "HTTP/0.9 by its number": post(line=b"POST /v1/x HTTP/0.9"),
    "HTTP/1.0": post(line=b"POST /v1/x HTTP/1.0"),
    "HTTP/1.0 without a host": b"POST /v1/x HTTP/1.0\r\n\r\n",
    "HTTP/1.2": post(line=b"POST /v1/x HTTP/1.2"),
    "HTTP/2.0": post(line=b"POST /v1/x HTTP/2.0"),
    "a version of two digits": post(line=b"POST /v1/x HTTP/1.10"),
    "a version in small letters": post(line=b"POST /v1/x http/1.1"),
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "two spaces": post(line=b"POST  /v1/x HTTP/1.1"),
    "a tab for a space": post(line=b"POST\t/v1/x HTTP/1.1"),
    "a space in the target": post(line=b"POST /v1/x y HTTP/1.1"),
    "a target that is not ASCII": post(line="POST /v1/\u00e4 HTTP/1.1".encode()),
    "NUL in the target": post(line=b"POST /v1/\0 HTTP/1.1"),
    "a space behind the version": post(line=b"POST /v1/x HTTP/1.1 "),
    "a method in small letters": post(line=b"post /v1/x HTTP/1.1"),
    "a method that is no word": post(line=b"PO/ST /v1/x HTTP/1.1"),
    "a method of 100 letters": post(line=b"P" * 100 + b" /v1/x HTTP/1.1"),
    "HEAD": post(line=b"HEAD /v1/x HTTP/1.1"),
    "HEAD in HTTP/1.0": post(line=b"HEAD /v1/x HTTP/1.0"),
    "HEAD with a control character": post(b"A: \x01\r\n", line=b"HEAD /v1/x HTTP/1.1"),
    "HEAD with a length and chunks": post(FIVE + CHUNKED, line=b"HEAD /v1/x HTTP/1.1"),
    "an absolute target": post(line=b"POST http://127.0.0.1/v1/x HTTP/1.1"),
    "a target with a host": post(line=b"POST //127.0.0.1/v1/x HTTP/1.1"),
    "the target *": post(line=b"POST * HTTP/1.1"),
    "a target without a slash": post(line=b"POST v1/x HTTP/1.1"),
    "a fragment": post(line=b"POST /v1/x#y HTTP/1.1"),
    "a long target": post(line=b"POST /v1/" + b"x" * 8192 + b" HTTP/1.1"),
    # tunnels
    "CONNECT to another host": post(line=b"CONNECT example.org:443 HTTP/1.1"),
    "CONNECT to a path": post(line=b"CONNECT /v1/x HTTP/1.1"),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    # bounds
    "a head that is too long": post(b"A: b\r\n" * 20_000),
    "one header that is too long": post(b"A: " + b"b" * 70_000 + b"\r\n"),
    "a head without an end": b"POST /v1/x HTTP/1.1\r\n" + b"A: b\r\n" * 20_000,
    "a body that is too long": post(b"Content-Length: 999999999999\r\n"),
    "too many small chunks": post(CHUNKED, b"1\r\nx\r\n" * 1100 + END),
    "nothing": b"",
}  # fmt: skip


@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED)
def test_what_could_be_read_in_two_ways_reaches_nothing(gateway: CutGateway, raw: bytes) -> None:
    whole, cut = gateway.say([raw]), gateway.say([raw[at : at + 1] for at in range(min(len(raw), 400))] + [raw[400:]])

    for outcome in (whole, cut):
        assert outcome.status in {400, 403, 405, 413, 414, 431, 501, 505}, outcome.answer[:200]
        assert outcome.whole == []
    assert whole.status == cut.status


def test_connect_with_a_body_opens_no_tunnel(gateway: CutGateway) -> None:
    host = gateway.gateway._hosts.copy().pop().encode()
    for headers in (FIVE, CHUNKED):
        outcome = gateway.say([post(headers, b"abcde", b"CONNECT " + host + b" HTTP/1.1")])
        assert (outcome.status, outcome.forwarded) == (400, ())


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_connect_passes_on_what_follows_it_byte_by_byte(gateway: CutGateway, version: bytes) -> None:
    host = gateway.gateway._hosts.copy().pop().encode()
    through = b"GET /any HTTP/1.1\r\nHost: x\r\n\r\n"
    outcome = gateway.say([post(line=b"CONNECT " + host + b" HTTP/" + version) + through[:9], through[9:]])

    assert outcome.status == 200
    assert outcome.forwarded == (through,)


TAKEN = {
    "no body": (post(), b""),
    "a length": (post(FIVE, b"abcde"), b"abcde"),
    "a length of zero": (post(b"Content-Length: 0\r\n"), b""),
    "a length with zeros before it": (post(b"Content-Length: 0005\r\n", b"abcde"), b"abcde"),
    "spaces around a length": (post(b"Content-Length: \t 5 \t\r\n", b"abcde"), b"abcde"),
    "chunks": (post(CHUNKED, b"3\r\nabc\r\n2\r\nde\r\n" + END), b"abcde"),
    "a chunk's size in capitals, with zeros": (post(CHUNKED, b"00A\r\nabcdeabcde\r\n00\r\n\r\n"), b"abcdeabcde"),
    "chunks that look like a request": (post(CHUNKED, b"%x\r\n%b\r\n" % (len(SMUGGLED), SMUGGLED) + END), SMUGGLED),
    "a body that looks like chunks": (post(FIVE, END), END),
    "a second request behind a body": (post(FIVE, b"abcde" + SMUGGLED), b"abcde"),
    "a second request behind chunks": (post(CHUNKED, b"5\r\nabcde\r\n" + END + SMUGGLED), b"abcde"),
    "a second request behind no body": (post() + SMUGGLED, b""),
    "an upgrade": (post(b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n"), b""),
    "an expectation": (post(b"Expect: 100-continue\r\n" + FIVE, b"abcde"), b"abcde"),
    "another expectation": (post(b"Expect: 200-ok\r\n" + FIVE, b"abcde"), b"abcde"),
    "an announced trailer that does not come": (post(CHUNKED + b"Trailer: A\r\nTE: trailers\r\n", END), b""),
    "an empty header": (post(b"A:\r\n"), b""),
    "a header in Latin-1": (post(b"A: \xe4\r\n"), b""),
}  # fmt: skip


@pytest.mark.parametrize("raw,body", TAKEN.values(), ids=TAKEN)
def test_what_has_one_reading_arrives_as_one_request(gateway: CutGateway, raw: bytes, body: bytes) -> None:
    for pieces in ([raw], [raw[at : at + 1] for at in range(len(raw))]):
        outcome = gateway.say(pieces)

        assert outcome.status == 200, outcome.answer[:200]
        assert outcome.whole == [(Reading(b"POST", b"/v1/x", body), b"")]
        (sent,) = outcome.forwarded
        for word in (b"upgrade", b"http2", b"expect", b"trailer", b"\nte:", b"smuggled\r\nhost"):
            assert word not in sent.lower()


NASTY = st.sampled_from((
    b"\r", b"\n", b"\r\n", b"\0", b" ", b"\t", b":", b";", b",", b"0", b"5", b"\x0b", b"\x7f", b"\xff", b"\r\n\r\n",
    b"\r\n ", b"\r\nContent-Length: 3", b"\r\nTransfer-Encoding: chunked", b"\r\nTransfer-Encoding: gzip",
    b"\r\nA: b", b"0\r\n\r\n", SMUGGLED,
))  # fmt: skip
NAMES = st.sampled_from((b"A", b"accept", b"X-Long-Name", b"Connection", b"Expect"))
VALUES = st.sampled_from((b"", b"b", b"a, b", b"close", b"keep-alive, A", b"100-continue", b"\xe4", b"a:b;c"))


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, Reading]:
    """A request in one of the ways in which it may be written, and what it says."""
    body = draw(st.binary(max_size=60) | st.just(SMUGGLED))
    headers = b"".join(b"%b: %b\r\n" % pair for pair in draw(st.lists(st.tuples(NAMES, VALUES), max_size=4)))
    if draw(st.booleans()):
        headers += b"Content-Length: %d\r\n" % len(body)
        framed = body
    else:
        cuts = sorted(draw(st.lists(st.integers(0, len(body)), max_size=4)))
        parts = [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]
        framed = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part) + END
        headers += CHUNKED
    target = b"/v1/" + draw(st.sampled_from((b"x", b"messages?beta=true", b"a/b/c")))
    return post(headers, framed, b"POST " + target + b" HTTP/1.1"), Reading(b"POST", target, body)


def cut(raw: bytes, places: list[int]) -> list[bytes]:
    places = sorted({place % (len(raw) + 1) for place in places})
    pieces = [raw[start:end] for start, end in zip([0, *places], [*places, len(raw)], strict=True)]
    return [piece for piece in pieces if piece]


PLACES = st.lists(st.integers(0, 2000), max_size=12)
OFTEN = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(requests(), PLACES)
@OFTEN
def test_a_valid_request_arrives_as_it_is_wherever_it_is_cut(
    gateway: CutGateway, request_: tuple[bytes, Reading], places: list[int]
) -> None:
    raw, reading = request_
    outcome = gateway.say(cut(raw, places))

    assert outcome.status == 200, outcome.answer[:200]
    assert outcome.whole == [(reading, b"")]


Damage = tuple[int, int, bytes]


def damaged(raw: bytes, damages: list[Damage]) -> bytes:
    for place, length, instead in damages:
        at = place % (len(raw) + 1)
        raw = raw[:at] + instead + raw[at + length :]
    return raw


def agrees(raw: bytes, outcome: Outcome) -> None:
    """Upstream got nothing whole, or the one request that h11 reads in what the client sent."""
    if outcome.whole:
        found = read(raw)
        assert found is not None
        assert outcome.whole == [(found[0], b"")]
    else:
        assert outcome.status != 200


@given(requests(), st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 3), NASTY), min_size=1, max_size=3), PLACES)
@example((post(FIVE, b"abcde"), Reading(b"", b"", b"")), [(19, 0, b"\r\nContent-Length: 3")], [30])
@OFTEN
def test_a_damaged_request_is_refused_or_has_the_same_reading_on_both_sides(
    gateway: CutGateway, request_: tuple[bytes, Reading], damages: list[Damage], places: list[int]
) -> None:
    raw = damaged(request_[0], damages)
    whole, pieces = gateway.say([raw] if raw else []), gateway.say(cut(raw, places))

    agrees(raw, whole)
    assert (whole.status, whole.whole) == (pieces.status, pieces.whole)


# ---- what comes back -----------------------------------------------------------------------------


def received(answer: bytes) -> tuple[int, bytes, bool]:
    """An answer as h11's client side reads it: its status, its body, and whether it is whole and the only one."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="POST", target="/v1/x", headers=[("Host", "x")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(answer)
    connection.receive_data(b"")
    status, body = 0, b""
    with contextlib.suppress(h11.RemoteProtocolError):
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
        return status, body, connection.trailing_data[0] == b""
    return status, body, False


OK = b"HTTP/1.1 200 OK\r\n"
SECOND = OK + b"Content-Length: 4\r\n\r\nmore"
ANSWERS = {
    "a length": (OK + b"Content-Length: 2\r\n\r\nok", (200, b"ok", True)),
    "chunks": (OK + CHUNKED + b"\r\n2\r\nok\r\n" + END, (200, b"ok", True)),
    "until the connection ends": (OK + b"\r\nok", (200, b"ok", True)),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\nok", (200, b"ok", True)),
    "no words behind the status": (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", (200, b"ok", True)),
    "no body": (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"", True)),
    "words before the answer": (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + SECOND, (200, b"more", True)),
    "100 before the answer": (b"HTTP/1.1 100 Continue\r\n\r\n" + SECOND, (200, b"more", True)),
    "an error": (b"HTTP/1.1 429 No\r\nretry-after: 3\r\nContent-Length: 2\r\n\r\nno", (429, b"no", True)),
    "a length and chunks": (OK + b"Content-Length: 9\r\n" + CHUNKED + b"\r\n2\r\nok\r\n" + END, (200, b"ok", True)),
    "the same length twice": (OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nok", (200, b"ok", True)),
    "a second answer": (OK + b"Content-Length: 2\r\n\r\nok" + SECOND, (200, b"ok", True)),
    "a trailer": (OK + CHUNKED + b"\r\n2\r\nok\r\n0\r\nContent-Length: 9\r\n\r\n", (200, b"ok", True)),
    "an extension": (OK + CHUNKED + b"\r\n2;a=b\r\nok\r\n" + END, (200, b"ok", True)),
    "folded lines": (OK + b"A: b\r\n Content-Length: 9\r\nContent-Length: 2\r\n\r\nok", (200, b"ok", True)),
    "bare line feeds": (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", (200, b"ok", True)),
    "two lengths": (OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok", (502, None, True)),
    "a length that is none": (OK + b"Content-Length: -2\r\n\r\nok", (502, None, True)),
    "another coding": (OK + b"Transfer-Encoding: gzip\r\n\r\nok", (502, None, True)),
    "another protocol": (b"SSH-2.0-OpenSSH_9.2\r\n", (502, None, True)),
    "a switch of protocols": (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n", (502, None, True)),
    "a head that is too long": (OK + b"A: b\r\n" * 20_000 + b"\r\n", (502, None, True)),
    "NUL in a header": (OK + b"A: \0\r\n\r\nok", (502, None, True)),
    "nothing": (b"", (502, None, True)),
    "half a head": (b"HTTP/1.1 200 OK\r\nContent", (502, None, True)),
    "a body that is too short": (OK + b"Content-Length: 9\r\n\r\nok", (200, b"ok", False)),
    "chunks without an end": (OK + CHUNKED + b"\r\n2\r\nok\r\n", (200, b"ok", False)),
    "a chunk that is longer than it says": (OK + CHUNKED + b"\r\n2\r\nokay\r\n" + END, (200, b"ok", False)),
}  # fmt: skip


@pytest.mark.parametrize("answer,seen", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_has_one_reading_or_breaks_off(
    gateway: CutGateway, answer: bytes, seen: tuple[int, bytes | None, bool]
) -> None:
    gateway.recorder.answer = answer
    try:
        status, body, whole = received(gateway.say([post()]).answer)
    finally:
        gateway.recorder.answer = ANSWER

    assert (status, whole) == (seen[0], seen[2])
    assert body == seen[1] or seen[1] is None
