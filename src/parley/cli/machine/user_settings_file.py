"""Edits the user's settings file: sets lines, and leaves all others as they are."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parley.base.documents.node import plain
from parley.base.documents.toml_text import read_toml
from parley.cli import CommandError
from parley.settings import load

Lines = Mapping[tuple[str, str], str]  # table and key, with the value as TOML has it


def current(path: Path) -> dict[str, Any]:
    """What the file says; a DocumentError in one line where it can't be used."""
    load.read_own(path)
    return load.own_values(path)


def value_in(document: Mapping[str, Any], table: str, key: str) -> Any:
    """A key's value in a document; None if it has none."""
    found: Any = document
    for name in (*table.split("."), key):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def toml_text(value: Any) -> str:
    """A plain value as TOML has it; nothing for none."""
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False)  # JSON's booleans, numbers and texts are TOML's too


def edited(text: str, lines: Lines) -> str:
    """A TOML text with these lines set. ValueError where the text is written in a way that this can't change."""
    wanted: dict[str, Any] = _values(text)
    for (table, key), value in lines.items():
        place = wanted
        for name in table.split("."):
            place = place.setdefault(name, {})
        place[key] = _values(f"x = {value}")["x"]
        text = _set(text, table, key, value)
    if _values(text) != wanted:  # comments and multi-line strings may look like tables
        raise ValueError("the edited file reads differently")
    return text


def _values(text: str) -> Any:
    return plain(read_toml(text, "settings"))


def _set(text: str, table: str, key: str, value: str) -> str:
    rows = text.splitlines()
    name = r"\s*\.\s*".join(map(re.escape, table.split(".")))
    header = re.compile(rf"\s*\[\s*{name}\s*\]\s*(#.*)?")
    begins = next((at for at, row in enumerate(rows) if header.fullmatch(row)), None)
    if begins is None:
        gap = [""] if rows and rows[-1].strip() else []
        return "\n".join([*rows, *gap, f"[{table}]", f"{key} = {value}", ""])
    ends = next((at for at in range(begins + 1, len(rows)) if rows[at].lstrip().startswith("[")), len(rows))
    for at in range(begins + 1, ends):
        if re.match(rf"\s*{re.escape(key)}\s*=", rows[at]):
            comment = re.search(r"\s+#[^\"']*$", rows[at])
            rows[at] = f"{key} = {value}{comment[0] if comment else ''}"
            break
    else:
        rows.insert(begins + 1, f"{key} = {value}")
    return "\n".join([*rows, ""])


def write(path: Path, lines: Lines) -> None:
    """Set lines in the file, atomically."""
    real = Path(os.path.realpath(path))  # users may link their settings to a file elsewhere
    try:
        text = real.read_text(encoding="utf-8") if real.exists() else ""
        mode = real.stat().st_mode & 0o777 if real.exists() else 0o600
        made = edited(text, lines)
    except (ValueError, TypeError, AttributeError) as error:
        told = "; ".join(f"[{table}] {key} = {value}" for (table, key), value in lines.items())
        raise CommandError(
            f"{path} is written in a way that can't be changed safely; write into it yourself: {told}"
        ) from error
    real.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=real.parent, prefix=".parley-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(made)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(real)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
