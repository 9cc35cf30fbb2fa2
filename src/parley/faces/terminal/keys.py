"""What was typed, key by key, without waiting for any."""

from __future__ import annotations

import codecs
import os
import re
import select
import termios
from types import TracebackType
from typing import Any, Self

_NAMES = {
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\b": "backspace",
    "\t": "tab",
    "\x15": "clear",  # Ctrl-U
    "\x1b": "esc",
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[5~": "pageup",
    "\x1b[6~": "pagedown",
}
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Za-z])|.", re.DOTALL)


class Keys:
    """The keyboard while the view is there: no echo, no lines; Ctrl-C works as ever."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._before: list[Any] | None = None
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._descriptor)
        mode = termios.tcgetattr(self._descriptor)
        mode[3] &= ~(termios.ICANON | termios.ECHO)
        mode[6][termios.VSUSP] = b"\0"  # stopped, it would keep its jobs from everyone else
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, mode)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def read(self) -> list[str]:
        """The keys since the last call: a character each, or a name."""
        if not select.select([self._descriptor], [], [], 0)[0]:
            return []
        data = os.read(self._descriptor, 4096)
        if not data:
            raise KeyboardInterrupt  # the terminal is gone
        return parse(self._decode.decode(data))


def parse(text: str) -> list[str]:
    """The keys of what a terminal sends; what has no name and can't be shown is left out."""
    keys = (_NAMES.get(part, part) for part in _SEQUENCE.findall(text))
    return [key for key in keys if len(key) > 1 or key.isprintable()]
