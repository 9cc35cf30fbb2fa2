"""Reads and writes workflow files in a folder of the user's own, outside any job."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from parley.base.text import lenient
from parley.ports.workspaces import WorkspaceError
from parley.workspaces.files.safe_fs import SafeFolder, open_below
from parley.workspaces.protocol_files import below

ASIDE = ".parley-aside"  # files that are in the way are moved here


@dataclass(frozen=True, slots=True)
class UsersWorkflowFiles:
    """A folder whose files are read and written below it and nowhere else: no link is followed."""

    folder: Path

    def read(self, path: str, most: int = 32_000_000) -> str | None:
        """What an ordinary file holds; None for anything else."""
        with SafeFolder(self.folder, self.folder / ASIDE) as safe_folder:
            data = safe_folder.read(path, most)
        return None if data is None else lenient(data)

    def write(self, files: Mapping[str, str | None]) -> None:
        """Write files, None: delete, in this order; each is on the disk before the next is touched."""
        try:
            with SafeFolder(self.folder, self.folder / ASIDE) as safe_folder:
                for path, text in files.items():
                    if text is None:
                        safe_folder.remove(path)
                    else:
                        self._put(safe_folder, path, text.encode("utf-8", "replace"))
        except OSError as error:
            raise WorkspaceError(f"{self.folder} can't be written to: {error.strerror or error}") from error

    def listing(self, folder: str) -> tuple[str, ...]:
        """The ordinary files below a folder, by their paths from the root, in order."""
        return below(self.folder, folder)

    def _put(self, safe_folder: SafeFolder, path: str, data: bytes) -> None:
        def fill(handle: int) -> None:
            with os.fdopen(os.dup(handle), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(handle)

        safe_folder.put(path, fill)
        with open_below(self.folder, path.rpartition("/")[0]) as above:
            os.fsync(above)
