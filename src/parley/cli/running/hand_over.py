"""Gives a job to the attendant of its home, where `parley serve` runs one, so that no process of its own is started."""

from __future__ import annotations

import time
from pathlib import Path

from parley.bus.attendant import ask_to_start, attendant_stopped, attended, forget_request, is_asked, read_problems
from parley.bus.store import Store

ATTENDANT_SECONDS = 6.0  # that the attendant gets to begin a job
POLL_SECONDS = 0.02


def hand_over(home: Path, store: Store, job: str) -> bool:
    """Ask the attendant to go on with a job that has no owner, and wait for that; whether it does."""
    if not attended(home):
        return False
    before = store.load(job).epoch
    ask_to_start(home, job)
    try:
        deadline = time.monotonic() + ATTENDANT_SECONDS
        while time.monotonic() < deadline and attended(home) and not attendant_stopped(home):
            now = store.load(job)
            if now.epoch > before and now.transaction is not None:
                return True
            if not is_asked(home, job) and job in read_problems(home):
                return False
            time.sleep(POLL_SECONDS)
        return False
    finally:
        forget_request(home, job)
