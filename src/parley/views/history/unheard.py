"""Interventions that reached no agent, for faces that ask again and again: of a long job only what is new is read.

What counts as undelivered became so after the human's last words were taken. So only the steps since then are looked
at, each once, and the whole job is read only after a step by which words can be left undelivered.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from weakref import WeakKeyDictionary

from parley.bus.store import Store
from parley.engine.values.human_inputs import InterveneInput, is_in_vain
from parley.views.history import interventions
from parley.views.history.interventions import Intervention

LEAVING = frozenset(("term-interrupt", "give-up"))  # the rules by which words can be left undelivered
CHANGING = LEAVING | {"intervene", "wake-int", "interrupt", "term-run", "recover"}  # by which that can change


@dataclass(slots=True)
class _JobRead:
    """How far a job was read, and what was undelivered then."""

    taken: int  # the transaction that took the human's last words
    step: int
    found: list[Intervention]


_read: WeakKeyDictionary[Store, dict[str, _JobRead]] = WeakKeyDictionary()
_lock = Lock()  # threads of the page's server share a store


def undelivered(store: Store, job: str) -> list[Intervention]:
    """What was left undelivered, and the human has not spoken to the job since."""
    rows = [row for row in store.inputs(job, waiting=False) if row.kind == InterveneInput.kind]
    taken = max((row.taken for row in rows if row.taken and not is_in_vain(row)), default=0)
    if not taken:
        return []
    spoken = max((row.time for row in rows if not row.taken), default=0.0)
    with _lock:
        known = _read.setdefault(store, {}).get(job)
        if known is None or known.taken != taken:
            known = _read[store][job] = _JobRead(taken, _step_before(store, job, taken), [])
        _go_on(store, job, known)
        return [one for one in known.found if one.since >= spoken]


def _step_before(store: Store, job: str, transaction: int) -> int:
    """The last step before a transaction."""
    earlier = (row.steps for row in store.transactions(job) if row.number == transaction - 1)
    return next(earlier, 0)


def _go_on(store: Store, job: str, known: _JobRead) -> None:
    """Read the steps that have come since."""
    rules = set[str]()
    for step in store.steps(job, known.step):
        rules.add(step.rule)
        known.step = step.number
    if rules & (CHANGING if known.found else LEAVING):
        known.found = interventions.undelivered(store, job)
