"""A real pseudo-terminal with a program in it, and what its screen shows."""

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE_SECONDS = 30.0
_SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b[=>78]|\x1b\([A-Z]|\x1b\][^\x07]*\x07")


class Terminal:
    """Keeps the screen as a terminal does, as far as full-screen programs that redraw need it."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.lines = [" " * columns] * rows
        self.row = self.column = 0
        self.master = -1
        self.process = 0
        self.everything = ""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def screen(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines)

    def feed(self, text: str) -> None:
        self.everything += text
        text = self._rest + text
        cut = text.rfind("\x1b")
        self._rest = ""
        if cut >= 0 and not _SEQUENCE.match(text, cut):
            text, self._rest = text[:cut], text[cut:]
        position = 0
        for found in _SEQUENCE.finditer(text):
            self._put(text[position : found.start()])
            self._obey(found.group(1) or "", found.group(2) or "")
            position = found.end()
        self._put(text[position:])

    def _obey(self, arguments: str, command: str) -> None:
        numbers = [int(number) if number.isdigit() else 0 for number in arguments.split(";")]
        if command == "H":
            self.row = max(0, numbers[0] - 1)
            self.column = max(0, (numbers[1] if len(numbers) > 1 else 1) - 1)
        elif command == "A":
            self.row = max(0, self.row - max(1, numbers[0]))
        elif command == "K":
            self.lines[self.row] = (
                " " * self.columns if numbers[0] == 2 else self.lines[self.row][: self.column].ljust(self.columns)
            )
        elif command == "J" and numbers[0] == 0:  # from the cursor on: a shell does it before each prompt
            below = self.rows - self.row - 1
            rest = self.lines[self.row][: self.column].ljust(self.columns)
            self.lines = [*self.lines[: self.row], rest, *[" " * self.columns] * below]
        elif command == "J" or (command == "h" and arguments == "?1049"):
            self.lines = [" " * self.columns] * self.rows

    def _put(self, text: str) -> None:
        for char in text:
            if char == "\r":
                self.column = 0
            elif char == "\b":
                self.column = max(0, self.column - 1)
            elif char == "\n":
                self.row += 1
                if self.row >= self.rows:
                    self.lines = [*self.lines[1:], " " * self.columns]
                    self.row = self.rows - 1
            elif char >= " ":
                if self.column >= self.columns:
                    self.column, self.row = 0, min(self.row + 1, self.rows - 1)
                line = self.lines[self.row]
                self.lines[self.row] = line[: self.column] + char + line[self.column + 1 :]
                self.column += 1

    def read(self, seconds: float) -> bool:
        """Take what the program wrote; False if it has ended."""
        if not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.feed(self._decode.decode(data))
        return bool(data)

    def wait_for(self, text: str) -> str:
        """Wait until the screen shows a text; the screen."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            if text in self.screen():
                return self.screen()
            if not self.read(0.05):
                break
        raise AssertionError(f"{text!r} is not on the screen:\n{self.screen()}")

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def end(self) -> int:
        """Wait for the program's end; its exit code."""
        while self.read(0.05):
            if os.waitid(os.P_PID, self.process, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                while self.read(0.0) and select.select([self.master], [], [], 0)[0]:
                    pass
                break
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


@contextmanager
def terminal(
    words: list[str], folder: Path, environment: dict[str, str], columns: int = 80, rows: int = 24
) -> Iterator[Terminal]:
    """A program in a terminal of a size."""
    made = Terminal(columns, rows)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {**environment, "TERM": "xterm"}
    for name in ("COLUMNS", "LINES"):
        environment.pop(name, None)
    process = os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", 'cd "$0" && exec "$@"', str(folder), *words],
        environment,
        file_actions=[(os.POSIX_SPAWN_DUP2, slave, number) for number in (0, 1, 2)],
        setsid=False,
        setpgroup=0,
        setsigdef=(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT),  # whoever runs the tests may ignore them
    )
    made.master, made.process = master, process
    os.close(slave)
    try:
        yield made
    finally:
        try:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(master)
