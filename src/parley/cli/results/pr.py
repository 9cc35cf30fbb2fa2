"""`parley pr`: pushes a job's branch, and opens a pull request for it."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from parley.base.text import cut, printable, safe_lines
from parley.cli import FAILED, OK, CommandError
from parley.cli.common import Workplace, one_line, place_of, print_json
from parley.cli.looking.audit_command import unsound
from parley.cli.open_bus import find_job, known_secrets, open_bus
from parley.cli.results.merge_command import REMEDIES
from parley.cli.shared_home import workspaces
from parley.cli.user_homes import own_folders
from parley.workspaces import JobWorkspaces
from parley.workspaces.checkout.source_repository import SourceRepository
from parley.workspaces.delivery import result_branch
from parley.workspaces.delivery.commit_message import CommitMessage
from parley.workspaces.delivery.pull_request import OpenedPullRequest, PullRequestDraft, open_pull_request
from parley.workspaces.delivery.push_branch import BranchPush, Pushed, PushRefused
from parley.workspaces.delivery.result_branch import ResultBranch
from parley.workspaces.job_repository import ARTIFACTS

TITLE_LENGTH = 250  # characters; GitHub takes no more than 256
BODY_LENGTH = 60_000  # characters; GitHub takes no more than 65,536
INTENT_LENGTH = 4000  # characters of INTENT.md, where there is no summary
ARTIFACT_BYTES = 1_000_000
BODY = "pull_request.md"  # in the job's folder, where the user has to open it


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request on its way: what is pushed where, and what comes of it."""

    job: str
    commit: str
    push: BranchPush
    draft: PullRequestDraft
    pushed: Pushed | None = None  # None: it would be
    opened: OpenedPullRequest = field(default_factory=OpenedPullRequest)
    command: str = ""  # what the user can type to open it
    remarks: tuple[str, ...] = ()


def run(words: argparse.Namespace) -> int:
    """Push it and open it, or say what to do."""
    place = place_of(words.repo)
    with open_bus(place) as store:
        row = find_job(store.jobs(), words.job)
    if row.state != "DONE":
        remedy = REMEDIES.get(row.state, "it is not done yet; see its state with `parley show {job}`")
        raise CommandError(f"{row.job} has no pull request: {remedy.format(job=row.job)}")
    with open_bus(place, unredacted=True) as store:
        why = unsound(store, place, row.job)
    if why:
        raise CommandError(why, FAILED)
    redact = known_secrets(place).redact
    trees = workspaces(place.home, place.root, private=own_folders(), redact=redact)
    source = _source(trees, place, row.job)
    try:
        planned = _plan(trees, source, row.job, words)
        found = planned if words.dry_run else _carry_out(planned, words, place)
    except PushRefused as refused:
        raise CommandError(f"{row.job}: {refused}", FAILED) from refused
    if words.json:
        print_json(_document(found))
    else:
        _print(found)
    return FAILED if found.opened.failed else OK


def _source(trees: JobWorkspaces, place: Workplace, job: str) -> SourceRepository:
    """The user's repository. CommandError where the job has nothing to push from it."""
    repository = trees.repository(job)
    if not repository.exists:
        raise CommandError(f"{job} has no files to push: `parley gc` has deleted them; run another job", FAILED)
    source = result_branch.source_of(repository, place.root)
    if source is None:
        raise CommandError(f"{job} started in a folder without a repository; take its files with `parley merge {job}`")
    if not trees.changes(job):
        raise CommandError(f"{job} has changed no files: there is nothing to push")
    return source


def _plan(trees: JobWorkspaces, source: SourceRepository, job: str, words: argparse.Namespace) -> PullRequest:
    """What would be pushed, and the pull request. Without `--dry-run` the branch is made, if it is not there."""
    repository, redact = trees.repository(job), trees.redact
    found = ResultBranch("", "") if words.dry_run else trees.deliver(job, signs=True)
    if found is None or found.taken:
        raise CommandError(
            f"{job} is merged, and its branch is deleted; push what you have checked out with `git push`"
        )
    push = BranchPush(repository, source, words.remote)
    if push.settings.git.identities() is None:
        raise CommandError('git does not know who you are; tell it with `git config user.name "…"` and user.email')
    title = printable(" ".join(redact(words.title).split())) if words.title is not None else ""
    if words.title is not None and not title:
        raise CommandError("--title: a pull request needs one; leave it out to take the commit's")
    if words.base is not None and not words.base.strip("- "):
        raise CommandError(f"--base {words.base}: this is no branch")
    draft = PullRequestDraft(
        head=push.head,
        base=words.base or push.base(),
        title=cut(title or CommitMessage(repository, redact).subject, TITLE_LENGTH),
        body=_body(trees, job),
        draft=words.draft,
    )
    commit = found.commit or repository.ref(result_branch.DELIVERED)
    if push.is_in(draft.base):
        raise CommandError(
            f"{push.base_remote}/{draft.base} has all of {push.branch} already: no pull request is needed"
        )
    return PullRequest(job, commit, push, draft, remarks=() if words.base else tuple(push.about(draft.base)))


def _body(trees: JobWorkspaces, job: str) -> str:
    """The summary, or the beginning of the intent: an agent's text, without secrets and control characters."""
    tree = trees.committed(job, f"job:{job}")
    intent, _, summary = ARTIFACTS
    for artifact, most in ((summary, BODY_LENGTH), (intent, INTENT_LENGTH)):
        text = (trees.read_committed(job, tree, artifact, ARTIFACT_BYTES) or "").strip() if tree else ""
        if text:
            return f"{cut(safe_lines(trees.redact(text)), most)}\n"
    return f"Parley job {job}\n"


def _carry_out(planned: PullRequest, words: argparse.Namespace, place: Workplace) -> PullRequest:
    push, draft = planned.push, planned.draft
    if not words.json:
        print(f"parley: pushing {push.branch} to {push.remote}", file=sys.stderr, flush=True)
    pushed = push.run()
    opened = open_pull_request(push.settings, draft)
    told = not opened.url and not opened.elsewhere
    command = shlex.join(draft.words(str(_kept_body(place, planned)))) if told else ""
    return replace(
        planned,
        commit=pushed.commit,
        pushed=pushed,
        opened=opened,
        command=command,
        remarks=(*planned.remarks, *pushed.remarks),
    )


def _kept_body(place: Workplace, planned: PullRequest) -> Path:
    """A file with the body, for the user to open the pull request with."""
    path = place.home / "jobs" / planned.job / BODY
    path.unlink(missing_ok=True)
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write(planned.draft.body)
    return path


def _print(found: PullRequest) -> None:
    push, draft = found.push, found.draft
    kind = "draft pull request" if draft.draft else "pull request"
    into = f" into {draft.base}" if draft.base else ""
    for remark in found.remarks:
        print(f"parley: {printable(remark)}", file=sys.stderr)
    if found.pushed is None:
        print(f"{push.branch} would be pushed to {push.remote}")
        print(f"a {kind}{into} would be opened: {draft.title}")
        for line in draft.body.splitlines():
            print(f"  > {line}".rstrip())
        return
    print(f"{push.branch} {'was already' if found.pushed.before else 'is'} pushed to {push.remote}")
    if found.opened.url:
        state = "was open already" if found.opened.before else f"is open{into}"
        print(f"the {kind} {state}: {one_line(found.opened.url, 300)}")
        return
    print(f"no pull request was opened: {one_line(found.opened.why, 300)}")
    if found.pushed.url:
        print(f"open it in a browser: {one_line(found.pushed.url, 300)}")
    if found.command:
        print(f"{'or' if found.pushed.url else 'open it'} with gh: {found.command}")


def _document(found: PullRequest) -> dict[str, Any]:
    push, draft, pushed = found.push, found.draft, found.pushed or Pushed()
    return {
        "id": found.job,
        "branch": push.branch,
        "commit": found.commit,
        "remote": push.remote,
        "head": draft.head,
        "base": draft.base or None,
        "title": draft.title,
        "body": draft.body,
        "draft": draft.draft,
        "dry_run": found.pushed is None,
        "pushed": found.pushed is not None,
        "opened": bool(found.opened.url) and not found.opened.before,
        "url": found.opened.url or None,
        "before": found.opened.before,
        "why": found.opened.why or None,
        "browser": pushed.url or None,
        "command": found.command or None,
        "remarks": list(found.remarks),
    }
