"""OpenAI's Codex CLI as an agent: its program, its command line, its JSON events."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from parley.base.text import cut
from parley.ports.turns import RESULT_LIMIT

NAME = "codex"
PACKAGE = "@openai/codex"
UPSTREAM = "https://api.openai.com"
KEY = "OPENAI_API_KEY"
PATHS = ("/v1/responses",)
ENDINGS = ("response.completed", "response.failed", "response.incomplete")  # the events that end a response
NAME_LIMIT = 100  # characters of a tool's name

# Its own features for network access, asking people and dispatching work: all of that goes over the bus.
_OFF = (
    "apps", "goals", "hooks", "image_generation", "memories", "multi_agent", "plugins", "shell_snapshot",
    "skill_search", "sleep_tool", "tool_suggest",
)  # fmt: skip


def find(folder: str = "") -> tuple[Path, Path] | None:
    """The native program, in a folder or on the PATH, and the folder that it needs to run."""
    name = shutil.which(NAME, path=folder or None)
    if name is None:
        return None
    path = Path(os.path.realpath(name))
    if path.suffix != ".js":
        return path, path
    # npm's launcher only starts the native program, which lies in a package beside or below it
    package = path.parents[1]
    for folders in (package.parent, package / "node_modules" / "@openai"):
        for native in sorted(folders.glob(f"{NAME}-linux-*/vendor/*/bin/{NAME}")):
            return native, native.parents[1]
    return None


def words(
    program: str, session: str, gateway: str, bridge: Sequence[str], variables: Sequence[str], model: str, prompt: str
) -> list[str]:
    """The command line. It sets every option, so that no file in the agent's home can."""
    server = {
        "command": bridge[0],
        "args": list(bridge[1:]),
        "env_vars": list(variables),
        "default_tools_approval_mode": "approve",
        "omit_tools_from": ["deferred", "code_mode"],  # the model sees them from the start, as separate tools
        "required": True,
        "tool_timeout_sec": 600,
    }
    provider = {
        "name": "Parley",
        "base_url": f"http://{gateway}/v1",
        "wire_api": "responses",
        "experimental_bearer_token": "added-outside",
        "supports_websockets": False,
        "request_max_retries": 1,
        "stream_max_retries": 3,
        "stream_idle_timeout_ms": 86_400_000,  # the gateway waits for a failing API
    }
    settings: dict[str, object] = {
        "model_provider": "parley",
        "model_providers.parley": provider,
        "mcp_servers.parley": server,
        "approval_policy": "never",
        "sandbox_mode": "danger-full-access",  # the cage confines it
        "check_for_update_on_startup": False,
        "web_search": "disabled",
        "analytics.enabled": False,
        "agents.enabled": False,
        "allow_login_shell": False,
        "shell_environment_policy.ignore_default_excludes": True,  # else `parley tool` would miss its token
        "skills.bundled.enabled": False,
        "skills.include_instructions": False,
        **{f"features.{name}": False for name in _OFF},
    }
    if model:
        settings["model"] = model
    if prompt:
        settings["developer_instructions"] = prompt
    said = [word for key, value in settings.items() for word in ("-c", f"{key}={toml(value)}")]
    call = ["exec", "resume", session] if session else ["exec"]
    return [program, *call, "--json", "--skip-git-repo-check", "--ignore-user-config", "--ignore-rules", *said, "-"]


def toml(value: object) -> str:
    """A value in TOML's words, on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # JSON's escapes are TOML's too, except for characters beyond 16 bits, which stay as they are
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}={toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ",".join(toml(inner) for inner in value) + "]"
    return str(value)


class CodexToolEvent(NamedTuple):
    """What an event tells of a tool's use: that it begins, or is over and with what result."""

    tool: str
    use: str
    over: bool = False
    result: str = ""
    failed: bool = False


def using(event: Mapping[str, Any]) -> CodexToolEvent | None:
    """The use of a tool that an event is about, if it is about one."""
    item, kind = event.get("item"), event.get("type")
    if not isinstance(item, dict) or kind not in ("item.started", "item.completed"):
        return None
    called = cut(str(item.get("tool") or "tool"), NAME_LIMIT)
    tools = {"command_execution": "shell", "mcp_tool_call": called, "file_change": "edit"}
    tool, use = tools.get(str(item.get("type")), ""), str(item.get("id", ""))
    if not tool:
        return None
    if kind == "item.started":
        return CodexToolEvent(tool, use)
    failed = item.get("status") in ("failed", "declined") or item.get("exit_code") not in (None, 0)
    return CodexToolEvent(tool, use, over=True, result=cut(_result(item), RESULT_LIMIT), failed=failed)


def _result(item: Mapping[str, Any]) -> str:
    """What a command printed, or else its exit code; or what a tool answered."""
    printed, error, answer = item.get("aggregated_output"), item.get("error"), item.get("result")
    if isinstance(printed, str):
        return printed.strip() or f"exit {item.get('exit_code')}"
    if isinstance(error, dict):
        return str(error.get("message", ""))
    parts = answer.get("content") if isinstance(answer, dict) else None
    texts = [part.get("text") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return "\n".join(text for text in texts if isinstance(text, str))


def shown(event: Mapping[str, Any]) -> str:
    """What the agent says, or what a tool's use is about; empty if an event tells neither."""
    item = event.get("item")
    if not isinstance(item, dict):
        return str(event.get("message", "")) if event.get("type") == "error" else ""
    kind, done = item.get("type"), event.get("type") == "item.completed"
    if kind == "command_execution":
        return str(item.get("command") or "")
    if kind == "file_change" and done:
        changes = item.get("changes")
        listed = changes if isinstance(changes, list) else []
        return ", ".join(str(change.get("path")) for change in listed if isinstance(change, dict))
    if kind in ("agent_message", "reasoning") and done:
        return str(item.get("text", ""))
    return str(item.get("message", "")) if kind == "error" else ""
