"""`parley log --work`: what agents did, from their streams, as it happens and however the streams were left."""

import json
from pathlib import Path
from typing import Any

import pytest

from parley.ports.turns import RESULT_LIMIT
from parley.views.work import WorkEvent, WorkFollower, WorkKind
from tests.cli.home import Home

SECRET = "sk-live-0123456789abcdef0123"
WORKS = r"""
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do:
        - {write: {path: INTENT.md, text: "intent"}}
        - {write: {path: ../out.md, text: "no"}}
        - {shell: "echo $((6*7)); printf '\\033[31m'; echo SECRET; exit 3"}
        - {send: {to: researcher, text: "look"}}
        - {close: {thread: "dispatch:gone"}}
  researcher:
    - {match: 'look', do: [{shell: "seq 2000"}, {ask: {text: "which one?"}}]}
"""


def line(event: str, turn: str = "t1", time: float = 1.0, **said: Any) -> str:
    return json.dumps({"time": time, "turn": turn, "event": event, **said}, separators=(",", ":")) + "\n"


def start(turn: str = "t1", agent: str = "coder", thread: str = "dispatch:d1", time: float = 1.0) -> str:
    return line("start", turn, time, agent=agent, thread=thread, message="m1")


def use(tool: str, name: str = "u1", turn: str = "t1", time: float = 2.0, **said: Any) -> str:
    return line("progress", turn, time, text=said.pop("text", ""), tool=tool, use=name, **said)


def stream(folder: Path, text: str, name: str = "streams/dispatch-d1.jsonl") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
    return path


def told(events: list[WorkEvent]) -> list[tuple[str, str, str, str]]:
    return [(event.kind, event.agent, event.tool, event.words) for event in events]


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A job that waits for its human, after two agents have worked in it."""
    home = Home(tmp_path_factory.mktemp("worked"), {"SHOP_API_KEY": SECRET})
    done = home.run("run", "do it", "--playbook", home.write("p.yaml", WORKS.replace("SECRET", SECRET)), "--json")
    assert done.code == 4, done
    return home


def test_each_tool_call_is_shown_with_its_result_and_nothing_that_a_terminal_obeys(worked: Home) -> None:
    job = worked.run("ls", "--json").document["jobs"][0]["id"]
    shown = worked.run("log", job, "--work")

    assert shown.code == 0
    assert SECRET not in shown.out
    assert "\x1b" not in shown.out
    said = [text.partition("  ")[2] if text[:1].isdigit() else text for text in shown.out.splitlines()]
    assert "intent-lead  write INTENT.md" in said
    refused = said.index("intent-lead  write ../out.md")
    assert said[refused + 1 : refused + 3] == ["    failed", "    | it leads outside the workspace"]
    failed = next(number for number, text in enumerate(said) if text.startswith("intent-lead  shell echo"))
    assert said[failed + 1].strip().startswith("failed")
    assert said[failed + 2 : failed + 4] == ["    | exit 3", "    | 42"]
    closing = said.index("intent-lead  CloseConversation")
    assert said[closing + 1] == "    failed"
    assert any(
        text.startswith("    | … ") and f"more lines: parley log {job} --work --json" in text for text in said
    )  # of the 2000 of `seq`

    work = worked.run("log", job, "--work", "--agent", "resea", "--json").document["work"]
    assert {event["agent"] for event in work} == {"researcher"}
    counted = next(event for event in work if event["tool"] == "shell" and event["kind"] == "result")
    assert counted["result"].startswith("exit 0\n…")
    assert len(counted["result"]) == RESULT_LIMIT
    assert counted["seconds"] >= 0
    assert not counted["failed"]
    assert [event["tool"] for event in work if event["kind"] == "result"] == ["shell", "AskQuestion"]
    by_thread = worked.run("log", job, "--work", "--thread", counted["thread"], "--json").document["work"]
    assert by_thread == work


def test_what_cannot_be_shown_is_said_in_one_line(worked: Home) -> None:
    job = worked.run("ls", "--json").document["jobs"][0]["id"]
    assert "did you mean researcher?" in worked.refuses("log", job, "--work", "--agent", "reseacher")
    assert "--agent goes with --work" in worked.refuses("log", job, "--agent", "researcher")


def test_a_stream_is_read_on_as_it_grows(tmp_path: Path) -> None:
    follower = WorkFollower(tmp_path)
    assert follower.read() == []  # there is none yet

    whole = use("shell", text="make", time=2.0)
    stream(tmp_path, start() + whole[:20])
    assert told(follower.read()) == [("start", "coder", "", "")]
    stream(tmp_path, whole[20:] + use("Read", "u2", text="a.py", time=3.0))
    assert told(follower.read()) == [("use", "coder", "shell", "make"), ("use", "coder", "Read", "a.py")]
    stream(tmp_path, use("shell", over=True, result="ok", failed=True, seconds=1.5, time=4.0))
    assert follower.read() == [
        WorkEvent(
            time=4.0,
            turn="t1",
            agent="coder",
            thread="dispatch:d1",
            kind=WorkKind.RESULT,
            tool="shell",
            use="u1",
            words="make",
            result="ok",
            failed=True,
            seconds=1.5,
        )
    ]
    assert follower.read() == []


def test_a_call_that_its_agent_reports_too_is_told_once(tmp_path: Path) -> None:
    stream(
        tmp_path,
        start()
        + use("Send", text="coder")
        + line("call", tool="Send", call="to coder on dispatch:x: go", result="will be sent")
        + use("Send", over=True, result="will be sent")
        + line("call", tool="Send", call="to tester on dispatch:y: go", result="will be sent")
        + line("refused", tool="Send", why="there is no role x"),
    )
    events = WorkFollower(tmp_path).read()

    assert [(event.kind, event.words, event.failed) for event in events] == [
        ("start", "", False),
        ("use", "coder", False),
        ("result", "to coder on dispatch:x: go", False),
        ("result", "to tester on dispatch:y: go", False),
        ("result", "", True),
    ]
    assert events[-1].result == "there is no role x"


def test_half_a_line_of_a_crash_costs_no_other_line(tmp_path: Path) -> None:
    path = stream(tmp_path, start() + use("shell", text="make")[:30])
    follower = WorkFollower(tmp_path)
    assert len(follower.read()) == 1
    stream(
        tmp_path,
        start("t2") + "\n" + '{"time":"x","turn":7,"event":["start"]}\n[1]\n' + line("lost", "t2", fault="it died"),
    )
    assert told(follower.read()) == [("start", "coder", "", ""), ("lost", "coder", "", "it died")]

    path.write_text(start("t3", agent="other"))  # replaced by a shorter one
    assert told(follower.read()) == [("start", "other", "", "")]
    path.unlink()
    assert follower.read() == []


def test_events_of_several_streams_come_in_the_order_in_which_they_happened(tmp_path: Path) -> None:
    stream(tmp_path, "".join(line("progress", text=f"a{n}", time=float(n)) for n in range(0, 2000, 2)))
    other = "streams/dispatch-d2.jsonl"
    stream(tmp_path, "".join(line("progress", text=f"b{n}", time=float(n)) for n in range(1, 2000, 2)), other)

    events = WorkFollower(tmp_path).read()
    assert [event.time for event in events] == [float(n) for n in range(2000)]
    assert {event.thread for event in events} == {"dispatch:d1", "dispatch:d2"}  # though no line says so
    assert len(WorkFollower(tmp_path, thread="dispatch:d2").read()) == 1000


def test_the_end_of_a_stream_is_read_with_whose_it_is(tmp_path: Path) -> None:
    stream(tmp_path, start(agent="lead", thread="state:j/1") + use("Bash", text="x" * 400) * 3000, ".plan-stream.jsonl")
    follower = WorkFollower(tmp_path, agent="lead", last_bytes=5000)

    events = follower.read()
    assert 5 < len(events) < 12
    assert follower.left_out
    assert {event.thread for event in events} == {"state:j/1"}
    stream(tmp_path, start("t2", agent="coder", thread="dispatch:d3") * 100, "streams/dispatch-d3.jsonl")
    assert follower.read() == []
    assert len(WorkFollower(tmp_path, thread="dispatch:d3").read()) == 100


def test_work_is_followed_until_the_job_ends(worked: Home) -> None:
    job = worked.run("ls", "--json").document["jobs"][0]["id"]
    with worked.started("log", job, "--work", "--follow", "--json", "--tail", "3") as follower:
        assert follower.stdout is not None
        first = [json.loads(follower.stdout.readline()) for _ in range(3)]
        assert worked.run("withdraw", job).code == 0
        rest = [json.loads(text) for text in follower.stdout]
        assert follower.wait() == 0
    every = worked.run("log", job, "--work", "--json").document["work"]
    assert [*first, *rest] == every[-3 - len(rest) :]
