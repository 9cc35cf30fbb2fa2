"""`parley inbox`: what waits for the human, in all jobs."""

from __future__ import annotations

import argparse

from parley.adapters.sqlite import SqliteStore
from parley.adapters.worktrees import Worktrees
from parley.engine.projections import Asked, inbox
from parley.faces.cli import OK
from parley.faces.cli.bus import bus
from parley.faces.cli.desk import place_of, print_json
from parley.faces.cli.workshop import answers, file_of, print_question


def run(words: argparse.Namespace) -> int:
    """List the open questions."""
    place = place_of(words.repo)
    paths = Worktrees(place.home)
    found: list[Asked] = []
    if SqliteStore.exists(place.home):
        with bus(place) as store:
            found = inbox(store)
    if words.json:
        entries = [
            {
                **asked.document(),
                "file": str(file_of(paths, asked)) if asked.artifact else None,
                "answers": answers(asked),
            }
            for asked in found
        ]
        print_json({"home": str(place.home), "questions": entries})
        return OK
    if not found:
        print("nothing waits for you")
    for number, asked in enumerate(found):
        if number:
            print()
        print(f"job {asked.job}")
        print_question(asked, place)
    return OK
