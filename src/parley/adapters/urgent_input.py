"""An input that has to be on the bus at once: that a job is withdrawn. It imports little, as agents go on meanwhile."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from parley.adapters.glance import opened
from parley.adapters.signatures import sign_input

KIND = "withdraw"
PATIENCE_SECONDS = 0.3  # with a bus that its owner writes to
_JOB, _STATE = 0, 3  # columns of a listing's rows


class Left(NamedTuple):
    """What became of it."""

    job: str = ""  # the job that is to be given up; empty where there is none, or that is not so simple
    taken: bool = False  # whether it is on the bus, or was before


def leave_withdrawal(home: Path, given: str, by: str, reason: str, finished: Collection[str]) -> Left:
    """Leave word that a job is given up. `given` is its name, or the beginning of it.

    Where it can't be left, the store is to be asked, which waits longer and can say what is wrong.
    """
    job = ""
    try:
        with opened(home, PATIENCE_SECONDS) as bus:
            states = {row[_JOB]: row[_STATE] for row in bus.execute("glance_jobs")}
            found = [given] if given in states else [job for job in states if given and job.startswith(given)]
            if len(found) != 1 or states[found[0]] in finished:
                return Left()
            [job] = found
            body = json.dumps({"thread": f"job:{job}", "reason": reason}, ensure_ascii=False)
            row = (job, KIND, f"{KIND}:job:{job}", time.time(), by, body)
            with suppress(sqlite3.IntegrityError):  # it was asked for before
                bus.execute("add_input", (*row, sign_input(bus.key.secret, *row)))
            return Left(job, taken=True)
    except (sqlite3.Error, OSError, ValueError):
        return Left(job)
