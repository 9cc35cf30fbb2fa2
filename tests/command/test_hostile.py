"""Programs that mean harm: each is refused or contained, and its turn ends like any other."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.cli.main import main
from parley.ports.turns import Called
from parley.runners.command.tool_caller import LINE_LIMIT
from parley.runners.command.tool_socket import CONNECTIONS, MAX_CALLS, MAX_REFUSALS, ToolSocket
from tests.command.command_harness import CommandHarness, script

Make = Callable[..., CommandHarness]

INSIDE = """
import json, os, socket, sys

def hatch():
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(20)
    one.connect(os.environ["PARLEY_TOOLS"])
    return one

def say(data, one=None):
    one = one or hatch()
    try:
        one.sendall(data)
    except OSError:
        pass
    got = b""
    try:
        while not got.endswith(b"\\n"):
            part = one.recv(65536)
            if not part:
                break
            got += part
    except OSError:
        pass
    return json.loads(got)["text"] if got else "cut off"

def line(**more):
    call = {"token": os.environ["PARLEY_TOKEN"], "tool": "Send", "arguments": {"to": "x", "text": "y"}}
    return json.dumps(call | more).encode() + b"\\n"

"""


HUGE = """
print(say(b"[" * (100 << 20)), flush=True)
print(say(line(arguments={"text": "x" * (100 << 20)})), flush=True)
os.system("head -c 100000000 /dev/zero | tr '\\\\0' x | parley tool Send --to y - 2>&1")
print(say(line()))
"""

GARBAGE = """
for data in (b"", b"nonsense", b"[[[[", b"[" * 100000, b'{"token": null}', b"\\xff\\xfe"):
    assert say(data + b"\\n").startswith("this is not a call"), data
print(say(line()))
"""

DAEMON = """#!/bin/sh
if [ -e token ]; then
    PARLEY_TOKEN=$(cat token) parley tool Send --to x "from the past" 2>&1
    exit 0
fi
echo "$PARLEY_TOKEN" > token
(while :; do parley tool Send --to x "I live" && date >> sent; done) >/dev/null 2>&1 &
while [ ! -e sent ]; do sleep 0.01; done
"""

LINKS = """#!/bin/sh
parley tool Send --to x "$(tail -n 1 "$PARLEY_MESSAGE")" >&2
rm -rf "$HOME/.parley"
if [ "$(tail -n 1)" = first ]; then
    ln -s OUTSIDE "$HOME/.parley"
else
    mkdir "$HOME/.parley"
    ln -s OUTSIDE/message.md "$HOME/.parley/message.md"
    ln -s OUTSIDE/new "$HOME/.parley/tools.sock"
fi
"""


def hostile(folder: Path, body: str) -> dict[str, Any]:
    """A Python program with the means to do harm, as an agent's settings."""
    (folder / "hostile.py").write_text(INSIDE + body)
    return {
        "hostile": {"command": [os.path.realpath(sys.executable), str(folder / "hostile.py")], "binds": ["hostile.py"]}
    }


def test_a_call_needs_the_turns_own_token(stage: Make, tmp_path: Path) -> None:
    here = stage(
        hostile(tmp_path, 'print(say(line(token="token-1")), say(line(token="")), say(line(token=7)), sep="\\n")')
    )
    quiet = here.play(here.order("hostile", "go", token="another"))

    assert quiet.fault == ""
    assert [line.split(":")[0] for line in quiet.text.splitlines()] == [
        "the token is not this turn's",
        "the token is not this turn's",
        "this is not a call",
    ]
    assert here.calls == []


def test_who_sends_is_not_the_callers_to_say(stage: Make, tmp_path: Path) -> None:
    forged = 'say(line(agent="project-lead", thread="state:1", job="job2", turn="t9", sender="human", number=77))'
    here = stage(hostile(tmp_path, forged))

    here.play(here.order("hostile", "go"))

    assert here.calls == [
        Called(job=here.job, turn="t1", token="token-1", number=1, tool="Send", arguments={"to": "x", "text": "y"})
    ]


def test_a_message_of_a_hundred_megabytes_is_cut_off(stage: Make, tmp_path: Path) -> None:
    here = stage(hostile(tmp_path, HUGE))
    before = _resident_kb()

    ended = here.play(here.order("hostile", "go"))

    first, second, third, last = ended.text.splitlines()
    assert {first, second} <= {"cut off", f"a call has {LINE_LIMIT} bytes at most; put the text into a file"}
    assert third.startswith("parley: refused: the text has more than")
    assert last == "taken: Send on dispatch:d1"
    assert len(here.calls) == 1
    assert _resident_kb() - before < 50 * 1024


def test_a_flood_of_calls_and_connections_is_bounded(stage: Make, tmp_path: Path) -> None:
    here = stage(
        hostile(
            tmp_path,
            f"""
idle = []
for _ in range({CONNECTIONS - 1}):
    idle.append(hatch())
answers = set()
for _ in range({MAX_CALLS + 20}):
    answers.add(say(line()))
print(json.dumps(sorted(answers)))
""",
        )
    )

    ended = here.play(here.order("hostile", "go"))

    assert json.loads(ended.text) == [f"a turn has {MAX_CALLS} calls at most", "taken: Send on dispatch:d1"]
    assert len(here.calls) == MAX_CALLS


def test_garbage_is_answered_and_the_next_call_still_taken(stage: Make, tmp_path: Path) -> None:
    here = stage(hostile(tmp_path, GARBAGE))

    assert here.play(here.order("hostile", "go")).text == "taken: Send on dispatch:d1"


def test_a_daemon_of_an_earlier_turn_can_not_call_in_a_later_one(stage: Make, tmp_path: Path) -> None:
    name = script(tmp_path, DAEMON)
    here = stage({"one": {"command": [name]}})
    first = here.play(here.order("one", "go"))
    calls = len(here.calls)

    second = here.play(here.order("one", "go"))

    assert first.fault == ""
    assert calls > 0
    assert second.text.startswith("parley: refused: the token is not this turn's")
    assert len(here.calls) == calls


def test_what_an_agent_did_to_its_home_leads_nowhere_else(stage: Make, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "message.md").write_text("not the agent's")
    name = script(tmp_path, LINKS.replace("OUTSIDE", str(outside)))
    here = stage({"one": {"command": [name]}})

    faults = [here.play(here.order("one", message)).fault for message in ("first", "second", "third")]

    assert faults == ["", "", ""]
    assert [call.arguments["text"] for call in here.calls] == ["first", "second", "third"]
    assert [path.name for path in outside.iterdir()] == ["message.md"]
    assert (outside / "message.md").read_text() == "not the agent's"


def test_a_home_that_was_spoilt_is_a_fault_and_no_crash(stage: Make, tmp_path: Path) -> None:
    name = script(tmp_path, '#!/bin/sh\nrm -rf "$HOME/.parley"; mkdir -p "$HOME/.parley/message.md/below"\n')
    here = stage({"one": {"command": [name]}})

    first, second = (here.play(here.order("one", "go")) for _ in range(2))

    assert first.fault == ""
    assert second.fault.startswith("it could not be run: ")


def test_outside_a_turn_parley_tool_says_so() -> None:
    assert main(["tool", "Send", "--to", "x", "hello"]) == 1


@pytest.mark.parametrize("words", [["tool"], ["tool", "Steal"], ["tool", "Send", "--confidence", "much"]])
def test_parley_tool_wrongly_used_is_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


# ---- the hatch alone -----------------------------------------------------------------------------


@contextlib.contextmanager
def opened(folder: Path, *, answer: bool = True) -> Iterator[tuple[ToolSocket, str, list[tuple[int, str]]]]:
    taken: list[tuple[int, str]] = []
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    ready = threading.Event()

    def take(number: int, tool: str, arguments: Any) -> None:
        taken.append((number, tool))
        if answer:
            ready.wait(10)
            tool_socket.reply(number, True, "yes", {})

    tool_socket = ToolSocket(place, "s", "right", take)
    ready.set()
    try:
        yield tool_socket, f"{folder}/s", taken
    finally:
        tool_socket.close()
        os.close(place)


def dial(path: str) -> socket.socket:
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(20)
    try:
        one.connect(path)
    except OSError:
        one.close()
        raise
    return one


GOOD = json.dumps({"token": "right", "tool": "Send", "arguments": {}}).encode() + b"\n"


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_whatever_bytes_come_in_a_call_is_still_taken(parts: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as (_, path, taken):
        for part in parts:
            with dial(path) as one, contextlib.suppress(OSError):
                one.sendall(part)
        with dial(path) as one:
            one.sendall(GOOD[:10])
            one.sendall(GOOD[10:])
            assert json.loads(one.recv(1000)) == {"ok": True, "text": "yes", "data": {}}
        assert taken == [(1, "Send")]


def test_calls_on_one_connection_are_answered_in_order(tmp_path: Path) -> None:
    with opened(tmp_path) as (_, path, taken), dial(path) as one:
        one.sendall(GOOD * 5)
        got = b""
        while got.count(b"\n") < 5:
            got += one.recv(1000)
    assert taken == [(number, "Send") for number in range(1, 6)]


def test_a_call_that_is_not_answered_before_the_end_is_cut_off(tmp_path: Path) -> None:
    with opened(tmp_path, answer=False) as (tool_socket, path, taken), dial(path) as one:
        one.sendall(GOOD)
        deadline = time.monotonic() + 10
        while not taken and time.monotonic() < deadline:
            time.sleep(0.005)
        tool_socket.close()
        assert one.recv(1000) == b""
        with pytest.raises(OSError, match="refused"):
            dial(path)


def test_after_too_many_refusals_nobody_is_let_in_any_more(tmp_path: Path) -> None:
    with opened(tmp_path) as (_, path, taken):
        for _ in range(MAX_REFUSALS):
            with dial(path) as one:
                one.sendall(b"x\n")
                assert one.recv(1000)
        with dial(path) as one:
            one.settimeout(0.2)
            one.sendall(GOOD)
            with pytest.raises(TimeoutError):
                one.recv(1000)
    assert taken == []


def test_a_path_longer_than_a_socket_may_have_will_do(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    with opened(deep) as (_, _, taken):
        place = os.open(deep, os.O_RDONLY)
        with dial(f"/proc/self/fd/{place}/s") as one:
            one.sendall(GOOD)
            assert one.recv(1000)
        os.close(place)
    assert taken == [(1, "Send")]


def _resident_kb() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])
