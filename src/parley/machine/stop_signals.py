"""Lets a SIGTERM or a closed terminal end a process like Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import NoReturn


class Stopped(KeyboardInterrupt):
    """A signal asked the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


def stop(number: int, frame: FrameType | None) -> NoReturn:
    """The handler of a signal that ends the process."""
    signal.signal(number, signal.SIG_IGN)  # once is enough: now it cleans up
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
