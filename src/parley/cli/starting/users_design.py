"""Reads a user's own workflow design from their repository or a named file, once, when a job begins."""

from __future__ import annotations

import argparse
import os
import stat
from pathlib import Path

from parley.base.documents.front_matter import FENCE
from parley.base.wording import count
from parley.cli import CommandError
from parley.cli.common import TEXT_LIMIT, Workplace, one_line
from parley.cli.starting.request_text import RequestText, is_given, read_request
from parley.cli.workflow.workflow_folder import covered_in, file_text, root_of, shown
from parley.workflow.design.activation import SUMMARY, Activation
from parley.workflow.files.status_file import NOT_BEGUN, read_status
from parley.workflow.files.summary import read_summary, summary_of
from parley.workflow.model.terms import FOLDER, PLAN, SHARED_STATUS, Finding

MOST_CHARACTERS = 1_000_000  # of all files together: a job's settings hold them
FORM = 'write `parley run "REQUEST" --workflow FILE`'
INIT = "`parley workflow init SUMMARY.md` begins one"


def asked_for(words: argparse.Namespace, place: Workplace) -> tuple[RequestText, Activation | None]:
    """The request, and the design that a job's plan begins from; None: the user has not asked for a workflow.

    `--workflow` may stand before the request and take it for its file: a word that can't be a path is the request.
    """
    if words.workflow and not is_given(words) and not is_path(words.workflow):
        words.request, words.workflow = words.workflow, ""
    if words.workflow is None:
        return read_request(words), None
    given = read_given(Path(words.workflow)) if words.workflow else _unspent(place)
    return read_request(words) if is_given(words) else RequestText(objective(given)), given


def _unspent(place: Workplace) -> Activation:
    """The design in the repository, unless it is the record of a workflow that was begun already."""
    text, problem = file_text(place.root / SHARED_STATUS)
    shared = read_status(text)[0] if not problem else None
    if shared is None or shared.status == NOT_BEGUN:
        return at_hand(place) or Activation()
    told = f"{FOLDER}/ holds the record of a workflow that was begun before ({one_line(shared.task_id, 60)})"
    return Activation({}, f"{told}, and the plan begins without it; `--workflow {FOLDER}` begins from it")


def is_path(word: str) -> bool:
    """Whether a word can only mean a file: it exists, or looks like a path."""
    if len(word) > 4096 or "\0" in word:  # noqa: PLR2004 - PATH_MAX
        return False
    return os.path.lexists(word) or (not any(map(str.isspace, word)) and ("/" in word or word.endswith(".md")))


def objective(given: Activation) -> str:
    """The request where the user gives none: the goal of their design."""
    if not given.files:
        why = given.source or f"there is nothing to begin from: {FOLDER}/ holds no plan and no summary"
        raise CommandError(f"{why}; say what is to be done")
    found = given.objective()
    if not found.strip():
        where = f"{given.source or FOLDER} does not state a goal"
        raise CommandError(f"{where}; write its goal, or say it: `parley workflow run {given.source} REQUEST`")
    if len(found) > TEXT_LIMIT:
        raise CommandError(
            f"the goal in {given.source} has {len(found)} characters, {TEXT_LIMIT} at most; make it shorter"
        )
    return found


# ---- what there is -------------------------------------------------------------------------------


def at_hand(place: Workplace) -> Activation | None:
    """The design that lies in the user's repository, committed or not; None where there is none."""
    folder = place.root / FOLDER
    if not os.path.lexists(folder):
        return None
    return _folder(place.root, folder) if _holds_design(folder) else None


def _holds_design(folder: Path) -> bool:
    if folder.is_symlink() or not folder.is_dir():
        return False
    return any(_names_design(path.name) for path in folder.iterdir())


def _names_design(name: str) -> bool:
    return f"{FOLDER}/{name}" == PLAN or (f"{FOLDER}/{name}".startswith(SUMMARY) and name.endswith(".md"))


def noticed(place: Workplace) -> str:
    """The kind of design in the repository, in a few words; empty where there is none."""
    folder = place.root / FOLDER
    try:
        if not _holds_design(folder):
            return ""
        names = sorted(path.name for path in folder.iterdir() if _names_design(path.name))
        text, problem = file_text(place.root / PLAN)
        files = {f"{FOLDER}/{name}": "" for name in names} | ({PLAN: text} if not problem else {})
        return one_line(Activation(files).words, 120)
    except OSError:
        return ""


def read_given(path: Path) -> Activation:
    """Read what the user names: a conversation summary, a workflow's plan, or a design's folder."""
    try:
        mode = path.lstat().st_mode
    except (OSError, ValueError) as error:
        raise CommandError(f"{shown(path)}: there is no such file or folder; {FORM}") from error
    if stat.S_ISLNK(mode):
        raise CommandError(f"{shown(path)} is a link, and links are not followed; name what it leads to")
    if stat.S_ISDIR(mode):
        root = root_of(path.resolve())
        if root is None:
            raise CommandError(f"{shown(path)}: there is no {FOLDER}/ in it; {INIT}, or name another folder")
        return _folder(root, path)
    if not stat.S_ISREG(mode):
        raise CommandError(
            f"{shown(path)} is no ordinary file; name a summary, a plan, or a folder that holds {FOLDER}/"
        )
    return _file(path)


def _file(path: Path) -> Activation:
    text, problem = file_text(path)
    if problem:
        raise CommandError(f"{shown(path)}: {problem}; name a conversation summary or a plan, as UTF-8 text")
    whole = path.resolve()
    if path.name == Path(PLAN).name or text.removeprefix("\ufeff").startswith(f"{FENCE}\n"):
        if whole.parent.name == FOLDER and whole.name == Path(PLAN).name:
            return _folder(whole.parent.parent, path)  # its instructions and drafts belong to it
        return _bounded(Activation({PLAN: text}, shown(path)))
    summary, findings = read_summary(text, shown(path))
    if summary is None:
        raise _wrong(findings)
    return _bounded(Activation({summary_of(summary.task): text}, shown(path)))


def _folder(root: Path, named: Path) -> Activation:
    """The design below a folder's orchestration/: its plan, instructions, role drafts and summaries."""
    files, findings = covered_in(root)
    if findings:
        raise _wrong(findings)
    given = Activation(files, shown(named))
    if not given.has_plan and not given.summaries:
        raise CommandError(f"{shown(root / FOLDER)} holds neither a plan nor a conversation summary; {INIT}")
    if not given.has_plan:
        wrong = [finding for path in given.summaries for finding in read_summary(files[path], path)[1]]
        if wrong:
            raise _wrong(wrong)
    return _bounded(given)


def _wrong(findings: list[Finding]) -> CommandError:
    more = f" (and {count(len(findings) - 1, 'more finding')}: `parley workflow check`)" if findings[1:] else ""
    return CommandError(f"{one_line(str(findings[0]), 600)}{more}")


def _bounded(given: Activation) -> Activation:
    size = sum(map(len, given.files.values()))
    if size > MOST_CHARACTERS:
        raise CommandError(
            f"{given.source} has {size} characters, {MOST_CHARACTERS} at most; leave out what is no design"
        )
    return given
