"""A Claude Code that runs: its cage, the wire to it, and the SDK's client at this end."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Message

from parley.adapters.boundary import Boundary, Cage, Caged
from parley.adapters.claude.wire import Wire
from parley.ports import BoundaryError
from parley.text import cut

INTERRUPT_SECONDS = 0.35
COMPACT = {
    "type": "user",
    "message": {"role": "user", "content": "/compact"},
    "parent_tool_use_id": None,
    "session_id": "default",
}


async def launch(boundary: Boundary, cage: Cage) -> Caged:
    """Start a caged process in a thread; whoever is cancelled meanwhile waits, and ends what was started."""
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


class Process:
    """Lives on the runner's loop."""

    def __init__(self, caged: Caged, options: ClaudeAgentOptions, overhear: Callable[[dict[str, Any]], None]) -> None:
        self.caged = caged
        self._wire = Wire(caged.process, overhear)
        self._client = ClaudeSDKClient(options, self._wire)

    @property
    def ready(self) -> bool:
        """Whether it can be talked to."""
        return self._wire.is_ready()

    async def connect(self) -> None:
        """Take the pipes over and agree with the CLI on hooks and tools."""
        await self._client.connect()

    async def say(self, text: str) -> None:
        """Say something, to be taken as it is written."""
        self.caged.thaw()
        await self._client.query(text)

    async def compact(self) -> None:
        """Ask for the conversation to be summed up: the one thing that is said as a command."""
        self.caged.thaw()
        await self._wire.write(json.dumps(COMPACT) + "\n")

    def hear(self) -> AsyncIterator[Message]:
        """What it says, up to its next result."""
        return self._client.receive_response()

    async def interrupt(self) -> bool:
        """Ask it to stop what it does; whether it heard."""
        try:
            async with asyncio.timeout(INTERRUPT_SECONDS):
                await self._client.interrupt()
        except Exception:  # noqa: BLE001 - whatever keeps it from stopping, its cage is ended instead
            return False
        return True

    async def rest(self) -> None:
        """End what it has left running, and let it do nothing before it is spoken to; a BoundaryError if it won't."""
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
        """What the API said of waiting when it was last asked."""
        return next((request.retry_after for request in self.caged.requests[-1:]), "")

    def why(self, said: str) -> str:
        """The best reason there is for what went wrong."""
        return cut(" ".join((self._wire.last_words() or said).split()), 300)
