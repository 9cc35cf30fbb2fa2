"""Telemetry: a job as an OpenTelemetry trace, and metrics; only where the user asks for it."""
