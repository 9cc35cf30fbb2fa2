"""Whatever a caged agent starts ends with it, with its turn, or with Parley."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from parley.ports.turns import BoundaryError
from parley.sandbox import Boundary, Caged
from parley.sandbox.limits import process_tree
from parley.settings.schema import BoundarySettings
from tests.sandbox.cage_harness import PATIENCE_SECONDS, CageHarness, close, finish, line, marked, run

# Each leaves its session and its parents, and says when it is there.
DAEMONS = r"""
import os, sys, time
def daemon(levels):
    if os.fork() == 0:
        os.setsid()
        if levels and os.fork():
            os._exit(0)
        os.closerange(0, 3)
        time.sleep(600)
        os._exit(0)
for _ in range(5):
    daemon(1)
print("there", flush=True)
sys.stdin.readline()
print("still here", flush=True)
sys.stdin.readline()
"""
BOMB = r"""
import os, sys, time
made = 0
while True:
    try:
        if os.fork() == 0:
            while True:
                try:
                    os.fork()
                except OSError:
                    time.sleep(0.001)
        made += 1
    except OSError:
        print("full", flush=True)
        break
sys.stdin.readline()
"""


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def tell(caged: Caged) -> None:
    assert caged.process.stdin is not None
    caged.process.stdin.write(b"\n")
    caged.process.stdin.flush()


def test_tidying_leaves_the_agent_and_nothing_else(boundary: Boundary, yard: CageHarness) -> None:
    caged = boundary.launch(yard.python(DAEMONS))
    assert line(caged) == "there"
    until(lambda: len(process_tree.descendants(caged.process.pid)) >= 7)

    caged.tidy()

    left = process_tree.descendants(caged.process.pid)
    assert len(left) == 2  # the init and the agent
    tell(caged)
    assert line(caged) == "still here"
    tell(caged)
    assert finish(caged).status == 0


FORKING_THREADS = """
import subprocess, sys, threading
def begin():
    subprocess.Popen(["sh", "-c", "sleep 1000 & wait"])
    started.wait()
    stop.wait()
started, stop = threading.Barrier(4), threading.Event()
threads = [threading.Thread(target=begin) for _ in range(3)]
for thread in threads:
    thread.start()
started.wait()
print("there", flush=True)
sys.stdin.readline()
stop.set()
"""


def test_a_quick_look_at_a_cage_finds_what_its_threads_have_started(boundary: Boundary, yard: CageHarness) -> None:
    caged = boundary.launch(yard.python(FORKING_THREADS))
    assert line(caged) == "there"
    until(lambda: len(caged.members(process_tree.parents())) == 8)  # the init, the agent, three shells and their sleep

    assert caged.likely_members() == caged.members(process_tree.parents())

    caged.kill()
    close(caged)


TICKING = """
import itertools, sys, threading, time
threading.Thread(target=sys.stdin.readline).start()
for count in itertools.count(1):
    print(count, flush=True)
    time.sleep(0.001)
"""


def test_a_frozen_agent_does_nothing_until_it_is_thawed(boundary: Boundary, yard: CageHarness) -> None:
    caged = boundary.launch(yard.python(TICKING))
    assert line(caged) == "1"

    caged.freeze()
    (init,) = process_tree.children(caged.process.pid)
    (main,) = process_tree.children(init)
    assert "State:\tT" in Path(f"/proc/{main}/status").read_text("ascii")
    before = used(main)
    caged.freeze()  # twice is no harm
    assert used(main) == before
    caged.thaw()

    until(lambda: used(main) > before)
    caged.kill()
    close(caged)


def used(pid: int) -> int:
    """How often a process gave the processor up: what stands still does not."""
    told = dict(part.split(":\t") for part in Path(f"/proc/{pid}/status").read_text("ascii").splitlines())
    return int(told["voluntary_ctxt_switches"])


def test_a_frozen_agent_can_be_killed(boundary: Boundary, yard: CageHarness) -> None:
    caged = boundary.launch(yard.python(DAEMONS, mark="job/frozen-1"))
    assert line(caged) == "there"
    caged.freeze()
    assert len(process_tree.descendants(caged.process.pid)) == 2

    assert caged.kill() == 128 + signal.SIGKILL

    assert marked("job/frozen-1") == []
    close(caged)


def test_an_agent_that_has_ended_can_be_frozen_and_thawed(boundary: Boundary, yard: CageHarness) -> None:
    caged = boundary.launch(yard.cage("true"))
    caged.process.wait()

    caged.freeze()
    caged.thaw()

    assert finish(caged).status == 0


def test_killing_leaves_nothing(boundary: Boundary, yard: CageHarness) -> None:
    caged = boundary.launch(yard.python(DAEMONS, mark="job/killed-1"))
    assert line(caged) == "there"
    until(lambda: len(process_tree.descendants(caged.process.pid)) == 7)  # its init, itself, and each daemon on its own
    everybody = process_tree.descendants(caged.process.pid)

    assert caged.kill() == 128 + signal.SIGKILL

    assert [pid for pid in everybody if Path(f"/proc/{pid}").exists()] == []
    assert marked("job/killed-1") == []
    close(caged)


def test_an_agent_that_ends_takes_its_daemons_along(boundary: Boundary, yard: CageHarness) -> None:
    caged = boundary.launch(yard.python(DAEMONS.replace("sys.stdin.readline()", "pass"), mark="job/ended-1"))
    done = finish(caged)

    assert done.status == 0
    assert marked("job/ended-1") == []


def test_a_fork_bomb_is_bounded_and_ends(boundary: Boundary, yard: CageHarness) -> None:
    caged = boundary.launch(yard.python(BOMB, mark="job/bomb-1"))
    assert line(caged) == "full"
    assert len(process_tree.descendants(caged.process.pid)) <= boundary.settings.processes + 1

    caged.tidy()
    assert len(process_tree.descendants(caged.process.pid)) == 2
    caged.kill()
    assert marked("job/bomb-1") == []
    close(caged)


def test_two_cages_do_not_share_the_limit_of_processes(boundary: Boundary, yard: CageHarness) -> None:
    caged = boundary.launch(
        yard.python(BOMB.replace("while True:\n                try", "while time.sleep(600):\n                try"))
    )
    assert line(caged) == "full"

    assert run(boundary, yard.cage("sh", "-c", "true & true & wait; echo fine")).out == "fine\n"
    caged.kill()
    close(caged)


ORCHESTRATOR = r"""
import sys
from pathlib import Path
from parley.sandbox import Boundary, Cage
from parley.ports.turns import Site
from tests.sandbox.test_processes import DAEMONS
from tests.sandbox.cage_harness import CageHarness, line
yard = CageHarness(Path(sys.argv[1]))
boundary = Boundary()
caged = boundary.launch(yard.python(DAEMONS, mark="job/orphan-1"))
print(line(caged), caged.process.pid, flush=True)
sys.stdin.readline()
"""


def test_a_cage_dies_with_parley(yard: CageHarness) -> None:
    parley = subprocess.Popen(
        [sys.executable, "-c", ORCHESTRATOR, str(yard.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    with parley:
        assert parley.stdout is not None
        word, pid = parley.stdout.readline().split()
        assert word == b"there"
        until(lambda: len(process_tree.descendants(int(pid))) >= 3)  # the last may not have been forked yet
        everybody = process_tree.descendants(int(pid)) | {int(pid)}
        parley.kill()
    until(lambda: not any(_lives(pid) for pid in everybody))
    assert marked("job/orphan-1") == []


def _lives(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat[stat.rindex(b")") + 2 :][:1] != b"Z"


INTERRUPTED = r"""
import os, signal, sys
from pathlib import Path
from parley.sandbox import Boundary, launch_report
from tests.sandbox.cage_harness import CageHarness
launch_report.insist = lambda verdict: os.kill(os.getpid(), signal.SIGKILL)
Boundary().launch(CageHarness(Path(sys.argv[1])).cage("sh", "-c", "touch started; sleep 600", mark="job/interrupted-1"))
"""


def test_no_agent_starts_where_parley_died_before_the_word(yard: CageHarness) -> None:
    words = [sys.executable, "-c", INTERRUPTED, str(yard.root)]
    done = subprocess.run(words, cwd=Path(__file__).parents[2], check=False)

    assert done.returncode == -signal.SIGKILL
    until(lambda: marked("job/interrupted-1") == [])
    assert not (yard.workspace / "started").exists()


def test_the_exit_status_is_the_agents(boundary: Boundary, yard: CageHarness) -> None:
    assert run(boundary, yard.cage("sh", "-c", "exit 7")).status == 7


def test_limits_are_the_cages_own(boundary: Boundary, yard: CageHarness) -> None:
    told = run(
        boundary,
        yard.python(
            "import json, resource as r; print(json.dumps([r.getrlimit(x) for x in "
            "(r.RLIMIT_NPROC, r.RLIMIT_NOFILE, r.RLIMIT_CORE, r.RLIMIT_FSIZE)]))"
        ),
    ).json()
    settings = boundary.settings
    size = settings.file_megabytes << 20
    assert told == [[settings.processes] * 2, [settings.open_files] * 2, [0, 0], [size, size]]


def test_nothing_of_the_launcher_is_left_for_the_agent(boundary: Boundary, yard: CageHarness) -> None:
    program = (
        "import json, os; print(json.dumps([sorted(os.environ), sorted(map(int, os.listdir('/proc/self/fd'))), "
        "open('/proc/1/cmdline').read().split(chr(0))[0], os.getcwd()]))"
    )
    variables, files, first, folder = run(boundary, yard.python(program, environment={"A": "1"}, mark="job/x")).json()

    assert [name for name in variables if name != "LC_CTYPE"] == ["A", "HOME", "PARLEY_TURN"]
    assert set(files) <= {0, 1, 2, 3}
    assert Path(first).name == "bwrap"
    assert folder == str(yard.workspace)


def test_the_streams_can_be_opened_by_their_names(boundary: Boundary, yard: CageHarness) -> None:
    done = run(boundary, yard.cage("sh", "-c", "cat < /dev/stdin > /dev/stdout; echo e > /dev/stderr"), b"given")
    assert (done.out, done.err) == ("given", "e\n")


def test_a_debugger_works_only_where_it_is_exempt(boundary: Boundary, yard: CageHarness) -> None:
    """ptrace(TRACEME), as the child of a debugger does it."""
    program = "import ctypes; print(ctypes.CDLL(None).ptrace(0, 0, 0, 0))"
    assert run(boundary, yard.python(program)).out == "-1\n"
    lenient = Boundary(BoundarySettings(exempt=("trace",)))
    assert run(lenient, yard.python(program)).out == "0\n"
    lenient.close()


def test_a_program_that_is_not_there_is_told(boundary: Boundary, yard: CageHarness) -> None:
    with pytest.raises(BoundaryError, match="find_command: nowhere-at-all is not there"):
        boundary.launch(yard.cage("nowhere-at-all"))


def test_a_module_of_parley_runs_inside_with_the_standard_library_alone(boundary: Boundary, yard: CageHarness) -> None:
    order = {"turn": "t", "token": "k", "agent": "a", "rules": [], "message": "m", "state": "PLAN", "visit": 1,
             "handle": {}, "may_ask": True, "workspace": str(yard.workspace), "limits": {"seconds": 5}}  # fmt: skip
    cage = yard.cage(*Boundary.python("parley.runners.scripted.agent_process"))
    done = run(boundary, cage, json.dumps(order).encode() + b"\n")

    assert done.status == 0, done.err
    assert '"end"' in done.out


def test_many_may_launch_at_once(boundary: Boundary, yard: CageHarness) -> None:
    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda n: run(boundary, yard.cage("echo", str(n))), range(12)))

    assert [one.out.strip() for one in done] == [str(n) for n in range(12)]
