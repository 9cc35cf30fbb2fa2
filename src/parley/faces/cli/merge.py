"""`parley merge`: bring a job's result into what is checked out."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from typing import Any

from parley.adapters.system import RandomIds
from parley.adapters.worktrees import Worktrees
from parley.adapters.worktrees.delivery import beside
from parley.adapters.worktrees.homecoming import Homecoming, WontMerge
from parley.engine.session import leave
from parley.faces.cli import FAILED, OK, Trouble
from parley.faces.cli.audit import unsound
from parley.faces.cli.bus import bus, find_job
from parley.faces.cli.delivered import obeyed_lines
from parley.faces.cli.desk import Place, me, place_of, print_json
from parley.faces.cli.homes import own_folders
from parley.faces.cli.stopping import tidying
from parley.ports import MERGE, BusError, WorkspaceError
from parley.text import fit, name_text, printable
from parley.wording import count

LONGEST_REASON = 1000  # characters
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
        why = f"{row.job} can't be merged: {remedy.format(job=row.job)}"
        if not words.dry_run:
            _record(place, row.job, why)
        raise Trouble(why)
    with bus(place, true=True) as store:
        why = unsound(store, place, row.job)
    if why:
        if not words.dry_run:
            _record(place, row.job, why)
        raise Trouble(why, FAILED)
    trees = Worktrees(place.home, place.root, private=own_folders())

    def tell(coming: Homecoming) -> None:
        if not words.json:
            _announce(coming)

    try:
        with tidying():
            home = trees.bring_home(row.job, whole=words.all, tell=tell, dry=words.dry_run)
    except WorkspaceError as error:
        if not words.dry_run:
            _record(place, row.job, str(error))
        if not isinstance(error, WontMerge):
            raise
        raise Trouble(f"{row.job} was not merged: {error}", FAILED) from error
    if words.json:
        print_json(_document(row.job, home, dry=words.dry_run))
        return OK
    print(_said(row.job, home, place, dry=words.dry_run))
    for line in (*home.remarks, *_not_run(home)):
        print(f"parley: {printable(line)}", file=sys.stderr)
    if words.all:
        for own, other in beside(trees.history(row.job)).items():
            print(f"your own {own} stays as it is; the job's is {other}")
    return OK


def _record(place: Place, job: str, why: str) -> None:
    """Leave on the bus why it was not merged, for the audit. What keeps the bus from taking it is no second trouble."""
    with suppress(BusError, OSError), bus(place) as store:
        leave(store, job, MERGE, f"{MERGE}:{RandomIds().new()}", body={"reason": fit(why, LONGEST_REASON)}, by=me())


def _announce(coming: Homecoming) -> None:
    """Name what tools on this machine run or obey, before it lies where they look."""
    for line in obeyed_lines([one.document() for one in coming.obeyed], whole=True):
        print(line)


def _said(job: str, home: Homecoming, place: Place, *, dry: bool) -> str:
    what = home.branch or "the result"
    if home.before:
        return f"{what} is in what you have checked out already"
    files = count(len(home.paths), "file")
    if home.branch:
        return f"{what} would be merged: {files}" if dry else f"{what} is merged: {files}"
    return f"{files} of {job} {'would be ' if dry else ''}copied into {place.root}"


def _not_run(home: Homecoming) -> list[str]:
    """What of the user's did not run."""
    found = []
    if home.hooks:
        found.append(
            f"no hook runs in a merge of Parley's: {', '.join(home.hooks)} of yours did not; "
            "look at what it calls, then run it with `git hook run NAME`"
        )
    if home.unfiltered:
        found.append(
            f"these filters of yours did not run, since their programs may be an agent's: {'; '.join(home.unfiltered)}"
        )
    return found


def _document(job: str, home: Homecoming, *, dry: bool) -> dict[str, Any]:
    return {
        "id": job,
        "branch": home.branch,
        "commit": home.commit,
        "paths": [name_text(path) for path in home.paths],
        "before": home.before,
        "dry_run": dry,
        "obeyed": [{"path": name_text(one.path), "by": one.by} for one in home.obeyed],
        "hooks_not_run": list(home.hooks),
        "filters_not_run": [name_text(one) for one in home.unfiltered],
        "remarks": [name_text(line) for line in home.remarks],
    }
