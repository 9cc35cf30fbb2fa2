"""Claude Code as a runner: the real program behind the boundary, driven by its SDK, one process an instance.

Importing this loads nothing of the SDK, which comes with the extra `claude`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib.util import find_spec

from parley.adapters.boundary import Boundary
from parley.adapters.claude.login import Found, Login, available, find_login, lacking, logins, no_extra
from parley.adapters.claude.program import ClaudeError, Program, find_program
from parley.adapters.claude.prompt import RolePrompt, bare_prompt
from parley.config import ClaudeSettings
from parley.ports import Bind, Judge, Order, Runner, unjudged

__all__ = [
    "ClaudeError",
    "Found",
    "Login",
    "Program",
    "available",
    "claude_runner",
    "find_login",
    "find_program",
    "lacking",
    "logins",
]


def claude_runner(
    settings: ClaudeSettings,
    boundary: Boundary,
    environment: Mapping[str, str] | None = None,
    *,
    prompt: RolePrompt = bare_prompt,
    binds: Callable[[Order], tuple[Bind, ...]] = lambda _: (),
    judge: Judge = unjudged,
    idle_seconds: float = 600.0,
) -> Runner:
    """A runner for Claude Code, or a ClaudeError in one line.

    `prompt` makes a role's system prompt from the role and the name of its skill; `binds` says what an instance sees
    besides, such as its `.claude` folder; `judge` says whose a path is, where paths have owners.
    """
    if find_spec("claude_agent_sdk") is None:
        raise ClaudeError(no_extra())
    from parley.adapters.claude.runner import ClaudeRunner  # noqa: PLC0415 - the base install has no SDK

    given = os.environ if environment is None else environment
    if problem := lacking(settings, given):
        raise ClaudeError(problem)
    program = find_program(settings, given)
    return ClaudeRunner(
        settings,
        boundary,
        program,
        lambda: find_login(settings, given),
        prompt=prompt,
        binds=binds,
        judge=judge,
        idle_seconds=idle_seconds,
    )
