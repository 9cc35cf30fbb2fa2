"""The versions of an artifact that were put before the human: found by their digests, shown and compared.

The job's repository holds what was asserted, even if the file has changed since. It is an agent's text: the caller
escapes it before it is printed.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path

from parley.protocol.gates import companion_of, own_digest
from parley.workspaces.files.tree_entry import TreeEntry
from parley.workspaces.job_repository import ARTIFACTS, ORCHESTRATION, START, STAT, JobRepository
from parley.workspaces.safe_git import BUSY_SECONDS, GitTooLong

WORK = ARTIFACTS[-1]  # stands for the whole tree
ASKED = "asked"  # the folder of a job with the artifacts that were asserted
TEXT_BYTES = 1 << 20  # of a text that is shown
FILE_BYTES = 16 << 20  # of a file that is compared
_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
_OBJECT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def shown(repository: JobRepository, artifact: str, digest: str) -> str | None:
    """The text of an artifact with this digest; None if it is not kept."""
    blob = _blob(repository, artifact, digest)
    return _bounded(repository, "cat-file", "blob", blob) if blob else None


def put_out(repository: JobRepository, question: str, artifact: str, digest: str) -> Path | None:
    """Write an artifact as it was asserted to a file, for people to open; None if it is not kept.

    The file lies where no agent can write, and does not change while the asker goes on with its own.
    """
    if artifact not in ARTIFACTS:
        return None
    place = repository.folder / ASKED / question / artifact
    if not place.is_file():
        blob = _blob(repository, artifact, digest)
        if not blob:
            return None
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.with_name(f".{artifact}.{os.getpid()}")
        with draft.open("wb") as file, repository.git.contents() as contents:
            contents.copy(blob, file.write)
        draft.chmod(0o444)
        draft.replace(place)
    return place


def since(repository: JobRepository, artifact: str, before: str, after: str, *, stat: bool = False) -> str | None:
    """The diff from one version of an artifact to another; None if one of them is not kept.

    For WORK_SUMMARY.md of the whole tree; without an earlier version, since the job's start.
    """
    if artifact == WORK:
        first = before or repository.ref(START)
        if not (_is_object(repository, first) and _is_object(repository, after)):
            return None
        how = STAT if stat else ("--patch",)
        return _bounded(repository, "diff-tree", "-r", *how, *_DIFF, first, after)
    old, new = (_blob(repository, artifact, digest) for digest in (before, after))
    if not old or not new:
        return None
    text = _bounded(repository, "diff", *(STAT if stat else ()), *_DIFF, old, new)
    head, mark, rest = text.partition("\n@@ ")
    found = f"@@ {rest}" if mark else "" if not head else "it is no text"
    if companion_of(before) != companion_of(after):
        found = f"{found.rstrip()}\nWhat it brings along in {ORCHESTRATION}/ has changed: read it there.\n".lstrip()
    return found


def _is_object(repository: JobRepository, name: str) -> bool:
    return repository.exists and bool(_OBJECT.fullmatch(name)) and repository.has(f"{name}^{{tree}}")


def _blob(repository: JobRepository, artifact: str, digest: str) -> str:
    """The blob of an artifact's version."""
    digest = own_digest(digest)  # a plan may have a design with it
    if not repository.exists or artifact not in ARTIFACTS or not _OBJECT.fullmatch(digest):
        return ""
    if artifact == WORK:
        tree = digest if repository.has(f"{digest}^{{tree}}") else ""
        return repository.entries(tree, [artifact]).get(artifact, TreeEntry()).name if tree else ""
    words = ("log", "--all", "-m", "--format=", "--raw", "--no-abbrev", "--no-renames", "--not", START, "--", artifact)
    found = (line.split()[3] for line in os.fsdecode(repository.git(*words)).splitlines() if line.startswith(":"))
    for blob in dict.fromkeys(found):
        small = set(blob) != {"0"} and repository.git.size(blob) <= FILE_BYTES
        if small and hashlib.sha256(repository.blob(blob)).hexdigest() == digest:
            return blob
    return ""


def _bounded(repository: JobRepository, *words: str) -> str:
    """The beginning of what git prints, at most TEXT_BYTES."""
    with tempfile.TemporaryFile(dir=repository.folder) as file:
        try:
            repository.git.run(*words, stdout=file, busy_seconds=BUSY_SECONDS)
        except GitTooLong:
            return "git would take too long to compare them"
        size = os.fstat(file.fileno()).st_size
        file.seek(0)
        text = file.read(TEXT_BYTES).decode("utf-8", "replace")
    return text if size <= TEXT_BYTES else f"{text}…\n({size} bytes in all)"
