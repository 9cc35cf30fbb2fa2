"""The one way out to people: all that a command prints passes here, whoever wrote the words in it.

A terminal obeys nothing that is printed, and no secret that is known is in it. Each field is escaped, redacted and cut
where it is put into a line; this is the net below that, for the field that was forgotten.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TextIO, cast

from parley.text import safe_lines, visible_json


class Redacting(Protocol):
    """Known secrets."""

    def redact(self, text: str) -> str:
        """A text without them."""

    def document(self, value: Any) -> Any:
        """A JSON value without them."""

    def showing(self, texts: Iterable[str]) -> Redacting:
        """The same, but for what a repository's files call so and is in texts that the user has to read."""


class Outlet:
    """Standard output, or standard error, as people may see it. `beneath` is the stream itself, for what draws."""

    def __init__(self, beneath: TextIO, net: Net) -> None:
        self.beneath = beneath
        self._net = net

    def write(self, text: str) -> int:
        """Write a text that anybody may have had a part in."""
        self.beneath.write(safe_lines(self._net.secrets().redact(text)))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


class _None:
    def redact(self, text: str) -> str:
        return text

    def document(self, value: Any) -> Any:
        return value

    def showing(self, texts: Iterable[str]) -> Redacting:
        return self


class Net:
    """The secrets that are known, looked up when something is printed for the first time."""

    def __init__(self) -> None:
        self._find: Callable[[], Redacting] = _None
        self._found: Redacting | None = None
        self._shown: tuple[str, ...] = ()

    def look(self, find: Callable[[], Redacting]) -> None:
        """Say how they are found."""
        self._find, self._found = find, None

    def show(self, *texts: str) -> None:
        """Say what the user has to read as it is, such as what is asked for, whatever a repository calls a secret."""
        self._shown, self._found = (*self._shown, *texts), None

    def forget(self) -> None:
        """The command is over."""
        self._shown, self._found = (), None

    def secrets(self) -> Redacting:
        """The secrets. While they are being looked for, there are none."""
        if self._found is None:
            self._found = _None()
            try:
                found = self._find()
                self._found = found.showing(self._shown) if self._shown else found
            except BaseException:  # as by a Ctrl-C: who prints next looks again
                self._found = None
                raise
        return self._found


NET = Net()


@contextmanager
def cleaned() -> Iterator[None]:
    """For as long as this lasts, nothing is printed past the net."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        stream if isinstance(stream, Outlet) else cast("TextIO", Outlet(stream, NET)) for stream in before
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        NET.look(_None)
        NET.forget()


def beneath(stream: TextIO) -> TextIO:
    """The stream itself, for a view that draws with sequences of its own and cleans each of its lines."""
    return stream.beneath if isinstance(stream, Outlet) else stream


def print_document(document: Any, indent: int | None = 2) -> None:
    """One JSON document on standard output: without secrets, and with nothing in it that a terminal would obey."""
    known = NET.secrets().document(document)
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    text = visible_json(json.dumps(known, indent=indent, ensure_ascii=not utf8))
    beneath(sys.stdout).write(f"{text}\n")
