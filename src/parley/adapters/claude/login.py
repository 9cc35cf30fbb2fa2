"""How Claude Code is logged in. Whatever it is, it stays outside: the gateway puts it into each request."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from parley.config import ClaudeSettings
from parley_cfa import installation

UPSTREAM = "https://api.anthropic.com"
PATHS = ("/v1/messages", "/v1/messages/count_tokens")
CREDENTIALS = ".credentials.json"
CREDENTIALS_LIMIT = 1 << 20
STAND_IN = "outside"  # what the CLI is given in place of a key, so that it asks at all

NO_LOGIN = (
    "Claude Code has no login: set ANTHROPIC_API_KEY, or let your subscription be used "
    "(`claude setup-token`, and [claude] subscription = true in parley.toml)"
)


@dataclass(frozen=True, slots=True)
class Login:
    """What is put into requests outside, and what stands in for it inside."""

    origin: str  # where it was found, for people
    upstream: str
    headers: Mapping[str, str] = field(repr=False)
    inside: Mapping[str, str] = field(default_factory=dict)  # environment of the CLI: no secret in it


def no_extra() -> str:
    """What to do where the SDK is not installed, in one line."""
    return f"Claude Code needs the extra `claude`; install it: {installation.read().command('claude')}"


def available(settings: ClaudeSettings, environment: Mapping[str, str]) -> Login | None:
    """The login, where Claude Code can be used: it is cheap to ask, and loads nothing."""
    return find_login(settings, environment) if find_spec("claude_agent_sdk") is not None else None


def lacking(settings: ClaudeSettings, environment: Mapping[str, str]) -> str:
    """What keeps Claude Code from being used, and what to do, in one line; empty if nothing does."""
    if find_spec("claude_agent_sdk") is None:
        return no_extra()
    return "" if find_login(settings, environment) else NO_LOGIN


def find_login(settings: ClaudeSettings, environment: Mapping[str, str]) -> Login | None:
    """The login that the user has: a key, a token for a gateway of their own, or, if they say so, a subscription."""
    upstream = environment.get("ANTHROPIC_BASE_URL", "").rstrip("/") or UPSTREAM
    if key := _secret(environment, "ANTHROPIC_API_KEY"):
        return Login("ANTHROPIC_API_KEY", upstream, {"x-api-key": key}, {"ANTHROPIC_API_KEY": STAND_IN})
    if token := _secret(environment, "ANTHROPIC_AUTH_TOKEN"):
        headers = {"authorization": f"Bearer {token}"}
        return Login("ANTHROPIC_AUTH_TOKEN", upstream, headers, {"ANTHROPIC_AUTH_TOKEN": STAND_IN})
    if settings.subscription:
        origin, token = _subscription(environment)
        if token:
            headers = {"authorization": f"Bearer {token}"}
            return Login(origin, upstream, headers, {"CLAUDE_CODE_OAUTH_TOKEN": STAND_IN})
    return None


def _secret(environment: Mapping[str, str], name: str) -> str:
    """A secret that can go into a header; one with a line break in it is none."""
    value = environment.get(name, "").strip()
    return value if value.isprintable() and value.isascii() else ""


def _subscription(environment: Mapping[str, str]) -> tuple[str, str]:
    """Where the subscription's token was found, and the token: one that is out of date is none."""
    if token := _secret(environment, "CLAUDE_CODE_OAUTH_TOKEN"):
        return "CLAUDE_CODE_OAUTH_TOKEN", token
    home = environment.get("CLAUDE_CONFIG_DIR") or os.path.join(environment.get("HOME", "~"), ".claude")  # noqa: PTH118 - it may be no path at all
    path = Path(home).expanduser() / CREDENTIALS
    try:
        with path.open("rb") as file:
            document = json.loads(file.read(CREDENTIALS_LIMIT))
        login = document["claudeAiOauth"]
        token, expires = str(login["accessToken"]), float(login.get("expiresAt") or "inf") / 1000
    except (OSError, ValueError, KeyError, TypeError):
        return "", ""
    if expires <= time.time() or not token.isprintable():
        return "", ""
    return f"the subscription in {path}", token
