"""Where the git remote has what it holds of a job: below one name, so that all of it can be deleted at once.

The state of a job for the next coordinator, the places of its turns, and what either builds upon lie there together.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from parley.hosts.mirror.git_remote import GitRemote, Remote
from parley.hosts.mirror.mirror_repository import MirrorRepository, object_format
from parley.hosts.mirror.order_place import ref_name
from parley.workspaces.files.safe_delete import discard


def refs_of(bus: str, job: str) -> str:
    """What the names of all refs of a job begin with. `bus`: the id of its bus, since several share a remote."""
    return f"refs/parley/{ref_name(bus)}/{ref_name(job)}"


def delete_refs(home: Path, remote: Remote, bus: str, job: str) -> int:
    """Delete all that the remote has of a job, whether or not its files are here; returns how many refs that were."""
    home.mkdir(parents=True, exist_ok=True)
    reaching, folder = GitRemote(remote), Path(tempfile.mkdtemp(prefix=".draft-", dir=home))
    try:
        with MirrorRepository(folder / "list", "sha1").used() as asking:
            found = reaching.listed(asking.git, f"{refs_of(bus, job)}/*")
        if found:
            with MirrorRepository(folder / "delete", object_format(next(iter(found.values())))).used() as mirror:
                reaching.delete(mirror.git, found)
        return len(found)
    finally:
        discard(folder)
