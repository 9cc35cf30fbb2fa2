"""`parley withdraw`, its first moments: the owner is told, and agents are ended, before the rest is even imported.

An agent may take all of the machine that it can get, and what `withdraw` needs besides takes a while to load.
"""

from __future__ import annotations

import argparse
import time
from importlib import import_module

from parley.adapters.glance import is_owned
from parley.adapters.marks import any_marked, end_marked, gits_mark
from parley.adapters.urgent_input import leave_withdrawal
from parley.faces.cli.desk import Place, check_text, me, place_of
from parley.faces.cli.listing import FINISHED

OWNERS_SECONDS = 0.5  # the owner ends its agents itself, unless it is at something else: then a death is no crash
ROUND_SECONDS = 0.5
LOOK_SECONDS = 0.05


def run(words: argparse.Namespace) -> int:
    """Withdraw a job or a thread of it: the whole job at once, the rest in order."""
    words.left = words.thread is None and _begin(place_of(words.repo), words)
    return int(import_module("parley.faces.cli.steer").run(words))


def _begin(place: Place, words: argparse.Namespace) -> bool:
    """Leave word on the bus and end the job's agents. Whether it was left: if not, the rest says why."""
    left = leave_withdrawal(place.home, words.job.removeprefix("job:"), me(), check_text(words.text), FINISHED)
    if not left.job:
        return False
    mark, spared = f"{left.job}/", gits_mark(left.job)
    deadline = time.monotonic() + OWNERS_SECONDS * left.taken  # one that was not told ends nothing
    while is_owned(place.home, left.job) and time.monotonic() < deadline:
        if not any_marked(mark, spared=spared):
            return True
        time.sleep(LOOK_SECONDS)
    end_marked(mark, spared=spared if is_owned(place.home, left.job) else "", seconds=ROUND_SECONDS)
    return left.taken
