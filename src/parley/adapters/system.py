"""The machine's clock and its source of new names."""

from __future__ import annotations

import secrets
import time

ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # no letter that is taken for another when read aloud
LENGTH = 8


class SystemClock:
    """The machine's time."""

    def now(self) -> float:
        """Since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Since some moment, without jumps."""
        return time.monotonic()


class RandomIds:
    """Names by chance: about 39 bits, so that two in one job are not to be expected."""

    def new(self) -> str:
        """A name."""
        return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
