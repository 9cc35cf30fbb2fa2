"""Two people who act at the same moment: one counts, and the other is told who was first and what became of it."""

from __future__ import annotations

import html
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

import pytest

from parley.engine.values.people import May
from tests.cli.home import APPROVES, LEADS, Home
from tests.web.page_harness import HELLO, Server, question_of, serve, start_job, without_human
from tests.web.raw_http import Answer, Client, holder, key_of, own_home

NAMES = ("ann", "ben")


@dataclass
class Stage:
    """A server that runs jobs, and two people who decide."""

    home: Home
    server: Server
    people: tuple[Client, Client]

    def both(self, path: str, fields: Callable[[int], dict[str, str]]) -> list[Answer]:
        """Send a form of each person at the same moment."""
        with ThreadPoolExecutor(2) as pool:
            sent = [
                pool.submit(one.post, path, fields(number), HX_Request="true") for number, one in enumerate(self.people)
            ]
            return [one.result() for one in sent]

    def path(self, job: str, *more: str) -> str:
        return "/".join((f"/r/{key_of(self.home)}/{job}", *more))

    def inputs(self, job: str, kind: str) -> list[tuple[str, str]]:
        with closing(sqlite3.connect(self.home.folder / ".parley" / "bus.db")) as bus:
            return bus.execute("select by, body from inputs where job = ? and kind = ?", (job, kind)).fetchall()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Two people of one server."""
    home = own_home(tmp_path_factory.mktemp("at-once"))
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("PARLEY_HOME", raising=False)
        for name, value in home.environment.items():
            patched.setenv(name, value)
        with serve(home) as server:
            yield Stage(
                home, server, (holder(home, server, NAMES[0], May.DECIDE), holder(home, server, NAMES[1], May.DECIDE))
            )


def told(answers: list[Answer]) -> tuple[str, str]:
    """What the person is told whose word counted, and what the other one."""
    assert all(one.status < 500 for one in answers), answers
    good = [json.loads(one.header("hx-trigger"))["note"]["words"] for one in answers if one.header("hx-trigger")]
    bad = [html.unescape(one.text) for one in answers if not one.header("hx-trigger")]
    assert (len(good), len(bad)) == (1, 1), (good, bad)
    assert "That was not possible" in bad[0]
    return good[0], bad[0]


def test_of_two_answers_one_counts_and_the_other_person_is_told_whose(stage: Stage) -> None:
    job = start_job(stage.home, LEADS, "two answers")
    question = question_of(stage.home, job)
    page = stage.people[0].get(stage.path(job, "q", question)).text
    framing = re.search(r'name="framing"[^>]*value="([^"]*)"', page)
    assert framing, page
    answers = stage.both(
        stage.path(job, "q", question),
        lambda one: {"choice": "r", "framing": framing[1], "text": f"words of {NAMES[one]}"},
    )

    _, late = told(answers)
    [(first, said)] = stage.inputs(job, "answer")
    assert f"words of {first}" in said
    assert f"revise, by {first}" in late


def test_of_two_withdrawals_one_counts_and_the_other_person_is_told_whose(stage: Stage) -> None:
    job = start_job(stage.home, LEADS, "two withdrawals")
    _, late = told(stage.both(stage.path(job, "do/withdraw"), lambda one: {"text": f"the reason of {NAMES[one]}"}))

    [(first, said)] = stage.inputs(job, "withdraw")
    assert f"the reason of {first}" in said
    assert f"withdrawn by {first}" in late
    assert f"the reason of {first}" in late
    assert stage.home.run("audit", job).code == 0


def test_a_budget_is_not_raised_twice_by_two_who_see_it_spent(stage: Stage) -> None:
    job = start_job(stage.home, LEADS, "two raises", "--budget", "turns=1")
    dialog = stage.people[0].get(stage.path(job, "do/raise")).text
    seen = re.search(r'name="seen" value="([^"]*)"', dialog)
    assert seen, dialog
    _, late = told(stage.both(stage.path(job, "do/raise"), lambda one: {"budget": "turns=+40", "seen": seen[1]}))

    [(first, said)] = stage.inputs(job, "resume")
    assert "+40" in said
    assert f"{first} has raised it (turns=+40)" in late


def test_of_two_merges_one_is_made_and_the_other_person_is_told(stage: Stage) -> None:
    job = start_job(stage.home, APPROVES + without_human(HELLO), "two merges")
    made, late = told(stage.both(stage.path(job, "do/merge"), lambda one: {}))

    assert "is merged" in made
    assert "is merged already" in late
