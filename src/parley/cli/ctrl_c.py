"""Handles Ctrl-C: it ends the command with one line, without a traceback, and with exit code 130.

Before and after a command there is nothing to clean up: the process ends at once. While a command runs, the first
Ctrl-C is a KeyboardInterrupt, so that the command ends the agents' processes and closes its files; the second one says
so; the third one ends the process at once. What is on the bus stands in every case.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from parley.machine import stop_signals

CODE = 128 + signal.SIGINT
AGAIN_SECONDS = 0.02
_HINT = "parley: ending what still runs; press Ctrl-C once more to leave it\n"


class _Presses:
    """How often Ctrl-C was pressed, and what the user is told when it has ended the command."""

    def __init__(self) -> None:
        self.running = False
        self.count = 0
        self.standing: Callable[[], str] | None = None


_presses = _Presses()


def watch() -> None:
    """Handle Ctrl-C from here on. Where the process was started with Ctrl-C ignored, it stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _pressed)
        # Python drops the handler at its very end: Ctrl-C would then kill the process, and its exit code would be lost.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    sys.unraisablehook = _unraisable  # also where Ctrl-C is ignored: a SIGTERM is not


def run(command: Callable[[], int]) -> int:
    """Run a command that handles Ctrl-C itself; it may still come at the moment of its return."""
    try:
        return command()
    except KeyboardInterrupt:
        _leave("")


def command_begins() -> None:
    """From here on there may be something to clean up."""
    _presses.running, _presses.count, _presses.standing = True, 0, None
    stop_signals.forget()


def command_ended() -> None:
    """Everything is cleaned up."""
    _presses.running = False
    stop_signals.forget()


def set_interrupted_hint(standing: Callable[[], str]) -> None:
    """What the user is told about the job after Ctrl-C. `standing` is called only then."""
    _presses.standing = standing


def interrupted_line() -> str:
    """The line for the user."""
    try:
        more = _presses.standing() if _presses.standing is not None else ""
    except Exception:  # noqa: BLE001 - the bus may be missing or half made: then there is no job to name
        more = ""
    return f"interrupted; {more}" if more else "interrupted"


def _pressed(number: int, frame: FrameType | None) -> None:
    if not _presses.running:
        _leave("parley: interrupted\n")
    _presses.count += 1
    if stop_signals.ask(number):
        raise KeyboardInterrupt
    if _presses.count > 2:  # noqa: PLR2004 - the second one only told what the third one does
        _leave("")
    _write(_HINT)


def _leave(words: str) -> NoReturn:
    _write(words)
    os._exit(CODE)


def _write(words: str) -> None:
    try:
        os.write(2, words.encode())
    except OSError:
        return  # standard error is closed


def _unraisable(raised: sys.UnraisableHookArgs) -> None:
    """A KeyboardInterrupt in a finalizer, from which none can be raised, comes again a moment later."""
    if not isinstance(raised.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(raised)
        return
    signal.signal(signal.SIGALRM, _again)
    signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)


def _again(number: int, frame: FrameType | None) -> None:
    if _presses.running:  # else the command has ended meanwhile
        stop_signals.raise_if_asked()
