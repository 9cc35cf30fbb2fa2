"""Pushes a job's branch by the user's own git: with their settings and credentials, to a remote of theirs.

No hook runs, and no command that lies in the checkout: it may be an agent's.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import islice

from parley.base.wording import advice
from parley.ports.workspaces import WorkspaceError
from parley.workspaces.checkout.source_repository import SourceRepository
from parley.workspaces.checkout.users_git_settings import UsersGitSettings
from parley.workspaces.delivery import result_branch
from parley.workspaces.job_repository import JobRepository
from parley.workspaces.safe_git import last_line, program

_URL = re.compile(r"https?://[^\s\"'<>]+")
_REQUEST = re.compile(r"pull|merge_request|compare")
_PASSWORD = re.compile(r"(?<=://)[^/@\s]+@")
_BEHIND = ("non-fast-forward", "fetch first", "stale info", "needs force")
_SHOWN = 3  # of a remote's own lines


class PushRefused(WorkspaceError):
    """The branch was not pushed; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """What came of a push."""

    commit: str = ""
    before: bool = False  # the remote had it already
    url: str = ""  # where the remote says that a pull request can be opened
    remarks: tuple[str, ...] = ()


class BranchPush:
    """A push of a job's result, planned before anything is changed."""

    def __init__(self, repository: JobRepository, source: SourceRepository, remote: str | None = None) -> None:
        self._repository = repository
        self._source = source
        self.settings = UsersGitSettings(source)
        self.branch = result_branch.name_of(repository, source)
        self.remote = self._chosen(remote)

    def _chosen(self, given: str | None) -> str:
        """The remote that git would push the branch to, or the one that was given."""
        known = self.settings.remotes()
        if given is not None:
            if given not in known:
                raise PushRefused(f"there is no remote {given!r}; {advice(given, known) if known else _NONE}")
            return given
        if not known:
            raise PushRefused(f"{self._source.root} has no remote; {_NONE}")
        keys = (f"branch.{self.branch}.pushremote", "remote.pushdefault", f"branch.{self.branch}.remote")
        named = (name for name in map(self.settings.get, keys) if name in known)
        usual = known[0] if len(known) == 1 else "origin" if "origin" in known else ""
        found = next(named, usual)
        if not found:
            raise PushRefused(f"there are several remotes ({', '.join(known)}); name one with --remote")
        return found

    # ---- where a pull request goes -------------------------------------------------------------

    @property
    def base_remote(self) -> str:
        """The remote of the repository that a pull request goes to, as `gh` finds it: another one, for a fork."""
        known = self.settings.remotes()
        chosen = [name for name in known if self.settings.get(f"remote.{name}.gh-resolved") == "base"]
        usual = [name for name in ("upstream", "github", "origin") if name in known]
        return (chosen or usual or [self.remote])[0]

    @property
    def head(self) -> str:
        """The branch as `gh` names it: with its owner, where it lies in a fork."""
        url = self.settings.get(f"remote.{self.remote}.pushurl") or self.settings.get(f"remote.{self.remote}.url")
        owner = re.search(r"[:/]([^/:]+)/[^/]+?/?$", url)
        return f"{owner[1]}:{self.branch}" if owner and self.base_remote != self.remote else self.branch

    def base(self) -> str:
        """The branch that a pull request goes into: the one that the job started from, or the remote's usual one.

        Empty where neither is known here; then the forge takes its own.
        """
        remote, onto = self.base_remote, self._repository.beginning.onto
        if onto and self._source.ref(f"refs/remotes/{remote}/{onto}"):
            return onto
        done = self._source.git.run("symbolic-ref", "--quiet", f"refs/remotes/{remote}/HEAD", fine=(0, 1, 128))
        return os.fsdecode(done.stdout).strip().removeprefix(f"refs/remotes/{remote}/")

    def is_in(self, base: str) -> bool:
        """Whether the base has the branch, as far as is known here."""
        there = self._source.ref(f"refs/remotes/{self.base_remote}/{base}") if base else ""
        mine = self._source.ref(f"refs/heads/{self.branch}")
        return bool(there and mine) and self._source.is_ancestor(mine, there)

    def about(self, base: str) -> list[str]:
        """What the user has to know of a base that they did not name: it is not what the job started from."""
        onto = self._repository.beginning.onto
        if onto and onto == base:
            return []
        why = f"{self.base_remote} has no {onto}, which the job started from" if onto else "the job started detached"
        return [f"{why}: the pull request goes into {base or 'the usual branch'}; --base names another"]

    # ---- pushing -------------------------------------------------------------------------------

    def run(self) -> Pushed:
        """Push the branch, also where the user has changed it. PushRefused with the reason."""
        remarks, commit = [], self._source.ref(f"refs/heads/{self.branch}")
        if commit != self._repository.ref(result_branch.DELIVERED):
            remarks.append(f"you have changed {self.branch} since the job was done: it is pushed as it is")
        if led := self.settings.leading_in():
            raise PushRefused(
                f"your git would run what lies in this checkout ({led[0]}), and that may be an agent's; "
                f"look at it, then push by hand: {self.command}"
            )
        if os.access(self.settings.hooks_folder / "pre-push", os.X_OK):
            remarks.append(f"Parley's push runs no hooks: your pre-push did not run; to run it: {self.command}")
        ref = f"refs/heads/{self.branch}"
        words = (
            "push",
            "--porcelain",
            "--no-recurse-submodules",
            "--no-follow-tags",
            "--",
            self.remote,
            f"{ref}:{ref}",
        )
        git = self.settings.git
        done = git.in_foreground(program(git.path), *git.flags, *words)
        report = done.stdout.decode("utf-8", "replace")
        said = [_PASSWORD.sub("", line.strip()) for line in done.stderr.decode("utf-8", "replace").splitlines()]
        told = [line.removeprefix("remote:").strip() for line in said if line.startswith("remote:")]
        if done.returncode:
            raise PushRefused(self._refusal(report, told, last_line(done)))
        before = any(line.startswith("=\t") for line in report.splitlines())
        return Pushed(commit, before=before, url=_url(told), remarks=tuple(remarks))

    @property
    def command(self) -> str:
        """The push, as the user would type it."""
        return f"git push {self.remote} {self.branch}"

    def _refusal(self, report: str, told: list[str], last: str) -> str:
        """Why it was not pushed, in one line."""
        refused = next((line.split("\t")[-1] for line in report.splitlines() if line.startswith("!")), "")
        if not refused:
            return (
                f"{self.branch} could not be pushed to {self.remote}: {_PASSWORD.sub('', last)}; see `{self.command}`"
            )
        if any(word in refused for word in _BEHIND):
            return (
                f"{self.remote} has another {self.branch}: {refused}; look at it with "
                f"`git fetch {self.remote} {self.branch}`, then merge it or delete it there"
            )
        words = " ".join([f"{refused}:", *islice(filter(None, told), _SHOWN)]).rstrip(":")
        return f"{self.remote} rejected {self.branch}: {words}; see `{self.command}`"


_NONE = "add one with `git remote add origin URL`"


def _url(told: list[str]) -> str:
    """The address among a remote's words where a pull request can be opened."""
    found = [url.rstrip(".,;:)") for line in told for url in _URL.findall(line)]
    return next((url for url in found if _REQUEST.search(url)), "".join(found[:1]))
