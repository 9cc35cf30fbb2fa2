"""The runner of programs that are configured as agents; each turn gets a cage of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from parley.ports.turns import Ended, Order
from parley.roles.role_snapshot import from_text
from parley.runners.command.command_turn import CommandTurn
from parley.runners.command.configured_agents import Agent
from parley.runners.turn_thread import Tell, ThreadRunner
from parley.sandbox import Boundary


def instructions(order: Order) -> str:
    """What an agent is told before its first message: its name, and its role's prompt."""
    role = from_text(order.role)
    told = [f"You are `{order.agent}`.", role.description, role.prompt]
    return "\n\n".join(part for part in told if part.strip())


class CommandRunner(ThreadRunner[CommandTurn]):
    """A Runner for every agent of the settings. `instruct` makes an instance's instructions."""

    def __init__(
        self,
        boundary: Boundary,
        agents: Mapping[str, Agent],
        instruct: Callable[[Order], str] = instructions,
    ) -> None:
        super().__init__()
        self.agents = agents
        self._boundary, self._instruct = boundary, instruct

    def start(self, order: Order, tell: Tell) -> None:
        """Begin a turn of an agent of the settings; the turn of an unknown agent is lost at once."""
        if order.runner in self.agents:
            super().start(order, tell)
            return
        known = ", ".join(sorted(self.agents))
        fault = f"there is no agent {order.runner!r}; known are {known}, others go into [agents.NAME] of parley.toml"
        tell(Ended(order.job, order.turn, order.epoch, handle=order.handle, fault=fault, hard=True))

    def _turn_of(self, order: Order, tell: Tell) -> CommandTurn:
        return CommandTurn(
            order, self.agents[order.runner], self._boundary, instructions=self._instruct(order), tell=tell
        )
