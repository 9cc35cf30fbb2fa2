"""Adapters: the outside world behind the ports; each is independent of the others."""
