"""Whether people are told the truth about what they have said to a job."""

from __future__ import annotations

from parley.bus.slots import number_of
from parley.bus.store import Store
from parley.engine.agents.orchestrator import origin_of
from parley.protocol.molecules import Interrupt
from parley.protocol.soup import Soup
from parley.views.history.interventions import interventions


def misreported(store: Store, job: str, soup: Soup) -> str:
    """How what is told of interventions differs from what the soup holds; empty if it does not."""
    told = interventions(store, job)
    said = {one.message for one in told if one.status == "waiting"}
    held = {origin_of(store.message(job, number_of(one.message))) for one in soup.of(Interrupt)} - {""}
    if said != held:
        return f"interventions that are said to wait: {sorted(said)}, that do: {sorted(held)}"
    taken = [row for row in store.inputs(job, waiting=False) if row.kind == "intervene" and row.taken]
    asked = sum(one.status != "asked" for one in told)
    return f"{len(taken)} interventions were taken, and {asked} are told of" if asked != len(taken) else ""
