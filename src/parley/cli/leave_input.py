"""Leaves inputs, people's requests to a job, on the bus for the job's owner, and waits for them to be taken."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from parley.actions.leave import find_input, leave
from parley.bus.rows import Duplicate, InputRow
from parley.bus.store import Store
from parley.cli.common import account_name
from parley.engine.values.human_inputs import Input

WAIT_SECONDS = 15.0
POLL_SECONDS = 0.02


def put_and_wait(
    store: Store,
    job: str,
    key: str,
    given: Input,
    meanwhile: Callable[[], object] = lambda: None,
    *,
    by: str = "",
) -> InputRow | None:
    """Leave an input and wait until the owner has handled it; None if that takes too long or there is no owner.

    It is left by the account where no person is named. `meanwhile` is called repeatedly until then.
    """
    with suppress(Duplicate):  # the same request was made before: wait for that one
        leave(store, job, key, given, by=by or account_name())
    return wait(store, job, key, meanwhile)


def wait(store: Store, job: str, key: str, meanwhile: Callable[[], object] = lambda: None) -> InputRow | None:
    """Wait until the owner has taken an input, as long as the owner lives."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        found = find_input(store, job, key)
        if found is not None and found.taken:
            return found
        meanwhile()
        if not store.owner_lives(job):
            found = find_input(store, job, key)  # the owner may have taken it just before it died
            return found if found is not None and found.taken else None
        if not store.changed():
            store.wait(POLL_SECONDS)
    return None
