"""The standard output and error of all commands: everything printed is escaped and redacted once more.

No printed text controls the terminal or contains a known secret. Each field is escaped, redacted and cut where it is
put into a line; this is the safety net for a forgotten field.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TextIO, cast

from parley.base.text import safe_lines, visible_json


class Redactor(Protocol):
    """Removes known secrets."""

    def redact(self, text: str) -> str:
        """A text without them."""

    def document(self, value: Any) -> Any:
        """A JSON value without them."""

    def showing(self, texts: Iterable[str]) -> Redactor:
        """The same, except for values that only a repository's files call secrets and that are in these texts."""


class RedactedStream:
    """Standard output or error, escaped and redacted. `beneath` is the stream itself, for views that draw."""

    def __init__(self, raw_stream: TextIO, net: OutputSecrets) -> None:
        self.beneath = raw_stream
        self._net = net

    def write(self, text: str) -> int:
        """Write a text, parts of which agents may have written."""
        self.beneath.write(safe_lines(self._net.secrets().redact(text)))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


class _None:
    def redact(self, text: str) -> str:
        return text

    def document(self, value: Any) -> Any:
        return value

    def showing(self, texts: Iterable[str]) -> Redactor:
        return self


class OutputSecrets:
    """The known secrets, looked up at the first print."""

    def __init__(self) -> None:
        self._find: Callable[[], Redactor] = _None
        self._found: Redactor | None = None
        self._shown: tuple[str, ...] = ()

    def look(self, find: Callable[[], Redactor]) -> None:
        """Set the function that finds them."""
        self._find, self._found = find, None

    def show(self, *texts: str) -> None:
        """Exempt texts that the user has to read unredacted, even if a repository calls parts of them secrets."""
        self._shown, self._found = (*self._shown, *texts), None

    def forget(self) -> None:
        """Forget the secrets: the command is over."""
        self._shown, self._found = (), None

    def secrets(self) -> Redactor:
        """The secrets; none while they are being looked up."""
        if self._found is None:
            self._found = _None()
            try:
                found = self._find()
                self._found = found.showing(self._shown) if self._shown else found
            except BaseException:  # a Ctrl-C, say: the next print looks them up again
                self._found = None
                raise
        return self._found


OUTPUT_SECRETS = OutputSecrets()


@contextmanager
def redacted_output() -> Iterator[None]:
    """Redact everything that is printed while this lasts."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        stream if isinstance(stream, RedactedStream) else cast("TextIO", RedactedStream(stream, OUTPUT_SECRETS))
        for stream in before
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        OUTPUT_SECRETS.look(_None)
        OUTPUT_SECRETS.forget()


def raw_stream(stream: TextIO) -> TextIO:
    """The stream itself, for a view that draws with escape sequences and cleans each line itself."""
    return stream.beneath if isinstance(stream, RedactedStream) else stream


def print_document(document: Any, indent: int | None = 2) -> None:
    """Print one JSON document, redacted, and with everything escaped that a terminal would obey."""
    known = OUTPUT_SECRETS.secrets().document(document)
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    text = visible_json(json.dumps(known, indent=indent, ensure_ascii=not utf8))
    raw_stream(sys.stdout).write(f"{text}\n")
