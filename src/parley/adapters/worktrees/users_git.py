"""The user's own git, with the user's identity, hooks and settings: for what the user would do by hand."""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
from pathlib import Path

IDENTITY = ("GIT_AUTHOR_", "GIT_COMMITTER_")


class UsersGit:
    """Git in one folder, run as the one whom the folder belongs to. `owned` is what tells whom."""

    def __init__(self, root: Path, owned: Path) -> None:
        self._root = root
        found = owned.stat()
        self.owner = found if os.geteuid() == 0 and found.st_uid != 0 else None  # None: the user who runs this

    def __call__(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """Run it, whatever comes of it."""
        # who the user is may stand there, and where their settings are; which repository is meant may not
        kept = IDENTITY if self.owner else (*IDENTITY, "GIT_CONFIG_")
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name.startswith(kept)
        }
        environment["HOME"] = str(self.home)
        if self.owner is not None:
            environment.pop("XDG_CONFIG_HOME", None)
        return subprocess.run(
            ["git", *words],
            cwd=self._root,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            user=self.owner.st_uid if self.owner else None,
            group=self.owner.st_gid if self.owner else None,
            extra_groups=[] if self.owner else None,
            check=False,
        )

    @property
    def home(self) -> Path:
        """The user's home."""
        if self.owner is not None:
            with contextlib.suppress(KeyError):
                return Path(pwd.getpwuid(self.owner.st_uid).pw_dir)
        return Path(os.environ.get("HOME") or "/")
