"""`parley gc`: free the disk of what finished jobs have left."""

from __future__ import annotations

import argparse
import re
import time

from parley.adapters.worktrees import Worktrees
from parley.adapters.worktrees.sweep import Waste, find_bases, find_drafts, find_waste, remove
from parley.engine.projections import TERMINAL
from parley.faces.cli import OK, Trouble
from parley.faces.cli.bus import bus, find_job
from parley.faces.cli.desk import place_of, print_json

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
STEP = 1024


def run(words: argparse.Namespace) -> int:
    """Find what may go, and delete it unless it is only to be listed."""
    place, now = place_of(words.repo), time.time()
    age = seconds(words.older)
    with bus(place) as store:
        rows = store.jobs()
        if words.job is not None:
            rows = [find_job(rows, words.job)]
            if rows[0].state not in TERMINAL:
                raise Trouble(f"{rows[0].job} is not finished; withdraw it first, or leave it")
        trees = Worktrees(place.home, place.root)
        found: list[Waste] = []
        for row in rows:
            if row.state in TERMINAL and not store.owner_lives(row.job) and now - row.updated >= age:
                found += find_waste(
                    trees.history(row.job), place.root, row.job, unmerged=words.unmerged, merges=row.state == "DONE"
                )
        found += find_drafts(place.home, now)
        going = [waste for waste in found if not waste.kept]
        if words.job is None:
            going += find_bases(place.home, [waste.path for waste in going])
        if not words.dry_run:
            for waste in going:
                remove(trees.history(waste.job), place.root, waste)
    _tell(words, going, [waste for waste in found if waste.kept])
    return OK


def seconds(text: str) -> float:
    """An age such as 30d or 12h."""
    found = re.fullmatch(r"(\d{1,6})([smhdw])", text)
    if found is None:
        raise Trouble(f"--older {text}: this is no age; write one such as 30d or 12h")
    return float(found[1]) * UNITS[found[2]]


def _tell(words: argparse.Namespace, going: list[Waste], kept: list[Waste]) -> None:
    if words.json:
        lines = [
            {"job": waste.job, "path": str(waste.path), "bytes": waste.size, "what": waste.what, "kept": waste.kept}
            for waste in (*going, *kept)
        ]
        print_json({"dry_run": words.dry_run, "bytes": sum(waste.size for waste in going), "items": lines})
        return
    for waste in going:
        print(f"{shown(waste.size):>9}  {waste.path}  ({waste.what})")
    total, verb = shown(sum(waste.size for waste in going)), "would be" if words.dry_run else "were"
    print(f"{total} {verb} freed" if going else f"there is nothing to free of what ended {words.older} ago or earlier")
    stays = {waste.job: waste for waste in kept}
    for job, waste in stays.items():
        size = shown(sum(other.size for other in kept if other.job == job))
        print(f"{job} stays, {size}: {waste.kept}")


def shown(size: float) -> str:
    """A size for people."""
    for unit in ("B", "kB", "MB"):
        if size < STEP:
            return f"{size:.0f} {unit}"
        size /= STEP
    return f"{size:.1f} GB"
