"""What many open pages cost: an answer is made once for all who ask, who waits holds no thread, time is no change."""

import asyncio
import gzip
import socket
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from starlette.responses import Response

from parley.web.live.events import RECORD, Hub
from parley.web.live.shared_answers import SharedAnswers
from parley.web.reads.part_cache import PartCache, tag_of
from parley.web.server import _listen
from parley.web.templating import ago, since
from tests.web.event_loops import run_coroutine

CROWD = 20
LONG = "x" * 5_000  # is sent compressed


class Made:
    """Makes answers into a cache, and counts them; `go` lets the making go on."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.pool = pool
        self.cache = PartCache()
        self.count = 0
        self.go = threading.Event()

    def of(self, key: str, version: int) -> Callable[[], Coroutine[Any, Any, Response]]:
        def make() -> Response:
            self.count += 1
            assert self.go.wait(20)
            return Response(f"{key} {version} {LONG}", media_type="text/html")

        async def make_in_thread() -> Response:
            return await asyncio.get_running_loop().run_in_executor(
                self.pool, lambda: self.cache.get(key, version, make, compressed=True)
            )

        return make_in_thread


async def at_once() -> Response:
    return Response("b")


def test_an_answer_is_made_once_for_all_who_ask_and_holds_up_no_other() -> None:
    async def run(made: Made) -> None:
        shared = SharedAnswers(made.cache)
        crowd = [asyncio.create_task(shared.get("me", "a", 1, made.of("a", 1), compressed=True)) for _ in range(CROWD)]
        await asyncio.sleep(0)
        crowd[0].cancel()  # a page that was closed
        other = await shared.get("me", "b", 1, at_once, compressed=True)  # while all others wait
        made.go.set()
        bodies = {bytes((await one).body) for one in crowd[1:]}

        assert bytes(other.body) == b"b"
        assert len(bodies) == 1
        assert made.count == 1
        again = await shared.get("me", "a", 1, made.of("a", 1), compressed=True)
        assert bytes(again.body) in bodies
        assert again.headers["content-encoding"] == "gzip"
        assert made.count == 1
        newer = await shared.get("me", "a", 2, made.of("a", 2), compressed=True)
        assert bytes(newer.body) not in bodies
        assert made.count == 2

    with ThreadPoolExecutor(2) as pool:
        run_coroutine(run(Made(pool)))


def test_who_asks_after_a_change_never_gets_what_was_begun_before_it() -> None:
    async def run(made: Made) -> None:
        shared = SharedAnswers(made.cache)
        early = asyncio.create_task(shared.get("me", "a", 1, made.of("a", 1), compressed=True))
        await asyncio.sleep(0)
        late = asyncio.create_task(shared.get("me", "a", 2, made.of("a", 2), compressed=True))
        await asyncio.sleep(0)
        made.go.set()

        await early
        assert gzip.decompress((await late).body).startswith(b"a 2 ")

    with ThreadPoolExecutor(2) as pool:
        run_coroutine(run(Made(pool)))


def test_a_visitor_waits_for_no_turn_of_another() -> None:
    async def run(made: Made) -> None:
        shared = SharedAnswers(made.cache)
        never = asyncio.Event()

        async def waits_for_a_turn() -> Response:
            await never.wait()
            return Response("late")

        slow = asyncio.create_task(shared.get("me", "a", 1, waits_for_a_turn, compressed=True))
        await asyncio.sleep(0)
        assert bytes((await shared.get("you", "a", 1, at_once, compressed=True)).body) == b"b"
        never.set()
        assert bytes((await slow).body) == b"late"

    with ThreadPoolExecutor(2) as pool:
        run_coroutine(run(Made(pool)))


def test_that_time_has_passed_is_no_other_version_of_a_part() -> None:
    part = "<li>{} {}</li>"

    early, late = (part.format(ago(0.0), since(5.0)) for _ in range(2))
    later = late.replace(" ago", " and more ago")

    assert later != early
    assert tag_of(early.encode()) == tag_of(later.encode())
    assert tag_of(early.encode()) != tag_of(part.format(ago(1.0), since(5.0)).encode())


def test_a_page_gets_all_it_missed_in_order_and_no_more() -> None:
    hub = Hub()
    hub.publish(("r", f"j{number}", RECORD) for number in range(10))

    assert [one.job for one in hub.since(f"{hub.boot}.7").changes] == ["j7", "j8", "j9"]
    assert hub.since(hub.mark).changes == ()


def test_a_page_is_told_how_far_it_has_come_with_what_it_missed() -> None:
    hub = Hub()
    hub.publish([("r", "early", RECORD)])
    missed = hub.since(f"{hub.boot}.0")
    hub.publish([("r", "late", RECORD)])

    assert [one.job for one in missed.changes] == ["early"]
    assert [one.job for one in hub.since(missed.mark).changes] == ["late"]


def test_the_pieces_of_an_answer_wait_for_no_acknowledgement() -> None:
    with closing(_listen("127.0.0.1", 0)) as listener:
        assert listener.proto == socket.IPPROTO_TCP  # by which asyncio knows that it may switch the waiting off
