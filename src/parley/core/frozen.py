"""A constructor for frozen dataclasses that costs half of theirs: a turn makes some sixty of them.

Python's own sets each field by name, through `object.__setattr__`. The slots can be filled directly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from types import FunctionType
from typing import Any, TypeVar

T = TypeVar("T")
Slot = Callable[[Any, Any], None]
s0: Slot
s1: Slot
s2: Slot
s3: Slot
s4: Slot
s5: Slot
s6: Slot
s7: Slot
s8: Slot
s9: Slot
s10: Slot


def _2(self, a, b):  # type: ignore[no-untyped-def]
    s0(self, a), s1(self, b)  # noqa: B018


def _3(self, a, b, c):  # type: ignore[no-untyped-def]
    s0(self, a), s1(self, b), s2(self, c)  # noqa: B018
