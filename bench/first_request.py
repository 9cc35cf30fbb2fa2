"""What the first requests of a doer and of a lead hold, beside plain Claude Code's on the same repository and message.

Both talk to a scripted API on loopback: no key is needed. The first request is what every later one of the
conversation repeats, so its size is paid for again and again.
"""

from __future__ import annotations

import json
import queue
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from msgspec import structs

from parley.assembly import roles
from parley.base.json_codec import encode
from parley.cli.running.job_runners import role_prompt
from parley.engine.values.job_roles import offered
from parley.ports.turns import Ended, Order, Site, TurnEvent
from parley.roles import shipped, snapshot_of
from parley.roles.role_snapshot import TOOLS, OrderedRole, RoleSnapshot
from parley.runners.claude import claude_runner, find_program
from parley.sandbox import Boundary
from parley.settings.schema import ClaudeSettings
from tests.apis.messages import MessagesAPI, Request, Script

MESSAGE = "Give `greet` in hello.py a parameter for the name, and test it.\n"
NOTES = "# Notes\nPython 3.11, no dependencies. Run the tests with `python -m unittest`.\n"
FILES = {"CLAUDE.md": NOTES, "hello.py": 'def greet() -> str:\n    return "hello"\n'}
SECONDS, LIMIT_SECONDS = 60.0, 1800.0


def measure(doer: str = "coder", lead: str = "project-lead", skill: str = "execute") -> dict[str, Any]:
    """The bytes of the first requests: all of them, and those beyond the user's own content."""
    known = {role.name: role for role in roles({name: snapshot_of(role) for name, role in shipped().items()}, {})}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        repository = root / "repository"
        repository.mkdir()
        for file, text in FILES.items():
            (repository / file).write_text(text, encoding="utf-8")
        subprocess.run(["git", "init", "-q", str(repository)], check=True)
        ours = _figures(_instance(root, repository, known[doer]))
        leads = _figures(_instance(root, repository, known[lead], (skill,)))
        plain = _figures(_plain(root, repository))
    return {"doer": ours, "lead": leads, "plain": plain, "ratio": round(plain["bytes"] / ours["bytes"], 1)}


def _instance(root: Path, repository: Path, role: RoleSnapshot, skills: tuple[str, ...] = ()) -> Request:
    home = root / role.name
    events: queue.SimpleQueue[TurnEvent] = queue.SimpleQueue()
    boundary = Boundary()
    with MessagesAPI(Script({})) as api:
        environment = {"PATH": "", "ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": api.url}
        runner = claude_runner(
            ClaudeSettings(), boundary, environment, prompt=lambda order: role_prompt(boundary, order)
        )
        try:
            runner.start(_order(repository, home, role, skills), events.put)
            while not isinstance(event := events.get(timeout=2 * SECONDS), Ended):
                pass
        finally:
            runner.close()
            boundary.close()
        if event.fault:
            raise RuntimeError(event.fault)
        return api.requests[0]


def _order(repository: Path, home: Path, role: RoleSnapshot, skills: tuple[str, ...]) -> Order:
    return Order(
        turn="t1",
        job="bench",
        epoch=1,
        token="",
        agent=role.name,
        thread="dispatch:d1",
        message=MESSAGE,
        sender="project-lead",
        state="EXECUTE",
        visit=1,
        site=Site(str(repository)),
        home=str(home),
        handle="",
        may_ask=False,
        time_limit_seconds=LIMIT_SECONDS,
        tools=offered(TOOLS, role.team),
        runner="claude",
        role=encode(OrderedRole(**structs.asdict(role), notes=NOTES)),
        skills=skills,
    )


def _plain(root: Path, repository: Path) -> Request:
    """The same program as its users start it, without anything of Parley's."""
    program = find_program(ClaudeSettings(), {"PATH": ""}).binds[0].source
    with MessagesAPI(Script({})) as api:
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(root / "plain"),
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": api.url,
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        subprocess.run(
            [program, "--print", MESSAGE],
            cwd=repository,
            env=environment,
            check=True,
            capture_output=True,
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
        )
        return api.requests[0]


def _figures(request: Request) -> dict[str, Any]:
    own = sum(len(json.dumps(text)) - 2 for text in (MESSAGE.strip(), NOTES.strip()))
    return {"bytes": len(request.body), "beyond": len(request.body) - own, "tools": len(request.tools)}


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
