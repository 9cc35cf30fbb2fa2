"""A process to be killed: plays a turn, prints its handle, and begins another that does not end."""

from __future__ import annotations

import queue
import sys

from parley.ports.turns import Ended, TurnEvent
from parley.runners.claude import claude_runner
from parley.sandbox import Boundary
from parley.settings.schema import ClaudeSettings
from tests.claude.claude_harness import KEY, order_of


def main() -> None:
    """Play."""
    url, workspace, home, job = sys.argv[1:]
    environment = {"PATH": "/usr/bin:/bin", "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url}
    runner = claude_runner(ClaudeSettings(), Boundary(), environment)
    events: queue.SimpleQueue[TurnEvent] = queue.SimpleQueue()
    runner.start(order_of(job, "t1", "first", workspace, home, ""), events.put)
    while not isinstance(event := events.get(), Ended):
        pass
    sys.stdout.write(event.handle + "\n")
    sys.stdout.flush()
    runner.start(order_of(job, "t2", "endless", workspace, home, event.handle), events.put)
    while True:
        events.get()


if __name__ == "__main__":
    main()
