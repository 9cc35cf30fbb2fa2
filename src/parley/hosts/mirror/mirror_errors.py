"""Why a turn's place could not be carried. Every text is one line that says whose fault it is and what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from parley.ports.workspaces import WorkspaceError

_FULL = (errno.ENOSPC, errno.EDQUOT)


class MirrorError(WorkspaceError):
    """A turn's place could not be packed, carried or laid out. The turn is lost; it may be tried again."""


class RemoteTrouble(MirrorError):
    """The git remote is down, slow, or refuses. Nothing was changed here."""


class PushLost(MirrorError):
    """Another push to the same ref came first. Nothing was changed. `there`: the commit that the remote has."""

    def __init__(self, text: str, there: str = "") -> None:
        super().__init__(text)
        self.there = there


class PlaceRefused(MirrorError):
    """What the remote has is not what was announced, or must not be laid out: trying again would end the same way."""


@contextmanager
def own_disk(folder: Path) -> Iterator[None]:
    """Turn an error of this machine's disk below a folder into a MirrorError."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise MirrorError(
                f"the disk of {folder} is full; free some space, then the turn can be tried again"
            ) from error
        raise MirrorError(
            f"{folder} can't be worked with: {error.strerror or error}"
            f"{f' ({error.filename})' if error.filename else ''}; see that all below it is yours to change"
        ) from error
