"""Who owns a job: in the background, taken over, interrupted."""

import os
import signal

from tests.cli.home import APPROVES, LEADS, Home, turn_processes, wait_for

SLOW = LEADS.replace(
    "[{write: {path: PLAN.md", "[{write: {path: begun.txt, text: x}}, {sleep: 600}, {write: {path: PLAN.md"
)


def test_detach_goes_on_in_the_background_also_while_people_think(home: Home) -> None:
    done = home.run("run", "do it", "--detach", "--playbook", home.write("p.yaml", LEADS))

    job = done.out.strip()
    assert (done.code, done.err) == (0, "")
    for state in ("INTENT", "PLAN", "EXECUTE"):
        wait_for(lambda state=state: home.jobs()[0]["needs_human"] and home.jobs()[0]["state"] == state)  # type: ignore[misc]  # a default
        assert home.jobs()[0]["owned"]
        assert home.here("answer", home.question(), "--approve").out.startswith("answered ")
    wait_for(lambda: home.jobs()[0]["state"] == "DONE")
    wait_for(lambda: "EXECUTE -> DONE" in home.job_file(job, "run.log").read_text())
    wait_for(lambda: not home.jobs()[0]["owned"])


def test_detach_json(home: Home) -> None:
    done = home.run("run", "x", "--detach", "--json", "--playbook", home.write("p.yaml", APPROVES + LEADS))

    assert done.document["id"] == wait_for(home.jobs)[0]["id"]
    wait_for(lambda: home.jobs()[0]["state"] == "DONE" and not home.jobs()[0]["owned"])


def test_a_dead_owner_is_replaced_within_seconds(home: Home) -> None:
    playbook = home.write("p.yaml", "human: [{match: INTENT.md, verdict: approve}]\n" + SLOW)
    with home.started("run", "x", "--playbook", playbook) as first:
        wait_for(lambda: (home.folder / ".parley" / "bus.db").exists() and home.jobs())
        job = home.jobs()[0]["id"]
        wait_for(home.job_file(job, "work/begun.txt").exists)
        with home.started("resume", job) as second:
            assert second.stdout is not None
            assert "another process works on" in second.stdout.readline()
            home.job_file(job, "work/begun.txt").unlink()
            first.send_signal(signal.SIGKILL)
            first.wait()

            wait_for(home.job_file(job, "work/begun.txt").exists, seconds=15)
            assert home.here("withdraw", job).code == 0
            assert second.wait(timeout=20) == 3
    assert turn_processes(job) == []
    assert "lost its turn" in home.here("log", job).out
    assert home.here("audit", job).code == 0


def test_a_job_that_was_told_to_end_leaves_no_process_and_goes_on_later(home: Home) -> None:
    playbook = home.write("p.yaml", "human: [{match: INTENT.md, verdict: approve}]\n" + SLOW)
    with home.started("run", "x", "--playbook", playbook) as process:
        wait_for(lambda: (home.folder / ".parley" / "bus.db").exists() and home.jobs())
        job = home.jobs()[0]["id"]
        wait_for(home.job_file(job, "work/begun.txt").exists)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)

    assert process.returncode == 128 + signal.SIGTERM
    assert err == f"parley: interrupted; go on with: parley resume {job}\n"
    assert turn_processes(job) == []
    assert home.jobs()[0]["status"] == "interrupted"
    assert home.here("withdraw", job).code == 0


def test_the_background_process_has_a_session_of_its_own(home: Home) -> None:
    job = home.run("run", "x", "--detach", "--playbook", home.write("p.yaml", LEADS)).out.strip()
    lock = (home.folder / ".parley" / "locks" / f"{job}.lock").read_text()

    assert os.getsid(int(lock.split()[1])) == int(lock.split()[1])
    assert home.here("withdraw", job).code == 0
    wait_for(lambda: not home.jobs()[0]["owned"])
