"""The machine's clock and its source of new names."""

from __future__ import annotations

import base64
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


class RandomIds:
    """Names by chance: eight letters and digits, 40 bits, so that two alike are not to be expected."""

    def new(self) -> str:
        """A name."""
        return base64.b32encode(os.urandom(5)).decode("ascii").lower()
