"""A whole job whose API fails in mid-turn: who waits is shown everywhere, and nothing is lost, done or asked twice."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from tests.apis.messages import Block, Fail, MessagesAPI, Script, Turn
from tests.apis.script import Use
from tests.jobs.cash_register_job import shell
from tests.jobs.user_machine import KEY, UserMachine

STEP = "echo step >> steps.txt"
DOWN = ": the API is down (502)"


def script(*trouble: Block) -> Script:
    asking = Use("AskQuestion", {"text": "Which one?"})
    return Script(
        {
            "intent-lead": [Turn(r"^\[INTENT\]", [shell(STEP), *trouble, shell(STEP), asking], repeat=True)],
            "proxy": [Turn(".", [Use("AskHuman", {"text": "Which one?"})])],
        }
    )


@contextmanager
def failing(folder: Path) -> Iterator[tuple[UserMachine, MessagesAPI, subprocess.Popen[str], float]]:
    """A job whose lead waits for its API within its turn; with when that API failed first."""
    with MessagesAPI(script(Fail(502)), key=KEY) as api:
        desk = UserMachine(folder / "repo")
        desk.log_in(api)
        job = desk.begin("run", "Do it", "--agent", "claude", "--policy", "always")
        try:
            deadline = time.monotonic() + 60
            while len(api.requests) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            yield desk, api, job, time.time() - (time.monotonic() - api.requests[1].time)
        finally:
            if job.poll() is None:
                job.kill()
            job.communicate()


def lines_until(stream: IO[str], text: str) -> list[str]:
    found: list[str] = []
    while text not in (found or [""])[-1]:
        found.append(stream.readline())
        assert found[-1], found
    return found


def test_who_waits_is_shown_everywhere_at_once_and_goes_on_where_it_was(tmp_path: Path) -> None:
    with failing(tmp_path) as (desk, api, job, failed):
        lines_until(cast("IO[str]", job.stdout), DOWN)
        name = desk.job()
        (hold, *_) = (step for step in desk.steps() if step.rule == "hold")
        assert hold.time - failed < 3.0
        (wait,) = desk.shown()["waits"]
        assert (wait["agent"], wait["reason"]) == ("intent-lead", "the API is down (502)")
        assert wait["until"] > failed
        for words in (("show", name), ("ls",), ("tree", name), ("log", name), ("inbox",), ("watch",)):
            told = desk.parley(*words).out
            assert re.search(rf"intent-lead .*retries .*{re.escape(DOWN)}", told), (words, told)
            assert "given up" not in told
        before = len(api.requests)
        api.script = script()

        done = desk.end(job)

        assert done.code == 4
        assert len(api.requests) - before <= 4  # the two that were left, the proxy's, and one while it was looked at
        assert (desk.folder / ".parley" / "jobs" / name / "work" / "steps.txt").read_text() == "step\n" * 2
        assert "recover" not in [step.rule for step in desk.steps()]
        assert desk.shown()["turns_lost"] == 0
        assert desk.parley("audit", name).code == 0


def test_an_engine_that_dies_loses_the_turn_that_waits_and_the_next_is_withdrawn_at_once(tmp_path: Path) -> None:
    with failing(tmp_path) as (desk, _, job, _):
        lines_until(cast("IO[str]", job.stdout), DOWN)
        job.kill()
        job.wait()
        name = desk.job()
        assert desk.shown()["waits"] == []

        again = desk.begin("resume", name)
        lines_until(cast("IO[str]", again.stdout), DOWN)
        begun = time.monotonic()
        withdrawn = desk.parley("withdraw", name)
        done = desk.end(again)

        assert (withdrawn.code, done.code) == (0, 3)
        assert time.monotonic() - begun < 15.0
        assert [step.rule for step in desk.steps()].count("recover") == 1
        assert desk.parley("audit", name).code == 0
