"""`parley merge`: bring a job's result into what is checked out."""

from __future__ import annotations

import argparse

from parley.adapters.worktrees import Worktrees
from parley.adapters.worktrees.delivery import beside
from parley.adapters.worktrees.homecoming import WontMerge
from parley.faces.cli import FAILED, OK, Trouble
from parley.faces.cli.bus import bus, find_job
from parley.faces.cli.desk import place_of, print_json
from parley.wording import count

REMEDIES = {
    "WITHDRAWN": "it was withdrawn; see what there is with `parley diff {job}`",
    "FAILURE": "it failed; see what there is with `parley diff {job}`",
}


def run(words: argparse.Namespace) -> int:
    """Merge it, or say why not."""
    place = place_of(words.repo)
    with bus(place) as store:
        row = find_job(store.jobs(), words.job)
    if row.state != "DONE":
        remedy = REMEDIES.get(row.state, "it is not done yet; see how it stands with `parley show {job}`")
        raise Trouble(f"{row.job} can't be merged: {remedy.format(job=row.job)}")
    try:
        home = Worktrees(place.home, place.root).bring_home(row.job, whole=words.all)
    except WontMerge as error:
        raise Trouble(f"{row.job} was not merged: {error}", FAILED) from error
    if words.json:
        print_json(
            {
                "id": row.job,
                "branch": home.branch,
                "commit": home.commit,
                "paths": list(home.paths),
                "before": home.before,
            }
        )
        return OK
    what = home.branch or "the result"
    if home.before:
        print(f"{what} is in what you have checked out already")
    else:
        files = count(len(home.paths), "file")
        print(f"{what} is merged: {files}" if home.branch else f"{files} of {row.job} copied into {place.root}")
    if words.all and (other := beside(Worktrees(place.home, place.root).history(row.job))):
        print(f"your own orchestration/ stays as it is; the job's is {other}/")
    return OK
