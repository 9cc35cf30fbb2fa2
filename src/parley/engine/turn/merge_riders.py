"""Riders: what waits to be told with the next message to an instance, such as the clean merges into its tree.

They are kept beside the soup, in the transaction that ends the turn of the merge. The message that tells of them takes
them along in the transaction that writes it, so that none is lost and none is told twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from parley.base.json_codec import decode
from parley.bus.slots import rider_of
from parley.engine.values.step_extra import Told


def waiting(kept: Mapping[str, str]) -> dict[tuple[str, str], list[Told]]:
    """All that waits, by the instance that is to be told."""
    found: dict[tuple[str, str], list[Told]] = {}
    for where, body in kept.items():
        if instance := rider_of(where):
            found[instance] = decode(body, list[Told])
    return found


def told(riders: Sequence[Told]) -> str:
    """What riders say, one below the other."""
    return "\n".join(rider.text for rider in riders)


def carrying(body: str, riders: Sequence[Told]) -> str:
    """A message with what rides on it: its own words come first."""
    return f"{body}\n\n{told(riders)}" if body else told(riders)


def own_words(body: str, riders: Sequence[Told]) -> str:
    """A message without what rides on it."""
    return body.removesuffix(told(riders)).removesuffix("\n\n") if riders else body
