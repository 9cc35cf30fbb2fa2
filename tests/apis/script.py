"""What the scripted APIs have in common: the words of a script, how one goes on, and the server that plays it.

For each agent a list of turns, as in a playbook: the first whose pattern is found in the newest message acts,
once in a conversation unless it repeats. Each `Use` ends a response; its result comes with the next request, and the
script goes on behind it. What to say is worked out from the request alone, which holds the whole conversation: so
an agent that was killed and resumed from its session gets the same answers again. Only failures are counted here.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Protocol, Self

ALWAYS = 1 << 30


# ---- what a script says --------------------------------------------------------------------------


@dataclass(frozen=True)
class Say:
    """Some text."""

    text: str


@dataclass(frozen=True)
class Use:
    """A tool call. A tool of the protocol's may be named as the protocol names it.

    Arguments that depend on what was said so far are given as a function of the API's Exchange.
    """

    tool: str
    arguments: Mapping[str, Any] | Callable[[Any], Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Together:
    """Several tool calls in one response."""

    uses: tuple[Use, ...]

    def __init__(self, *uses: Use) -> None:
        object.__setattr__(self, "uses", uses)


@dataclass(frozen=True)
class Drop:
    """The connection breaks in the middle of a response."""

    times: int = ALWAYS


@dataclass(frozen=True)
class Cut:
    """The connection breaks behind all that a response says, before the events that end it."""

    times: int = ALWAYS


@dataclass(frozen=True)
class Malformed:
    """A response with an event that is no JSON."""

    times: int = ALWAYS


@dataclass(frozen=True)
class Slow:
    """The response takes its time; then it comes."""

    seconds: float
    times: int = ALWAYS


class Trouble(Protocol):
    """What may go wrong in place of a response, so many times."""

    @property
    def times(self) -> int:
        """How often it goes wrong."""


class Matching(Protocol):
    """A turn, as far as it takes to find it."""

    @property
    def match(self) -> str:
        """The pattern that is looked for in the message."""

    @property
    def repeat(self) -> bool:
        """Whether it may act again in the same conversation."""


def last_found(pattern: str, texts: Iterable[str]) -> str:
    """What a pattern last found, the newest text first: a thread's id, say."""
    for text in texts:
        if found := re.findall(pattern, text):
            return str(found[-1])
    raise LookupError(f"{pattern} is nowhere in this conversation")


# ---- how it goes on ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One response: what goes wrong before it, then its blocks."""

    troubles: tuple[Trouble, ...]
    blocks: tuple[Say | Use, ...]


def steps(blocks: Sequence[Say | Use | Together | Trouble]) -> list[Step]:
    """A turn, response by response."""
    found: list[Step] = []
    troubles: list[Trouble] = []
    said: list[Say | Use] = []
    for block in blocks:
        if isinstance(block, Say):
            said.append(block)
        elif isinstance(block, Use | Together):
            uses = block.uses if isinstance(block, Together) else (block,)
            found.append(Step(tuple(troubles), (*said, *uses)))
            troubles, said = [], []
        else:
            troubles.append(block)
    return [*found, Step(tuple(troubles), tuple(said) or (Say("Done."),))]


def acting(turns: Sequence[Matching], prompts: Iterable[str]) -> int | None:
    """Which turn acts on the last message of a conversation; None where none does."""
    used: set[int] = set()
    found: int | None = None
    for prompt in prompts:
        matching = (
            number
            for number, turn in enumerate(turns)
            if (number not in used or turn.repeat) and re.search(turn.match, prompt)
        )
        found = next(matching, None)
        if found is not None:
            used.add(found)
    return found


# ---- the server ----------------------------------------------------------------------------------


class ScriptedAPI:
    """A server on loopback that plays a script."""

    handler: type[BaseHTTPRequestHandler]

    def __init__(self, key: str) -> None:
        self.key = key  # if given, a request without it is refused
        self._spent: Counter[tuple[object, ...]] = Counter()
        self._lock = threading.Lock()
        self.closing = threading.Event()
        self._listen(0)
        self.port = int(self._server.server_address[1])  # where it listens

    def _listen(self, port: int) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self.handler)
        self._server.daemon_threads = True
        self._server.api = self  # type: ignore[attr-defined]  # how the handler finds the script
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def go(self) -> None:
        """Listen no more: whoever connects is refused."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def come_back(self) -> None:
        """Listen again, in the same place."""
        self._listen(self.port)
        self._thread.start()

    @property
    def url(self) -> str:
        """What clients are given as its address."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self.go()

    def trouble(self, step: Step, place: tuple[object, ...]) -> list[Trouble]:
        """What goes wrong this time; spent when it is taken."""
        wrong = []
        with self._lock:
            for order, trouble in enumerate(step.troubles):
                if self._spent[*place, order] < trouble.times:
                    self._spent[*place, order] += 1
                    wrong.append(trouble)
                    if not isinstance(trouble, Slow):
                        break
        return wrong


class ScriptedHandler(BaseHTTPRequestHandler):
    """One connection, one request."""

    server_version = "scripted"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Say nothing."""

    def abort(self) -> None:
        """Break the connection, so that the other side sees it as broken."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.connection.close()

    def event(self, kind: str, document: Mapping[str, Any]) -> None:
        """Send one event of a stream."""
        self.wfile.write(f"event: {kind}\ndata: {json.dumps({'type': kind, **document})}\n\n".encode())
        self.wfile.flush()
