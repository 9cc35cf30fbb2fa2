"""Where telemetry goes: by the user's own settings and by OpenTelemetry's own variables. Nowhere, unless they say so.

No repository's file has a say: what is sent of jobs, and to whom, is the user's to decide. The variables go before the
settings, and those that say how to send (headers, certificates, compression, time limits) are read by the exporter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from parley.settings.schema import TelemetrySettings

PROTOCOL = "http/protobuf"
_ENDPOINT, _PROTOCOL = "OTEL_EXPORTER_OTLP_{}ENDPOINT", "OTEL_EXPORTER_OTLP_{}PROTOCOL"


class NotSendable(Exception):
    """Telemetry was asked for and can't be sent: the text says why, and what to do. No job stops for it."""


class Destination(NamedTuple):
    """The address that each signal goes to; None: it is not sent."""

    traces: str | None
    metrics: str | None


def destination(settings: TelemetrySettings, environment: Mapping[str, str]) -> Destination | None:
    """Where telemetry goes; None: nowhere. NotSendable if it can't."""
    if not settings.enabled or environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    traces, metrics = (_address(signal, settings, environment) for signal in ("TRACES", "METRICS"))
    return Destination(traces, metrics) if (traces, metrics) != (None, None) else None


def _address(signal: str, settings: TelemetrySettings, environment: Mapping[str, str]) -> str | None:
    if environment.get(f"OTEL_{signal}_EXPORTER", "").strip().lower() not in ("", "otlp"):
        return None
    address = environment.get(_ENDPOINT.format(f"{signal}_"), "")
    base = environment.get(_ENDPOINT.format("")) or settings.endpoint
    if not address and not base:
        return None
    for variable in (_PROTOCOL.format(f"{signal}_"), _PROTOCOL.format("")):
        if said := environment.get(variable):
            if said != PROTOCOL:
                raise NotSendable(f"{variable} asks for another protocol; Parley sends {PROTOCOL}: set it to that")
            break
    return address or f"{base.rstrip('/')}/v1/{signal.lower()}"
