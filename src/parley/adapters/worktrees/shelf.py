"""The files of a workflow in a folder of the user's own, outside any job."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from parley.adapters.worktrees.ground import Ground, down
from parley.adapters.worktrees.papers import below
from parley.ports import WorkspaceError
from parley.text import lenient

ASIDE = ".parley-aside"  # where what stands in the way is moved to


@dataclass(frozen=True, slots=True)
class Shelf:
    """A folder whose files are read and written below it and nowhere else: no link is followed."""

    folder: Path

    def read(self, path: str, most: int = 32_000_000) -> str | None:
        """What an ordinary file holds; None for anything else."""
        with Ground(self.folder, self.folder / ASIDE) as ground:
            data = ground.read(path, most)
        return None if data is None else lenient(data)

    def write(self, files: Mapping[str, str | None]) -> None:
        """Put files, None: take them away, in this order; each is on the disk before the next is touched."""
        try:
            with Ground(self.folder, self.folder / ASIDE) as ground:
                for path, text in files.items():
                    if text is None:
                        ground.remove(path)
                    else:
                        self._put(ground, path, text.encode("utf-8", "replace"))
        except OSError as error:
            raise WorkspaceError(f"{self.folder} can't be written to: {error.strerror or error}") from error

    def listing(self, folder: str) -> tuple[str, ...]:
        """The ordinary files below a folder, by their paths from the root, in order."""
        return below(self.folder, folder)

    def _put(self, ground: Ground, path: str, data: bytes) -> None:
        def fill(handle: int) -> None:
            with os.fdopen(os.dup(handle), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(handle)

        ground.put(path, fill)
        with down(self.folder, path.rpartition("/")[0]) as above:
            os.fsync(above)
