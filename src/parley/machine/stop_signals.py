"""Lets a SIGTERM or a closed terminal end a process like Ctrl-C.

A signal's exception is raised wherever the program happens to be. There it may get lost: Python drops it in a
finalizer and in a generator that is being closed, and turns it into other errors in some places. So the request is
noted as well, and loops that run for long look at the note: the exception is only the quicker way.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType


class Stopped(KeyboardInterrupt):
    """A signal asked the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


class _Request:
    """Which signal has asked the process to end; 0: none."""

    number = 0


def ask(number: int) -> bool:
    """Note that a signal asks the process to end; whether it is the first that does."""
    first = not _Request.number
    _Request.number = _Request.number or number
    return first


def asked() -> int:
    """The signal that has asked the process to end; 0: none has."""
    return _Request.number


def forget() -> None:
    """A new command begins: what ended the one before does not count."""
    _Request.number = 0


def raise_if_asked() -> None:
    """End what goes on although a signal asked for the end: the exception of that signal was lost."""
    if _Request.number:
        raise exception_of(_Request.number)


def exception_of(number: int) -> KeyboardInterrupt:
    """The exception with which a signal ends a command."""
    return KeyboardInterrupt() if number == signal.SIGINT else Stopped(number)


def stop(number: int, frame: FrameType | None) -> None:
    """The handler of a signal that ends the process. Once is enough: another one would cut the clean-up short."""
    if ask(number):
        raise Stopped(number)


@contextmanager
def stop_like_ctrl_c() -> Iterator[None]:
    """Handle these signals like Ctrl-C, so that the command cleans up first."""
    with ExitStack() as held:
        for number in (signal.SIGTERM, signal.SIGHUP):
            before = signal.getsignal(number)
            held.callback(signal.signal, number, before)
            if before == signal.SIG_DFL:  # nohup has set it to be ignored
                signal.signal(number, stop)
        yield
