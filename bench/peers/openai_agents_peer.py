# mypy: disable-error-code="import-not-found", allow-subclassing-any
"""The OpenAI Agents SDK with its SQLite session.

A conversation is one session that both agents share, and a turn is one run of the SDK's `Runner`: it reads
the session, calls the model, and appends the model's message of 1 KiB to the session. The model is a stub
that answers at once; nothing leaves the process, and tracing is off. The session sets WAL and leaves SQLite's
own ``synchronous=FULL``. Only the items are durable: a run that is cut off is not taken up again.

The SDK reads and writes sessions in worker threads, with one connection for each thread and session, behind
one lock for the whole file. So there is one worker, and the conversations take turns: more at once would only
open more connections and wait for each other.

For throughput a session shows the model its last item alone, the least that it can be made to read. For the
cost of late turns it shows the whole conversation, which is its default.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from agents import (
    Agent,
    Model,
    ModelResponse,
    Runner,
    SessionSettings,
    SQLiteSession,
    Usage,
    set_tracing_disabled,
)
from openai.types.responses import ResponseOutputMessage, ResponseOutputText
from typing_extensions import override

from bench.peers.harness import PAYLOAD, Form, Run, Trip, main, take_turns


class _Stub(Model):
    """A model that says the same at once, whatever it is shown."""

    @override
    async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
        text = ResponseOutputText(text=PAYLOAD, type="output_text", annotations=[])
        message = ResponseOutputMessage(id="stub", role="assistant", status="completed", type="message", content=[text])
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    @override
    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


@contextmanager
def _trips(where: Path, conversations: int, limit: int | None) -> Iterator[Trip]:
    """Open a session for each conversation; a run is shown the session's last `limit` items."""
    settings = SessionSettings(limit=limit)
    sessions = [
        SQLiteSession(str(number), where / "agents.db", session_settings=settings) for number in range(conversations)
    ]
    pair = [Agent(name=name, model=_Stub()) for name in ("a", "b")]
    set_tracing_disabled(disabled=True)

    async def connect() -> None:
        for session in sessions:
            await session.get_items()

    async def trip(conversation: int) -> None:
        for agent in pair:
            await Runner.run(agent, [], session=sessions[conversation])

    with asyncio.Runner() as loop:
        loop.get_loop().set_default_executor(ThreadPoolExecutor(1))
        loop.run(connect())
        yield lambda conversation: loop.run(trip(conversation))
    for session in sessions:
        session.close()


def _drive(run: Run) -> None:
    with _trips(run.where, run.conversations, limit=1) as trip:
        take_turns(run, trip)


def _late(where: Path) -> AbstractContextManager[Trip]:
    return _trips(where, 2, limit=None)


if __name__ == "__main__":
    main(
        version("openai-agents"),
        [
            Form(
                peer="openai_agents",
                durable=True,
                notes="SQLiteSession, WAL, synchronous=FULL, stub model; the items are durable, not the runs",
                drive=_drive,
                late=_late,
            ),
        ],
    )
