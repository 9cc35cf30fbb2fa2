"""What is particular about the roles that a workflow brings along."""

from __future__ import annotations

from collections.abc import Mapping

from parley.protocol.molecules import Rounds
from parley.protocol.states import State
from parley.roles.phases import PHASES
from parley.roles.role_snapshot import TOOLS, Traits
from parley.workflow.model.terms import ARCHITECT, DESIGN_VERIFIER, EXECUTOR, GROUP, INTEGRATOR, PROVER, SOLUTION

TRAITS: Mapping[str, Traits] = {
    EXECUTOR: Traits((), code=True, asserts=(PHASES[State.PLAN].artifact,), rounds=Rounds.TEAM),
    GROUP: Traits((), code=True, rounds=Rounds.FREE),  # it counts its own rounds
    ARCHITECT: Traits((*TOOLS, "Resolve")),
    DESIGN_VERIFIER: Traits(("Verdict",)),
    INTEGRATOR: Traits(("Note",)),
    PROVER: Traits((), redirected=False),  # it runs commands: nothing redirects it
    SOLUTION: Traits(),
}
