"""The outcome record: `.parley/outcome.json` in a lead's workspace. Whatever lies there, an agent wrote it."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from parley.ports import Outcome
from parley.text import BadText, cut, read_json

PLACE, NAME = ".parley", "outcome.json"
OUTCOME = f"{PLACE}/{NAME}"
OUTCOME_LIMIT = 64 * 1024
KEYS = ("outcome", "reason")
KEY_LIMIT, KEYS_SHOWN = 40, 5  # characters of a key, and keys, that are told
FORM = 'write {"outcome": "…", "reason": "…"} and nothing else'


def clear_outcome(workspace: Path, remove: Callable[[Path], object] = shutil.rmtree) -> None:
    """See to it that no outcome record is there. Nothing is followed: an agent may be changing it meanwhile.

    `remove` takes a folder away that lies in its place and lets nobody look into it.
    """
    with contextlib.suppress(FileNotFoundError), _opened(workspace) as root:
        try:
            with _opened(PLACE, root) as folder:
                try:
                    os.unlink(NAME, dir_fd=folder)
                except IsADirectoryError:
                    try:
                        shutil.rmtree(NAME, dir_fd=folder)
                    except (OSError, RecursionError):
                        remove(
                            Path(f"/proc/self/fd/{folder}/{NAME}")
                        )  # by its descriptor: `.parley` may be a link by now
        except NotADirectoryError:
            os.unlink(PLACE, dir_fd=root)


@contextmanager
def _opened(folder: Path | str, above: int | None = None) -> Iterator[int]:
    """A folder, and never what a link leads to: that is a NotADirectoryError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        yield handle
    finally:
        os.close(handle)


def read_outcome(workspace: Path) -> Outcome | None:
    """The outcome record, if there is one. Whatever else lies there is a problem, told as such."""
    try:
        with _opened(workspace) as root, _opened(PLACE, root) as folder:
            return _read(folder)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return Outcome(problem=f"{PLACE} must be a folder, not a link")
    except PermissionError:
        return Outcome(problem=f"{PLACE} can't be looked into; let its owner do so")


def _read(folder: int) -> Outcome | None:
    try:
        handle = os.open(NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    except PermissionError:
        return Outcome(problem=f"{OUTCOME} can't be read; let its owner read it")
    except OSError:
        return Outcome(problem=f"{OUTCOME} must be an ordinary file, not a link or a folder")
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return Outcome(problem=f"{OUTCOME} must be an ordinary file, not a link or a folder")
        if found.st_size > OUTCOME_LIMIT:
            return Outcome(problem=f"{OUTCOME} has {found.st_size} bytes, {OUTCOME_LIMIT} at most; shorten the reason")
        return _parse(os.read(handle, OUTCOME_LIMIT))
    except OSError as error:
        return Outcome(problem=f"{OUTCOME} can't be read ({error.strerror})")
    finally:
        os.close(handle)


def _parse(data: bytes) -> Outcome:
    try:
        document = read_json(data, OUTCOME_LIMIT)
    except BadText as bad:
        return Outcome(problem=f"{OUTCOME} can't be read: {bad}; {bad.remedy}")
    if not isinstance(document, dict):
        return Outcome(problem=f"{OUTCOME} is {_kind(document)}; {FORM}")
    if extra := [key for key in document if key not in KEYS]:
        keys = ", ".join(ascii(cut(key, KEY_LIMIT)) for key in extra[:KEYS_SHOWN])
        more = f" and {len(extra) - KEYS_SHOWN} more" if len(extra) > KEYS_SHOWN else ""
        return Outcome(problem=f"{OUTCOME} has what no outcome record has: {keys}{more}; {FORM}")
    if missing := [f'"{key}"' for key in KEYS if key not in document]:
        return Outcome(problem=f"{OUTCOME} has no {' and no '.join(missing)}; {FORM}")
    if wrong := [f'"{key}" is {_kind(value)}' for key, value in document.items() if not isinstance(value, str)]:
        return Outcome(problem=f"in {OUTCOME} {' and '.join(wrong)}; both must be texts")
    if blank := [f'"{key}"' for key in KEYS if not document[key].strip()]:
        return Outcome(problem=f"in {OUTCOME} {' and '.join(blank)} says nothing; people read both later: {FORM}")
    return Outcome(document["outcome"], document["reason"])


def _kind(value: Any) -> str:
    kinds = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return "a text" if isinstance(value, str) else kinds.get(type(value), "null")
