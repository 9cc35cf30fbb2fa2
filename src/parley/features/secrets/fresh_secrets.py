"""Secrets as they are now: a server, or an engine, runs for days, and a `.env` file gets new lines meanwhile.

A look costs a few system calls: files are read, and folders listed, only where something about them has changed. What
was a secret once stays one while the process runs: a file that is being written anew may be empty for a moment.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from parley.base.redaction import Secrets
from parley.features.secrets.secret_sources import from_environment, from_files, secret_files

LOOK_SECONDS = 0.2  # between two looks

_Stamp = tuple[int, ...]  # what a file or a folder is like; another content has another one


class SecretSources:
    """The files and variables of a repository that hold secrets. Used by several threads."""

    def __init__(
        self, root: Path, environment: Mapping[str, str], copied: Callable[[], Iterable[str]], settings: Path
    ) -> None:
        """`copied` reads from the file `settings` which paths a fresh worktree gets besides what is committed."""
        self._root, self._copied, self._settings = root, copied, settings
        self._own = tuple(from_environment(environment))
        self._lock = threading.Lock()
        self._values = dict.fromkeys(self._own)  # each name with its value, also of those that are gone from the files
        self._stamps: dict[Path, _Stamp] = {}
        self._looked = 0.0
        self._version = 0
        self._secrets = Secrets()
        self._look()

    def now(self) -> tuple[Secrets, int]:
        """The secrets, and a number that grows when there are more of them."""
        if time.monotonic() - self._looked > LOOK_SECONDS:
            with self._lock:
                if any(_stamp(path) != stamp for path, stamp in self._stamps.items()):
                    self._look()
                self._looked = time.monotonic()
        return self._secrets, self._version

    def _look(self) -> None:
        """Read all sources."""
        before = _stamp(self._settings)
        places = [self._root, *(self._root / name for name in self._copied())]
        stamps = {self._settings: before, **{place: _stamp(place) for place in places}}
        files = list(secret_files(places))
        stamps |= {path: _stamp(path) for path in files}  # before they are read: what changes then is seen later
        found = dict.fromkeys(from_files(files))
        if self._version == 0 or not found.keys() <= self._values.keys():
            self._values |= found
            self._secrets = Secrets(self._values, (value for _, value in self._own))
            self._version += 1
        self._stamps, self._looked = stamps, time.monotonic()


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return ()
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class FreshSecrets(Secrets):
    """Hides what is secret at the moment."""

    def __init__(self, now: Callable[[], tuple[Secrets, int]]) -> None:
        super().__init__()
        self._now = now

    @property
    def version(self) -> int:
        """A number that grows when there is more to hide."""
        return self._now()[1]

    def redact(self, text: str) -> str:
        """The text without secrets; the very same text where there are none."""
        return self._now()[0].redact(text)

    def document(self, value: Any) -> Any:
        """A JSON value with every text in it redacted, keys too."""
        return self._now()[0].document(value)

    def sparing(self, *texts: str) -> Secrets:
        """Only the long secrets, for texts that are not prose; without those that are part of the given texts."""
        return self._derived(lambda found: found.sparing(*texts))

    def showing(self, texts: Iterable[str]) -> Secrets:
        """Without values that only a file calls secrets and that are part of these texts, which the user reads."""
        shown = [*texts]
        return self._derived(lambda found: found.showing(shown))

    def _derived(self, make: Callable[[Secrets], Secrets]) -> Secrets:
        """Other secrets that follow from these, as fresh as these are."""
        known = (make(self._now()[0]), self.version)

        def now() -> tuple[Secrets, int]:
            nonlocal known
            found, version = self._now()
            if version != known[1]:
                known = (make(found), version)
            return known

        return FreshSecrets(now)
