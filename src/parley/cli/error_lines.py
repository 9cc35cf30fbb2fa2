"""Turns every error that can reach the user into one line and an exit code."""

from __future__ import annotations

import errno
import os
import traceback

from parley.base.documents.node import DocumentError
from parley.base.json_codec import Unreadable
from parley.bus.key_files import KeyRefused
from parley.bus.rows import BusError, LostOwnership, Owned
from parley.cli import BAD_USE, FAILED
from parley.ports.decisions import MemoryTrouble
from parley.ports.workspaces import WorkspaceError
from parley.protocol.errors import ProtocolError

DEBUG = "PARLEY_DEBUG"


def explain(error: Exception) -> tuple[str, int]:
    """The line for the user, and the exit code."""
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    if isinstance(error, DocumentError):
        return str(error), BAD_USE
    if isinstance(error, LostOwnership):
        return f"{error}; see how it stands with `parley ls`", FAILED
    if isinstance(error, Owned | BusError | KeyRefused | WorkspaceError | MemoryTrouble):
        return str(error), FAILED
    if isinstance(error, Unreadable):
        return (
            f"a row can't be read ({error}): another program changed it; `parley audit JOB` names it",
            FAILED,
        )
    if isinstance(error, ProtocolError):
        return f"the job's record breaks the protocol ({error}); look into it with `parley audit`", FAILED
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}; {_remedy(error)}", FAILED
    name = type(error).__name__
    return (
        f"this should not have happened ({name}: {error}); set {DEBUG}=1 to see where, and report it",
        FAILED,
    )


def _remedy(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "free some space, then go on with `parley resume`; what was committed stands"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "see to the permissions, or name another home with PARLEY_HOME"
    return "repair it, then go on with `parley resume`; what was committed stands"
