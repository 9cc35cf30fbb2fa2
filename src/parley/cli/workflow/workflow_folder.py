"""Finds and reads a workflow's folder without following links, and begins one without overwriting files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from parley.base.text import printable
from parley.cli import FAILED, CommandError
from parley.workflow.design.binding import is_covered
from parley.workflow.design.instructions import is_helper
from parley.workflow.files.beginning import WorkflowFiles
from parley.workflow.files.status_file import NOT_BEGUN, read_status, render_status
from parley.workflow.files.structure import is_output
from parley.workflow.model.terms import FOLDER, SHARED_STATUS, Finding

MOST_BYTES = 1_000_000  # of one file
MOST_FILES = 20_000
DEEPEST = 32


def root_of(folder: Path) -> Path | None:
    """The tree's root, given itself or its orchestration/; None: no workflow here. Links do not count."""
    for root in (folder, folder.parent) if folder.name == FOLDER else (folder,):
        if (root / FOLDER).is_dir() and not (root / FOLDER).is_symlink():
            return root
    return None


def shown(path: Path) -> str:
    """A path for people: relative where it lies below the current folder."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def read_tree(root: Path) -> tuple[dict[str, str], list[Finding]]:
    """Every file below orchestration/ by its path, and findings for unreadable ones. Outputs are not read."""
    files: dict[str, str] = {}
    findings: list[Finding] = []
    for number, (path, mode) in enumerate(_below(root, FOLDER, 0)):
        if number >= MOST_FILES:
            findings.append(_unread(FOLDER, f"there are more than {MOST_FILES} files", "remove what is not needed"))
            break
        if stat.S_ISLNK(mode):
            findings.append(_unread(path, "it is a link, and links are not followed", "put the file itself here"))
        elif not stat.S_ISREG(mode):
            findings.append(_unread(path, "it is no ordinary file", "remove it"))
        elif is_output(path):
            files[path] = ""
        else:
            text, problem = file_text(root / path)
            if problem:
                findings.append(_unread(path, problem, "correct it, or remove the file"))
            else:
                files[path] = text
    return files, findings


def covered_in(root: Path) -> tuple[dict[str, str], list[Finding]]:
    """The files of a design below orchestration/, and findings for unreadable ones.

    The instructions of helpers are not the user's: the engine writes them.
    """
    files: dict[str, str] = {}
    findings: list[Finding] = []
    for number, (path, mode) in enumerate(_below(root, FOLDER, 0)):
        if number >= MOST_FILES:
            findings.append(_unread(FOLDER, f"there are more than {MOST_FILES} files", "remove what is not needed"))
            break
        if not is_covered(path) or (path.endswith("/agent_instructions.md") and is_helper(path.split("/")[2])):
            continue
        if stat.S_ISLNK(mode):
            findings.append(_unread(path, "it is a link, and links are not followed", "put the file itself here"))
            continue
        text, problem = file_text(root / path) if stat.S_ISREG(mode) else ("", "it is no ordinary file")
        if problem:
            findings.append(_unread(path, problem, "correct it, or remove the file"))
        else:
            files[path] = text
    return files, findings


def _unread(path: str, text: str, remedy: str) -> Finding:
    return Finding(file=printable(path), line=0, agent="", rule="unreadable", text=text, remedy=remedy)


def _below(root: Path, folder: str, depth: int) -> Iterator[tuple[str, int]]:
    try:
        with os.scandir(root / folder) as entries:
            inside = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        yield folder, 0
        return
    for entry in inside:
        path = f"{folder}/{entry.name}"
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError:
            continue  # deleted meanwhile
        if stat.S_ISDIR(mode) and depth < DEEPEST:
            yield from _below(root, path, depth + 1)
        else:
            yield path, mode


def file_text(path: Path) -> tuple[str, str]:
    """A file's text, or why there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        return "", f"it can't be read ({error.strerror})"
    with os.fdopen(handle, "rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        return "", f"it is larger than {MOST_BYTES} bytes"
    try:
        return data.decode("utf-8"), ""
    except UnicodeDecodeError as error:
        return "", f"it is not UTF-8 (byte {error.start})"


def summary_text(path: Path) -> str:
    """The text of the summary that a workflow is made from."""
    text, problem = file_text(path)
    if problem:
        raise CommandError(f"{path}: {problem}; name a conversation summary, as docs/workflow-files.md has it")
    return text


def make(root: Path, beginning: WorkflowFiles) -> tuple[list[str], list[str]]:
    """Make the missing files, all or none; returns the paths that were made, and those that existed and are kept.

    A status file of a workflow that has not begun is made anew from the plan.
    """
    missing = {path: text for path, text in beginning.files.items() if not os.path.lexists(root / path)}
    kept = sorted(beginning.files.keys() - missing.keys())
    made: list[Path] = []
    try:
        for folder in (*beginning.folders, *(str(Path(path).parent) for path in missing)):
            _make_folder(root, folder, made)
        for path, text in missing.items():
            with (root / path).open("x", encoding="utf-8") as file:
                made.append(root / path)
                file.write(text)
        if SHARED_STATUS in kept and _not_begun(root / SHARED_STATUS, beginning.files[SHARED_STATUS]):
            fresh = root / f"{SHARED_STATUS}.new"
            with fresh.open("x", encoding="utf-8") as file:
                made.append(fresh)
                file.write(beginning.files[SHARED_STATUS])
            fresh.replace(root / SHARED_STATUS)
            kept.remove(SHARED_STATUS)
            missing[SHARED_STATUS] = ""
    except (OSError, UnicodeError) as error:
        for path_made in reversed(made):
            path_made.rmdir() if path_made.is_dir() else path_made.unlink(missing_ok=True)
        raise CommandError(f"{root}: {error}; make it writable, or name another --dir", FAILED) from error
    return sorted(missing), kept


def _not_begun(path: Path, fresh: str) -> bool:
    """Whether a status file differs from a fresh one only in what the plan says: nothing has happened yet."""
    text, problem = file_text(path)
    shared = read_status(text)[0] if not problem and text != fresh else None
    if shared is None or shared.status != NOT_BEGUN or shared.session_start is not None:
        return False
    return render_status(shared) == text and all(entry.last_update is None for entry in shared.agents.values())


def _make_folder(root: Path, folder: str, made: list[Path]) -> None:
    here = root
    for part in Path(folder).parts:
        here /= part
        if here.is_symlink() or (here.exists() and not here.is_dir()):
            raise NotADirectoryError(20, "it is no folder", str(here))
        if not here.exists():
            here.mkdir()
            made.append(here)
