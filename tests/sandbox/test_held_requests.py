"""Requests that the gateway holds while upstream fails: answered whole or not at all, and told of meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.sandbox import HoldPolicy, Route, UpstreamTrouble
from parley.sandbox.gateway import held_request
from parley.sandbox.gateway.gateway import Gateway
from parley.sandbox.gateway.upstream_trouble import UpstreamHealth, seconds_asked

ENDINGS = ("message_stop",)
EVENTS = [
    b'event: message_start\ndata: {"type": "message_start"}\n\n',
    b'event: content_block_delta\ndata: {"type": "content_block_delta", "text": "\\u00e4"}\n\n',
    b'event: message_stop\ndata: {"type": "message_stop"}\n\n',
]
OVERLOADED = b'event: error\ndata: {"error": {"type": "overloaded_error"}}\n\n'
STREAM = b"".join(EVENTS)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
BODY = json.dumps({"stream": True}).encode()


def failing(status: int, headers: str = "", body: bytes = b'{"error": {}}') -> list[bytes]:
    return [f"HTTP/1.1 {status} No\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body]


class Upstream:
    """Plays one answer for each connection, part by part, and then breaks it off. The last one is repeated."""

    def __init__(self, *answers: Sequence[bytes]) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.hung_up = threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                answer = self.answers[min(self.asked, len(self.answers) - 1)]
                self.asked += 1
                threading.Thread(target=self._play, args=(connection, answer), daemon=True).start()

    def _play(self, connection: socket.socket, answer: Sequence[bytes]) -> None:
        with connection, contextlib.suppress(OSError):
            data = b""
            while BODY not in data:
                data += connection.recv(1 << 16)
            for part in answer:
                if part == b"...":
                    connection.recv(1)
                    self.hung_up.set()
                    return
                connection.sendall(part)
            if not b"".join(answer).endswith(EVENTS[-1]) and b"Content-Length" not in answer[0]:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def close(self) -> None:
        self._server.close()


class Held:
    """A gateway that holds requests for an upstream, and who is told of it."""

    def __init__(self, url: str, health: UpstreamHealth | None = None) -> None:
        self.told: queue.SimpleQueue[UpstreamTrouble | None] = queue.SimpleQueue()
        listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = listener.getsockname()[1]
        policy = HoldPolicy(ENDINGS, b"event: ping\ndata: {}\n\n", self.told.put)
        self.gateway = Gateway(listener, Route(url, {}, ("/v1/messages",), hold=policy), (), health)

    def ask(self) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("POST", "/v1/messages", BODY)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def reasons(self) -> list[str]:
        found = []
        while not self.told.empty():
            trouble = self.told.get()
            found.append(trouble.words("") if trouble else "")
        return found


Play = Callable[..., tuple[Held, Upstream]]


@pytest.fixture
def play() -> Iterator[Play]:
    with contextlib.ExitStack() as stack:

        def play(*answers: Sequence[bytes]) -> tuple[Held, Upstream]:
            upstream = Upstream(*answers)
            stack.callback(upstream.close)
            held = Held(f"http://127.0.0.1:{upstream.port}")
            stack.callback(held.gateway.close)
            return held, upstream

        yield play


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.sandbox.gateway.upstream_trouble.DELAYS", (0.05,))


@pytest.mark.parametrize(
    "answer, reason",
    [
        (failing(429, "retry-after: 0.1\r\n"), "a rate limit is reached (429)"),
        (failing(502), "the API is down (502)"),
        (failing(529), "the API is overloaded (529)"),
        ([HEAD, EVENTS[0], EVENTS[1]], "the API broke off its answer"),
        ([HEAD], "the API broke off its answer"),
        ([b""], "the API broke off its answer"),
        (
            [HEAD, EVENTS[0], b'event: error\ndata: {"error": {"type": "overloaded_error"}}\n\n'],
            "the API is overloaded (529)",
        ),
    ],
    ids=["429", "502", "529", "broken", "nothing but a head", "nothing at all", "an error in a stream"],
)
def test_what_passes_is_waited_out_and_the_client_sees_one_whole_answer(
    play: Play, answer: list[bytes], reason: str
) -> None:
    held, upstream = play(answer, answer, [HEAD, STREAM])

    assert held.ask() == (200, STREAM)
    assert upstream.asked == 3
    each = [reason, ""] if HEAD in answer else [reason]  # with its head an answer has begun
    assert held.reasons() in ([*each, *each], [*each, *each, ""])


@given(cuts=st.lists(st.integers(0, len(STREAM) - 1), max_size=3), sizes=st.lists(st.integers(1, 60), min_size=1))
@settings(max_examples=20, deadline=None)
def test_a_stream_that_breaks_anywhere_and_comes_in_any_pieces_arrives_once(cuts: list[int], sizes: list[int]) -> None:
    pieces, rest, number = list[bytes](), STREAM, 0
    while rest:
        size = sizes[number % len(sizes)]
        pieces, rest, number = [*pieces, rest[:size]], rest[size:], number + 1
    upstream = Upstream(*([HEAD, STREAM[:cut]] for cut in cuts), [HEAD, *pieces])
    held = Held(f"http://127.0.0.1:{upstream.port}")
    try:
        assert held.ask() == (200, STREAM)
        assert upstream.asked == len(cuts) + 1
    finally:
        held.gateway.close()
        upstream.close()


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_what_upstream_refuses_is_refused_at_once(play: Play, status: int) -> None:
    held, upstream = play(failing(status, body=b'{"error": {"type": "x"}}'))

    assert held.ask() == (status, b'{"error": {"type": "x"}}')
    assert (upstream.asked, held.reasons()) == (1, [])


def test_a_client_that_waits_long_is_sent_pings_and_hears_of_a_refusal_as_an_event(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_request, "PING_SECONDS", 0.1)
    held, _ = play(
        failing(502, "retry-after: 1\r\n"), failing(401, body=b'{"error": {"type": "authentication_error"}}')
    )

    status, answer = held.ask()

    assert status == 200
    assert answer.startswith(b"event: ping\n")
    assert answer.endswith(b'event: error\ndata: {"error": {"type": "authentication_error"}}\n\n')


def test_a_client_that_goes_is_noticed_while_it_is_waited_and_while_upstream_speaks(play: Play) -> None:
    held, upstream = play(failing(429, "retry-after: 3600\r\n"), [HEAD, EVENTS[0], b"..."])
    for _ in range(2):
        with socket.create_connection(("127.0.0.1", held.port)) as client:
            client.sendall(
                b"POST /v1/messages HTTP/1.1\r\nHost: gateway\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
            )
            if upstream.asked == 0:
                trouble = held.told.get(timeout=10)
                assert trouble is not None
                assert 3500 < trouble.until - time.time() <= 3600
            else:
                client.recv(10)
    assert upstream.hung_up.wait(10)
    assert held.told.get(timeout=10) is None


def test_an_upstream_that_was_never_reached_may_have_a_wrong_url() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
    health = UpstreamHealth()
    held = Held(url, health)

    def refused() -> str:
        with socket.create_connection(("127.0.0.1", held.port)) as client:
            client.sendall(b"POST /v1/messages HTTP/1.1\r\nHost: gateway\r\nContent-Length: 2\r\n\r\n{}")
            while (trouble := held.told.get(timeout=10)) is None:
                pass
            return trouble.words("ANTHROPIC_BASE_URL")

    assert refused() == f"ANTHROPIC_BASE_URL may be wrong: connection refused at {url}"
    health.note_answer()
    while held.told.get(timeout=10) is not None:
        pass
    assert refused() == f"the API can't be reached: connection refused at {url}"
    held.gateway.close()


def test_how_long_to_wait_is_read_in_every_form_that_apis_use() -> None:
    def asked(**headers: str) -> float:
        return seconds_asked(lambda name: headers.get(name.replace("-", "_"), ""), 1_700_000_000.0)

    assert asked(retry_after="2.5") == 2.5
    assert asked(retry_after="Tue, 14 Nov 2023 22:13:30 GMT") == 10.0
    assert asked(anthropic_ratelimit_unified_reset="1700003600") == 3600.0
    assert asked(retry_after="soon") == 0.0
    assert asked(retry_after="99999999999") == 0.0
    assert asked(retry_after="9999999999") == 7 * 86400.0
    assert asked() == 0.0
