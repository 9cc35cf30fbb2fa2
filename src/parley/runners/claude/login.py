"""Finds Claude Code's login. It stays outside the cage: the gateway puts it into each request."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from parley.settings.schema import ClaudeSettings
from parley_cfa import installation

UPSTREAM = "https://api.anthropic.com"
PATHS = ("/v1/messages", "/v1/messages/count_tokens")
CREDENTIALS = ".credentials.json"
FILE_LIMIT = 1 << 20
STAND_IN = "outside"  # the CLI gets this in place of a key; without one it sends no request

ALLOW = "parley setup --subscription"
NO_LOGIN = (
    "Claude Code has no login: set ANTHROPIC_API_KEY, or log in with a subscription (start `claude`, type /login) "
    "and run `parley setup`"
)
KEY, TOKEN, OAUTH = "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"
# Claude Code's switches for other providers. Their requests are signed where the agent runs: no key could stay outside.
PROVIDERS = {
    "CLAUDE_CODE_USE_BEDROCK": "Amazon Bedrock",
    "CLAUDE_CODE_USE_VERTEX": "Google Vertex AI",
    "CLAUDE_CODE_USE_FOUNDRY": "Microsoft Foundry",
}
INSTEAD = f"set {KEY}, or ANTHROPIC_BASE_URL and {TOKEN} for a gateway"
_OFF = ("", "0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class Login:
    """A login: the headers that the gateway adds outside, and the placeholders inside."""

    origin: str  # where it was found, for people
    upstream: str
    headers: Mapping[str, str] = field(repr=False)
    inside: Mapping[str, str] = field(default_factory=dict)  # environment of the CLI: no secret in it


@dataclass(frozen=True, slots=True)
class FoundLogin:
    """A login of the user's, or something that looks like one."""

    origin: str  # where it lies, for people
    variable: str = ""  # the variable that the CLI reads it from; empty: Parley can't use it
    secret: str = field(default="", repr=False)
    problem: str = ""  # why it can't be used, and what to do; empty: it can

    @property
    def subscription(self) -> bool:
        """Whether it is used only where the user has allowed that."""
        return self.variable == OAUTH

    def login(self, upstream: str) -> Login:
        """The login for the gateway."""
        headers = {"x-api-key": self.secret} if self.variable == KEY else {"authorization": f"Bearer {self.secret}"}
        return Login(self.origin, upstream, headers, {self.variable: STAND_IN})


def no_extra() -> str:
    """What to do where the SDK is not installed, in one line."""
    return f"Claude Code needs the extra `claude`; install it: {installation.read().command('claude')}"


def available(settings: ClaudeSettings, environment: Mapping[str, str]) -> Login | None:
    """The login, where Claude Code can be used. Cheap: it imports nothing."""
    return find_login(settings, environment) if find_spec("claude_agent_sdk") is not None else None


def lacking(settings: ClaudeSettings, environment: Mapping[str, str]) -> str:
    """Why Claude Code can't be used, and what to do, in one line; empty if it can."""
    if find_spec("claude_agent_sdk") is None:
        return no_extra()
    if find_login(settings, environment) is not None:
        return ""
    found = list(logins(environment))
    if any(not one.problem for one in found):  # a subscription that is not allowed
        one = next(one for one in found if not one.problem)
        return f"Claude Code is logged in by {one.origin}, which Parley may not use yet; allow it with: {ALLOW}"
    return f"Claude Code has no login that Parley can use: {found[0].problem}" if found else NO_LOGIN


def find_login(settings: ClaudeSettings, environment: Mapping[str, str]) -> Login | None:
    """The login that the user has: a key, a token for a gateway of their own, or, if they say so, a subscription."""
    upstream = environment.get("ANTHROPIC_BASE_URL", "").rstrip("/") or UPSTREAM
    for one in logins(environment):
        if not one.problem and (settings.subscription or not one.subscription):
            return one.login(upstream)
    return None


def logins(environment: Mapping[str, str]) -> Iterator[FoundLogin]:
    """Every login found, by precedence; then what looks like one and can't be used."""
    found = [_variable(environment, name) for name in (KEY, TOKEN, OAUTH) if environment.get(name, "").strip()]
    found += [*_credentials(environment), *_elsewhere(environment)]
    empty = [name for name in (KEY, TOKEN, OAUTH) if name in environment and not environment[name].strip()]
    found += [FoundLogin(name, problem=f"{name} is set but empty; set it to your key or token") for name in empty]
    yield from sorted(found, key=lambda one: bool(one.problem))


def _variable(environment: Mapping[str, str], name: str) -> FoundLogin:
    """A secret that can go into a header."""
    value = environment[name].strip()
    if value.isprintable() and value.isascii() and " " not in value:
        return FoundLogin(name, name, value)
    return FoundLogin(
        name, name, problem=f"{name} contains a space, a line break or another character that no key has; set it again"
    )


# ---- what Claude Code itself keeps ---------------------------------------------------------------


def _credentials(environment: Mapping[str, str]) -> Iterator[FoundLogin]:
    """The login of a subscription, as Claude Code keeps it."""
    path = _folder(environment) / CREDENTIALS
    shown = _shown(path, environment)
    origin = f"the Claude subscription in {shown}"
    again = "start `claude` and type /login, or run `claude setup-token`"
    try:
        document = _document(path)
        if document is None or "claudeAiOauth" not in document:
            return  # it may hold only the logins of MCP servers
        login = document["claudeAiOauth"]
        token, expires = login["accessToken"], float(login.get("expiresAt") or "inf") / 1000
        sound = isinstance(token, str) and bool(token) and token.isprintable() and token.isascii()
    except OSError as error:
        yield FoundLogin(origin, OAUTH, problem=f"{shown} can't be read ({error.strerror}); make it readable")
        return
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        sound, token, expires = False, "", 0.0
    if not sound:
        yield FoundLogin(origin, OAUTH, problem=f"{shown} holds no login that can be read; log in again: {again}")
    elif expires <= time.time():
        said = (
            f"{origin} expired {_ago(time.time() - expires)} ago; start `claude` once, which renews it, or log in again"
        )
        yield FoundLogin(origin, OAUTH, problem=f"{said}: type /login there, or run `claude setup-token`")
    else:
        yield FoundLogin(origin, OAUTH, token)


def _elsewhere(environment: Mapping[str, str]) -> Iterator[FoundLogin]:
    """Logins of Claude Code's own that Parley can't use: named, so that the user is not told that there is none."""
    folder = _folder(environment)
    settings, state = folder / "settings.json", _state_file(environment)
    try:
        document = _document(settings) or {}
    except (OSError, ValueError, TypeError, RecursionError):
        document = {}
    given = document.get("env")
    variables: Mapping[str, Any] = given if isinstance(given, dict) else {}
    for name, provider in PROVIDERS.items():
        for origin, value in (
            (name, environment.get(name, "")),
            (f"{name} in {_shown(settings, environment)}", variables.get(name, "")),
        ):
            if str(value).strip().lower() not in _OFF:
                yield FoundLogin(
                    origin, problem=f"{origin} is for {provider}, which Parley does not support; {INSTEAD}"
                )
    for name in (KEY, TOKEN, OAUTH):
        if variables.get(name):
            origin = f"{name} in {_shown(settings, environment)}"
            yield FoundLogin(origin, problem=f"{origin} is not read by Parley; set {name} in the environment instead")
    if document.get("apiKeyHelper"):
        origin = f"apiKeyHelper in {_shown(settings, environment)}"
        yield FoundLogin(
            origin, problem=f"{origin} is a program that Parley does not run; set {KEY} to the key that it prints"
        )
    try:
        kept = (_document(state) or {}).get("primaryApiKey")
    except (OSError, ValueError, TypeError, RecursionError):
        kept = None
    if kept:
        origin = f"the key in {_shown(state, environment)}"
        yield FoundLogin(origin, problem=f"{origin} is Claude Code's own, and Parley does not read it; set {KEY}")


def _home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HOME") or "/nonexistent")


def _folder(environment: Mapping[str, str]) -> Path:
    named = environment.get("CLAUDE_CONFIG_DIR")
    return Path(named) if named else _home(environment) / ".claude"


def _state_file(environment: Mapping[str, str]) -> Path:
    named = environment.get("CLAUDE_CONFIG_DIR")
    return (Path(named) if named else _home(environment)) / ".claude.json"


def _shown(path: Path, environment: Mapping[str, str]) -> str:
    """A path as people write it."""
    home = _home(environment)
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def _document(path: Path) -> dict[str, Any] | None:
    """A JSON file of Claude Code's; None if there is none. OSError, ValueError or TypeError where it can't be read."""
    if not path.is_file():  # a pipe of that name would block
        return None
    with path.open("rb") as file:
        found = json.loads(file.read(FILE_LIMIT))
    return {**found}  # a TypeError where it is no object


def _ago(seconds: float) -> str:
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            count = int(seconds / size)
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return "less than a minute"
