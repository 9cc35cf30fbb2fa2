"""A process that dies between a job's last commit and what follows from it: the next one makes it good."""

import json
import subprocess
import sys

from tests.cli.home import APPROVES, LEADS, Home

# The real program, which ends as by SIGKILL when it is about to act on the job's end.
DYING = """
import os, sys
from parley.engine.loop import Engine
from parley.cli.main import main
act = Engine._act
def die(self, job):
    if not job.record.live:
        os._exit(137)
    act(self, job)
Engine._act = die
sys.exit(main(sys.argv[1:]))
"""


def test_what_a_crash_kept_from_the_end_of_a_job_is_done_by_the_next_resume(home: Home) -> None:
    playbook = home.write("p.yaml", APPROVES + LEADS)
    words = [sys.executable, "-c", DYING, "run", "x", "--playbook", playbook]
    died = subprocess.run(words, cwd=home.folder, env=home.env(), capture_output=True, check=False)
    assert died.returncode == 137
    job = home.jobs()[0]["id"]
    folder = home.folder / ".parley" / "jobs" / job
    assert json.loads((folder / "state.json").read_text())["state"] == "EXECUTE"

    assert home.run("resume").code == 0

    assert json.loads((folder / "state.json").read_text())["state"] == "DONE"
    kept = [json.loads(path.read_text()).get("outcome") for path in (folder / "outcomes").iterdir()]
    assert "APPROVED_WORK" in kept
    assert "the last: nothing was cut off" in home.run("audit", job).out
    assert home.run("resume").out.startswith("nothing was interrupted")
