"""Runs the turns of any program that is configured as an agent, each turn in a cage of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from parley.adapters.boundary import Boundary
from parley.adapters.carrier import Carriers, Tell
from parley.adapters.command.agents import Agent
from parley.adapters.command.turn import Turn
from parley.ports import Ended, Order


def instructions(order: Order) -> str:
    """What an agent is told before its first message: who it is, and its role's own words."""
    role = json.loads(order.role or "{}")
    told = [f"You are `{order.agent}`.", *(str(role.get(key, "")) for key in ("description", "prompt"))]
    return "\n\n".join(part for part in told if part.strip())


class CommandRunner:
    """A Runner for every agent of the settings. `instruct` says what an instance is told of its role."""

    def __init__(
        self,
        boundary: Boundary,
        agents: Mapping[str, Agent],
        instruct: Callable[[Order], str] = instructions,
    ) -> None:
        self.agents = agents
        self._boundary, self._instruct = boundary, instruct
        self._turns: Carriers[Turn] = Carriers()

    def start(self, order: Order, tell: Tell) -> None:
        """Begin a turn."""
        agent = self.agents.get(order.runner)
        if agent is None:
            known = ", ".join(sorted(self.agents))
            fault = (
                f"there is no agent {order.runner!r}; known are {known}, others go into [agents.NAME] of parley.toml"
            )
            tell(Ended(order.job, order.turn, order.epoch, handle=order.handle, fault=fault, hard=True))
            return
        self._turns.start(Turn(order, agent, self._boundary, self._instruct(order), tell))

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Answer a call."""
        if (found := self._turns.get(job, turn)) is not None:
            found.reply(number, ok, text, data)

    def cancel(self, job: str, turn: str) -> None:
        """End a turn and all its processes."""
        self._turns.cancel(job, turn)

    def wrap_up(self, job: str, turn: str) -> bool:
        """Ask a program to end, by SIGTERM. One that then exits with 0 has ended its turn like any other."""
        found = self._turns.get(job, turn)
        return found is not None and found.wrap_up()

    def stop(self, job: str, turn: str) -> bool:
        """End a turn where it is."""
        found = self._turns.get(job, turn)
        return found is not None and found.stop()

    def rest(self, job: str) -> None:
        """Nothing is kept ready between turns."""

    def close(self) -> None:
        """End every turn."""
        self._turns.close()
