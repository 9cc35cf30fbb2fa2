"""The user's own git, with the user's identity and settings: for what only it can tell, and for the user's signature.

It runs no hook and no monitor, and takes no program from the user's folder: what lies there may be an agent's.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from parley.adapters.git import PATIENCE_SECONDS, program
from parley.adapters.programs import search_path
from parley.ports import WorkspaceError

IDENTITY = ("GIT_AUTHOR_", "GIT_COMMITTER_")
SETTINGS = ("HOME", "XDG_CONFIG_HOME")  # git reads settings by these, and tells which file says what
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

    def __call__(
        self, *words: str, stdin: bytes = b"", plain: bool = False, folder: Path | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run it, whatever comes of it. `plain`: with the user's settings as they are, for what only reads them.

        `folder`: where, for what starts a program of the user's: it may obey files of the folder that it starts in.
        """
        try:
            return subprocess.run(
                [program(self.path), *(() if plain else _FLAGS), *words],
                cwd=folder or self._root,
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
        """The user's environment, without what would say which repository is meant, or leads programs into it.

        `PYTHONPATH`, `BASH_ENV`, `LD_PRELOAD` and many more make a program run what lies elsewhere, the checkout's
        included; by whichever name, no value that names a place in it is passed on.
        """
        kept = IDENTITY if self.owner else (*IDENTITY, "GIT_CONFIG_")
        found = {
            name: value
            for name, value in os.environ.items()
            if (name.startswith(kept) if name.startswith("GIT_") else name in SETTINGS or not self._leads_in(value))
        }
        if self.owner is not None:
            found.pop("XDG_CONFIG_HOME", None)
        return {**found, "HOME": str(self.home), "PATH": self.path, **(more or {})}

    def _leads_in(self, value: str) -> bool:
        """Whether a value names a place in the checkout: anywhere in it, or by a link from elsewhere."""
        real = os.path.realpath(self._root)
        if any(re.search(rf"{re.escape(str(root))}(?![\w.-])", value) for root in (self._root, real)):
            return True
        listed = (part for part in re.split(r"[:\s]", value) if part.startswith("/"))
        return any(Path(os.path.realpath(part)).is_relative_to(real) for part in listed)

    @property
    def home(self) -> Path:
        """The user's home."""
        if self.owner is not None:
            with contextlib.suppress(KeyError):
                return Path(pwd.getpwuid(self.owner.st_uid).pw_dir)
        return Path(os.environ.get("HOME") or "/")
