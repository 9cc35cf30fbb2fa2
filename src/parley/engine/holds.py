"""The causes of holds: each begins with a word that says of what kind it is."""

from __future__ import annotations

from parley.core.terms import Hold

PAUSE = "pause"  # of the whole job, by somebody
LIMIT = "limit"  # of an instance, by a provider's limit; then the time when it ends
DIALOG = "dialog"  # of a lead, by a failure that the human is asked about; then the question
BUDGET = "budget"  # of the whole job, by a budget that is spent; then of what, and whether the job's or the day's
STALL = "stall"  # of an instance that shows no sign of life; then its turn, and when it was last heard of


def kind_of(hold: Hold) -> str:
    """Of what kind a hold is."""
    return hold.cause.partition(" ")[0]


def rest_of(hold: Hold) -> str:
    """What else its cause says."""
    return hold.cause.partition(" ")[2]
