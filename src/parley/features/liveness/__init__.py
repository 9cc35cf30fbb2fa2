"""Liveness: agents that show no sign of life, and agents that wait for their provider."""
