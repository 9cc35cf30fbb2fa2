"""Opens a pull request for a pushed branch, by the user's own `gh`.

The title is an argument and the body a file. `gh` asks git about the checkout: that git runs no hook, no monitor, and
no command that may lie in it.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from parley.workspaces.checkout.users_git import QUIET
from parley.workspaces.checkout.users_git_settings import UsersGitSettings
from parley.workspaces.delivery.file_placement import give
from parley.workspaces.safe_git import last_line

NOT_LOGGED_IN = 4  # the exit code of gh
_URL = re.compile(r"https?://\S+")
_ASKED = {"GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1"}


@dataclass(frozen=True, slots=True)
class PullRequestDraft:
    """A pull request that is to be opened."""

    head: str
    base: str  # empty: the forge's own choice
    title: str
    body: str
    draft: bool = False

    def words(self, body_file: str) -> list[str]:
        """The command that opens it."""
        base = ["--base", self.base] if self.base else []
        more = ["--draft"] if self.draft else []
        return [
            "gh",
            "pr",
            "create",
            "--head",
            self.head,
            *base,
            "--title",
            self.title,
            "--body-file",
            body_file,
            *more,
        ]


@dataclass(frozen=True, slots=True)
class OpenedPullRequest:
    """What came of it."""

    url: str = ""
    before: bool = False  # it was open already
    why: str = ""  # why there is none, and what to do
    failed: bool = False  # gh tried, and could not
    elsewhere: bool = False  # the remote is no GitHub


def open_pull_request(settings: UsersGitSettings, draft: PullRequestDraft) -> OpenedPullRequest:
    """Open it, or say why that can't be done here."""
    gh = shutil.which("gh", path=settings.git.path)
    if gh is None:
        return OpenedPullRequest(why="gh is not installed")
    with tempfile.TemporaryDirectory(prefix="parley-") as folder:
        body = Path(folder) / "body.md"
        body.write_text(draft.body, encoding="utf-8")
        owner = settings.git.owner
        give(Path(folder), (owner.st_uid, owner.st_gid) if owner else None)
        more = {**_ASKED, **settings.git.configured({**QUIET, **settings.barred(), **_unfiltered(settings)})}
        done = settings.git.in_foreground(gh, *draft.words(str(body))[1:], more=more)
    said = done.stderr.decode("utf-8", "replace")
    if done.returncode == 0:
        found = _URL.findall(done.stdout.decode("utf-8", "replace"))
        return OpenedPullRequest(url="".join(found[-1:]))
    if "already exists" in said and (there := _URL.search(said)):
        return OpenedPullRequest(url=there[0], before=True)
    if done.returncode == NOT_LOGGED_IN:
        return OpenedPullRequest(why="gh is not logged in; log in with `gh auth login`")
    if "known GitHub host" in said:
        return OpenedPullRequest(why="gh knows no GitHub behind this repository's remotes", elsewhere=True)
    return OpenedPullRequest(why=f"gh could not open it: {last_line(done)}", failed=True)


def _unfiltered(settings: UsersGitSettings) -> dict[str, str]:
    """Settings that switch off the filters whose programs may lie in the checkout."""
    found: dict[str, str] = {}
    for name, one in settings.filters().items():
        if one.refused:
            found |= {f"filter.{name}.{kind}": "" for kind in one.refused} | {f"filter.{name}.required": "false"}
    return found
