"""The statements of queries.sql, by name. Light: `parley ls` starts with it."""

from __future__ import annotations

import re
from pathlib import Path

FILE = Path(__file__).with_name("queries.sql")


def _read() -> dict[str, str]:
    """Read the statements without comments: sqlite3 looks at a statement's first word."""
    _, *parts = re.split(r"^-- name: (\S+)$", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    bodies = (re.sub(r"^\s*--.*\n", "", body, flags=re.MULTILINE).strip() for body in parts[1::2])
    return dict(zip(parts[::2], bodies, strict=True))


QUERIES = _read()
