"""The collector that telemetry is sent to: whether it can be sent to at all, and how people are told of it."""

from __future__ import annotations

from importlib.util import find_spec
from urllib.parse import urlsplit

from parley.features.telemetry.destination import Destination, NotSendable
from parley_cfa import installation


def refuse_missing() -> None:
    """NotSendable where OpenTelemetry is not installed."""
    try:
        missing = any(find_spec(name) is None for name in ("opentelemetry.sdk", "opentelemetry.exporter.otlp"))
    except ModuleNotFoundError:  # not even what they are parts of
        missing = True
    if missing:
        command = installation.read().command("otel")
        raise NotSendable(f"telemetry is asked for, but OpenTelemetry is not installed; install it: {command}")


def shown(address: str) -> str:
    """An address for people: scheme, host and port alone, since the rest may hold a secret."""
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "an address that is none"
    return f"{parts.scheme}://{parts.hostname}{port}" if parts.hostname else "an address that is none"


def where_to(to: Destination) -> str:
    """Where all of it goes, in a few words."""
    signals = (("traces", to.traces), ("metrics", to.metrics))
    return ", ".join(f"{name} to {shown(address)}" for name, address in signals if address is not None)
