"""A running Claude Code: its cage, the transport, and the SDK's client."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Message

from parley.base.text import cut
from parley.ports.turns import BoundaryError
from parley.runners.claude.transport import CagedTransport
from parley.sandbox import Boundary, Cage, Caged

INTERRUPT_SECONDS = 0.35
COMPACT = {
    "type": "user",
    "message": {"role": "user", "content": "/compact"},
    "parent_tool_use_id": None,
    "session_id": "default",
}


async def launch(boundary: Boundary, cage: Cage) -> Caged:
    """Start a caged process in a thread; a caller that is cancelled meanwhile waits, and ends the process."""
    starting = asyncio.ensure_future(asyncio.to_thread(boundary.launch, cage))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(BoundaryError, OSError):
            caged = await starting
            await asyncio.to_thread(caged.kill)
            for pipe in (caged.process.stdin, caged.process.stdout, caged.process.stderr):
                if pipe is not None:
                    pipe.close()
        raise


class ClaudeProcess:
    """A running Claude Code, used on the runner's loop."""

    def __init__(self, caged: Caged, options: ClaudeAgentOptions, overhear: Callable[[dict[str, Any]], None]) -> None:
        self.caged = caged
        self._wire = CagedTransport(caged.process, overhear)
        self._client = ClaudeSDKClient(options, self._wire)

    @property
    def ready(self) -> bool:
        """Whether it can be written to."""
        return self._wire.is_ready()

    async def connect(self) -> None:
        """Open the pipes and register hooks and tools with the CLI."""
        await self._client.connect()

    async def say(self, text: str) -> None:
        """Send a text, which is not read as a command."""
        self.caged.thaw()
        await self._client.query(text)

    async def compact(self) -> None:
        """Have the conversation summarized: the only command that is sent."""
        self.caged.thaw()
        await self._wire.write(json.dumps(COMPACT) + "\n")

    def hear(self) -> AsyncIterator[Message]:
        """Its messages, up to its next result."""
        return self._client.receive_response()

    async def interrupt(self) -> bool:
        """Ask it to stop; whether it answered."""
        try:
            async with asyncio.timeout(INTERRUPT_SECONDS):
                await self._client.interrupt()
        except Exception:  # noqa: BLE001 - if it can't stop, its cage is ended instead
            return False
        return True

    async def rest(self) -> None:
        """End what it left running, and freeze it until its next turn; a BoundaryError if that fails."""
        await asyncio.to_thread(self.caged.freeze)

    async def end(self) -> None:
        """End it, with all that is in its cage."""
        try:
            await asyncio.to_thread(self.caged.kill)
        finally:
            with contextlib.suppress(Exception):
                await self._client.disconnect()
            await self._wire.close()

    def retry_after(self) -> str:
        """The `retry-after` of the API's last answer."""
        return next((request.retry_after for request in self.caged.requests[-1:]), "")

    def why(self, said: str) -> str:
        """The best known reason for a failure."""
        return cut(" ".join((self._wire.last_words() or said).split()), 300)
