"""The protocol's tools as an MCP server on standard input and output, for a program inside a cage.

`python -P -E -m parley.runners.command.mcp_bridge`. It offers exactly the turn's tools and passes each call on through
the turn's tool socket. JSON-RPC 2.0, one message a line, answered in order; standard library only.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from parley import __version__
from parley.runners.command.tool_caller import LINE_LIMIT, NAMES, CallRefused, call
from parley.runners.command.tool_schemas import offered

VERSIONS = ("2024-11-05", "2025-06-18")  # of MCP, the newest last. The one between them has batches

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602


class _Wrong(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def answer(line: bytes) -> dict[str, Any] | None:
    """The response to one line; None for a notification."""
    identity: object = None
    try:
        request = _request(line)
        identity = request.get("id")
        if "id" not in request:
            return None
        result = _result(str(request["method"]), request.get("params"))
    except _Wrong as wrong:
        return {"jsonrpc": "2.0", "id": identity, "error": {"code": wrong.code, "message": str(wrong)}}
    return {"jsonrpc": "2.0", "id": identity, "result": result}


def _request(line: bytes) -> Mapping[str, Any]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _Wrong(PARSE_ERROR, "this is not one line of JSON") from error
    if not isinstance(request, dict) or not isinstance(request.get("method"), str):
        raise _Wrong(INVALID_REQUEST, "this is not a JSON-RPC request")
    if not isinstance(request.get("id"), str | int | float | None):
        raise _Wrong(INVALID_REQUEST, "an id is a text or a number")
    return request


def _result(method: str, given: object) -> dict[str, Any]:
    params = given if isinstance(given, dict) else {}
    match method:
        case "initialize":
            asked = params.get("protocolVersion")
            return {
                "protocolVersion": asked if asked in VERSIONS else VERSIONS[-1],
                "capabilities": {"tools": {"listChanged": False}},
                "serverInfo": {"name": "parley", "version": __version__},
            }
        case "ping":
            return {}
        case "tools/list":
            return {"tools": offered(_names())}
        case "tools/call":
            return _call(params)
        case _:
            raise _Wrong(UNKNOWN_METHOD, f"there is no method {method[:80]!r}")


def _names() -> list[str]:
    return os.environ.get(NAMES, "").split(",")


def _call(params: Mapping[str, Any]) -> dict[str, Any]:
    name, arguments = params.get("name"), params.get("arguments", {})
    if name not in [tool["name"] for tool in offered(_names())]:
        raise _Wrong(INVALID_PARAMS, f"there is no tool {str(name)[:80]!r}")
    if not isinstance(arguments, dict):
        raise _Wrong(INVALID_PARAMS, "arguments must be an object")
    try:
        # some programs fill in every property of a schema: empty ones are dropped
        text, _ = call(str(name), {key: value for key, value in arguments.items() if value not in (None, "")})
    except CallRefused as refused:
        return {"content": [{"type": "text", "text": f"refused: {refused}"}], "isError": True}
    return {"content": [{"type": "text", "text": text}], "isError": False}


def main() -> int:
    """Serve until the program closes its end."""
    reading, writing = sys.stdin.buffer, sys.stdout.buffer
    try:
        while line := reading.readline(LINE_LIMIT):
            if not line.endswith(b"\n") and len(line) >= LINE_LIMIT:
                return 1  # not an MCP client
            if line.strip() and (said := answer(line)) is not None:
                writing.write(json.dumps(said).encode() + b"\n")
                writing.flush()
    except (BrokenPipeError, KeyboardInterrupt):
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
