"""What a place says of itself: whose it is, which parts it has, and what git's trees can't hold."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from parley.base.text import BadText, cut, printable, read_json
from parley.hosts.mirror.folder_packing import Modes
from parley.hosts.mirror.mirror_errors import PlaceRefused
from parley.hosts.mirror.place_names import as_path
from parley.ports.turns import Order
from parley.workspaces.safe_git import ObjectReader

FORM = 1
LARGEST = 64 << 20  # bytes
SENT, BACK = "sent", "back"


class PartNote(Struct, frozen=True):
    """One part: its path in the job's folder, and its modes."""

    path: str
    modes: Modes
    is_file: bool = False


class Manifest(Struct, frozen=True, kw_only=True):
    """The manifest of a place. Paths are bytes, written as Latin-1."""

    form: int = FORM
    kind: str  # sent to a host, or back from one
    job: str
    turn: str
    epoch: int
    folder: str  # the job's, where it was packed
    workspace: str  # the same
    parts: tuple[PartNote, ...]
    base: str = ""  # the commit that holds the base's commits
    tips: tuple[str, ...] = ()  # the commits that the agent can read, with all that leads to them
    limit: int = 0  # bytes that the job may take; 0: no limit
    files: int = 0  # names in one folder; the same
    hidden: tuple[str, ...] = ()  # what the set-up command and the copy list have brought: each host has its own
    setup: str = ""  # the set-up command, run once on a host

    def data(self) -> bytes:
        """As it is packed."""
        return msgspec.json.encode(self)


def read_manifest(reader: ObjectReader, name: str, kind: str, order: Order) -> Manifest:
    """The manifest of a place that was fetched. PlaceRefused where it is not this turn's."""
    if reader.size(name) > LARGEST:
        raise PlaceRefused(f"its manifest has more than {LARGEST} bytes; it is refused")
    try:
        document = read_json(reader.whole(name), LARGEST)
        if isinstance(document, dict) and document.get("form") != FORM:
            raise PlaceRefused("it was packed by another version of Parley; use the same version on all hosts")
        found = msgspec.convert(document, Manifest)
        for text in (found.folder, found.workspace, *found.hidden, *(part.path for part in found.parts)):
            as_path(text)
    except (BadText, UnicodeError, msgspec.ValidationError) as error:
        why = cut(printable(str(error)), 200)
        raise PlaceRefused(f"its manifest is malformed ({why}); it is refused") from error
    if (found.kind, found.job, found.turn, found.epoch) != (kind, order.job, order.turn, order.epoch):
        raise PlaceRefused(
            f"it is the place of turn {found.turn!r:.60} of job {found.job!r:.60}, and {order.turn} of {order.job} "
            "was announced; it is refused"
        )
    return found
