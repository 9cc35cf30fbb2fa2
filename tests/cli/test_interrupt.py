"""Ctrl-C: whenever it comes, one line without a traceback, the job by its name if there is one, and exit code 130."""

import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.cli.home import APPROVES, BUSY, LEADS, Home

# What `parley` does, and a line on standard output as soon as it takes care of Ctrl-C: Python's own start is not ours.
START = (
    "import sys; from parley.cli import ctrl_c; ctrl_c.watch(); print('ready', flush=True);"
    "from parley.__main__ import main; sys.exit(main())"
)
NAMED = re.compile(r"go on with: parley resume (\w+)")


def start(home: Home, *words: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", START, *words],
        cwd=home.folder,
        env=home.env(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def interrupted(home: Home, words: tuple[str, ...], delays: list[float], presses: int) -> list[tuple[int, str]]:
    """The exit code and the error output of a command for each delay after which Ctrl-C is pressed."""
    ends: dict[float, tuple[int, str]] = {}

    def one(delay: float) -> None:
        process = start(home, *words)
        for _ in range(presses):
            time.sleep(delay / presses)
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        ends[delay] = process.returncode, out + err

    threads = [threading.Thread(target=one, args=(delay,)) for delay in delays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [ends[delay] for delay in delays]


@pytest.mark.parametrize("presses, delays", [(1, [0.0, 0.3, 1.0, 2.5]), (2, [0.1, 0.6, 1.5, 2.5])])
@pytest.mark.parametrize("book", [LEADS + APPROVES, BUSY])
def test_a_run_ends_with_one_line_that_names_the_job(home: Home, book: str, presses: int, delays: list[float]) -> None:
    path = home.write("book.yaml", book)

    ends = interrupted(home, ("run", "x", "--playbook", path), delays, presses)

    named = {found[1] for _, said in ends if (found := NAMED.search(said))}
    for code, said in ends:
        assert "Traceback" not in said
        assert code == 130 or "DONE" in said, said
    left = {job["id"] for job in home.run("ls", "--json").document["jobs"] if job["status"] != "done"}
    assert left == named


@pytest.mark.parametrize("words", [("ls",), ("doctor",), ("roles",), ("inbox",), ("gc",), ("show", "none")])
def test_every_command_ends_without_a_traceback(waiting: Home, words: tuple[str, ...]) -> None:
    for code, said in interrupted(waiting, words, [0.0, 0.05, 0.2], 2):
        assert "Traceback" not in said
        assert code in (0, 1, 2, 130)


def test_ctrl_c_while_a_job_is_looked_for_names_it(waiting: Home) -> None:
    job = waiting.run("ls", "--json").document["jobs"][0]["id"]
    process = start(waiting, "log", job[:5], "--follow")
    assert process.stdout is not None
    process.stdout.readline()  # it follows by now
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)

    assert process.returncode == 130
    assert err == f"parley: interrupted; see how {job} stands with: parley show {job}\n"


def test_an_ignored_ctrl_c_stays_ignored(waiting: Home) -> None:
    process = subprocess.Popen(
        ["sh", "-c", f"trap '' INT; exec {sys.executable} -P -c \"$0\" ls", START],
        cwd=waiting.folder,
        env=waiting.env(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)

    assert process.returncode == 0
    assert "INTENT" in out


def test_the_third_ctrl_c_ends_a_tidying_up_that_hangs() -> None:
    code = (
        "import sys, time; from parley.cli import ctrl_c; ctrl_c.watch(); ctrl_c.command_begins()\n"
        "try:\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    print('first', flush=True)\n    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "first\n"
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == "parley: ending what still runs; press Ctrl-C once more to leave it\n"
    process.send_signal(signal.SIGINT)

    assert process.wait(timeout=30) == 130
    process.stdout.close()
    process.stderr.close()


def test_a_ctrl_c_in_a_finalizer_is_not_lost() -> None:
    code = (
        "import signal, time; from parley.cli import ctrl_c; ctrl_c.watch(); ctrl_c.command_begins()\n"
        "class Odd:\n    def __del__(self):\n        signal.raise_signal(signal.SIGINT)\n"
        "try:\n    Odd()\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    print(ctrl_c.interrupted_line())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)

    assert done.stdout == "interrupted\n"
    assert done.stderr == ""
