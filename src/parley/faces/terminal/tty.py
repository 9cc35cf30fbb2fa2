"""The terminal itself: its other screen, its keys, its size, and the signals that concern it.

However the program ends, short of being killed outright, the terminal is left as it was found.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import signal
import sys
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

from rich.console import Console
from rich.text import Text

from parley.faces.terminal.keys import Keys

# the other screen, no cursor, no wrapping at the edge, and pastes that are marked as such
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?2004h"
_LEAVE = "\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[?1049l"
_PLAIN = str.maketrans({"─": "-", "…": "~", "→": ">", "·": "-", "▸": ">"})


class Ended(KeyboardInterrupt):
    """Somebody asked the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


class Tty:
    """A screen that is painted line by line, only where something has changed."""

    def __init__(self, source: int = 0, target: int = 1) -> None:
        self._source, self._target = source, target
        self._keys = Keys(source, suspends=True)
        self._shown: list[str] = []
        self._sketch = io.StringIO()
        self._console = Console(
            file=self._sketch, force_terminal=True, width=10_000, highlight=False, markup=False, emoji=False
        )
        encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
        self._encoding = encoding
        self._plain = not encoding.startswith("utf")
        self._before: dict[int, Any] = {}
        self._waker = (-1, -1)
        self._stale = True  # what is on the screen is not what was painted last
        self._stop = self._again = False

    # ---- coming and going --------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        handlers = {
            signal.SIGTERM: self._end,
            signal.SIGHUP: self._end,
            signal.SIGWINCH: self._wake,
            signal.SIGTSTP: self._suspend,
            signal.SIGCONT: self._go_on,
        }
        for number, handler in handlers.items():
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup and the like are left as they are
                self._before[number] = signal.signal(number, handler)
        try:
            self._take_over()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        for descriptor in self._waker:
            os.close(descriptor)

    def _take_over(self) -> None:
        self._keys.__enter__()
        self._write(_ENTER)
        self._stale = True

    def _give_back(self) -> None:
        with contextlib.suppress(OSError):  # a terminal that is gone needs nothing
            self._write(_LEAVE)
        with contextlib.suppress(Exception):  # termios has an error of its own for the same
            self._keys.__exit__(None, None, None)

    # ---- signals -----------------------------------------------------------------------------

    def _end(self, number: int, frame: FrameType | None) -> NoReturn:
        signal.signal(number, signal.SIG_IGN)  # once is enough: what follows is the tidying up
        raise Ended(number)

    def _wake(self, number: int, frame: FrameType | None) -> None:
        self._stale = True
        with contextlib.suppress(OSError):
            os.write(self._waker[1], b"\0")

    def _suspend(self, number: int, frame: FrameType | None) -> None:
        self._stop = True
        self._wake(number, frame)

    def _go_on(self, number: int, frame: FrameType | None) -> None:
        self._again = True  # whoever stopped it without asking may have changed the terminal
        self._wake(number, frame)

    def _pause(self) -> None:
        """Stop as every program does at Ctrl-Z, and come back when the shell says so."""
        self._stop = False
        self._give_back()
        ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, ours)

    # ---- what is typed, what is seen ---------------------------------------------------------

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        try:
            width, height = os.get_terminal_size(self._target)
        except OSError:
            width, height = 0, 0
        return width or 80, height or 24

    def wait(self, seconds: float) -> list[str]:
        """The keys that are typed within that time; none if something else has happened to the terminal."""
        ready = select.select([self._source, self._waker[0]], [], [], seconds)[0]
        if self._waker[0] in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._waker[0], 4096)
        if self._stop:
            self._pause()
        if self._again:
            self._again = False
            self._take_over()
            return []
        if self._source not in ready:
            return []
        keys = self._keys.read()
        if "redraw" in keys:
            self._stale = True
        return keys

    def paint(self, lines: Sequence[Text]) -> None:
        """Show these lines, and nothing else."""
        known, self._stale = [] if self._stale else self._shown, False
        fresh = [self._drawn(line) for line in lines]
        parts = [] if known else ["\x1b[H\x1b[2J"]
        for number, text in enumerate(fresh):
            if number >= len(known) or known[number] != text:
                parts.append(f"\x1b[{number + 1};1H\x1b[2K{text}")
        parts += [f"\x1b[{number + 1};1H\x1b[2K" for number in range(len(fresh), len(known))]
        self._shown = fresh
        self._write("".join(parts))

    def _drawn(self, line: Text) -> str:
        self._sketch.seek(0)
        self._sketch.truncate()
        self._console.print(line, end="", soft_wrap=True)
        text = self._sketch.getvalue()
        return text.translate(_PLAIN) if self._plain else text

    def _write(self, text: str) -> None:
        data = text.encode(self._encoding, "replace")
        while data:
            try:
                data = data[os.write(self._target, data) :]
            except BlockingIOError:  # somebody has made it so, and it takes no more for now
                select.select([], [self._target], [])
