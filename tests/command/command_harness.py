"""A harness for the command runner: orders as the engine would give them, and answers to the calls."""

from __future__ import annotations

import json
import os
import queue
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from parley.base.documents.node import TOML, node_of
from parley.ports.turns import Called, Ended, Order, Progress, Site, TurnEvent
from parley.runners.command.command_runner import CommandRunner
from parley.runners.command.configured_agents import read
from parley.sandbox import Boundary
from parley.settings.schema import FILE, BoundarySettings

TOOLS = ("Send", "CloseConversation", "AskQuestion")
SECONDS = 60.0

Answer = Callable[[Called], tuple[bool, str, Mapping[str, Any]]]


def accept(call: Called) -> tuple[bool, str, Mapping[str, Any]]:
    """Take every call, as the engine takes a good one."""
    thread = call.arguments.get("thread", "dispatch:d1")
    return True, f"taken: {call.tool} on {thread}", {"thread": thread}


class CommandHarness:
    """A job's folder with a workspace and a home, and a runner with the agents of some settings."""

    def __init__(
        self, folder: Path, agents: Mapping[str, Any], boundary: BoundarySettings | None = None, **more: Any
    ) -> None:
        self.job = f"job{os.getpid()}"  # other tests may run beside this one
        self.workspace, self.home = folder / "workspace", folder / "home"
        self.workspace.mkdir()
        self.boundary = Boundary(boundary)
        self.boundary.hand_over(self.workspace)
        self.runner = CommandRunner(self.boundary, read(node_of(agents, str(folder / FILE), TOML), folder), **more)
        self.events: queue.SimpleQueue[TurnEvent] = queue.SimpleQueue()
        self.calls: list[Called] = []
        self.progress: list[str] = []
        self.used: list[str] = []  # the tools, as they are told
        self._turns = 0

    def order(self, runner: str, message: str, **more: Any) -> Order:
        """One more turn of the same instance."""
        self._turns += 1
        given: dict[str, Any] = {
            "turn": f"t{self._turns}",
            "job": self.job,
            "epoch": 1,
            "token": f"token-{self._turns}",
            "agent": "coder",
            "thread": "dispatch:d0",
            "message": message,
            "sender": "project-lead",
            "state": "EXECUTE",
            "visit": 1,
            "site": Site(str(self.workspace)),
            "home": str(self.home),
            "handle": "",
            "may_ask": True,
            "time_limit_seconds": SECONDS,
            "tools": TOOLS,
            "runner": runner,
            "role": json.dumps({"name": "coder", "description": "Writes code.", "prompt": "Do as you are asked."}),
        }
        return Order(**(given | more))

    def start(self, order: Order) -> None:
        """Begin a turn."""
        self.runner.start(order, self.events.put)

    def next(self, answer: Answer = accept) -> TurnEvent:
        """The next event; a call is answered."""
        event = self.events.get(timeout=SECONDS)
        if isinstance(event, Called):
            self.calls.append(event)
            self.runner.reply(event.job, event.turn, event.number, *answer(event))
        elif isinstance(event, Progress):
            self.progress.append(event.text)
            self.used.append(event.tool)
        return event

    def play(self, order: Order, answer: Answer = accept) -> Ended:
        """A whole turn."""
        self.start(order)
        return self.finish(answer)

    def finish(self, answer: Answer = accept) -> Ended:
        """The rest of a turn."""
        while not isinstance(event := self.next(answer), Ended):
            pass
        assert self.events.empty()
        return event

    def close(self) -> None:
        """End it all."""
        self.runner.close()
        self.boundary.close()


def script(folder: Path, text: str, name: str = "agent") -> str:
    """An executable script beside the settings; its name for `command`."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return f"./{name}"


def eventually(happened: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Wait for something."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)
