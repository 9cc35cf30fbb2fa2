"""The list of this user's homes in all repositories, so that one inbox can show all of them.

A plain file in the user's own state folder. It is a convenience: where it can't be written, nothing else fails.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from parley.bus.sqlite.safe_open import FILE, IDENTITY
from parley.cli.common import Workplace, homes_file


def remember(place: Workplace) -> None:
    """Add a home to the list, once."""
    line = json.dumps({"root": str(place.root), "home": str(place.home)})
    path = homes_file()
    with suppress(OSError):
        if path is not None and line not in _lines(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with path.open("a", encoding="ascii") as file:
                file.write(f"{line}\n")


def known() -> list[Workplace]:
    """The homes that still exist, in the order in which they were made."""
    found = dict.fromkeys(_places())
    return [place for place in found if place.root.is_dir() and _has_bus(place.home)]


def _has_bus(home: Path) -> bool:
    """Whether a home has a bus, in its file or by the name of one on a server. A damaged one counts: it is told of."""
    return any(os.path.lexists(home / name) for name in (FILE, IDENTITY))


def own_folders() -> list[Path]:
    """Parley's folders that no agent may see: all homes, the keys of trust and of buses, the memory."""
    from parley.features.proxy.decision_store import place as memory_of  # for start-up: few commands need it

    found, state = [place.home for place in known()], homes_file()
    if state is not None:
        found.append(state.parent)
    with suppress(RuntimeError):  # an account without a home
        memory = memory_of(os.environ)
        found += [memory.with_name(f"{memory.name}{end}") for end in ("", "-wal", "-shm", "-journal")]
    return found


def _places() -> Iterator[Workplace]:
    for line in _lines(homes_file()):
        with suppress(ValueError, TypeError, KeyError):  # a malformed line is skipped
            entry = json.loads(line)
            yield Workplace(Path(entry["root"]), Path(entry["home"]))


def _lines(path: Path | None) -> list[str]:
    try:
        return path.read_text(encoding="ascii", errors="replace").splitlines() if path is not None else []
    except OSError:
        return []
