"""The git remote that carries places: pushes with compare-and-set, fetches, listings and deletions.

The user names it in their own settings, and nothing else does: no remote of a repository is ever used. Git runs as
everywhere in Parley, without any settings, hook, filter or helper of the user's; only the one protocol of the remote's
address is allowed. A remote that is a path on this machine runs no hook either.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from parley.base.text import cut, lenient, printable
from parley.hosts.mirror.mirror_errors import MirrorError, PlaceRefused, PushLost, RemoteTrouble
from parley.machine.programs import search_path
from parley.ports.workspaces import WorkspaceError
from parley.settings.option_words import git_remote_scheme, no_git_remote
from parley.workspaces.safe_git import SETTINGS, Git, GitTooLong, JobGivenUp, program

PATIENCE_SECONDS = 600.0  # for one push or fetch
QUICK_SECONDS = 20.0  # for a listing
STALL_SECONDS = 10.0  # that a push or fetch goes on before the remote is asked, by another connection, if it is there
BUSY_SECONDS = 1800  # of a processor, for unpacking what a host has pushed
TRIES = 3  # of a push that another turn's push may have crossed
PUSHES_A_TIDYING = 50  # by one process, after which a remote that is a path is tidied
LINE = 300  # characters of what git says
_SSH = (
    "ssh -oBatchMode=yes -oConnectTimeout=20 -oServerAliveInterval=5 -oServerAliveCountMax=4 -oPermitLocalCommand=no "
    "-oClearAllForwardings=yes"
)
# How programs reach the network, and ssh its agent. HOME is for ssh and curl alone: git is told to read nothing there.
_REACH = ("HOME", "SSH_AUTH_SOCK", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
          "SSL_CERT_FILE", "SSL_CERT_DIR")  # fmt: skip
_SETTINGS = {
    "push.default": "nothing",
    "push.followTags": "false",
    "push.gpgSign": "false",
    "push.negotiate": "false",
    "credential.helper": "",
    "transfer.bundleURI": "false",
    "fetch.unpackLimit": "1",  # what is fetched is one file, so that its size can be limited
    "core.bigFileThreshold": "32m",
    "pack.windowMemory": "256m",
    "pack.useSparse": "false",  # look at all of what the remote has: the same file may lie at another path
}
_ADVICE = ("fatal: Could not read from remote repository.", "Please make sure you have the correct access rights",
           "and the repository exists.")  # fmt: skip
_PASSWORD = re.compile(r"(?<=://)[^/@\s]+@")
_ASKED = b"unable to read askpass response"  # git would ask a person
_FULL_HERE = re.compile(rb"^(?:fatal|error): .*No space left on device", re.MULTILINE)
_FULL_THERE = re.compile(rb"^remote: .*No space left on device", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Remote:
    """The address of a git repository, as the user's own settings have it: ssh://, https:// or a path."""

    url: str
    ca: str = ""  # a file with the certificates that an https:// server's is checked by; empty: the system's

    def __post_init__(self) -> None:
        if not git_remote_scheme(self.url):
            problem, remedy = no_git_remote(self.shown)
            raise MirrorError(f"[hosts] remote: {problem}; {remedy}")

    @property
    def shown(self) -> str:
        """The address for people, without a password."""
        return printable(cut(_PASSWORD.sub("", self.url), LINE))


class _Watched:
    """Whether the remote is gone while git waits for it.

    A connection over which nothing comes any more looks alive to git for a quarter of an hour, and one with a large
    repository may be silent for long and be alive.
    """

    def __init__(self, is_there: Callable[[], bool]) -> None:
        self.gone = False
        self._is_there = is_there
        self._next = time.monotonic() + STALL_SECONDS

    def __call__(self) -> bool:
        if time.monotonic() >= self._next:
            self.gone = not self._is_there()
            self._next = time.monotonic() + STALL_SECONDS
        return self.gone


class GitRemote:
    """Git between a repository of this machine's and the remote."""

    def __init__(self, remote: Remote, seconds: float = PATIENCE_SECONDS) -> None:
        self.shown = remote.shown
        self._url = remote.url
        self._seconds = seconds
        scheme = git_remote_scheme(remote.url)
        self._settings = {**_SETTINGS, f"protocol.{scheme}.allow": "always"}
        self._more = {"GIT_ALLOW_PROTOCOL": scheme}
        if scheme == "file":
            self._settings["protocol.file.allow"] = "always"
        else:
            self._settings["core.sshCommand"] = _SSH
            if remote.ca:
                self._settings["http.sslCAInfo"] = remote.ca
            self._more |= {name: os.environ[name] for name in _REACH if name in os.environ}
        self._is_path = scheme == "file"
        self._pushes = itertools.count(1)

    # ---- what is there -------------------------------------------------------------------------

    def listed(self, git: Git, *patterns: str) -> dict[str, str]:
        """The refs of the remote that match, each with its commit."""
        words = ("ls-remote", "--quiet", "--refs", *self._serving("upload-pack"), "--", self._url, *patterns)
        done = self._run(git, *words, doing="read", seconds=QUICK_SECONDS)
        lines = (line.split("\t") for line in lenient(done.stdout).splitlines() if "\t" in line)
        return {name: commit for commit, name in lines}

    # ---- push ----------------------------------------------------------------------------------

    def push(self, git: Git, moved: tuple[str, str], hints: Mapping[str, str], before: str = "") -> None:
        """Push a commit to a ref that must name `before`, or must not exist yet.

        `hints` are refs that are moved along with it, or not at all. The remote compares and sets: PushLost where it
        has the ref with another commit. With the pushed one, an earlier push got through, and all is well.
        """
        if self._is_path and not next(self._pushes) % PUSHES_A_TIDYING:
            self._tidy(git)
        ref, commit = moved
        left = TRIES
        while (done := self._pushed(git, (ref, commit, before), hints)).returncode:
            left -= 1
            try:
                there = self.listed(git, ref).get(ref, "")
            except RemoteTrouble:
                there = before
                left = 0
            if there == commit:
                return
            if there != before:
                raise PushLost(
                    f"{self.shown} has another {ref} ({there[:12] or 'none'}): this push came later and is void", there
                )
            if not left or b"\n!\t" not in done.stdout:  # else another turn's push may have moved a hint meanwhile
                raise self._trouble(git, done, "written to")

    def _tidy(self, git: Git) -> None:
        """Have the remote keep its refs in one file, and what was pushed in a few.

        Every push reads all refs and may look into every pack: that of many jobs would cost more than that of a few. A
        git server sees to that itself.
        """
        there = Git(Path(self._url), mark=git.mark)
        with contextlib.suppress(WorkspaceError):  # it can be pushed to all the same
            there("pack-refs", "--all")
            there("repack", "--geometric=2", "-d", "-q", "--window=0")  # each time the new ones, seldom the old ones

    def _pushed(
        self, git: Git, moved: tuple[str, str, str], hints: Mapping[str, str]
    ) -> subprocess.CompletedProcess[bytes]:
        ref, commit, before = moved
        words = ("push", "--porcelain", "--atomic", "--no-verify", "--no-signed", "--no-recurse-submodules")
        what = (f"{commit}:{ref}", *(f"+{one}:{name}" for name, one in hints.items()))
        lease = f"--force-with-lease={ref}:{before}"
        return self._run(
            git, *words, lease, *self._serving("receive-pack"), "--", self._url, *what, doing="written to", fine=None
        )

    def delete(self, git: Git, refs: Iterable[str]) -> None:
        """Delete refs; those that are gone already are no trouble."""
        gone = [f":{ref}" for ref in refs]
        if gone:
            words = ("push", "--porcelain", "--no-verify", "--no-signed", *self._serving("receive-pack"))
            self._run(git, *words, "--", self._url, *gone, doing="written to")

    # ---- fetch ---------------------------------------------------------------------------------

    def fetch(self, git: Git, ref: str, to: str, most_bytes: int | None = None) -> None:
        """Fetch a ref with all that it needs and that is not here yet. `most_bytes`: a larger pack is refused."""
        words = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
        done = self._run(
            git,
            *(*words, *self._serving("upload-pack"), "--", self._url, f"+{ref}:{to}"),
            doing="read",
            fine=None,
            most_bytes=most_bytes,
        )
        if done.returncode == 0:
            return
        if most_bytes is not None and _has_grown(git, most_bytes):
            raise PlaceRefused(f"{ref} has more bytes than the job may take ([workspace] quota_mb); it is refused")
        raise self._trouble(git, done, "read")

    # ---- running git ---------------------------------------------------------------------------

    def _serving(self, command: str) -> tuple[str, ...]:
        """Where the remote is a path, git serves it from this machine: as safely as it does everything else.

        What is pushed stays one file: git waits for the disk once for a file, and a push has dozens of objects.
        """
        if not self._is_path:
            return ()
        flags = {**SETTINGS, "receive.autogc": "false", "receive.procReceiveRefs": "", "receive.unpackLimit": "1"}
        told = [word for name, value in flags.items() if value for word in ("-c", f"{name}={value}")]
        return (f"--{command}={shlex.join([program(search_path()), *told, command])}",)

    def _run(
        self,
        git: Git,
        *words: str,
        doing: str,
        fine: tuple[int, ...] | None = (0,),
        seconds: float | None = None,
        most_bytes: int | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run git with the remote. `fine`: None for any exit code."""
        reaching = git.with_settings(self._settings)
        codes = range(-64, 256) if fine is None else fine
        watched = _Watched(lambda: self._is_there(git)) if seconds is None and not self._is_path else None
        try:
            done = (reaching.until(watched) if watched is not None else reaching).run(
                *words,
                more=self._more,
                fine=range(-64, 256),
                seconds=seconds or self._seconds,
                busy_seconds=BUSY_SECONDS,
                file_bytes=most_bytes,
            )
        except GitTooLong as late:
            raise RemoteTrouble(
                f"{self.shown} could not be {doing} within {seconds or self._seconds:g} s; "
                "see that the remote answers, then the turn can be tried again"
            ) from late
        except JobGivenUp as halted:
            if watched is None or not watched.gone:
                raise
            raise RemoteTrouble(
                f"{self.shown} could not be {doing}: it answers no more; see that it is up, and the network between"
            ) from halted
        if done.returncode not in codes:
            raise self._trouble(git, done, doing)
        return done

    def _is_there(self, git: Git) -> bool:
        """Whether the remote answers on a new connection."""
        try:
            self.listed(git, "refs/parley/none")
        except RemoteTrouble:
            return False
        return True

    def _trouble(self, git: Git, done: subprocess.CompletedProcess[bytes], doing: str) -> MirrorError:
        """Whose fault it is that git failed."""
        report = lenient(done.stdout).splitlines()
        refused = next((line.split("\t")[-1] for line in report if line.startswith("!\t")), "")
        said = printable(cut(_PASSWORD.sub("", refused or _telling(done.stderr)), LINE))
        if _FULL_THERE.search(done.stderr):
            return RemoteTrouble(f"the disk of the remote {self.shown} is full; free some space there")
        if _FULL_HERE.search(done.stderr):
            return MirrorError(f"the disk of {git.folder} is full; free some space, then the turn can be tried again")
        if _ASKED in done.stderr:
            said = "it asks for a login, and ~/.netrc has none that it takes"
        return RemoteTrouble(
            f"{self.shown} could not be {doing}: {said or f'git ended with {done.returncode}'}; "
            "see that the remote is up and that you may use it ([hosts] remote in your own settings)"
        )


def _telling(errors: bytes) -> str:
    """The line of git's errors that says what is wrong: what ssh says comes before git's own, and advice after it."""
    said = [line.strip() for line in lenient(errors).splitlines() if line.strip() and line.strip() not in _ADVICE]
    own = [line for line in said if line.startswith(("fatal:", "error:", "ERROR"))]
    return (own or said or [""])[0]


def _has_grown(git: Git, most_bytes: int) -> bool:
    """Whether git was ended because what it fetched reached its limit: it says nothing then, and leaves the file."""
    return any(path.stat().st_size >= most_bytes for path in (git.folder / "objects/pack").glob("tmp_pack_*"))
