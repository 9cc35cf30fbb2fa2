"""The SDK's transport over the pipes of a caged process."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Callable
from typing import IO, Any, cast

from claude_agent_sdk import CLIConnectionError, Transport

from parley.base.text import BadText, cut, last_bytes, lenient, read_json

LINE_LIMIT = 64 << 20  # bytes; the CLI writes no longer message
DEEPEST_MESSAGE = 64  # levels; a tool's arguments may be deep
STDERR_TAIL = 2000


class CagedTransport(Transport):
    """JSON lines to and from one process, which the owner of this object ends."""

    def __init__(self, process: subprocess.Popen[bytes], overhear: Callable[[dict[str, Any]], None]) -> None:
        self._process = process
        self._overhear = overhear
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._errors: asyncio.Task[None] | None = None
        self._transports: list[asyncio.BaseTransport] = []
        self._lock = asyncio.Lock()
        self.stderr = b""
        self.ended = asyncio.Event()

    async def connect(self) -> None:
        """Open the pipes."""
        loop = asyncio.get_running_loop()
        self._reader = await self._reading(loop, self._process.stdout)
        errors = await self._reading(loop, self._process.stderr)
        self._errors = loop.create_task(self._listen(errors))
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.streams.FlowControlMixin(loop), cast("IO[bytes]", self._process.stdin)
        )
        self._transports.append(transport)
        self._writer = asyncio.StreamWriter(transport, protocol, None, loop)

    async def _reading(self, loop: asyncio.AbstractEventLoop, pipe: IO[bytes] | None) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(LINE_LIMIT, loop)
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader, loop=loop), cast("IO[bytes]", pipe)
        )
        self._transports.append(transport)
        return reader

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while chunk := await reader.read(1 << 16):
            self.stderr = last_bytes(self.stderr + chunk, STDERR_TAIL)

    async def write(self, data: str) -> None:
        """Send the SDK's data."""
        async with self._lock:
            if self._writer is None or self.ended.is_set():
                raise CLIConnectionError("Claude Code is gone")
            try:
                self._writer.write(data.encode("utf-8", "replace"))
                await self._writer.drain()
            except OSError as error:
                raise CLIConnectionError("Claude Code is gone") from error

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """The CLI's messages, until it ends."""
        reader = cast("asyncio.StreamReader", self._reader)
        try:
            while line := await self._line(reader):
                if not line.lstrip().startswith(b"{"):
                    continue
                try:
                    message = read_json(line, 2 * LINE_LIMIT, deepest=DEEPEST_MESSAGE, mend=True)
                except BadText as error:
                    raise CLIConnectionError(
                        f"Claude Code wrote a malformed message: {error}: {cut(lenient(bytes(line)), 80)!r}"
                    ) from error
                self._overhear(message)
                yield message
        finally:
            self.ended.set()

    @staticmethod
    async def _line(reader: asyncio.StreamReader) -> bytes:
        try:
            return await reader.readline()
        except ValueError as error:
            raise CLIConnectionError("Claude Code wrote a line that was too long") from error

    async def close(self) -> None:
        """Close the pipes."""
        self.ended.set()
        if self._errors is not None:
            self._errors.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._errors
        for transport in self._transports:
            transport.close()

    def is_ready(self) -> bool:
        """Whether it can be written to."""
        return self._writer is not None and not self.ended.is_set()

    async def end_input(self) -> None:
        """Close the CLI's input."""
        if self._writer is not None:
            self._writer.close()

    def last_words(self) -> str:
        """The last line of its standard error."""
        said = lenient(bytes(self.stderr)).strip().splitlines()
        return cut(said[-1], 300) if said else ""
