"""A committed tree, read from the job's repository and not from the workspace's folder.

Gates read here: digests, what the human and the proxy are shown, a plan's design. So no file that is a link, is
ignored or changes later can stand for what was committed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cached_property

from parley.base.text import cut, lenient
from parley.workspaces.files.tree_entry import TreeEntry
from parley.workspaces.job_repository import OWN, JobRepository

READ_AHEAD_BYTES = 4 << 20  # of the protocol's own files, read by one git process
LARGEST_READ_AHEAD = 256 << 10
ORDINARY = "100"  # how the modes of ordinary files begin


class CommittedTree:
    """The ordinary files of one tree."""

    def __init__(self, repository: JobRepository, tree: str) -> None:
        self._repository = repository
        self._tree = tree
        self._texts: dict[str, bytes] = {}  # by the blob

    @cached_property
    def _own(self) -> dict[str, TreeEntry]:
        """The protocol's own files, which are read often."""
        return self._repository.entries(self._tree, OWN) if self._tree and self._repository.exists else {}

    def _entry(self, path: str) -> str:
        """The blob of an ordinary file; empty where there is none."""
        if path.split("/", maxsplit=1)[0] in OWN:
            found = self._own.get(path)
        else:
            found = self._repository.entries(self._tree, [path]).get(path) if self._tree else None
        return found.name if found is not None and found.mode.startswith(ORDINARY) else ""

    def read(self, path: str, most: int) -> str | None:
        """What an ordinary file of at most so many bytes holds."""
        blob = self._entry(path)
        if not blob:
            return None
        data = self._data(blob, most)
        return None if data is None else lenient(data)

    def listing(self, folder: str) -> tuple[str, ...]:
        """The ordinary files below a folder, by their paths from the tree's root, in order."""
        inside = folder.split("/", maxsplit=1)[0] in OWN
        known = (
            self._own if inside or not self._tree else self._repository.entries(self._tree, [folder] if folder else [])
        )
        prefix = f"{folder}/" if folder else ""
        return tuple(
            sorted(p for p, entry in known.items() if entry.mode.startswith(ORDINARY) and p.startswith(prefix))
        )

    def contents(self, artifacts: Iterable[str]) -> dict[str, str]:
        """The digest of each artifact that is there as an ordinary file."""
        found = {}
        for artifact in artifacts:
            if blob := self._entry(artifact):
                found[artifact] = self._digest(blob)
        return found

    def beginning(self, artifact: str, length: int) -> str:
        """The first characters of an artifact, with the mark of a cut where there are more."""
        blob = self._entry(artifact)
        if not blob:
            return ""
        known = self._texts.get(blob)
        if known is None:
            with self._repository.git.contents() as contents:
                known, _ = contents.start(blob, 4 * length)
        return cut(lenient(known), length)

    def _digest(self, blob: str) -> str:
        known = self._texts.get(blob)
        made = hashlib.sha256(known or b"")
        if known is None:
            with self._repository.git.contents() as contents:
                contents.copy(blob, made.update)
        return made.hexdigest()

    def _data(self, blob: str, most: int) -> bytes | None:
        """The bytes of a blob; the protocol's own small files are all read together with the first of them."""
        if blob not in self._texts:
            sizes = self._sizes([blob, *(name for mode, name in self._own.values() if mode.startswith(ORDINARY))])
            if sizes[blob] > most:
                return None
            room = READ_AHEAD_BYTES
            with self._repository.git.contents() as contents:
                for name, size in sizes.items():
                    room -= size
                    if name == blob or (name not in self._texts and size <= LARGEST_READ_AHEAD and room >= 0):
                        parts: list[bytes] = []
                        contents.copy(name, parts.append)
                        self._texts[name] = b"".join(parts)
        data = self._texts[blob]
        if len(data) > LARGEST_READ_AHEAD:
            del self._texts[blob]
        return data if len(data) <= most else None

    def _sizes(self, blobs: Iterable[str]) -> dict[str, int]:
        """How many bytes each of some blobs holds."""
        names = list(dict.fromkeys(blobs))
        lines = "".join(f"{name}\n" for name in names).encode()
        said = self._repository.git("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=lines).decode(
            "ascii"
        )
        return {name: int(size) for name, size in (line.split() for line in said.splitlines())}
