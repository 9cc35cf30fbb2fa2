"""Any program as an agent: a shell script, a program that speaks MCP, and what becomes of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from parley.ports.turns import Called, Ended
from parley.settings.schema import BoundarySettings
from tests.apis.responses import ResponsesAPI, Script, Turn, rate_limited
from tests.command.command_harness import CommandHarness, eventually, script

ROOT = Path(__file__).resolve().parents[2]
Make = Callable[..., CommandHarness]


def test_the_ten_line_shell_script_of_the_examples_is_an_agent(stage: Make, tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples" / "notes.sh", tmp_path / "notes.sh")
    here = stage({"notes": {"command": ["./notes.sh"]}})

    ended = here.play(here.order("notes", "three little words"))

    assert ended.fault == ""
    assert ended.text == "taken: Send on dispatcher"
    assert (here.workspace / "counts.txt").read_text() == "3 words\n"
    assert here.progress == ["counted 3 words"]
    assert [(call.tool, dict(call.arguments)) for call in here.calls] == [
        ("Send", {"thread": "dispatcher", "text": "I counted 3 words; see counts.txt."}),
    ]
    assert {call.token for call in here.calls} == {"token-1"}
    assert ended.boundary is not None
    assert ended.boundary.ok
    assert ended.usage == {"turns": 1}
    assert len((ROOT / "examples" / "notes.sh").read_text().splitlines()) == 10


def test_a_refused_call_is_one_line_and_exit_code_one(stage: Make, tmp_path: Path) -> None:
    name = script(tmp_path, '#!/bin/sh\nparley tool Send --to nobody hello\necho "exit $?"\n')
    here = stage({"one": {"command": [name]}})

    ended = here.play(here.order("one", "go"), lambda call: (False, "nobody is not in your team", {}))

    assert ended.text == "exit 1"
    assert here.progress == ["parley: refused: nobody is not in your team"]


def test_questions_and_verdicts_can_be_given_from_a_shell(stage: Make, tmp_path: Path) -> None:
    name = script(
        tmp_path,
        '#!/bin/sh\nparley tool AskQuestion --kind assert --artifact PLAN.md "good?" &&\n'
        "echo 'as it is' | parley tool Answer --verdict 'backtrack plan' --confidence 0.5 - &&\n"
        "parley tool Predict --verdict approve --confidence 0.6 && parley tool AskHuman 'is it?' --found 'no tests'\\\n"
        " --would revise --confidence 0.7 --reason 'they were promised' &&\n"
        "parley tool Send --thread dispatcher 'it is done' && parley tool Send --kind assert x\n",
    )
    here = stage({"one": {"command": [name]}})

    ended = here.play(here.order("one", "go"))

    assert [(call.tool, dict(call.arguments)) for call in here.calls] == [
        ("AskQuestion", {"kind": "assert", "artifact": "PLAN.md", "text": "good?"}),
        ("Answer", {"verdict": "backtrack plan", "confidence": 0.5, "text": "as it is\n"}),
        ("Predict", {"verdict": "approve", "confidence": 0.6}),
        (
            "AskHuman",
            {
                "found": "no tests",
                "would": "revise",
                "reason": "they were promised",
                "confidence": 0.7,
                "text": "is it?",
            },
        ),
        ("Send", {"thread": "dispatcher", "text": "it is done"}),
    ]
    assert ended.fault == "it exited with 2: parley: Send takes no --kind; it takes: to, thread, text, files"


MCP_CLIENT = """
import json, subprocess
bridge = subprocess.Popen(["parley-bridge"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

def ask(line):
    bridge.stdin.write(line + b"\\n")
    bridge.stdin.flush()
    return json.loads(bridge.stdout.readline())

def call(number, method, **params):
    return ask(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode())

said = [call(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "x", "version": "1"})]
bridge.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\\n')
said.append(call("two", "ping"))
said.append(call(3, "tools/list"))
said.append(call(4, "tools/call", name="Send", arguments={"to": "tester", "text": "try it", "thread": ""}))
said.append(call(5, "tools/call", name="Answer", arguments={}))
said.append(call(6, "tools/call", name="CloseConversation", arguments={"thread": "dispatch:x"}))
said.append(ask(b"{nonsense"))
said.append(ask(b"[1]"))
said.append(call(9, "resources/list"))
bridge.stdin.close()
print(json.dumps([said, bridge.wait()]))
"""


def test_a_program_calls_the_tools_over_mcp(stage: Make, tmp_path: Path) -> None:
    (tmp_path / "client.py").write_text(MCP_CLIENT)
    here = stage(
        {
            "client": {
                "command": [os.path.realpath(sys.executable), str(tmp_path / "client.py")],
                "binds": ["client.py"],
            }
        }
    )

    def answer(call: Called) -> tuple[bool, str, Mapping[str, Any]]:
        return (True, "will be sent", {}) if call.tool == "Send" else (False, "it is closed already", {})

    ended = here.play(here.order("client", "go"), answer)

    assert ended.fault == ""
    said, code = json.loads(ended.text)
    assert code == 0
    assert [one.get("id") for one in said] == [1, "two", 3, 4, 5, 6, None, None, 9]
    assert said[0]["result"]["protocolVersion"] == "2025-06-18"
    assert said[1]["result"] == {}
    listed = {tool["name"]: tool["inputSchema"] for tool in said[2]["result"]["tools"]}
    assert list(listed) == ["Send", "CloseConversation", "AskQuestion"]
    assert listed["Send"]["required"] == ["text"]
    assert set(listed["AskQuestion"]["properties"]) == {"text", "kind", "artifact"}
    assert said[3]["result"] == {"content": [{"type": "text", "text": "will be sent"}], "isError": False}
    assert said[4]["error"]["code"] == -32602
    assert said[5]["result"]["isError"]
    assert said[5]["result"]["content"][0]["text"] == "refused: it is closed already"
    assert [one["error"]["code"] for one in said[6:]] == [-32700, -32600, -32601]
    assert [(call.tool, dict(call.arguments)) for call in here.calls] == [
        ("Send", {"to": "tester", "text": "try it"}),
        ("CloseConversation", {"thread": "dispatch:x"}),
    ]


def test_a_program_finds_its_message_role_and_place(stage: Make, tmp_path: Path) -> None:
    name = script(
        tmp_path,
        '#!/bin/sh\nhead -c 3\nprintf "|"\ncat "$1" "$2"\necho "|$3|$4|$PARLEY_AGENT|$PARLEY_SENDER|$PARLEY_STATE"\n'
        'echo "|$PWD|$GIVEN|$PASSED|"\nenv | sort > env.txt\n',
    )
    here = stage(
        {
            "one": {
                "command": [name, "{message_file}", "{role_file}", "{workspace}", "{model}"],
                "environment": {"GIVEN": "a value", "PASSED": "$PATH"},
                "model": "some-model",
            }
        }
    )

    ended = here.play(here.order("one", "hello there"))

    first, *rest = ended.text.split("|")
    assert first == "[ME"
    assert rest[0] == "[MESSAGE] project-lead:\nhello thereYou are `coder`.\n\nWrites code.\n\nDo as you are asked."
    assert rest[1:6] == [str(here.workspace), "some-model", "coder", "project-lead", "EXECUTE\n"]
    assert rest[6:8] == [str(here.workspace), "a value"]
    assert rest[8] != ""
    names = {line.partition("=")[0] for line in (here.workspace / "env.txt").read_text().splitlines()}
    assert {name for name in names if not name.startswith("PARLEY_")} <= {
        "GIVEN", "HOME", "LANG", "LC_CTYPE", "PASSED", "PATH", "PWD", "OLDPWD", "PYTHONDONTWRITEBYTECODE", "SHLVL", "_",
    }  # fmt: skip


def test_a_session_found_in_the_output_is_resumed(stage: Make, tmp_path: Path) -> None:
    name = script(tmp_path, '#!/bin/sh\necho "session: s-42"\necho "$@" >> "$HOME/calls"\ncat "$HOME/calls"\n')
    here = stage(
        {"one": {"command": [name, "new"], "resume": [name, "resume", "{handle}"], "handle": r"session: (\S+)"}}
    )

    first = here.play(here.order("one", "go"))
    second = here.play(here.order("one", "go on", handle=first.handle))
    other = here.play(here.order("one", "go on", handle='{"agent": "another", "session": "s-1"}'))

    assert json.loads(first.handle)["session"] == "s-42"
    assert second.text.splitlines()[1:] == ["new", "resume s-42"]
    assert other.text.splitlines()[-1] == "new"


def test_a_program_that_fails_is_a_fault_with_its_last_words(stage: Make, tmp_path: Path) -> None:
    name = script(tmp_path, '#!/bin/sh\necho done\necho first >&2\necho "no more disk" >&2\nexit 3\n')
    here = stage({"one": {"command": [name]}})

    ended = here.play(here.order("one", "go"))

    assert ended.fault == "it exited with 3: no more disk"
    assert ended.parked_seconds == 0
    assert here.progress == ["first", "no more disk"]


@pytest.mark.parametrize(
    "words, seconds", [("busy; try again in 7.5s", 7.5), ("busy", 60.0), ("try again in 2m", 120.0), ("", 60.0)]
)
def test_exit_code_75_parks_the_agent(stage: Make, tmp_path: Path, words: str, seconds: float) -> None:
    name = script(tmp_path, f'#!/bin/sh\necho "{words}" >&2\nexit 75\n')
    here = stage({"one": {"command": [name]}})

    ended = here.play(here.order("one", "go"))

    assert ended.fault.startswith("it exited with 75")
    assert ended.parked_seconds == seconds


def test_output_is_bounded_and_its_end_is_kept(stage: Make, tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "#!/bin/sh\nhead -c 60000000 /dev/zero | tr '\\0' 'x'\nseq 100000 >&2\n"
        "head -c 9000000 /dev/zero >&2\necho; echo END\n",
    )
    here = stage({"one": {"command": [name]}})

    ended = here.play(here.order("one", "go"))

    assert ended.fault == ""
    assert len(ended.text) == 256 * 1024
    assert ended.text.endswith("x\nEND")
    assert len(here.progress) == 2000
    assert here.progress[0] == "1"


def test_a_program_need_not_read_its_message(stage: Make, tmp_path: Path) -> None:
    name = script(tmp_path, '#!/bin/sh\nexec <&-\nwc -c < "$PARLEY_MESSAGE"\n')
    here = stage({"one": {"command": [name]}})

    ended = here.play(here.order("one", "x" * 1_000_000))

    assert (ended.fault, ended.text) == ("", "1000024")


def test_a_cancelled_turn_is_gone_and_says_no_more(stage: Make, tmp_path: Path) -> None:
    name = script(tmp_path, "#!/bin/sh\necho begun >&2\n(while :; do echo more >&2; done) &\nsleep 1000\n")
    here = stage({"one": {"command": [name]}})
    order = here.order("one", "go")

    here.start(order)
    here.next()
    here.runner.cancel(order.job, order.turn)

    while not here.events.empty():
        assert not isinstance(here.events.get(), Ended)
    assert marked(order.job, order.turn) == []
    assert here.events.empty()


def test_what_a_program_left_running_is_gone_when_its_turn_has_ended(stage: Make, tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "#!/bin/sh\nsetsid sh -c 'trap \"\" TERM HUP; while :; do date >> beats; sleep 0.01; done' >/dev/null 2>&1 &\n"
        "while [ ! -s beats ]; do sleep 0.01; done\necho left\n",
    )
    here = stage({"one": {"command": [name]}, "other": {"command": ["true"]}})

    order = here.order("one", "go")
    ended = here.play(order)

    size = (here.workspace / "beats").stat().st_size
    assert ended.text == "left"
    assert marked(order.job, order.turn) == []
    assert here.play(here.order("other", "go")).fault == ""  # time passes
    assert (here.workspace / "beats").stat().st_size == size > 0


def test_without_a_boundary_that_the_user_gave_up_the_tools_work_too(stage: Make, tmp_path: Path) -> None:
    name = script(tmp_path, '#!/bin/sh\nparley tool Send --to x "$(cat "$1")"\necho "$HOME"\n')
    here = stage({"one": {"command": [name, "{message_file}"]}}, boundary=BoundarySettings(accept="none"))

    ended = here.play(here.order("one", "go"))

    assert (ended.fault, ended.text) == ("", f"taken: Send on dispatch:d1\n{here.home}")
    assert ended.boundary is not None
    assert ended.boundary.accepted == "none"


LIMITED = """
import os, sys, urllib.error, urllib.request
body = b'{"input": [{"role": "user", "content": "go"}]}'
asked = urllib.request.Request(os.environ["PARLEY_GATEWAY"] + "/v1/responses", body)
try:
    urllib.request.urlopen(asked)
except urllib.error.HTTPError as error:
    sys.exit(f"status {error.code}")
"""


def test_what_the_gateway_saw_parks_an_agent_whatever_it_says_itself(stage: Make, tmp_path: Path) -> None:
    (tmp_path / "limited.py").write_text(LIMITED)
    command = [os.path.realpath(sys.executable), str(tmp_path / "limited.py")]
    with ResponsesAPI(Script({"": [Turn("go", [rate_limited(5)])]})) as api:
        route = {"upstream": api.url, "paths": ["/v1/responses"]}
        here = stage({"one": {"command": command, "binds": ["limited.py"], "route": route}})
        ended = here.play(here.order("one", "go"))

    assert here.progress == ["status 429"]
    assert ended.parked_seconds == 5.0


def test_turns_run_side_by_side_and_each_call_reaches_its_own(stage: Make, tmp_path: Path) -> None:
    name = script(tmp_path, '#!/bin/sh\nparley tool Send --to x "$(cat)"\n')
    here = stage({"one": {"command": [name]}})
    orders = [here.order("one", f"message {number}", home=str(tmp_path / f"home{number}")) for number in range(4)]

    for order in orders:
        here.start(order)
    ended: list[Ended] = []
    while len(ended) < len(orders):
        event = here.next(lambda call: (True, f"{call.turn} said {call.arguments['text']}", {}))
        if isinstance(event, Ended):
            ended.append(event)

    assert {(one.turn, one.text) for one in ended} == {
        (order.turn, f"{order.turn} said {order.addressed}") for order in orders
    }


def test_no_descriptor_or_thread_is_left_behind(stage: Make, tmp_path: Path) -> None:
    name = script(tmp_path, "#!/bin/sh\nparley tool Send --to x hello\n")
    here = stage({"one": {"command": [name]}})
    assert here.play(here.order("one", "go")).fault == ""
    before = descriptors()

    for _ in range(3):
        assert here.play(here.order("one", "go")).fault == ""

    eventually(lambda: descriptors() <= before)


def test_an_agent_that_is_not_known_or_can_not_run_says_what_to_do(stage: Make, tmp_path: Path) -> None:
    here = stage(
        {"lost": {"command": ["./nowhere"]}, "keyless": {"command": ["cat"], "environment": ["NO_SUCH_VARIABLE"]}}
    )

    unknown = here.play(here.order("unheard-of", "go"))
    lost = here.play(here.order("lost", "go"))
    keyless = here.play(here.order("keyless", "go"))

    assert unknown.hard
    assert unknown.fault.startswith("there is no agent 'unheard-of'; known are codex, keyless, lost")
    assert lost.hard
    assert lost.fault.startswith("./nowhere can't be run as the agent lost: make it executable")
    assert keyless.hard
    assert keyless.fault.endswith("NO_SUCH_VARIABLE is not set; set it where Parley is started")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def marked(job: str, turn: str) -> list[str]:
    """Processes that bear a turn's mark."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"PARLEY_TURN={job}/{turn}\0".encode() in (entry / "environ").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found


def test_the_interpreter_is_the_bare_one() -> None:
    """What runs inside may import nothing but the standard library: this is what keeps it so."""
    inside = ["mcp_bridge", "tool_caller", "tool_schemas"]
    for module in inside:
        source = (ROOT / "src/parley/runners/command" / f"{module}.py").read_text()
        imported = {
            line.split()[1].partition(".")[0] for line in source.splitlines() if line.startswith(("import ", "from "))
        }
        assert imported <= {*sys.stdlib_module_names, "parley", "__future__"}


def test_whatever_a_program_says_is_a_sign_of_life(
    stage: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.runners.command.command_turn.SIGN_SECONDS", 0.0)
    name = script(tmp_path, "#!/bin/sh\nfor i in 1 2 3; do echo $i; read -r _ < /proc/uptime; sleep 0.05; done\n")
    here = stage({"one": {"command": [name]}})

    assert here.play(here.order("one", "go")).text == "1\n2\n3"
    assert here.progress.count("") >= 2  # what it says is kept for the end; that it says something is told


@pytest.mark.parametrize(
    "on_term, end",
    [
        ("echo wrapped up; exit 0", ("", "wrapped up", False)),
        ("echo half; exit 1", ("it took longer than 60 s", "half", True)),
        ("", ("it took longer than 60 s", "", True)),
    ],
    ids=["it wraps up", "it gives up", "it does not listen"],
)
def test_a_program_over_its_time_is_asked_to_end_and_then_ended(
    stage: Make, tmp_path: Path, on_term: str, end: tuple[str, str, bool]
) -> None:
    name = script(tmp_path, f"#!/bin/sh\ntrap '{on_term}' TERM\necho begun >&2\nsleep 1000 & wait\nwait\n")
    here = stage({"one": {"command": [name]}})
    order = here.order("one", "go")
    here.start(order)
    here.next()

    assert here.runner.wrap_up(order.job, order.turn)
    if not on_term:
        assert here.runner.stop(order.job, order.turn)
    ended = here.finish()

    assert (ended.fault, ended.text, ended.overtime) == end
    assert marked(order.job, order.turn) == []


@pytest.mark.parametrize("which", ["the launcher", "the program"])
def test_the_death_of_a_process_ends_the_turn_at_once(stage: Make, tmp_path: Path, which: str) -> None:
    name = script(tmp_path, "#!/bin/sh\necho begun >&2\nexec sleep 1000\n")
    here = stage({"one": {"command": [name]}})
    order = here.order("one", "go")
    here.start(order)
    here.next()
    eventually(lambda: any(command(pid).startswith("sleep\0") for pid in map(int, marked(order.job, order.turn))))

    alive = [int(pid) for pid in marked(order.job, order.turn)]
    inside = [pid for pid in alive if command(pid).startswith("sleep\0")]
    victim = inside[0] if which == "the program" else min(alive)
    os.kill(victim, signal.SIGKILL)

    ended = here.events.get(timeout=10)
    assert isinstance(ended, Ended)
    assert "it was killed by signal 9" in ended.fault or "it exited with 137" in ended.fault
    assert marked(order.job, order.turn) == []


def command(pid: int) -> str:
    """What a process runs."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
