"""`parley gc`: deletes files of finished jobs."""

from __future__ import annotations

import argparse
import time

from parley.base.wording import count
from parley.cli import OK, CommandError
from parley.cli.common import place_of, print_json
from parley.cli.job_filters import age, chosen, has_filter
from parley.cli.open_bus import open_bus
from parley.cli.shared_home import forget_remote, workspaces
from parley.views.job_view import TERMINAL
from parley.workspaces.home.sweep import Waste, find_bases, find_branches, find_drafts, find_waste, remove
from parley.workspaces.job_repository import REPOSITORY

AGE = "30d"  # files of jobs that ended later stay, unless ages or jobs are given
STEP = 1024


def run(words: argparse.Namespace) -> int:
    """Find what may be deleted, and delete it unless `--dry-run` is given. A merged branch waits for no age."""
    place, now = place_of(words.repo), time.time()
    oldest = now - age(_wait(words), "--older-than")
    with open_bus(place) as store:
        rows = chosen(words, store.jobs(), now)
        if live := [row.job for row in rows if words.jobs and row.state not in TERMINAL]:
            raise CommandError(f"{live[0]} is not finished; withdraw it first, or leave it")
        trees = workspaces(place.home, place.root)
        found: list[Waste] = []
        for row in rows:
            if row.state in TERMINAL and not store.owner_lives(row.job):
                repository, old = trees.repository(row.job), row.updated <= oldest
                found += find_branches(repository, place.root, row.job, last=old and words.unmerged)
                if old:
                    done = row.state == "DONE"
                    found += find_waste(repository, place.root, row.job, unmerged=words.unmerged, merges=done)
        found += find_drafts(place.home, now)
        going = [waste for waste in found if not waste.kept]
        if len(rows) == len(store.jobs()):
            going += find_bases(place.home, [waste.path for waste in going])
        if not words.dry_run:
            for job in dict.fromkeys(waste.job for waste in going if waste.path.name == REPOSITORY):
                forget_remote(place.home, job)  # first: what the remote has would be brought again
            for waste in going:
                remove(trees.repository(waste.job), place.root, waste)
    _tell(words, going, [waste for waste in found if waste.kept])
    return OK


def _wait(words: argparse.Namespace) -> str:
    """How long files stay after a job's end."""
    if words.older_than is not None:
        return str(words.older_than)
    return "0s" if words.jobs or words.newer_than is not None else AGE


def _tell(words: argparse.Namespace, going: list[Waste], kept: list[Waste]) -> None:
    if words.json:
        lines = [
            {"job": waste.job, "path": str(waste.path), "bytes": waste.size, "what": waste.what, "kept": waste.kept}
            for waste in (*going, *kept)
        ]
        print_json({"dry_run": words.dry_run, "bytes": sum(waste.size for waste in going), "items": lines})
        return
    for waste in going:
        print(f"{'' if waste.commit else shown(waste.size):>9}  {waste.path}  ({waste.what})")
    branches = len([waste for waste in going if waste.commit])
    parts = [count(branches, "branch", "branches")] if branches else []
    parts += [shown(sum(waste.size for waste in going))] if len(going) > branches else []
    if parts:
        verb = "would be" if words.dry_run else "was" if parts == [count(1, "branch")] else "were"
        print(f"{' and '.join(parts)} {verb} deleted")
    elif not kept:
        which = "that you chose" if words.jobs or has_filter(words) else f"older than {AGE}"
        print(f"nothing to delete: no finished job {which} has files left")
    stays = {waste.job: waste for waste in kept if not waste.commit}
    for job, waste in stays.items():
        size = shown(sum(other.size for other in kept if other.job == job))
        print(f"{job} stays, {size}: {waste.kept}")
    for waste in kept:
        if waste.commit:
            print(f"{waste.path} stays: {waste.kept}")


def shown(size: float) -> str:
    """A size for people."""
    for unit in ("B", "kB", "MB"):
        if size < STEP:
            return f"{size:.0f} {unit}"
        size /= STEP
    return f"{size:.1f} GB"
