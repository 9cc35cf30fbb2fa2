"""A whole job by real Claude Codes, from a question to the user's checkout; then the same, killed again and again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tests.apis.messages import MessagesAPI
from tests.cli.home import Done, turn_processes, wait_for
from tests.jobs import cash_register_job
from tests.jobs.user_machine import KEY, SECONDS, UserMachine
from tests.workspaces.user_repository import git

KILLS = 4 if os.environ.get("PARLEY_SOAK") == "1" else 2
STATES = ["INTENT", "PLAN", "EXECUTE", "PLAN", "EXECUTE"]
ACTIONS = ["APPROVED_INTENT", "APPROVED_PLAN", "REPLAN", "APPROVED_PLAN", "APPROVED_WORK"]


def play(desk: UserMachine, *rules: dict[str, Any], proxy: bool = False) -> tuple[str, ...]:
    """The words that start the job, with a human who is played as far as the rules go."""
    book = desk.folder.parent / "human.yaml"
    book.write_text(cash_register_job.human(*rules, proxy=proxy), encoding="utf-8")
    return ("run", cash_register_job.REQUEST, "--agent", "claude", "--playbook", str(book))


def suite_of(desk: UserMachine) -> str:
    """What the user's own tests say of the checkout."""
    done = subprocess.run(
        [sys.executable, "-m", "unittest", "-q"], cwd=desk.folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def sound(desk: UserMachine, api: MessagesAPI) -> None:
    """What holds at any time: the record, the repository, nothing left running, and the key where it belongs."""
    job = desk.job()
    audited = desk.parley("audit", job)
    assert (audited.code, "the record is sound" in audited.out) == (0, True), audited
    assert turn_processes(job) == []
    assert git(desk.folder, "fsck", "--full", "--strict", "--no-dangling") == ""
    assert desk.holding(KEY) == []
    assert all(request.headers["x-api-key"] == KEY for request in api.requests)
    assert not any(KEY.encode() in request.body for request in (*api.requests, *api.asides))
    assert not any(
        KEY in value for request in api.requests for name, value in request.headers.items() if name != "x-api-key"
    )
    assert api.refused == []


def brought_home(desk: UserMachine, job: str, files: dict[str, str]) -> None:
    """`parley diff` shows it, `parley merge` brings it, and the user's tests pass."""
    shown = desk.parley("diff", job)
    assert shown.code == 0
    assert f"+{cash_register_job.BOTH[0]}" in shown.out
    assert "INTENT.md" not in shown.out
    merged = desk.parley("merge", job)
    assert merged.code == 0, merged
    assert re.match(rf"parley/the-till-shall-know-discounts-and-taxes-{job} is merged: \d files", merged.out), (
        merged.out
    )
    for name, text in files.items():
        assert (desk.folder / name).read_text(encoding="utf-8") == text
    assert git(desk.folder, "status", "--porcelain") == ""
    assert "Ran 3 tests" in suite_of(desk)


def test_a_request_becomes_a_branch_that_the_users_own_tests_pass(tmp_path: Path) -> None:
    desk = UserMachine(tmp_path / "repo")
    before, head = desk.users(), git(desk.folder, "rev-parse", "HEAD")
    both, told = threading.Event(), threading.Event()
    api: MessagesAPI

    def held() -> None:
        """The second coder is kept at work until the first is at work as well, and somebody has intervened."""
        wait_for(lambda: any(b"Part one" in request.body for request in api.of("coder")), SECONDS)
        both.set()
        assert told.wait(SECONDS)

    with MessagesAPI(cash_register_job.script(parts=3, held=held), key=KEY) as api:
        desk.log_in(api)
        asked = desk.parley(*play(desk))
        assert asked.code == 4, asked
        assert asked.err == ""
        assert re.match(
            r"agent: Claude Code 2\.1\.\d+, model: Claude Code's default, login: ANTHROPIC_API_KEY, "
            r"budget: 200 turns, 20\.00 USD\n",
            asked.out,
        )
        assert "Are discounts and taxes given in percent?" in asked.out
        job, (question,) = desk.job(), desk.parley("inbox", "--json").document["questions"]
        assert turn_processes(job) == []
        assert desk.parley("answer", question["id"], "Yes, in percent.").code == 0

        going = desk.begin("resume", job)
        assert both.wait(SECONDS)
        intervened = desk.parley("intervene", job, "Say what a price is.")
        assert intervened.code == 0, intervened
        told.set()
        done = desk.end(going)

        assert done.code == 0, done
        sound(desk, api)
    delivered(desk, job, asked, done)
    assert desk.users() == before
    assert git(desk.folder, "rev-parse", "HEAD") == head
    assert desk.hooked == ""
    told_of(desk, job, api)
    brought_home(desk, job, {**cash_register_job.RESULT, "README.md": cash_register_job.README})
    assert desk.hooked == ""  # a hook of the user's may run what an agent wrote


def delivered(desk: UserMachine, job: str, asked: Done, done: Done) -> None:
    """What was said at the end."""
    assert f"{job} DONE: approved by the human" in done.out
    assert re.search(r"till\.py +\+2 -2\n  4 files, 20 lines added, 2 removed", done.out), done.out
    assert re.search(r"2\d turns; tokens [\d,]+ in, [\d,]+ out; \d+\.\d\d USD", done.out), done.out
    assert "what was assumed\n  - No coins.\n" in done.out
    assert f"look at it: parley diff {job}\nmerge it: parley merge {job}\n" in done.out
    for said in (asked.out, asked.err, done.out, done.err):
        assert KEY not in said


def told_of(desk: UserMachine, job: str, api: MessagesAPI) -> None:
    """What the record tells of how it came about."""
    shown = desk.shown()
    (used,) = {str(request.document["model"]) for request in api.of("coder")}
    assert shown["model"] == used == shown["models"]["coder"] == shown["models"]["proxy"]
    assert f"agent      Claude Code, model: {used}\n" in desk.parley("show", job).out
    assert [entry["state"] for entry in shown["history"]] == STATES
    assert [entry["action"] for entry in shown["history"]] == ACTIONS
    assert shown["turns_lost"] == 0
    events = desk.parley("log", job, "--json").document["events"]
    texts = [re.sub(r"; question \w+\)", "; question Q)", event["text"]) for event in events]
    for told in (
        "[ANSWER] (from the human; question Q) Yes, in percent.",
        "[ANSWER revise] (from the human; question Q) Cents stay whole: say so.",
        "[ANSWER backtrack plan] (from the human; question Q) It matters: put it into the plan.",
        "[INTERVENE advisory] Say what a price is.",
        cash_register_job.ADVICE,
    ):
        assert told in texts
    reports = [text.partition("\n") for text in texts if text.startswith("[REPORT] coder on dispatch:")]
    assert [words for _, _, words in reports if words != "The README is done."] in (
        ["The discount is done.", "The tax is done."],
        ["The tax is done.", "The discount is done."],
    )
    assert {head.partition("(")[2].partition(";")[0] for head, _, _ in reports} == {
        "changed: test_discount.py, till.py",
        "changed: test_tax.py, till.py",
        "changed: README.md, test_tax.py, till.py",
    }
    (conflict,) = [text for text in texts if text.startswith("[MERGE conflict]")]
    assert "both changed till.py." in conflict
    assert cash_register_job.DISCOUNT[0] in conflict
    assert cash_register_job.TAX[0] in conflict
    assert not any(text.startswith(("[PENDING]", "[VIOLATION]", "[FAILED]")) for text in texts)
    fired = [(step.rule, step.who) for step in desk.steps()]
    # each question brings the proxy one turn, and the one answer in words without a verdict another
    assert (fired.count(("wake", "proxy")), fired.count(("escalate", "proxy"))) == (8, 7)
    verdicts = desk.left("boundary")
    assert len(verdicts) == shown["cost"]["turns"]
    assert all(verdict.ok and verdict.held == verdict.tried for verdict in verdicts)
    # a session goes on from turn to turn: the advice comes in the conversation of the task
    last = api.of("coder")[-1].document["messages"]
    assert "Part two" in str(last[0])
    tests = [request.body.decode() for request in api.requests if "Ran 3 tests" in request.body.decode()]
    assert tests, "the lead has run the tests of both, in the cage"
    own = desk.folder / ".parley" / "jobs" / job / "snapshots.git"
    subjects = git(own, "log", "--format=%s", "--branches=parley/*").splitlines()
    assert any(re.fullmatch(rf"coder on dispatch:\w+, turn t\d+ of job {job}", line) for line in subjects)
    assert sum(line.startswith("merge dispatch:") for line in subjects) == 2
    (branch,) = git(desk.folder, "for-each-ref", "--format=%(refname:short)", "refs/heads/parley").split()
    assert git(desk.folder, "log", "-1", "--format=%s", branch).strip() == cash_register_job.REQUEST


def gone(job: str) -> bool:
    return turn_processes(job) == []


def kill_in(going: subprocess.Popen[str], api: MessagesAPI, requests: int) -> None:
    """Kill it when so many more requests have come."""
    aim = len(api.requests) + requests
    wait_for(lambda: len(api.requests) >= aim or going.poll() is not None, SECONDS)
    assert going.poll() is None, going.communicate()
    going.send_signal(signal.SIGKILL)
    going.communicate()


def test_the_same_job_killed_again_and_again_comes_to_the_same_end(tmp_path: Path) -> None:
    """SIGKILL of the orchestrator while a request of some agent is under way, at moments that a seed gives."""
    desk = UserMachine(tmp_path / "repo")
    rng = Random("whole jobs, killed")
    with MessagesAPI(cash_register_job.script(), key=KEY) as api:
        desk.log_in(api)
        going = desk.begin(*play(desk, cash_register_job.PERCENT, proxy=True))
        for _ in range(KILLS):
            kill_in(going, api, rng.randint(5, 16))
            job = desk.job()
            wait_for(partial(gone, job), 10)  # the kernel ends them; nobody else is there to
            going = desk.begin("resume", job)
        done = desk.end(going)

        assert done.code == 0, done
        sound(desk, api)
    job = desk.job()
    shown = desk.shown()
    assert [entry["action"] for entry in shown["history"]] == ACTIONS
    lost = [step for step in desk.steps() if step.rule == "recover"]
    assert len(lost) >= KILLS, "a kill loses the turn that was under way, and it is given back"
    # a session goes on where the last turn that counted had left it: no task is told twice in one conversation
    told = str(api.of("project-lead")[-1].document["messages"])
    assert told.count("[EXECUTE] ") == 1
    assert told.count("The tax is done.") == 1
    assert desk.hooked == ""
    brought_home(desk, job, cash_register_job.RESULT)
