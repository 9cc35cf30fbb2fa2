"""Clean merges that wait to be told: each rides on the next message to the agent whose tree was merged into.

They are kept beside the soup, in the transaction that ends the turn of the merge. The message that tells of them takes
them along in the transaction that writes it, so that none is lost and none is told twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from parley.engine.names import RIDERS

Rider = dict[str, str]  # `thread`: the conversation that was closed; `text`: what is told of its merge


def slot(agent: str, thread: str) -> str:
    """Where the derived table keeps what waits for an instance."""
    return f"{RIDERS}{agent} {thread}"


def waiting(kept: Mapping[str, str]) -> dict[tuple[str, str], list[Rider]]:
    """All that waits, by the instance that is to be told."""
    found: dict[tuple[str, str], list[Rider]] = {}
    for where, body in kept.items():
        if where.startswith(RIDERS):
            agent, _, thread = where.removeprefix(RIDERS).partition(" ")
            found[agent, thread] = json.loads(body)
    return found


def told(riders: Sequence[Mapping[str, Any]]) -> str:
    """What riders say, one below the other."""
    return "\n".join(str(rider["text"]) for rider in riders)


def carrying(body: str, riders: Sequence[Mapping[str, Any]]) -> str:
    """A message with what rides on it: its own words come first."""
    return f"{body}\n\n{told(riders)}" if body else told(riders)


def own_words(body: str, meta: Mapping[str, Any]) -> str:
    """A message without what rides on it."""
    riders = meta.get("riders")
    if not riders:
        return body
    return body.removesuffix(told(riders)).removesuffix("\n\n")
