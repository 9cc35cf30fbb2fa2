"""What a hostile agent tries: each is refused or contained."""

import json
import os
from pathlib import Path

import pytest

from parley.ports.turns import Bind, Claim, Site
from parley.runners.claude import instance
from tests.apis.messages import Turn
from tests.apis.script import Say, Use
from tests.claude.claude_harness import KEY, ROLE
from tests.claude.conftest import Perform

ENDLESS = "tail -f /dev/null -s 62.75"


def test_the_pre_tool_check_refuses_what_lies_outside(perform: Perform, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    wanted = {
        "above": "{w}/../above.txt",
        "beside": "{w}/../beside/x",
        "system": "/etc/planted",
        "link": "{w}/link",
        "through": "{w}/up/planted",
        "home": str(tmp_path / "home/x"),
        "git": "{w}/.git/hooks/pre-commit",
        "role": "{w}/.claude/settings.json",
        "sealed": "{w}/INTENT.md",
    }
    stage = perform(
        Turn(
            "go",
            lambda _: [
                *(
                    Use("Write", {"file_path": path.format(w=stage.workspace), "content": "x"})
                    for path in wanted.values()
                ),
                Use("Read", {"file_path": f"{stage.workspace}/link"}),
                Use("Read", {"file_path": "/etc/shadow"}),
                Use("Bash", {"command": "true", "run_in_background": True}),
                Say("end"),
            ],
        )
    )
    sealed = stage.workspace / "INTENT.md"
    sealed.write_text("approved")
    (stage.workspace / "link").symlink_to(outside)
    (stage.workspace / "up").symlink_to("..")

    ended = stage.play("go", site=Site(str(stage.workspace), binds=(Bind(str(sealed), str(sealed)),)))

    assert ended.text == "end"
    refused = stage.results()
    assert len(refused) == len(wanted) + 3
    for text in refused[:6]:
        assert "is outside your workspace" in text
    for text in refused[6:9]:
        assert "not yours to change" in text
    for text in refused[9:11]:
        assert "is outside your workspace" in text
    assert "nothing may outlive your turn" in refused[11] or "run_in_background" in refused[11]
    assert len(ended.refusals) >= len(wanted) + 2
    assert outside.read_text() == "mine"
    assert sealed.read_text() == "approved"
    assert {path.name for path in tmp_path.iterdir()} == {"work", "home", "outside.txt"}


def test_what_another_worker_owns_is_refused_with_its_owner_and_the_rule(perform: Perform) -> None:
    stage = perform(
        Turn(
            "go",
            [
                Use("Write", {"file_path": "db/schema.sql", "content": "x"}),
                Use("Write", {"file_path": "web/out/schema.sql", "content": "x"}),
                Use("Write", {"file_path": "web/page.html", "content": "mine"}),
                Say("end"),
            ],
        )
    )
    for name in ("db", "web"):
        (stage.workspace / name).mkdir()
    (stage.workspace / "web/out").symlink_to("../db")
    stage.boundary.hand_over(stage.workspace)
    claims = (Claim("web", ("web/**",)), Claim("database_agent", ("db/**",)))

    ended = stage.play("go", site=Site(str(stage.workspace), worker="web", claims=claims))

    refused = "db/schema.sql belongs to database_agent (rule: database_agent owns db/**)"
    assert [refused in text for text in stage.results()] == [True, True, False]
    assert len(ended.refusals) == 2
    assert not (stage.workspace / "db/schema.sql").exists()
    assert (stage.workspace / "web/page.html").read_text() == "mine"


def test_a_check_that_itself_fails_says_no(perform: Perform, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(instance, "check", broken)
    stage = perform(
        Turn("go", [Use("Bash", {"command": "touch ran"}), Use("Send", {"to": "a", "text": "b"}), Say("end")])
    )

    ended = stage.play("go")

    assert ended.text == "end"
    assert all("the check of this call failed, so the answer is no" in text for text in stage.results())
    assert not (stage.workspace / "ran").exists()
    assert stage.calls == []


def test_a_check_that_raises_past_its_own_guard_says_no_too(perform: Perform, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(instance.Instance, "_check", broken)
    stage = perform(Turn("go", [Use("Bash", {"command": "touch ran"}), Say("end")]))

    assert stage.play("go").text == "end"
    assert not (stage.workspace / "ran").exists()


def test_only_the_role_s_tools_are_there(perform: Perform) -> None:
    stage = perform(
        Turn(
            "go",
            [Use("Bash", {"command": "touch ran"}), Use("WebFetch", {"url": "http://x"}), Use("Task", {}), Say("end")],
        )
    )

    role = {**ROLE, "tools": ["Read", "Grep", "WebFetch", "Task", "Agent", "Monitor", "KillShell", "Send"]}
    stage.play("go", role=json.dumps(role), tools=("Send",))

    assert sorted(stage.api.requests[0].tools) == ["Grep", "Read", "mcp__p__Send"]
    assert all("No such tool available" in text for text in stage.results())
    assert not (stage.workspace / "ran").exists()


def test_the_key_is_nowhere_inside_and_the_gateway_tells_nothing(perform: Perform) -> None:
    look = (
        "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; grep -rs sk-planted / --include=* -l"
        " --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr --exclude-dir=opt 2>/dev/null | head;"
        " curl -s -m 5 http://127.0.0.1:3128/v1/messages -d '{}' -D -; curl -s -m 5 http://127.0.0.1:3128/v1/other;"
        " echo looked"
    )
    stage = perform(Turn("go", [Use("Bash", {"command": look, "timeout": 20000}), Say("end")]))

    ended = stage.play("go")

    (seen,) = stage.results()
    assert "looked" in seen
    assert "the way out: GET /v1/other: GET /v1/other is not on the list of paths" in ended.refusals
    assert "ANTHROPIC_API_KEY=outside" in seen
    assert KEY not in seen
    assert all(request.headers["x-api-key"] == KEY for request in stage.api.requests)
    assert not any(KEY in path.read_text(errors="replace") for path in stage.home.rglob("*") if path.is_file())


def test_a_subscription_s_token_stays_outside_too(perform: Perform) -> None:
    stage = perform(Turn("go", [Use("Bash", {"command": "env"}), Say("end")]), subscription=True)
    del stage.environment["ANTHROPIC_API_KEY"]
    stage.environment["CLAUDE_CODE_OAUTH_TOKEN"] = KEY

    ended = stage.play("go")

    assert (ended.fault, ended.text) == ("", "end")
    assert KEY not in stage.results()[0]
    assert all(request.headers["authorization"] == f"Bearer {KEY}" for request in stage.api.requests)
    assert all("oauth" in request.headers["anthropic-beta"] for request in stage.api.requests)


def test_what_a_turn_leaves_running_is_gone_when_it_ends(perform: Perform) -> None:
    command = f"(setsid {ENDLESS} >/dev/null 2>&1 &); nohup {ENDLESS} >/dev/null 2>&1 & disown; echo left"
    stage = perform(Turn("go", [Use("Bash", {"command": command}), Say("end")]), Turn("on", [Say("still here")]))

    ended = stage.play("go")

    assert "left" in stage.results()[0]
    assert ended.text == "end"
    assert stage.processes(ENDLESS) == []
    assert stage.play("on").text == "still here"


def test_a_home_full_of_traps_is_neither_read_nor_written_through(perform: Perform, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("untouched")
    stage = perform(
        Turn("first", [Use("Bash", {"command": "true"}), Say("one")]), Turn("second", [Say("two")], repeat=True)
    )
    stage.play("first")
    stage.runner.rest(stage.job)
    (session,) = stage.home.rglob("*.jsonl")
    session.unlink()
    session.symlink_to(target)
    (stage.home / "scratch.md").symlink_to(target)
    os.mkfifo(stage.home / "interrupted.json")

    handle = json.loads(stage.handle) | {"context": 0.9, "size": 3}
    ended = stage.play("second", handle=json.dumps(handle))

    assert (ended.fault, ended.text) == ("", "two")
    assert target.read_text() == "untouched"
    assert "untouched" not in json.dumps(stage.api.requests[-1].document)
