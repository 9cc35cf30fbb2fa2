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
from typing import IO

from parley.protocol.gates import companion_of, own_digest
from parley.workspaces.job_repository import ARTIFACTS, ORCHESTRATION, START, STAT, JobRepository
from parley.workspaces.safe_git import ABSENT, BUSY_SECONDS, GitTooLong

WORK = ARTIFACTS[-1]  # stands for the whole tree
ASKED = "asked"  # the folder of a job with the artifacts that were asserted
TEXT_BYTES = 1 << 20  # of a text that is shown
FILE_BYTES = 16 << 20  # of a file that is compared
_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
_OBJECT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def shown(repository: JobRepository, question: str, artifact: str, digest: str) -> str | None:
    """The text of an artifact as a question asserts it; None if it is not kept."""
    place = put_out(repository, question, artifact, digest)
    if place is None:
        return None
    with place.open("rb") as file:
        return _beginning(file)


def put_out(repository: JobRepository, question: str, artifact: str, digest: str) -> Path | None:
    """Write an artifact as it was asserted to a file, for people to open; None if it is not kept.

    The file lies where no agent can write, and does not change while the asker goes on with its own. It is checked
    each time, without git: an inbox has many.
    """
    if artifact not in ARTIFACTS or not repository.exists:
        return None
    digest = own_digest(digest)  # a plan may have a design with it
    place = repository.folder / ASKED / question / artifact
    if not _is_intact(repository, place, artifact, digest):
        blob = _blobs(repository, artifact, digest).get(digest, "")
        if not blob:
            return None
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.with_name(f".{artifact}.{os.getpid()}")
        with draft.open("wb") as file, repository.git.contents() as contents:
            contents.copy(blob, file.write)
        draft.chmod(0o444)
        draft.replace(place)
    return place


def _is_intact(repository: JobRepository, place: Path, artifact: str, digest: str) -> bool:
    """Whether a file holds what was asserted."""
    try:
        data = place.read_bytes()
    except OSError:
        return False
    if artifact != WORK:
        return hashlib.sha256(data).hexdigest() == digest
    tree = repository.objects.read(digest, FILE_BYTES) if _OBJECT.fullmatch(digest) else None
    name = bytes.fromhex(repository.objects.name("blob", data))
    return tree is not None and b" %b\0%b" % (artifact.encode(), name) in tree


def since(repository: JobRepository, artifact: str, before: str, after: str, *, stat: bool = False) -> str | None:
    """The diff from one version of an artifact to another; None if one of them is not kept.

    For WORK_SUMMARY.md of the whole tree; without an earlier version, since the job's start.
    """
    if artifact == WORK:
        first = before or repository.ref(START)
        if not (repository.exists and all(map(_OBJECT.fullmatch, (first, after)))):
            return None
        how = STAT if stat else ("--patch",)
        return _bounded(repository, "diff-tree", "-r", *how, *_DIFF, first, after)
    old, new = own_digest(before), own_digest(after)
    found = _blobs(repository, artifact, old, new)
    if not (old in found and new in found):
        return None
    text = _bounded(repository, "diff", *(STAT if stat else ()), *_DIFF, found[old], found[new])
    if text is None:
        return None
    head, mark, rest = text.partition("\n@@ ")
    shown = f"@@ {rest}" if mark else "" if not head else "it is no text"
    if companion_of(before) != companion_of(after):
        shown = f"{shown.rstrip()}\nWhat it brings along in {ORCHESTRATION}/ has changed: read it there.\n".lstrip()
    return shown


def _blobs(repository: JobRepository, artifact: str, *digests: str) -> dict[str, str]:
    """The blob of each version of an artifact that is kept, by the digest."""
    if not repository.exists or artifact not in ARTIFACTS or not all(map(_OBJECT.fullmatch, digests)):
        return {}
    if artifact == WORK:
        there = {tree: repository.entries(tree, [artifact]) for tree in digests if repository.has(f"{tree}^{{tree}}")}
        return {tree: entries[artifact].name for tree, entries in there.items() if artifact in entries}
    words = ("log", "--all", "-m", "--format=", "--raw", "--no-abbrev", "--no-renames", "--not", START, "--", artifact)
    lines = (line for line in os.fsdecode(repository.git(*words)).splitlines() if line.startswith(":"))
    found: dict[str, str] = {}
    with repository.git.contents() as contents:
        for blob in dict.fromkeys(line.split()[3] for line in lines):
            if set(blob) != {"0"} and contents.size(blob) <= FILE_BYTES:
                digest = hashlib.sha256(contents.whole(blob)).hexdigest()
                if digest in digests:
                    found[digest] = blob
            if len(found) == len(set(digests)):
                break
    return found


def _bounded(repository: JobRepository, *words: str) -> str | None:
    """The beginning of what git prints, at most TEXT_BYTES; None where an object is missing."""
    with tempfile.TemporaryFile(dir=repository.folder) as file:
        try:
            done = repository.git.run(*words, stdout=file, fine=(0, ABSENT), busy_seconds=BUSY_SECONDS)
        except GitTooLong:
            return "git would take too long to compare them"
        file.seek(0)
        return _beginning(file) if done.returncode == 0 else None


def _beginning(file: IO[bytes]) -> str:
    """The beginning of a text, at most TEXT_BYTES; the size of all of it where that is more."""
    size = os.fstat(file.fileno()).st_size
    text = file.read(TEXT_BYTES).decode("utf-8", "replace")
    return text if size <= TEXT_BYTES else f"{text}…\n({size} bytes in all)"
