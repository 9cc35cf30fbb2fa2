"""Notices to the human, by the services that they named: each once, by a process that no other process waits for."""

from parley.features.notices.handover import LOG, AnswerAddress, NoticeSender, SentNotice, sent_before, try_out

__all__ = ["LOG", "AnswerAddress", "NoticeSender", "SentNotice", "sent_before", "try_out"]
