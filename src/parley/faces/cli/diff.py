"""`parley diff`: what a job changed."""

from __future__ import annotations

import argparse
import sys

from parley.adapters.worktrees import Worktrees
from parley.faces.cli import OK, Trouble
from parley.faces.cli.bus import bus, find_job
from parley.faces.cli.delivered import obeyed_lines, unportable_lines
from parley.faces.cli.desk import place_of, print_json
from parley.faces.cli.listing import FINISHED
from parley.faces.cli.need import work_at_gate
from parley.text import safe_lines


def run(words: argparse.Namespace) -> int:
    """Show it, as git does."""
    place = place_of(words.repo)
    with bus(place) as store:
        row = find_job(store.jobs(), words.job)
        gate = work_at_gate(store, row.job)
    trees = Worktrees(place.home, place.root)
    if not trees.history(row.job).exists:
        why = "no files: `parley gc` has freed them, or it never had any" if row.state in FINISHED else "no files yet"
        raise Trouble(f"{row.job} has {why}; see how it stands with `parley show {row.job}`")
    tree = gate.digest if gate else ""
    if gate is not None:
        print(f"parley: this is the work as question {gate.id} puts it forward", file=sys.stderr)
    found = trees.changes(row.job, tree, whole=words.all)
    obeyed = [{"path": change.path, "by": change.obeyed} for change in found if change.obeyed]
    odd = [{"path": change.path, "why": change.unportable} for change in found if change.unportable]
    if words.json:
        changes = [{"path": change.path, "added": change.added, "removed": change.removed} for change in found]
        branch = trees.history(row.job).beginning.branch
        more = {"changes": changes, "obeyed": obeyed, "unportable": odd}
        print_json({"id": row.job, "state": row.state, "branch": branch, **more})
        return OK
    for line in (*obeyed_lines(obeyed), *unportable_lines(odd)):
        print(f"parley: {line.strip()}", file=sys.stderr)
    shown = trees.diff(row.job, tree, whole=words.all, stat=words.stat)
    if words.stat or sys.stdout.isatty() or not hasattr(sys.stdout, "buffer"):
        print(safe_lines(shown.decode("utf-8", "replace")), end="")  # a file may hold what a terminal would obey
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(shown)
        sys.stdout.buffer.flush()
    return OK
