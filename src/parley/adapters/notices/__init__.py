"""Notices to the human, by whatever service they read: each once, by a process of its own that nobody waits for."""

from parley.adapters.notices.outbox import LOG, Outbox, Sent, sent_before, try_out

__all__ = ["LOG", "Outbox", "Sent", "sent_before", "try_out"]
