"""What a term is: molecules, choices and what they are made of. Immutable, equal by value, and written as JSON."""

from __future__ import annotations

from math import isfinite

import msgspec

from parley.protocol.errors import ProtocolError


class Term(
    msgspec.Struct,
    frozen=True,
    tag=True,
    array_like=True,
    forbid_unknown_fields=True,
    # A term holds only what was there before it, and never changes: no cycle can lead through it, so that the
    # collector of cycles need not look at the hundreds of thousands that a long audit has.
    gc=False,
):
    """A value of the protocol. As JSON it is an array: its name, then its fields in their order."""


def refuse_unwritable(number: object) -> None:
    """Only a finite float is read back as what was written: JSON has no NaN, and a whole number becomes a float."""
    if not isinstance(number, float) or not isfinite(number):
        raise ProtocolError(f"{number!r} is no finite float")
