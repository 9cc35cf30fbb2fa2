"""The user's own git, with the user's identity and settings: for what only it can tell, and for the user's signature.

It runs no hook and no monitor, and takes no program from the user's folder: what lies there may be an agent's.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
from collections.abc import Mapping
from pathlib import Path

from parley.adapters.git import PATIENCE_SECONDS, program
from parley.adapters.programs import search_path
from parley.ports import WorkspaceError

IDENTITY = ("GIT_AUTHOR_", "GIT_COMMITTER_")
_QUIET = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.pager": "cat",
    "submodule.recurse": "false",
    "maintenance.auto": "false",
    "gc.auto": "0",
}
_FLAGS = tuple(word for name, value in _QUIET.items() for word in ("-c", f"{name}={value}"))


class UsersGit:
    """Git in one folder, run as the one whom the folder belongs to. `owned` is what tells whom."""

    def __init__(self, root: Path, owned: Path) -> None:
        self._root = root
        found = owned.stat()
        self.owner = found if os.geteuid() == 0 and found.st_uid != 0 else None  # None: the user who runs this
        self.path = search_path(root)

    def __call__(self, *words: str, stdin: bytes = b"", plain: bool = False) -> subprocess.CompletedProcess[bytes]:
        """Run it, whatever comes of it. `plain`: with the user's settings as they are, for what only reads them."""
        try:
            return subprocess.run(
                [program(self.path), *(() if plain else _FLAGS), *words],
                cwd=self._root,
                env=self.environment(),
                input=stdin,
                capture_output=True,
                user=self.owner.st_uid if self.owner else None,
                group=self.owner.st_gid if self.owner else None,
                extra_groups=[] if self.owner else None,
                timeout=PATIENCE_SECONDS,
                process_group=0,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise WorkspaceError(
                f"your git took longer than {PATIENCE_SECONDS:g} seconds in {self._root} and was stopped; "
                f"see what `git {words[0]}` waits for there"
            ) from late

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The user's environment, without what would say which repository is meant."""
        kept = IDENTITY if self.owner else (*IDENTITY, "GIT_CONFIG_")
        found = {
            name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name.startswith(kept)
        }
        if self.owner is not None:
            found.pop("XDG_CONFIG_HOME", None)
        return {**found, "HOME": str(self.home), "PATH": self.path, **(more or {})}

    @property
    def home(self) -> Path:
        """The user's home."""
        if self.owner is not None:
            with contextlib.suppress(KeyError):
                return Path(pwd.getpwuid(self.owner.st_uid).pw_dir)
        return Path(os.environ.get("HOME") or "/")
