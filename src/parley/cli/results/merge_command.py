"""`parley merge`: merges a job's result into the user's checkout."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from parley.actions.leave import leave
from parley.base.text import fit, name_text, printable
from parley.base.wording import count
from parley.bus.rows import BusError
from parley.cli import FAILED, OK, CommandError
from parley.cli.common import Workplace, account_name, place_of, print_json
from parley.cli.looking.audit_command import unsound
from parley.cli.open_bus import find_job, known_secrets, open_bus
from parley.cli.results.delivered import obeyed_lines
from parley.cli.shared_home import workspaces
from parley.cli.user_homes import own_folders
from parley.engine.values.human_inputs import NotMergedInput
from parley.machine.clock import RandomIds
from parley.machine.stop_signals import stop_like_ctrl_c
from parley.ports.workspaces import WorkspaceError
from parley.workspaces.delivery.merge_to_checkout import CheckoutMerge, WontMerge
from parley.workspaces.delivery.result_branch import beside

LONGEST_REASON = 1000  # characters
REMEDIES = {
    "WITHDRAWN": "it was withdrawn; see what there is with `parley diff {job}`",
    "FAILURE": "it failed; see what there is with `parley diff {job}`",
}


def run(words: argparse.Namespace) -> int:
    """Merge it, or say why not."""
    place = place_of(words.repo)
    with open_bus(place) as store:
        row = find_job(store.jobs(), words.job)
    if row.state != "DONE":
        remedy = REMEDIES.get(row.state, "it is not done yet; see its state with `parley show {job}`")
        why = f"{row.job} can't be merged: {remedy.format(job=row.job)}"
        if not words.dry_run:
            _record(place, row.job, why)
        raise CommandError(why)
    with open_bus(place, unredacted=True) as store:
        why = unsound(store, place, row.job)
    if why:
        if not words.dry_run:
            _record(place, row.job, why)
        raise CommandError(why, FAILED)
    trees = workspaces(place.home, place.root, private=own_folders(), redact=known_secrets(place).redact)

    def tell(coming: CheckoutMerge) -> None:
        if not words.json:
            _announce(coming)

    try:
        with stop_like_ctrl_c():
            home = trees.merge_to_checkout(row.job, whole=words.all, tell=tell, dry=words.dry_run)
    except WorkspaceError as error:
        if not words.dry_run:
            _record(place, row.job, str(error))
        if not isinstance(error, WontMerge):
            raise
        raise CommandError(f"{row.job} was not merged: {error}", FAILED) from error
    if words.json:
        print_json(_document(row.job, home, dry=words.dry_run))
        return OK
    print(_said(row.job, home, place, dry=words.dry_run, empty=lambda: not trees.changes(row.job, whole=words.all)))
    for line in (*home.remarks, *_not_run(home)):
        print(f"parley: {printable(line)}", file=sys.stderr)
    if words.all:
        for own, other in beside(trees.repository(row.job)).items():
            print(f"your own {own} stays as it is; the job's is {other}")
    return OK


def _record(place: Workplace, job: str, why: str) -> None:
    """Record on the bus why it was not merged, for the audit. A failure to do so is ignored."""
    with suppress(BusError, OSError), open_bus(place) as store:
        leave(
            store,
            job,
            f"{NotMergedInput.kind}:{RandomIds().new()}",
            NotMergedInput(reason=fit(why, LONGEST_REASON)),
            by=account_name(),
        )


def _announce(coming: CheckoutMerge) -> None:
    """Name the files that tools on this machine run or obey, before they are put there."""
    for line in obeyed_lines(coming.obeyed, whole=True):
        print(line)


def _said(job: str, home: CheckoutMerge, place: Workplace, *, dry: bool, empty: Callable[[], bool]) -> str:
    what = home.branch or "the result"
    if home.before and empty():
        return f"there is nothing to merge: {job} has changed no files"
    if home.before:
        return f"{what} is in what you have checked out already"
    files = count(len(home.paths), "file")
    if home.branch:
        return f"{what} would be merged: {files}" if dry else f"{what} is merged: {files}"
    return f"{files} of {job} {'would be ' if dry else ''}copied into {place.root}"


def _not_run(home: CheckoutMerge) -> list[str]:
    """The user's hooks and filters that did not run."""
    found = []
    if home.hooks:
        found.append(
            f"Parley's merge runs no hooks: your {', '.join(home.hooks)} did not run; "
            "look at what it calls, then run it with `git hook run NAME`"
        )
    if home.unfiltered:
        found.append(
            f"these filters of yours did not run, since their programs may be an agent's: {'; '.join(home.unfiltered)}"
        )
    return found


def _document(job: str, home: CheckoutMerge, *, dry: bool) -> dict[str, Any]:
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
