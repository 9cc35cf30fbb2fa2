"""Jobs are answered, told, paused and withdrawn by keys, and what became of it is on the screen."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.cli.home import APPROVES, BUSY, LEADS, Home, owner_of, turn_processes, wait_for
from tests.tui.watch_harness import detach, state_of, watching

MADE = '{write: {path: made.txt, text: "made"}}, {write: {path: WORK_SUMMARY.md, text: "work"}}'


def test_a_job_is_approved_to_its_end(home: Home) -> None:
    job = detach(home, LEADS, "Count the words of a file")

    with watching(home) as screen:
        screen.wait_for("approve INTENT.md? right?")
        screen.type("a")
        screen.wait_for("intent-lead asks (INTENT, INTENT.md)")
        screen.type("v")
        screen.wait_for("INTENT.md:")
        screen.type("q")
        screen.wait_for("[INTENT] > PLAN > EXECUTE")
        screen.type("a")
        screen.wait_for("approve>")
        screen.wait_for("Enter sends; words are optional")
        screen.type("go on\r")
        screen.wait_for("INTENT > [PLAN] > EXECUTE")
        screen.wait_for(": approve. go on")
        screen.wait_for("i back to intent")
        screen.type("y")
        screen.wait_for("y does nothing here; ? shows the keys")
        screen.type("rmore detail")
        screen.wait_for("revise> more detail")
        screen.type("\x1b")
        screen.wait_for("nothing was sent")
        screen.type("a\r")
        screen.wait_for("project-lead asks (EXECUTE, WORK_SUMMARY.md)")
        screen.type("a\r")
        screen.wait_for("EXECUTE > [DONE]")
        screen.type("c")
        seen = screen.wait_for("work of")
        assert "all good" in seen
        screen.type("\t")
        seen = screen.wait_for("work of intent-lead")
        assert "PLAN" not in seen
        screen.type("qq")
        screen.wait_for("── done (1) ")
        screen.type("q")
        assert screen.end() == 0
    assert state_of(home, job) == "DONE"


def test_a_team_is_told_paused_and_withdrawn(home: Home) -> None:
    job = detach(home, BUSY)
    wait_for(lambda: list(Path(home.folder).rglob("begun2.txt")))

    with watching(home) as screen:
        screen.wait_for("(and 1 more at work)")
        screen.type("z")
        screen.wait_for(f"{job} is paused: z goes on")
        screen.wait_for("── paused (1) ")
        screen.type("z")
        screen.wait_for(f"{job} goes on")
        screen.wait_for("── working (1) ")

        screen.type("\r")
        screen.wait_for("* researcher")
        screen.type("s\t")
        screen.wait_for("tell the team [at once]>")
        screen.type("\t")
        screen.wait_for("[with authority, at the turn's end]")
        screen.type("\t\tlook here\r")
        screen.wait_for("intervenes: look here")
        screen.wait_for("intent-lead asks (INTENT)")

        screen.type("jj")
        screen.wait_for("▸  * researcher")
        screen.wait_for("x withdraw researcher")
        screen.type("xdone with it\r")
        screen.wait_for("withdraw researcher and all that works for it for good? type yes")
        screen.type("yes\r")
        wait_for(lambda: screen.read(0.05) and "* researcher" not in screen.screen())
        wait_for(lambda: screen.read(0.05) and screen.screen().rstrip().endswith("is withdrawn"))

        screen.type("x")
        screen.wait_for(f"withdraw {job}; why>")
        screen.type("enough\r")
        screen.wait_for(f"type yes or {job[:4]}>")
        screen.type("no\r")
        screen.wait_for("nothing was withdrawn")
        screen.type(f"xenough\r{job[:4]}\r")
        screen.wait_for(f"{job} is withdrawn")
        screen.wait_for("[WITHDRAWN]")
    assert state_of(home, job) == "WITHDRAWN"
    assert turn_processes(job) == []


def test_an_answer_starts_a_process_where_none_works_on_the_job(home: Home) -> None:
    job = home.start(LEADS)

    with watching(home) as screen:
        screen.wait_for("z go on")
        screen.type("a")
        screen.wait_for("a approve")
        screen.type("a\r")
        screen.wait_for(f"{job}: no process works on it; starting one")
        screen.wait_for(f"{job}: answered, approve")
        screen.wait_for("project-lead asks (PLAN, PLAN.md)")
        screen.type("z")
        screen.wait_for(f"{job} is paused: z goes on")
        os.kill(owner_of(job), signal.SIGKILL)
        wait_for(lambda: not home.jobs()[0]["owned"])
        screen.type("a\r")
        screen.wait_for(f"kept for {job}, which is paused: z goes on")
        screen.type("z")
        screen.wait_for("project-lead asks (EXECUTE, WORK_SUMMARY.md)")
        screen.type("wnot worth it\r")
        screen.wait_for("give up the whole job")
        screen.type("yes\r")
        screen.wait_for(f"{job}: answered, withdraw")
        screen.wait_for("[WITHDRAWN]")
    assert state_of(home, job) == "WITHDRAWN"


def test_an_answer_that_comes_too_late_says_so(home: Home) -> None:
    job = detach(home, LEADS)
    other = home.start(LEADS)

    with watching(home) as screen:
        screen.wait_for("needs you (2)")
        screen.type("\r")
        screen.wait_for(f" {job} ")
        screen.type("afine, go on")
        screen.wait_for("approve> fine, go on")
        assert home.here("withdraw", job).code == 0
        screen.wait_for("[WITHDRAWN]")
        screen.type("\r")
        screen.wait_for("too late: question ")
        screen.wait_for("withdrew the job at ")

        screen.type("q")
        screen.wait_for("needs you (1)")
        screen.type("g")
        screen.wait_for(f"▸ {other}")
        screen.type("a")
        screen.wait_for("a approve")
        screen.type("amy word")
        screen.wait_for("approve> my word")
        assert home.here("answer", home.question(), "--approve").code == 0
        screen.type("\r")
        screen.wait_for("was answered before: approve, by ")


def test_what_is_pasted_gives_no_orders_and_what_nobody_works_on_is_withdrawn_all_the_same(home: Home) -> None:
    job = home.start(LEADS)

    with watching(home) as screen:
        screen.type("\x1b[200~xgone\ryes\r\x1b[201~")
        screen.wait_for("pasted text is ignored here")
        screen.type("\ra\x1b[200~first line\rsecond line\x1b[201~")
        screen.wait_for("approve> first line\n  second line_")
        screen.type("\x1b")
        screen.wait_for("nothing was sent")
        assert state_of(home, job) == "INTENT"
        assert len(home.here("inbox", "--json").document["questions"]) == 1

        screen.type("q")
        screen.wait_for("q quit")
        screen.type("xgive it up\r")
        screen.wait_for("type yes or")
        screen.type("yes\r")
        screen.wait_for(f"{job} is withdrawn")
        screen.wait_for("── done (1) ")
        screen.type("z")
        screen.wait_for(f"{job} has ended (WITHDRAWN)")
    assert home.here("audit", job).code == 0


def test_what_a_key_was_answered_stays_when_news_of_an_earlier_one_comes(home: Home) -> None:
    job = detach(home, LEADS)
    owner = owner_of(job)

    with watching(home) as screen:
        screen.wait_for("a answer")
        screen.type("a")
        screen.wait_for("intent-lead asks (INTENT, INTENT.md)")
        os.kill(owner, signal.SIGSTOP)
        try:
            screen.type("a\r")
            screen.wait_for(f"{job}: answering")
            screen.type("b")
            screen.wait_for(f"no budget of {job} is spent")
        finally:
            os.kill(owner, signal.SIGCONT)
        seen = screen.wait_for(f"{job}: answered, approve")
        assert f"no budget of {job} is spent" in seen
        assert f"{job}: answering" not in seen


def test_a_budget_that_is_spent_is_raised(home: Home) -> None:
    detach(home, LEADS, "a request", "--budget", "turns=2")

    with watching(home) as screen:
        screen.wait_for("a answer")
        screen.type("a")
        screen.wait_for("budget: ")
        screen.type("a\r")
        screen.wait_for("its budget is spent")
        screen.type("z")
        screen.wait_for("its budget is spent: b raises it")
        for key in ("b", "a", "qa"):  # here, and in the list
            screen.type(key)
            screen.wait_for("raise the budget> turns=+40")
            screen.type("\x1b")
            screen.wait_for("nothing was raised")
        screen.type("\ra\r")
        screen.wait_for("of 42 turns")
        screen.wait_for("project-lead asks (PLAN, PLAN.md)")
        screen.type("b")
        screen.wait_for("no budget of")


def test_a_result_is_found_and_merged_and_another_repository_is_looked_at(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = LEADS.replace('{write: {path: WORK_SUMMARY.md, text: "work"}}', MADE)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    job = home.start(APPROVES + writes)
    (tmp_path / "elsewhere").mkdir()
    other = Home(tmp_path / "elsewhere")
    other.start(LEADS)
    broken = tmp_path / "broken"
    (broken / ".parley").mkdir(parents=True)
    (broken / ".parley" / "bus.db").write_text("no bus")
    with (tmp_path / "state" / "parley" / "homes").open("a", encoding="ascii") as file:
        file.write(json.dumps({"root": str(broken), "home": str(broken / ".parley")}) + "\n")

    with watching(home, VISUAL="false") as screen:
        screen.type("e")
        screen.wait_for("The request is in your editor.")
        screen.wait_for("Enter goes back")  # why it failed can be read until then
        screen.type("\r")
        screen.wait_for("nothing was started")
        screen.type("/REQUEST\r")
        screen.wait_for("1 of 1 with 'REQUEST'")
        screen.wait_for("Esc show all")
        screen.type("m")
        screen.wait_for(f"merge the result of {job} into words?")
        screen.type("yes\r")
        wait_for(lambda: screen.read(0.05) and (home.folder / "made.txt").exists())
        screen.type("\r")
        screen.wait_for("it is merged: what you have checked out has it")
        assert "m merge" not in screen.screen()
        screen.type("q")
        screen.wait_for("Esc show all")
        screen.type("\x1bA")
        screen.wait_for("2 repositories")
        screen.wait_for("elsewhere: a request")
        screen.wait_for("1 other repository can't be read and is left out")
        screen.type("g\r")
        screen.wait_for("intent-lead asks (INTENT, INTENT.md)")
        screen.type("qA")
        screen.wait_for("A all repositories")
        assert "elsewhere" not in screen.screen()
        screen.type("Ag\r")
        screen.wait_for("intent-lead asks (INTENT, INTENT.md)")
        shutil.rmtree(other.folder)
        screen.wait_for("elsewhere is left out")
        screen.wait_for("n new job")
        screen.type("q")
        assert screen.end() == 0
