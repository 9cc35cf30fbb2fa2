"""The keeper of an engine's process: it starts it again, waits for its turn, and ends it for good."""

import os
import sys
import threading
from pathlib import Path

from parley.actions.engine_process import EngineProcess
from parley.web.server import _engine_words
from tests.cli.home import wait_for

COUNTS = "echo started >> starts; echo went wrong; exit 3"
STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.1; done"


def kept(folder: Path, script: str, may_start: threading.Event | None = None) -> EngineProcess:
    """A shell's script as the process."""
    return EngineProcess(
        ["/bin/sh", "-c", script],
        env=os.environ,
        cwd=folder,
        log=folder / "log",
        may_start=may_start.is_set if may_start is not None else lambda: True,
    )


def starts(folder: Path) -> int:
    """How often the process was started."""
    path = folder / "starts"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_process_that_dies_is_started_again_and_its_last_words_are_known(tmp_path: Path) -> None:
    engine = kept(tmp_path, COUNTS)
    engine.start()
    engine.start()  # does no harm
    try:
        wait_for(lambda: starts(tmp_path) == 2)
        wait_for(lambda: engine.last_line == "went wrong")
    finally:
        engine.stop(5)
    assert not engine.alive
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_a_process_that_does_not_end_is_killed(tmp_path: Path) -> None:
    engine = kept(tmp_path, STUBBORN)
    engine.start()
    wait_for(lambda: engine.last_line == "up")
    pid = engine.pid
    assert pid

    engine.stop(0.2)

    assert (engine.alive, engine.pid) == (False, 0)
    assert not Path(f"/proc/{pid}").exists()


def test_it_waits_until_it_may_start(tmp_path: Path) -> None:
    free = threading.Event()
    engine = kept(tmp_path, "echo started >> starts; exec sleep 600", free)
    engine.start()
    try:
        wait_for(lambda: engine.waits)
        (tmp_path / "log").write_text("12:00:00 a job goes on here\n")  # by the other server's process
        assert not engine.alive
        assert _engine_words(engine) == ""
        free.set()
        wait_for(lambda: engine.alive and starts(tmp_path) == 1)
        assert not engine.waits
    finally:
        engine.stop(5)
    assert starts(tmp_path) == 1


def test_a_process_that_can_not_be_started_says_why(tmp_path: Path) -> None:
    engine = EngineProcess([str(tmp_path / "none")], env={}, cwd=tmp_path, log=tmp_path / "log")
    engine.start()
    try:
        said = wait_for(lambda: engine.last_line)
    finally:
        engine.stop(1)
    assert said == f"the engine can't be started: {tmp_path}/none: No such file or directory"


def test_a_stopped_keeper_starts_nothing(tmp_path: Path) -> None:
    engine = kept(tmp_path, COUNTS)
    engine.stop(1)
    engine.start()
    engine.stop(1)

    assert (engine.alive, starts(tmp_path)) == (False, 0)


def test_a_log_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "other")
    engine = kept(tmp_path, COUNTS)
    engine.start()
    try:
        said = wait_for(lambda: engine.last_line)
    finally:
        engine.stop(1)
    assert said.startswith(f"the engine can't be started: {tmp_path}/log: ")
    assert not (tmp_path / "other").exists()


def test_its_standard_input_closes_when_the_server_is_killed(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from parley.actions.engine_process import EngineProcess\n"
        "here = Path.cwd()\n"
        "one = EngineProcess(['/bin/sh', '-c', 'cat; echo closed > closed'], env={}, cwd=here, log=here / 'log')\n"
        "one.start()\n"
        "while not one.alive: pass\n"
        "os.kill(os.getpid(), 9)\n"
    )
    pid = os.posix_spawn(
        "/bin/sh", ["sh", "-c", f'cd "$1" && exec {sys.executable} -c "$2"', "sh", str(tmp_path), program], os.environ
    )
    os.waitpid(pid, 0)

    wait_for((tmp_path / "closed").exists)
