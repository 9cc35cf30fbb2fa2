"""The outcome record: `.parley/outcome.json` in a lead's workspace. Whatever lies there, an agent wrote it."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from parley.ports import Outcome

OUTCOME = ".parley/outcome.json"
OUTCOME_LIMIT = 64 * 1024


def clear_outcome(workspace: Path, remove: Callable[[Path], object] = shutil.rmtree) -> None:
    """See to it that no outcome record is there. `remove` takes a folder away that lies in its place."""
    path = workspace / OUTCOME
    folder = path.parent
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        folder.unlink()
    elif path.is_dir() and not path.is_symlink():
        remove(path)
    else:
        path.unlink(missing_ok=True)


def read_outcome(workspace: Path) -> Outcome | None:
    """The outcome record, if there is one. Whatever else lies there is a problem, told as such."""
    path = workspace / OUTCOME
    try:
        if path.parent.is_symlink():
            return Outcome(problem=".parley must be a folder, not a link")
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
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
            return Outcome(problem=f"{OUTCOME} has {found.st_size} bytes, {OUTCOME_LIMIT} at most")
        return _parse(os.read(handle, OUTCOME_LIMIT))
    except OSError as error:
        return Outcome(problem=f"{OUTCOME} can't be read ({error.strerror})")
    finally:
        os.close(handle)


def _parse(data: bytes) -> Outcome:
    try:
        document = json.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        return Outcome(problem=f"{OUTCOME} is not UTF-8")
    except (ValueError, RecursionError) as error:
        return Outcome(problem=f"{OUTCOME} is not JSON: {error}")
    if not isinstance(document, dict) or set(document) - {"outcome", "reason"}:
        return Outcome(problem=f'{OUTCOME} must be an object {{"outcome": …, "reason": …}}')
    outcome, reason = document.get("outcome"), document.get("reason", "")
    if not isinstance(outcome, str) or not isinstance(reason, str):
        return Outcome(problem=f"`outcome` and `reason` in {OUTCOME} must be strings")
    return Outcome(outcome, reason)
