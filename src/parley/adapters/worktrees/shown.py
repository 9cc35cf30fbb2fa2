"""An artifact as it was put before the human, found by what it contained, and what has changed since another time.

What was asserted is in the job's repository, whatever has become of the file since. It is an agent's text: whoever
prints it sees to it that it is only read.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path

from parley.adapters.git import BUSY_SECONDS, TooLong
from parley.adapters.worktrees.history import ARTIFACTS, ORCHESTRATION, START, STAT, History

WORK = ARTIFACTS[-1]  # stands for the whole tree
ASKED = "asked"  # the folder of a job with what was put forward
TEXT_BYTES = 1 << 20  # of what is read to be shown
FILE_BYTES = 16 << 20  # of a file that is looked into
_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
_OBJECT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def shown(history: History, artifact: str, digest: str) -> str | None:
    """What an artifact contained when it had this digest; None if that is not kept."""
    blob = _blob(history, artifact, digest)
    return _bounded(history, "cat-file", "blob", blob) if blob else None


def put_out(history: History, question: str, artifact: str, digest: str) -> Path | None:
    """A file with what an artifact contained when it was put forward, for people to open; None if that is not kept.

    It lies where no agent can write, and stays as it is while the asker goes on with its own.
    """
    if artifact not in ARTIFACTS:
        return None
    place = history.folder / ASKED / question / artifact
    if not place.is_file():
        blob = _blob(history, artifact, digest)
        if not blob:
            return None
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.with_name(f".{artifact}.{os.getpid()}")
        with draft.open("wb") as file, history.git.contents() as contents:
            contents.copy(blob, file.write)
        draft.chmod(0o444)
        draft.replace(place)
    return place


def since(history: History, artifact: str, before: str, after: str, *, stat: bool = False) -> str | None:
    """What has changed from one version of an artifact to another; None if one of them is not kept.

    For the work that is the whole tree; without a version before, from what the job started from.
    """
    if artifact == WORK:
        first = before or history.ref(START)
        if not (_is_object(history, first) and _is_object(history, after)):
            return None
        how = STAT if stat else ("--patch",)
        return _bounded(history, "diff-tree", "-r", *how, *_DIFF, first, after)
    old, new = (_blob(history, artifact, digest) for digest in (before, after))
    if not old or not new:
        return None
    text = _bounded(history, "diff", *(STAT if stat else ()), *_DIFF, old, new)
    head, mark, rest = text.partition("\n@@ ")
    found = f"@@ {rest}" if mark else "" if not head else "it is no text"
    if before.partition("+")[2] != after.partition("+")[2]:
        found = f"{found.rstrip()}\nWhat it brings along in {ORCHESTRATION}/ has changed: read it there.\n".lstrip()
    return found


def _is_object(history: History, name: str) -> bool:
    return history.exists and bool(_OBJECT.fullmatch(name)) and history.has(f"{name}^{{tree}}")


def _blob(history: History, artifact: str, digest: str) -> str:
    """The blob of an artifact's version."""
    digest = digest.partition("+")[0]  # what follows is the digest of what the artifact brings along
    if not history.exists or artifact not in ARTIFACTS or not _OBJECT.fullmatch(digest):
        return ""
    if artifact == WORK:
        tree = digest if history.has(f"{digest}^{{tree}}") else ""
        return history.entries(tree, [artifact]).get(artifact, ("", ""))[1] if tree else ""
    words = ("log", "--all", "-m", "--format=", "--raw", "--no-abbrev", "--no-renames", "--not", START, "--", artifact)
    found = (line.split()[3] for line in os.fsdecode(history.git(*words)).splitlines() if line.startswith(":"))
    for blob in dict.fromkeys(found):
        small = set(blob) != {"0"} and history.git.size(blob) <= FILE_BYTES
        if small and hashlib.sha256(history.blob(blob)).hexdigest() == digest:
            return blob
    return ""


def _bounded(history: History, *words: str) -> str:
    """The beginning of what git prints: as much as people can be shown."""
    with tempfile.TemporaryFile(dir=history.folder) as file:
        try:
            history.git.run(*words, stdout=file, busy_seconds=BUSY_SECONDS)
        except TooLong:
            return "git would take too long to compare them"
        size = os.fstat(file.fileno()).st_size
        file.seek(0)
        text = file.read(TEXT_BYTES).decode("utf-8", "replace")
    return text if size <= TEXT_BYTES else f"{text}…\n({size} bytes in all)"
