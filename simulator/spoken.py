"""Whether people are told the truth about what they have said to a job."""

from __future__ import annotations

from parley.core.soup import Soup
from parley.core.terms import Interrupt
from parley.engine.interventions import interventions
from parley.engine.names import number_of
from parley.engine.orchestrator import origin_of
from parley.ports import Store


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
