"""What a job has changed when its work is put forward: counted once, with the question, and shown by every face."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parley.ports import Change
from parley.wording import count

KEPT = 20  # files that are kept by name
NAMED = 4  # of those, files that one line names
LONGEST = 200  # characters of a path


@dataclass(frozen=True, slots=True)
class Stat:
    """How much was changed, and in which files: as many as are kept."""

    files: int
    added: int
    removed: int
    changes: tuple[Change, ...]

    @property
    def short(self) -> str:
        """The numbers."""
        if not self.files:
            return "no file changed"
        return f"{count(self.files, 'file')} changed, +{self.added} -{self.removed}"

    def words(self) -> str:
        """The numbers and the first files. A file's name is an agent's text: a terminal obeys nothing in it."""
        names = [_plain(change.path) for change in self.changes[:NAMED]]
        more = f" and {self.files - len(names)} more" if self.files > len(names) else ""
        return f"{self.short}: {', '.join(names)}{more}" if names else self.short

    def document(self) -> dict[str, Any]:
        """The numbers and the files, as the bus keeps them and as `--json` gives them."""
        paths = [{"path": one.path, "added": one.added, "removed": one.removed} for one in self.changes]
        return {"files": self.files, "added": self.added, "removed": self.removed, "changes": paths}


def stat_of(changes: Sequence[Change]) -> Stat:
    """The numbers of what was changed. A name that is not UTF-8 has a replacement character where it is not."""
    kept = [
        Change(one.path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")[:LONGEST], one.added, one.removed)
        for one in changes[:KEPT]
    ]
    sums = (sum(one.added or 0 for one in changes), sum(one.removed or 0 for one in changes))
    return Stat(len(changes), *sums, tuple(kept))


def stat_from(document: Mapping[str, Any] | None) -> Stat | None:
    """Read back what the bus keeps."""
    if not document:
        return None
    changes = tuple(Change(one["path"], one["added"], one["removed"]) for one in document["changes"])
    return Stat(document["files"], document["added"], document["removed"], changes)


def _plain(path: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in path)
