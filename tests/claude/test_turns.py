"""Turns of the real CLI behind the real boundary."""

from tests.apis.messages import Say, Turn, Use
from tests.claude.conftest import Perform


def test_a_turn_writes_runs_sends_and_ends_with_its_text(perform: Perform) -> None:
    stage = perform(
        Turn(
            "hello",
            [
                Use("Write", lambda _: {"file_path": f"{stage.workspace}/a.txt", "content": "one\n"}),
                Use("Bash", {"command": "cat a.txt && pwd && id -u"}),
                Use("Send", {"to": "tester", "text": "look at a.txt"}),
                Say("all done"),
            ],
        )
    )

    ended = stage.play("hello", lambda call: (True, f"{call.tool} taken on dispatch:d9"))

    assert (ended.fault, ended.text) == ("", "all done")
    assert (stage.workspace / "a.txt").read_text() == "one\n"
    assert [(call.tool, dict(call.arguments), call.number, call.token) for call in stage.calls] == [
        ("Send", {"to": "tester", "text": "look at a.txt"}, 1, "token1")
    ]
    written, shown, sent = stage.results()
    assert "created" in written
    assert shown.splitlines()[:2] == ["one", str(stage.workspace)]
    assert sent == "Send taken on dispatch:d9"
    assert ended.boundary["ok"] is True
