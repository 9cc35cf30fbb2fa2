"""The outcome record: `.parley/outcome.json` in a lead's workspace. Whatever lies there, an agent wrote it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from parley.ports import Outcome

PLACE, NAME = ".parley", "outcome.json"
OUTCOME = f"{PLACE}/{NAME}"
OUTCOME_LIMIT = 64 * 1024


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
