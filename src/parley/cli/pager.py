"""The user's pager: a long text goes through it where standard output is a terminal, as git does it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, cast

from parley.cli.common import columns

VARIABLE = "PAGER"
DEFAULT = "less"
NONE = ("", "cat")
SETTINGS = {"LESS": "FRX", "LV": "-c"}  # unless the user has others: leave where all fits on one screen
_STDOUT = 1


def command() -> str:
    """The pager that output goes through; empty: none."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") in ("", "dumb"):
        return ""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return "" if named.strip() in NONE else named
    return DEFAULT if shutil.which(DEFAULT) else ""


@contextmanager
def paged() -> Iterator[None]:
    """Let all that is printed go through the pager, until the user leaves it."""
    pager = command()
    if not pager:
        yield
        return
    environment = {**SETTINGS, **os.environ}
    os.environ["COLUMNS"] = str(columns())  # asked of the terminal now: later standard output is a pipe
    sys.stdout.flush()
    # the user's own variable is a command line, as for every other program that reads it
    process = subprocess.Popen(["/bin/sh", "-c", pager], stdin=subprocess.PIPE, env=environment)
    pipe = cast("IO[bytes]", process.stdin)
    terminal = os.dup(_STDOUT)
    os.dup2(pipe.fileno(), _STDOUT)
    pipe.close()
    try:
        with suppress(BrokenPipeError):  # the user has left the pager before the end
            yield
            sys.stdout.flush()
    finally:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pager's now
        os.dup2(terminal, _STDOUT)  # closes the pipe: the pager sees the text's end
        os.close(terminal)
        process.wait()
        signal.signal(signal.SIGINT, before)
