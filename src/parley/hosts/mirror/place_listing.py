"""Reads the tree of a place that any host may have made: all names, modes, depths and counts are checked first."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from parley.hosts.mirror.folder_packing import FOLDER, Allowed
from parley.hosts.mirror.mirror_errors import PlaceRefused
from parley.hosts.mirror.place_names import SESSIONS, is_git, session_folder, taken_back
from parley.workspaces.files.known_blobs import LINK, PROGRAM, REGULAR
from parley.workspaces.files.safe_walk import DEEPEST, LONGEST
from parley.workspaces.files.scan import path_text
from parley.workspaces.files.tree_entry import TreeEntry
from parley.workspaces.safe_git import ObjectReader

MANIFEST, PARTS, TURNS = b"manifest", b"parts", b"turns"  # what lies at the top of a place
TREE_BYTES = 64 << 20  # of one folder's tree
_NAME_BYTES = 255
_KINDS = (REGULAR, PROGRAM, LINK)


@dataclass(slots=True)
class Listing:
    """What a folder of a place holds, by path from its root."""

    files: dict[str, TreeEntry] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class MovedSessions:
    """Claude Code's sessions lie below the path of the workspace: the folder's name is changed along with that path."""

    before: str
    now: str

    def entries(self, path: str, found: dict[bytes, TreeEntry]) -> dict[bytes, TreeEntry]:
        """The entries of a folder of the home, with the sessions where the program looks for them."""
        if path != SESSIONS or self.before == self.now:
            return found
        name, to = (os.fsencode(session_folder(one)) for one in (self.before, self.now))
        moved = found.get(name) if name else None
        if moved is None:
            return found
        kept = {one: entry for one, entry in found.items() if one not in (name, to)}
        return {**kept, to: moved} if to else kept


def parsed_tree(data: bytes, width: int) -> dict[bytes, TreeEntry]:
    """The entries of a tree object, by their names as they are stored. PlaceRefused where it is malformed."""
    found: dict[bytes, TreeEntry] = {}
    at = 0
    while at < len(data):
        head = data.find(b"\0", at)
        mode, blank, name = data[at:head].partition(b" ")
        end = head + 1 + width
        if head < 0 or not blank or not name or b"/" in name or end > len(data) or name in found:
            raise PlaceRefused("a tree of it is malformed; it is refused")
        found[name] = TreeEntry(mode.decode("latin-1"), data[head + 1 : end].hex())
        at = end
    return found


def read_tree(reader: ObjectReader, name: str, most: int = TREE_BYTES) -> dict[bytes, TreeEntry]:
    """The entries of a tree that is here."""
    if reader.size(name) > most:
        raise PlaceRefused(f"a tree of it has more than {most} bytes; it is refused")
    return parsed_tree(reader.whole(name), len(name) // 2)


def listed(reader: ObjectReader, tree: str, allowed: Allowed, sessions: MovedSessions | None = None) -> Listing:
    """All that a tree holds. `allowed` bounds the names, also where a few trees name each other very often."""
    found = Listing()
    waiting = [("", tree)]
    while waiting:
        above, name = waiting.pop()
        entries = _names(above, read_tree(reader, name))
        allowed.take(0, len(entries), "what came back")
        for plain, entry in (sessions.entries(above, entries) if sessions else entries).items():
            path = f"{above}/{os.fsdecode(plain)}" if above else os.fsdecode(plain)
            if path.count("/") >= DEEPEST or len(os.fsencode(path)) > LONGEST:
                raise PlaceRefused(f"{path_text(path)} lies too deep; it is refused")
            if entry.mode == FOLDER:
                found.folders.add(path)
                waiting.append((path, entry.name))
            elif entry.mode in _KINDS:
                found.files[path] = entry
            else:
                raise PlaceRefused(f"{path_text(path)} has the mode {entry.mode!a:.20}; it is refused")
    return found


def _names(above: str, entries: dict[bytes, TreeEntry]) -> dict[bytes, TreeEntry]:
    """The entries of a folder by their real names."""
    found = {}
    for name, entry in entries.items():
        plain = taken_back(name)
        shown = path_text(f"{above}/{os.fsdecode(name)}" if above else os.fsdecode(name))
        if plain is None or plain in (b".", b"..") or len(plain) > _NAME_BYTES:
            raise PlaceRefused(f"{shown} is no name of a file; it is refused")
        if is_git(plain):
            raise PlaceRefused(f"{shown}: its name is git's own; it is refused")
        found[plain] = entry
    return found
