"""Calls a tool from inside the cage: one line of JSON to the tool socket, one line back."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from typing import Any

SOCKET = "PARLEY_TOOLS"
TOKEN = "PARLEY_TOKEN"  # noqa: S105 - the variable's name
NAMES = "PARLEY_TOOL_NAMES"
LINE_LIMIT = 2 << 20  # bytes of a call or of its answer; a text has 256 Ki characters at most


class CallRefused(Exception):
    """The call was refused: the text says why."""


def call(tool: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Call a tool of this turn; returns its text and data. Raises CallRefused."""
    path, token = os.environ.get(SOCKET, ""), os.environ.get(TOKEN, "")
    if not path or not token:
        raise CallRefused("this is no agent's turn: the tools are there for a program that Parley runs as an agent")
    line = json.dumps({"token": token, "tool": tool, "arguments": dict(arguments)}).encode() + b"\n"
    if len(line) > LINE_LIMIT:
        raise CallRefused(f"the call has {len(line)} bytes, {LINE_LIMIT} at most; put the text into a file")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(path)
            connection.sendall(line)
            answer = _line(connection)
    except OSError as error:
        raise CallRefused(f"the turn is over: its tools can't be reached ({error.strerror or error})") from error
    if not answer:
        raise CallRefused("the turn is over: the call was not answered")
    reply = json.loads(answer)
    if not reply["ok"]:
        raise CallRefused(str(reply["text"]))
    return str(reply["text"]), dict(reply["data"])


def _line(connection: socket.socket) -> bytes:
    got = bytearray()
    while not got.endswith(b"\n"):
        chunk = connection.recv(1 << 16)
        if not chunk or len(got) > LINE_LIMIT:
            return b""
        got += chunk
    return bytes(got)
