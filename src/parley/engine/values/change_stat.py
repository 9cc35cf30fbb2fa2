"""What a job has changed when its lead asserts the work: counted once, with the question, and shown by every face."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from parley.base.obeyed import Obeyed, foremost
from parley.base.text import cut, printable
from parley.base.unportable import words as unportable_words
from parley.base.wording import count
from parley.ports.workspaces import Change

KEPT = 20  # files that are kept by name
OBEYED = 50  # files that tools obey that are kept by name
NAMED = 4  # of those, files that one line names
LONGEST = 200  # characters of a path


@dataclass(frozen=True, slots=True)
class Stat:
    """How much was changed, and in which files: as many as are kept."""

    files: int
    added: int
    removed: int
    changes: tuple[Change, ...]
    obeyed: tuple[Obeyed, ...] = ()  # what of it tools run or obey: as many as are kept
    obeyed_files: int = 0  # and how many there are
    unportable: str = ""  # the new names that trouble other systems, on one line

    @property
    def short(self) -> str:
        """The numbers."""
        if not self.files:
            return "no file changed"
        return f"{count(self.files, 'file')} changed, +{self.added} -{self.removed}"

    def words(self) -> str:
        """The numbers and the first files. A file's name is an agent's text: a terminal obeys nothing in it."""
        names = [printable(change.path) for change in self.changes[:NAMED]]
        more = f" and {self.files - len(names)} more" if self.files > len(names) else ""
        return f"{self.short}: {', '.join(names)}{more}" if names else self.short

    def lines(self) -> list[str]:
        """The files that are kept, a line each with its numbers, and how many more there are."""
        width = max((len(printable(one.path)) for one in self.changes), default=0)
        lines = [f"{printable(one.path):<{width}}  {one.words}" for one in self.changes]
        more = self.files - len(lines)
        return [*lines, *([f"… and {more} more"] if more > 0 else [])]

    def warning_words(self) -> str:
        """The first of what tools run or obey, and how many more there are, and odd names; empty where all is plain."""
        named = [f"{printable(one.path)} ({one.by})" for one in foremost(self.obeyed, NAMED)]
        more = f" and {self.obeyed_files - len(named)} more" if self.obeyed_files > len(named) else ""
        run = f"run or obeyed by tools on this machine: {', '.join(named)}{more}" if named else ""
        return "; ".join(words for words in (run, printable(self.unportable)) if words)

    def warning_lines(self) -> list[str]:
        """All of it that is kept: what tools run or obey a line each below a heading, then the odd names."""
        lines = [f"  {printable(one.path)}: {one.by}" for one in self.obeyed]
        more = self.obeyed_files - len(lines)
        lines += [f"  … and {more} more"] if lines and more > 0 else []
        heading = ["run or obeyed by tools on this machine:"] if lines else []
        return [*heading, *lines, *([printable(self.unportable)] if self.unportable else [])]

    def document(self) -> dict[str, Any]:
        """The numbers and the files, as `--json` gives them."""
        paths = [{"path": one.path, "added": one.added, "removed": one.removed} for one in self.changes]
        return {
            "files": self.files,
            "added": self.added,
            "removed": self.removed,
            "changes": paths,
            "obeyed": [one.document() for one in self.obeyed],
            "obeyed_files": self.obeyed_files,
            "unportable": printable(self.unportable),
        }


def stat_of(changes: Sequence[Change]) -> Stat:
    """The numbers of what was changed. A name that is not UTF-8 has a replacement character where it is not."""
    kept = [Change(_kept(one.path), one.added, one.removed) for one in changes[:KEPT]]
    obeyed = [Obeyed(_kept(one.path), cut(printable(one.obeyed), LONGEST)) for one in changes if one.obeyed]
    odd = {one.path: one.unportable for one in changes if one.unportable}
    return Stat(
        files=len(changes),
        added=sum(one.added or 0 for one in changes),
        removed=sum(one.removed or 0 for one in changes),
        changes=tuple(kept),
        obeyed=tuple(foremost(obeyed, OBEYED)),
        obeyed_files=len(obeyed),
        unportable=unportable_words(odd),
    )


def _kept(path: str) -> str:
    name = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
