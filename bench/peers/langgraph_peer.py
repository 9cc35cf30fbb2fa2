# mypy: disable-error-code="import-not-found"
"""LangGraph with its SQLite checkpointer.

A conversation is a thread, a round trip is one invocation of a graph of two nodes, A then B, and each node
returns its message of 1 KiB. ``durability="sync"`` has every checkpoint written before the next node starts.
The saver sets WAL and leaves SQLite's own ``synchronous=FULL``. One thread makes the round trips of all
conversations in turn: the saver holds one connection behind one lock, so more threads gain nothing.

For throughput the state is the last message alone, which is the least that LangGraph can be made to write.
For the cost of late turns the state is the conversation, as an agent that is shown its history needs: a list
that each node appends to. `langgraph_delta` keeps that list in LangGraph's delta channel, still in beta,
which writes what a node added and only at times the whole.
"""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.channels import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from bench.peers.harness import PAYLOAD, Form, Run, Trip, main, take_turns


def _joined(so_far: list[str], writes: Sequence[list[str]]) -> list[str]:
    """How the delta channel adds what nodes have written."""
    return [*so_far, *chain.from_iterable(writes)]


class _Last(TypedDict):
    """The state that holds only the message that is on its way."""

    messages: list[str]


class _History(TypedDict):
    """The state that holds every message so far."""

    messages: Annotated[list[str], operator.add]


class _Delta(TypedDict):
    """The same, written as differences."""

    messages: Annotated[list[str], DeltaChannel(_joined)]


def _say(_: Any) -> dict[str, list[str]]:
    return {"messages": [PAYLOAD]}


@contextmanager
def _trips(where: Path, state: Any) -> Iterator[Trip]:
    """Compile the graph of this state over a fresh database."""
    builder: Any = StateGraph(state)
    builder.add_node("a", _say).add_node("b", _say)
    builder.add_edge(START, "a").add_edge("a", "b").add_edge("b", END)
    with closing(sqlite3.connect(where / "langgraph.db", check_same_thread=False)) as connection:
        graph = builder.compile(checkpointer=SqliteSaver(connection))

        def trip(conversation: int) -> None:
            thread: Any = {"configurable": {"thread_id": str(conversation)}}
            graph.invoke({"messages": []}, thread, durability="sync")

        yield trip


def _drive(run: Run, state: Any) -> None:
    with _trips(run.where, state) as trip:
        take_turns(run, trip)


if __name__ == "__main__":
    notes = "SqliteSaver, WAL, synchronous=FULL, durability=sync; a graph of two nodes a round trip"
    main(
        version("langgraph"),
        [
            Form(
                peer="langgraph",
                durable=True,
                notes=notes,
                drive=partial(_drive, state=_Last),
                late=partial(_trips, state=_History),
            ),
            Form(
                peer="langgraph_delta",
                durable=True,
                notes=f"{notes}, the history in a delta channel",
                drive=partial(_drive, state=_Delta),
                late=partial(_trips, state=_Delta),
            ),
        ],
    )
