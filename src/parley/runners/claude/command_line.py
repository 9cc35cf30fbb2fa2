"""Claude Code's command line and environment."""

from __future__ import annotations

import json

from parley.roles.role_snapshot import RoleSnapshot
from parley.runners.claude.login import Login
from parley.runners.claude.offered_tools import SERVER
from parley.sandbox import UNCACHED
from parley.settings.schema import ClaudeSettings

GATEWAY = "http://127.0.0.1:3128"

SWITCHES = {
    # nothing is fetched, sent or kept that the turn does not need
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_FILE_CHECKPOINTING": "1",
    "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",
    # tools that a role does not have are not described either: this halves the first request
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS": "1",
    "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS": "1",
    "CLAUDE_CODE_SIMPLE_SYSTEM_PROMPT": "1",
    # a line that differs from session to session would come before the part that instances of a role share
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    "ENABLE_TOOL_SEARCH": "false",
    # the gateway waits for a failing API, for hours if need be: Claude Code's own timeouts are switched off
    "API_TIMEOUT_MS": "2147483647",
    "API_FORCE_IDLE_TIMEOUT": "0",
    "CLAUDE_ENABLE_BYTE_WATCHDOG": "0",
    "CLAUDE_ENABLE_STREAM_WATCHDOG": "0",
    "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
}


def environment(settings: ClaudeSettings, login: Login, home: str, path: str) -> dict[str, str]:
    """The whole environment: nothing of Parley's own, and no secret."""
    return {
        "PATH": path,
        "HOME": home,
        "CLAUDE_CONFIG_DIR": f"{home}/.claude",
        "ANTHROPIC_BASE_URL": GATEWAY,
        "CLAUDE_CODE_MAX_RETRIES": str(settings.max_retries),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "SHELL": "/bin/bash",
        **SWITCHES,
        **UNCACHED,
        **login.inside,
    }


def arguments(
    command: tuple[str, ...],
    settings: ClaudeSettings,
    role: RoleSnapshot,
    prompt: str,
    tools: tuple[str, ...],
    session: str,
    *,
    resume: bool,
) -> tuple[str, ...]:
    """The command line.

    No settings are read: a file in the workspace could switch the pre-tool check off. In the mode `dontAsk` only what
    that check allows is done, and nothing where the check is not called.
    """
    model = role.model if role.model not in {"", "inherit"} else settings.model
    return (
        *command,
        *("--output-format", "stream-json", "--input-format", "stream-json", "--verbose", "--include-partial-messages"),
        *("--system-prompt", prompt),
        *("--tools", ",".join(tools)),
        *("--permission-mode", "dontAsk", "--permission-prompts", "none"),
        "--setting-sources=",
        *("--strict-mcp-config", "--mcp-config", json.dumps({"mcpServers": {SERVER: {"type": "sdk", "name": SERVER}}})),
        *((f"--model={model}",) if model else ()),
        f"--resume={session}" if resume else f"--session-id={session}",
    )
