"""What ends a command from outside: a signal that is asked for, or a terminal that was closed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import NoReturn


class Stopped(KeyboardInterrupt):
    """Somebody asked the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # once is enough: what follows is the tidying up
    raise Stopped(number)


@contextmanager
def tidying() -> Iterator[None]:
    """Be ended by such a signal as by a Ctrl-C: what was begun is taken back or closed first."""
    with ExitStack() as held:
        for number in (signal.SIGTERM, signal.SIGHUP):
            before = signal.getsignal(number)
            held.callback(signal.signal, number, before)
            if before == signal.SIG_DFL:  # nohup and the like are left as they are
                signal.signal(number, _stop)
        yield
