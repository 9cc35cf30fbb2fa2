"""A harness for the watch: a real pseudo-terminal, and jobs for it to show."""

import fcntl
import os
import signal
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cli.home import PARLEY, Home
from tests.cli.terminal import Terminal, terminal

# A lead that does nothing: the state fails as often as it may, and nobody is asked.
IDLE = "agents:\n  intent-lead:\n    - {match: '.', repeat: true, do: []}\n"


def detach(home: Home, playbook: str, request: str = "a request", *words: str) -> str:
    """A job with a living owner: its id."""
    done = home.run("run", request, "--playbook", home.write("p.yaml", playbook), "--detach", *words)
    assert done.code == 0, done
    return done.out.strip()


def state_of(home: Home, job: str) -> str:
    return str(next(each["state"] for each in home.jobs() if each["id"] == job))


@contextmanager
def watching(home: Home, columns: int = 80, rows: int = 24, **environment: str) -> Iterator[Terminal]:
    """`parley watch`, with its list on the screen."""
    with terminal([str(PARLEY), "watch"], home.folder, {**home.env(), **environment}, columns, rows) as screen:
        screen.wait_for("q quit")
        yield screen


def resize(screen: Terminal, columns: int, rows: int) -> None:
    """The window is made larger or smaller."""
    fcntl.ioctl(screen.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    screen.columns, screen.rows = columns, rows
    screen.lines = [" " * columns] * rows
    os.kill(screen.process, signal.SIGWINCH)
