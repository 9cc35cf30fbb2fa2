"""The engine that runs all jobs of a served repository: which it takes over, and what it leaves."""

import os
import signal
from pathlib import Path

import pytest

from parley.bus.attendant import ask_to_start, attended, read_problems
from tests.cli.home import APPROVES, BUSY, LEADS, Home, turn_processes, wait_for
from tests.cli.home import owner_of as spawned_for
from tests.cli.test_damaged_job import DAMAGES, damaged
from tests.serve.engine_harness import is_busy, log_of, owner_of, served, serving, state_folder, state_of
from tests.workspaces.user_repository import git


def test_a_detached_job_is_begun_by_the_engine_and_has_no_process_of_its_own(home: Home) -> None:
    with serving(home) as engine:
        done = home.run("run", "do it", "--detach", "--playbook", home.write("p.yaml", LEADS))

        job = done.out.strip()
        assert (done.code, done.err) == (0, "")
        assert owner_of(home, job) == engine.pid
        assert spawned_for(job) == 0
        assert not (state_folder(home) / "jobs" / job / "start").exists()
        for state in ("INTENT", "PLAN", "EXECUTE"):
            wait_for(lambda state=state: home.jobs()[0]["needs_human"] and home.jobs()[0]["state"] == state)  # type: ignore[misc]  # a default
            assert home.here("answer", home.question(), "--approve").out.startswith("answered ")
        wait_for(lambda: home.jobs()[0]["state"] == "DONE" and not home.jobs()[0]["owned"])
    assert home.here("audit", job).code == 0


def test_several_jobs_run_at_once_and_their_results_become_branches(home: Home) -> None:
    git(home.folder, "init", "-q")
    git(home.folder, "commit", "-q", "--allow-empty", "-m", "begin")
    playbook = home.write("../p.yaml", APPROVES + LEADS)
    with serving(home) as engine:
        jobs = [home.run("run", f"do {name}", "--detach", "--playbook", playbook).out.strip() for name in "abc"]

        wait_for(lambda: all(row["state"] == "DONE" and not row["owned"] for row in home.jobs()))
        assert {owner_of(home, job) for job in jobs} == {engine.pid}
        wait_for(lambda: len(git(home.folder, "branch", "--list", "parley/*").split()) == len(jobs))


def test_jobs_that_were_left_before_go_on(home: Home) -> None:
    waiting, busy = home.start(), home.run("run", "x", "--detach", "--playbook", home.write("b.yaml", BUSY)).out.strip()
    wait_for(lambda: is_busy(home, busy))
    os.kill(owner_of(home, busy), signal.SIGKILL)

    with serving(home) as engine:
        wait_for(lambda: all(row["owned"] for row in home.jobs()))

        assert {owner_of(home, waiting), owner_of(home, busy)} == {engine.pid}
        assert home.here("withdraw", busy).code == 0
        wait_for(lambda: not turn_processes(busy))


def test_a_job_of_another_process_is_left_to_it_and_taken_over_when_that_dies(home: Home) -> None:
    with serving(home) as engine, home.started("run", "x", "--playbook", home.write("b.yaml", BUSY)) as other:
        job = wait_for(home.jobs)[0]["id"]
        wait_for(lambda: is_busy(home, job))
        assert owner_of(home, job) == other.pid

        other.kill()
        other.wait()
        wait_for(lambda: home.jobs()[0]["owned"] and owner_of(home, job) == engine.pid)
        assert home.here("withdraw", job).code == 0


def test_it_ends_on_sigterm_and_leaves_no_process_of_an_agent(home: Home) -> None:
    with serving(home) as engine:
        job = home.run("run", "x", "--detach", "--playbook", home.write("b.yaml", BUSY)).out.strip()
        wait_for(lambda: is_busy(home, job))
        assert turn_processes(job)
        engine.terminate()

        assert engine.wait(timeout=15) == 0
    assert turn_processes(job) == []
    assert home.jobs()[0]["status"] == "interrupted"
    assert home.here("withdraw", job).code == 0


def test_it_ends_with_a_server_that_is_killed_and_leaves_no_process_of_an_agent(home: Home) -> None:
    with served(home) as server:
        job = home.run("run", "x", "--detach", "--playbook", home.write("b.yaml", BUSY)).out.strip()
        engine = owner_of(home, job)
        wait_for(lambda: is_busy(home, job))
        server.kill()

        wait_for(lambda: not Path(f"/proc/{engine}").exists())
    assert not attended(state_folder(home))
    assert turn_processes(job) == []
    assert home.jobs()[0]["status"] == "interrupted"
    assert home.here("withdraw", job).code == 0


def test_an_engine_that_is_killed_is_started_again_and_goes_on(home: Home) -> None:
    with served(home) as server:
        job = home.run("run", "x", "--detach", "--playbook", home.write("b.yaml", BUSY)).out.strip()
        first = owner_of(home, job)
        os.kill(first, signal.SIGKILL)

        wait_for(lambda: owner_of(home, job) != first and home.jobs()[0]["owned"])
        second = owner_of(home, job)
        assert server.stdin is not None
        server.stdin.close()
        assert server.wait(timeout=20) == 0
    assert not Path(f"/proc/{second}").exists()
    assert turn_processes(job) == []


def test_a_second_engine_refuses_in_one_line(home: Home) -> None:
    with serving(home) as engine:
        second = home.run("serve-engine")

        assert (second.code, second.out) == (1, "")
        assert second.err == (
            f"parley: process {engine.pid} runs the jobs of {state_folder(home)} already; this one is not needed\n"
        )
        assert engine.poll() is None
    assert not attended(state_folder(home))


def test_a_paused_job_goes_on_when_another_process_leaves_its_resume(home: Home) -> None:
    job = home.start()
    assert home.here("pause", job).code == 0
    with serving(home) as engine:
        other = home.start()  # when this one is owned, the engine has looked at the paused one as well
        wait_for(lambda: {row["id"]: row["owned"] for row in home.jobs()}[other])
        assert not {row["id"]: row["owned"] for row in home.jobs()}[job]

        assert home.here("resume", job, "--background").out == f"the engine of `parley serve` works on {job}\n"
        assert owner_of(home, job) == engine.pid
        wait_for(lambda: {row["id"]: row for row in home.jobs()}[job]["status"] != "paused")


def test_a_process_that_was_started_for_an_owned_job_leaves_it_to_the_engine_and_outlives_no_server(home: Home) -> None:
    job = home.start()
    with serving(home) as engine:
        wait_for(lambda: owner_of(home, job) == engine.pid)

        assert home.here("resume", job, "--background").out.splitlines()[-1] == (
            f"the engine of `parley serve` works on {job}"
        )


def test_an_answer_to_a_paused_job_is_taken(home: Home) -> None:
    job = home.start()
    assert home.here("pause", job).code == 0
    with serving(home) as engine:
        wait_for((state_folder(home) / "serve-problems.json").exists)
        assert home.here("answer", home.question(), "--approve").code == 0

        wait_for(lambda: home.jobs()[0]["owned"] and owner_of(home, job) == engine.pid)
        wait_for(lambda: home.here("inbox", "--json").document["questions"] == [])
        assert state_of(home, job) == "INTENT"


def test_a_job_whose_runner_is_missing_waits_with_its_reason_and_stops_no_other(home: Home) -> None:
    program = home.write("agent.sh", "#!/bin/sh\nsleep 600\n")
    Path(program).chmod(0o755)
    home.settings(f'[agents.own]\ncommand = ["{program}", "{{prompt}}"]\n')
    lost = home.run("run", "x", "--agent", "own", "--detach").out.strip()
    os.kill(owner_of(home, lost), signal.SIGKILL)
    home.settings("")
    with serving(home):
        job = home.run("run", "x", "--detach", "--playbook", home.write("p.yaml", APPROVES + LEADS)).out.strip()

        wait_for(lambda: state_of(home, job) == "DONE")
        why = wait_for(lambda: read_problems(state_folder(home)).get(lost))
        assert "there is no runner 'own'" in why
        assert log_of(home).count(why) == 1
        assert (state_folder(home) / "serve-problems.json").stat().st_mode & 0o777 == 0o600

        home.settings(f'[agents.own]\ncommand = ["{program}", "{{prompt}}"]\n')
        ask_to_start(state_folder(home), lost)
        wait_for(lambda: f"{lost} goes on here" in log_of(home))
        wait_for(lambda: read_problems(state_folder(home)) == {})


@pytest.mark.parametrize("what", DAMAGES)
def test_a_job_whose_rows_were_changed_waits_with_its_reason_and_stops_no_other(home: Home, what: str) -> None:
    bad, good = home.start(), home.start()
    with damaged(home, bad, DAMAGES[what]), serving(home) as engine:
        wait_for(lambda: owner_of(home, good) == engine.pid)
        why = wait_for(lambda: read_problems(state_folder(home)).get(bad))

        assert "another program changed it" in why
        assert engine.poll() is None
        engine.terminate()
        engine.wait(timeout=15)  # before the rows are put back


def test_a_lock_that_is_a_link_is_one_jobs_problem(home: Home) -> None:
    bad, good = home.start(), home.start()
    lock = state_folder(home) / "locks" / f"{bad}.lock"
    lock.unlink()
    lock.symlink_to("/nowhere")
    with serving(home) as engine:
        wait_for(lambda: owner_of(home, good) == engine.pid)

        assert wait_for(lambda: read_problems(state_folder(home)).get(bad))
        assert engine.poll() is None


def test_problems_that_another_program_wrote_are_none(home: Home) -> None:
    with serving(home):
        path = state_folder(home) / "serve-problems.json"
        wait_for(path.exists)
        for text in ("", "[1]", '{"a": 1}', "[" * 100_000):
            path.write_text(text)
            assert read_problems(state_folder(home)) == {}
        path.unlink()
        path.mkdir()
        assert read_problems(state_folder(home)) == {}
        path.rmdir()


def test_where_the_attendant_is_stopped_a_detached_job_gets_a_process_of_its_own(home: Home) -> None:
    other = home.start()
    with serving(home) as engine:
        wait_for(lambda: owner_of(home, other) == engine.pid and home.jobs()[0]["needs_human"])
        engine.send_signal(signal.SIGSTOP)
        try:
            job = home.run("run", "x", "--detach", "--playbook", home.write("p.yaml", LEADS)).out.strip()
            wait_for(lambda: home.jobs()[1]["owned"])
            assert owner_of(home, job) == spawned_for(job)
        finally:
            engine.send_signal(signal.SIGCONT)
        assert home.here("withdraw", job).code == 0


def test_an_engine_starts_in_a_folder_where_no_job_can_run_and_says_why(home: Home) -> None:
    job = home.start()
    home.write("parley.toml", "[boundary]\naccept = 'none'\n")  # which the user has not allowed
    with serving(home) as engine:
        why = wait_for(lambda: read_problems(state_folder(home)).get(job))

        assert "parley trust" in why
        assert engine.poll() is None


def test_a_job_at_work_goes_on_when_the_settings_change_and_a_new_one_gets_the_new_ones(home: Home) -> None:
    with serving(home) as engine:
        busy = home.run("run", "x", "--detach", "--playbook", home.write("b.yaml", BUSY)).out.strip()
        wait_for(lambda: is_busy(home, busy))
        before = turn_processes(busy)
        home.settings("[limits]\nparallel = 3\n")
        job = home.run("run", "x", "--detach", "--playbook", home.write("p.yaml", APPROVES + LEADS)).out.strip()

        wait_for(lambda: state_of(home, job) == "DONE")
        assert owner_of(home, busy) == owner_of(home, job) == engine.pid
        assert set(before) & set(turn_processes(busy))
        assert "lost its turn" not in home.here("log", busy).out
        assert home.here("withdraw", busy).code == 0


def test_what_an_ended_job_lacks_after_a_crash_is_made_up_for(home: Home) -> None:
    job = home.start(APPROVES + LEADS)
    home.job_file(job, "state.json").unlink()  # as after a crash between the last commit and what follows from it

    with serving(home):
        wait_for(home.job_file(job, "state.json").exists)
