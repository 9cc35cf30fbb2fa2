"""A process that was asked to end ends, whatever becomes of the signal's exception and of the clean-up."""

import signal
import subprocess
import sys

import pytest

from tests.cli.home import BUSY, Home

# Lets a signal come in a method, where its exception gets lost; the command goes on from there.
LOSES = """
import signal, sys
from parley.{module} import {name} as owner
true = owner.{method}
def lost(*given, **more):
    owner.{method} = true
    try:
        signal.raise_signal(signal.{signal})
    except KeyboardInterrupt:
        {becomes}
    return true(*given, **more)
owner.{method} = lost
from parley.__main__ import main
sys.exit(main())
"""
HANGS = """
import signal, sys, threading
from parley.cli.running import serve_engine
serve_engine.LAST_SECONDS = 0.3
serve_engine.Attendant.run = lambda self: signal.raise_signal(signal.SIGTERM)
def hang(self, *given):
    threading.Event().wait()
serve_engine.HomeEngines.__exit__ = hang
from parley.__main__ import main
sys.exit(main())
"""


def ended(home: Home, program: str, *words: str) -> tuple[int, str]:
    """How a process ends that nothing else ends: its input stays open."""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", program, *words],
        cwd=home.folder,
        env=home.env(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),  # noqa: PLW1509 - as in the background of a shell
    ) as process:
        try:
            process.wait(timeout=30)
        finally:
            process.kill()
        return process.returncode, process.stdout.read() if process.stdout is not None else ""


@pytest.mark.parametrize("number", ["SIGTERM", "SIGHUP"])
def test_an_engine_ends_though_the_exception_of_its_signal_was_lost(home: Home, number: str) -> None:
    lost = LOSES.format(module="actions.drive_all", name="Attendant", method="_publish", signal=number, becomes="pass")
    code, said = ended(home, lost, "serve-engine")

    assert (code, "Traceback" in said) == (0, False), said
    assert "ended; jobs under way go on with `parley serve` or `parley resume`" in said


@pytest.mark.parametrize("becomes", ["pass", "raise RuntimeError('release unlocked lock')"])
def test_a_run_ends_though_the_exception_of_its_signal_was_lost(home: Home, becomes: str) -> None:
    lost = LOSES.format(module="engine.loop", name="Engine", method="crank", signal="SIGTERM", becomes=becomes)
    code, said = ended(home, lost, "run", "x", "--playbook", home.write("b.yaml", BUSY))

    assert (code, said.count("interrupted; go on with: parley resume ")) == (128 + signal.SIGTERM, 1), said


def test_an_engine_whose_clean_up_hangs_is_ended_and_says_where_it_hung(home: Home) -> None:
    code, said = ended(home, HANGS, "serve-engine")

    assert code == 1
    assert "in hang" in said
    assert said.splitlines()[-1].endswith("did not clean up within 0 s after it was asked to end, and was ended")
