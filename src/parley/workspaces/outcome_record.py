"""The outcome record, `.parley/outcome.json` in a lead's workspace: read and cleared. An agent wrote it."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from parley.base.documents.json_text import read_json
from parley.base.documents.node import DocumentError, Entries, decoded, plain
from parley.base.documents.reader import Collector
from parley.base.text import DEEPEST
from parley.ports.workspaces import Outcome

PLACE, NAME = ".parley", "outcome.json"
OUTCOME = f"{PLACE}/{NAME}"
OUTCOME_LIMIT = 64 * 1024
KEYS = ("outcome", "reason")
FORM = 'write {"outcome": "…", "reason": "…"} and nothing else'


def clear_outcome(workspace: Path, remove: Callable[[Path], object] = shutil.rmtree) -> None:
    """Delete the outcome record. No link is followed: an agent may be changing it meanwhile.

    `remove` deletes a folder that lies in its place and can't be opened.
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
    """The outcome record, if there is one. Anything else that lies there is reported as a problem."""
    try:
        with _opened(workspace) as root, _opened(PLACE, root) as folder:
            return _read(folder)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return Outcome(problem=f"{PLACE} must be a folder, not a link")
    except PermissionError:
        return Outcome(problem=f"{PLACE} can't be opened; let its owner open it")


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
        node = read_json(decoded(data, OUTCOME), OUTCOME, deepest=DEEPEST)
    except DocumentError as error:
        return Outcome(problem=str(error))
    reader = Collector()
    fields = reader.fields(node, "the outcome record", KEYS)
    texts = {}
    for key in KEYS if isinstance(node, Entries) else ():
        value = reader.required(fields, key)
        texts[key] = reader.text(value, f"'{key}'") if key in fields else ""
        if isinstance(plain(value), str) and not texts[key].strip():
            reader.wrong(value, f"'{key}' is empty, and people read it later", FORM)
    if reader.errors:
        problems = " and ".join(error.problem for error in reader.errors)
        return Outcome(problem=str(DocumentError(reader.errors[0].place, problems, FORM)))
    return Outcome(texts["outcome"], texts["reason"])
