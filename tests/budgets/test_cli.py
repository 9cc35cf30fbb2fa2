"""Budgets from the command line: real processes, real agents of a playbook."""

from pathlib import Path

import pytest

from tests.cli.home import APPROVES, LEADS, PARLEY, Home, wait_for
from tests.cli.terminal import terminal

PLAY = LEADS + APPROVES
NEEDED = 9  # turns of this job


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.delenv("PARLEY_HOME", raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    return Home(folder)


def test_a_spent_budget_waits_for_the_human_and_is_raised(home: Home) -> None:
    done = home.run("run", "a request", "--playbook", home.write("p.yaml", PLAY), "--budget", "turns=5")
    (job,) = (job["id"] for job in home.jobs())
    assert done.code == 4
    held = (
        f"{job} is held, its budget is spent: 5 of 5 turns; "
        f"raise it: parley resume {job} --budget turns=+40, or give the job up: parley withdraw {job}"
    )
    assert done.out.splitlines()[-1] == held
    assert "the budget is nearly spent: 4 of 5 turns, with this turn" in done.out
    assert home.here("ls").out.splitlines()[0] == "needs you (parley inbox)"
    shown = home.here("show", job, "--json").document
    assert (shown["status"], shown["paused"], shown["needs_human"]) == ("needs you", False, 1)
    assert {"what": "turns", "scope": "job", "used": 5, "limit": 5.0} in shown["budget"]
    assert shown["exits"][0] == f"parley resume {job} --budget turns=+40"
    assert "5 of 5 turns  spent" in home.here("show", job).out
    (need,) = home.here("inbox", "--json").document["needs"]
    assert (need["kind"], need["exits"][0]["command"]) == ("budget", f"parley resume {job} --budget turns=+40")

    assert home.refuses("resume", job, code=4) == f"parley: {held}"
    assert "there is no budget tokens that could be raised; set one: tokens=5" in home.refuses(
        "resume", job, "--budget", "tokens=+5"
    )
    assert "it must be a whole number above 0" in home.refuses("resume", job, "--budget", "turns=+-5")
    assert "has used 5 turns already; name more than that: turns=…" in home.refuses(
        "resume", job, "--budget", "turns=4"
    )
    assert "these are held, name one to go on" in home.here("resume").out

    assert home.run("resume", job, "--budget", f"turns={NEEDED}").code == 0
    assert home.here("audit", job).code == 0
    assert [turn["used"] for turn in home.here("show", job, "--json").document["budget"]] == [NEEDED, 0]


def test_a_budget_is_raised_while_another_process_owns_the_job(home: Home) -> None:
    playbook = home.write("p.yaml", PLAY)
    home.write("parley.toml", "[budget.job]\nturns = 3\n")
    job = home.run("run", "a request", "--playbook", playbook, "--detach", "--yes").out.strip()
    wait_for(lambda: home.jobs()[0]["status"] == "needs you")
    assert home.jobs()[0]["owned"]

    assert home.here("resume", job, "--budget", "turns=+1").out == f"{job}: the budget is now 3 of 4 turns\n"
    wait_for(lambda: home.jobs()[0]["status"] == "needs you")
    home.here("resume", job, "--budget", "turns=+40")
    wait_for(lambda: home.jobs()[0]["status"] == "done")
    assert "has ended: DONE" in home.here("resume", job, "--budget", "turns=+1").out


def test_a_days_budget_is_shared_by_all_jobs_of_a_home(home: Home) -> None:
    home.write("parley.toml", "[budget.day]\nturns = 14\n")
    first, second = home.start(PLAY), home.start(PLAY)
    found = {job["id"]: job for job in home.jobs()}

    assert found[first]["state"] == "DONE"
    assert found[second]["status"] == "needs you"
    shown = home.here("show", second, "--json").document
    assert {"what": "turns", "scope": "day", "used": 14, "limit": 14.0} in shown["budget"]
    assert "14 of 14 turns today, in all jobs" in home.refuses("resume", second, code=4)
    assert home.run("resume", second, "--budget", "day.turns=+40").code == 0


def test_usage_is_counted(home: Home) -> None:
    played = PLAY.replace(
        "[{write: {path: INTENT.md", "[{usage: {input_tokens: 900, cost: 0.5}}, {write: {path: INTENT.md"
    )
    job = home.start(played, "--budget", "tokens=900,money=2")
    shown = home.here("show", job, "--json").document

    assert [(line["what"], line["used"]) for line in shown["budget"]][:2] == [("money", 0.5), ("tokens", 900)]
    assert shown["status"] == "needs you"
    assert shown["cost"] == {"turns": 1, "cost_usd": 0.5, "input_tokens": 900}


def test_a_job_has_a_budget_from_the_start_and_its_limit_can_be_taken_away(home: Home) -> None:
    job = home.start(PLAY.replace(APPROVES, ""))
    assert {"what": "turns", "scope": "job", "used": 2, "limit": 200.0} in home.here("show", job, "--json").document[
        "budget"
    ]

    assert home.run("resume", job, "--budget", "turns=none").code == 4
    assert [line["what"] for line in home.here("show", job, "--json").document["budget"]] == ["parallel"]
    assert home.here("audit", job).code == 0


def test_in_the_live_view_a_key_raises_a_budget_that_is_spent(home: Home) -> None:
    words = ["run", "a request", "--playbook", home.write("p.yaml", PLAY), "--budget", "turns=5"]
    with terminal([str(PARLEY), *words], home.folder, home.env()) as screen:
        screen.wait_for("b raise the budget")
        screen.type("b")
        screen.wait_for("turns=+40")
        screen.type("\n")
        assert screen.end() == 0
