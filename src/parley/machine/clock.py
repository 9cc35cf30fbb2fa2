"""The machine's clock, and random ids."""

from __future__ import annotations

import os
import time


class SystemClock:
    """The machine's time."""

    def now(self) -> float:
        """Since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Since some moment, without jumps."""
        return time.monotonic()


_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_PAIRS = [first + second for first in _LETTERS for second in _LETTERS]  # ten bits each


class RandomIds:
    """Random names: eight letters and digits, 40 bits, so that collisions are not expected."""

    def new(self) -> str:
        """A name."""
        bits = int.from_bytes(os.urandom(5), "big")
        return _PAIRS[bits >> 30] + _PAIRS[bits >> 20 & 1023] + _PAIRS[bits >> 10 & 1023] + _PAIRS[bits & 1023]
