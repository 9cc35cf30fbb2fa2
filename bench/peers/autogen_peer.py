# mypy: disable-error-code="import-not-found,untyped-decorator", allow-subclassing-any
"""AutoGen's core runtime, in memory: what a round trip costs when nothing has to last.

Both agents are routed agents of one single-threaded runtime, with an instance of each for each conversation.
A message from outside wakes A; A sends its message of 1 KiB to B, is given B's reply of 1 KiB, and ends. That
is one message more than the round trip needs, because only a message can wake an agent; nothing is written.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from importlib.metadata import version

from autogen_core import AgentId, MessageContext, RoutedAgent, SingleThreadedAgentRuntime, message_handler

from bench.peers.harness import PAYLOAD, Form, Run, converse, main


@dataclass
class _Wake:
    """Starts a round trip."""


@dataclass
class _Said:
    """A message between the two agents."""

    body: str


class _Asker(RoutedAgent):
    """Agent A: asks the B of its conversation, whenever it is woken."""

    @message_handler
    async def on_wake(self, message: _Wake, ctx: MessageContext) -> None:
        """Send the message and wait for the reply."""
        await self.send_message(_Said(PAYLOAD), AgentId("b", self.id.key))


class _Answerer(RoutedAgent):
    """Agent B: replies."""

    @message_handler
    async def on_said(self, message: _Said, ctx: MessageContext) -> _Said:
        """Reply at once."""
        return _Said(PAYLOAD)


async def _talk(run: Run) -> None:
    runtime = SingleThreadedAgentRuntime()
    await _Asker.register(runtime, "a", lambda: _Asker("asks"))
    await _Answerer.register(runtime, "b", lambda: _Answerer("answers"))
    runtime.start()

    async def trip(conversation: int) -> None:
        await runtime.send_message(_Wake(), AgentId("a", str(conversation)))

    await converse(run, trip)
    await runtime.stop()


if __name__ == "__main__":
    main(
        version("autogen-core"),
        [
            Form(
                peer="autogen_core",
                durable=False,
                notes="SingleThreadedAgentRuntime, in memory; nothing is durable",
                drive=lambda run: asyncio.run(_talk(run)),
            ),
        ],
    )
