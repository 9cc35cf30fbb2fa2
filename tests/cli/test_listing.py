"""`ls`, `show`, `tree`, `log`, `inbox`, `doctor`: what people and programs read of jobs."""

import json
import re
from typing import Any

import pytest

from tests.cli.home import APPROVES, LEADS, Home

LISTED = {
    "id", "request", "continues", "state", "phase", "status", "visit", "backtracks", "needs_human", "stalled", "waits",
    "paused", "owned", "agent", "decider", "people", "created", "updated", "seconds", "threads", "cost",
}  # fmt: skip
SHOWN = LISTED | {
    "turns_lost", "refused", "steps", "messages", "history", "questions", "policies", "result", "folder", "delivery",
    "exits", "situations", "abandoned", "answers", "budget", "model", "models",
    "interventions", "unfinished", "widenings", "former", "hosts", "lost_hosts",
}  # fmt: skip
THREAD = {"id", "agent", "parent", "state", "doing", "since", "last_progress", "waits", "mail", "workspace", "host"}
QUESTION = {
    "id", "job", "state", "kind", "artifact", "asker", "thread", "workspace", "time", "text", "body", "backtracks",
    "stat", "diff", "choices", "words", "gives_up", "unfinished",
}  # fmt: skip


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """One job that is done, one that waits, one that is paused; for tests that change nothing."""
    home = Home(tmp_path_factory.mktemp("several"))
    home.start(
        APPROVES.replace("repeat: true, verdict: approve", "verdict: approve, state: INTENT")
        + "  - {match: '.', state: EXECUTE, visit: 1, verdict: backtrack plan, text: 'think again'}\n"
        + "  - {match: '.', repeat: true, verdict: approve, text: 'yes'}\n"
        + LEADS
    )
    home.start()
    paused = home.start()
    home.here("pause", paused)
    return home


def by_status(home: Home) -> dict[str, dict[str, Any]]:
    return {job["status"]: job for job in home.jobs()}


def test_ls_is_grouped_and_says_what_to_do(several: Home) -> None:
    done = several.run("ls")

    groups = [line for line in done.out.splitlines() if line and not line.startswith(" ")]
    assert groups == ["needs you (parley inbox)", "finished"]
    assert done.out.count("a request") == 3


def test_ls_json(several: Home) -> None:
    jobs = several.jobs()

    assert [set(job) for job in jobs] == [LISTED] * 3
    assert [job["state"] for job in jobs] == ["DONE", "INTENT", "INTENT"]
    assert jobs[0]["cost"]["turns"] > 0
    assert [thread["agent"] for thread in jobs[1]["threads"]] == ["orchestrator", "intent-lead", "proxy"]
    assert all(set(thread) == THREAD for thread in jobs[1]["threads"])
    assert [job["paused"] for job in jobs] == [False, False, True]


def test_ls_where_there_is_nothing_makes_nothing(home: Home) -> None:
    assert home.here("ls", "--json").document["jobs"] == []
    assert "start one with" in home.here("ls").out
    assert not (home.folder / ".parley").exists()


def test_show(several: Home) -> None:
    done, waiting, paused = (job["id"] for job in several.jobs())

    text = several.run("show", done).out
    assert "EXECUTE  REPLAN by project-lead: planned badly" in text
    assert "backtracks 1" in text
    assert f"parley audit {done}" in text
    assert f"parley withdraw {waiting}" in several.here("show", waiting).out
    assert f"parley resume {paused}" in several.here("show", paused).out


def test_show_json(several: Home) -> None:
    for job in several.jobs():
        document = several.here("show", job["id"], "--json").document
        assert set(document) == SHOWN
        assert document["exits"]
        asked = {f"parley answer {question['id']} --approve" for question in document["questions"]}
        assert asked == {command for command in document["exits"] if command.endswith(" --approve")}
        assert all(set(question) == QUESTION for question in document["questions"])


def test_tree_has_those_that_have_ended_too(several: Home) -> None:
    done = several.jobs()[0]["id"]

    threads = several.here("tree", done, "--json").document["threads"]
    text = several.here("tree", done).out

    assert threads[0]["id"] == f"job:{done}"
    assert {thread["state"] for thread in threads} == {"ended"}
    assert [thread["agent"] for thread in threads if thread["depth"] == 1] == [
        "intent-lead",
        *["project-lead"] * 4,
    ]
    assert "ended by a backtrack" in text


def test_log_tells_every_message_in_order(several: Home) -> None:
    done = several.jobs()[0]["id"]

    events = several.here("log", done, "--json").document["events"]
    text = several.here("log", done).out

    assert events[0]["text"] == "a request"
    moves = [event["text"] for event in events if event["kind"] == "transition"]
    assert [move.split(" (")[0] for move in moves] == [
        "INTENT -> PLAN", "PLAN -> EXECUTE", "EXECUTE -> PLAN", "PLAN -> EXECUTE", "EXECUTE -> DONE",
    ]  # fmt: skip
    assert "== EXECUTE -> PLAN (REPLAN): planned badly" in text
    assert text.index("[PLAN]") > text.index("== INTENT -> PLAN")


def test_log_of_one_thread(several: Home) -> None:
    done = several.jobs()[0]["id"]

    events = several.here("log", done, "--json", "--thread", f"state:{done}/1").document["events"]

    assert events
    assert {event["from"] for event in events} <= {"orchestrator", "intent-lead", "proxy"}
    assert "there is no thread 'dispatch:x'" in several.refuses("log", done, "--thread", "dispatch:x")


def test_log_follow_ends_with_the_job(several: Home) -> None:
    done = several.jobs()[0]["id"]

    assert several.run("log", done, "--follow").out == several.here("log", done).out
    lines = several.run("log", done, "--follow", "--json").out.splitlines()
    assert json.loads(lines[0])["text"] == "a request"


def test_inbox(several: Home) -> None:
    questions = several.here("inbox", "--json").document["questions"]
    text = several.run("inbox").out

    assert len(questions) == 2
    assert all(set(question) == QUESTION | {"file", "answers"} for question in questions)
    assert f"parley answer {questions[0]['id']} --approve" in text
    assert questions[0]["file"].endswith(f"asked/{questions[0]['id']}/INTENT.md")
    assert questions[0]["backtracks"] == []


def test_an_empty_inbox(home: Home) -> None:
    assert home.here("inbox").out == "nothing waits for you\n"


def test_doctor(several: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-any")
    done = several.run("doctor", "--json")

    checks = {check["name"]: check for check in done.document["checks"]}
    assert done.code == 0
    assert done.document["checks"][0]["name"] == "agent"
    assert {"python", "git", "sqlite", "threads", "home", "filesystem", "disk", "durability", "terminal"} <= set(checks)
    assert checks["bus"]["found"] == "3 jobs"
    lines = several.here("doctor").out
    assert "ok    python" in lines
    assert re.search(r"^ok    parley +[\d.]+, installed by ", lines, re.MULTILINE)


def test_doctor_finds_what_is_wrong(home: Home) -> None:
    home.write("parley.toml", "[nonsense]\n")

    done = home.here("doctor")

    assert done.code == 1
    assert "FAIL  settings" in done.out


def test_ids_may_be_shortened(several: Home) -> None:
    ids = [job["id"] for job in several.jobs()]
    length = next(n for n in range(1, 9) if len({name[:n] for name in ids}) == len(ids))

    assert several.here("show", ids[0][:length], "--json").document["id"] == ids[0]


def test_texts_can_not_command_the_terminal(home: Home) -> None:
    playbook = home.write("p.yaml", LEADS.replace('"right?"', r'"right? \e[2J\a"'))

    said = home.run("run", "clear\x1b[2J the screen", "--playbook", playbook)

    assert "\x1b" not in said.out
    assert "\x1b" not in home.here("ls").out + home.here("inbox").out
    assert "\x1b" not in home.here("log", home.jobs()[0]["id"]).out
    assert "\x1b" not in home.here("show", home.jobs()[0]["id"]).out
