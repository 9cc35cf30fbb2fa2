"""The tool socket: a unix socket in the instance's home that takes tool calls from the cage, for one turn.

A call is one line of JSON with the turn's token; its answer is one line. Any process in the cage may write anything to
it: what is no call of this turn is refused, what is too long is cut off, and neither harms the turn.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Any

from msgspec import Struct, ValidationError, convert

from parley.base.text import BadText, read_json
from parley.runners.command.tool_caller import LINE_LIMIT

CONNECTIONS = 16  # at once; more wait in the listener's queue, which is short too
MAX_CALLS = 1000  # of one turn
MAX_REFUSALS = 1000  # of one turn; after that its socket is closed
_CHUNK = 1 << 16

# takes a call's number, tool and arguments
Take = Callable[[int, str, Mapping[str, Any]], None]


@dataclass(slots=True, eq=False)
class _Connection:
    socket: socket.socket
    got: bytearray = field(default_factory=bytearray)
    owed: bytearray = field(default_factory=bytearray)
    number: int = 0  # the call that waits for its answer
    last: bool = False  # it is closed once the refusal is sent


class ToolSocket:
    """Listens until `close`. `take` is called from its own thread."""

    def __init__(self, folder: int, name: str, token: str, take: Take, owner: tuple[int, int] | None = None) -> None:
        self._token, self._take = token.encode(), take
        self._calls = self._refusals = 0
        self.refused: list[str] = []  # the reasons, each once
        self._answers: deque[tuple[int, bytes]] = deque()
        self._connections: set[_Connection] = set()
        self._over = False
        self._listener = _listen(folder, name, owner)
        self._wake, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="parley-tool-socket", daemon=True)
        self._thread.start()

    def reply(self, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Answer a call, unless its caller has gone."""
        self._answers.append((number, _answer(ok=ok, text=text, data=data)))
        self._nudge()

    def close(self) -> None:
        """Accept no more calls; those that wait get no answer."""
        self._over = True
        self._nudge()
        self._thread.join()

    def _nudge(self) -> None:
        with contextlib.suppress(OSError):
            self._wake.send(b".")

    def _serve(self) -> None:
        try:
            while not self._over:
                for key, mask in self._selector.select():
                    self._attend(key, mask)
                while self._answers:
                    self._deliver(*self._answers.popleft())
        finally:
            for connection in tuple(self._connections):
                self._drop(connection)
            self._selector.close()
            for end in (self._listener, self._wake, self._woken):
                end.close()

    def _attend(self, key: selectors.SelectorKey, mask: int) -> None:
        if key.fileobj is self._woken:
            with contextlib.suppress(OSError):
                self._woken.recv(_CHUNK)
        elif key.fileobj is self._listener:
            self._admit()
        elif key.data in self._connections:
            connection: _Connection = key.data
            try:
                if mask & selectors.EVENT_WRITE:
                    self._write(connection)
                elif mask & selectors.EVENT_READ:
                    self._read(connection)
            except OSError:
                self._drop(connection)

    def _admit(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except OSError:
            return  # the client has gone again
        accepted.setblocking(False)
        connection = _Connection(accepted)
        self._connections.add(connection)
        self._selector.register(accepted, selectors.EVENT_READ, connection)
        self._throttle()

    def _throttle(self) -> None:
        """Accept connections only while there are free ones."""
        if self._listener.fileno() < 0:
            return
        room = len(self._connections) < CONNECTIONS and self._refusals < MAX_REFUSALS
        watched = self._listener in {key.fileobj for key in self._selector.get_map().values()}
        if room and not watched:
            self._selector.register(self._listener, selectors.EVENT_READ)
        elif watched and not room:
            self._selector.unregister(self._listener)

    def _drop(self, connection: _Connection) -> None:
        self._connections.discard(connection)
        with contextlib.suppress(KeyError):
            self._selector.unregister(connection.socket)
        connection.socket.close()
        self._throttle()

    def _read(self, connection: _Connection) -> None:
        chunk = connection.socket.recv(_CHUNK)
        if not chunk:
            self._drop(connection)
            return
        connection.got += chunk
        if (end := connection.got.find(b"\n")) >= 0:
            line = bytes(connection.got[:end])
            del connection.got[: end + 1]
            self._line(connection, line)
        elif len(connection.got) > LINE_LIMIT:
            self._refuse(connection, f"a call has {LINE_LIMIT} bytes at most; put the text into a file")

    def _line(self, connection: _Connection, line: bytes) -> None:
        try:
            call = _read_call(line)
        except BadText as wrong:
            self._refuse(connection, f"this is not a call: {wrong}; {wrong.remedy}")
            return
        if call is None:
            self._refuse(connection, "this is not a call: one line of JSON with token, tool and arguments is expected")
            return
        if not compare_digest(call.token.encode(), self._token):
            self._refuse(connection, "the token is not this turn's: the caller belongs to another turn, or to none")
        elif self._calls >= MAX_CALLS:
            self._refuse(connection, f"a turn has {MAX_CALLS} calls at most")
        else:
            self._calls += 1
            connection.number = self._calls
            # further calls wait in the socket until this one is answered
            self._selector.unregister(connection.socket)
            self._take(self._calls, call.tool, call.arguments)

    def _refuse(self, connection: _Connection, why: str) -> None:
        self._refusals += 1
        if why not in self.refused:
            self.refused.append(why)
        connection.last = True
        connection.got.clear()
        self._owe(connection, _answer(ok=False, text=why, data={}))

    def _deliver(self, number: int, line: bytes) -> None:
        for connection in self._connections:
            if connection.number == number:
                connection.number = 0
                self._owe(connection, line)
                return

    def _owe(self, connection: _Connection, line: bytes) -> None:
        connection.owed += line
        with contextlib.suppress(KeyError):
            self._selector.unregister(connection.socket)
        self._selector.register(connection.socket, selectors.EVENT_WRITE, connection)

    def _write(self, connection: _Connection) -> None:
        sent = connection.socket.send(connection.owed[:_CHUNK])
        del connection.owed[:sent]
        if connection.owed:
            return
        if connection.last:
            self._drop(connection)
            return
        self._selector.modify(connection.socket, selectors.EVENT_READ, connection)
        if (end := connection.got.find(b"\n")) >= 0:
            line = bytes(connection.got[:end])
            del connection.got[: end + 1]
            self._line(connection, line)


class _Call(Struct, frozen=True):
    """A call as a program in the cage writes it, on one line of JSON."""

    token: str
    tool: str
    arguments: dict[str, Any]


def _read_call(line: bytes) -> _Call | None:
    """A call; None if it is malformed. BadText says what is wrong with its JSON."""
    try:
        return convert(read_json(line, LINE_LIMIT + _CHUNK), _Call)
    except ValidationError:
        return None


def _answer(*, ok: bool, text: str, data: Mapping[str, Any]) -> bytes:
    return json.dumps({"ok": ok, "text": text, "data": dict(data)}).encode() + b"\n"


def _listen(folder: int, name: str, owner: tuple[int, int] | None) -> socket.socket:
    """A listening socket in a folder given by descriptor: its path may be too long for a socket's."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(listener.fileno(), 0o600)
        listener.bind(f"/proc/self/fd/{folder}/{name}")
        if owner is not None:
            os.chown(name, *owner, dir_fd=folder, follow_symlinks=False)
        listener.listen(CONNECTIONS)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener
