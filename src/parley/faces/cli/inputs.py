"""Inputs: what people ask of a job, left on the bus for whoever owns it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from parley.engine.session import find_input, leave
from parley.faces.cli.desk import me
from parley.ports import Duplicate, InputRow, Store

WAIT_SECONDS = 15.0
POLL_SECONDS = 0.02


def put_and_wait(
    store: Store,
    job: str,
    kind: str,
    key: str,
    body: Mapping[str, Any],
    meanwhile: Callable[[], object] = lambda: None,
) -> InputRow | None:
    """Leave an input and wait until the owner has dealt with it; None if it takes too long or has none.

    `meanwhile` is done again and again until then.
    """
    with suppress(Duplicate):  # it was asked for before: whoever asks again waits with them
        leave(store, job, kind, key, body=body, by=me())
    return wait(store, job, key, meanwhile)


def wait(store: Store, job: str, key: str, meanwhile: Callable[[], object] = lambda: None) -> InputRow | None:
    """Wait until an input was taken, as long as somebody lives who may take it."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        found = find_input(store, job, key)
        if found is not None and found.taken:
            return found
        meanwhile()
        if not store.owner_lives(job):
            found = find_input(store, job, key)  # it may have been its last deed
            return found if found is not None and found.taken else None
        time.sleep(POLL_SECONDS)
    return None
