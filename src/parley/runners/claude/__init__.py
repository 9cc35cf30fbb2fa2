"""Claude Code as a runner: the real program behind the boundary, driven by its SDK, one process per instance.

Importing this loads nothing of the SDK, which comes with the extra `claude`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib.util import find_spec

from parley.ports.turns import Bind, Judge, Order, Runner, unjudged
from parley.runners.claude.claude_program import ClaudeError, ClaudeProgram, find_program
from parley.runners.claude.login import FoundLogin, Login, available, find_login, lacking, logins, no_extra
from parley.runners.claude.system_prompt import RolePrompt, bare_prompt
from parley.sandbox import Boundary
from parley.settings.schema import ClaudeSettings

__all__ = [
    "ClaudeError",
    "ClaudeProgram",
    "FoundLogin",
    "Login",
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
    besides, such as its `.claude` folder; `judge` says who owns a path.
    """
    if find_spec("claude_agent_sdk") is None:
        raise ClaudeError(no_extra())
    from parley.runners.claude.claude_runner import ClaudeRunner  # noqa: PLC0415 - the base install has no SDK

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
