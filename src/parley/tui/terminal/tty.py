"""The terminal device: its alternate screen, its keys, its size, and its signals.

Unless the program is killed by SIGKILL, the terminal is restored.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any, Self

from rich.console import Console
from rich.text import Text

from parley.machine import stop_signals
from parley.tui.terminal.keys import Keys

# alternate screen, no cursor, no wrapping, and bracketed paste
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?2004h"
_LEAVE = "\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[?1049l"
_SHARE = 256  # bytes that a terminal which is ready takes without waiting
_PLAIN = str.maketrans({"─": "-", "…": "~", "→": ">", "·": "-", "▸": ">"})


class Tty:
    """A screen that is painted line by line, only where something has changed.

    `owns`: the process works on jobs meanwhile. Then nothing here waits: Ctrl-Z does not stop the process, since no
    other could take its jobs; signals that end it are its own affair; and what a slow line does not take is painted
    later.
    """

    def __init__(self, source: int = 0, target: int = 1, *, owns: bool = False) -> None:
        self._source, self._target, self._owns = source, target, owns
        self._keys = Keys(source, suspends=not owns)
        self._unsent = b""  # what the line has not taken yet
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
        self._stale = True  # whether the screen differs from what was painted last
        self._stop = self._again = False

    # ---- coming and going --------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        handlers: dict[signal.Signals, Callable[[int, FrameType | None], None]] = {signal.SIGWINCH: self._wake}
        if not self._owns:
            handlers |= {
                signal.SIGTERM: stop_signals.stop,
                signal.SIGHUP: stop_signals.stop,
                signal.SIGTSTP: self._suspend,
                signal.SIGCONT: self._go_on,
            }
        for number, handler in handlers.items():
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup has set it to be ignored
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
        with contextlib.suppress(OSError):  # the terminal was closed
            self._send(self._unsent + _LEAVE.encode())
            self._unsent = b""
        with contextlib.suppress(Exception):  # termios has its own error for that
            self._keys.__exit__(None, None, None)

    # ---- signals -----------------------------------------------------------------------------

    def _wake(self, number: int, frame: FrameType | None) -> None:
        self._stale = True
        with contextlib.suppress(OSError):
            os.write(self._waker[1], b"\0")

    def _suspend(self, number: int, frame: FrameType | None) -> None:
        self._stop = True
        self._wake(number, frame)

    def _go_on(self, number: int, frame: FrameType | None) -> None:
        self._again = True  # another program may have changed the terminal meanwhile
        self._wake(number, frame)

    def _pause(self) -> None:
        """Stop at Ctrl-Z, and go on when the shell continues the process."""
        self._stop = False
        self._give_back()
        ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, ours)

    def lend(self, program: Sequence[str], words: str) -> int:
        """Give the terminal to a program until it ends: its exit code. What it says of a failure stays until Enter.

        `words` are on the screen before the program draws, and after.
        """
        self._give_back()
        try:
            self._send(f"{words}\n".encode(self._encoding, "replace"))
            code = subprocess.run(program, check=False).returncode
            if code:
                self._write("\nEnter goes back ")
                os.read(self._source, 4096)
            return code
        finally:
            self._take_over()

    # ---- keys and painting ---------------------------------------------------------

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        try:
            width, height = os.get_terminal_size(self._target)
        except OSError:
            width, height = 0, 0
        return width or 80, height or 24

    def wait(self, seconds: float) -> list[str]:
        """The keys typed within that time; none if the terminal was resized or continued."""
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
        if self._unsent:
            self._write("")
            if self._unsent:
                return  # the line is slow: this frame is left out
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
        data = self._unsent + text.encode(self._encoding, "replace")
        if not self._owns:
            self._send(data)
            return
        while data and select.select([], [self._target], [], 0)[1]:
            data = data[os.write(self._target, data[:_SHARE]) :]
        self._unsent = data

    def _send(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._target, data) :]
            except BlockingIOError:  # another program made it non-blocking, and it is full
                select.select([], [self._target], [])
