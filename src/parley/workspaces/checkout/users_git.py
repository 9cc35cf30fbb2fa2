"""The user's own git, with their identity and settings: for reading those, and for their signature.

It runs no hook and no monitor, and takes no program from the user's folder: what lies there may be an agent's.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from parley.machine.programs import search_path
from parley.ports.workspaces import WorkspaceError
from parley.workspaces.safe_git import LONG_SECONDS, PATIENCE_SECONDS, program

IDENTITY = ("GIT_AUTHOR_", "GIT_COMMITTER_")
# How git reaches a remote, and asks for a password.
TRANSPORT = (
    "GIT_SSH",
    "GIT_ASKPASS",
    "GIT_TERMINAL_PROMPT",
    "GIT_PROXY_",
    "GIT_SSL_",
    "GIT_HTTP_",
    "GIT_CURL_",
    "GIT_TRACE",
)
SETTINGS = ("HOME", "XDG_CONFIG_HOME")  # git finds its settings by these
QUIET = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.pager": "cat",
    "submodule.recurse": "false",
    "maintenance.auto": "false",
    "gc.auto": "0",
}
_FLAGS = tuple(word for name, value in QUIET.items() for word in ("-c", f"{name}={value}"))
_IDENT = re.compile(r"(?P<name>.*?) ?<(?P<email>[^<>]*)> \d+ [-+]\d+\s*")


@dataclass(frozen=True, slots=True)
class Identity:
    """A name and a mail address, as a commit has them."""

    name: str
    email: str

    def __str__(self) -> str:
        return f"{self.name} <{self.email}>"


@dataclass(frozen=True, slots=True)
class Identities:
    """Who a commit is by."""

    author: Identity
    committer: Identity

    def environment(self) -> dict[str, str]:
        """The same, as git's environment says it."""
        both = (("AUTHOR", self.author), ("COMMITTER", self.committer))
        names = {f"GIT_{who}_NAME": one.name for who, one in both}
        return names | {f"GIT_{who}_EMAIL": one.email for who, one in both}


_OURS = Identity("parley", "parley@localhost")
PARLEY = Identities(author=_OURS, committer=_OURS)  # where git has no name for the user


class UsersGit:
    """Git in one folder, run as the owner of the path `owned`."""

    def __init__(self, root: Path, owned: Path) -> None:
        self._root = root
        found = owned.stat()
        self.owner = found if os.geteuid() == 0 and found.st_uid != 0 else None  # None: the user who runs this
        self.path = search_path(root)
        self.flags = _FLAGS

    def __call__(
        self, *words: str, stdin: bytes = b"", plain: bool = False, folder: Path | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run it, with any exit code. `plain`: with the user's settings unchanged, to read them.

        `folder`: where to run a program of the user's, which may obey files of the folder that it starts in.
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

    def in_foreground(
        self,
        *words: str,
        more: Mapping[str, str] | None = None,
        folder: Path | None = None,
        seconds: float = LONG_SECONDS,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a program that may take long, as one that reaches a remote, and ask the user on their terminal.

        Without one it has none to ask on: a screen may be another program's.
        """
        reach = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(TRANSPORT) and not self.owner and not self._leads_in(value)
        }
        try:
            return subprocess.run(
                words,
                cwd=folder or self._root,
                env=self.environment({**reach, "LC_ALL": "C.UTF-8", **(more or {})}),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                user=self.owner.st_uid if self.owner else None,
                group=self.owner.st_gid if self.owner else None,
                extra_groups=[] if self.owner else None,
                timeout=seconds,
                start_new_session=not sys.stdin.isatty(),
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise WorkspaceError(
                f"{Path(words[0]).name} took longer than {seconds:g} seconds and was stopped; see what it waits for"
            ) from late

    def signed(self, git_dir: Path, *words: str, by: Identities, date: str = "") -> subprocess.CompletedProcess[bytes]:
        """Run `git commit-tree` with the user's signature.

        A passphrase is asked for on the user's terminal, for as long as they like; without one, only a window can
        ask, and not for long: there may be no user.
        """
        asks = sys.stdin.isatty()
        terminal = {"GPG_TTY": os.ttyname(sys.stdin.fileno()) if asks else ""}
        dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date} if date else {}
        return self.in_foreground(
            *(program(self.path), *_FLAGS, f"--git-dir={git_dir}", "commit-tree", "-S", *words),
            more={**by.environment(), **dates, **terminal},
            folder=Path("/"),  # the program that signs may obey files of the folder that it starts in
            seconds=LONG_SECONDS if asks else PATIENCE_SECONDS,
        )

    def configured(self, settings: Mapping[str, str]) -> dict[str, str]:
        """The environment that gives settings to every git that a program starts, after the user's own."""
        there = self.environment()
        first = int(there["GIT_CONFIG_COUNT"]) if there.get("GIT_CONFIG_COUNT", "").isdigit() else 0
        found = {"GIT_CONFIG_COUNT": str(first + len(settings))}
        for number, (name, value) in enumerate(settings.items(), first):
            found |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        return found

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The user's environment, without variables that select a repository or lead programs into it.

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

    def identities(self) -> Identities | None:
        """Who a commit of the user's is by, as git finds it for this folder; None where it finds no name."""
        author, committer = self._identity("AUTHOR"), self._identity("COMMITTER")
        return Identities(author, committer) if author is not None and committer is not None else None

    def _identity(self, who: str) -> Identity | None:
        done = self("var", f"GIT_{who}_IDENT")
        said = _IDENT.fullmatch(os.fsdecode(done.stdout)) if done.returncode == 0 else None
        return Identity(said["name"], said["email"]) if said is not None else None

    @property
    def home(self) -> Path:
        """The user's home."""
        if self.owner is not None:
            with contextlib.suppress(KeyError):
                return Path(pwd.getpwuid(self.owner.st_uid).pw_dir)
        return Path(os.environ.get("HOME") or "/")
