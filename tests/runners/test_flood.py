"""However much a turn tells, the engine and the stream's file get a bounded part of it."""

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from parley.base.redaction import Secrets
from parley.machine.job_files import STREAM_BYTES, JobFiles
from parley.ports.turns import Called, Ended, Order, Progress, Site, TurnEvent
from parley.runners.flood import BURST, CALLS, MORE, TOO_MANY, TURN_BYTES, FloodGuard


class Noisy:
    """A runner that tells what it is made to, and hears replies."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, bool, str]] = []

    def start(self, order: Order, tell: Any) -> None:
        """Nothing starts by itself."""

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Any) -> None:
        self.heard.append((number, ok, text))

    def cancel(self, job: str, turn: str) -> None:
        """Nothing runs."""

    def wrap_up(self, job: str, turn: str) -> bool:
        return False

    def stop(self, job: str, turn: str) -> bool:
        return False

    def rest(self, job: str) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is open."""


def order() -> Order:
    return Order(
        turn="t1",
        job="j",
        epoch=1,
        token="k",
        agent="a",
        thread="th",
        message="m",
        sender="human",
        state="INTENT",
        visit=1,
        site=Site("/w"),
        home="/h",
        handle="",
        may_ask=False,
        time_limit_seconds=60.0,
        tools=(),
    )


def flood() -> tuple[FloodGuard, list[TurnEvent], Noisy]:
    told: list[TurnEvent] = []
    runner = Noisy()
    return FloodGuard(order(), runner, told.append), told, runner


def test_endless_lines_are_held_back_and_that_is_told_once() -> None:
    into, told, _ = flood()
    for number in range(50 * BURST):
        into.tell(Progress("j", "t1", f"line {number}"))
    texts = [event.text for event in told if isinstance(event, Progress)]
    assert BURST <= len(texts) < 20 * BURST
    assert texts[:2] == ["line 0", "line 1"]
    assert MORE in texts


def test_long_lines_are_cut_and_bounded_in_all() -> None:
    into, told, _ = flood()
    for _ in range(5):
        into.tell(Progress("j", "t1", "x" * (64 << 20)))
    assert sum(len(event.text) for event in told if isinstance(event, Progress)) <= TURN_BYTES
    assert max(len(event.text) for event in told if isinstance(event, Progress)) == 2000


@settings(max_examples=25)
@given(st.integers(1970, 1999))
def test_a_line_that_is_cut_in_the_middle_of_a_secret_shows_no_half_of_it(before: int) -> None:
    secret = "q7Zt-wholly-unknown-4242"
    into, told, _ = flood()
    into.tell(Progress("j", "t1", f"{'x' * before} {secret}{'y' * 2000}"))
    shown = [Secrets([("KEY", secret)]).redact(event.text) for event in told if isinstance(event, Progress)]
    assert [text for text in shown if secret[:8] in text] == []


def test_the_end_of_a_tool_is_told_whatever_is_held_back() -> None:
    into, told, _ = flood()
    into.tell(Progress(job="j", turn="t1", text="runs", tool="shell", use="u1"))
    for _ in range(2 * BURST):
        into.tell(Progress("j", "t1", "x"))
    into.tell(Progress(job="j", turn="t1", text="done", tool="shell", use="u1", over=True))
    assert any(isinstance(event, Progress) and event.over and event.use == "u1" for event in told)


def test_calls_beyond_their_number_are_refused_and_do_not_reach_the_engine() -> None:
    into, told, runner = flood()
    for number in range(CALLS + 50):
        into.tell(Called(job="j", turn="t1", token="k", number=number, tool="Send", arguments={}))
    assert sum(isinstance(event, Called) for event in told) == CALLS
    assert runner.heard == [(number, False, TOO_MANY) for number in range(CALLS, CALLS + 50)]
    into.tell(Ended("j", "t1", 1))
    assert isinstance(told[-1], Ended)


def test_a_streams_file_is_bounded_and_says_so(tmp_path: Path) -> None:
    files = JobFiles(tmp_path)
    for _ in range(80):
        files.append("j", "s.jsonl", ["x" * (1 << 20)])
    path = tmp_path / "jobs" / "j" / "s.jsonl"
    assert path.stat().st_size <= STREAM_BYTES + (2 << 20)
    assert "the stream is full" in files.tail("j", "s.jsonl")[-1]
