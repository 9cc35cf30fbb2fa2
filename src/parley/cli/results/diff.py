"""`parley diff`: what a job changed."""

from __future__ import annotations

import argparse
import sys

from parley.base.obeyed import Obeyed
from parley.base.text import safe_lines
from parley.cli import OK, CommandError
from parley.cli.common import place_of, print_json
from parley.cli.job_filters import FINISHED
from parley.cli.looking.need_texts import work_at_gate
from parley.cli.open_bus import find_job, open_bus
from parley.cli.results.delivered import obeyed_lines, unportable_lines
from parley.cli.shared_home import workspaces


def run(words: argparse.Namespace) -> int:
    """Show it, as git does."""
    place = place_of(words.repo)
    with open_bus(place) as store:
        row = find_job(store.jobs(), words.job)
        gate = work_at_gate(store, row.job)
    trees = workspaces(place.home, place.root)
    if not trees.repository(row.job).exists:
        why = "no files: `parley gc` has deleted them, or it never had any" if row.state in FINISHED else "no files yet"
        raise CommandError(f"{row.job} has {why}; see how it stands with `parley show {row.job}`")
    tree = gate.digest if gate else ""
    if gate is not None:
        print(f"parley: this is the work as question {gate.id} puts it forward", file=sys.stderr)
    found = trees.changes(row.job, tree, whole=words.all)
    obeyed = [Obeyed(change.path, change.obeyed) for change in found if change.obeyed]
    if words.json:
        changes = [{"path": change.path, "added": change.added, "removed": change.removed} for change in found]
        branch = trees.repository(row.job).beginning.branch
        odd = [{"path": change.path, "why": change.unportable.why} for change in found if change.unportable]
        more = {"changes": changes, "obeyed": [one.document() for one in obeyed], "unportable": odd}
        print_json({"id": row.job, "state": row.state, "branch": branch, **more})
        return OK
    if not found:
        other = "" if words.all else "; --all shows what it wrote about its work"
        print(f"parley: {row.job} has changed no files{other}", file=sys.stderr)
    for line in (*obeyed_lines(obeyed), *unportable_lines(found)):
        print(f"parley: {line.strip()}", file=sys.stderr)
    shown = trees.diff(row.job, tree, whole=words.all, stat=words.stat)
    if words.stat or sys.stdout.isatty() or not hasattr(sys.stdout, "buffer"):
        print(safe_lines(shown.decode("utf-8", "replace")), end="")  # a file may hold what a terminal would obey
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(shown)
        sys.stdout.buffer.flush()
    return OK
