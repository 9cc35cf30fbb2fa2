"""`parley watch`: all jobs on one screen."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence

from parley.adapters.files import JobFiles
from parley.adapters.sqlite import SqliteStore
from parley.adapters.worktrees import Worktrees
from parley.engine.attention import Need
from parley.faces.cli import OK, Trouble
from parley.faces.cli.bus import ShownStore
from parley.faces.cli.desk import Place, columns, me, place_of, shield
from parley.faces.cli.listing import look
from parley.faces.cli.need import diff_text, put_forward
from parley.faces.cli.start import spawn
from parley.faces.cli.workshop import on_terminal
from parley.faces.terminal import Ended, Exhibit, Sight, standing, watch_all


def run(words: argparse.Namespace) -> int:
    """Watch until the human leaves; without a terminal, tell how things stand."""
    place = place_of(words.repo)
    if not SqliteStore.exists(place.home):
        raise Trouble(f"there is no job in {place.home} yet; start one with `parley run`")
    store = ShownStore(place)
    try:
        shield(place.home)
        sight = sight_of(place, store)
        if on_terminal():
            watch_all(sight)
        else:
            _print(sight)
        return OK
    except Ended as ended:
        return ended.code
    finally:
        store.close()


def _print(sight: Sight) -> None:
    for line in standing(sight, columns()):
        print(line)
    print("\nno terminal to draw on: `parley inbox` tells how to answer, `parley log JOB --follow` goes on telling")


def sight_of(place: Place, store: ShownStore) -> Sight:
    """What a watch sees of a place."""
    redact = store.secrets.redact

    def exhibit(need: Need) -> Exhibit:
        return Exhibit(*put_forward(store, Worktrees(place.home, place.root), need, redact))

    def command(words: Sequence[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "parley", words[0], "--repo", str(place.root), *words[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C is meant for the watch
            env={**os.environ, "PARLEY_HOME": str(place.home)},
        )

    return Sight(
        store,
        JobFiles(place.home),
        me(),
        place.root.name or str(place.root),
        store.check,
        lambda: [seen._replace(request=redact(seen.request)) for seen in look(place)],
        exhibit,
        lambda job: diff_text(store, Worktrees(place.home, place.root), job, redact),
        command,
        lambda job, more: spawn(place, job, place.home / "jobs" / job / "run.log", *more),
    )
