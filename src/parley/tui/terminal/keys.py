"""Reads typed keys without blocking."""

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
    "\x17": "word",  # Ctrl-W
    "\x0c": "redraw",  # Ctrl-L
    "\x01": "home",  # Ctrl-A
    "\x05": "end",  # Ctrl-E
    "\x1b": "esc",
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1bOC": "right",
    "\x1bOD": "left",
    "\x1b[3~": "delete",
    "\x1b[5~": "pageup",
    "\x1b[6~": "pagedown",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1bOH": "home",
    "\x1bOF": "end",
    "\x1b[1~": "home",
    "\x1b[4~": "end",
}
_SEQUENCE = re.compile(r"\x1b\[200~.*?(?:\x1b\[201~|\Z)|\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Za-z])|.", re.DOTALL)
_PASTE = "\x1b[200~"
_UNFINISHED = re.compile(r"\x1b(?:\[[0-9;]*|O)?\Z")
_REST_SECONDS = 0.05  # how long the rest of a key sequence may take


class Pasted(str):
    """Pasted text, which is never read as keys. It may have several lines."""

    __slots__ = ()


class Keys:
    """The keyboard while the view is shown: no echo, no line buffering; Ctrl-C works as usual.

    `suspends`: Ctrl-Z stops the program. An owner of jobs must not stop: no other process could take them.
    """

    def __init__(self, descriptor: int, *, suspends: bool = False) -> None:
        self._descriptor = descriptor
        self._suspends = suspends
        self._before: list[Any] | None = None
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")

    def __enter__(self) -> Self:
        self._before = self._before or termios.tcgetattr(self._descriptor)
        mode = termios.tcgetattr(self._descriptor)
        mode[3] &= ~(termios.ICANON | termios.ECHO)
        if not self._suspends:
            mode[6][termios.VSUSP] = b"\0"
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, mode)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            before, self._before = self._before, None
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, before)

    def read(self) -> list[str]:
        """The keys since the last call: a character each, or a name."""
        if not self._waits(0):
            return []
        text = self._take()
        while (_UNFINISHED.search(text) or _is_pasting(text)) and self._waits(_REST_SECONDS):
            text += self._take()
        return parse(text)

    def _waits(self, seconds: float) -> bool:
        return bool(select.select([self._descriptor], [], [], seconds)[0])

    def _take(self) -> str:
        data = os.read(self._descriptor, 4096)
        if not data:
            raise KeyboardInterrupt  # the terminal was closed
        return self._decode.decode(data)


def _is_pasting(text: str) -> bool:
    return text.rfind(_PASTE) > text.rfind("\x1b[201~")


def parse(text: str) -> list[str]:
    """The keys in a terminal's input; unknown and unprintable ones are dropped."""
    keys: list[str] = []
    for part in _SEQUENCE.findall(text):
        key = _NAMES.get(part, part)
        if key.startswith(_PASTE):
            lines = key.removeprefix(_PASTE).removesuffix("\x1b[201~").expandtabs(4).splitlines()
            keys.append(Pasted("\n".join("".join(filter(str.isprintable, line)).rstrip() for line in lines)))
        elif key in _NAMES.values() or (len(key) == 1 and key.isprintable()):
            keys.append(key)
    return keys
