"""What each rule of the protocol does, in one sentence for people; the notation is the rule's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from parley.protocol.rules import RULES

_PARTS = {"§5": "conversations", "§6": "dispatch", "§7": "escalation", "§8": "intervention", "§9": "withdrawal"}
_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "open": "The job begins: its charter, its record in INTENT, and the request in the orchestrator's mailbox.",
        "send": "A message that an agent sent goes into the mailbox of its recipient.",
        "spark": "A message starts a new instance on a thread of its own: a dispatch, or the lead of a state.",
        "send-terminate": "An agent closes a conversation that it had opened; the thread below ends.",
        "send-empty": "All that an agent sent in its turn is delivered; it waits for mail.",
        "wake": "An idle instance takes its oldest letter, and its turn begins.",
        "send-step": "A turn ended, and what the agent sent is on its way.",
        "nosend-step": "A turn ended without a message; the instance waits for mail.",
        "dead-letter": "A letter to a thread that has ended comes back as a notice to its sender.",
        "ask-step": "A turn ended with questions.",
        "ask": "Questions go to the proxy, each on a thread of its own.",
        "send-ask": "Questions that came with messages go to the proxy, after the messages.",
        "escalate": "The proxy puts a question to the human.",
        "human-reply": "The human has answered; the proxy takes up the words.",
        "respond": "The answer goes into the asker's mailbox, and the question is closed.",
        "relay": "A lead is told that the answer to another agent's question leads its state back.",
        "interrupt": "An intervention cuts a running turn short; the instance goes on with the new words.",
        "wake-int": "An idle instance takes up an intervention, before its mail.",
        "intervene": "The human's words are put on a thread, at once or for the end of its turn.",
        "withdraw": "A thread is to end with all below it; who dispatched it is told.",
        "cascade": "The end of a thread is handed down to one below it.",
        "term-run": "The running turn of a thread that ends is stopped.",
        "term-idle": "An idle instance of a thread that ends is gone.",
        "term-mbox": "The mailbox of a thread that ends is gone.",
        "term-send": "What an instance of a thread that ends was sending is dropped.",
        "term-ask": "The questions of a thread that ends are dropped before they were put.",
        "term-proxy": "A question of a thread that ends is dropped at the proxy.",
        "term-human": "A question of a thread that ends no longer waits for the human.",
        "term-interrupt": "An intervention on a thread that ends stays undelivered.",
        "term-record": "The record of a subteam is led to its end with its thread.",
        "term-again": "A thread that is ended twice is ended once.",
        "term-final": "Nothing is left on the thread: it is over for good.",
        "transition": "The job, or a subteam, moves to another state; its gate was open.",
        "strike": "A turn ended without an outcome, or broke a rule: one more is counted against the state.",
        "dialog": "A state can't go on by itself: the human is asked what to do.",
        "pending": "Everything is at rest in a live state; the orchestrator is told to go on.",
        "observe": "A lead has left an outcome record; the orchestrator is told.",
        "recover": "A turn was lost; its message goes back, and it is tried again.",
        "give-up": "A turn was lost once too often; who dispatched it is told.",
        "merge": "An instance is told that the work of one it closed was merged into its own.",
        "enrol": "Roles join the job and the team of an instance.",
        "hold": "A thread, or the whole job, is held: a pause, a spent budget, a wait, a stall.",
        "release": "A hold is over.",
    }
)


@dataclass(frozen=True, slots=True)
class RuleWords:
    """A rule as the page explains it."""

    name: str
    part: str
    words: str
    shape: str = ""
    besides: str = ""
    when: str = ""


def explained(name: str) -> RuleWords:
    """What a rule does; of one that is not known, that it is not."""
    rule = RULES.get(name)
    if rule is None:
        return RuleWords(name, "", "This version of Parley does not know this rule.")
    part = _PARTS.get(rule.section, "beginnings, ends and failures")
    return RuleWords(
        name=name,
        part=part,
        words=_WORDS.get(name, ""),
        shape=rule.shape,
        besides=rule.besides,
        when=rule.when,
    )
