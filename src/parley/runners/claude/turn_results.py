"""Reads the CLI's results: how a turn ended, its usage, how full the context is."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from parley.base.text import cut

LONGEST = 300  # characters of a fault
PARK_SECONDS = 30.0  # where the API does not say how long; doubled each time
PARK_LONGEST = 900.0
WAIT_LONGEST = 7 * 86400.0  # seconds; no API asks for more
MOST = 1e15  # of any count
_REFUSED = {401, 403}
_UNPAID = 402
_UNKNOWN = 404
_LIMITED = 429
_SERVER = 500

_COUNTS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_tokens": "cacheReadInputTokens",
    "cache_creation_tokens": "cacheCreationInputTokens",
    "cost_usd": "costUSD",
}
_CONTEXT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


@dataclass(frozen=True, slots=True)
class Fault:
    """How a turn was lost."""

    text: str
    hard: bool = False
    parked_seconds: float = 0.0
    too_long: bool = False
    unconfined: bool = False


class Lost(Exception):
    """A turn can't go on."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


def fault_of(result: Mapping[str, Any], wait_seconds: float | None, parked_before: int) -> Fault | None:
    """The fault that a result reports. `wait_seconds`: how long the API asked to wait, if known."""
    if not result.get("is_error"):
        return None
    said = _said(result)
    status = result.get("api_error_status")
    if result.get("terminal_reason") == "prompt_too_long" or said.startswith("Prompt is too long"):
        return Fault(
            cut(f"its context is longer than the model takes, even when it is summarized: {said}", LONGEST),
            too_long=True,
        )
    if isinstance(status, int) and status in _REFUSED:
        return Fault(
            cut(f"the API refused the login ({status}): {said}; check ANTHROPIC_API_KEY, or log in again", LONGEST),
            hard=True,
        )
    if status == _UNPAID or "credit balance" in said.lower():
        return Fault(cut(f"the API wants to be paid first: {said}", LONGEST), hard=True)
    if status == _UNKNOWN:
        return Fault(
            cut(f"the API does not know the model: {said}; set another: [claude] model in parley.toml", LONGEST),
            hard=True,
        )
    if isinstance(status, int) and (status == _LIMITED or status >= _SERVER):
        what = "a rate limit is reached" if status == _LIMITED else "the API is overloaded or down"
        seconds = wait_seconds or min(PARK_LONGEST, PARK_SECONDS * 2 ** min(parked_before, 10))
        return Fault(cut(f"{what} ({status}): {said}", LONGEST), parked_seconds=seconds)
    return Fault(cut(f"Claude Code could not go on: {said}", LONGEST))


def _said(result: Mapping[str, Any]) -> str:
    errors = result.get("errors")
    said = "; ".join(str(error) for error in errors) if isinstance(errors, list) and errors else result.get("result")
    return " ".join(str(said or result.get("subtype") or "no reason given").split())


def usage_of(results: Iterable[Mapping[str, Any]], context: float) -> dict[str, float]:
    """The usage of a turn's results together; each counts what came since the one before."""
    used = dict.fromkeys(_COUNTS, 0.0)
    for result in results:
        for model in _documents(result.get("model_usage_since_last_result")):
            for name, key in _COUNTS.items():
                used[name] += number_of(model.get(key))
    return {"turns": 1.0, **used, "context_used": round(context, 4)}


def tokens_of(usage: object) -> float:
    """How many tokens the context held when a response came."""
    return sum(number_of(usage.get(key)) for key in _CONTEXT) if isinstance(usage, dict) else 0.0


def window_of(result: Mapping[str, Any], model: str) -> float:
    """How many tokens the context of a model may hold; 0 if it is not said."""
    models = result.get("modelUsage")
    if not isinstance(models, dict):
        return 0.0
    found = models.get(model) or next(iter(models.values()), None)
    return number_of(found.get("contextWindow")) if isinstance(found, dict) else 0.0


def limit_of(message: Mapping[str, Any]) -> float | None:
    """How many seconds a reported limit lasts, by a retry or by a subscription's window."""
    if message.get("type") == "system" and message.get("subtype") == "api_retry":
        return number_of(message.get("retry_delay_ms")) / 1000 if message.get("error_status") == _LIMITED else None
    if message.get("type") == "rate_limit_event":
        info = message.get("rate_limit_info")
        if isinstance(info, dict) and info.get("status") == "rejected" and info.get("resetsAt"):
            return min(WAIT_LONGEST, max(1.0, number_of(info["resetsAt"]) - time.time()))
    return None


def denials_of(result: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """The tool uses that were not allowed: each id, with its input."""
    denied = result.get("permission_denials")
    for one in denied if isinstance(denied, list) else ():
        if isinstance(one, dict) and isinstance(given := one.get("tool_input"), dict):
            subject = next((str(given[key]) for key in ("command", "file_path", "path") if key in given), "")
            yield str(one.get("tool_use_id", "")), f"{one.get('tool_name')} {subject}".strip()


def written_of(message: Mapping[str, Any]) -> float | None:
    """How many tokens a response has, reported at its end."""
    event = message.get("event") if message.get("type") == "stream_event" else None
    if not isinstance(event, dict) or event.get("type") != "message_delta":
        return None
    usage = event.get("usage")
    return number_of(usage.get("output_tokens")) if isinstance(usage, dict) else None


def wait_of(retry_after: str) -> float | None:
    """How many seconds a `retry-after` header asks for; None where it is absent or a date."""
    try:
        seconds = float(retry_after)
    except ValueError:
        return None
    return seconds if 0 < seconds <= WAIT_LONGEST else None


def _documents(value: Any) -> Iterable[Mapping[str, Any]]:
    return [one for one in value.values() if isinstance(one, dict)] if isinstance(value, dict) else []


def number_of(value: Any) -> float:
    """A count of the CLI's, made safe against forged values: finite and not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value <= MOST else 0.0
