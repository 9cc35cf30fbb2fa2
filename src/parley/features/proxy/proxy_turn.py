"""What the proxy has done in its turn so far."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from parley.engine.values.message_meta import Guessed


class AskedHuman(Struct, frozen=True):
    """The proxy turns to the human: with its words, what it found, and what it would say."""

    text: str = ""
    found: str = ""
    would: Guessed | None = None


class ProxyAnswer(Struct, frozen=True):
    """The proxy answers: words, a verdict or a choice, and what it would say in any case."""

    text: str
    ruling: str | None
    would: Guessed
    choice: str = ""


@dataclass(slots=True)
class ProxyTurn:
    """A turn of the proxy's."""

    said: AskedHuman | ProxyAnswer | None = None
    predicted: Guessed | None = None  # what it expected before it looked
    recalled: tuple[str, ...] = ()  # the human's decisions that it was reminded of
