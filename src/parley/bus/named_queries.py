"""Reads a file of SQL statements, each under a line that names it. Light: `parley ls` starts with it."""

from __future__ import annotations

import re
from pathlib import Path


def read_queries(file: Path) -> dict[str, str]:
    """The statements by name, without comments: sqlite3 looks at a statement's first word."""
    _, *parts = re.split(r"^-- name: (\S+)$", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    bodies = (re.sub(r"^\s*--.*\n", "", body, flags=re.MULTILINE).strip() for body in parts[1::2])
    return dict(zip(parts[::2], bodies, strict=True))
