"""The handle of a session on the bus: its id, and its length when a turn was committed."""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from parley.base.text import read_json
from parley.ports.turns import Order

HANDLE_LIMIT = 1 << 20  # characters

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class SessionHandle:
    """A session up to an entry. Its file only grows, so its first `size` bytes are a snapshot."""

    session: str = ""
    thread: str = ""
    turns: int = 0
    size: int = 0
    last: str = ""
    context: float = 0.0  # how full the context was, from 0 to 1

    @classmethod
    def new(cls, thread: str) -> SessionHandle:
        """A session that has not begun."""
        return cls(session=str(uuid.uuid4()), thread=thread)

    @classmethod
    def of(cls, order: Order) -> SessionHandle:
        """The handle of an order; empty where it is another thread's, or malformed."""
        try:
            given = read_json(order.handle or "{}", HANDLE_LIMIT)
            values = {field.name: given[field.name] for field in fields(cls)}
            handle = cls(**values)
            fine = (
                _UUID.fullmatch(handle.session) is not None
                and (not handle.last or _UUID.fullmatch(handle.last) is not None)
                and handle.thread == order.thread
                and int(handle.size) >= 0
                and 0.0 <= float(handle.context) <= 1.0
            )
        except (ValueError, KeyError, TypeError, OverflowError):
            return cls()
        return handle if fine else cls()

    def after(self, last: str, size: int, context: float) -> SessionHandle:
        """The session after one more turn."""
        return replace(self, turns=self.turns + 1, last=last, size=size, context=round(context, 4))

    def document(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    def text(self) -> str:
        """As the bus keeps it."""
        return json.dumps(asdict(self), sort_keys=True)
