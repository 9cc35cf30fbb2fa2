"""`answer`, `intervene`, `pause`, `resume`, `withdraw`, while a process owns the job and while none does."""

import json
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from parley.bus.sqlite.sqlite_store import SqliteStore
from tests.cli.home import BUSY, LEADS, Home, turn_processes, wait_for


@contextmanager
def busy(home: Home) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A job that two agents work on, and the process that owns it."""
    playbook = home.write("p.yaml", BUSY)
    with home.started("run", "work", "--playbook", playbook) as process:
        wait_for(lambda: (home.folder / ".parley" / "bus.db").exists() and home.jobs())
        job = home.jobs()[0]["id"]
        for name in ("begun.txt", "begun2.txt"):
            wait_for(lambda name=name: [*home.job_file(job, "trees").glob(f"*/{name}")])  # type: ignore[misc] # mypy infers no lambda with a default
        yield job, process


def threads(home: Home, job: str) -> dict[str, dict[str, Any]]:
    return {thread["agent"]: thread for thread in home.here("tree", job, "--json").document["threads"]}


def turns_on(home: Home, job: str, thread: str) -> list[str]:
    store = SqliteStore(home.folder / ".parley")
    found = [turn.turn for turn in store.turns(job) if turn.thread == thread]
    store.close()
    return found


def test_what_is_done_to_a_job_under_way(home: Home) -> None:
    with busy(home) as (job, process):
        wait_for(lambda: threads(home, job)["researcher"]["doing"] == "write begun.txt")
        seen = threads(home, job)
        assert seen["researcher"]["state"] == "running"
        assert seen["intent-lead"]["doing"] == "waits for 2 agents"
        assert home.run("ls").out.startswith("working\n")

        heard = home.here("intervene", job, "look here").out  # its lead is idle, and is woken with it
        assert heard.startswith(f"{job}: delivered to intent-lead on state:{job}/1 at ")
        thread = threads(home, job)["writer"]["id"]
        waits = home.here("intervene", job, "not yet", "--thread", thread)
        assert waits.out == f"{job}: left for writer on {thread}; it is delivered when the turn under way ends\n"
        said = {one["text"]: one["status"] for one in home.here("show", job, "--json").document["interventions"]}
        assert said == {"look here": "delivered", "not yet": "waiting"}
        wait_for(home.job_file(job, "work/heard.txt").exists)
        wait_for(lambda: home.jobs()[0]["needs_human"])
        assert home.here("answer", home.question()[:5], "go on").out.startswith("answered ")

        thread = threads(home, job)["writer"]["id"]
        (turn,) = turns_on(home, job, thread)
        assert turn_processes(job, turn)
        assert home.run("withdraw", job, "--thread", thread.partition(":")[2][:4], "not this").code == 0
        assert turn_processes(job, turn) == []
        assert threads(home, job)["writer"]["doing"] == "withdrawn"
        assert home.here("withdraw", job, "--thread", thread).out == f"{thread} has ended\n"

        assert home.here("pause", job).code == 0
        assert "is paused already" in home.here("pause", job).out
        assert home.run("ls").out.startswith("paused")
        assert home.here("resume", job).out == f"{job} goes on\n"

        assert "was left undelivered: it was withdrawn" in home.here("log", job).out
        assert "not delivered: it was withdrawn at " in home.here("show", job).out
        (need,) = [one for one in home.here("inbox", "--json").document["needs"] if one["kind"] == "undelivered"]
        assert need["exits"][0]["command"] == f"parley intervene {job} 'not yet'"
        assert "your words reached no agent" in home.here("inbox").out

        refused = home.refuses("withdraw", job, "--thread", f"state:{job}/1")
        assert "is where the job's INTENT is led, and the job can't go on without it; withdraw" in refused
        assert home.jobs()[0]["state"] == "INTENT"

        done = home.run("withdraw", job, "enough")
        assert (done.code, done.out) == (0, f"{job} is withdrawn\n")
        assert turn_processes(job) == []
        assert home.here("withdraw", job).code == 0  # again, and nothing happens
        ended = process.communicate(timeout=20)[0].rpartition(f"{job} WITHDRAWN")[2]
        assert process.returncode == 3
        ways = r"in mid-turn, at work since |with 1 message unread"  # as the owner ended it, or was too slow to
        assert re.search(rf"\nleft out: writer on {thread} was ended ({ways})", ended), ended
        assert "\nleft out: researcher on dispatch:" in ended
        assert "'s intervention 'not yet': not delivered: it was withdrawn at " in ended
        assert "look here" not in ended  # it was delivered
    assert home.here("audit", job).code == 0


def test_a_withdrawal_is_on_the_bus_before_the_engine_is_imported_and_only_once(home: Home) -> None:
    imported = "[name for name in sys.modules if 'parley.protocol' in name]"
    code = f"import sys, parley.cli.running.urgent_withdraw; print({imported})"
    light = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert light.stdout == "[]\n"
    with busy(home) as (job, _):
        assert home.run("withdraw", job[:5], "enough").out == f"{job} is withdrawn\n"
        assert home.run("withdraw", job, "again").out == f"{job} has ended: WITHDRAWN\n"
    with closing(sqlite3.connect(home.folder / ".parley/bus.db")) as bus:
        rows = bus.execute("SELECT key, body, taken > 0 FROM inputs WHERE kind = 'withdraw'").fetchall()
    assert rows == [(f"withdraw:job:{job}", json.dumps({"thread": f"job:{job}", "reason": "enough"}), 1)]


def test_a_job_without_an_owner_is_withdrawn_by_whoever_asks(home: Home) -> None:
    with busy(home) as (job, process):
        process.send_signal(signal.SIGKILL)
        process.wait()

        assert home.run("ls").out.startswith("interrupted (parley resume)")
        done = home.run("withdraw", job, "--json", "enough")

        assert done.document == {"id": job, "state": "WITHDRAWN", "note": f"{job} is withdrawn", "lost_hosts": []}
        assert turn_processes(job) == []
    log = home.here("log", job).out
    assert "INTENT -> WITHDRAWN (WITHDRAW): enough" in log
    assert home.here("audit", job).code == 0


def test_a_pause_holds_across_owners(asked: Home) -> None:
    job = asked.job()
    question = asked.question()

    assert asked.here("pause", job).code == 0
    asked.here("answer", question, "--approve")
    assert "nothing was interrupted" in asked.here("resume").out  # what somebody paused is not gone on with
    assert asked.jobs()[0]["state"] == "INTENT"
    assert asked.jobs()[0]["status"] == "paused"

    assert asked.run("resume", job).code == 4
    assert asked.jobs()[0]["state"] == "PLAN"


def test_an_intervention_waits_for_whoever_goes_on(asked: Home) -> None:
    job = asked.job()

    done = asked.here("intervene", job, "mind the gap", "--authoritative")
    assert "parley resume" in done.out
    asked.here("answer", asked.question(), "--approve")
    asked.run("resume", job)

    assert "[INTERVENE authoritative] mind the gap" in asked.here("log", job).out


def test_only_the_decider_decides(asked: Home) -> None:
    job = asked.job()
    with sqlite3.connect(asked.folder / ".parley" / "bus.db") as bus:
        bus.execute("UPDATE jobs SET decider = 'somebody else'")
    bus.close()

    said = asked.refuses("intervene", job, "do as I say", "--authoritative")

    assert "only somebody else, who started" in said
    assert asked.here("intervene", job, "if you please").code == 0


def test_what_can_not_be_steered(waiting: Home) -> None:
    job = waiting.jobs()[0]["id"]
    question = waiting.question()

    assert "there is nothing to say" in waiting.refuses("intervene", job, " ")
    assert "is a question" in waiting.refuses("intervene", job, "x", "--thread", question)
    assert "is a question" in waiting.refuses("withdraw", job, "--thread", f"escalation:{question}")
    assert "there is no thread 'dispatch:x'" in waiting.refuses("intervene", job, "x", "--thread", "dispatch:x")


def test_a_job_that_has_ended(asked: Home) -> None:
    job = asked.job()
    asked.here("answer", asked.question(), "--withdraw", "no")
    assert asked.run("resume", job).code == 3

    assert "has ended" in asked.refuses("intervene", job, "x")
    assert "has ended" in asked.refuses("pause", job)
    assert asked.here("withdraw", job).out == f"{job} has ended: WITHDRAWN\n"
    assert asked.here("resume", job).code == 3
    assert asked.here("resume").code == 0


def test_several_interrupted_jobs_are_gone_on_with_together(home: Home) -> None:
    jobs = [home.start(), home.start()]
    for _ in jobs:
        home.here("answer", home.question(), "--approve")

    done = home.run("resume", "--json")

    assert done.code == 4
    assert [job["state"] for job in done.document["jobs"]] == ["PLAN", "PLAN"]


def test_an_answer_may_go_back(home: Home) -> None:
    job = home.start("human: [{match: 'INTENT|PLAN', repeat: true, verdict: approve}]\n" + LEADS)

    done = home.here("answer", home.question(), "--backtrack", "plan", "look again")

    assert done.code == 0
    assert home.run("resume", job).code == 4
    document = home.here("show", job, "--json").document
    assert (document["state"], document["backtracks"]) == ("EXECUTE", 1)
