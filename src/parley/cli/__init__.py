"""The command line: `main` runs `parley COMMAND …`, `commands` has each command's options, and folders have its work.

It starts fast because it imports only the parser: each command's module imports what the command needs.
"""

from __future__ import annotations

OK, FAILED, BAD_USE, WITHDRAWN, WAITING = 0, 1, 2, 3, 4
HELP, COMPLETE = "help", "__complete"  # `parley help COMMAND`; and what the shells' completion calls
SERVE_ENGINE = "serve-engine"  # what `parley serve` starts for each repository

# Each command's module in this package. Its `run` takes the parsed arguments and returns the exit code.
MODULES = {
    "run": "starting.run",
    "continue": "starting.continue_command",
    "demo": "starting.demo",
    "ls": "looking.ls",
    "show": "looking.show",
    "tree": "looking.show",
    "log": "looking.log",
    "cost": "looking.cost",
    "watch": "looking.watch_command",
    "serve": "running.serve_command",
    "inbox": "looking.inbox",
    "answer": "running.answer",
    "notify": "machine.notify",
    "people": "machine.people_command",
    "hosts": "looking.hosts_command",
    "worker": "machine.worker_command",
    "intervene": "running.steer",
    "pause": "running.steer",
    "resume": "running.resume",
    "withdraw": "running.urgent_withdraw",
    "allow": "running.allow",
    "memory": "looking.memory",
    "audit": "looking.audit_command",
    "export": "looking.audit_command",
    "bus": "machine.bus_command",
    "diff": "results.diff",
    "merge": "results.merge_command",
    "pr": "results.pr",
    "gc": "machine.gc",
    "roles": "machine.roles_command",
    "workflow": "workflow.workflow_command",
    "doctor": "machine.doctor",
    "setup": "machine.setup",
    "trust": "machine.trust",
    "completion": "machine.completion",
    "tool": "tool",
}


class CommandError(Exception):
    """An error in one line for the user, with its exit code."""

    def __init__(self, text: str, code: int = BAD_USE) -> None:
        super().__init__(text)
        self.code = code
