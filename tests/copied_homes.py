"""Copies of homes for tests, as if this user had made them where they lie."""

import json
import os
import shutil
from pathlib import Path

from parley.bus import key_files
from parley.bus.sqlite.safe_open import FILE, IDENTITY


def bind(home: Path) -> Path:
    """Let the key of a bus name this home and this file; where it was before, it is refused from now on."""
    path = key_files.folder() / (home / IDENTITY).read_text().strip()
    document = json.loads(path.read_text())
    document["home"] = os.fsencode(os.path.realpath(home)).hex()
    document["inode"] = (home / FILE).lstat().st_ino
    path.write_text(json.dumps(document))
    return home


def copy_bus(home: Path, to: Path, *names: str) -> Path:
    """Copy a bus alone, with what is named besides, and bind the copy."""
    to.mkdir(exist_ok=True)
    for name in (FILE, IDENTITY, *names):
        shutil.copy(home / name, to / name)
    return bind(to)
