"""An input that has to be on the bus at once: that a job is withdrawn. It imports little, as agents go on meanwhile."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from parley.bus.signatures import LeftInput, sign_input
from parley.bus.sqlite import safe_open
from parley.bus.sqlite.quick_read import opened

KIND = "withdraw"
PATIENCE_SECONDS = 0.3  # with a bus that its owner writes to


class Left(NamedTuple):
    """What became of it."""

    job: str = ""  # the job that is to be withdrawn; empty where there is none, or more than one
    taken: bool = False  # whether the input is on the bus, or was before


def leave_withdrawal(home: Path, given: str, by: str, reason: str, finished: Collection[str]) -> Left:
    """Leave word that a job is withdrawn. `given` is its id, or the beginning of it.

    Where the input can't be left, the caller asks the store, which waits longer and can say what is wrong.
    """
    job = ""
    try:
        with opened(home, PATIENCE_SECONDS) as bus:
            states = {glimpse.job: glimpse.state for glimpse in bus.glimpses()}
            found = [given] if given in states else [job for job in states if given and job.startswith(given)]
            if len(found) != 1 or states[found[0]] in finished:
                return Left()
            [job] = found
            body = json.dumps({"thread": f"job:{job}", "reason": reason}, ensure_ascii=False)
            row = LeftInput(job=job, kind=KIND, key=f"{KIND}:job:{job}", time=time.time(), by=by, body=body)
            bus.connection.execute("BEGIN IMMEDIATE")
            safe_open.check_identity(bus.connection, home, bus.key)  # it may have been moved away meanwhile
            with suppress(sqlite3.IntegrityError):  # it was asked for before
                bus.execute("add_input", row._replace(signature=sign_input(bus.key.secret, row)))
            bus.connection.execute("COMMIT")
            return Left(job, taken=True)
    except (sqlite3.Error, OSError, ValueError):
        return Left(job)
